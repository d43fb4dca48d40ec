"""Find the strongly connected components of every query's graph, and the order between them.

:func:`find_components` handles all queries in one call: node (k, i) is token i in the graph of query k.
Tokens of one component tie (i ≍ j); component A precedes component B (i ⇒ j) if a path leads from A to B.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base import borders
from attomaton.base.errors import MismatchedParts, UnknownToken
from attomaton.base.frames import Tabular
from attomaton.base.machine import count_processors, divide_work
from attomaton.base.native import condense, find_heights, find_irredundant, find_nodes, label_components
from attomaton.base.options import check_threads, whole_number
from attomaton.base.printing import count_noun
from attomaton.base.ragged import group_borders, occurs, offsets_of, run_starts, sorted_borders
from attomaton.base.tables import Bool, Int32, Int64, Integers, column, keep_rows, make_table
from attomaton.graphs.bags import SHARES_PER_THREAD, SMALLEST_SHARE
from attomaton.graphs.edges import EdgeTable
from attomaton.graphs.grouping import distinct_keys, find_rows, pack_pairs, unpack_pairs
from attomaton.graphs.robustness import measure_robustness
from attomaton.graphs.strong import in_order_of_appearance

# Columns of the nodes.
NODE_SCHEMA = pa.schema([("query", pa.int32()), ("token", pa.int32()), ("component", pa.int64())])

# Columns of the order; `edges` and `support` sum up the edges between two components.
ORDER_SCHEMA = pa.schema(
    [("above", pa.int64()), ("below", pa.int64()), ("edges", pa.int64()), ("support", pa.int64())]
)


class Order(NamedTuple):
    """The columns of the order, each of shape (n_order,)."""

    above: Int64
    below: Int64
    edges: Int64
    support: Int64


class TiedTokens(NamedTuple):
    """The tokens that tie; those of query k are the entries ``borders[k] … borders[k + 1] − 1``."""

    borders: Int64  # (n_tokens + 1,)
    token: Int32  # (n_tied,)
    component: Int64  # (n_tied,): the component of each token


@dataclass(frozen=True, eq=False, repr=False)
class Components(Tabular):
    """The strongly connected components of all queries' graphs, and the order between them.

    Components are numbered by query, then by their smallest token.

    Attributes
    ----------
    edges : EdgeTable
        The edges of the graphs.
    nodes : pyarrow.Table
        Columns query, token (int32), component (int64), sorted by query and token. The nodes of a query are
        the tokens with an edge, and the query itself.
    order : pyarrow.Table
        One row for each pair of components with an edge between them, sorted by ``above`` and ``below``, the
        two components. ``edges`` is the number of edges between them, and ``support`` the sum of the edges'
        supports. All columns are int64.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])  # 0 and 1 tie, beat 2
    >>> comps = at.find_components(at.extract_edges(samples))
    >>> comps.sizes.tolist(), comps.component(query=2, token=1), comps.tokens(0).tolist()
    ([2, 1], 0, [0, 1])
    """

    edges: EdgeTable
    nodes: pa.Table
    order: pa.Table

    def __post_init__(self) -> None:
        borders.check_kind(self.edges, EdgeTable, "edges")
        size = self.edges.n_tokens
        borders.check_table(self.nodes, NODE_SCHEMA, "the table of components")
        borders.check_ids_of(self.nodes, {"query": size, "token": size}, "the table of components")
        borders.check_rising(self.node_keys, "the table of components, by query and token,")
        number = self.component_of_node
        borders.check_ids(number, len(number), "component in the table of components")
        # The rows are sorted by query and token, so a new component has the next number.
        highest = np.maximum.accumulate(number)
        if len(number) and (number[0] != 0 or (number[1:] > highest[:-1] + 1).any()):
            raise MismatchedParts(
                "components must be numbered 0, 1, 2 … by query and smallest token; use find_components"
            )
        if (self.query_of[number] != self.query_of_node).any():
            raise MismatchedParts("a component contains tokens of two queries; use find_components")
        self._check_order()

    # Check that the order joins different components of one query, is sorted, distinct and acyclic.
    def _check_order(self) -> None:
        order = self.order
        size = len(self)
        borders.check_table(order, ORDER_SCHEMA, "the order")
        borders.check_ids_of(order, {"above": size, "below": size}, "the order")
        above, below = column(order, "above"), column(order, "below")
        borders.check_rising(above * size + below, "the order, by above and below,")
        for name in ("edges", "support"):
            borders.check_count_range(column(order, name), 1, f"{name} in the order")
        if (above == below).any() or (self.query_of[above] != self.query_of[below]).any():
            raise MismatchedParts(
                "the order joins a component to itself or to one of another query; use find_components"
            )
        check_acyclic(above, below, size)

    def __repr__(self) -> str:
        components = count_noun(len(self), "component")
        return f"Components({components} of {count_noun(len(self.queries), 'query', 'queries')})"

    def _table(self) -> pa.Table:
        return self.nodes

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def sizes(self) -> Int64:
        """The number of tokens in each component, shape (n_components,)."""
        return np.bincount(self.component_of_node)

    @cached_property
    def query_of(self) -> Int32:
        """The query of each component, shape (n_components,)."""
        queries = np.empty(len(self), np.int32)
        queries[self.component_of_node] = self.query_of_node
        return queries

    @cached_property
    def queries(self) -> Int32:
        """The queries that have a graph, sorted."""
        return self.query_of[run_starts(self.query_of)] if len(self) else self.query_of

    @cached_property
    def query_of_node(self) -> Int32:
        """The query of each node, shape (n_nodes,)."""
        return column(self.nodes, "query")

    @cached_property
    def token_of_node(self) -> Int32:
        """The token of each node, shape (n_nodes,)."""
        return column(self.nodes, "token")

    @cached_property
    def component_of_node(self) -> Int64:
        """The component of each node, shape (n_nodes,)."""
        return column(self.nodes, "component")

    @cached_property
    def members(self) -> tuple[Int64, Int64]:
        """``(offsets, rows)``: component c has the rows ``rows[offsets[c]:offsets[c + 1]]`` of ``nodes``."""
        return offsets_of(self.sizes), np.argsort(self.component_of_node, kind="stable")

    @cached_property
    def tied(self) -> TiedTokens:
        """The tokens in components of more than one token, by query and token."""
        component = self.component_of_node
        tied = self.sizes[component] > 1
        # The nodes of query k begin at node_borders[k], where n_tied_before counts the tied nodes before.
        n_tied_before = offsets_of(tied.astype(np.int64))
        node_borders = group_borders(self.query_of_node, self.edges.n_tokens)
        return TiedTokens(n_tied_before[node_borders], self.token_of_node[tied], component[tied])

    @cached_property
    def below(self) -> tuple[Int64, Int64]:
        """``(offsets, components)``: the components directly below each component, as compressed rows."""
        return group_borders(column(self.order, "above"), len(self)), column(self.order, "below")

    @cached_property
    def heights(self) -> Int64:
        """The length of the longest chain of components below each component, shape (n_components,)."""
        return find_heights(*self.below)

    @cached_property
    def totally_ordered(self) -> Bool:
        """Whether the longest path of each query visits all its components, shape (n_queries,)."""
        if not len(self):
            return np.zeros(0, bool)
        firsts = sorted_borders(self.query_of, self.edges.n_tokens)  # query k: components firsts[k] …
        n_components = np.diff(firsts)[self.queries]
        longest_path = np.maximum.reduceat(self.heights, firsts[self.queries]) + 1  # in components
        return longest_path == n_components

    @property
    def is_acyclic(self) -> bool:
        """Whether every component is a single token, so that no query has a tie."""
        return len(self) == self.nodes.num_rows

    def tokens(self, component: int) -> Int32:
        """Return the sorted tokens of a component."""
        component = whole_number(component, "component", most=max(len(self) - 1, 0))
        offsets, rows = self.members
        return self.token_of_node[rows[offsets[component] : offsets[component + 1]]]

    def component(self, query: int, token: int) -> int:
        """Return the number of the component of ``token`` under ``query``."""
        query, token = whole_number(query, "query"), whole_number(token, "token")
        rows, is_node = self.rows(np.array([query]), np.array([token]))
        if not is_node[0]:
            raise UnknownToken(
                f"token {token} is not in the graph of query {query}; give a token that occurs in its samples"
            )
        return int(self.component_of_node[rows[0]])

    def bridges_of(self, component: int) -> pa.Table:
        """Return the edges that would split a component if removed alone, weakest first."""
        return measure_robustness(self, [component]).bridges

    def rows(self, queries: Integers, tokens: Integers) -> tuple[Int64, Bool]:
        """Return the row of ``nodes`` of each (query, token), and whether it exists; otherwise any row."""
        n_tokens = self.edges.n_tokens
        in_range = (tokens >= 0) & (tokens < n_tokens)
        if in_range.all() and (queries[1:] >= queries[:-1]).all():  # the kernel needs sorted queries
            rows = find_nodes(self.node_keys, queries.astype(np.int32), tokens.astype(np.int32), n_tokens)
            return np.maximum(rows, 0), rows >= 0
        rows, is_node = find_rows(self.node_keys, pack_pairs(queries, tokens))
        return rows, is_node & in_range  # the key of a token out of range may be that of another pair

    def components_of(self, queries: Integers, tokens: Integers) -> Int64:
        """Return the component of each (query, token) pair; every pair must be a node."""
        rows, is_node = self.rows(queries, tokens)
        if not is_node.all():
            first = int(np.argmin(is_node))
            raise MismatchedParts(
                f"token {tokens[first]} of an edge of query {queries[first]} is not a node; "
                "use find_components(edges) with the same edges"
            )
        return self.component_of_node[rows]

    @cached_property
    def node_keys(self) -> Int64:
        """The (query, token) pair of each node as one number, ascending, shape (n_nodes,)."""
        return pack_pairs(self.query_of_node, self.token_of_node)


def find_components(edges: EdgeTable, *, threads: int | None = None) -> Components:
    """Find the components of every query's graph, and the order between them.

    ``threads`` is the number of threads, by default one per processor.

    Examples
    --------
    >>> import attomaton as at
    >>> comps = find_components(at.extract_edges(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])))
    >>> comps.nodes.column("component").to_pylist()  # 0 and 1 beat each other, and both beat the query 2
    [0, 0, 1]
    """
    threads = check_threads(threads)
    n_edges = len(edges)
    n_shares = min(SHARES_PER_THREAD * (threads or count_processors()), n_edges // SMALLEST_SHARE) or 1
    # the first queries of shares with about equal numbers of edges
    cuts = edges["query"][np.arange(1, n_shares) * n_edges // n_shares]
    ends = np.unique([0, *cuts.tolist(), max(edges.n_tokens, 1)]).tolist()
    sampled = column(edges.queries, "query")[column(edges.queries, "realisable") > 0]
    graphs = divide_work(partial(_find_in_share, edges, sampled), list(pairwise(ends)), threads)
    components: list[Int64] = [_NO_KEYS]
    orders: list[Order] = []
    # Each share numbers its components from 0; here they follow those of the shares before.
    n_before = 0
    for graph in graphs:
        order = graph.order
        components.append(graph.component + n_before)
        orders.append(order._replace(above=order.above + n_before, below=order.below + n_before))
        n_before += graph.n_components
    keys = np.concatenate([_NO_KEYS, *(graph.keys for graph in graphs)])
    joined = Order(*(np.concatenate([_NO_KEYS, *columns]) for columns in zip(*orders, strict=True)))
    return assemble_components(edges, keys, np.concatenate(components), joined)


def assemble_components(edges: EdgeTable, keys: Int64, component: Int64, order: Order) -> Components:
    """Unchecked components, from the sorted keys of the nodes, the component of each, and the order."""
    query, token = unpack_pairs(keys)
    nodes = {"query": query.astype(np.int32), "token": token, "component": component}
    tables = {"nodes": make_table(NODE_SCHEMA, nodes), "order": make_table(ORDER_SCHEMA, order._asdict())}
    return borders.trusted(Components, edges=edges, **tables)


_NO_KEYS: Int64 = np.empty(0, np.int64)


class _Condensed(NamedTuple):
    """The nodes of some queries, their components and the order between these, numbered from 0."""

    keys: Int64
    component: Int64
    n_components: int
    order: Order


# Find the components of the queries ``share[0] … share[1] − 1``; ``sampled`` are all with samples.
def _find_in_share(edges: EdgeTable, sampled: Int32, share: tuple[int, int]) -> _Condensed:
    rows = slice(*np.searchsorted(edges["query"], np.array(share, np.int32)))
    query, winner, loser, support = (edges[name][rows] for name in edges.rows.column_names)
    queries = sampled[slice(*np.searchsorted(sampled, share))]
    won = pack_pairs(query, winner)
    won = won[run_starts(won)] if len(won) else won  # they are sorted
    # A query is a node of its own graph, even if its samples show no edge.
    keys = distinct_keys(np.concatenate([won, pack_pairs(query, loser), pack_pairs(queries, queries)]))
    above = find_nodes(keys, query, winner, edges.n_tokens)  # the node of each edge's winner
    below = find_nodes(keys, query, loser, edges.n_tokens)
    component = label_components(above, below, len(keys))
    n_components = int(component.max(initial=-1)) + 1
    ones = np.ones(len(query), np.int64)  # each row of the table is one edge
    order = Order(*condense(component[above], component[below], ones, support, n_components))
    return _Condensed(keys, component, n_components, order)


def merge_components(components: Components, groups: Integers) -> Components:
    """Merge all components with the same number in ``groups``; the remaining order must be acyclic."""
    merged = in_order_of_appearance(groups[components.component_of_node])  # of each node
    merged_of = np.empty(len(components), np.int64)  # of each former component
    merged_of[components.component_of_node] = merged
    above, below, n_edges, support = (column(components.order, name) for name in ORDER_SCHEMA.names)
    n_merged = int(merged.max(initial=-1)) + 1
    order = Order(*condense(merged_of[above], merged_of[below], n_edges, support, n_merged))
    nodes = {"query": components.query_of_node, "token": components.token_of_node, "component": merged}
    order_table = make_table(ORDER_SCHEMA, order._asdict())
    return Components(components.edges, make_table(NODE_SCHEMA, nodes), order_table)


def check_acyclic(above: Int64, below: Int64, size: int) -> None:
    """Refuse a sorted order of ``size`` components with a cycle."""
    # Pairs from a highest or to a lowest component are in no cycle, so they are left out first.
    n_before = 2 * len(above) + 1
    while 0 < len(above) <= n_before // 2:  # while a round removes at least half of the pairs
        n_before = len(above)
        inner = occurs(above, size)[below] & occurs(below, size)[above]
        above, below = above[inner], below[inner]
    if len(above) and int(label_components(above, below, size).max()) + 1 < size:
        raise MismatchedParts("the order has a cycle, but must be acyclic; use find_components")


def count_strong_components(winner: Int64, loser: Int64, n_nodes: int) -> int:
    """The number of strong components of the edges winner → loser, which may repeat, in any order."""
    apart = winner != loser
    # Keys sort the edges by winner, as the kernel requires: the winner is in the high 32 bits.
    keys = distinct_keys(winner[apart] << 32 | loser[apart])
    return int(label_components(keys >> 32, keys & 0xFFFFFFFF, n_nodes).max(initial=-1)) + 1


def count_evidence(components: Components, queries: Integers | None = None) -> Int64:
    """The support of the edges of each node, shape (n_nodes,); 0 for queries not in ``queries``."""
    edges = components.edges
    evidence = np.zeros(len(components.nodes), np.int64)
    selected = slice(None) if queries is None else np.flatnonzero(np.isin(edges["query"], queries))
    support = edges["support"][selected]
    for end in ("winner", "loser"):
        rows, is_node = components.rows(edges["query"][selected], edges[end][selected])
        evidence += np.bincount(rows[is_node], support[is_node], len(evidence)).astype(np.int64)
    return evidence


def reduce_order(components: Components) -> pa.Table:
    """The rows of ``components.order`` that no longer path replaces: its transitive reduction."""
    return keep_rows(components.order, find_needed(components))


def find_needed(components: Components) -> Bool:
    """Which rows of ``components.order`` are in the transitive reduction, shape (n_order,)."""
    # The others are redundant: an edge A → C requires a margin of 1 where a path A → B → C already gives 2.
    return find_irredundant(*components.below)


def find_ends(components: Components) -> tuple[Int64, Int64]:
    """For each row of the order, the first node of the component above and of that below, (n_order,) each."""
    offsets, rows = components.members
    first = rows[offsets[:-1]]
    return first[column(components.order, "above")], first[column(components.order, "below")]


def list_edge_ends(components: Components) -> tuple[Int64, Int64, Int64]:
    """Query, winner and loser of every edge of the data, shape (n_edges,) each."""
    edges = components.edges
    return edges["query"], edges["winner"], edges["loser"]


def find_ties(components: Components) -> tuple[Int64, Int64]:
    """Pairs of nodes that tie, as rows of ``nodes``: neighbours in each component, sorted by token."""
    _, rows = components.members
    component = components.component_of_node[rows]
    same = np.flatnonzero(component[1:] == component[:-1])
    return rows[same], rows[same + 1]
