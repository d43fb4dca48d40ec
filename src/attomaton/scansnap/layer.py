"""One layer of attention on given contexts, with the choices of the two papers as parts to exchange.

Attention is the same in both: c_n ∝ P(l | n) e^{z_{ψ(n) l}} over the keys of context n. What is made of it is
a head: :class:`MassHead` reads the label's own mass (first paper), :class:`TiedHead` and :class:`LearnedHead`
normalise c_n and decode it to logits (second paper), with Y = s·I held fixed or Y trained from 0. Whether the
query is a key is decided where the contexts are made, by :func:`.contexts.classes_of_contexts`.

Every head gives −∂L/∂c_n up to a multiple of 1; then ż_m = η_Z Σ_{n: ψ(n) = m} π_n c_n ∘ (g_n − c_n·g_n).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax

from attomaton.errors import InvalidSamples
from attomaton.graphs.grouping import distinct_keys, find_keys
from attomaton.ragged import run_starts
from attomaton.scansnap.classes import CorpusClasses
from attomaton.scansnap.integrate import follow
from attomaton.scansnap.law import Rates
from attomaton.tables import Float64, Int64


@dataclass(frozen=True, eq=False)
class Contexts:
    """Contexts as dense rows on the tokens in use, sorted by query.

    Attributes
    ----------
    tokens, queries : int64 arrays, shapes (n_used,) and (n_queries,)
        The tokens that are a key or a label, and those that are a query, rising.
    law : float64 array, shape (n_contexts, n_used)
        P(l | n).
    shares : float64 array, shape (n_contexts,)
        How often each context occurs.
    query_of, label_of : int64 arrays, shape (n_contexts,)
        Places among ``queries`` and ``tokens``.
    labels : int64 array, shape (n_labels,)
        The tokens that are a label, as places among ``tokens``, rising.
    n_tokens : int
        M.
    """

    tokens: Int64
    queries: Int64
    law: Float64
    shares: Float64
    query_of: Int64
    label_of: Int64
    labels: Int64
    n_tokens: int

    @classmethod
    def from_classes(cls, classes: CorpusClasses) -> "Contexts":
        """The rows of some classes."""
        order = np.argsort(classes.queries, kind="stable")
        queries, labels = classes.queries[order].astype(np.int64), classes.labels[order].astype(np.int64)
        tokens = distinct_keys(np.concatenate([classes.tokens.astype(np.int64), labels]))
        law = np.zeros((len(classes), len(tokens)))
        law[classes.rows, find_keys(tokens, classes.tokens.astype(np.int64))] = classes.probabilities
        found, label_of = distinct_keys(queries), find_keys(tokens, labels)
        return cls(
            tokens,
            found,
            law[order],
            classes.shares[order],
            find_keys(found, queries),
            label_of,
            distinct_keys(label_of),
            classes.n_tokens,
        )

    def attention(self, scores: Float64) -> Float64:
        """c_n for scores of shape (n_queries, n_used), shape (n_contexts, n_used)."""
        raised = self.law * np.exp(scores - scores.max(axis=1, keepdims=True))[self.query_of]
        return raised / raised.sum(axis=1, keepdims=True)

    def sum_by_query(self, rows: Float64) -> Float64:
        """Sums over the contexts of each query, shape (n_queries, n_used)."""
        return np.add.reduceat(rows, self._starts, axis=0)

    @cached_property
    def _starts(self) -> Int64:
        return run_starts(self.query_of)


@dataclass(frozen=True)
class MassHead:
    """P(label) is the attention mass on it: the token-id head of the first paper, log-loss."""

    trains_decoder: ClassVar[bool] = False

    def slope(
        self, contexts: Contexts, attention: Float64, decoder: Float64
    ) -> tuple[Float64, Float64, Float64]:
        """Loss of each context, −∂L/∂c for all, and no movement of a decoder."""
        row = np.arange(len(attention))
        right = attention[row, contexts.label_of]
        gain = np.zeros_like(attention)
        gain[row, contexts.label_of] = 1 / right
        return -np.log(right), gain, np.zeros_like(decoder)


@dataclass(frozen=True)
class LearnedHead:
    """Logits Yᵀ c_n/‖c_n‖ over the whole vocabulary, Y trained from 0: the second paper."""

    trains_decoder: ClassVar[bool] = True

    def slope(
        self, contexts: Contexts, attention: Float64, decoder: Float64
    ) -> tuple[Float64, Float64, Float64]:
        """Loss of each context, −∂L/∂c for all, and Ẏ at η_Y = 1."""
        answer = find_keys(contexts.labels, contexts.label_of)
        loss, gain, features, missed = _decode(contexts, attention, decoder, answer)
        return loss, gain, features.T @ (contexts.shares[:, None] * missed)


@dataclass(frozen=True)
class TiedHead:
    """The same with Y = ``scale``·I held fixed: values and head are the tokens' own identities."""

    scale: float
    trains_decoder: ClassVar[bool] = False

    def slope(
        self, contexts: Contexts, attention: Float64, decoder: Float64
    ) -> tuple[Float64, Float64, Float64]:
        """Loss of each context, −∂L/∂c for all, and no movement of a decoder."""
        fixed = self.scale * np.eye(len(contexts.tokens), len(contexts.tokens) + 1)
        loss, gain, _, _ = _decode(contexts, attention, fixed, contexts.label_of)
        return loss, gain, np.zeros_like(decoder)


