"""The limits of the flow of token shares: found by following the flow, certified from the shares alone.

:func:`find_limit` follows the flow (:mod:`~attomaton.automaton.repetition.flow`, which defines x, w and ρ)
far in ln t. The tokens that remain are the candidates for winners, and Newton's method on ρ_j = 1 gives their
shares to rounding. :func:`judge_limit` computes the certificate (:class:`Limit`) from these shares alone:
ρ = 1 on the winners, ρ < 1 elsewhere, and nearby shares return.

If some fading tokens, the set Z, also have ρ = 1, the first order does not decide. Near the limit their
shares y follow dy_j / d ln t = y_j ((A y)_j + O(y²)). Column k of A is the derivative of q_j / x_j along the
direction d in which the flow is stationary to first order, with d_k = 1, d = 0 on the rest of Z, and Σ d = 0.
Take the matrix with the diagonal of A and, elsewhere, the positive part of A. If all its eigenvalues are left
of 0, it maps some u > 0 to a vector below 0, and max_j y_j / u_j falls like 1/ln t, so nearby shares return.
If Z is a single token with A > 0, shares move away.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from attomaton.automaton.repetition import flow
from attomaton.base.errors import UncertifiedSolution
from attomaton.base.printing import count_noun
from attomaton.base.tables import Bool, Float64, Int64

EXACT_SHARE = 1e-9  # largest |ρ − 1| of a winner, and smallest 1 − ρ of others, of a certified limit
FADED_SHARE = 1e-6  # shares below this count as faded in the search for winners
TIED_EXPONENT = 1e-12  # |1 − ρ| of a fading token, or a singular value, that is 0 up to rounding
BEND_MARGIN = 1e-6  # distance from 0 at which the second order decides
NEAR_LIMIT = 0.01  # distance to a limit at which a flow counts as ending there
SPANS = (10.0, 100.0, 1_000.0, 10_000.0)  # values of ln t up to which the flow is followed
NEWTON_STEPS = 50  # most steps of Newton's method, which needs about five
NEWTON_ATOL = 1e-15  # largest change of a share in the last step
MOST_BEND_WORK = 100_000_000_000  # Σ (tied tokens)³ of the limits with one winner: some minutes


@dataclass(frozen=True, eq=False)
class Limit:
    """Shares at which the flow is stationary, and whether nearby shares return to them.

    ``shares`` are x, shape (K,), with 0 for tokens that fade. ``exponents`` are ρ, shape (K,): 1 for winners,
    and the count of any other token grows like t^ρ. ``residual`` is the largest |ρ − 1| of a winner,
    ``slack`` the smallest 1 − ρ of another token, infinite if there is none.

    ``rate`` is the largest real part of an eigenvalue of the flow: if it is negative, shares approach the
    limit like t^rate. It is NaN if the winners form sets that do not reach each other. ``bend`` decides if
    the rate is 0 because some fading tokens also have ρ = 1: if it is negative, all shares near the limit
    return like 1/ln t. It is NaN if it is not needed or not available.

    ``neutral`` means that the limit is proved to be on a line of stationary shares, so random draws decide at
    which of them a text ends. ``returns`` is false if some token that keeps recurring does not lead directly
    to a winner: such tokens may sustain each other, and their exponents are unknown.
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
        """Which tokens have a positive share, shape (K,)."""
        return self.shares > 0

    @property
    def ties(self) -> Bool:
        """Which fading tokens have ρ = 1, shape (K,)."""
        return ~self.winners & (np.abs(1 - self.exponents) <= TIED_EXPONENT)

    @property
    def decided(self) -> Float64:
        """The exponents, shape (K,); NaN if first and second order do not determine the growth."""
        return np.where(self.ties & (not self.slow), np.nan, self.exponents)

    @property
    def slow(self) -> bool:
        """Whether shares return like 1/ln t, more slowly than any power of t."""
        return self.bend < -BEND_MARGIN

    @property
    def certified(self) -> bool:
        """Whether this is, to rounding, a fixed point that attracts all shares near it."""
        attracts = self.slow or (self.slack > EXACT_SHARE and self.rate < -EXACT_SHARE)
        return self.residual <= EXACT_SHARE and attracts and self.returns

    def __str__(self) -> str:
        n_fading, n_winners = int((~self.winners).sum()), int(self.winners.sum())
        phrases = [f"ρ = 1 on {count_noun(n_winners, 'winner')} within {self.residual:.1e}"]
        if n_fading:
            n_ties = int(self.ties.sum())
            most = f"also ρ = 1 on {n_ties} of" if n_ties else f"ρ ≤ 1 − {self.slack:.3g} on"
            phrases.append(f"{most} {count_noun(n_fading, 'other token')}")
        return ", ".join([*phrases, self._approach()])

    def _approach(self) -> str:
        if self.certified:
            return f"nearby shares approach the limit like {'1/ln t' if self.slow else f't^{self.rate:.3g}'}"
        if self.neutral:
            return "the limit is one of a range of stationary shares"
        if not self.returns:
            why = "some fading tokens do not lead to a winner"
        elif self.bend > BEND_MARGIN:
            why = "to second order, some fading tokens with ρ = 1 grow"
        else:
            why = "the first and the second order do not decide"
        return f"it is not proved that all nearby shares approach the limit: {why}"


