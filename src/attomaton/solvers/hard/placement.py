"""The block solver: exact positions with gaps of 1, for many small orders at once and for one deep one.

Graph drawing calls this problem "variable placement with separation constraints" (Dwyer, Marriott, Stuckey).
Each part starts with an initial forest of tight edges ("planting"), then pivots until every gap is met.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attomaton.base.kernels import announced, compiled, copy_into, expect_work
from attomaton.base.machine import count_processors, share_out
from attomaton.base.ragged import run_starts
from attomaton.base.tables import Bool, Float64, Int32, Int64
from attomaton.solvers.hard.forest import (
    NONE,
    Graph,
    active_edges,
    collect,
    empty_forest,
    empty_walk,
    link,
    pivot,
    unit_graph,
)
from attomaton.solvers.hard.planting import bind, find_reach, longest_paths, plant, prefer_edges, rank_edges
from attomaton.solvers.hard.problem import OrderProblem

MARGIN = 32
"""Levels on either side of the balance that are initially left to pivots."""

SPREAD = 16
"""Further bonds outwards to cut with one that pulls: they would be cut in the next rounds."""


class Clusters(NamedTuple):
    """Rigid groups of nodes."""

    number: Int32  # (n_nodes,): the cluster of each node
    offset: Int32  # (n_nodes,): position minus that of the cluster's root


def solve_deep(graph: Graph, limits: tuple[float, float]) -> tuple[Float64, Float64]:
    """Positions, shape (n_nodes,), and multipliers, shape (n_edges,), of one deep order.

    Nearly every position is a longest path from the bottom (well above the balance) or from the top (well
    below). Each node of these two ends is bound to the next one inwards; bound nodes form rigid clusters, the
    nodes of a small problem. Bonds with negative multipliers are cut until there are none: then all
    optimality conditions hold, whatever the initial guess. ``limits`` are greed and the pivots' tolerance
    for one level.
    """
    height, depth = longest_paths(graph)
    limits = (limits[0], limits[1] * (1 + int(height.max())))
    reach = find_reach(graph, height, depth)
    ranked = prefer_edges(graph, height, depth, reach)
    bond = bind(graph, height + depth, *reach, 1.0 + MARGIN)
    candidates = np.ones(len(graph.above), bool)
    while True:
        small, edge = _contract(graph, _join(graph, bond), ranked)
        active = edge[_solve_small(small, candidates[edge], limits)]
        positions, multipliers = _expand(graph, np.concatenate([bond[bond != NONE], active]))
        pulls = (bond != NONE) & (multipliers[bond] < 0)
        if not pulls.any():
            return positions, multipliers
        _spread(graph, bond, pulls)
        candidates[:] = False
        candidates[active] = True
        candidates[bond[pulls]] = True  # most of them are still tight
        bond[pulls] = NONE


@compiled
def _join(graph: Graph, bond: Int32) -> Clusters:
    """Follow the bonds inwards to the root of each cluster."""
    size = len(bond)
    root, offset, stack = np.full(size, NONE, np.int32), np.zeros(size, np.int32), np.empty(size, np.int32)
    for start in range(size):
        node, depth = start, 0
        while root[node] == NONE and bond[node] != NONE:
            stack[depth] = node
            depth += 1
            node = _inwards(graph, bond, node)
        if root[node] == NONE:
            root[node] = node
        for at in range(depth - 1, -1, -1):
            inner, node = node, stack[at]
            root[node] = root[inner]
            offset[node] = offset[inner] + (1 if graph.above[bond[node]] == node else -1)
    number, n_clusters = np.empty(size, np.int32), 0
    for node in range(size):
        if root[node] == node:
            number[node] = n_clusters
            n_clusters += 1
    return Clusters(number[root], offset)


@compiled
def _spread(graph: Graph, bond: Int32, pulls: Bool) -> None:
    """Also mark the nodes that are bound, within a few steps, to a marked node."""
    for _ in range(SPREAD):
        for node in range(len(bond)):
            if bond[node] != NONE and pulls[_inwards(graph, bond, node)]:
                pulls[node] = True


@compiled
def _inwards(graph: Graph, bond: Int32, node: int) -> int:
    edge = bond[node]
    return graph.below[edge] if graph.above[edge] == node else graph.above[edge]


def _contract(graph: Graph, clusters: Clusters, ranked: Int32) -> tuple[Graph, Int32]:
    """The problem between clusters, and the edge behind each of its edges.

    Of several edges between two clusters only the most demanding is kept, with its rank in ``ranked``. Edges
    inside a cluster already hold: positions there differ by longest paths.
    """
    number, offset = clusters
    size = int(number.max()) + 1
    above, below = number[graph.above[ranked]], number[graph.below[ranked]]
    edge = ranked[above != below]
    gap = 1 - offset[graph.above[edge]] + offset[graph.below[edge]]
    pair = number[graph.above[edge]] * np.int64(size) + number[graph.below[edge]]
    sorted_rows = np.lexsort((-gap, pair))
    strictest = np.sort(sorted_rows[run_starts(pair[sorted_rows])]) if len(pair) else sorted_rows
    small = Graph(
        weight=np.bincount(number, graph.weight, size),
        moment=np.bincount(number, graph.weight * offset, size),
        above=number[graph.above[edge[strictest]]],
        below=number[graph.below[edge[strictest]]],
        gap=gap[strictest].astype(np.int32),
    )
    return small, edge[strictest]


@compiled
def _solve_small(graph: Graph, candidates: Bool, limits: tuple[float, float]) -> Bool:
    """Which edges are active in the answer, starting from the candidates that close no cycle."""
    forest, walk = empty_forest(graph), empty_walk(graph)
    plant(graph, forest, np.flatnonzero(candidates).astype(np.int32))
    pivot(graph, forest, walk, limits)
    return active_edges(graph, forest)


@compiled
def _expand(graph: Graph, active: Int32) -> tuple[Float64, Float64]:
    """Positions and multipliers of all nodes and edges when the edges ``active`` are tight."""
    forest = empty_forest(graph)
    for edge in active:
        link(graph, forest, edge)
    multipliers = collect(graph, forest, empty_walk(graph))
    return forest.position, multipliers


TALL_LEVELS = 8
"""Fewest levels for which guessing the tight edges pays."""

TURNS = 10
"""Approximate number of times the solver visits a node or an edge."""

DEEP_NODES, DEEP_LEVELS = 4096, 2 * MARGIN
"""Fewest nodes and levels for which joining the rigid ends of an order pays."""


@dataclass(frozen=True)
class Placement:
    """Place the blocks of all groups of the problem, in parallel.

    Attributes
    ----------
    rtol : float
        Edges violated by less than this times the levels of their group count as satisfied: this is the
        rounding error of positions.
    greed : float
        How close to the worst violation an edge must be to be added during a sweep.
    threads : int, optional
        Number of threads; by default one per processor.

    Examples
    --------
    >>> sizes, group = np.array([3, 1, 1]), np.zeros(3, int)  # a chain of three components under one query
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
        number = 8 * (self.threads or count_processors())  # of shares with about equal numbers of nodes
        cuts = np.searchsorted(borders[0], np.arange(number + 1) * len(weight) // number)
        share_out(solve_share, list(pairwise(sorted(set(cuts.tolist())))), self.threads)
        return positions, multipliers


@compiled(work=announced)
def solve_parts(
    arrays: tuple[Float64, Int64, Int64],
    borders: tuple[Int64, Int64],
    some: tuple[int, int],
    limits: tuple[float, float],
    answer: tuple[Float64, Float64, Bool],
) -> None:
    """Solve the parts ``some[0] … some[1] − 1``, except deep ones, which are only marked.

    ``arrays`` are weights and both ends of the edges, ``limits`` greed and the tolerance for one level, and
    ``answer`` is the output: positions, multipliers, and which parts are deep.
    """
    weight, above, below = arrays
    positions, multipliers, deep = answer
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
