"""The files of a run: four tables in partitions of whole queries, and an index of the queries.

Each table has one Parquet file per partition, sorted by query:

- edges: query, winner, loser, support
- nodes: query, token, component, hard, soft
- order: query, above, below, edges, support, multiplier
- choices: query, winner, tokens, multiplicities, count

``component``, ``above`` and ``below`` are local numbers of components
(:mod:`~attomaton.automaton.runs.numbering`). The index (:mod:`~attomaton.automaton.runs.query_index`) has one
row per query.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from attomaton.base.artifacts.runs import ARRAYS_FILE
from attomaton.graphs.choices import CHOICE_FILE, CHOICE_SCHEMA
from attomaton.graphs.edges import EDGE_FILE, EDGE_SCHEMA

INT32, INT64, FLOAT64 = pa.int32(), pa.int64(), pa.float64()
PACKED = "DELTA_BINARY_PACKED"  # small for integers that differ little from row to row

NODES_STORED = pa.schema(
    [("query", INT32), ("token", INT32), ("component", INT32), ("hard", FLOAT64), ("soft", FLOAT64)]
)
NODES_FILE = {
    "compression": "lz4",
    "use_dictionary": ["hard"],
    "column_encoding": {"token": PACKED, "component": PACKED},
}

ORDER_ENDS = [("query", INT32), ("above", INT32), ("below", INT32)]
ORDER_STORED = pa.schema([*ORDER_ENDS, ("edges", INT64), ("support", INT64), ("multiplier", FLOAT64)])
ORDER_FILE = {
    "compression": "lz4",
    "use_dictionary": False,
    "column_encoding": dict.fromkeys(("below", "edges", "support"), PACKED),
}


@dataclass(frozen=True)
class TableLayout:
    """The columns of a stored table, its Parquet options, and its columns of tokens and of components."""

    schema: pa.Schema
    options: dict[str, Any]
    tokens: tuple[str, ...] = ()
    components: tuple[str, ...] = ()


RUN_TABLES = {
    "edges": TableLayout(EDGE_SCHEMA, EDGE_FILE, tokens=("winner", "loser")),
    "nodes": TableLayout(NODES_STORED, NODES_FILE, tokens=("token",), components=("component",)),
    "order": TableLayout(ORDER_STORED, ORDER_FILE, components=("above", "below")),
    "choices": TableLayout(CHOICE_SCHEMA, CHOICE_FILE, tokens=("winner",)),
}

# The files of a run, and the folder in which an engine works before they are written.
OWNED = (
    *(f"{table}-{'[0-9]' * 5}.parquet" for table in RUN_TABLES),
    "queries.parquet",
    "vocabulary.json",
    "coverage.json",
    "writes.json",
    ARRAYS_FILE,
    "work/*",
)
