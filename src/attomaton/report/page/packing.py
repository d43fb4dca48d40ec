"""One query's graph and scores as short lists of numbers, from which the page makes the automaton again."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.runs.nodes import Outline
from attomaton.base.tables import Float64, Int32, Int64, Integers, column, keep_rows
from attomaton.graphs.components import Components

FIELDS = (
    "query",
    "samples",
    "tokens",
    "ties",
    "hard_values",
    "hard_places",
    "soft_rows",
    "soft_values",
    "heights",
    "above",
    "below",
    "edges",
    "support",
    "implied",
)
"""What stands where in a packed query; the page reads them by these names.

``tokens`` are the nodes, rising, and every row below is a place among them. ``ties`` lists the rows of each
component larger than one token; every other node is a component by itself, and components are numbered by
their smallest token. ``hard_places`` point into ``hard_values``; a soft score is 0 but for ``soft_rows``.
``heights`` go by component; ``above``, ``below``, ``edges`` and ``support`` are the order, and ``implied``
its rows that a longer path replaces. Rising lists and the ends of the order are differences to the entry
before, and in lists of whole numbers ``[value, times]`` stands for a run.
"""

SHORTEST_RUN = 4
"""Runs from this length on are shorter to write as ``[value, times]``."""


def differences(values: Integers) -> list[int | list[int]]:
    """Each entry less the one before it, the first less 0: shorter to write where neighbours are close."""
    return runs(np.diff(values.astype(np.int64), prepend=0))


def runs(values: Integers) -> list[int | list[int]]:
    """The values, with ``[value, times]`` in place of each long run."""
    starts = np.flatnonzero(np.diff(values, prepend=values[:1] - 1)) if len(values) else np.empty(0, np.int64)
    times = np.diff(starts, append=len(values))
    found: list[int | list[int]] = []
    pairs: list[tuple[int, int]] = list(zip(values[starts].tolist(), times.tolist(), strict=True))
    for value, length in pairs:
        found += [[value, length]] if length >= SHORTEST_RUN else [value] * length
    return found


def expand(packed: Sequence[int | list[int]]) -> Int64:
    """What :func:`runs` packed."""
    pairs = [one if isinstance(one, list) else [one, 1] for one in packed]
    values, times = np.array(pairs, np.int64).reshape(-1, 2).T
    return np.repeat(values, times)


def sum_up(packed: Sequence[int | list[int]]) -> Int64:
    """What :func:`differences` packed."""
    return np.cumsum(expand(packed), dtype=np.int64)


AHEAD, AHEAD_ROWS = 64, 1 << 20
"""Queries, and rows of nodes and order, that are read at a time."""


class Packer:
    """Packs the queries of one automaton.

    Attributes
    ----------
    queries : int32 array, shape (n_queries,)
        The queries that have a graph, rising.
    samples, sizes : int64 arrays, shape (n_queries,)
        The realisable samples of each, and how many nodes and pairs of the order it has.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        index: Any = automaton.index
        index = keep_rows(index, column(index, "components") > 0)
        self.queries: Int32 = column(index, "query")
        self.samples: Int64 = column(index, "realisable")
        self.sizes: Int64 = column(index, "nodes") + column(index, "order")
        self._held: set[int] = set()
        self._outline: Outline | None = None

    @cached_property
    def by_samples(self) -> Int64:
        """Places of ``queries``, most samples first."""
        return np.argsort(-self.samples, kind="stable")

    def tokens(self, place: int) -> Integers:
        """The nodes of one query's graph."""
        components = self._find(place).components
        return components.token_of_node[self._nodes(components, place)]

    def pack(self, place: int) -> list[Any]:
        """The query at this place of ``queries``, as ``FIELDS`` says."""
        outline = self._find(place)
        components = outline.components
        nodes = self._nodes(components, place)
        component = components.component_of_node[nodes]
        first, stop = int(component.min()), int(component.max()) + 1
        above = column(components.order, "above")
        rows = slice(int(np.searchsorted(above, first)), int(np.searchsorted(above, stop)))
        below, edges, support = (
            column(components.order, name)[rows] for name in ("below", "edges", "support")
        )
        soft = outline.soft[nodes]
        hard_values, hard_places = _distinct(outline.hard[nodes])
        soft_rows = np.flatnonzero(soft)
        return [
            int(self.queries[place]),
            int(self.samples[place]),
            differences(components.token_of_node[nodes]),
            _ties(component - first),
            hard_values,
            hard_places,
            differences(soft_rows),
            soft[soft_rows].tolist(),
            runs(components.heights[first:stop]),
            differences(above[rows] - first),
            differences(below - first),
            runs(edges),
            runs(support),
            differences(np.flatnonzero(outline.implied[rows])),
        ]

    def _nodes(self, components: Components, place: int) -> slice:
        query = int(self.queries[place])
        first, last = np.searchsorted(components.query_of_node, [query, query + 1])
        return slice(int(first), int(last))

    def _find(self, place: int) -> Outline:
        """An outline with the query at this place; of a run on disk it is read with those that follow it."""
        if self._outline is None or place not in self._held:
            rank = int(self._rank[place])
            ahead = self.by_samples[rank : rank + AHEAD]
            fits = np.cumsum(self.sizes[ahead]) <= AHEAD_ROWS
            ahead = ahead[: max(1, int(fits.sum()))]
            self._outline = self._automaton.outline(np.sort(self.queries[ahead]).astype(np.int64))
            whole = len(self._outline.components.queries) == len(self.queries)
            self._held = set(range(len(self.queries))) if whole else set(ahead.tolist())
        return self._outline

    @cached_property
    def _rank(self) -> Int64:
        rank = np.empty(len(self.queries), np.int64)
        rank[self.by_samples] = np.arange(len(rank))
        return rank


def _distinct(values: Float64) -> tuple[list[float], list[int | list[int]]]:
    """The distinct values, rising, and the place of each value among them."""
    distinct = np.unique(values)
    return distinct.tolist(), runs(np.searchsorted(distinct, values))


def _ties(component: Int64) -> list[list[int | list[int]]]:
    """The rows of each component with more than one, as differences."""
    sizes = np.bincount(component)
    rows = np.argsort(component, kind="stable")
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    return [differences(part) for part in parts if len(part) > 1]