def find_limit(odds: Float64, shares: Float64, budget: flow.Budget | None = None) -> Limit | None:
    """The limit of the flow from these shares, certified if possible; None if the flow does not converge."""
    budget = islice(flow.allow_evaluations(len(odds)) if budget is None else budget, flow.MOST_EVALUATIONS)
    with np.errstate(divide="ignore"):
        log_odds = np.log(odds)
    time = 0.0
    uncertified = None
    for span in SPANS:
        try:
            shares = flow.follow_flow(odds, shares, np.array([time, span]), budget)[-1]
        except UncertifiedSolution:
            return uncertified
        shares = np.maximum(shares, np.finfo(np.float64).tiny)
        time = span
        present: Bool = shares > FADED_SHARE
        # A share that falls like 1/ln t has the rate −1/ln t, which is −1/span now: it is present but fading.
        fading = present & (flow.find_rates(log_odds, np.log(shares)) * span < -0.5)
        refined = [_refine_limit(odds, shares, winners) for winners in (present, present & ~fading)]
        limits = [limit for limit in refined if limit]
        for limit in limits:
            if limit.certified or limit.neutral:
                return limit
        uncertified = limits[-1] if limits else None
    return uncertified


# The limit with at most these winners, if it is near `shares` and may attract them; otherwise None.
# Newton's method may shrink a share to almost 0: that token is no winner, and the rest is solved again.
def _refine_limit(odds: Float64, shares: Float64, winners: Bool) -> Limit | None:
    refined = np.where(winners, shares, 0.0)
    while True:
        alive = refined > FADED_SHARE
        if not alive.any():
            return None
        solved = _solve_winners(odds[np.ix_(alive, alive)], refined[alive] / refined[alive].sum())
        if solved is None:
            return None
        refined = np.zeros(len(shares))
        refined[alive] = solved
        if solved.min() > FADED_SHARE:
            break
    limit = judge_limit(odds, refined)
    is_near: bool = np.abs(refined - shares).max() <= NEAR_LIMIT  # Newton's method may go anywhere
    repels = limit.bend > BEND_MARGIN and limit.ties.sum() == 1
    # "not >": the rate is NaN if the winners form sets that do not reach each other
    is_fixed = (
        limit.residual <= EXACT_SHARE and limit.slack >= -TIED_EXPONENT and not limit.rate > EXACT_SHARE
    )
    return limit if is_fixed and is_near and not repels else None


# Newton's method on ρ = 1 over winners, with shares that sum to 1; None if a share leaves (0, 2).
def _solve_winners(odds: Float64, shares: Float64) -> Float64 | None:
    if not (odds > 0).any(axis=1).all():
        return None
    for _ in range(NEWTON_STEPS):
        sums = odds @ shares  # Σ_l w_il x_l
        residual = 1.0 - (shares / sums) @ odds  # 1 − ρ
        scaled = odds / sums[:, None]
        derivative = scaled.T - scaled.T @ (shares[:, None] * scaled)  # ∂ρ_j / ∂x_k
        # The last row keeps the sum of the shares at 1. Limits on a line make the system singular, hence the
        # least-squares solution.
        step: Any = np.linalg.lstsq(
            np.vstack([derivative, np.ones(len(shares))]),
            np.append(residual, 1.0 - shares.sum()),
            rcond=1e-12,
        )[0]
        shares = shares + step
        if not ((shares > 0) & (shares < 2)).all():
            return None
        if np.abs(step).max() < NEWTON_ATOL:
            break
    return shares / shares.sum()


