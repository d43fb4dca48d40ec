"""Strong components of a directed graph: sets of nodes that reach each other."""

import sys
from typing import Any

import numpy as np

from attomaton.base.kernels import compiled_within
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Int32, Int64

SMALL = 4_000
"""Edges and nodes up to which Python's own search is over before scipy is loaded."""


def label_strong_components(winner: Int64, loser: Int64, n_nodes: int) -> Int32 | Int64:
    """A number for the strong component of each node, shape (n_nodes,).

    Edges come sorted by winner and loser, each once: scipy's search does not end on some that repeat.
    """
    start = group_borders(winner, n_nodes)
    if max(len(winner), n_nodes) <= SMALL and "scipy.sparse" not in sys.modules:
        return search_all(start, loser)[0]
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(winner))  # floats: a graph of anything else is sorted and copied first
    graph = csr_array((ones, loser, start), shape=(n_nodes, n_nodes))
    return connected_components(graph, directed=True, connection="strong")[1]


@compiled_within
def search_all(start: Int64, loser: Any) -> tuple[Int64, int]:
    """A label for the strong component of each node, in the order in which they are found; how many."""
    n_nodes = len(start) - 1
    label = np.full(n_nodes, -1, np.int64)
    room = (
        np.zeros(n_nodes, np.int64),  # when each node was found, from 1 on
        np.zeros(n_nodes, np.int64),  # the earliest node that it leads back to
        start[:-1].copy(),  # the next edge to follow
        np.empty(n_nodes, np.int64),  # found, without a component
        np.empty(n_nodes, np.int64),  # on the way
    )
    n_found = n_components = 0
    for node in range(n_nodes):
        if label[node] < 0:
            n_found, n_components = _search(node, start, loser, label, room, (n_found, n_components))
    return label, n_components


@compiled_within
def _search(root: int, start: Int64, loser: Any, label: Int64, room: Any, so_far: Any) -> Any:
    """Label all that can be reached from ``root``; how many nodes and components were found by then."""
    found, back, following, waiting, way = room
    n_found, n_components = so_far
    n_waiting, depth = 0, 1
    way[0] = root
    while depth > 0:
        node = way[depth - 1]
        if found[node] == 0:
            n_found += 1
            found[node] = back[node] = n_found
            waiting[n_waiting] = node
            n_waiting += 1
        if following[node] < start[node + 1]:
            other = loser[following[node]]
            following[node] += 1
            if found[other] == 0:
                way[depth] = other
                depth += 1
            elif label[other] < 0:
                back[node] = min(back[node], found[other])
            continue
        depth -= 1
        if depth > 0:
            back[way[depth - 1]] = min(back[way[depth - 1]], back[node])
        if back[node] == found[node]:
            last = -1
            while last != node:
                n_waiting -= 1
                last = waiting[n_waiting]
                label[last] = n_components
            n_components += 1
    return n_found, n_components
