"""The flow of token shares when a layer is fed its own output.

With n_j tokens j so far and the last token i, the next one is j with chance n_j w_ij / Σ_l n_l w_il. Shares
x = n / t hardly move while the last token changes many times, so they follow

    dx / d ln t = q(x) − x,    q(x) the stationary law of P_ij(x) = x_j w_ij / Σ_l x_l w_il.

At a fixed point the exponents ρ_j = Σ_i x_i w_ij / Σ_l x_l w_il are 1 where x_j > 0, and the count of a token
with x_j = 0 grows like t^ρ_j. The flow is followed in ln x, where growth rates lose no digits.
"""

from itertools import count
from typing import Any

import numpy as np

from attomaton.errors import UncertifiedSolution
from attomaton.tables import Float64

RTOL = 1e-9
"""Relative error of one step of the flow."""

MOST_EVALUATIONS = 300_000
"""Of the rates of one flow, which is seconds for few tokens."""

MOST_WORK = 8_000_000_000
"""Evaluations times the cube of the number of tokens, beyond 2,000 evaluations."""


def find_exponents(odds: Float64, shares: Float64) -> Float64:
    """ρ, shape (K,), at these shares; rows whose tokens have all faded count for nothing.

    Examples
    --------
    >>> find_exponents(np.array([[3.0, 1.0], [3.0, 1.0]]), np.array([1.0, 0.0])).round(4).tolist()
    [1.0, 0.3333]
    """
    return _over(shares, odds @ shares) @ odds


def find_rates(logs: Float64, heights: Float64) -> Float64:
    """d ln x_j / d ln t, shape (K,), from ln w and ln x: Σ_i q_i w_ij / Σ_l x_l w_il − 1.

    Examples
    --------
    >>> logs = np.log([[3.0, 1.0], [3.0, 1.0]])
    >>> find_rates(logs, np.log([0.5, 0.5])).round(6).tolist()
    [0.5, -0.5]
    """
    reached = logs + heights
    tops = reached.max(axis=1, keepdims=True)
    sums = tops + np.log(np.exp(reached - tops).sum(axis=1, keepdims=True))
    steady = find_steady(np.exp(reached - sums))
    with np.errstate(divide="ignore"):
        pulls = np.log(steady)[:, None] + logs - sums
    return np.exp(pulls).sum(axis=0) - 1.0


def find_steady(chances: Float64) -> Float64:
    """The stationary law q = qP of a chain with one closed class, shape (K,).

    Two more steps of the chain give small entries the digits that solving alone does not.

    Examples
    --------
    >>> find_steady(np.array([[0.0, 1.0], [0.5, 0.5]])).round(6).tolist()
    [0.333333, 0.666667]
    """
    size = len(chances)
    solved: Any = np.linalg.solve(np.eye(size) - chances.T + 1.0, np.ones(size))
    steady = np.abs(solved) @ chances @ chances
    return steady / steady.sum()


def follow_flow(odds: Float64, shares: Float64, times: Float64) -> Float64:
    """Shares along the flow, shape (n_times, K), from those at the first time on.

    Parameters
    ----------
    odds : float64 array, shape (K, K)
        w: rows are queries. From every token every other can be reached.
    shares : float64 array, shape (K,)
        x at the first time, all above 0.
    times : float64 array, shape (n_times,)
        ln t, rising.

    Examples
    --------
    >>> odds = np.array([[3.0, 1.0], [3.0, 1.0]])
    >>> follow_flow(odds, np.array([0.5, 0.5]), np.log([100, 1e4, 1e6])).round(3).tolist()
    [[0.5, 0.5], [0.971, 0.029], [0.999, 0.001]]
    """
    from scipy.integrate import solve_ivp

    with np.errstate(divide="ignore"):
        logs = np.log(odds)

    left = count(min(MOST_EVALUATIONS, 2_000 + MOST_WORK // len(odds) ** 3), -1)

    def move(_: float, heights: Float64) -> Float64:
        if not next(left):
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
    """The derivative of q(x) − x on the winners, shape (K, K): row j, column k is ∂(q_j − x_j)/∂x_k.

    Examples
    --------
    >>> slopes = find_slopes(np.array([[1.0, 3.0], [3.0, 1.0]]), np.array([0.5, 0.5]))
    >>> (slopes @ [1.0, -1.0]).round(6).tolist()  # along the simplex: back to the fixed point
    [-0.5, 0.5]
    """
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
