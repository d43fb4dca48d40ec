"""Find the evidence behind one query's order: paths between components and the data edges of each step.

``QueryOrder(graph_of(components, query))`` searches from a component, then lists the edges on the paths. A
*local* number of a component counts from 0 inside the query.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.errors import MismatchedParts
from attomaton.base.ragged import group_borders, ranges_of
from attomaton.base.tables import Bool, Int32, Int64, Integers, column
from attomaton.graphs.components import Components
from attomaton.graphs.edges import EdgeTable


class Edge(NamedTuple):
    """A data edge: in ``support`` samples the winner was the label while the loser was in the context."""

    winner: int
    loser: int
    support: int


# Winners, losers and supports of some data edges.
Edges = tuple[Int32, Int32, Int64]


@dataclass(frozen=True, eq=False)
class QueryGraph:
    """The graph of one query, with its edges in memory or read from files by ``edges``.

    Its components are numbered from ``first``. ``tokens`` are its nodes, sorted, and ``component`` the
    component of each; ``above`` and ``below`` are the order between components, sorted.
    """

    first: int
    tokens: Int32  # (n_nodes,)
    component: Int64  # (n_nodes,)
    above: Int64  # (n_order,)
    below: Int64  # (n_order,)
    edges: Callable[[], Iterable[Edges]]  # one item in memory, several if they are read from files

    def __len__(self) -> int:
        """The number of components."""
        return int(self.component.max(initial=self.first - 1)) + 1 - self.first


def graph_of(components: Components, query: int) -> QueryGraph:
    """The graph of one query; it has no nodes if the query has no samples."""
    nodes = slice(*_range(components.query_of_node, query))
    first, stop = _range(components.query_of, query)
    start, below = components.below
    pairs = slice(int(start[first]), int(start[stop]))
    edges = slice(*_range(components.edges["query"], query))
    return QueryGraph(
        first,
        tokens=components.token_of_node[nodes],
        component=components.component_of_node[nodes],
        above=column(components.order, "above")[pairs],
        below=below[pairs],
        edges=partial(_edges_in, components.edges, edges),
    )


def _edges_in(table: EdgeTable, rows: slice) -> list[Edges]:
    return [(table["winner"][rows], table["loser"][rows], table["support"][rows])]


class QueryOrder:
    """Reachability between the components of one query, numbered consecutively, and its evidence."""

    def __init__(self, graph: QueryGraph) -> None:
        self._query = graph
        self._size = len(graph)
        # The components below local component c are self._below[self._borders[c]:self._borders[c + 1]].
        self._borders = group_borders(graph.above - graph.first, self._size)
        self._below = graph.below - graph.first

    def search(self, top: int) -> tuple[Bool, Integers]:
        """Which components a path from ``top`` reaches, and the one before each on a shortest path."""
        # Both have shape (n_components,), by local number; −1 stands for no component before.
        reached = np.zeros(self._size, bool)
        before = np.full(self._size, -1, np.int64)
        front = np.array([self.local(top)])
        while len(front):  # breadth first
            reached[front] = True
            n_below = self._borders[front + 1] - self._borders[front]
            above = np.repeat(front, n_below)
            below = self._below[ranges_of(self._borders[front], n_below)]
            # If several components lead to a new one, the first in the table becomes the one before it.
            new = np.flatnonzero(~reached[below])
            new = new[np.sort(np.unique(below[new], return_index=True)[1])]
            front = below[new]
            before[front] = above[new]
        return reached, before

    def local(self, component: int) -> int:
        """The component's number inside this query."""
        return component - self._query.first

    def evidence(
        self, before: Integers, top: int, bottoms: Sequence[int]
    ) -> list[tuple[tuple[Edge, ...], ...]]:
        """For each of ``bottoms``, the data edges of each step on the path from ``top``."""
        # `before` is the second result of search(top); a path is followed from its bottom up.
        paths: list[list[tuple[int, int]]] = []
        for bottom in bottoms:
            path = [self.local(bottom)]
            while path[-1] != self.local(top):
                path.append(int(before[path[-1]]))
            paths.append(list(pairwise(path[::-1])))
        keys = {step: self._pair_key(*step) for path in paths for step in path}
        edges = self._edges_between(np.unique(np.array(list(keys.values()), np.int64)))
        return [tuple(edges.get(keys[step], ()) for step in path) for path in paths]

    # The data edges of each pair of components with one of these keys, best supported first.
    def _edges_between(self, keys: Int64) -> dict[int, tuple[Edge, ...]]:
        evidence: dict[int, list[Edge]] = {int(key): [] for key in keys}
        for winner, loser, support in self._query.edges():
            key_of_edge = self._pair_key(self._components_of(winner), self._components_of(loser))
            chosen = np.flatnonzero(np.isin(key_of_edge, keys))
            columns = [values[chosen].tolist() for values in (key_of_edge, winner, loser, support)]
            for key, *edge in zip(*columns, strict=True):
                evidence[key].append(Edge(*edge))
        return {key: tuple(sorted(edges, key=lambda edge: -edge.support)) for key, edges in evidence.items()}

    # The local number of the component of each token; all tokens must be nodes.
    def _components_of(self, tokens: Int32) -> Int64:
        number_of = self._number_of
        numbers = number_of[np.minimum(tokens, len(number_of) - 1)]  # the last entry is −1
        if (numbers < 0).any():
            raise MismatchedParts("a token of an edge is not a node; use find_components(edges)")
        return numbers

    # The local number of the component of each token up to the largest, then −1; −1 if it is no node.
    @cached_property
    def _number_of(self) -> Int64:
        tokens = self._query.tokens
        number_of = np.full(int(tokens.max(initial=-1)) + 2, -1, np.int64)
        number_of[tokens] = self._query.component - self._query.first
        return number_of

    # One number for each pair of components with local numbers.
    def _pair_key(self, above: Any, below: Any) -> Any:
        return above * self._size + below


# The range of ``value`` in a sorted array: first and one past the last.
def _range(ordered: Integers, value: int) -> tuple[int, int]:
    return int(np.searchsorted(ordered, value)), int(np.searchsorted(ordered, value, side="right"))
