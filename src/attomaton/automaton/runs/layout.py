"""A run on disk: four tables in partitions of whole queries, and an index of the queries.

Each table is one Parquet file per partition, sorted by query:

    edges      query, winner, loser, support
    nodes      query, token, component, hard, soft
    order      query, above, below, edges, support, multiplier
    choices    query, winner, tokens, multiplicities, count

The index gives the number of samples of each query, and of its rows in each table. In files, components are
numbered within their query, so a partition can be written before the others are known; in memory
(:class:`~attomaton.graphs.components.Components`) they are numbered over all queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts.parted import partition_name, write_partition
from attomaton.base.artifacts.runs import ARRAYS_FILE
from attomaton.base.borders import check_count_range, check_ids_of, check_rising, check_table
from attomaton.base.errors import MismatchedParts
from attomaton.base.machine import divide_work
from attomaton.base.ragged import offsets_of, sorted_borders
from attomaton.base.tables import Float64, Int32, Int64, Integers, column, make_table
from attomaton.graphs.choices import CHOICE_FILE, CHOICE_SCHEMA, ChoiceTable
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components
from attomaton.graphs.edges import EDGE_FILE, EDGE_SCHEMA, QUERY_SCHEMA
from attomaton.graphs.partitions import Gathered, slice_queries


def _schema(int32: Sequence[str], int64: Sequence[str] = (), float64: Sequence[str] = ()) -> pa.Schema:
    kinds: dict[Any, Sequence[str]] = {pa.int32(): int32, pa.int64(): int64, pa.float64(): float64}
    return pa.schema([(name, kind) for kind, names in kinds.items() for name in names])


@dataclass(frozen=True)
class TableLayout:
    """The columns of a table in files, its Parquet options, and the columns that number components."""

    schema: pa.Schema
    options: dict[str, Any]
    numbering: tuple[str, ...] = ()


RUN_TABLES = {
    "edges": TableLayout(EDGE_SCHEMA, EDGE_FILE),
    "nodes": TableLayout(
        _schema(("query", "token", "component"), float64=("hard", "soft")),
        {
            "compression": "lz4",
            "use_dictionary": ["hard"],
            "column_encoding": {"token": "DELTA_BINARY_PACKED", "component": "DELTA_BINARY_PACKED"},
        },
        numbering=("component",),
    ),
    "order": TableLayout(
        _schema(("query", "above", "below"), ("edges", "support"), ("multiplier",)),
        {
            "compression": "lz4",
            "use_dictionary": False,
            "column_encoding": dict.fromkeys(("below", "edges", "support"), "DELTA_BINARY_PACKED"),
        },
        numbering=("above", "below"),
    ),
    "choices": TableLayout(CHOICE_SCHEMA, CHOICE_FILE),
}

COUNTED = ("nodes", "components", "edges", "order", "choices")
INDEX_SCHEMA = _schema(("query",), ("realisable", "unrealisable", *COUNTED))
"""One row per query with samples: their number, and its number of rows in each table."""

HARD_COUNT_SCHEMA = _schema(("query",), COUNTED[:-1])
"""The columns of the index from the hard side of a partition."""

TABLE_FILES = tuple(f"{table}-{'[0-9]' * 5}.parquet" for table in RUN_TABLES)
OWNED = (
    *TABLE_FILES,
    "queries.parquet",
    "vocabulary.json",
    "coverage.json",
    "writes.json",
    ARRAYS_FILE,
    "work/*",
)
"""The files of a run, and the folder in which an engine works before they are written."""

SMALL_RUN_ROWS = 1 << 18
"""Number of rows up to which a second thread would not speed up writing."""

STAGE_FORMAT = 1
"""Format version of the files that stages pass to each other."""


def nodes_to_store(components: Components, hard: Float64, soft: Float64) -> pa.Table:
    """The nodes with their scores, with components numbered within their query."""
    first = first_components(components)[components.query_of_node]
    return make_table(
        RUN_TABLES["nodes"].schema,
        {
            "query": components.query_of_node,
            "token": components.token_of_node,
            "component": (components.component_of_node - first).astype(np.int32),
            "hard": hard,
            "soft": soft,
        },
    )


def order_to_store(components: Components, multiplier: Float64) -> pa.Table:
    """The order with its multipliers, components numbered within their query."""
    above, below = column(components.order, "above"), column(components.order, "below")
    query = components.query_of[above]
    first = first_components(components)[query]
    return make_table(
        RUN_TABLES["order"].schema,
        {
            "query": query,
            "above": (above - first).astype(np.int32),
            "below": (below - first).astype(np.int32),
            "edges": column(components.order, "edges"),
            "support": column(components.order, "support"),
            "multiplier": multiplier,
        },
    )


def first_components(components: Components) -> Int64:
    """The number of the first component of each query, shape (n_tokens + 1,)."""
    return sorted_borders(components.query_of, components.edges.n_tokens)


def make_index(queries: pa.Table, counts: Mapping[str, Int64]) -> pa.Table:
    """The index, from the samples by query and the number of rows of each token in each table."""
    query = column(queries, "query")
    read = {name: column(queries, name) for name in QUERY_SCHEMA.names}
    for name in COUNTED:
        assert not np.delete(counts[name], query).any()  # noqa: S101  our own invariant
    return make_table(INDEX_SCHEMA, {**read, **{name: counts[name][query] for name in COUNTED}})


def _rows_by_query(components: Components) -> dict[str, Integers]:
    """The query of each row of the tables that components hold."""
    return {
        "nodes": components.query_of_node,
        "components": components.query_of,
        "edges": components.edges["query"],
        "order": components.query_of[column(components.order, "above")],
    }


def index_of(components: Components, choices: ChoiceTable) -> pa.Table:
    """The index of an automaton in memory."""
    n_tokens = components.edges.n_tokens
    rows = {**_rows_by_query(components), "choices": column(choices.rows, "query")}
    counts = {name: np.diff(sorted_borders(query, n_tokens)) for name, query in rows.items()}
    return make_index(components.edges.queries, counts)


def count_hard_rows(components: Components, gathered: Gathered | None = None) -> pa.Table:
    """The number of nodes, components, edges and pairs of the order of each query.

    ``gathered`` counts the edges of each query where the components do not hold them.
    """
    queries = components.queries
    ends = np.append(queries, components.edges.n_tokens)
    rows = _rows_by_query(components)
    counts = {name: np.diff(np.searchsorted(query, ends)) for name, query in rows.items()}
    if gathered is not None:
        counts["edges"] = gathered.n_edges[queries]
    return make_table(HARD_COUNT_SCHEMA, {"query": queries, **counts})


def write_tables(folder: Path, tables: Mapping[str, pa.Table], borders: Int64) -> dict[str, dict[str, Any]]:
    """Write whole tables in partitions; return the entry of each file, by its name."""
    limits = list(pairwise(borders.tolist()))

    def write(file: tuple[str, int]) -> dict[str, Any]:
        name, number = file
        rows, layout = slice_queries(tables[name], *limits[number]), RUN_TABLES[name]
        return write_partition(folder / partition_name(name, number), [rows], layout.schema, layout.options)

    files = [(name, number) for name in tables for number in range(len(limits))]
    small = sum(table.num_rows for table in tables.values()) <= SMALL_RUN_ROWS
    return {entry.pop("name"): entry for entry in divide_work(write, files, 1 if small else None)}


def check_query_index(index: pa.Table, n_tokens: int) -> dict[str, Int64]:
    """The index for each token, if it is consistent: columns of shape (n_tokens,) by name."""
    check_table(index, INDEX_SCHEMA, "the index of queries")
    check_ids_of(index, {"query": n_tokens}, "the index of queries")
    query = column(index, "query")
    check_rising(query, "the index of queries")
    by_token: dict[str, Int64] = {}
    for name in INDEX_SCHEMA.names[1:]:
        counted = column(index, name)
        check_count_range(counted, 0, f"{name} in the index of queries")
        by_token[name] = np.zeros(n_tokens, np.int64)
        by_token[name][query] = counted
    return by_token


def check_rows(tables: Mapping[str, pa.Table], rising: Int64, counts: Mapping[str, Int64]) -> None:
    """Reject tables whose queries differ from those of the index, ``rising``."""
    queries = rising.astype(np.int32)
    for name, table in tables.items():
        check_table(table, RUN_TABLES[name].schema, f"one of the parts of {name}")
        if not np.array_equal(column(table, "query"), np.repeat(queries, counts[name][rising])):
            raise MismatchedParts(f"the queries in the parts of {name} differ from the index")
    if "nodes" in tables:
        rows = counts["nodes"][rising]
        n_components = _count_components(column(tables["nodes"], "component"), rows)
        if not np.array_equal(n_components, counts["components"][rising]):
            raise MismatchedParts("the components in the parts of nodes differ from the index")


def _count_components(number: Int32, rows: Int64) -> Int64:
    """The number of components of each query, from their numbers within it; it has ``rows[i]`` nodes."""
    counts = np.zeros(len(rows), np.int64)
    filled = rows > 0
    if filled.any():
        counts[filled] = np.maximum.reduceat(number, offsets_of(rows)[:-1][filled]).astype(np.int64) + 1
    return counts if number.min(initial=0) >= 0 else counts - 1


def restore_components(tables: Mapping[str, pa.Table]) -> tuple[pa.Table, pa.Table]:
    """Nodes and order as :class:`Components` has them, components numbered from 0 over all queries here.

    The tables must pass :func:`check_rows`.
    """
    order, (nodes, first) = tables["order"], restore_nodes(tables["nodes"])
    owner = np.minimum(column(order, "query"), len(first) - 1)
    columns = {name: column(order, name) for name in ("edges", "support")}
    ends = {name: column(order, name).astype(np.int64) + first[owner] for name in ("above", "below")}
    return nodes, make_table(ORDER_SCHEMA, {**ends, **columns})


def restore_nodes(nodes: pa.Table) -> tuple[pa.Table, Int64]:
    """Nodes with components numbered from 0 over all queries here, and the first component of each query."""
    query, number = column(nodes, "query"), column(nodes, "component").astype(np.int64)
    highest = np.full(int(query.max(initial=-1)) + 1, -1, np.int64)
    np.maximum.at(highest, query, number)
    first = offsets_of(highest + 1)
    columns = {"query": query, "token": column(nodes, "token"), "component": number + first[query]}
    return make_table(NODE_SCHEMA, columns), first


def number_over_all(name: str, rows: pa.Table, first: Int64) -> pa.Table:
    """Rows of a table with components numbered over all queries; ``first`` is that of each query."""
    table: Any = rows.drop_columns(["multiplier"]) if name == "order" else rows
    shift = first[column(rows, "query")]
    for numbered in RUN_TABLES[name].numbering:
        number: Any = pa.array(column(rows, numbered) + shift)
        table = table.set_column(table.schema.get_field_index(numbered), numbered, number)
    return table
