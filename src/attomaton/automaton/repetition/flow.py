"""The flow of token shares when a layer is fed its own output.

With n_j tokens j so far and the last token i, the next one is j with chance n_j w_ij / Σ_l n_l w_il. Shares
x = n / t hardly move while the last token changes many times, so they follow

    dx / d ln t = q(x) − x,    q(x) the stationary law of P_ij(x) = x_j w_ij / Σ_l x_l w_il.

At a fixed point the exponents ρ_j = Σ_i x_i w_ij / Σ_l x_l w_il are 1 where x_j > 0, and the count of a token
with x_j = 0 grows like t^ρ_j. The flow is followed in ln x, and q is found without subtractions, so that the
growth rates of tokens that have almost faded lose no digits.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.kernels import compiled
from attomaton.base.tables import Float64

RTOL = 1e-9
"""Relative error of one step of the flow."""

MOST_EVALUATIONS = 5_000
"""Of the rates of one flow, which is less than a second for few tokens."""

ALL_EVALUATIONS = 60_000
"""Of the rates of several flows together."""

MOST_ENTRIES = 200_000_000
"""Entries of the odds that several flows together may look at, beyond 1,000 evaluations."""

LOWEST = -300.0
"""ln x below which a token counts as this rare when rates are found: products of chances stay in doubles."""


LEAST = 1e-300
"""What is added to the chance of leaving a state: doubles may take it for 0."""


def find_exponents(odds: Float64, shares: Float64) -> Float64:
    """ρ, shape (K,), at these shares; rows whose tokens have all faded count for nothing."""
    return _over(shares, odds @ shares) @ odds


def find_rates(logs: Float64, heights: Float64) -> Float64:
    """d ln x_j / d ln t = q_j / x_j − 1, shape (K,), from ln w and ln x."""
    order = np.argsort(-heights)
    near = np.maximum(heights[order] - heights[order[0]], LOWEST)
    reached = logs[np.ix_(order, order)] + near
    chances = np.exp(reached - reached.max(axis=1, keepdims=True))
    shares, rates = np.exp(near), np.empty(len(heights))
    rates[order] = find_steady(chances / chances.sum(axis=1, keepdims=True)) * shares.sum() / shares - 1.0
    return rates


def _count_work(chances: Float64) -> float:
    return len(chances) ** 3 / 3


@compiled(work=_count_work)
def find_steady(chances: Float64) -> Float64:
    """The stationary law q = qP of a chain that comes back to its first state from everywhere, shape (K,).

    States are taken out of the chain from the last to the second (Grassmann, Taksar and Heyman), with sums
    and products alone, so that the smallest entries are as exact as the largest.
    """
    size = len(chances)
    left = chances.copy()
    for out in range(size - 1, 0, -1):
        leaving = LEAST
        for to in range(out):
            leaving += left[out, to]
        for state in range(out):
            share = left[state, out] / leaving
            left[state, out] = share
            for to in range(out):
                left[state, to] += share * left[out, to]
    steady = np.ones(size)
    for state in range(1, size):
        total = 0.0
        for before in range(state):
            total += steady[before] * left[before, state]
        steady[state] = total
    return steady / steady.sum()


def allow_evaluations(n_tokens: int) -> Iterator[int]:
    """As many steps as several flows of so many tokens may take together, to be taken from by each."""
    return iter(range(min(ALL_EVALUATIONS, 1_000 + MOST_ENTRIES // n_tokens**2)))


def follow_flow(
    odds: Float64, shares: Float64, times: Float64, allowed: Iterator[int] | None = None
) -> Float64:
    """Shares along the flow, shape (n_times, K), from those at the first time on."""
    from scipy.integrate import solve_ivp

    with np.errstate(divide="ignore"):
        logs = np.log(odds)

    left = islice(allow_evaluations(len(odds)) if allowed is None else allowed, MOST_EVALUATIONS)

    def move(_: float, heights: Float64) -> Float64:
        if next(left, None) is None:
            raise UncertifiedSolution(
                f"the flow of shares of {len(odds):,} tokens takes too long to follow, since shares move at "
                "very different rates; give fewer tokens, or scores of fewer steps (auto.at(step))"
            )
        return find_rates(logs, heights)

    if len(times) == 1:
        return shares[None].copy()
    solver: Any = solve_ivp
    found = solver(
        move, (times[0], times[-1]), np.log(shares), t_eval=times, method="LSODA", rtol=RTOL, atol=RTOL
    )
    heights: Float64 = found.y.T
    if not found.success or not np.isfinite(heights).all():
        raise UncertifiedSolution(
            "the flow of shares cannot be followed to its end in doubles; the odds differ by too many orders "
            "of magnitude, or there are too many tokens: give fewer tokens, or scores of fewer steps"
        )
    grown = np.exp(heights - heights.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def find_slopes(odds: Float64, shares: Float64) -> Float64:
    """The derivative of q(x) − x on the winners, shape (K, K): row j, column k is ∂(q_j − x_j)/∂x_k."""
    sums = odds @ shares
    chances = odds * shares / sums[:, None]
    steady = find_steady(chances)
    around = np.linalg.inv(np.eye(len(odds)) - chances + steady)
    pulled = (steady / sums)[:, None] * odds
    moved = np.diag(pulled.sum(axis=0)) - chances.T @ pulled
    return (moved.T @ around).T - np.eye(len(odds))


def _over(numbers: Float64, sums: Float64) -> Float64:
    """Numbers over sums, and 0 where the number is 0."""
    return np.divide(numbers, sums, out=np.zeros(len(numbers)), where=numbers > 0)
