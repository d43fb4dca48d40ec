"""The block solver: an exact dual active-set method for positions with gaps of 1.

The state is always optimal for the edges it holds active (all multipliers ≥ 0); violated edges are taken in
one by one. Taking one in pushes its upper block up and its lower block down until the gap is 1; an edge whose
multiplier reaches zero on the way lets go. Each step raises the dual objective, so no state returns and ties
cannot make it circle. Positions are whole offsets plus one balance per block, hence exact to rounding.

This is the method of Goldfarb and Idnani on the problem that graph drawing calls "variable placement with
separation constraints" (Dwyer, Marriott, Stuckey).
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attomaton.graphs.compiled import compiled
from attomaton.graphs.grouping import group_borders
from attomaton.graphs.topology import find_heights
from attomaton.hard.problem import OrderProblem
from attomaton.hard.solvers.forest import (
    NONE,
    UNSEEN,
    Forest,
    Graph,
    Walk,
    balance,
    first_to_ease,
    link,
    multiplier_into,
    place,
    settle,
    survey,
    unlink,
    walk_block,
    weigh,
)
from attomaton.tables import Float64, Int64

N_THREADS = os.cpu_count() or 1


@dataclass(frozen=True)
class Blocks:
    """Solve all groups of the problem side by side; edges violated by less than ``atol`` count as satisfied.

    ``greed`` is how close to the worst violation an edge must come to be taken in during a sweep.
    """

    atol: float = 1e-10
    greed: float = 0.5

    def solve_order(self, problem: OrderProblem) -> tuple[Float64, Float64]:
        """Positions, shape (n_components,), and edge multipliers, shape (n_edges,)."""
        if not len(problem.above):
            return np.zeros(len(problem.sizes)), np.zeros(0)
        size, half_edges = len(problem.sizes), 2 * len(problem.above)
        graph = Graph(problem.sizes.astype(np.float64), problem.above, problem.below)
        forest = Forest(
            first=np.full(size, NONE, np.int64),
            following=np.empty(half_edges, np.int64),
            previous=np.empty(half_edges, np.int64),
            position=np.zeros(size),
        )
        numbers, sums = np.empty((2, size), np.int64), np.empty((2, size))
        walk = Walk(np.empty(2 * size, np.int64), numbers[0], numbers[1], sums[0], sums[1])
        _plant(graph, forest, _by_slack(graph))
        multipliers = np.zeros(len(problem.above))
        limits, borders = (self.greed, self.atol), problem.borders
        with ThreadPoolExecutor(N_THREADS) as threads:  # compiled code holds no lock; parts share nothing
            for done in [
                threads.submit(_solve_parts, graph, forest, walk, borders, some, limits, multipliers)
                for some in _shares(borders[0])
            ]:
                done.result()
        return forest.position, multipliers


def _shares(node_start: Int64) -> list[tuple[int, int]]:
    """Ranges of parts with about equally many nodes, a few for each thread."""
    cuts = np.arange(8 * N_THREADS + 1) * int(node_start[-1]) // (8 * N_THREADS)
    borders = sorted(set(np.searchsorted(node_start, cuts).tolist()))
    return list(pairwise(borders))


def _by_slack(graph: Graph) -> Int64:
    """The edges, those on longest paths first: they are the likeliest to be tight."""
    above, below = graph.above, graph.below
    with ThreadPoolExecutor(2) as threads:
        upwards = threads.submit(_longest_paths, below, above, len(graph.weight))
        height, depth = _longest_paths(above, below, len(graph.weight)), upwards.result()
    return np.argsort(height[above] - height[below] + depth[below] - depth[above], kind="stable")


def _longest_paths(source: Int64, target: Int64, size: int) -> Int64:
    rows = np.argsort(source, kind="stable")
    return find_heights(group_borders(source, size), target[rows])


@compiled
def _plant(graph: Graph, forest: Forest, edges: Int64) -> None:
    """A first forest: every edge, in the order given, that closes no circle."""
    leader = np.arange(len(graph.weight))
    for edge in edges:
        one, other = graph.above[edge], graph.below[edge]
        while leader[one] != one:
            leader[one] = leader[leader[one]]
            one = leader[one]
        while leader[other] != other:
            leader[other] = leader[leader[other]]
            other = leader[other]
        if one != other:
            leader[one] = other
            link(graph, forest, edge)


@compiled
def _solve_parts(
    graph: Graph,
    forest: Forest,
    walk: Walk,
    borders: tuple[Int64, Int64],
    some: tuple[int, int],
    limits: tuple[float, float],
    multipliers: Float64,
) -> None:
    """Solve the parts ``some[0] … some[1] − 1`` and write the multipliers of their edges."""
    node_start, edge_start = borders
    for part in range(some[0], some[1]):
        nodes = (node_start[part], node_start[part + 1])
        edges = (edge_start[part], edge_start[part + 1])
        _solve_part(graph, forest, walk, nodes, edges, limits)
        _collect(graph, forest, walk, nodes, multipliers)


@compiled
def _solve_part(
    graph: Graph,
    forest: Forest,
    walk: Walk,
    nodes: tuple[int, int],
    edges: tuple[int, int],
    limits: tuple[float, float],
) -> None:
    """Bring the edges of one part to gaps of 1 or more; ``limits`` are greed and tolerance."""
    greed, atol = limits
    while _drop_negative(graph, forest, walk, nodes) > 0:
        pass
    while True:
        worst = 0.0
        for edge in range(edges[0], edges[1]):
            worst = max(worst, _violation(graph, forest, edge))
        if worst <= atol:
            break
        for edge in range(edges[0], edges[1]):
            if _violation(graph, forest, edge) > max(atol, greed * worst):
                _take_in(graph, forest, walk, edge, nodes)


@compiled
def _violation(graph: Graph, forest: Forest, edge: int) -> float:
    return 1.0 - forest.position[graph.above[edge]] + forest.position[graph.below[edge]]


@compiled
def _drop_negative(graph: Graph, forest: Forest, walk: Walk, nodes: tuple[int, int]) -> int:
    """Settle every block of a part and let go of the edges that pull; returns how many there were."""
    drops = 0
    walk.entry[nodes[0] : nodes[1]] = UNSEEN
    for root in range(nodes[0], nodes[1]):
        if walk.entry[root] == UNSEEN:
            end = settle(graph, forest, walk, root, 2 * nodes[0])
            for at in range(2 * nodes[0] + 1, end):
                if multiplier_into(walk, walk.order[at]) < 0.0:
                    unlink(graph, forest, walk.entry[walk.order[at]] >> 1)
                    drops += 1
    return drops


@compiled
def _collect(graph: Graph, forest: Forest, walk: Walk, nodes: tuple[int, int], multipliers: Float64) -> None:
    """The multipliers of a part's active edges."""
    walk.entry[nodes[0] : nodes[1]] = UNSEEN
    for root in range(nodes[0], nodes[1]):
        if walk.entry[root] == UNSEEN:
            end = settle(graph, forest, walk, root, 2 * nodes[0])
            for at in range(2 * nodes[0] + 1, end):
                node = walk.order[at]
                multipliers[walk.entry[node] >> 1] = multiplier_into(walk, node)


