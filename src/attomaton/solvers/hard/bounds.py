"""The two bounds of an order problem, group by group, in one pass over its edges."""

from typing import Any

import numpy as np

from attomaton.base.borders import check_floats
from attomaton.base.kernels import compiled
from attomaton.base.kernels.summation import add_precisely
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.hard.problem import OrderProblem


def bound_groups(problem: OrderProblem, positions: Float64, flow: Float64) -> tuple[Float64, Float64, float]:
    """Lower and upper bound of each group, shape (n_groups,) each, and how much the smallest gap misses 1.

    Upper: Σ|C|p². Lower: (Σf)² / Σ (div f)²/|C| with f = max(flow, 0), the dual value at f's best multiple.
    """
    positions = check_floats(positions, (len(problem.sizes),), "positions", finite=False)
    flow = check_floats(flow, (len(problem.above),), "the flow on the edges", finite=False)
    sums = np.zeros((3, problem.n_groups))
    ends = problem.above, problem.below
    shortfall = _sum_groups(problem.sizes, ends, problem.borders, (positions, flow), sums)
    upper, pushed, spread = sums
    lower = np.divide(pushed**2, spread, out=np.zeros_like(spread), where=spread > 0)
    return lower, upper, shortfall


@compiled
def _sum_groups(
    sizes: Any,
    ends: tuple[Int64, Int64],
    borders: tuple[Int64, Int64],
    answer: tuple[Any, Any],
    sums: Any,
) -> float:
    """Write Σ|C|p², Σf and Σ(div f)²/|C| of each group; returns how much the smallest gap misses 1."""
    (above, below), (nodes, edges), (positions, flow) = ends, borders, answer
    shortfall, total, lost = 0.0, np.zeros(3), np.zeros(3)
    for group in range(len(nodes) - 1):
        first = nodes[group]
        divergence, slip = np.zeros(nodes[group + 1] - first), np.zeros(nodes[group + 1] - first)
        total[:], lost[:] = 0.0, 0.0
        for edge in range(edges[group], edges[group + 1]):
            a, b, pushed = above[edge], below[edge], max(flow[edge], 0.0)
            missed = 1.0 - (positions[a] - positions[b])
            if not missed <= shortfall:  # so that a position that is not a number shows
                shortfall = missed
            add_precisely(divergence, slip, a - first, pushed)
            add_precisely(divergence, slip, b - first, -pushed)
            add_precisely(total, lost, 1, pushed)
        for node in range(len(divergence)):
            position, spread = positions[first + node], divergence[node] + slip[node]
            add_precisely(total, lost, 0, sizes[first + node] * (position * position))
            add_precisely(total, lost, 2, spread * spread / sizes[first + node])
        for row in range(3):
            sums[row, group] = total[row] + lost[row]
    return shortfall
