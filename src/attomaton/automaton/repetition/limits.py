"""The limits of the flow of token shares: fixed points, found by following it, proved by their residual.

A flow is followed far in ln t; the remaining tokens are taken as the winners, and Newton's method on ρ_j = 1
over these gives the shares to rounding. The certificate is recomputed from the shares alone: ρ = 1 on the
winners, ρ < 1 elsewhere, and that nearby shares return.

If some fading token also has ρ = 1, the first order does not decide. Let Z be these tokens and y their
shares. Near the limit dy_j / d ln t = y_j ((A y)_j + O(y²)), where column k of A is the derivative of q_j /
x_j along the direction d with d_k = 1, d = 0 on the rest of Z, Σ d = 0, in which the flow is stationary to
first order. If the matrix with A's diagonal and the positive part of A elsewhere has its eigenvalues left of
0, then it maps some u > 0 to a vector below 0, and max_j y_j / u_j falls like 1/ln t: all shares near the
limit return. A single token in Z with A > 0 drives them away.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.native import find_steady
from attomaton.base.tables import Bool, Float64, Int64

FLOW_RTOL = 1e-9
"""Relative error of one step of the flow."""

MOST_EVALUATIONS = 5_000
"""Maximum number of evaluations of one flow, less than a second for few tokens."""

ALL_EVALUATIONS = 60_000
"""Maximum number of evaluations of several flows together."""

MOST_ODDS_READ = 200_000_000
"""Entries of the odds that several flows together may read, beyond 1,000 evaluations."""

LOWEST = -300.0
"""ln x below which a token counts as this rare when rates are found: products stay within float64."""


def find_exponents(odds: Float64, shares: Float64) -> Float64:
    """ρ, shape (K,), at these shares; rows whose tokens have all faded do not count."""
    taken = np.divide(shares, odds @ shares, out=np.zeros(len(shares)), where=shares > 0)
    return taken @ odds


def find_rates(logs: Float64, heights: Float64) -> Float64:
    """d ln x_j / d ln t = q_j / x_j − 1, shape (K,), from ln w and ln x."""
    order = np.argsort(-heights)
    near = np.maximum(heights[order] - heights[order[0]], LOWEST)
    reached = logs[np.ix_(order, order)] + near
    probabilities = np.exp(reached - reached.max(axis=1, keepdims=True))
    steady = find_steady(np.ascontiguousarray(probabilities / probabilities.sum(axis=1, keepdims=True)))
    shares, rates = np.exp(near), np.empty(len(heights))
    rates[order] = steady * shares.sum() / shares - 1.0
    return rates


def allow_evaluations(n_tokens: int) -> Iterator[int]:
    """The shared budget of steps of several flows with this number of tokens."""
    return iter(range(min(ALL_EVALUATIONS, 1_000 + MOST_ODDS_READ // n_tokens**2)))


def follow_flow(
    odds: Float64, shares: Float64, times: Float64, allowed: Iterator[int] | None = None
) -> Float64:
    """Shares along the flow from the first time, shape (n_times, K)."""
    from scipy.integrate import solve_ivp

    with np.errstate(divide="ignore"):
        logs = np.log(odds)

    left = islice(allow_evaluations(len(odds)) if allowed is None else allowed, MOST_EVALUATIONS)

    def move(_: float, heights: Float64) -> Float64:
        if next(left, None) is None:
            raise UncertifiedSolution(
                f"the flow of shares of {len(odds):,} tokens takes too long to follow, since shares move at "
                "very different rates; give fewer tokens, or the scores at an earlier step (auto.at(step))"
            )
        return find_rates(logs, heights)

    if len(times) == 1:
        return shares[None].copy()
    solver: Any = solve_ivp
    solution = solver(
        move,
        (times[0], times[-1]),
        np.log(shares),
        t_eval=times,
        method="LSODA",
        rtol=FLOW_RTOL,
        atol=FLOW_RTOL,
    )
    heights: Float64 = solution.y.T
    if not solution.success or not np.isfinite(heights).all():
        raise UncertifiedSolution(
            "the flow of shares cannot be followed to its end in float64; the odds differ by too many orders "
            "of magnitude, or there are too many tokens: give fewer tokens, or the scores at an "
            "earlier step (auto.at(step))"
        )
    grown = np.exp(heights - heights.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def find_slopes(odds: Float64, shares: Float64) -> Float64:
    """The derivative of q(x) − x on the winners, shape (K, K): row j, column k is ∂(q_j − x_j)/∂x_k."""
    sums = odds @ shares
    probabilities = np.ascontiguousarray(odds * shares / sums[:, None])
    steady = find_steady(probabilities)
    around = np.linalg.inv(np.eye(len(odds)) - probabilities + steady)
    pulled = (steady / sums)[:, None] * odds
    moved = np.diag(pulled.sum(axis=0)) - probabilities.T @ pulled
    return (moved.T @ around).T - np.eye(len(odds))


EXACT_SHARE = 1e-9
"""The largest |ρ − 1| of a winner, and the smallest 1 − ρ of any other token, for a limit to be certified."""

FADED_SHARE = 1e-6
"""Shares below this count as faded in the search for winners."""

TIED_EXPONENT = 1e-12
"""Threshold below which |1 − ρ| of a fading token, or a singular value, is 0 up to rounding."""

BEND_MARGIN = 1e-6
"""Distance from 0 at which the second order decides."""

NEAR_LIMIT = 0.01
"""Distance to a limit at which a flow counts as ending there."""

SPANS = (10.0, 100.0, 1_000.0, 10_000.0)
"""Lengths in ln t to which the flow is followed in search of its limit."""

SAME = 1e-6
"""Limits with shares closer than this are one."""


@dataclass(frozen=True, eq=False)
class Limit:
    """Shares at which the flow is stationary.

    Attributes
    ----------
    shares : float64 array, shape (K,)
        x, 0 for tokens that fade.
    exponents : float64 array, shape (K,)
        ρ: 1 for winners; the count of any other token grows like t^ρ.
    residual : float
        The largest |ρ − 1| of a winner.
    slack : float
        The smallest 1 − ρ of the other tokens; infinite if there are none.
    rate : float
        The largest real part of an eigenvalue of the flow: if negative, shares approach the limit like
        t^rate. It is NaN if the winners fall into parts that do not reach each other.
    bend : float
        Decides where the rate is 0 because some fading tokens also have ρ = 1: if negative, all shares near
        the limit return to it, like 1/ln t. NaN where this number is not needed or not available.
    neutral : bool
        Whether the limit is proved to lie on a line of stationary shares. If so, it is random which of these
        shares a text ends with.
    returns : bool
        Whether every token that keeps recurring leads directly to a winner. Otherwise tokens may sustain each
        other away from the winners, and exponents are unknown.
    """

    shares: Float64
    exponents: Float64
    residual: float
    slack: float
    rate: float
    bend: float
    neutral: bool
    returns: bool

    @property
    def winners(self) -> Bool:
        """Which tokens keep a share, shape (K,)."""
        return self.shares > 0

    @property
    def ties(self) -> Bool:
        """Which fading tokens have ρ = 1, shape (K,)."""
        return ~self.winners & (np.abs(1 - self.exponents) <= TIED_EXPONENT)

    @property
    def decided(self) -> Float64:
        """The exponents, nan where first and second order do not determine the growth, shape (K,)."""
        return np.where(self.ties & (not self.slow), np.nan, self.exponents)

    @property
    def slow(self) -> bool:
        """Whether shares return like 1/ln t, which is slower than any power of t."""
        return self.bend < -BEND_MARGIN

    @property
    def certified(self) -> bool:
        """Whether this is a fixed point to rounding that attracts every start near it."""
        attracts = self.slow or (self.slack > EXACT_SHARE and self.rate < -EXACT_SHARE)
        return self.residual <= EXACT_SHARE and attracts and self.returns

    def __str__(self) -> str:
        n_fading, n_winners = int((~self.winners).sum()), int(self.winners.sum())
        words = [f"ρ = 1 on {n_winners} winner{'s' * (n_winners > 1)} within {self.residual:.1e}"]
        if n_fading:
            ties = int(self.ties.sum())
            most = f"also ρ = 1 on {ties} of" if ties else f"ρ ≤ 1 − {self.slack:.3g} on"
            words.append(f"{most} {n_fading} other{'s' * (n_fading > 1)}")
        return ", ".join([*words, self._approach()])

    def _approach(self) -> str:
        if self.certified:
            return f"shares near their limit like {'1/ln t' if self.slow else f't^{self.rate:.3g}'}"
        if self.neutral:
            return "a whole range of shares is stationary"
        if not self.returns:
            why = "some fading tokens lead to no winner"
        elif self.bend > BEND_MARGIN:
            why = "to second order some tokens with ρ = 1 grow"
        else:
            why = "the first and second order do not decide"
        return f"the flow comes near, but convergence from all nearby shares is not proved: {why}"


def find_limit(odds: Float64, shares: Float64, allowed: Iterator[int] | None = None) -> Limit | None:
    """The limit of the flow from these shares; None if it does not converge."""
    before, now, last = 0.0, shares, None
    allowed = islice(allow_evaluations(len(odds)) if allowed is None else allowed, MOST_EVALUATIONS)
    with np.errstate(divide="ignore"):
        logs = np.log(odds)
    for span in SPANS:
        try:
            now = follow_flow(odds, now, np.array([before, span]), allowed)[-1]
        except UncertifiedSolution:
            return last
        now, before = np.maximum(now, np.finfo(np.float64).tiny), span
        present: Bool = now > FADED_SHARE
        fading = present & (find_rates(logs, np.log(now)) * span < -0.5)  # 1/ln t falls at the rate −1/ln t
        near = [
            limit for limit in (_polish(odds, now, present), _polish(odds, now, present & ~fading)) if limit
        ]
        proved = [limit for limit in near if limit.certified or limit.neutral]
        if proved:
            return proved[0]
        last = near[-1] if near else None
    return last


def _polish(odds: Float64, shares: Float64, winners: Bool) -> Limit | None:
    """The fixed point with these winners near the shares, if it exists."""
    whole = np.where(winners, shares, 0.0)
    while True:
        alive = whole > FADED_SHARE
        if not alive.any():
            return None
        solved = _solve_winners(odds[np.ix_(alive, alive)], whole[alive] / whole[alive].sum())
        if solved is None:
            return None
        whole = np.zeros(len(shares))
        whole[alive] = solved
        if solved.min() > FADED_SHARE:
            break
    limit = judge_limit(odds, whole)
    leaves = not np.abs(whole - shares).max() <= NEAR_LIMIT or (
        limit.bend > BEND_MARGIN and limit.ties.sum() == 1
    )
    fixed = limit.residual <= EXACT_SHARE and limit.slack >= -TIED_EXPONENT and not limit.rate > EXACT_SHARE
    return limit if fixed and not leaves else None


def _solve_winners(odds: Float64, shares: Float64) -> Float64 | None:
    """Newton's method on ρ = 1 over winners, with shares that sum to 1; None if a share leaves (0, 1]."""
    if not (odds > 0).any(axis=1).all():
        return None
    for _ in range(50):
        sums = odds @ shares
        miss = 1.0 - (shares / sums) @ odds
        pulled = odds / sums[:, None]
        slopes = pulled.T - pulled.T @ (shares[:, None] * pulled)
        step: Any = np.linalg.lstsq(
            np.vstack([slopes, np.ones(len(shares))]), np.append(miss, 1.0 - shares.sum()), rcond=1e-12
        )[0]
        shares = shares + step
        if not ((shares > 0) & (shares < 2)).all():
            return None
        if np.abs(step).max() < 1e-15:
            break
    return shares / shares.sum()


