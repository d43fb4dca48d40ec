"""Rigid blocks of nodes, as a forest of tight edges, and the pivots that find it.

A node represents one component, or several that were joined beforehand and move as one. An active edge is
tight (its gap is exactly the required one), so the nodes that active edges join move as one block. Active
edges never close a cycle. They are stored as linked half-edges: half-edge 2e leads from the upper to the
lower node of edge e, half-edge 2e + 1 leads back. All functions here are compiled and change their arguments.
"""

from typing import Any, NamedTuple

import numpy as np

from attomaton.base.kernels import compiled, compiled_within
from attomaton.base.tables import Bool, Float64

NONE = -1
"""Stands for no half-edge or no edge in compiled code."""

UNSEEN = -2
"""Marks a node that no walk has entered."""


Array = Any
"""An array in compiled code, where elements are numbers (numpy's types would make them arrays)."""


whole: Any = np.int64
"""The type of nodes and list positions: with a single type, each function compiles only once."""

FIRST: Any = whole(0)
"""Where lists begin."""


class Graph(NamedTuple):
    """The problem: min Σ weight p²/2 + moment p subject to p_above − p_below ≥ gap on every edge.

    A single component has moment 0, and the gap between two of them is 1.
    """

    weight: Array  # float64 (n_nodes,)
    moment: Array  # float64 (n_nodes,)
    above: Array  # int32 (n_edges,)
    below: Array  # int32 (n_edges,)
    gap: Array  # int32 (n_edges,)


class Forest(NamedTuple):
    """The active edges as lists of half-edges by node, and the position of each node."""

    first: Array  # int32 (n_nodes,)
    following: Array  # int32 (2 n_edges,)
    previous: Array  # int32 (2 n_edges,)
    position: Array  # float64 (n_nodes,)


class Walk(NamedTuple):
    """Output of walks: nodes in order, and for each node how it was entered and the load beyond it."""

    order: Array  # int32 (2 n_nodes,): room for two blocks
    entry: Array  # int32 (n_nodes,): the half-edge that led here
    offset: Array  # int32 (n_nodes,): position minus that of the walk's root
    load: Array  # float64 (n_nodes,): sum of weight times offset, plus moment, here and beyond
    mass: Array  # float64 (n_nodes,): sum of weight here and beyond


@compiled
def unit_graph(weight: Array, above: Array, below: Array, first: int) -> Graph:
    """Single components with gaps of 1; nodes are numbered from ``first`` in the given edges, from 0 here."""
    up, down = np.empty(len(above), np.int32), np.empty(len(above), np.int32)
    for edge in range(len(above)):
        up[edge], down[edge] = above[edge] - first, below[edge] - first
    return Graph(weight, np.zeros(len(weight)), up, down, np.ones(len(above), np.int32))


@compiled
def empty_forest(graph: Graph) -> Forest:
    """A forest with no active edges and every node at 0."""
    n_nodes, n_edges = len(graph.weight), len(graph.above)
    halves = np.empty((2, 2 * n_edges), np.int32)
    return Forest(np.full(n_nodes, NONE, np.int32), halves[0], halves[1], np.zeros(n_nodes))


@compiled
def empty_walk(graph: Graph) -> Walk:
    """Memory for walks."""
    n_nodes = len(graph.weight)
    numbers, sums = np.empty((2, n_nodes), np.int32), np.empty((2, n_nodes))
    return Walk(np.empty(2 * n_nodes, np.int32), numbers[0], numbers[1], sums[0], sums[1])


@compiled_within
def link(graph: Graph, forest: Forest, edge: int) -> None:
    """Make an edge active."""
    for side in range(2):
        half = 2 * edge + side
        node = graph.above[edge] if side == 0 else graph.below[edge]
        former = forest.first[node]
        forest.following[half] = former
        forest.previous[half] = NONE
        if former != NONE:
            forest.previous[former] = half
        forest.first[node] = half


@compiled_within
def unlink(graph: Graph, forest: Forest, edge: int) -> None:
    """Make an edge inactive."""
    for side in range(2):
        half = 2 * edge + side
        node = graph.above[edge] if side == 0 else graph.below[edge]
        before, after = forest.previous[half], forest.following[half]
        if before == NONE:
            forest.first[node] = after
        else:
            forest.following[before] = after
        if after != NONE:
            forest.previous[after] = before