def judge_limit(odds: Float64, shares: Float64) -> Limit:
    """Compute every certificate of a limit from its shares (K,), which are 0 for fading tokens."""
    winners = shares > 0
    odds_of_winners = odds[np.ix_(winners, winners)]
    exponents = flow.find_exponents(odds, shares)
    residual = float(np.abs(exponents[winners] - 1).max())
    slack = float((1 - exponents[~winners]).min(initial=np.inf))
    rate = _find_rate(odds_of_winners, shares[winners])
    astray = _find_astray(odds, winners, exponents)
    tied: Bool = ~winners & (np.abs(1 - exponents) <= TIED_EXPONENT)
    slack_of_untied = (1 - exponents[~winners & ~tied]).min(initial=np.inf)
    needs_bend = (
        residual <= EXACT_SHARE
        and rate < -EXACT_SHARE
        and slack_of_untied > EXACT_SHARE
        and tied.any()
        and not astray.any()
    )
    return Limit(
        shares=shares,
        exponents=np.where(winners, 1.0, np.where(astray, np.nan, exponents)),
        residual=residual,
        slack=slack,
        rate=np.nan if np.isnan(rate) else max(rate, -slack),
        bend=_find_bend(odds, shares, tied) if needs_bend else np.nan,
        neutral=_is_on_line(odds_of_winners, shares[winners]),
        returns=not astray.any(),
    )


# The largest real part of an eigenvalue of the matrix that the module docstring makes from A.
# From here on, the indices are those of the winners and of the tied tokens Z.
def _find_bend(odds: Float64, shares: Float64, tied: Bool) -> float:
    involved = (shares > 0) | tied
    odds = odds[np.ix_(involved, involved)]
    shares = shares[involved]
    tied = tied[involved]
    # The directions d have one column for each tied token: d is a unit vector on Z. On the winners, d solves
    # (jacobian d)_winners = 0 with Σ d = 0, by least squares.
    jacobian = flow.find_jacobian(odds, shares)
    system = np.vstack([jacobian[~tied][:, ~tied], np.ones((~tied).sum())])
    right = np.vstack([jacobian[~tied][:, tied], np.ones(tied.sum())])
    directions = np.zeros((len(shares), tied.sum()))
    directions[tied] = np.eye(tied.sum())
    directions[~tied] = -np.linalg.lstsq(system, right, rcond=None)[0]
    # A[j, k] is the derivative of ρ_j = Σ_i x_i w_ij / Σ_l w_il x_l along column k.
    scaled = odds / (odds @ shares)[:, None]
    second_order = (scaled.T @ (directions - shares[:, None] * (scaled @ directions)))[tied]
    is_diagonal = np.eye(len(second_order), dtype=np.bool_)
    bounding = np.where(is_diagonal, second_order, np.maximum(second_order, 0.0))
    return float(np.linalg.eigvals(bounding).real.max())


# Whether all x + sv are stationary for some v ≠ 0: Σ v = 0, w v = 0, Σ_i v_i w_ij / Σ_l x_l w_il = 0.
def _is_on_line(odds: Float64, shares: Float64) -> bool:
    scaled = odds / (odds @ shares)[:, None]
    system = np.vstack([scaled, scaled.T, np.ones(len(shares))])
    values: Any = np.linalg.svd(system, compute_uv=False)
    return bool(values[-1] <= TIED_EXPONENT)


# The largest real part of an eigenvalue of the flow on the winners, along shares that sum to 1.
def _find_rate(odds: Float64, shares: Float64) -> float:
    if len(shares) == 1:
        return -np.inf
    if len(flow.find_classes(odds)) > 1:
        return np.nan
    # Column j changes share j and takes the same from the last share.
    basis = np.vstack([np.eye(len(shares) - 1), -np.ones(len(shares) - 1)])
    values: Any = np.linalg.eigvals(flow.find_jacobian(odds, shares)[:-1] @ basis).real
    return float(values.max())


# Which fading tokens follow recurring tokens from which no winner can be next, shape (K,).
def _find_astray(odds: Float64, winners: Bool, exponents: Float64) -> Bool:
    no_winner_next = ~winners & ~(odds[:, winners] > 0).any(axis=1)
    recurs: Bool = ~winners & (exponents > 0)
    astray = np.zeros(len(winners), np.bool_)
    while True:  # until the set no longer grows: an astray token recurs too
        reached = (odds[no_winner_next & (recurs | astray)] > 0).any(axis=0) & ~winners
        if not (reached & ~astray).any():
            return astray
        astray = astray | reached


def find_single_limits(odds: Float64, tokens: Int64) -> Iterator[Limit]:
    """The limits in which only one of these tokens remains; ``MOST_BEND_WORK`` bounds how many are tried."""
    work = 0
    # the remaining token must prefer itself to all others
    for token in tokens[odds[tokens, tokens] >= odds[tokens].max(axis=1)].tolist():
        limit = judge_limit(odds, np.eye(len(odds))[token])
        if limit.certified:
            yield limit
        if not np.isnan(limit.bend):  # it was computed, with matrices of winner and tied tokens
            work += int(limit.ties.sum() + 1) ** 3
        if work > MOST_BEND_WORK:
            return
