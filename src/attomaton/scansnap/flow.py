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

import numpy as np
from scipy.special import log_softmax

from attomaton.options import real_number
from attomaton.scansnap.classes import CorpusClasses
from attomaton.scansnap.integrate import follow
from attomaton.scansnap.law import Rates
from attomaton.scansnap.reduced import Reduced
from attomaton.tables import Float64, Int64


def find_errors(reduced: Reduced, decoder: Float64, features: Float64) -> Float64:
    """x_n − α_n, shape (n_classes, n_labels + 1); the last column is that of one token which is no label."""
    logits = features @ decoder
    logits[:, -1] += np.log(reduced.n_others) if reduced.n_others else -np.inf
    missed = -np.exp(log_softmax(logits, axis=1))
    missed[np.arange(len(missed)), reduced.label_of] += 1.0
    missed[:, -1] /= max(reduced.n_others, 1)
    return missed


def find_slope(
    reduced: Reduced, decoder: Float64, scores: Float64, rates: Rates
) -> tuple[Float64, Float64, Float64]:
    """Ẏ, Ż, and f_n, of shape (n_classes, n_used)."""
    weights = reduced.attention(scores)
    features = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    missed = find_errors(reduced, decoder, features) * reduced.classes.shares[:, None]
    each = np.concatenate([decoder[:, :-1], reduced.n_others * decoder[:, -1:]], axis=1)
    pull = missed @ each.T
    pull -= features * (features * pull).sum(axis=1, keepdims=True)
    moved = np.zeros_like(scores)
    np.add.at(moved, reduced.query_of, features * pull)
    return rates.decoder * features.T @ missed, rates.attention * moved, features


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

    Examples
    --------
    >>> from attomaton.scansnap.classes import draw_linear_classes
    >>> flow = solve_flow(draw_linear_classes(2), Rates(decoder=10.0, attention=1.0), [1.0, 100.0])
    >>> flow.loss().round(3).tolist(), flow.entropy().round(3).tolist()  # attention grows sparser
    ([0.729, 0.003], [2.15, 2.104])
    >>> flow.attention().shape  # times, classes, tokens in use
    (2, 2, 30)
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
        return self.reduced.attention(self.scores)

    def entropy(self) -> Float64:
        """Entropy of attention on distinct tokens, mean over the classes that have any, shape (n_times,)."""
        return self.reduced.distinct_entropy(self.attention())

    def loss(self) -> Float64:
        """Mean of −ln α at the right token, shape (n_times,)."""
        out = np.empty(len(self.times))
        for at, (decoder, weights) in enumerate(zip(self.decoder, self.attention(), strict=True)):
            features = weights / np.linalg.norm(weights, axis=1, keepdims=True)
            missed = find_errors(self.reduced, decoder, features)
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
        η_Y and η_Z.
    times : rising, positive
        Where to report.
    rtol, atol : float
        Largest errors of one step of the integration, relative and absolute.

    Examples
    --------
    >>> from attomaton.scansnap.classes import draw_linear_classes
    >>> flow = solve_flow(draw_linear_classes(2), Rates(decoder=10.0, attention=1.0), [1.0, 100.0])
    >>> flow.attention()[:, 0, [0, 19]].round(3).tolist()  # a common token, and the best distinct one
    [[0.064, 0.065], [0.057, 0.089]]
    """
    rtol, atol = real_number(rtol, "rtol", least=1e-13), real_number(atol, "atol", least=1e-20)
    reduced = Reduced(classes)
    parts = _Parts(reduced)
    leading = _leading_tokens(reduced)
    rows = np.flatnonzero(leading >= 0)

    def slope(state: Float64) -> Float64:
        decoder, scores = parts.split(state)[:2]
        moved, lifted, features = find_slope(reduced, decoder, scores, rates)
        grown = np.zeros(len(classes))
        grown[rows] = lifted[reduced.query_of[rows], leading[rows]] / features[rows, leading[rows]] ** 2
        return np.concatenate([moved.ravel(), lifted.ravel(), grown])

    asked = np.asarray(times, np.float64)
    states = follow(slope, parts.size, asked, rtol=rtol, atol=atol)
    decoder, scores, growth = parts.split(states)
    return Flow(reduced, rates, asked, decoder, scores, np.where(leading >= 0, growth, np.nan))


@dataclass(frozen=True)
class _Parts:
    """Y, Z and B in one row of numbers."""

    reduced: Reduced

    @property
    def size(self) -> int:
        """How many numbers."""
        return sum(rows * columns for rows, columns in self.reduced.shapes) + len(self.reduced.classes)

    def split(self, states: Float64) -> tuple[Float64, Float64, Float64]:
        """Y, Z and B of states of shape (..., size)."""
        (first, second), lead = self.reduced.shapes, states.shape[:-1]
        middle = first[0] * first[1]
        end = middle + second[0] * second[1]
        decoder, scores = states[..., :middle], states[..., middle:end]
        return decoder.reshape(*lead, *first), scores.reshape(*lead, *second), states[..., end:]


def _leading_tokens(reduced: Reduced) -> Int64:
    """Position of the most probable distinct token of each class; negative if it has none."""
    own = reduced.law * reduced.is_own
    return np.where(own.max(axis=1) > 0, own.argmax(axis=1), -1)