@compiled
def active_edges(graph: Graph, forest: Forest) -> Bool:
    """Which edges are active, shape (n_edges,)."""
    active = np.zeros(len(graph.above), np.bool_)
    for node in range(len(graph.weight)):
        half = forest.first[node]
        while half != NONE:
            active[half >> 1] = True
            half = forest.following[half]
    return active


@compiled_within
def survey(graph: Graph, forest: Forest, walk: Walk, root: int, begin: int) -> tuple[int, float, float]:
    """List the block of ``root`` in ``order[begin:]``; return the list's end, its weight and root position.

    At the root position the block balances: loads, weight times position plus moment, sum to zero.
    """
    walk.order[begin] = root
    walk.entry[root] = NONE
    walk.offset[root] = 0
    at, end = begin, begin + 1
    while at < end:
        node = walk.order[at]
        at += 1
        walk.load[node] = graph.weight[node] * walk.offset[node] + graph.moment[node]
        walk.mass[node] = graph.weight[node]
        back = NONE if walk.entry[node] == NONE else walk.entry[node] ^ 1
        half = forest.first[node]
        while half != NONE:
            if half != back:
                edge = half >> 1
                other = graph.above[edge] if half & 1 else graph.below[edge]
                walk.offset[other] = walk.offset[node] + (graph.gap[edge] if half & 1 else -graph.gap[edge])
                walk.entry[other] = half
                walk.order[end] = other
                end += 1
            half = forest.following[half]
    for at in range(end - 1, begin, -1):
        node = walk.order[at]
        half = walk.entry[node]
        parent = graph.below[half >> 1] if half & 1 else graph.above[half >> 1]
        walk.load[parent] += walk.load[node]
        walk.mass[parent] += walk.mass[node]
    return end, walk.mass[root], -walk.load[root] / walk.mass[root]


@compiled_within
def place(forest: Forest, walk: Walk, begin: int, end: int, root_position: float) -> None:
    """Set the positions of the listed block."""
    for at in range(begin, end):
        node = walk.order[at]
        forest.position[node] = root_position + walk.offset[node]


@compiled_within
def multiplier_into(walk: Walk, node: int, root_position: float) -> float:
    """The multiplier of the edge by which ``node`` was entered: it balances the load beyond it."""
    load = walk.load[node] + walk.mass[node] * root_position
    return load if walk.entry[node] & 1 else -load


@compiled_within
def settle(graph: Graph, forest: Forest, walk: Walk, root: int, begin: int) -> tuple[int, float]:
    """Move the block of ``root`` to its balance point; return where its list ends and its root position."""
    end, _, root_position = survey(graph, forest, walk, root, begin)
    place(forest, walk, begin, end, root_position)
    return end, root_position


@compiled_within
def first_to_ease(
    walk: Walk, begin: int, end: int, block: tuple[float, float], upwards: bool
) -> tuple[float, int]:
    """The push on the root at which some multiplier reaches zero as the block moves, and that edge.

    ``block`` is the weight W and root position. A push f moves the block by f/W and adds mass · f/W to the
    load beyond each edge, which lowers the multipliers of edges entered downwards if the block moves up, and
    of the others if it moves down.
    """
    least, edge = np.inf, NONE
    for at in range(begin + 1, end):
        node = walk.order[at]
        half = walk.entry[node]
        if (half & 1 == 0) == upwards:
            here = multiplier_into(walk, node, block[1]) / walk.mass[node]
            if here < least:
                least, edge = here, half >> 1
    return least * block[0], edge


MAX_SWEEPS = 100_000


