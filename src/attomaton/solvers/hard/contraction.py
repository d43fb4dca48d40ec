"""Deep orders: join the two rigid ends before pivoting, so that pivots walk the middle only.

In a deep order nearly every position is a longest path from the bottom (for nodes well above the balance) or
from the top (for those well below), and only a narrow middle zone has to be found by pivots. Each node of an
end is bound to a node below (above) it on a longest path; bound nodes form rigid clusters, which become the
nodes of a small problem. Its answer is expanded, every bond's multiplier computed, and bonds that pull are
cut until none does: then all optimality conditions hold, whatever the guess was.
"""

from typing import NamedTuple

import numpy as np

from attomaton.base.kernels import compiled
from attomaton.base.ragged import run_starts
from attomaton.base.tables import Bool, Float64, Int32
from attomaton.solvers.hard.forest import NONE, Graph, active_edges, empty_forest, empty_walk, link
from attomaton.solvers.hard.pivots import collect, pivot
from attomaton.solvers.hard.planting import bind, find_reach, longest_paths, plant, prefer_edges

MARGIN = 32
"""How many levels on either side of the balance are left to pivots at first."""

SPREAD = 16
"""How many more bonds outwards are cut with one that pulls: their turn would come in the next rounds."""


class Clusters(NamedTuple):
    """Rigid groups of nodes."""

    number: Int32  # (n_nodes,): the cluster of each node
    offset: Int32  # (n_nodes,): position less that of the cluster's root


class Contracted(NamedTuple):
    """The small problem whose nodes are clusters, and the edge behind each of its edges."""

    graph: Graph
    edge: Int32  # (n_edges of the small problem,)


def solve_deep(graph: Graph, limits: tuple[float, float]) -> tuple[Float64, Float64]:
    """Positions, shape (n_nodes,), and multipliers, shape (n_edges,), of one order.

    ``graph`` has gaps of 1; ``limits`` are greed and the pivots' tolerance for one level.
    """
    height, depth = longest_paths(graph)
    limits = (limits[0], limits[1] * (1 + int(height.max())))
    reach = find_reach(graph, height, depth)
    ranked = prefer_edges(graph, height, depth, reach)
    bond = bind(graph, height + depth, *reach, 1.0 + MARGIN)
    candidates = np.ones(len(graph.above), bool)
    while True:
        small = _contract(graph, _join(graph, bond), ranked)
        active = small.edge[_solve_small(small.graph, candidates[small.edge], limits)]
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
    """Mark also the nodes that are bound, in a few steps, to a node that is marked."""
    for _ in range(SPREAD):
        for node in range(len(bond)):
            if bond[node] != NONE and pulls[_inwards(graph, bond, node)]:
                pulls[node] = True


@compiled
def _inwards(graph: Graph, bond: Int32, node: int) -> int:
    edge = bond[node]
    return graph.below[edge] if graph.above[edge] == node else graph.above[edge]


def _contract(graph: Graph, clusters: Clusters, ranked: Int32) -> Contracted:
    """The problem between clusters; of several edges between two clusters the one that asks for most.

    Edges inside a cluster hold already: there positions differ as longest paths do. The edges keep the rank
    they have in ``ranked``.
    """
    number, offset = clusters
    size = int(number.max()) + 1
    above, below = number[graph.above[ranked]], number[graph.below[ranked]]
    edge = ranked[above != below]
    gap = 1 - offset[graph.above[edge]] + offset[graph.below[edge]]
    pair = number[graph.above[edge]] * np.int64(size) + number[graph.below[edge]]
    sorted_rows = np.lexsort((-gap, pair))
    kept = np.sort(sorted_rows[run_starts(pair[sorted_rows])]) if len(pair) else sorted_rows
    small = Graph(
        weight=np.bincount(number, graph.weight, size),
        moment=np.bincount(number, graph.weight * offset, size),
        above=number[graph.above[edge[kept]]],
        below=number[graph.below[edge[kept]]],
        gap=gap[kept].astype(np.int32),
    )
    return Contracted(small, edge[kept])


@compiled
def _solve_small(graph: Graph, candidates: Bool, limits: tuple[float, float]) -> Bool:
    """Which edges are active in the answer, starting from those of the candidates that close no circle."""
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
