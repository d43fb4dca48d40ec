"""Cut a corpus into partitions by query, and find the components of edges that arrive in several tables.

:func:`cut_partitions` depends only on the samples, not on memory, threads or engine, so all engines that work
by partition write identical bytes. :func:`gather_components` serves a query too large for memory.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.borders import trusted
from attomaton.base.native import condense, find_nodes, label_components
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int64, column, empty_table, make_table
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components, Order, assemble_components
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable
from attomaton.graphs.grouping import distinct_keys, pack_pairs
from attomaton.graphs.strong import in_order_of_appearance

# Approximate number of realisable samples of a partition with more than one query. Such a partition has some
# million edges, which fit in memory.
PARTITION_SAMPLES = 1 << 17


def cut_queries(weights: Int64, size: int) -> Int64:
    """Borders that cut the queries into runs of a total weight of at most ``size``, or one heavier query."""
    weight_before = offsets_of(weights)
    borders = [0]
    while borders[-1] < len(weights):
        first = borders[-1]
        most = int(weight_before[first]) + max(1, size)
        stop = int(np.searchsorted(weight_before, most, side="right")) - 1
        borders.append(min(max(stop, first + 1), len(weights)))
    return np.array(borders if len(borders) > 1 else [0, 0], np.int64)


def cut_partitions(queries: pa.Table, n_tokens: int) -> Int64:
    """The partitions of a corpus: number ``i`` is the queries ``borders[i] … borders[i + 1] − 1``."""
    weights = np.zeros(n_tokens, np.int64)
    weights[column(queries, "query")] = column(queries, "realisable")
    return cut_queries(weights, PARTITION_SAMPLES)


def slice_queries(table: pa.Table, first: int, stop: int) -> pa.Table:
    """The rows of the queries ``first … stop − 1`` of a table sorted by query."""
    query = column(table, "query")
    # A bound of another type would make numpy copy the column.
    start, end = np.searchsorted(query, np.array([first, stop], query.dtype))
    return table.slice(int(start), int(end - start))


def slice_edges(edges: EdgeTable, first: int, stop: int) -> EdgeTable:
    """The edges and samples of the queries ``first … stop − 1``."""
    rows, queries = (slice_queries(table, first, stop) for table in (edges.rows, edges.queries))
    return trusted(EdgeTable, rows=rows, queries=queries, n_tokens=edges.n_tokens)


def number_components(partitions: Sequence[Components], edges: EdgeTable) -> Components:
    """The components of all queries, from the components of the partitions in order, and all edges."""
    # Each partition numbers its components from 0; here they follow those of the partitions before.
    firsts = offsets_of(np.array([len(partition) for partition in partitions], np.int64))[:-1]
    numbered = list(zip(partitions, firsts, strict=True))
    nodes = [add_to_columns(partition.nodes, first, "component") for partition, first in numbered]
    orders = [add_to_columns(partition.order, first, "above", "below") for partition, first in numbered]
    return trusted(
        Components,
        edges=edges,
        nodes=join_tables(NODE_SCHEMA, nodes),
        order=join_tables(ORDER_SCHEMA, orders),
    )


def add_to_columns(table: pa.Table, number: Any, *names: str) -> pa.Table:
    """The table with ``number`` (or one for each row) added to some of its columns."""
    schema: Any = table.schema
    columns = {name: column(table, name) for name in schema.names}
    return make_table(schema, {**columns, **{name: columns[name] + number for name in names}})


def join_tables(schema: pa.Schema, tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of tables of one schema, as one table in contiguous memory."""
    whole: Any = pa.concat_tables([empty_table(schema), *tables])
    return whole.combine_chunks()


def keep_ties(components: Components) -> Components:
    """Only the components with more than one token, renumbered, without edges and order."""
    number = components.component_of_node
    tied = components.sizes[number] > 1
    columns: dict[str, Any] = {name: column(components.nodes, name)[tied] for name in ("query", "token")}
    columns["component"] = np.unique(number[tied], return_inverse=True)[1].astype(np.int64)
    return of_nodes(make_table(NODE_SCHEMA, columns), components.edges.n_tokens)


