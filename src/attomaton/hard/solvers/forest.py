"""Rigid blocks of components, as a forest of tight edges.

An active edge is tight (its gap is exactly 1), so the nodes that active edges join move as one block. Active
edges never close a circle. They are kept as linked half-edges: half-edge 2e leads from the node above to the
node below of edge e, half-edge 2e + 1 leads back. All functions here are compiled and change their arguments.
"""

from typing import Any, NamedTuple

import numpy as np

from attomaton.graphs.compiled import compiled

NONE = -1
"""No half-edge, no edge; compiled code has no better word for it."""

UNSEEN = -2
"""A node that no walk has entered."""


Array = Any
"""An array inside compiled code, where its elements are numbers (numpy's types would call them arrays)."""


class Graph(NamedTuple):
    """The problem: node weights, shape (n_nodes,), and edges above → below, shape (n_edges,)."""

    weight: Array  # float64
    above: Array  # int64
    below: Array  # int64


class Forest(NamedTuple):
    """The active edges as lists of half-edges by node, and the position of each node."""

    first: Array  # int64 (n_nodes,)
    following: Array  # int64 (2 n_edges,)
    previous: Array  # int64 (2 n_edges,)
    position: Array  # float64 (n_nodes,)


class Walk(NamedTuple):
    """What walks write: nodes in order, and for each node how it was entered and what hangs beyond it."""

    order: Array  # int64 (2 n_nodes,): room for two blocks of each part
    entry: Array  # int64 (n_nodes,): the half-edge that led here
    offset: Array  # int64 (n_nodes,): position less that of the walk's root
    load: Array  # float64 (n_nodes,): sum of weight times position here and beyond
    mass: Array  # float64 (n_nodes,): sum of weight here and beyond


@compiled
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


@compiled
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
def walk_block(graph: Graph, forest: Forest, walk: Walk, root: int, begin: int) -> int:
    """List the block of ``root``, from it outwards, in ``order[begin:]``; returns where the list ends."""
    walk.order[begin] = root
    walk.entry[root] = NONE
    walk.offset[root] = 0
    at, end = begin, begin + 1
    while at < end:
        node = walk.order[at]
        at += 1
        back = NONE if walk.entry[node] == NONE else walk.entry[node] ^ 1
        half = forest.first[node]
        while half != NONE:
            if half != back:
                other = graph.above[half >> 1] if half & 1 else graph.below[half >> 1]
                walk.offset[other] = walk.offset[node] + (1 if half & 1 else -1)
                walk.entry[other] = half
                walk.order[end] = other
                end += 1
            half = forest.following[half]
    return end


@compiled
def balance(graph: Graph, walk: Walk, begin: int, end: int) -> tuple[float, float]:
    """The weight of the listed block, and its root's position where weighted positions sum to zero."""
    total, moment = 0.0, 0.0
    for at in range(begin, end):
        node = walk.order[at]
        total += graph.weight[node]
        moment += graph.weight[node] * walk.offset[node]
    return total, -moment / total


@compiled
def place(forest: Forest, walk: Walk, begin: int, end: int, root_position: float) -> None:
    """Set the positions of the listed block."""
    for at in range(begin, end):
        node = walk.order[at]
        forest.position[node] = root_position + walk.offset[node]


@compiled
def weigh(graph: Graph, walk: Walk, begin: int, end: int, root_position: float) -> None:
    """Sum loads and masses of the listed block from its ends to its root."""
    for at in range(begin, end):
        node = walk.order[at]
        walk.load[node] = graph.weight[node] * (root_position + walk.offset[node])
        walk.mass[node] = graph.weight[node]
    for at in range(end - 1, begin, -1):
        node = walk.order[at]
        half = walk.entry[node]
        parent = graph.below[half >> 1] if half & 1 else graph.above[half >> 1]
        walk.load[parent] += walk.load[node]
        walk.mass[parent] += walk.mass[node]


@compiled
def multiplier_into(walk: Walk, node: int) -> float:
    """The multiplier of the edge by which ``node`` was entered: what hangs beyond it must balance."""
    return walk.load[node] if walk.entry[node] & 1 else -walk.load[node]


@compiled
def survey(graph: Graph, forest: Forest, walk: Walk, root: int, begin: int) -> tuple[int, float, float]:
    """List and weigh the block of ``root`` as it balances: its list's end, weight and root position."""
    end = walk_block(graph, forest, walk, root, begin)
    weight, root_position = balance(graph, walk, begin, end)
    weigh(graph, walk, begin, end, root_position)
    return end, weight, root_position


@compiled
def settle(graph: Graph, forest: Forest, walk: Walk, root: int, begin: int) -> int:
    """Put the block of ``root`` where it balances and weigh it; returns where its list ends."""
    end, _, root_position = survey(graph, forest, walk, root, begin)
    place(forest, walk, begin, end, root_position)
    return end


@compiled
def first_to_ease(walk: Walk, begin: int, end: int, total: float, upwards: bool) -> tuple[float, int]:
    """The push on the root at which some multiplier reaches zero as the block moves, and that edge.

    A push f moves a block of weight W by f/W and adds mass · f/W to the load beyond each edge, which eases
    the edges entered downwards if the block moves up, the others if it moves down.
    """
    push, edge = np.inf, NONE
    for at in range(begin + 1, end):
        node = walk.order[at]
        half = walk.entry[node]
        if (half & 1 == 0) == upwards:
            here = multiplier_into(walk, node) * total / walk.mass[node]
            if here < push:
                push, edge = here, half >> 1
    return push, edge
