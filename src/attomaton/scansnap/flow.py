"""The training dynamics themselves: Y and Z under gradient flow on infinitely long sequences.

With b → c_n (the limit of long sequences) and f_n = c_n/‖c_n‖, where c_{l|n} ∝ P(l|n) e^{z_{ψ(n) l}},

    Ẏ   = η_Y Σ_n π_n f_n (x_n − α_n)ᵀ,            α_n = softmax(Yᵀ f_n)
    ż_m = η_Z Σ_{n: ψ(n) = m} π_n diag(f_n) (I − f_n f_nᵀ) Y (x_n − α_n)

from Y = Z = 0 (Equations 4 and 5 of the paper). Only rows of tokens that stand before a query ever move, and
all columns of tokens that are never a label are equal, so they are kept once: the state has n_used ×
(n_labels + 1) + n_queries × n_used numbers, whatever the vocabulary. Nothing is approximated by that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import log_softmax

from attomaton.errors import UncertifiedSolution
from attomaton.graphs.grouping import distinct_keys, find_keys
from attomaton.scansnap.classes import CorpusClasses
from attomaton.scansnap.law import Rates
from attomaton.tables import Float64, Int64


@dataclass(frozen=True, eq=False)
class Reduced:
    """The numbers of a corpus that the flow needs, on the tokens and labels in use."""

    classes: CorpusClasses

    @cached_property
    def used(self) -> Int64:
        """Tokens that stand before a query."""
        return distinct_keys(self.classes.tokens.astype(np.int64))

    @cached_property
    def labels(self) -> Int64:
        """Tokens that are a label."""
        return distinct_keys(self.classes.labels.astype(np.int64))

    @cached_property
    def queries(self) -> Int64:
        """Tokens that are a query."""
        return distinct_keys(self.classes.queries.astype(np.int64))

    @cached_property
    def law(self) -> Float64:
        """P(l | n) on the used tokens, shape (n_classes, n_used)."""
        table = np.zeros((len(self.classes), len(self.used)))
        table[self.classes.rows, find_keys(self.used, self.classes.tokens.astype(np.int64))] = (
            self.classes.probabilities
        )
        return table

    @cached_property
    def query_of(self) -> Int64:
        """Position of each class's query among the queries."""
        return find_keys(self.queries, self.classes.queries.astype(np.int64))

    @cached_property
    def label_of(self) -> Int64:
        """Position of each class's label among the labels."""
        return find_keys(self.labels, self.classes.labels.astype(np.int64))

    @cached_property
    def n_others(self) -> int:
        """How many tokens are never a label; they share the last column."""
        return self.classes.n_tokens - len(self.labels)

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shapes of Y and Z here."""
        return (len(self.used), len(self.labels) + 1), (len(self.queries), len(self.used))

    def attention(self, scores: Float64) -> Float64:
        """c_n ∝ P(l | n) e^z, shape (n_classes, n_used)."""
        raised = self.law * np.exp(scores - scores.max(axis=1, keepdims=True))[self.query_of]
        return raised / raised.sum(axis=1, keepdims=True)

    def errors(self, decoder: Float64, features: Float64) -> Float64:
        """x_n − α_n, shape (n_classes, n_labels + 1); the last column is that of one other token."""
        logits = features @ decoder
        logits[:, -1] += np.log(self.n_others) if self.n_others else -np.inf
        found = np.exp(log_softmax(logits, axis=1))
        wanted = np.zeros_like(found)
        wanted[np.arange(len(found)), self.label_of] = 1.0
        missed = wanted - found
        missed[:, -1] /= max(self.n_others, 1)
        return missed

    def slope(self, decoder: Float64, scores: Float64, rates: Rates) -> tuple[Float64, Float64]:
        """Ẏ and Ż."""
        weights = self.attention(scores)
        features = weights / np.linalg.norm(weights, axis=1, keepdims=True)
        missed = self.errors(decoder, features) * self.classes.shares[:, None]
        each = np.concatenate([decoder[:, :-1], self.n_others * decoder[:, -1:]], axis=1)
        pull = missed @ each.T
        pull -= features * (features * pull).sum(axis=1, keepdims=True)
        moved = np.zeros_like(scores)
        np.add.at(moved, self.query_of, features * pull)
        return rates.decoder * features.T @ missed, rates.attention * moved


@dataclass(frozen=True, eq=False, repr=False)
class Flow:
    """Y and Z along the flow.

    Attributes
    ----------
    reduced : Reduced
        The corpus on the tokens and labels in use.
    rates : Rates
        Learning rates.
    times : float64 array, shape (n_times,)
        Where the flow was looked at.
    decoder : float64 array, shape (n_times, n_used, n_labels + 1)
        Y; the last column is that of every token which is no label.
    scores : float64 array, shape (n_times, n_queries, n_used)
        Z.
    growth : float64 array, shape (n_times, n_classes)
        B_n, the integral of ż_l / f_{nl}² for the most probable distinct token l of class n; NaN if there is
        none.
    """

    reduced: Reduced
    rates: Rates
    times: Float64
    decoder: Float64
    scores: Float64
    growth: Float64

    def __repr__(self) -> str:
        return f"Flow({self.reduced.classes!r} to t = {self.times[-1]:,g})"

    def attention(self) -> Float64:
        """c_n along the flow, shape (n_times, n_classes, n_used)."""
        return np.stack([self.reduced.attention(scores) for scores in self.scores])

    def loss(self) -> Float64:
        """Mean of −ln α at the right token, shape (n_times,)."""
        out = np.empty(len(self.times))
        for at, (decoder, weights) in enumerate(zip(self.decoder, self.attention(), strict=True)):
            features = weights / np.linalg.norm(weights, axis=1, keepdims=True)
            missed = self.reduced.errors(decoder, features)
            right = missed[np.arange(len(missed)), self.reduced.label_of]
            out[at] = -(self.reduced.classes.shares * np.log1p(-right)).sum()
        return out


def solve_flow(
    classes: CorpusClasses,
    rates: Rates,
    times: Sequence[float] | Float64,
    *,
    rtol: float = 1e-8,
    atol: float = 1e-10,
) -> Flow:
    """Integrate the flow from Y = Z = 0 by scipy's LSODA, which turns to stiff steps where they are needed.

    Parameters
    ----------
    classes : CorpusClasses
        The corpus. The state is dense: for corpora of up to some thousand numbers.
    rates : Rates
        η_Y, η_Z and momentum.
    times : rising, positive
        Where to report.

    Examples
    --------
    >>> from attomaton.scansnap.classes import draw_linear_classes
    >>> flow = solve_flow(draw_linear_classes(2), Rates(decoder=10.0, attention=1.0), [1.0, 100.0])
    >>> common, best = flow.attention()[-1][0][[0, 19]]
    >>> bool(common < 0.01 < best)
    True
    """
    reduced = Reduced(classes)
    first, second = reduced.shapes
    size = first[0] * first[1]
    leading = _leading_tokens(reduced)
    known = leading >= 0
    rows = np.flatnonzero(known)

    def slope(_: float, state: Float64) -> Float64:
        decoder = state[:size].reshape(first)
        scores = state[size : size + second[0] * second[1]].reshape(second)
        moved, lifted = reduced.slope(decoder, scores, rates)
        weights = reduced.attention(scores)[rows, leading[rows]]
        total = reduced.attention(scores)[rows]
        squared = weights**2 / (total**2).sum(axis=1)
        grown = np.zeros(len(classes))
        grown[rows] = lifted[reduced.query_of[rows], leading[rows]] / squared
        return np.concatenate([moved.ravel(), lifted.ravel(), grown])

    asked = np.asarray(times, np.float64)
    start = np.zeros(size + second[0] * second[1] + len(classes))
    found: Any = solve_ivp(
        slope, (0.0, float(asked[-1])), start, method="LSODA", t_eval=asked, rtol=rtol, atol=atol
    )
    if not found.success:
        raise UncertifiedSolution(f"the flow could not be followed to t = {asked[-1]:g}: {found.message}")
    states = found.y.T
    scores = states[:, size : size + second[0] * second[1]]
    growth = states[:, size + second[0] * second[1] :].copy()
    growth[:, ~known] = np.nan
    return Flow(
        reduced,
        rates,
        asked,
        states[:, :size].reshape(-1, *first),
        scores.reshape(-1, *second),
        growth,
    )


def _leading_tokens(reduced: Reduced) -> Int64:
    """Position of the most probable distinct token of each class; negative if it has none."""
    alone = (reduced.law > 0).sum(axis=0) == 1
    own = np.where(alone, reduced.law, 0.0)
    return np.where(own.max(axis=1) > 0, own.argmax(axis=1), -1)
