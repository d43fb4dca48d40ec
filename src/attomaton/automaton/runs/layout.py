"""How a run lies on disk: four tables in parts of whole queries, and an index that says where each query is.

Components are numbered inside their query, so that a part can be written before the others are known.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts.parted import part_name, write_part
from attomaton.base.artifacts.runs import ARRAYS
from attomaton.base.borders import check_counts, check_ids_of, check_rising, check_table
from attomaton.base.errors import MismatchedParts
from attomaton.base.machine import share_out
from attomaton.base.ragged import group_borders, offsets_of
from attomaton.base.solutions import score_table
from attomaton.base.tables import Float64, Int32, Int64, column, make_table
from attomaton.graphs.choices import CHOICE_FILE, CHOICE_SCHEMA
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components
from attomaton.graphs.edges import EDGE_FILE, EDGE_SCHEMA, QUERY_SCHEMA
from attomaton.graphs.parts import Gathered, slice_queries
from attomaton.solvers.hard.problem import MULTIPLIER_SCHEMA

NODES = pa.schema(
    [
        ("query", pa.int32()),
        ("token", pa.int32()),
        ("component", pa.int32()),
        ("hard", pa.float64()),
        ("soft", pa.float64()),
    ]
)
ORDER = pa.schema(
    [
        ("query", pa.int32()),
        ("above", pa.int32()),
        ("below", pa.int32()),
        ("edges", pa.int64()),
        ("support", pa.int64()),
        ("multiplier", pa.float64()),
    ]
)
WHOLE_NODES = pa.schema(
    [("query", pa.int32()), ("token", pa.int32()), ("component", pa.int64())]
    + [(name, pa.float64()) for name in ("hard", "soft")]
)
WHOLE_ORDER = pa.schema(
    [("query", pa.int32())] + [(name, pa.int64()) for name in ("above", "below", "edges", "support")]
)
"""Nodes and order with components numbered over all queries."""

SCHEMAS: dict[str, pa.Schema] = {
    "edges": EDGE_SCHEMA,
    "nodes": NODES,
    "order": ORDER,
    "choices": CHOICE_SCHEMA,
}
"""The tables of a run."""

PARTS = tuple(f"{table}-#####.parquet" for table in SCHEMAS)
OWNED = (*PARTS, "queries.parquet", "vocabulary.json", "coverage.json", "writes.json", ARRAYS, "work/**")
"""The files of a run, and the folder in which an engine works before they are written."""

COUNTED = ("nodes", "components", "edges", "order", "choices")
INDEX = pa.schema(
    [("query", pa.int32())] + [(name, pa.int64()) for name in ("realisable", "unrealisable", *COUNTED)]
)
"""A row for each query that has samples: these, and how many rows of each table are its own."""

COUNTS = pa.schema(
    [("query", pa.int32())] + [(name, pa.int64()) for name in ("nodes", "components", "edges", "order")]
)
"""What the hard side of a part knows of the index."""

SMALL = 1 << 18
"""Rows up to which a second thread would not write a run sooner."""

FORMAT = 1
"""Of the files that stages leave for each other."""

FILES: dict[str, dict[str, Any]] = {
    "edges": EDGE_FILE,
    "nodes": {
        "compression": "lz4",
        "use_dictionary": ["query", "hard", "soft"],
        "column_encoding": {"token": "DELTA_BINARY_PACKED", "component": "DELTA_BINARY_PACKED"},
    },
    "order": {
        "compression": "lz4",
        "use_dictionary": ["query", "edges", "support", "multiplier"],
        "column_encoding": {"above": "DELTA_BINARY_PACKED", "below": "DELTA_BINARY_PACKED"},
    },
    "choices": CHOICE_FILE,
}
"""How each table is written."""


def describe_nodes(components: Components, hard: Float64, soft: Float64) -> pa.Table:
    """The nodes with their scores, components numbered inside their query."""
    first = first_components(components)[components.query_of_node]
    return make_table(
        NODES,
        {
            "query": components.query_of_node,
            "token": components.token_of_node,
            "component": (components.component_of_node - first).astype(np.int32),
            "hard": hard,
            "soft": soft,
        },
    )


def describe_order(components: Components, multiplier: Float64) -> pa.Table:
    """The order with what presses on it, components numbered inside their query."""
    above, below = column(components.order, "above"), column(components.order, "below")
    query = components.query_of[above]
    first = first_components(components)[query]
    return make_table(
        ORDER,
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
    return group_borders(components.query_of, components.edges.n_tokens)


def describe_index(queries: pa.Table, n_tokens: int, counts: Mapping[str, Int64]) -> pa.Table:
    """The index, from the samples by query and how many rows each of all tokens has in each table."""
    query = column(queries, "query")
    read = {name: column(queries, name) for name in QUERY_SCHEMA.names}
    for name in COUNTED:
        asked = np.zeros(n_tokens, bool)
        asked[query] = True
        assert not counts[name][~asked].any()  # noqa: S101  our own invariant
    return make_table(INDEX, {**read, **{name: counts[name][query] for name in COUNTED}})


def describe_counts(components: Components, order: pa.Table, gathered: Gathered | None = None) -> pa.Table:
    """How many nodes, components, edges and pairs of the order each query of some components has.

    ``gathered`` counts the edges of each query where the components do not hold them.
    """
    queries = components.queries
    columns = {
        "nodes": components.query_of_node,
        "components": components.query_of,
        "edges": components.edges["query"],
        "order": column(order, "query"),
    }
    counts = {
        name: np.diff(np.searchsorted(rows, np.append(queries, components.edges.n_tokens)))
        for name, rows in columns.items()
    }
    if gathered is not None:
        counts["edges"] = gathered.n_edges[queries]
    return make_table(COUNTS, {"query": queries, **counts})


def count_rows(tables: Mapping[str, pa.Table], components: Components) -> dict[str, Int64]:
    """How many rows each token has as a query in each table, and how many components."""
    size = components.edges.n_tokens
    counts = {name: np.bincount(column(table, "query"), minlength=size) for name, table in tables.items()}
    return {**counts, "components": np.bincount(components.query_of, minlength=size)}


def write_tables(
    folder: Path, tables: Mapping[str, pa.Table], borders: Int64
) -> dict[str, list[dict[str, Any]]]:
    """Write whole tables in parts; the entries of the files of each."""
    limits = list(pairwise(borders.tolist()))

    def write(part: tuple[str, int]) -> dict[str, Any]:
        name, number = part
        rows = slice_queries(tables[name], *limits[number])
        return write_part(folder / part_name(name, number), [rows], SCHEMAS[name], FILES[name])

    asked = [(name, number) for number in range(len(limits)) for name in tables]
    small = sum(table.num_rows for table in tables.values()) <= SMALL
    written = dict(zip(asked, share_out(write, asked, 1 if small else None), strict=True))
    return {name: [written[name, number] for number in range(len(limits))] for name in tables}


def check_index(index: pa.Table, n_tokens: int) -> dict[str, Int64]:
    """What the index says of each token, if it can be so: columns of shape (n_tokens,) by name."""
    check_table(index, INDEX, "the index of queries")
    check_ids_of(index, {"query": n_tokens}, "the index of queries")
    query = column(index, "query")
    check_rising(query, "the index of queries")
    told: dict[str, Int64] = {}
    for name in INDEX.names[1:]:
        counted = column(index, name)
        check_counts(counted, 0, f"{name} in the index of queries")
        told[name] = np.zeros(n_tokens, np.int64)
        told[name][query] = counted
    return told


def check_rows(tables: Mapping[str, pa.Table], asked: Int64, counts: Mapping[str, Int64]) -> None:
    """Refuse tables whose rows are of other queries than the index says: ``asked``, which rise."""
    queries = asked.astype(np.int32)
    for name, table in tables.items():
        check_table(table, SCHEMAS[name], f"one of the parts of {name}")
        if not np.array_equal(column(table, "query"), np.repeat(queries, counts[name][asked])):
            raise MismatchedParts(f"the parts of {name} are of other queries than the index says")
    if "nodes" in tables:
        rows = counts["nodes"][asked]
        found = _count_components(column(tables["nodes"], "component"), rows)
        if not np.array_equal(found, counts["components"][asked]):
            raise MismatchedParts("the parts of nodes have other components than the index says")


def _count_components(number: Int32, rows: Int64) -> Int64:
    """How many components each query has, from its own numbers of them; it has ``rows[i]`` nodes."""
    found = np.zeros(len(rows), np.int64)
    filled = rows > 0
    if filled.any():
        found[filled] = np.maximum.reduceat(number, offsets_of(rows)[:-1][filled]).astype(np.int64) + 1
    return found if number.min(initial=0) >= 0 else found - 1


def restore_components(tables: Mapping[str, pa.Table]) -> tuple[pa.Table, pa.Table]:
    """Nodes and order as :class:`Components` has them, components numbered from 0 over all queries here.

    The tables are such as :func:`check_rows` lets through.
    """
    nodes, order = tables["nodes"], tables["order"]
    query, number = column(nodes, "query"), column(nodes, "component").astype(np.int64)
    size = int(query.max(initial=-1)) + 1
    highest = np.full(size, -1, np.int64)
    np.maximum.at(highest, query, number)
    first = offsets_of(highest + 1)
    asked = np.minimum(column(order, "query"), size)
    columns = {name: column(order, name) for name in ("edges", "support")}
    ends = {name: column(order, name).astype(np.int64) + first[asked] for name in ("above", "below")}
    whole = {"query": query, "token": column(nodes, "token"), "component": number + first[query]}
    return make_table(NODE_SCHEMA, whole), make_table(ORDER_SCHEMA, {**ends, **columns})


def number_over_all(name: str, piece: pa.Table, first: Int64) -> pa.Table:
    """Some rows of a table with components numbered over all queries; ``first`` is that of each query."""
    if name not in ("nodes", "order"):
        return piece
    schema = WHOLE_NODES if name == "nodes" else WHOLE_ORDER
    columns = {one: column(piece, one) for one in schema.names}
    own = first[columns["query"]]
    numbered = ("component",) if name == "nodes" else ("above", "below")
    return make_table(schema, {**columns, **{one: columns[one] + own for one in numbered}})


def restore_multipliers(order: pa.Table, table: pa.Table) -> pa.Table:
    """The multipliers of an order, from the table on disk."""
    ends = {name: column(order, name) for name in ("above", "below")}
    return make_table(MULTIPLIER_SCHEMA, {**ends, "multiplier": column(table, "multiplier")})


def restore_scores(nodes: pa.Table) -> dict[str, pa.Table]:
    """The tables of hard and of soft scores."""
    return {name: score_table(nodes, column(nodes, name)) for name in ("hard", "soft")}


def list_parts(files: Mapping[str, Any], n_parts: int) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The entries of the parts of each table among the files that a manifest lists."""
    return {
        table: [
            {**files[part_name(table, number)], "name": part_name(table, number)} for number in range(n_parts)
        ]
        for table in SCHEMAS
    }
