"""Check that the rows read from a run are those that its index lists.

``counts`` is the index by token: for each table the number of rows of each query, shape (n_tokens,).
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from attomaton.automaton.runs.layout import RUN_TABLES
from attomaton.base.borders import check_count_range, check_ids, check_table
from attomaton.base.errors import MismatchedParts
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int32, Int64, column, ragged_column
from attomaton.graphs.choices import ChoiceTable


def check_rows(tables: Mapping[str, pa.Table], queries: Int64, counts: Mapping[str, Int64]) -> None:
    """Refuse tables that do not contain all rows of exactly these ascending queries."""
    ids = queries.astype(np.int32)
    for name, table in tables.items():
        check_table(table, RUN_TABLES[name].schema, f"the table {name}")
        if not np.array_equal(column(table, "query"), np.repeat(ids, counts[name][queries])):
            raise MismatchedParts(f"the queries in the table {name} differ from the index")
    if "nodes" in tables:
        n_nodes = counts["nodes"][queries]
        n_components = _count_components(column(tables["nodes"], "component"), n_nodes)
        if not np.array_equal(n_components, counts["components"][queries]):
            raise MismatchedParts("the components in the table nodes differ from the index")


# The number of components of each query: 1 plus the highest local number among its nodes.
def _count_components(local: Int32, n_nodes: Int64) -> Int64:
    counts = np.zeros(len(n_nodes), np.int64)  # by query
    filled = n_nodes > 0
    if filled.any():  # reduceat cannot take empty runs, so queries without nodes are left out
        starts = offsets_of(n_nodes)[:-1][filled]
        counts[filled] = np.maximum.reduceat(local, starts).astype(np.int64) + 1
    return counts if local.min(initial=0) >= 0 else counts - 1  # a negative number makes the counts differ


def check_batch(name: str, rows: pa.Table, queries: Int64, counts: Mapping[str, Int64]) -> None:
    """Refuse rows of the table ``name`` with other queries, or with components or tokens out of range."""
    layout = RUN_TABLES[name]
    n_tokens = len(counts[name])
    check_table(rows, layout.schema, f"the table {name}")
    query = column(rows, "query")
    if not np.isin(query, queries).all():
        raise MismatchedParts(f"the queries in the table {name} differ from the index")
    for component in layout.components:
        local = column(rows, component)
        if ((local < 0) | (local >= counts["components"][query])).any():
            raise MismatchedParts(f"the components in the table {name} differ from the index")
    for token in layout.tokens:
        check_ids(column(rows, token), n_tokens, f"{token} in the table {name}")
    if name == "edges":
        check_count_range(column(rows, "support"), 1, "support in the table edges")
    if name == "choices":
        ChoiceTable(rows)
        check_ids(ragged_column(rows, "tokens")[1], n_tokens, "a token in the table choices")