def of_nodes(nodes: pa.Table, n_tokens: int) -> Components:
    """Components with nodes only: no edges and no order."""
    no_rows, no_queries = empty_table(EDGE_SCHEMA), empty_table(QUERY_SCHEMA)
    no_edges = trusted(EdgeTable, rows=no_rows, queries=no_queries, n_tokens=n_tokens)
    return trusted(Components, edges=no_edges, nodes=nodes, order=empty_table(ORDER_SCHEMA))


class Gathered(NamedTuple):
    """Components without their edges, and sums over the edges."""

    components: Components
    n_edges: Int64  # (n_tokens,): edges of each query
    evidence: Int64  # (n_nodes,): the support of all edges of each node, as ``count_evidence`` sums it


class _Gathering(NamedTuple):
    """What is known of the graph after some tables; a *group* is a component of the edges so far."""

    keys: Int64  # (n_nodes,): the packed (query, token) of each node, ascending
    evidence: Int64  # (n_nodes,): the support of the edges of each node
    group: Int64  # (n_nodes,)
    n_groups: int
    order: Order  # between groups


def gather_components(tables: Iterable[pa.Table], queries: pa.Table, n_tokens: int) -> Gathered:
    """Find components and their order, as ``find_components`` does, for edges in several tables."""
    # Only the edges of the current table, and the order between the components so far, are in memory.
    sampled = column(queries, "query")[column(queries, "realisable") > 0]
    keys = pack_pairs(sampled, sampled)  # each sampled query is a node of its own graph
    no_order = Order(*np.empty((4, 0), np.int64))
    state = _Gathering(keys, np.zeros(len(keys), np.int64), np.arange(len(keys)), len(keys), no_order)
    n_edges = np.zeros(n_tokens, np.int64)
    for table in tables:
        n_edges += np.bincount(column(table, "query"), minlength=n_tokens)
        state = _add_edges(state, table, n_tokens)
    component = in_order_of_appearance(state.group)  # of each node
    component_of = np.empty(state.n_groups, np.int64)  # of each group
    component_of[state.group] = component
    above, below, edges, supports = state.order
    order = Order(*condense(component_of[above], component_of[below], edges, supports, state.n_groups))
    edges_left_out = trusted(EdgeTable, rows=empty_table(EDGE_SCHEMA), queries=queries, n_tokens=n_tokens)
    components = assemble_components(edges_left_out, state.keys, component, order)
    return Gathered(components, n_edges, state.evidence)


# The state after the edges of one more table: a cycle of groups becomes one group.
def _add_edges(state: _Gathering, table: pa.Table, n_tokens: int) -> _Gathering:
    query, winner, loser = (column(table, name) for name in ("query", "winner", "loser"))
    support: Int64 = column(table, "support")
    keys = distinct_keys(np.concatenate([state.keys, pack_pairs(query, winner), pack_pairs(query, loser)]))
    group = np.full(len(keys), -1, np.int64)
    evidence = np.zeros(len(keys), np.int64)
    former = np.searchsorted(keys, state.keys)
    group[former] = state.group
    evidence[former] = state.evidence
    fresh = np.flatnonzero(group < 0)  # each new node begins as a group of its own
    group[fresh] = state.n_groups + np.arange(len(fresh))
    n_groups = state.n_groups + len(fresh)
    top, bottom = (find_nodes(keys, query, tokens, n_tokens) for tokens in (winner, loser))
    for end in (top, bottom):
        np.add.at(evidence, end, support)
    added = Order(group[top], group[bottom], np.ones(len(query), np.int64), support)
    above, below, edges, supports = map(np.concatenate, zip(state.order, added, strict=True))
    # The first call adds up the edges between two groups; the second drops those that are now inside one.
    above, below, edges, supports = condense(above, below, edges, supports, n_groups)
    label = label_components(above, below, n_groups)
    n_labels = int(label.max(initial=-1)) + 1
    order = Order(*condense(label[above], label[below], edges, supports, n_labels))
    return _Gathering(keys, evidence, label[group], n_labels, order)
