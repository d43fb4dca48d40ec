"""Queries in parts: which go together, and the components of parts joined to those of all.

The parts of a corpus depend on its samples only, not on memory, threads or engine, so that whoever works part
by part does the same arithmetic and writes the same bytes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.borders import trusted
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int64, column, empty_table, make_table
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable

PART_SAMPLES = 1 << 17
"""Realisable samples of a part, about, if it holds more than one query: some million edges."""


def cut_queries(weights: Int64, size: int) -> Int64:
    """Borders of runs of queries that weigh about ``size`` together, or one query that weighs more."""
    total = offsets_of(weights)
    borders = [0]
    while borders[-1] < len(weights):
        room = int(total[borders[-1]]) + max(1, size)
        fits = int(np.searchsorted(total, room, side="right")) - 1
        borders.append(min(max(fits, borders[-1] + 1), len(weights)))
    return np.array(borders if len(borders) > 1 else [0, 0], np.int64)


def cut_parts(queries: pa.Table, n_tokens: int) -> Int64:
    """The parts of a corpus: part ``i`` holds the queries ``borders[i] … borders[i + 1] − 1``."""
    weights = np.zeros(n_tokens, np.int64)
    weights[column(queries, "query")] = column(queries, "realisable")
    return cut_queries(weights, PART_SAMPLES)


def slice_queries(table: pa.Table, first: int, stop: int) -> pa.Table:
    """The rows of the queries ``first … stop − 1`` of a table sorted by query."""
    query = column(table, "query")
    start, end = np.searchsorted(query, [first, stop])
    return table.slice(int(start), int(end - start))


def part_of_edges(edges: EdgeTable, first: int, stop: int) -> EdgeTable:
    """The edges and samples of the queries ``first … stop − 1``."""
    rows, queries = (slice_queries(table, first, stop) for table in (edges.rows, edges.queries))
    return trusted(EdgeTable, rows=rows, queries=queries, n_tokens=edges.n_tokens)


def join_components(parts: Sequence[Components], edges: EdgeTable) -> Components:
    """The components of all queries from those of parts in rising order, and the edges of all."""
    if len(parts) == 1:
        return trusted(Components, edges=edges, nodes=parts[0].nodes, order=parts[0].order)
    before = offsets_of(np.array([len(part) for part in parts], np.int64))
    nodes = [shift(part.nodes, number, "component") for part, number in zip(parts, before[:-1], strict=True)]
    orders = [
        shift(part.order, number, "above", "below") for part, number in zip(parts, before[:-1], strict=True)
    ]
    return trusted(Components, edges=edges, nodes=join(NODE_SCHEMA, nodes), order=join(ORDER_SCHEMA, orders))


def shift(table: pa.Table, number: Any, *names: str) -> pa.Table:
    """The table with ``number`` (or one for each row) added to some of its columns."""
    schema: Any = table.schema
    columns = {name: column(table, name) for name in schema.names}
    return make_table(schema, {**columns, **{name: columns[name] + number for name in names}})


def join(schema: pa.Schema, tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of tables of one schema, in one piece."""
    whole: Any = pa.concat_tables([empty_table(schema), *tables])
    return whole.combine_chunks()


def keep_ties(components: Components) -> Components:
    """The components with more than one token alone, numbered anew: all that the soft side looks at.

    Edges and order stay behind.
    """
    number = components.component_of_node
    tied = components.sizes[number] > 1
    names = ("query", "token")
    columns: dict[str, Any] = {name: column(components.nodes, name)[tied] for name in names}
    columns["component"] = np.unique(number[tied], return_inverse=True)[1].astype(np.int64)
    return of_nodes(make_table(NODE_SCHEMA, columns), components.edges.n_tokens)


def of_nodes(nodes: pa.Table, n_tokens: int) -> Components:
    """Components of which only the nodes are known: no edges and no order."""
    nothing = trusted(
        EdgeTable, rows=empty_table(EDGE_SCHEMA), queries=empty_table(QUERY_SCHEMA), n_tokens=n_tokens
    )
    return trusted(Components, edges=nothing, nodes=nodes, order=empty_table(ORDER_SCHEMA))
