"""The heads of the two papers: what reads attention, gives a loss, and sends a gradient back.

Attention is the same in both papers: c_n ∝ P(l | n) e^{z_{ψ(n) l}} over the keys l of class n, ψ(n) its
query. :class:`MassHead` reads the attention on the label (first paper); :class:`TiedHead` and
:class:`LearnedHead` normalise c_n and decode it to logits (second paper), with Y = s·I fixed or Y trained
from 0. Whether the query itself is a key is decided where classes are made from contexts
(:func:`~attomaton.theories.scansnap.classes.classes_of_contexts`).

Every head returns −∂L/∂c_n up to a multiple of the vector of ones, which the flow
(:mod:`~attomaton.theories.scansnap.flow`) removes.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax

from attomaton.base.tables import Float64, Int64
from attomaton.graphs.grouping import find_keys
from attomaton.theories.scansnap.reduced import ReducedCorpus

Slope = tuple[Float64, Float64, Float64]
"""The loss of each class, (n_classes,); −∂L/∂c, (n_classes, n_keys); Ẏ at η_Y = 1, of the shape of Y."""


@dataclass(frozen=True)
class MassHead:
    """P(label) is the attention mass on it: the token-id head of the first paper, log-loss.

    Examples
    --------
    >>> from attomaton.theories.scansnap.classes import CorpusClasses
    >>> reduced = ReducedCorpus(CorpusClasses.from_table([2], [0], [[1, 3, 0]]))  # label 0: 1 of 4 keys
    >>> losses, gain, _ = MassHead().slope(reduced, reduced.probabilities, np.zeros((2, 0)))
    >>> losses.round(4).tolist(), gain.tolist()  # ln 4, and 1/c at the label
    ([1.3863], [[4.0, 0.0]])
    """

    trains_decoder: ClassVar[bool] = False

    def slope(self, reduced: ReducedCorpus, attention: Float64, decoder: Float64) -> Slope:
        """Losses, −∂L/∂c, and an empty Ẏ."""
        row = np.arange(len(attention))
        column = find_keys(reduced.keys, reduced.labels)[reduced.label_index]
        on_label = attention[row, column]
        gain = np.zeros_like(attention)
        gain[row, column] = 1 / on_label
        return -np.log(on_label), gain, np.zeros_like(decoder)


@dataclass(frozen=True)
class LearnedHead:
    """Logits Yᵀ c_n/‖c_n‖ over the whole vocabulary, Y trained from 0: the second paper.

    Examples
    --------
    >>> from attomaton.theories.scansnap.classes import CorpusClasses
    >>> weights = np.eye(2, 10, k=1) + np.eye(1, 10)  # two classes: a distinct token each, and token 0
    >>> reduced = ReducedCorpus(CorpusClasses.from_table([3, 4], [5, 6], weights))
    >>> losses, gain, slope = LearnedHead().slope(reduced, reduced.probabilities, np.zeros((3, 3)))
    >>> losses.round(4).tolist(), np.abs(gain).max().item()  # ln 10; while Y is 0 it gives nothing back
    ([2.3026, 2.3026], 0.0)
    >>> slope[1].round(3).tolist()  # Y of a distinct token: towards its label, away from all others
    [0.318, -0.035, -0.035]
    """

    trains_decoder: ClassVar[bool] = True

    def slope(self, reduced: ReducedCorpus, attention: Float64, decoder: Float64) -> Slope:
        """Losses, −∂L/∂c, and Ẏ at η_Y = 1."""
        decoded = decode_attention(attention, decoder, reduced.label_index, reduced.classes.n_tokens)
        decoder_slope = decoded.features.T @ (reduced.classes.shares[:, None] * decoded.missed)
        return decoded.losses, decoded.gain, decoder_slope


@dataclass(frozen=True)
class TiedHead:
    """The logits of the second paper with fixed Y = ``scale``·I: a token with all attention has that logit.

    Examples
    --------
    >>> from attomaton.theories.scansnap.classes import CorpusClasses
    >>> reduced = ReducedCorpus(CorpusClasses.from_table([2], [0], [[1, 1, 0]]))  # label 0, one of two keys
    >>> losses, gain, _ = TiedHead(3.0).slope(reduced, reduced.probabilities, np.zeros((2, 0)))
    >>> bool(gain[0, 0] > 0 > gain[0, 1])  # towards the label
    True
    """

    scale: float
    trains_decoder: ClassVar[bool] = False

    def slope(self, reduced: ReducedCorpus, attention: Float64, decoder: Float64) -> Slope:
        """Losses, −∂L/∂c, and an empty Ẏ."""
        tokens = reduced.tokens
        fixed = np.zeros((len(reduced.keys), len(tokens) + 1))
        fixed[np.arange(len(fixed)), find_keys(tokens, reduced.keys)] = self.scale
        answer = find_keys(tokens, reduced.labels)[reduced.label_index]
        decoded = decode_attention(attention, fixed, answer, reduced.classes.n_tokens)
        return decoded.losses, decoded.gain, np.zeros_like(decoder)


DecoderHead = MassHead | LearnedHead | TiedHead


@dataclass(frozen=True, eq=False)
class DecoderOutput:
    """What the decoder makes of attention.

    ``losses`` is −ln α at the correct token, shape (n_classes,). Over the keys, shape (n_classes, n_keys),
    ``features`` is f_n = c_n/‖c_n‖, ``returned`` is Y (x_n − α_n), and ``gain`` is −∂L/∂c_n = (I − f_n f_nᵀ)
    Y (x_n − α_n)/‖c_n‖. ``missed`` is x_n − α_n, shape (n_classes, n_columns): its last column is that of a
    single token without a column.
    """

    losses: Float64
    features: Float64
    missed: Float64
    returned: Float64
    gain: Float64


def decode_attention(attention: Float64, decoder: Float64, answer: Int64, n_tokens: int) -> DecoderOutput:
    """Decode attention by Y.

    Parameters
    ----------
    attention : float64 array, shape (n_classes, n_keys)
        c_n.
    decoder : float64 array, shape (n_keys, n_columns)
        Y; its last column is for all tokens that have no separate column, and stay alike.
    answer : int64 array, shape (n_classes,)
        The column of each class's label.
    n_tokens : int
        M.

    Examples
    --------
    >>> decoder = np.array([[np.log(9), 0.0]])  # one key; a column for one label, one for the nine others
    >>> decoded = decode_attention(np.array([[1.0]]), decoder, np.array([0]), 10)
    >>> np.exp(-decoded.losses).round(6).tolist(), decoded.missed.round(4).tolist()
    ([0.5], [[0.5, -0.0556]])
    """
    norms = np.linalg.norm(attention, axis=1, keepdims=True)
    features, row = attention / norms, np.arange(len(attention))
    n_others = n_tokens - decoder.shape[1] + 1
    logits = features @ decoder
    logits[:, -1] += np.log(n_others) if n_others else -np.inf
    log_probabilities = log_softmax(logits, axis=1)
    missed = -np.exp(log_probabilities)
    missed[row, answer] += 1.0
    returned = missed @ decoder.T  # the shared column, and its probability, count once per token
    tangent = returned - features * (features * returned).sum(axis=1, keepdims=True)
    missed[:, -1] /= max(n_others, 1)
    return DecoderOutput(-log_probabilities[row, answer], features, missed, returned, tangent / norms)
