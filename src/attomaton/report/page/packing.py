"""One query's graph and scores as short lists of numbers, from which the page makes the automaton again."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.graphs.reduction import find_needed
from attomaton.tables import Bool, Float64, Int64, Integers, column

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
    """Each entry less the one before it, the first less 0: shorter to write where neighbours are close.

    Examples
    --------
    >>> differences(np.array([3, 4, 4, 9, 10, 11, 12, 13]))
    [3, 1, 0, 5, [1, 4]]
    """
    return runs(np.diff(values.astype(np.int64), prepend=0))


def runs(values: Integers) -> list[int | list[int]]:
    """The values, with ``[value, times]`` in place of each long run.

    Examples
    --------
    >>> runs(np.array([1, 1, 0, 0, 0, 0, 0]))
    [1, 1, [0, 5]]
    """
    starts = np.flatnonzero(np.diff(values, prepend=values[:1] - 1)) if len(values) else np.empty(0, np.int64)
    times = np.diff(starts, append=len(values))
    found: list[int | list[int]] = []
    pairs: list[tuple[int, int]] = list(zip(values[starts].tolist(), times.tolist(), strict=True))
    for value, length in pairs:
        found += [[value, length]] if length >= SHORTEST_RUN else [value] * length
    return found


def expand(packed: Sequence[int | list[int]]) -> Int64:
    """What :func:`runs` packed.

    Examples
    --------
    >>> expand([1, 1, [0, 5]]).tolist()
    [1, 1, 0, 0, 0, 0, 0]
    """
    pairs = [one if isinstance(one, list) else [one, 1] for one in packed]
    values, times = np.array(pairs, np.int64).reshape(-1, 2).T
    return np.repeat(values, times)


def sum_up(packed: Sequence[int | list[int]]) -> Int64:
    """What :func:`differences` packed."""
    return np.cumsum(expand(packed), dtype=np.int64)


class Packer:
    """Packs the queries of one automaton."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._components = automaton.components
        self._above, self._below, self._edges, self._support = (
            column(self._components.order, name) for name in ("above", "below", "edges", "support")
        )

    @cached_property
    def samples(self) -> Int64:
        """The realisable samples of each query of ``components.queries``."""
        read = self._components.edges.queries
        counts = np.zeros(self._automaton.n_tokens, np.int64)
        counts[column(read, "query")] = column(read, "realisable")
        return counts[self._components.queries]

    @cached_property
    def by_samples(self) -> Int64:
        """Places of ``components.queries``, most samples first."""
        return np.argsort(-self.samples, kind="stable")

    def tokens(self, place: int) -> Integers:
        """The nodes of one query's graph."""
        return self._components.token_of_node[self._nodes(place)]

    def pack(self, place: int) -> list[Any]:
        """The query at this place of ``components.queries``, as ``FIELDS`` says.

        Examples
        --------
        >>> import attomaton as at
        >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1]))
        >>> packed = dict(zip(FIELDS, Packer(auto).pack(0), strict=True))
        >>> packed["tokens"], packed["ties"], packed["above"], packed["below"], packed["support"]
        ([0, 1, 1], [[0, 1]], [0], [1], [2])
        """
        nodes = self._nodes(place)
        component = self._components.component_of_node[nodes]
        first, stop = int(component.min()), int(component.max()) + 1
        rows = slice(int(np.searchsorted(self._above, first)), int(np.searchsorted(self._above, stop)))
        hard, soft = (
            column(one.scores, "score")[nodes] for one in (self._automaton.hard, self._automaton.soft)
        )
        hard_values, hard_places = _distinct(hard)
        soft_rows = np.flatnonzero(soft)
        return [
            int(self._components.queries[place]),
            int(self.samples[place]),
            differences(self.tokens(place)),
            _ties(component - first),
            hard_values,
            hard_places,
            differences(soft_rows),
            soft[soft_rows].tolist(),
            runs(self._components.heights[first:stop]),
            differences(self._above[rows] - first),
            differences(self._below[rows] - first),
            runs(self._edges[rows]),
            runs(self._support[rows]),
            differences(np.flatnonzero(self._implied[rows])),
        ]

    def _nodes(self, place: int) -> slice:
        query = int(self._components.queries[place])
        first, last = np.searchsorted(self._components.query_of_node, [query, query + 1])
        return slice(int(first), int(last))

    @cached_property
    def _implied(self) -> Bool:
        return ~find_needed(self._components)


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