Head = MassHead | LearnedHead | TiedHead


@dataclass(frozen=True, eq=False)
class LayerPath:
    """The layer along its flow.

    Attributes
    ----------
    contexts : Contexts
        What it was trained on.
    times : float64 array, shape (n_times,)
        Where it was looked at.
    scores : float64 array, shape (n_times, n_queries, n_used)
        Z.
    losses : float64 array, shape (n_times,)
        The mean loss.
    """

    contexts: Contexts
    times: Float64
    scores: Float64
    losses: Float64

    def attention(self) -> Float64:
        """c_n at the end, shape (n_contexts, n_used)."""
        return self.contexts.attention(self.scores[-1])


def follow_layer(
    classes: CorpusClasses,
    head: Head,
    rates: Rates,
    times: Sequence[float] | Float64,
    *,
    most_slopes: int | None = None,
) -> LayerPath:
    """Gradient flow of the layer from Z = 0 (and Y = 0), by scipy's LSODA; see :func:`.integrate.follow`.

    Examples
    --------
    >>> from attomaton.corpora.samples import Samples
    >>> from attomaton.scansnap.contexts import classes_of_contexts
    >>> contexts = classes_of_contexts(Samples.from_lists([[0, 1, 2]], [0]), query_is_key=True)
    >>> path = follow_layer(contexts, MassHead(), Rates(decoder=1.0, attention=1.0), [100.0])
    >>> path.attention().round(2).tolist()
    [[0.99, 0.0, 0.0]]
    """
    contexts = Contexts.from_classes(classes)
    if isinstance(head, MassHead):
        _check_realisable(contexts)
    n_used = len(contexts.tokens)
    columns = len(contexts.labels) + 1 if head.trains_decoder else 0  # the last: tokens that are no label
    size, shape = n_used * columns, (len(contexts.queries), n_used)

    def parts(state: Float64) -> tuple[Float64, Float64]:
        return state[:size].reshape(n_used, columns), state[size:].reshape(shape)

    def slope(state: Float64) -> Float64:
        decoder, scores = parts(state)
        attention = contexts.attention(scores)
        _, gain, moved = head.slope(contexts, attention, decoder)
        gain -= (attention * gain).sum(axis=1, keepdims=True)
        lifted = contexts.sum_by_query(contexts.shares[:, None] * attention * gain)
        return np.concatenate([rates.decoder * moved.ravel(), rates.attention * lifted.ravel()])

    asked = np.asarray(times, np.float64)
    whole = size + shape[0] * shape[1]
    followed = follow(slope, whole, asked, rtol=1e-7, atol=1e-9, most_slopes=most_slopes)
    states = [parts(state) for state in followed]
    losses = [
        float(contexts.shares @ head.slope(contexts, contexts.attention(scores), decoder)[0])
        for decoder, scores in states
    ]
    return LayerPath(contexts, asked, np.stack([scores for _, scores in states]), np.array(losses))


def _check_realisable(contexts: Contexts) -> None:
    if (contexts.law[np.arange(len(contexts.law)), contexts.label_of] == 0).any():
        raise InvalidSamples("a label is not among its keys, so its mass is 0; keep realisable samples only")


def _decode(
    contexts: Contexts, attention: Float64, decoder: Float64, answer: Int64
) -> tuple[Float64, Float64, Float64, Float64]:
    """Loss, −∂L/∂c, f = c/‖c‖ and x − α, for answers given as columns of Y.

    The last column is that of every token which has none of its own: they stay alike.
    """
    norms = np.linalg.norm(attention, axis=1, keepdims=True)
    features, row = attention / norms, np.arange(len(attention))
    n_others = contexts.n_tokens - decoder.shape[1] + 1
    logits = features @ decoder
    logits[:, -1] += np.log(n_others) if n_others else -np.inf
    chances = log_softmax(logits, axis=1)
    missed = -np.exp(chances)
    missed[row, answer] += 1.0
    pull = missed @ decoder.T  # the others' column counts once for each of them, and so does its chance
    pull -= features * (features * pull).sum(axis=1, keepdims=True)
    missed[:, -1] /= max(n_others, 1)
    return -chances[row, answer], pull / norms, features, missed
