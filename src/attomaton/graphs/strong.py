"""Find strong components of a directed graph, their order, and the fewest edges that connect all."""

from collections.abc import Sequence

import numpy as np

from attomaton.base.native import find_heights, label_components
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Int64, Integers

Pair = tuple[int, int]  # an edge: the node that it leaves, and the node that it enters


def in_order_of_appearance(labels: Integers) -> Int64:
    """Renumber labels 0, 1, 2 … in order of first appearance."""
    if not len(labels):
        return np.empty(0, np.int64)
    # A number that is no label has its first position at the end, so it gets a new number after all labels.
    first_position = np.full(int(labels.max()) + 1, len(labels), np.int64)
    np.minimum.at(first_position, labels, np.arange(len(labels)))
    new_number = np.empty(len(first_position), np.int64)
    new_number[np.argsort(first_position)] = np.arange(len(first_position))
    return new_number[labels]


def connected_nodes(tails: Int64, heads: Int64, size: int, *, strongly: bool) -> Int64:
    """The strong or connected component of each node, shape (size,), numbered by first appearance."""
    if not strongly:  # with each edge also reversed, strong components are connected components
        tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    order = np.argsort(tails, kind="stable")
    return label_components(tails[order], heads[order], size)


def measure_heights(above: Int64, below: Int64, size: int) -> Int64:
    """The length of the longest path down from each node of an acyclic graph, shape (size,)."""
    return find_heights(group_borders(above, size), below[np.argsort(above, kind="stable")])


def connect_strongly(n_nodes: int, above: Int64, below: Int64) -> list[Pair]:
    """A smallest set of edges that makes the acyclic graph above → below strongly connected."""
    # With isolated nodes counted as both, max(sources, sinks) edges suffice (Eswaran and Tarjan 1976).
    if n_nodes < 2:
        return []
    has_below = np.bincount(above, minlength=n_nodes) > 0
    has_above = np.bincount(below, minlength=n_nodes) > 0
    sources = np.flatnonzero(has_below & ~has_above).tolist()
    sinks = np.flatnonzero(has_above & ~has_below).tolist()
    alone = np.flatnonzero(~has_above & ~has_below).tolist()
    if len(sources) <= len(sinks):
        return _close(_pair_up(n_nodes, above, below, sources), sources, sinks, alone)
    # The reversed graph has fewer sources than sinks; its edges are reversed back.
    reversed_edges = _close(_pair_up(n_nodes, below, above, sinks), sinks, sources, alone)
    return [(enter, leave) for leave, enter in reversed_edges]


# Pairs (source, a sink it reaches), by a depth-first search that visits no node twice.
def _pair_up(n_nodes: int, above: Int64, below: Int64, sources: Sequence[int]) -> list[Pair]:
    # A source that meets no unvisited sink is left out; it reaches the sink of some pair.
    # The children of a node are children[start[node]:start[node + 1]]; a sink has none.
    start = group_borders(above, n_nodes).tolist()
    children = below[np.argsort(above, kind="stable")].tolist()
    visited = [False] * n_nodes
    pairs: list[Pair] = []
    for source in sources:
        stack = [source]
        while stack:
            node = stack.pop()
            if visited[node]:
                continue
            visited[node] = True
            if start[node] == start[node + 1]:
                pairs.append((source, node))
                break
            stack.extend(reversed(children[start[node] : start[node + 1]]))
    return pairs


# The edges that close one cycle through all pairs, isolated nodes and surplus sinks, then the others.
def _close(pairs: list[Pair], sources: list[int], sinks: list[int], alone: list[int]) -> list[Pair]:
    # There are at least as many sinks as sources, so each source outside the pairs gets an edge from a sink.
    paired_sources = {source for source, _ in pairs}
    paired_sinks = {sink for _, sink in pairs}
    other_sources = [source for source in sources if source not in paired_sources]
    other_sinks = [sink for sink in sinks if sink not in paired_sinks]
    n_matched = len(other_sources)
    edges = list(zip(other_sinks[:n_matched], other_sources, strict=True))
    # The cycle enters a stop at its source and leaves at its sink; other nodes are a stop by themselves.
    stops = [*pairs, *((node, node) for node in [*other_sinks[n_matched:], *alone])]
    for (_, leave), (enter, _) in zip(stops, [*stops[1:], stops[0]], strict=True):
        edges.append((leave, enter))
    return edges
