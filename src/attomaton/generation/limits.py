"""Where the flow of token shares ends: its fixed points, found by following it and proved by their residual.

A flow is followed far in ln t; the tokens that are left are taken for the winners, and Newton's method on
ρ_j = 1 over these gives the shares to rounding. What is certified is looked up again from the shares alone:
ρ = 1 on the winners, ρ < 1 elsewhere, and that nearby shares come back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.generation.flow import find_exponents, find_slopes, follow_flow
from attomaton.tables import Bool, Float64, Int64

EXACT = 1e-9
"""The largest |ρ − 1| of a winner, and the least 1 − ρ of any other token, for a limit to be certified."""

FADED = 1e-6
"""Shares below this count as faded when winners are looked for."""

SPANS = (10.0, 100.0, 1_000.0, 10_000.0)
"""How far the flow is followed, in ln t, until its end can be told."""

SAME = 1e-6
"""Limits with shares closer than this are one."""


@dataclass(frozen=True, eq=False)
class Limit:
    """Shares at which the flow stands still.

    Attributes
    ----------
    shares : float64 array, shape (K,)
        x, 0 for tokens that fade.
    exponents : float64 array, shape (K,)
        ρ: 1 for winners; the count of any other token grows like t^ρ.
    residual : float
        The largest |ρ − 1| of a winner.
    slack : float
        The least 1 − ρ of the other tokens; infinite if there are none.
    rate : float
        How the shares come nearer: like t^rate, so that it should be below 0. It is 0 where a whole range of
        shares stands still, and nan where the winners fall into parts that do not reach each other.
    returns : bool
        Whether every token that keeps coming up leads to a winner at once. Otherwise tokens may hold each
        other up away from the winners, and exponents are not told.

    Examples
    --------
    >>> limit = find_limit(np.array([[3.0, 1.0], [3.0, 1.0]]), np.array([0.5, 0.5]))
    >>> limit.shares.tolist(), limit.exponents.round(4).tolist(), round(limit.rate, 4)
    ([1.0, 0.0], [1.0, 0.3333], -0.6667)
    >>> limit.winners.tolist(), limit.certified, limit.neutral
    ([True, False], True, False)
    >>> print(limit)
    ρ = 1 on 1 winner within 0.0e+00, ρ ≤ 1 − 0.667 on 1 other, shares near their limit like t^-0.667
    """

    shares: Float64
    exponents: Float64
    residual: float
    slack: float
    rate: float
    returns: bool

    @property
    def winners(self) -> Bool:
        """Which tokens keep a share, shape (K,)."""
        return self.shares > 0

    @property
    def neutral(self) -> bool:
        """Whether nearby shares stand still, too: which of them a text ends with is then chance."""
        return not self.rate < -EXACT

    @property
    def certified(self) -> bool:
        """Whether this is a fixed point to rounding that attracts every start near it."""
        return self.residual <= EXACT < self.slack and not self.neutral and self.returns

    def __str__(self) -> str:
        others, there = int((~self.winners).sum()), int(self.winners.sum())
        told = f"ρ = 1 on {there} winner{'s' * (there > 1)} within {self.residual:.1e}"
        if others:
            told += f", ρ ≤ 1 − {self.slack:.3g} on {others} other{'s' * (others > 1)}"
        near = "a whole range of shares stands still" if self.neutral else ""
        return f"{told}, {near or f'shares near their limit like t^{self.rate:.3g}'}"


def find_limit(odds: Float64, shares: Float64) -> Limit | None:
    """Where the flow from these shares ends; None if it does not settle.

    Parameters
    ----------
    odds : float64 array, shape (K, K)
        w: rows are queries; from every token every other can be reached.
    shares : float64 array, shape (K,)
        Where it begins, all above 0.

    Examples
    --------
    >>> odds = np.array([[4.0, 1.0], [1.0, 4.0]])  # each token prefers itself: the larger one wins
    >>> [find_limit(odds, np.array([one, 1 - one])).shares.tolist() for one in (0.4, 0.6)]
    [[0.0, 1.0], [1.0, 0.0]]
    """
    before, now = 0.0, shares
    for span in SPANS:
        now = np.maximum(follow_flow(odds, now, np.array([before, span]))[-1], np.finfo(np.float64).tiny)
        limit = _polish(odds, now)
        if limit is not None:
            return limit
        before = span
    return None


def _polish(odds: Float64, shares: Float64) -> Limit | None:
    """The fixed point that shares have come near to, if they have come near to one."""
    kept = shares > FADED
    found = _solve(odds[np.ix_(kept, kept)], shares[kept] / shares[kept].sum())
    if found is None or np.abs(found - shares[kept]).max() > 0.1:
        return None
    whole = np.zeros(len(shares))
    whole[kept] = found
    limit = judge_limit(odds, whole)
    return limit if limit.residual <= EXACT and limit.slack > -EXACT and not limit.rate > EXACT else None


def _solve(odds: Float64, shares: Float64) -> Float64 | None:
    """Newton's method on ρ = 1 over winners, with shares that sum to 1; None if a share leaves (0, 1]."""
    for _ in range(50):
        sums = odds @ shares
        miss = 1.0 - (shares / sums) @ odds
        pulled = odds / sums[:, None]
        slopes = pulled.T - pulled.T @ (shares[:, None] * pulled)
        step: Any = np.linalg.lstsq(
            np.vstack([slopes, np.ones(len(shares))]), np.append(miss, 1.0 - shares.sum()), rcond=1e-12
        )[0]
        shares = shares + step
        if not (shares > 0).all():
            return None
        if np.abs(step).max() < 1e-15:
            break
    return shares / shares.sum()