@compiled
def _take_in(graph: Graph, forest: Forest, walk: Walk, edge: int, nodes: tuple[int, int]) -> None:
    """Make a violated edge tight: push its ends apart and let go of each edge that the push eases to zero."""
    top, bottom, begin, middle = graph.above[edge], graph.below[edge], 2 * nodes[0], nodes[0] + nodes[1]
    _part_ends(graph, forest, walk, edge, begin)
    end, weight, height, push, eased = _brace(graph, forest, walk, top, begin, True)
    end_low, weight_low, height_low, push_low, eased_low = _brace(graph, forest, walk, bottom, middle, False)
    while True:
        needed = (1.0 - height + height_low) / (1.0 / weight + 1.0 / weight_low)
        if min(push, push_low) >= needed:
            break
        if push <= push_low:
            unlink(graph, forest, eased)
            settle(graph, forest, walk, graph.below[eased], begin)
            end, weight, height, push, eased = _brace(graph, forest, walk, top, begin, True)
        else:
            unlink(graph, forest, eased_low)
            settle(graph, forest, walk, graph.above[eased_low], middle)
            end_low, weight_low, height_low, push_low, eased_low = _brace(
                graph, forest, walk, bottom, middle, False
            )
    link(graph, forest, edge)
    joint = (weight * height + weight_low * (height_low + 1.0)) / (weight + weight_low)
    place(forest, walk, begin, end, joint)
    place(forest, walk, middle, end_low, joint - 1.0)


@compiled
def _brace(
    graph: Graph, forest: Forest, walk: Walk, root: int, begin: int, upwards: bool
) -> tuple[int, float, float, float, int]:
    """A block before a push at its root: its list's end, weight, root position, and what eases first."""
    end, weight, height = survey(graph, forest, walk, root, begin)
    push, eased = first_to_ease(walk, begin, end, weight, upwards)
    return end, weight, height, push, eased


@compiled
def _part_ends(graph: Graph, forest: Forest, walk: Walk, edge: int, begin: int) -> None:
    """If both ends are in one block, let go of the weakest edge that holds the upper end down."""
    top, bottom = graph.above[edge], graph.below[edge]
    walk.entry[bottom] = UNSEEN
    end = walk_block(graph, forest, walk, top, begin)
    if walk.entry[bottom] == UNSEEN:
        return
    _, height = balance(graph, walk, begin, end)
    weigh(graph, walk, begin, end, height)
    weakest, least, node = NONE, np.inf, bottom
    while node != top:
        half = walk.entry[node]
        if half & 1 == 0 and multiplier_into(walk, node) < least:
            weakest, least = half >> 1, multiplier_into(walk, node)
        node = graph.below[half >> 1] if half & 1 else graph.above[half >> 1]
    unlink(graph, forest, weakest)
