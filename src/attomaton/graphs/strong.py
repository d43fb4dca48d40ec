"""Find strong components of a directed graph, their order, and the fewest edges that connect all."""

from collections.abc import Sequence

import numpy as np

from attomaton.base.native import find_heights, label_components
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Int64, Integers

# Above, below, edges and support: the columns of an order.
Order = tuple[Int64, Int64, Int64, Int64]


def in_order_of_appearance(labels: Integers) -> Int64:
    """Renumber labels 0, 1, 2 … in order of first appearance."""
    if not len(labels):
        return np.empty(0, np.int64)
    first = np.full(int(labels.max()) + 1, len(labels), np.int64)
    np.minimum.at(first, labels, np.arange(len(labels)))
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[labels]


def connected_nodes(tails: Int64, heads: Int64, size: int, *, strongly: bool) -> Int64:
    """The strong component of each node, or what edges in any direction connect, in order of appearance."""
    if not strongly:
        tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    order = np.argsort(tails, kind="stable")
    return label_components(tails[order], heads[order], size)


def measure_heights(above: Int64, below: Int64, size: int) -> Int64:
    """The length of the longest path down from each node of an acyclic graph, shape (size,)."""
    order = np.argsort(above, kind="stable")
    return find_heights(group_borders(above, size), below[order])


Pair = tuple[int, int]


def connect_strongly(n_nodes: int, above: Int64, below: Int64) -> list[Pair]:
    """A smallest set of edges that makes the acyclic graph above → below strongly connected.

    max(sources, sinks) edges suffice (Eswaran and Tarjan 1976).
    """
    if n_nodes < 2:
        return []
    lead_out, lead_in = np.bincount(above, minlength=n_nodes) > 0, np.bincount(below, minlength=n_nodes) > 0
    sources, sinks = (
        np.flatnonzero(lead_out & ~lead_in).tolist(),
        np.flatnonzero(lead_in & ~lead_out).tolist(),
    )
    alone = np.flatnonzero(~lead_in & ~lead_out).tolist()
    if len(sources) <= len(sinks):
        return _close(_pair_up(n_nodes, above, below, sources), sources, sinks, alone)
    reversed_edges = _close(_pair_up(n_nodes, below, above, sinks), sinks, sources, alone)
    return [(after, before) for before, after in reversed_edges]


def _pair_up(n_nodes: int, above: Int64, below: Int64, sources: Sequence[int]) -> list[Pair]:
    """Pairs (source, a sink it reaches), visiting no node twice.

    A source that meets no unvisited sink can still reach the sink of a pair.
    """
    order = np.argsort(above, kind="stable")
    start, children = group_borders(above, n_nodes).tolist(), below[order].tolist()
    visited, pairs = [False] * n_nodes, list[Pair]()
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


def _close(pairs: list[Pair], sources: list[int], sinks: list[int], alone: list[int]) -> list[Pair]:
    """Close one cycle through all pairs, isolated nodes and surplus sinks; pair off the remaining nodes."""
    paired_sources, paired_sinks = {source for source, _ in pairs}, {sink for _, sink in pairs}
    other_sources = [source for source in sources if source not in paired_sources]
    other_sinks = [sink for sink in sinks if sink not in paired_sinks]
    matched = len(other_sources)
    edges = list(zip(other_sinks[:matched], other_sources, strict=True))
    stops = [*pairs, *((node, node) for node in [*other_sinks[matched:], *alone])]
    for (_, leave), (enter, _) in zip(stops, [*stops[1:], stops[0]], strict=True):
        edges.append((leave, enter))
    return edges
