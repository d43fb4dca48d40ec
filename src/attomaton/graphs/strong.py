"""Strong components of a directed graph, the order between them, and the fewest edges that connect all."""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.kernels import compiled, compiled_within
from attomaton.base.ragged import group_borders, run_starts
from attomaton.base.tables import Int32, Int64, Integers
from attomaton.corpora.samples import MAX_TOKENS, TOKEN_BITS
from attomaton.graphs.bags import numpy_work
from attomaton.graphs.grouping import distinct_keys, find_rows, pack_pairs, sum_by_key

SMALL = 4_000
"""Most edges and nodes for which a search in Python is faster than loading scipy."""


def label_strong_components(winner: Int64, loser: Int64, n_nodes: int) -> Int32 | Int64:
    """A number for the strong component of each node, shape (n_nodes,).

    Edges must be sorted by winner and loser, without repeats: with repeats scipy's search may not terminate.
    """
    start = group_borders(winner, n_nodes)
    if max(len(winner), n_nodes) <= SMALL and "scipy.sparse" not in sys.modules:
        return search_all(start, loser)[0]
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(winner))  # floats: a graph of any other type is sorted and copied first
    graph = csr_array((ones, loser, start), shape=(n_nodes, n_nodes))
    return connected_components(graph, directed=True, connection="strong")[1]


@compiled_within
def search_all(start: Int64, loser: Any) -> tuple[Int64, int]:
    """A label for the strong component of each node, in order of discovery, and the number of components."""
    n_nodes = len(start) - 1
    label = np.full(n_nodes, -1, np.int64)
    room = (
        np.zeros(n_nodes, np.int64),  # discovery time of each node, from 1
        np.zeros(n_nodes, np.int64),  # the earliest node reachable from it
        start[:-1].copy(),  # the next edge to follow
        np.empty(n_nodes, np.int64),  # discovered, without a component
        np.empty(n_nodes, np.int64),  # on the current path
    )
    n_found = n_components = 0
    for node in range(n_nodes):
        if label[node] < 0:
            n_found, n_components = _search(node, start, loser, label, room, (n_found, n_components))
    return label, n_components


@compiled_within
def _search(root: int, start: Int64, loser: Any, label: Int64, room: Any, so_far: Any) -> Any:
    """Label all nodes reachable from ``root``; return the numbers of nodes and components found so far."""
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


Order = tuple[Int64, Int64, Int64, Int64]
"""Above, below, edges and support: the columns of an order."""


class Found(NamedTuple):
    """The nodes of some queries, their components and the order between these, numbered from 0."""

    keys: Int64
    component: Int64
    n_components: int
    order: Order


def search_queries(
    query: Int32, winner: Int32, loser: Int32, support: Int64, sampled: Int32, n_tokens: int
) -> Found:
    """Find the components of some queries from their edges; ``sampled`` are the queries with samples."""
    won = pack_pairs(query, winner)
    won = won[run_starts(won)] if len(won) else won  # they are sorted
    keys = distinct_keys(np.concatenate([won, pack_pairs(query, loser), pack_pairs(sampled, sampled)]))
    above = find_nodes(keys, query, winner, n_tokens)
    below = find_nodes(keys, query, loser, n_tokens)
    component = label_components(above, below, len(keys))
    n_components = int(component.max(initial=-1)) + 1
    ones = np.ones(len(query), np.int64)
    order = condense(component[above], component[below], ones, support, n_components)
    return Found(keys, component, n_components, order)


def _find_plain(keys: Int64, queries: Int32, tokens: Int32, _: int) -> Int64:
    rows, found = find_rows(keys, pack_pairs(queries, tokens))
    return np.where(found, rows, -1)


@compiled(work=numpy_work, instead=_find_plain)
def find_nodes(keys: Int64, queries: Int32, tokens: Int32, size: int) -> Int64:
    """The row of each (query, token) among sorted node keys, shape (n_pairs,); −1 if there is none.

    The queries are sorted, and the tokens are all in 0 … size − 1.
    """
    number = np.full(size, -1, np.int64)
    rows = np.empty(len(queries), np.int64)
    first = end = 0  # the rows of the last query
    query = np.int64(-1)
    for pair in range(len(queries)):
        if queries[pair] != query:
            query = np.int64(queries[pair])
            for row in range(first, end):
                number[keys[row] & (MAX_TOKENS - 1)] = -1
            first = end
            while first < len(keys) and (keys[first] >> TOKEN_BITS) < query:
                first += 1
            end = first
            while end < len(keys) and (keys[end] >> TOKEN_BITS) == query:
                number[keys[end] & (MAX_TOKENS - 1)] = end
                end += 1
        rows[pair] = number[tokens[pair]]
    return rows


def in_order_of_appearance(labels: Integers) -> Int64:
    """Renumber labels 0, 1, 2 … in order of first appearance."""
    if not len(labels):
        return np.empty(0, np.int64)
    first = np.full(int(labels.max()) + 1, len(labels), np.int64)
    np.minimum.at(first, labels, np.arange(len(labels)))
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[labels]