def judge_limit(odds: Float64, shares: Float64) -> Limit:
    """The properties of shares as a limit, from the shares alone."""
    winners = shares > 0
    exponents = find_exponents(odds, shares)
    residual = float(np.abs(exponents[winners] - 1).max())
    slack = float((1 - exponents[~winners]).min(initial=np.inf))
    inside = _find_rate(odds[np.ix_(winners, winners)], shares[winners])
    astray = find_astray(odds, winners, exponents)
    tied: Bool = ~winners & (np.abs(1 - exponents) <= TIED_EXPONENT)
    fading_slack = (1 - exponents[~winners & ~tied]).min(initial=np.inf)
    fixed = residual <= EXACT_SHARE and inside < -EXACT_SHARE and fading_slack > EXACT_SHARE
    return Limit(
        shares,
        np.where(winners, 1.0, np.where(astray, np.nan, exponents)),
        residual,
        slack,
        np.nan if np.isnan(inside) else max(inside, -slack),
        _find_bend(odds, shares, tied) if fixed and tied.any() and not astray.any() else np.nan,
        _has_line(odds[np.ix_(winners, winners)], shares[winners]),
        not astray.any(),
    )


def _find_bend(odds: Float64, shares: Float64, tied: Bool) -> float:
    """An upper bound on the largest eigenvalue of A's diagonal plus the positive part elsewhere."""
    involved = (shares > 0) | tied
    odds, shares, tied = odds[np.ix_(involved, involved)], shares[involved], tied[involved]
    slopes, sums = find_slopes(odds, shares), odds @ shares
    system = np.vstack([slopes[~tied][:, ~tied], np.ones((~tied).sum())])
    right = np.vstack([slopes[~tied][:, tied], np.ones(tied.sum())])
    directions = np.zeros((len(shares), tied.sum()))
    directions[tied] = np.eye(tied.sum())
    directions[~tied] = -np.linalg.lstsq(system, right, rcond=None)[0]
    pulled = odds / sums[:, None]
    bends = (pulled.T @ (directions - shares[:, None] * (pulled @ directions)))[tied]
    upper = np.where(np.eye(len(bends), dtype=np.bool_), bends, np.maximum(bends, 0.0))
    return float(np.linalg.eigvals(upper).real.max())


