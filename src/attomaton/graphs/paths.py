"""The evidence behind one query's order: paths between components and the data edges of each step."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from attomaton.graphs.components import Components
from attomaton.tables import Bool, Integers


class Edge(NamedTuple):
    """A data edge: in ``support`` samples the winner was the label where the loser stood in the context.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [0, 1, 2], [1, 2]], [0, 0, 1]))
    >>> auto.explain([0, 1, 2]).beaten[0].steps
    ((Edge(winner=0, loser=1, support=2),),)
    """

    winner: int
    loser: int
    support: int


class QueryOrder:
    """The components of one query, which are consecutive numbers, and what leads from each to others."""

    def __init__(self, components: Components, query: int) -> None:
        self._first, stop = _range(components.query_of, query)
        start, below = components.below
        rows = start[self._first : stop + 1]
        targets = below[rows[0] : rows[-1]] - self._first
        size = stop - self._first
        self._graph = csr_array((np.ones(len(targets), np.int8), targets, rows - rows[0]), shape=(size, size))
        self._sort_edges(components, query)

    def search(self, top: int) -> tuple[Bool, Integers]:
        """What ``top`` reaches, and the component before each on a shortest path; both local numbers."""
        reached, before = breadth_first_order(self._graph, top - self._first)
        mask = np.zeros(self._graph.shape[0], bool)
        mask[reached] = True
        return mask, before

    def local(self, component: int) -> int:
        """The component's number inside this query."""
        return component - self._first

    def evidence(self, before: Integers, top: int, bottom: int) -> tuple[tuple[Edge, ...], ...]:
        """The data edges of each step of the path from ``top`` to ``bottom`` that ``before`` describes."""
        path = [bottom - self._first]
        while path[-1] != top - self._first:
            path.append(int(before[path[-1]]))
        path = [number + self._first for number in reversed(path)]
        return tuple(self._between(above, below) for above, below in pairwise(path))

    def _between(self, above: int, below: int) -> tuple[Edge, ...]:
        """The data edges from one component to another, best supported first."""
        first, stop = _range(self._pairs, self._pair(above, below))
        winner, loser, support = self._edges
        return tuple(
            Edge(int(winner[row]), int(loser[row]), int(support[row]))
            for row in sorted(range(first, stop), key=lambda row: -int(support[row]))
        )

    def _pair(self, above: Any, below: Any) -> Any:
        """One number for a pair of components of this query."""
        return (above - self._first) * self._graph.shape[0] + (below - self._first)

    def _sort_edges(self, components: Components, query: int) -> None:
        """The edges of the query, grouped by the components they join."""
        first, stop = _range(components.edges["query"], query)
        winner, loser, support = (
            components.edges[name][first:stop] for name in ("winner", "loser", "support")
        )
        queries = np.full(stop - first, query)
        above, below = (components.components_of(queries, tokens) for tokens in (winner, loser))
        pairs = self._pair(above, below)
        order = np.argsort(pairs, kind="stable")
        self._pairs: Integers = pairs[order]
        self._edges = (winner[order], loser[order], support[order])


def _range(ordered: Integers, value: int) -> tuple[int, int]:
    """Where ``value`` stands in a sorted array: first and one past the last."""
    return int(np.searchsorted(ordered, value)), int(np.searchsorted(ordered, value, side="right"))
