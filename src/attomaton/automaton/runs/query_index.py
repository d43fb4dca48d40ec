"""The index of a run: for each query, the numbers of its samples and of its rows in each table."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from attomaton.base.borders import check_count_range, check_ids_of, check_rising, check_table
from attomaton.base.ragged import sorted_borders
from attomaton.base.tables import Int64, Integers, column, make_table
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components
from attomaton.graphs.edges import QUERY_SCHEMA
from attomaton.graphs.partitions import Gathered

HARD_COUNTS = ("nodes", "components", "edges", "order")  # what is counted of the hard side
COUNTED = (*HARD_COUNTS, "choices")  # and with the soft side


def _query_schema(*counts: str) -> pa.Schema:
    return pa.schema([("query", pa.int32()), *((name, pa.int64()) for name in counts)])


INDEX_SCHEMA = _query_schema("realisable", "unrealisable", *COUNTED)

# The index columns that are known before the soft side of a partition is solved.
HARD_INDEX_SCHEMA = _query_schema(*HARD_COUNTS)


def make_index(queries: pa.Table, counts: Mapping[str, Int64]) -> pa.Table:
    """The index of the queries with samples; ``counts`` has the rows of each table by token, (n_tokens,)."""
    query = column(queries, "query")
    samples = {name: column(queries, name) for name in QUERY_SCHEMA.names}
    for name in COUNTED:  # a query without samples has no rows
        assert not np.delete(counts[name], query).any()  # noqa: S101  our own invariant
    return make_table(INDEX_SCHEMA, {**samples, **{name: counts[name][query] for name in COUNTED}})


def index_of(components: Components, choices: ChoiceTable) -> pa.Table:
    """The index of a corpus that is in memory: one row per query with samples, ascending."""
    n_tokens = components.edges.n_tokens
    query_of_row = {**_query_of_row(components), "choices": column(choices.rows, "query")}
    counts = {name: np.diff(sorted_borders(query, n_tokens)) for name, query in query_of_row.items()}
    return make_index(components.edges.queries, counts)


def count_hard_rows(components: Components, gathered: Gathered | None = None) -> pa.Table:
    """The index columns of the hard side; ``gathered`` counts edges that the components do not contain."""
    queries = components.queries
    # rows are sorted by query, so those of a query end where those of the next one begin
    borders = np.append(queries, components.edges.n_tokens)
    counts = {
        name: np.diff(np.searchsorted(query, borders)) for name, query in _query_of_row(components).items()
    }
    if gathered is not None:
        counts["edges"] = gathered.n_edges[queries]
    return make_table(HARD_INDEX_SCHEMA, {"query": queries, **counts})


# For each table of the hard side the query of each row, ascending.
def _query_of_row(components: Components) -> dict[str, Integers]:
    return {
        "nodes": components.query_of_node,
        "components": components.query_of,
        "edges": components.edges["query"],
        "order": components.query_of[column(components.order, "above")],
    }


def check_query_index(index: pa.Table, n_tokens: int) -> dict[str, Int64]:
    """Check an index; return each of its columns by token, shape (n_tokens,), 0 for a token not in it."""
    check_table(index, INDEX_SCHEMA, "the index of queries")
    check_ids_of(index, {"query": n_tokens}, "the index of queries")
    query = column(index, "query")
    check_rising(query, "the index of queries")
    counts: dict[str, Int64] = {}
    for name in INDEX_SCHEMA.names[1:]:
        count = column(index, name)
        check_count_range(count, 0, f"{name} in the index of queries")
        counts[name] = np.zeros(n_tokens, np.int64)
        counts[name][query] = count
    return counts