@compiled
def pivot(graph: Graph, forest: Forest, walk: Walk, limits: tuple[float, float]) -> None:
    """Satisfy the gap of every edge, from any initial forest; ``limits`` are greed and tolerance.

    Goldfarb and Idnani's dual active-set method: the state is always optimal for the edges it holds active
    (all multipliers ≥ 0), and violated edges are added one by one. Each step raises the dual objective, so no
    state recurs. Rounding could cause a cycle only if the tolerance were below the rounding error of
    positions; then a limit on the sweeps ends it, and the certificate shows it.
    """
    greed, atol = limits
    n_pulling = 1
    while n_pulling > 0:  # release edges with negative multipliers
        multipliers, n_pulling = collect(graph, forest, walk), 0
        for edge in range(len(multipliers)):
            if multipliers[edge] < 0.0:
                unlink(graph, forest, edge)
                n_pulling += 1
    for _ in range(MAX_SWEEPS):
        worst = 0.0
        for edge in range(len(graph.above)):
            worst = max(worst, _violation(graph, forest, edge))
        if worst <= atol:
            return
        for edge in range(len(graph.above)):
            if _violation(graph, forest, edge) > max(atol, greed * worst):
                _take_in(graph, forest, walk, edge)


@compiled
def collect(graph: Graph, forest: Forest, walk: Walk) -> Float64:
    """Settle every block; return the multipliers, 0 for inactive edges, shape (n_edges,)."""
    multipliers = np.zeros(len(graph.above))
    for node in range(len(graph.weight)):
        walk.entry[node] = UNSEEN
    for root in range(len(graph.weight)):
        if walk.entry[root] == UNSEEN:
            end, root_position = settle(graph, forest, walk, root, FIRST)
            for at in range(1, end):
                node = walk.order[at]
                multipliers[walk.entry[node] >> 1] = multiplier_into(walk, node, root_position)
    return multipliers


@compiled_within
def _violation(graph: Graph, forest: Forest, edge: int) -> float:
    return graph.gap[edge] - forest.position[graph.above[edge]] + forest.position[graph.below[edge]]


@compiled_within
def _take_in(graph: Graph, forest: Forest, walk: Walk, edge: int) -> None:
    """Make a violated edge tight: push its ends apart and release each edge whose multiplier reaches zero."""
    top, bottom = whole(graph.above[edge]), whole(graph.below[edge])
    begin, middle = FIRST, len(graph.weight)
    walk.entry[bottom] = UNSEEN
    end, weight, height = survey(graph, forest, walk, top, begin)
    if walk.entry[bottom] != UNSEEN:
        unlink(graph, forest, _weakest(graph, walk, top, bottom, height))
        end, weight, height = survey(graph, forest, walk, top, begin)
    push, eased = first_to_ease(walk, begin, end, (weight, height), True)
    end_low, weight_low, height_low = survey(graph, forest, walk, bottom, middle)
    push_low, eased_low = first_to_ease(walk, middle, end_low, (weight_low, height_low), False)
    gap = graph.gap[edge]
    while True:
        needed = (gap - height + height_low) / (1.0 / weight + 1.0 / weight_low)
        if min(push, push_low) >= needed:
            break
        if push <= push_low:
            unlink(graph, forest, eased)
            settle(graph, forest, walk, whole(graph.below[eased]), begin)
            end, weight, height = survey(graph, forest, walk, top, begin)
            push, eased = first_to_ease(walk, begin, end, (weight, height), True)
        else:
            unlink(graph, forest, eased_low)
            settle(graph, forest, walk, whole(graph.above[eased_low]), middle)
            end_low, weight_low, height_low = survey(graph, forest, walk, bottom, middle)
            push_low, eased_low = first_to_ease(walk, middle, end_low, (weight_low, height_low), False)
    link(graph, forest, edge)
    joint = (weight * height + weight_low * (height_low + gap)) / (weight + weight_low)
    place(forest, walk, begin, end, joint)
    place(forest, walk, middle, end_low, joint - gap)


@compiled_within
def _weakest(graph: Graph, walk: Walk, top: int, bottom: int, root_position: float) -> int:
    """The weakest edge that holds the upper end of an edge down, if both ends are in the listed block."""
    weakest, least, node = NONE, np.inf, bottom
    while node != top:
        half = walk.entry[node]
        multiplier = multiplier_into(walk, node, root_position)
        if half & 1 == 0 and multiplier < least:
            weakest, least = half >> 1, multiplier
        node = graph.below[half >> 1] if half & 1 else graph.above[half >> 1]
    return weakest
