"""The block solver: exact positions with gaps of 1, for many small orders at once and for one deep one.

The problem is what graph drawing calls "variable placement with separation constraints" (Dwyer, Marriott,
Stuckey). Each part is planted (a first forest of tight edges), then pivoted until every gap is met.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attomaton.base.kernels import announced, compiled, copy_into, expect_work
from attomaton.base.machine import count_processors, share_out
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.solvers.hard.contraction import MARGIN, solve_deep
from attomaton.solvers.hard.forest import empty_forest, empty_walk, unit_graph
from attomaton.solvers.hard.pivots import collect, pivot
from attomaton.solvers.hard.planting import find_reach, longest_paths, plant, prefer_edges, rank_edges
from attomaton.solvers.hard.problem import OrderProblem

TALL_LEVELS = 8
"""From this many levels on, guessing which edges press pays."""

TURNS = 10
"""How often the solver looks at a node or an edge, about."""

DEEP_NODES, DEEP_LEVELS = 4096, 2 * MARGIN
"""From this many nodes and levels on, joining the rigid ends of an order pays."""


@dataclass(frozen=True)
class Placement:
    """Place the blocks of all groups of the problem, side by side.

    Attributes
    ----------
    rtol : float
        Edges violated by less than this times the levels of their group count as satisfied: that is what
        rounding leaves of positions.
    greed : float
        How close to the worst violation an edge must come to be taken in during a sweep.
    threads : int, optional
        How many to use; all processors if not given.

    Examples
    --------
    >>> sizes, group = np.array([3, 1, 1]), np.zeros(3, int)  # a line of three components under one query
    >>> problem = OrderProblem(sizes, np.array([0, 1]), np.array([1, 2]), group)
    >>> positions, multipliers = Placement().solve_order(problem)
    >>> positions.round(6).tolist(), multipliers.round(6).tolist()
    ([0.6, -0.4, -1.4], [1.8, 1.4])
    """

    rtol: float = 4e-15
    greed: float = 0.5
    threads: int | None = None

    def solve_order(self, problem: OrderProblem) -> tuple[Float64, Float64]:
        """Positions, shape (n_components,), and edge multipliers, shape (n_edges,)."""
        if not len(problem.above):
            return np.zeros(len(problem.sizes)), np.zeros(0)
        weight = problem.sizes.astype(np.float64)
        positions, multipliers = np.empty(len(weight)), np.empty(len(problem.above))
        borders, limits = problem.borders, (self.greed, self.rtol)
        deep = np.zeros(len(borders[0]) - 1, np.bool_)

        def solve_share(some: tuple[int, int]) -> None:
            graph = weight, problem.above, problem.below
            solve_parts(graph, borders, some, limits, (positions, multipliers, deep))
            for part in (some[0] + np.flatnonzero(deep[some[0] : some[1]])).tolist():
                nodes, edges = (slice(start[part], start[part + 1]) for start in borders)
                order = unit_graph(weight[nodes], problem.above[edges], problem.below[edges], nodes.start)
                positions[nodes], multipliers[edges] = solve_deep(order, limits)

        expect_work(solve_parts, TURNS * (len(weight) + len(problem.above)))
        share_out(solve_share, _shares(borders[0], self.threads), self.threads)
        return positions, multipliers


def _shares(node_start: Int64, threads: int | None) -> list[tuple[int, int]]:
    """Ranges of parts with about equally many nodes, a few for each thread."""
    number = 8 * (threads or count_processors())
    cuts = np.arange(number + 1) * int(node_start[-1]) // number
    borders = sorted(set(np.searchsorted(node_start, cuts).tolist()))
    return list(pairwise(borders))


@compiled(work=announced)
def solve_parts(
    arrays: tuple[Float64, Int64, Int64],
    borders: tuple[Int64, Int64],
    some: tuple[int, int],
    limits: tuple[float, float],
    found: tuple[Float64, Float64, Bool],
) -> None:
    """Solve the parts ``some[0] … some[1] − 1``, and mark those that are left out as deep.

    ``arrays`` are weights and both ends of the edges, ``limits`` greed and the tolerance for one level,
    ``found`` what is written: positions, multipliers, and which parts are deep.
    """
    weight, above, below = arrays
    positions, multipliers, deep = found
    nodes, edges = borders
    for part in range(some[0], some[1]):
        here, there = slice(nodes[part], nodes[part + 1]), slice(edges[part], edges[part + 1])
        graph = unit_graph(weight[here], above[there], below[there], nodes[part])
        height, depth = longest_paths(graph)
        levels = 0
        for node in range(len(height)):
            levels = max(levels, height[node])
        if len(height) >= DEEP_NODES and levels >= DEEP_LEVELS:
            deep[part] = True
            continue
        forest, walk = empty_forest(graph), empty_walk(graph)
        if levels >= TALL_LEVELS:
            reach = find_reach(graph, height, depth)
            plant(graph, forest, prefer_edges(graph, height, depth, reach))
        else:
            plant(graph, forest, rank_edges(graph, height, depth))
        pivot(graph, forest, walk, (limits[0], limits[1] * (1 + levels)))
        copy_into(multipliers, edges[part], collect(graph, forest, walk))
        copy_into(positions, nodes[part], forest.position)
