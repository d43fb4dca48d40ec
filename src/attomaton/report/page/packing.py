"""Pack the graph and the scores of a query as compact lists, from which the page rebuilds it."""

# `Packer.graph` is the graph of a query, and `Packer.pack` its list; both read the run in blocks of queries.

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.runs.nodes import Outline
from attomaton.base.tables import Bool, Float64, Int32, Int64, Integers, column, keep_rows

# The fields of a packed query, in order; the page reads them by these names.
#
# The nodes of a query are its tokens, ascending, and a *row* is an index into them. Nodes that tie are one
# component; components are numbered by their smallest token. The *order* is a table of pairs (above, below)
# of components, of which one precedes the other. Lists marked R are packed by `runs`, those marked D by
# `differences`, which also packs runs; lists of floats are plain.
FIELDS = (
    "query",  # the token id of the query
    "samples",  # its number of samples
    "tokens",  # D: the token id of each node
    "ties",  # D: the rows of each component of two or more nodes; every other node is a component by itself
    "hard_values",  # the distinct hard scores (of W_svm), ascending
    "hard_indices",  # R: for each node, the index of its hard score in `hard_values`
    "soft_rows",  # D: the rows of the nodes whose soft score (of W_fin, within a component) is not 0
    "soft_values",  # their soft scores
    "heights",  # R: the longest chain of the order below each component
    "above",  # D: for each pair of the order, the component that precedes
    "below",  # D: the component that follows
    "edges",  # R: the number of pairs of tokens, one of each component, of which one wins against the other
    "support",  # R: the number of such wins in the samples
    "implied",  # D: the indices of the pairs that follow from a longer path
)

# Minimum length of a run for which `[value, times]` is shorter.
SHORTEST_RUN = 4


def differences(values: Integers) -> list[int | list[int]]:
    """Each entry minus the entry before it (the first minus 0): shorter where neighbours are close."""
    return runs(np.diff(values.astype(np.int64), prepend=0))


def runs(values: Integers) -> list[int | list[int]]:
    """The values, with ``[value, times]`` in place of each run of at least ``SHORTEST_RUN`` equal values."""
    # a run starts where a value differs from the one before; the first differs from itself − 1
    starts = np.flatnonzero(np.diff(values, prepend=values[:1] - 1)) if len(values) else np.empty(0, np.int64)
    lengths = np.diff(starts, append=len(values))
    shortened: list[int | list[int]] = []
    pairs: list[tuple[int, int]] = list(zip(values[starts].tolist(), lengths.tolist(), strict=True))
    for value, length in pairs:
        shortened += [[value, length]] if length >= SHORTEST_RUN else [value] * length
    return shortened


# Queries, and rows of nodes and order together, that are read at a time.
QUERIES_AHEAD, ROWS_AHEAD = 64, 1 << 20


@dataclass(frozen=True, eq=False)
class PageGraph:
    """The graph of one query.

    ``tokens`` (ascending), ``component``, ``hard`` and ``soft`` are by node, and ``heights`` (the longest
    chain below) by component. The other arrays are by pair of the order; ``implied`` marks pairs that follow
    from a longer path.
    """

    query: int
    samples: int
    tokens: Int32
    component: Int64
    hard: Float64
    soft: Float64
    heights: Int64
    above: Int64
    below: Int64
    edges: Int64
    support: Int64
    implied: Bool

    @cached_property
    def members(self) -> list[list[int]]:
        """The nodes of each component."""
        rows = np.argsort(self.component, kind="stable")
        return [members.tolist() for members in np.split(rows, np.cumsum(np.bincount(self.component))[:-1])]

    @cached_property
    def layers(self) -> list[list[int]]:
        """The components by height, the highest first; within such a layer by size, then by support."""
        support = np.zeros(len(self.members), np.int64)
        np.add.at(support, self.above, self.support)
        np.add.at(support, self.below, self.support)
        # lexsort sorts by its last key first
        order = np.lexsort((-support, -np.bincount(self.component), -self.heights))
        borders = np.flatnonzero(np.diff(self.heights[order])) + 1
        return [layer.tolist() for layer in np.split(order, borders)]


class Packer:
    """The queries that have a graph, ascending, with their samples and sizes; packs each query."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        table: Any = automaton.index  # a row for each query
        table = keep_rows(table, column(table, "components") > 0)
        self.queries: Int32 = column(table, "query")
        self.samples: Int64 = column(table, "realisable")
        self.sizes: Int64 = column(table, "nodes") + column(table, "order")
        self._outline: Outline | None = None  # what was read last, of the queries with these indices:
        self._loaded: set[int] = set()

    @cached_property
    def by_samples(self) -> Int64:  # indices into ``queries``
        return np.argsort(-self.samples, kind="stable")

    def graph(self, index: int) -> PageGraph:
        """The graph of the query with this index in ``queries``."""
        outline = self._load_around(index)
        components = outline.components
        # nodes ascend by query, components by node, and pairs by the component above, so each is a slice
        query = int(self.queries[index])
        nodes = slice(*np.searchsorted(components.query_of_node, [query, query + 1]).tolist())
        component = components.component_of_node[nodes]
        first, stop = int(component.min()), int(component.max()) + 1
        order = components.order
        rows = slice(*np.searchsorted(column(order, "above"), [first, stop]).tolist())
        return PageGraph(
            query=query,
            samples=int(self.samples[index]),
            tokens=components.token_of_node[nodes],
            component=component - first,
            hard=outline.hard[nodes],
            soft=outline.soft[nodes],
            heights=components.heights[first:stop],
            above=column(order, "above")[rows] - first,
            below=column(order, "below")[rows] - first,
            edges=column(order, "edges")[rows],
            support=column(order, "support")[rows],
            implied=outline.implied[rows],
        )

    def pack(self, index: int) -> list[Any]:
        """The values of ``FIELDS`` for the query with this index in ``queries``."""
        graph = self.graph(index)
        hard = np.unique(graph.hard)
        soft_rows = np.flatnonzero(graph.soft)
        return [
            graph.query,
            graph.samples,
            differences(graph.tokens),
            [differences(np.array(rows)) for rows in graph.members if len(rows) > 1],
            hard.tolist(),
            runs(np.searchsorted(hard, graph.hard)),
            differences(soft_rows),
            graph.soft[soft_rows].tolist(),
            runs(graph.heights),
            differences(graph.above),
            differences(graph.below),
            runs(graph.edges),
            runs(graph.support),
            differences(np.flatnonzero(graph.implied)),
        ]

    # The part of the run with this query. It is read together with the queries that come next by samples,
    # since these are packed next, and kept until a query outside of it is asked for.
    def _load_around(self, index: int) -> Outline:
        if self._outline is None or index not in self._loaded:
            rank = int(self._rank[index])
            ahead = self.by_samples[rank : rank + QUERIES_AHEAD]  # indices of queries
            fits = np.cumsum(self.sizes[ahead]) <= ROWS_AHEAD
            ahead = ahead[: max(1, int(fits.sum()))]  # this query in any case
            self._outline = self._automaton.outline(np.sort(self.queries[ahead]).astype(np.int64))
            # an automaton in memory gives all queries at once
            is_whole = len(self._outline.components.queries) == len(self.queries)
            self._loaded = set(range(len(self.queries))) if is_whole else set(ahead.tolist())
        return self._outline

    @cached_property
    def _rank(self) -> Int64:
        # the inverse of `by_samples`: which place each query has in it
        return np.argsort(self.by_samples)
