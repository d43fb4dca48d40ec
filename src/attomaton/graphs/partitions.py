"""Cut a corpus into partitions by query, and find the components of edges that arrive in several tables.

The partitions depend only on the samples, not on memory, threads or engine. So all engines that work
partition by partition do identical arithmetic and write identical bytes.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.borders import trusted
from attomaton.base.native import condense, find_nodes, label_components
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int64, column, empty_table, make_table
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components, assemble_components
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable
from attomaton.graphs.grouping import distinct_keys, pack_pairs
from attomaton.graphs.strong import Order, in_order_of_appearance

# Approximate number of realisable samples of a partition with more than one query: some million edges.
PARTITION_SAMPLES = 1 << 17


def cut_queries(weights: Int64, size: int) -> Int64:
    """Borders that cut the queries into runs of a total weight of about ``size``, or one heavier query."""
    total = offsets_of(weights)
    borders = [0]
    while borders[-1] < len(weights):
        room = int(total[borders[-1]]) + max(1, size)
        fits = int(np.searchsorted(total, room, side="right")) - 1
        borders.append(min(max(fits, borders[-1] + 1), len(weights)))
    return np.array(borders if len(borders) > 1 else [0, 0], np.int64)


def cut_partitions(queries: pa.Table, n_tokens: int) -> Int64:
    """The partitions of a corpus: number ``i`` is the queries ``borders[i] … borders[i + 1] − 1``."""
    weights = np.zeros(n_tokens, np.int64)
    weights[column(queries, "query")] = column(queries, "realisable")
    return cut_queries(weights, PARTITION_SAMPLES)


def slice_queries(table: pa.Table, first: int, stop: int) -> pa.Table:
    """The rows of the queries ``first … stop − 1`` of a table sorted by query."""
    query = column(table, "query")
    start, end = np.searchsorted(query, np.array([first, stop], query.dtype))  # other types copy the column
    return table.slice(int(start), int(end - start))


def slice_edges(edges: EdgeTable, first: int, stop: int) -> EdgeTable:
    """The edges and samples of the queries ``first … stop − 1``."""
    rows, queries = (slice_queries(table, first, stop) for table in (edges.rows, edges.queries))
    return trusted(EdgeTable, rows=rows, queries=queries, n_tokens=edges.n_tokens)


def number_components(partitions: Sequence[Components], edges: EdgeTable) -> Components:
    """The components of all queries, from the components of the partitions in order, and all edges."""
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
    names = ("query", "token")
    columns: dict[str, Any] = {name: column(components.nodes, name)[tied] for name in names}
    columns["component"] = np.unique(number[tied], return_inverse=True)[1].astype(np.int64)
    return of_nodes(make_table(NODE_SCHEMA, columns), components.edges.n_tokens)


def of_nodes(nodes: pa.Table, n_tokens: int) -> Components:
    """Components with nodes only: no edges and no order."""
    nothing = trusted(
        EdgeTable, rows=empty_table(EDGE_SCHEMA), queries=empty_table(QUERY_SCHEMA), n_tokens=n_tokens
    )
    return trusted(Components, edges=nothing, nodes=nodes, order=empty_table(ORDER_SCHEMA))


class Gathered(NamedTuple):
    """Components without their edges, and sums over the edges."""

    components: Components
    n_edges: Int64  # (n_tokens,): edges of each query
    evidence: Int64  # (n_nodes,): the support of all edges of each node, as ``count_evidence`` sums it


class _Gathering(NamedTuple):
    """Nodes so far, their evidence and groups, the number of groups, and the order between them."""

    keys: Int64
    evidence: Int64
    group: Int64
    n_groups: int
    order: Order


def gather_components(tables: Iterable[pa.Table], queries: pa.Table, n_tokens: int) -> Gathered:
    """Find components and their order, as ``find_components`` does, for edges that arrive in several tables.

    Only the edges of the current table, and the order between the components so far, are in memory, so a
    query too large for memory is processed from a file.
    """
    sampled = column(queries, "query")[column(queries, "realisable") > 0]
    keys = pack_pairs(sampled, sampled)
    nothing = np.empty(0, np.int64)
    order = nothing, nothing, nothing, nothing
    state = _Gathering(keys, np.zeros(len(keys), np.int64), np.arange(len(keys)), len(keys), order)
    n_edges = np.zeros(n_tokens, np.int64)
    for table in tables:
        n_edges += np.bincount(column(table, "query"), minlength=n_tokens)
        state = _add_edges(state, table, n_tokens)
    component = in_order_of_appearance(state.group)
    number = np.empty(state.n_groups, np.int64)
    number[state.group] = component
    above, below, edges, supports = state.order
    order = condense(number[above], number[below], edges, supports, state.n_groups)
    edges_left_out = trusted(EdgeTable, rows=empty_table(EDGE_SCHEMA), queries=queries, n_tokens=n_tokens)
    components = assemble_components(edges_left_out, state.keys, component, order)
    return Gathered(components, n_edges, state.evidence)


def _add_edges(state: _Gathering, table: pa.Table, n_tokens: int) -> _Gathering:
    """Merge groups that the edges of a table join into cycles, and drop edges inside a group."""
    query, winner, loser = (column(table, name) for name in ("query", "winner", "loser"))
    keys = distinct_keys(np.concatenate([state.keys, pack_pairs(query, winner), pack_pairs(query, loser)]))
    group, evidence = np.full(len(keys), -1, np.int64), np.zeros(len(keys), np.int64)
    former = np.searchsorted(keys, state.keys)
    group[former], evidence[former] = state.group, state.evidence
    fresh = np.flatnonzero(group < 0)
    group[fresh] = state.n_groups + np.arange(len(fresh))
    n_groups = state.n_groups + len(fresh)
    top, bottom = (find_nodes(keys, query, tokens, n_tokens) for tokens in (winner, loser))
    support: Int64 = column(table, "support")
    for end in (top, bottom):
        np.add.at(evidence, end, support)
    added = group[top], group[bottom], np.ones(len(query), np.int64), support
    above, below, edges, supports = map(np.concatenate, zip(state.order, added, strict=True))
    above, below, edges, supports = condense(above, below, edges, supports, n_groups)
    label = label_components(above, below, n_groups)
    n_labels = int(label.max(initial=-1)) + 1
    order = condense(label[above], label[below], edges, supports, n_labels)
    return _Gathering(keys, evidence, label[group], n_labels, order)
