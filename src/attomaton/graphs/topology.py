"""Traversals of many small acyclic graphs at once: longest paths and redundant edges.

Graphs are in compressed rows: the nodes below ``node`` are ``below[start[node]:start[node + 1]]``. Compiled,
because these walks are sequential; iterative, because a chain may be a million nodes long.
"""

import numpy as np

from attomaton.base.kernels import compiled
from attomaton.base.tables import Bool, Int64, Integers

Graph = tuple[Int64, Int64, Bool]
"""Compressed rows, and which edges are kept."""

Room = tuple[Int64, Int64]
"""The mark of each node, and a stack of nodes."""


def _walk_work(start: Int64, below: Int64, *_: object) -> float:
    """The approximate number of edges visited if a walk starts at every node."""
    return len(below) * max(len(start), 1) ** 0.5


@compiled
def find_heights(start: Int64, below: Int64) -> Int64:
    """Length of the longest path down from each node (0 at the bottom), shape (n_nodes,); for acyclic graphs.

    Equation: height(A) = 1 + max over A → B of height(B).
    """
    n_nodes = len(start) - 1
    topological = sort_topologically(start, below)
    height = np.zeros(n_nodes, np.int64)
    for position in range(n_nodes - 1, -1, -1):
        node = topological[position]
        for edge in range(start[node], start[node + 1]):
            height[node] = max(height[node], height[below[edge]] + 1)
    return height


@compiled
def sort_topologically(start: Integers, below: Integers) -> Int64:
    """The nodes in an order in which each precedes all below it (Kahn), shape (n_nodes,)."""
    n_nodes = len(start) - 1
    waiting = np.zeros(n_nodes, np.int64)
    for edge in range(len(below)):
        waiting[below[edge]] += 1
    queue = np.empty(n_nodes, np.int64)
    end = 0
    for node in range(n_nodes):
        if waiting[node] == 0:
            queue[end] = node
            end += 1
    position = 0
    while position < end:
        node = queue[position]
        position += 1
        for edge in range(start[node], start[node + 1]):
            waiting[below[edge]] -= 1
            if waiting[below[edge]] == 0:
                queue[end] = below[edge]
                end += 1
    assert end == n_nodes  # noqa: S101  a condensation has no cycle
    return queue


@compiled(work=_walk_work)
def find_irredundant(start: Int64, below: Int64) -> Bool:
    """Which edges a transitive reduction keeps, shape (n_edges,): those that no longer path replaces.

    Nodes are processed from the bottom up, so the walks below a node follow edges already known to be kept;
    no walk goes below the lowest child it looks for.
    """
    n_nodes = len(start) - 1
    height = find_heights(start, below)
    needed = np.zeros(len(below), np.bool_)
    marks = np.full(n_nodes, -1, np.int64)
    stack = np.empty(n_nodes, np.int64)
    for node in np.argsort(height, kind="mergesort"):
        children = below[start[node] : start[node + 1]]
        if len(children) == 0:
            continue
        lowest = height[children].min()
        for child in np.argsort(-height[children], kind="mergesort"):
            if marks[children[child]] == node:
                continue
            needed[start[node] + child] = True
            _mark_below(int(children[child]), node, lowest, (start, below, needed), height, (marks, stack))
    return needed


@compiled(work=_walk_work)
def find_paths(start: Int64, below: Int64, height: Int64, top: Int64, bottom: Int64) -> Bool:
    """Whether a path leads from each ``top`` down to its ``bottom``, shape (n_pairs,); equal tops adjacent.

    There is one walk for each distinct top; it does not go below the lowest bottom it looks for.
    """
    answers = np.zeros(len(top), np.bool_)
    all_edges = np.ones(len(below), np.bool_)
    marks = np.full(len(start) - 1, -1, np.int64)
    stack = np.empty(len(start) - 1, np.int64)
    first = 0
    while first < len(top):
        last, lowest = first, height[bottom[first]]
        while last < len(top) and top[last] == top[first]:
            lowest = min(lowest, height[bottom[last]])
            last += 1
        _mark_below(int(top[first]), first, int(lowest), (start, below, all_edges), height, (marks, stack))
        for pair in range(first, last):
            answers[pair] = marks[bottom[pair]] == first
        first = last
    return answers


@compiled
def _mark_below(top: int, mark: int, lowest: int, graph: Graph, height: Int64, room: Room) -> None:
    """Mark ``top`` and all nodes below it of height at least ``lowest``."""
    (start, below, usable), (marks, stack) = graph, room
    marks[top] = mark
    stack[0] = top
    size = 1
    while size > 0:
        size -= 1
        node = stack[size]
        for edge in range(start[node], start[node + 1]):
            reached = below[edge]
            if usable[edge] and marks[reached] != mark and height[reached] >= lowest:
                marks[reached] = mark
                stack[size] = reached
                size += 1


@compiled
def precede_all(order: Int64, top: Int64, first: Int64, member: Int64, offsets: Int64, below: Int64) -> Bool:
    """Whether each group's top node reaches all its members, shape (n_groups,)."""
    n_nodes = len(offsets) - 1
    reached_from = np.full(n_nodes, n_nodes)
    stack = np.empty(n_nodes, np.int64)
    answers = np.ones(len(top), np.bool_)
    for group in order:
        if first[group] == first[group + 1]:
            continue
        start = top[group]
        if reached_from[start] != start:
            reached_from[start] = start
            stack[0], height = start, 1
            while height:
                height -= 1
                node = stack[height]
                for other in below[offsets[node] : offsets[node + 1]]:
                    if reached_from[other] != start:
                        reached_from[other] = start
                        stack[height] = other
                        height += 1
        for node in member[first[group] : first[group + 1]]:
            if reached_from[node] != start:
                answers[group] = False
                break
    return answers