def judge_limit(odds: Float64, shares: Float64) -> Limit:
    """All that can be said of shares as a limit, from the shares alone.

    Examples
    --------
    >>> odds = np.array([[4.0, 1.0], [1.0, 4.0]])
    >>> judge_limit(odds, np.array([0.5, 0.5])).rate > 0  # a fixed point, and nothing stays there
    True
    """
    there = shares > 0
    exponents = find_exponents(odds, shares)
    residual = float(np.abs(exponents[there] - 1).max())
    slack = float((1 - exponents[~there]).min(initial=np.inf))
    inside = _find_rate(odds[np.ix_(there, there)], shares[there])
    rate = np.nan if np.isnan(inside) else max(inside, -slack)
    held = find_held(odds, there, exponents)
    return Limit(
        shares, np.where(there, 1.0, np.where(held, np.nan, exponents)), residual, slack, rate, not held.any()
    )


def _find_rate(odds: Float64, shares: Float64) -> float:
    """The largest real part of an eigenvalue of the flow on the winners, along shares that sum to 1."""
    if len(shares) == 1:
        return -np.inf
    try:
        slopes = find_slopes(odds, shares)
    except np.linalg.LinAlgError:
        return np.nan
    basis = np.vstack([np.eye(len(shares) - 1), -np.ones(len(shares) - 1)])
    values: Any = np.linalg.eigvals(slopes[:-1] @ basis).real
    return float(values.max())


def find_held(odds: Float64, winners: Bool, exponents: Float64) -> Bool:
    """Which tokens keep coming up through tokens that lead to no winner, shape (K,).

    Examples
    --------
    >>> odds = np.array([[1.0, 0.5, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])  # 0 → 0 or 1, 1 → 2, 2 → 0
    >>> find_held(odds, np.array([True, False, False]), np.array([1.0, 0.5, 0.0])).tolist()
    [False, False, True]
    """
    away = ~winners & ~(odds[:, winners] > 0).any(axis=1)
    comes: Bool = ~winners & (exponents > 0)
    held = np.zeros(len(winners), np.bool_)
    while True:
        more = (odds[away & (comes | held)] > 0).any(axis=0) & ~winners
        if not (more & ~held).any():
            return held
        held = held | more


def find_classes(odds: Float64, first: int | None = None) -> list[Int64]:
    """The sets of tokens that a text does not leave again, each as rising places.

    Parameters
    ----------
    odds : float64 array, shape (K, K)
        w: rows are queries.
    first : int, optional
        The last token of the prompt: only sets that can be reached from it. None means all.

    Examples
    --------
    >>> odds = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> [one.tolist() for one in find_classes(odds)]
    [[1], [2]]
    """
    reach = (odds > 0) | np.eye(len(odds), dtype=np.bool_)
    while True:
        further: Bool = (reach.astype(np.float32) @ reach.astype(np.float32)) > 0
        if (further == reach).all():
            break
        reach = further
    closed = (reach <= reach.T).all(axis=1)
    seen = closed if first is None else closed & reach[first]
    sets = {tuple(np.flatnonzero(reach[place]).tolist()) for place in np.flatnonzero(seen)}
    return [np.array(one, np.int64) for one in sorted(sets)]


def find_single(odds: Float64, among: Int64) -> Iterator[Limit]:
    """Every limit that is a single token, of these: the token must prefer itself to all others.

    Examples
    --------
    >>> [one.shares.tolist() for one in find_single(np.array([[4.0, 1.0], [1.0, 4.0]]), np.arange(2))]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    for place in among[odds[among, among] >= odds[among].max(axis=1)].tolist():
        limit = judge_limit(odds, np.eye(len(odds))[place])
        if limit.certified:
            yield limit


def draw_starts(n_tokens: int, n_starts: int, rng: np.random.Generator) -> Iterator[Float64]:
    """Shares to begin with: each token with nine tenths of all, then drawn ones; ``n_starts`` at most.

    Examples
    --------
    >>> [one.round(2).tolist() for one in draw_starts(2, 2, np.random.default_rng(0))]
    [[0.9, 0.1], [0.1, 0.9]]
    """
    if n_tokens == 1:
        return
    for number in range(n_starts):
        if number < n_tokens:
            shares = np.full(n_tokens, 0.1 / (n_tokens - 1))
            shares[number] = 0.9
            yield shares
        else:
            yield np.maximum(rng.dirichlet(np.ones(n_tokens)), 1e-6)
