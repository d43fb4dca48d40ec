"""The topological order of an acyclic graph, for kernels that numba compiles."""

import numpy as np

from attomaton.base.kernels import compiled
from attomaton.base.tables import Int64, Integers


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
