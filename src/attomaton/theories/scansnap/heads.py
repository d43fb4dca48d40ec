"""The heads of the two papers, which read attention, compute a loss, and return a gradient.

:class:`MassHead` reads the attention on the label (first paper). :class:`TiedHead` and :class:`LearnedHead`
normalise attention and decode it to logits (second paper), with Y = s·I fixed or Y trained from 0. The flow
calls ``head.slope(reduced, attention, decoder)`` with the attention c_n of each class n and the decoder Y.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import log_softmax

from attomaton.base.tables import Float64, Int64
from attomaton.graphs.grouping import find_keys
from attomaton.theories.scansnap.reduced import ReducedCorpus


class HeadSlope(NamedTuple):
    """The losses that a head computes, and their derivatives.

    ``losses`` is −ln α at the label, shape (n_classes,). ``gain`` is −∂L/∂c_n up to a multiple of 𝟙, shape
    (n_classes, n_keys). ``decoder`` is Ẏ for η_Y = 1, with the shape of Y; 0 if Y is not trained.
    """

    losses: Float64
    gain: Float64
    decoder: Float64


@dataclass(frozen=True)
class MassHead:
    """A head that reads attention as probability: the label's probability is the attention mass on it.

    Examples
    --------
    >>> from attomaton.theories import CorpusClasses, Rates, solve_flow
    >>> classes = CorpusClasses.from_table([2], [0], [[1, 3, 0]])  # label 0 is one of four keys
    >>> solve_flow(classes, Rates(1.0, 1.0), [10.0], head=MassHead()).loss().round(3).tolist()
    [0.059]
    """

    trains_decoder: ClassVar[bool] = False

    def slope(self, reduced: ReducedCorpus, attention: Float64, decoder: Float64) -> HeadSlope:
        """Return the losses −ln c_n[label] and −∂L/∂c_n = 1/c_n at the label, elsewhere 0."""
        row = np.arange(len(attention))
        label_key = find_keys(reduced.keys, reduced.labels)[reduced.label_index]  # its column in attention
        on_label = attention[row, label_key]
        gain = np.zeros_like(attention)
        gain[row, label_key] = 1 / on_label
        return HeadSlope(-np.log(on_label), gain, np.zeros_like(decoder))


@dataclass(frozen=True)
class LearnedHead:
    """The head of the second paper: logits Yᵀ c_n/‖c_n‖ over the whole vocabulary, with Y trained from 0.

    Examples
    --------
    >>> from attomaton.theories import Rates, draw_linear_classes, solve_flow
    >>> classes = draw_linear_classes(2)
    >>> solve_flow(classes, Rates(10.0, 1.0), [1.0, 10.0], head=LearnedHead()).loss().round(3).tolist()
    [0.729, 0.038]
    """

    trains_decoder: ClassVar[bool] = True

    def slope(self, reduced: ReducedCorpus, attention: Float64, decoder: Float64) -> HeadSlope:
        """Return the losses, −∂L/∂c_n, and Ẏ = Σ_n π_n f_n (x_n − α_n)ᵀ with the shares π_n."""
        decoded = decode_attention(attention, decoder, reduced.label_index, reduced.classes.n_tokens)
        decoder_slope = decoded.features.T @ (reduced.classes.shares[:, None] * decoded.missed)
        return HeadSlope(decoded.losses, decoded.gain, decoder_slope)


@dataclass(frozen=True)
class TiedHead:
    """The head of the second paper with a fixed decoder Y = ``scale``·I instead of a learned decoder.

    Examples
    --------
    >>> from attomaton.theories import CorpusClasses, Rates, solve_flow
    >>> classes = CorpusClasses.from_table([2], [0], [[1, 3, 0]])  # label 0 is one of four keys
    >>> solve_flow(classes, Rates(1.0, 1.0), [10.0], head=TiedHead(3.0)).loss().round(3).tolist()
    [0.118]
    """

    scale: float
    trains_decoder: ClassVar[bool] = False

    def slope(self, reduced: ReducedCorpus, attention: Float64, decoder: Float64) -> HeadSlope:
        """Return the losses and −∂L/∂c_n; ``decoder`` has no columns, since Y is not trained."""
        # s·I on the rows of the keys, with a column for each token in use and one for all others
        fixed = np.zeros((len(reduced.keys), len(reduced.tokens) + 1))
        fixed[np.arange(len(fixed)), find_keys(reduced.tokens, reduced.keys)] = self.scale
        answer = find_keys(reduced.tokens, reduced.labels)[reduced.label_index]
        decoded = decode_attention(attention, fixed, answer, reduced.classes.n_tokens)
        return HeadSlope(decoded.losses, decoded.gain, np.zeros_like(decoder))


DecoderHead = MassHead | LearnedHead | TiedHead


@dataclass(frozen=True, eq=False)
class DecoderOutput:
    """The losses of a decoder and their derivatives by attention.

    ``losses`` is −ln α at the correct token, shape (n_classes,). Over the keys, shape (n_classes, n_keys),
    ``features`` is f_n = c_n/‖c_n‖, ``returned`` is Y (x_n − α_n), and ``gain`` is −∂L/∂c_n = (I − f_n f_nᵀ)
    Y (x_n − α_n)/‖c_n‖. ``missed`` is x_n − α_n, shape (n_classes, n_columns); its last column is that of a
    single token without a column.
    """

    losses: Float64
    features: Float64
    missed: Float64
    returned: Float64
    gain: Float64


def decode_attention(attention: Float64, decoder: Float64, answer: Int64, n_tokens: int) -> DecoderOutput:
    """Compute the losses of a decoder Y that reads attention, and their derivatives by attention.

    ``attention`` has the shape (n_classes, n_keys), and ``decoder``, which is Y, (n_keys, n_columns). Its
    last column applies to all of the ``n_tokens`` tokens that have no column of their own. ``answer`` has the
    column of each class's label.

    Examples
    --------
    >>> decoder = np.array([[np.log(9), 0.0]])  # one key; a column for one label, one for the nine others
    >>> decode_attention(np.array([[1.0]]), decoder, np.array([0]), 10).losses.round(4).tolist()
    [0.6931]
    """
    norms = np.linalg.norm(attention, axis=1, keepdims=True)
    features = attention / norms
    row = np.arange(len(attention))
    n_others = n_tokens - decoder.shape[1] + 1
    logits = features @ decoder
    # ln Σ e^logit over the tokens of the last column: so the softmax has their total probability there
    logits[:, -1] += np.log(n_others) if n_others else -np.inf
    log_probabilities = log_softmax(logits, axis=1)
    missed = -np.exp(log_probabilities)
    missed[row, answer] += 1.0
    returned = missed @ decoder.T  # with total probabilities, Y (x − α) sums over all tokens
    tangent = returned - features * (features * returned).sum(axis=1, keepdims=True)
    missed[:, -1] /= max(n_others, 1)  # from the total to a single token
    return DecoderOutput(-log_probabilities[row, answer], features, missed, returned, tangent / norms)