def _label_plain(winner: Int64, loser: Int64, n_nodes: int) -> Int64:
    return in_order_of_appearance(label_strong_components(winner, loser, n_nodes))


@compiled(work=numpy_work, instead=_label_plain)
def label_components(winner: Int64, loser: Int64, n_nodes: int) -> Int64:
    """The strong component of each node, numbered in order of appearance, shape (n_nodes,).

    Edges are sorted by winner. Tarjan's search, without recursion: a chain may be a million nodes long.
    """
    start = np.zeros(n_nodes + 1, np.int64)
    for edge in range(len(winner)):
        start[winner[edge] + 1] += 1
    for node in range(n_nodes):
        start[node + 1] += start[node]
    label, n_components = search_all(start, loser)
    number = np.full(n_components, -1, np.int64)
    n_numbered = 0
    for node in range(n_nodes):
        if number[label[node]] < 0:
            number[label[node]] = n_numbered
            n_numbered += 1
        label[node] = number[label[node]]
    return label


@compiled
def count_components(start: Int64, loser: Int32) -> int:
    """The number of strong components; node i beats ``loser[start[i]:start[i + 1]]``, possibly itself."""
    return search_all(start, loser)[1]


def _condense_plain(above: Int64, below: Int64, counts: Int64, support: Int64, size: int) -> Order:
    between = above != below
    keys, edges, supports = sum_by_key(
        above[between] * size + below[between], counts[between], support[between]
    )
    return keys // max(size, 1), keys % max(size, 1), edges, supports


@compiled(work=numpy_work, instead=_condense_plain)
def condense(above: Int64, below: Int64, counts: Int64, support: Int64, size: int) -> Order:
    """The distinct edges between different components, of ``size``, with summed counts and supports."""
    start = np.zeros(size + 1, np.int64)
    for edge in range(len(above)):
        start[above[edge] + 1] += above[edge] != below[edge]
    for component in range(size):
        start[component + 1] += start[component]
    order, free = np.empty(start[size], np.int64), start[:-1].copy()
    for edge in range(len(above)):
        if above[edge] != below[edge]:
            order[free[above[edge]]] = edge
            free[above[edge]] += 1
    n_rows, n_edges = 0, len(order)
    tops, bottoms = np.empty(n_edges, np.int64), np.empty(n_edges, np.int64)
    sums, supports = np.empty(n_edges, np.int64), np.empty(n_edges, np.int64)
    row_of = np.full(size, -1, np.int64)
    for component in range(size):
        first = n_rows
        for entry in range(start[component], start[component + 1]):
            other = below[order[entry]]
            if row_of[other] < first:
                row_of[other] = n_rows
                bottoms[n_rows] = other
                n_rows += 1
        sort_between(bottoms, first, n_rows)
        for row in range(first, n_rows):
            row_of[bottoms[row]] = row
            tops[row], sums[row], supports[row] = component, 0, 0
        for entry in range(start[component], start[component + 1]):
            row = row_of[below[order[entry]]]
            sums[row] += counts[order[entry]]
            supports[row] += support[order[entry]]
    return tops[:n_rows].copy(), bottoms[:n_rows].copy(), sums[:n_rows].copy(), supports[:n_rows].copy()


@compiled_within
def sort_between(numbers: Int64, first: int, end: int) -> None:
    """Sort ``numbers[first:end]`` (Shell sort: insertion sort with shrinking gaps)."""
    step = 1
    while 3 * step + 1 < end - first:
        step = 3 * step + 1
    while step > 0:
        for position in range(first + step, end):
            number = numbers[position]
            free = position
            while free - step >= first and numbers[free - step] > number:
                numbers[free] = numbers[free - step]
                free -= step
            numbers[free] = number
        step //= 3


Pair = tuple[int, int]


def connect(n_nodes: int, above: Int64, below: Int64) -> list[Pair]:
    """A smallest set of edges that makes the acyclic graph above → below strongly connected.

    Every source needs an incoming edge, every sink an outgoing one, and an isolated node both; max(sources,
    sinks) edges suffice (Eswaran and Tarjan 1976).
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

    From each source, walk down over unvisited nodes to a sink. A source that meets no sink can still reach
    the sink of a pair; a sink in no pair can be reached from the source of one.
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
    """Close one cycle through all pairs, isolated nodes and surplus sinks; pair off the remaining nodes.

    There are no more sources than sinks.
    """
    paired_sources, paired_sinks = {source for source, _ in pairs}, {sink for _, sink in pairs}
    other_sources = [source for source in sources if source not in paired_sources]
    other_sinks = [sink for sink in sinks if sink not in paired_sinks]
    matched = len(other_sources)
    edges = list(zip(other_sinks[:matched], other_sources, strict=True))
    stops = [*pairs, *((node, node) for node in [*other_sinks[matched:], *alone])]
    for (_, leave), (enter, _) in zip(stops, [*stops[1:], stops[0]], strict=True):
        edges.append((leave, enter))
    return edges