def _has_line(odds: Float64, shares: Float64) -> bool:
    """If all x + sv are stationary for some v ≠ 0: Σ v = 0, w v = 0 and Σ_i v_i w_ij / Σ_l x_l w_il = 0."""
    pulled = odds / (odds @ shares)[:, None]
    system = np.vstack([pulled, pulled.T, np.ones(len(shares))])
    values: Any = np.linalg.svd(system, compute_uv=False)
    return bool(values[-1] <= TIED_EXPONENT)


def _find_rate(odds: Float64, shares: Float64) -> float:
    """The largest real part of an eigenvalue of the flow on the winners, along shares that sum to 1."""
    if len(shares) == 1:
        return -np.inf
    if len(find_classes(odds)) > 1:
        return np.nan
    slopes = find_slopes(odds, shares)
    basis = np.vstack([np.eye(len(shares) - 1), -np.ones(len(shares) - 1)])
    values: Any = np.linalg.eigvals(slopes[:-1] @ basis).real
    return float(values.max())


def find_astray(odds: Float64, winners: Bool, exponents: Float64) -> Bool:
    """Which tokens keep recurring through tokens that lead to no winner, shape (K,)."""
    away = ~winners & ~(odds[:, winners] > 0).any(axis=1)
    comes: Bool = ~winners & (exponents > 0)
    astray = np.zeros(len(winners), np.bool_)
    while True:
        more = (odds[away & (comes | astray)] > 0).any(axis=0) & ~winners
        if not (more & ~astray).any():
            return astray
        astray = astray | more


