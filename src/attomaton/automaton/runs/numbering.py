"""Two numberings of components: local in files, overall in memory.

In files the components of each query are numbered from 0, so that a partition can be written before the
others are solved. In memory (:class:`~attomaton.graphs.components.Components`) components are numbered from 0
over all queries. The overall number is the local number plus ``first``, the overall number of the first
component of the query.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.runs.layout import NODES_STORED, ORDER_STORED, RUN_TABLES
from attomaton.base.ragged import offsets_of, sorted_borders
from attomaton.base.tables import Float64, Int64, column, make_table
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components


def nodes_to_store(components: Components, hard: Float64, soft: Float64) -> pa.Table:
    """The nodes with both scores, in the order of ``components.nodes``, with local numbers."""
    query = components.query_of_node
    columns = {"query": query, "token": components.token_of_node, "hard": hard, "soft": soft}
    local = components.component_of_node - _first_components(components)[query]
    return make_table(NODES_STORED, {**columns, "component": local.astype(np.int32)})


def order_to_store(components: Components, multiplier: Float64) -> pa.Table:
    """The order with a multiplier for each pair, in the order of ``components.order``, with local numbers."""
    order = {name: column(components.order, name) for name in ("above", "below", "edges", "support")}
    query = components.query_of[order["above"]]  # ``below`` has the same
    first = _first_components(components)[query]
    local = {name: (order[name] - first).astype(np.int32) for name in ("above", "below")}
    return make_table(ORDER_STORED, {**order, **local, "query": query, "multiplier": multiplier})


# ``first`` of each query, shape (n_tokens + 1,).
def _first_components(components: Components) -> Int64:
    return sorted_borders(components.query_of, components.edges.n_tokens)


def restore_components(tables: Mapping[str, pa.Table]) -> tuple[pa.Table, pa.Table]:
    """Nodes and order from checked tables, with components numbered over the queries of these tables."""
    order = tables["order"]
    nodes, first = restore_nodes(tables["nodes"])
    # the minimum matters only in a damaged run: there the order may have a query after the last with nodes
    first_of_row = first[np.minimum(column(order, "query"), len(first) - 1)]
    columns = {name: column(order, name) for name in ("edges", "support")}
    ends = {name: column(order, name).astype(np.int64) + first_of_row for name in ("above", "below")}
    return nodes, make_table(ORDER_SCHEMA, {**ends, **columns})


def restore_nodes(nodes: pa.Table) -> tuple[pa.Table, Int64]:
    """Nodes with components numbered over the queries of this table, and ``first`` of each query."""
    query, local = column(nodes, "query"), column(nodes, "component").astype(np.int64)
    highest = np.full(int(query.max(initial=-1)) + 1, -1, np.int64)  # −1: a query without components
    np.maximum.at(highest, query, local)
    first = offsets_of(highest + 1)
    columns = {"query": query, "token": column(nodes, "token"), "component": local + first[query]}
    return make_table(NODE_SCHEMA, columns), first


def number_overall(name: str, rows: pa.Table, first: Int64) -> pa.Table:
    """Rows of a stored table, without multipliers, with components numbered over all queries."""
    table: Any = rows.drop_columns(["multiplier"]) if name == "order" else rows
    first_of_row = first[column(rows, "query")]
    for component in RUN_TABLES[name].components:
        overall: Any = pa.array(column(rows, component) + first_of_row)
        table = table.set_column(table.schema.get_field_index(component), component, overall)
    return table
