"""The nodes of some queries with their scores, which are all that a prediction needs."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import numpy as np

from attomaton.base.solutions import Solution
from attomaton.base.tables import Bool, Float64, Int32, Int64, Integers, column
from attomaton.graphs.components import Components, find_needed
from attomaton.graphs.grouping import find_rows, pack_pairs

RECENT_NODES = 1 << 20  # maximum number of cached nodes
RECENT_QUERIES = 256  # maximum number of recent queries whose nodes are cached


class NodeScores(NamedTuple):
    """The component, the hard score and the soft score of pairs (query, token), shape (n_pairs,).

    If ``is_node`` is false, the token is not a node under the query, and the other values are meaningless.
    """

    is_node: Bool
    component: Int64
    hard: Float64
    soft: Float64


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of some queries, sorted by query and token; components are numbered over all queries."""

    query: Int32
    token: Int32
    component: Int64
    hard: Float64
    soft: Float64
    n_tokens: int

    @classmethod
    def of(cls, components: Components, hard: Solution, soft: Solution) -> "Nodes":
        return cls(
            query=components.query_of_node,
            token=components.token_of_node,
            component=components.component_of_node,
            hard=column(hard.scores, "score"),
            soft=column(soft.scores, "score"),
            n_tokens=components.edges.n_tokens,
        )

    def copied(self) -> "Nodes":
        # the arrays may be views of columns, which would keep whole row groups in memory
        ids = self.query.copy(), self.token.copy(), self.component.copy()
        return Nodes(*ids, self.hard.copy(), self.soft.copy(), self.n_tokens)

    @cached_property
    def keys(self) -> Int64:
        return pack_pairs(self.query, self.token)

    def find(self, queries: Integers, tokens: Integers) -> NodeScores:
        """The scores of pairs (query, token), in the order of the pairs, which may be any."""
        rows, is_node = find_rows(self.keys, pack_pairs(queries, tokens))
        is_node &= tokens < self.n_tokens  # a larger one could have the key of another pair
        if not len(self.keys):  # no row to look up
            return NodeScores(is_node, rows, np.zeros(len(rows)), np.zeros(len(rows)))
        return NodeScores(is_node, self.component[rows], self.hard[rows], self.soft[rows])


class RecentNodes:
    """A cache of the nodes of recent queries; a thread that finds the cache in use reads without it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._cache: OrderedDict[int, Nodes] = OrderedDict()

    def __reduce__(self) -> tuple[type["RecentNodes"], tuple[()]]:
        """Another process starts with an empty cache: a lock cannot be pickled."""
        return RecentNodes, ()

    def find(self, query: int, read: Callable[[], Nodes]) -> Nodes:
        """The nodes of a query from the cache, or as ``read`` returns them."""
        if not self._lock.acquire(blocking=False):
            return read()
        try:
            nodes = self._cache.pop(query, None)
            if nodes is None:
                nodes = read().copied()
            self._cache[query] = nodes  # at the end: the most recent query; the oldest is dropped first
            # one query stays in the cache, however large
            while len(self._cache) > RECENT_QUERIES or (
                len(self._cache) > 1 and self._n_nodes() > RECENT_NODES
            ):
                self._cache.popitem(last=False)
        finally:
            self._lock.release()
        return nodes

    def _n_nodes(self) -> int:
        return sum(len(nodes.token) for nodes in self._cache.values())


@dataclass(frozen=True, eq=False)
class Outline:
    """The nodes, the order and the scores of some queries.

    ``components`` has the nodes and the order; its edges may be missing. ``hard`` and ``soft`` are the scores
    of the nodes. ``number`` is the number of each component among those of all queries, ascending.
    """

    components: Components
    hard: Float64
    soft: Float64
    number: Int64

    @cached_property
    def implied(self) -> Bool:
        """Which pairs of the order follow from a longer path, shape (n_pairs,)."""
        return ~find_needed(self.components)