def find_classes(odds: Float64, first: int | None = None) -> list[Int64]:
    """The sets of tokens that a text never leaves, each as ascending indices."""
    reach = (odds > 0) | np.eye(len(odds), dtype=np.bool_)
    while True:
        further: Bool = (reach.astype(np.float32) @ reach.astype(np.float32)) > 0
        if (further == reach).all():
            break
        reach = further
    closed = (reach <= reach.T).all(axis=1)
    traps = closed if first is None else closed & reach[first]
    sets = {tuple(np.flatnonzero(reach[token]).tolist()) for token in np.flatnonzero(traps)}
    return [np.array(tokens, np.int64) for tokens in sorted(sets)]


def find_single(odds: Float64, among: Int64) -> Iterator[Limit]:
    """Every limit that is one of these single tokens: the token must prefer itself to all others."""
    for token in among[odds[among, among] >= odds[among].max(axis=1)].tolist():
        limit = judge_limit(odds, np.eye(len(odds))[token])
        if limit.certified:
            yield limit


def draw_starts(n_tokens: int, n_starts: int, rng: np.random.Generator) -> Iterator[Float64]:
    """Initial shares: each token with nine tenths, then random ones; at most ``n_starts``."""
    if n_tokens == 1:
        return
    for number in range(n_starts):
        if number < n_tokens:
            shares = np.full(n_tokens, 0.1 / (n_tokens - 1))
            shares[number] = 0.9
            yield shares
        else:
            yield np.maximum(rng.dirichlet(np.ones(n_tokens)), 1e-6)


def nudge(shares: Float64, rng: np.random.Generator) -> list[Float64]:
    """Shares a millionth to either side: if their limits differ, a boundary lies between them."""
    if len(shares) == 1:
        return []
    shift = 1e-6 * rng.choice([-1.0, 1.0], len(shares)) * rng.uniform(0.5, 1.0, len(shares))
    moved = [shares * np.exp(shift), shares * np.exp(-shift)]
    return [nudged / nudged.sum() for nudged in moved]
