"""Find the evidence behind one query's order: paths between components and the data edges of each step."""

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
    tokens: Int32
    component: Int64
    above: Int64
    below: Int64
    edges: Callable[[], Iterable[Edges]]

    def __len__(self) -> int:
        """The number of components."""
        return int(self.component.max(initial=self.first - 1)) + 1 - self.first


def graph_of(components: Components, query: int) -> QueryGraph:
    nodes = slice(*_range(components.query_of_node, query))
    first, stop = _range(components.query_of, query)
    start, below = components.below
    pairs = slice(int(start[first]), int(start[stop]))
    table = components.edges
    edges = slice(*_range(table["query"], query))
    return QueryGraph(
        first,
        components.token_of_node[nodes],
        components.component_of_node[nodes],
        column(components.order, "above")[pairs],
        below[pairs],
        partial(_edges_in, table, edges),
    )


def _edges_in(table: EdgeTable, rows: slice) -> list[Edges]:
    return [(table["winner"][rows], table["loser"][rows], table["support"][rows])]


class QueryOrder:
    """Reachability between the components of one query, numbered consecutively, and its evidence."""

    def __init__(self, graph: QueryGraph) -> None:
        self._query, self._size = graph, len(graph)
        self._rows = group_borders(graph.above - graph.first, self._size)
        self._below = graph.below - graph.first

    def search(self, top: int) -> tuple[Bool, Integers]:
        """The components reached from ``top``, and their predecessors on shortest paths; local numbers."""
        reached, before = np.zeros(self._size, bool), np.full(self._size, -1, np.int64)
        front = np.array([self.local(top)])
        while len(front):  # breadth first; if several components lead to the next, the first in the table
            reached[front] = True
            lengths = self._rows[front + 1] - self._rows[front]
            above, below = np.repeat(front, lengths), self._below[ranges_of(self._rows[front], lengths)]
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
        """The data edges of each step of the paths ``before``, from ``top`` to each of ``bottoms``."""
        paths: list[list[tuple[int, int]]] = []
        for bottom in bottoms:
            path = [self.local(bottom)]
            while path[-1] != self.local(top):
                path.append(int(before[path[-1]]))
            paths.append(list(pairwise(path[::-1])))
        steps = {step: self._pair(*step) for path in paths for step in path}
        edges = self._between(np.unique(np.array(list(steps.values()), np.int64)))
        return [tuple(edges.get(steps[step], ()) for step in path) for path in paths]

    def _between(self, steps: Int64) -> dict[int, tuple[Edge, ...]]:
        """The data edges of each given pair of components, best supported first."""
        evidence: dict[int, list[Edge]] = {int(pair): [] for pair in steps}
        for winner, loser, support in self._query.edges():
            pairs = self._pair(self._components_of(winner), self._components_of(loser))
            chosen = np.flatnonzero(np.isin(pairs, steps))
            rows = (pairs, winner, loser, support)
            for pair, *edge in zip(*(values[chosen].tolist() for values in rows), strict=True):
                evidence[pair].append(Edge(*edge))
        return {
            pair: tuple(sorted(edges, key=lambda edge: -edge.support)) for pair, edges in evidence.items()
        }

    def _components_of(self, tokens: Int32) -> Int64:
        """The local number of the component of each token; all tokens must be nodes."""
        number = self._number_of
        numbers = number[np.minimum(tokens, len(number) - 1)]
        if (numbers < 0).any():
            raise MismatchedParts("a token of an edge is not a node; use find_components(edges)")
        return numbers

    @cached_property
    def _number_of(self) -> Int64:
        """Token → the local number of its component; −1 if it is not a node, and for the last entry."""
        tokens = self._query.tokens
        number = np.full(int(tokens.max(initial=-1)) + 2, -1, np.int64)
        number[tokens] = self._query.component - self._query.first
        return number

    def _pair(self, above: Any, below: Any) -> Any:
        return above * self._size + below


def _range(ordered: Integers, value: int) -> tuple[int, int]:
    """The range of ``value`` in a sorted array: first and one past the last."""
    return int(np.searchsorted(ordered, value)), int(np.searchsorted(ordered, value, side="right"))
