"""Work per query partition: which queries go together, and a function run on each part."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.machine import share_out
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int64, column
from attomaton.engines.parts import EdgeParts
from attomaton.graphs.parts import cut_queries, slice_queries

QueryTable = pa.Table | EdgeParts
"""A table with a column ``query``, sorted by it, or an engine's edges."""


def map_queries(
    function: Callable[..., pa.Table], *tables: QueryTable, n_parts: int, threads: int = 1
) -> pa.Table:
    """Run ``function`` on the rows of each part of the queries, the biggest first.

    Parameters
    ----------
    function : callable
        Takes one Arrow table for each of ``tables`` with the rows of some consecutive queries, and returns an
        Arrow table.
    tables : pyarrow.Table or EdgeParts
        Sorted by their column query.
    n_parts : int
        About how many parts to make; they hold about equally many rows.
    threads : int
        How many parts to work on at once.

    Returns
    -------
    pyarrow.Table
        What the function returned, in the order of the queries.

    Examples
    --------
    >>> table = pa.table({"query": pa.array([0, 0, 3], pa.int32())})
    >>> map_queries(lambda rows: pa.table({"rows": [rows.num_rows]}), table, n_parts=2).to_pylist()
    [{'rows': 2}, {'rows': 1}]
    """
    ranges = biggest_first(tables, n_parts)

    def run(limits: tuple[int, int]) -> pa.Table:
        return function(*(_rows(table, *limits) for table in tables))

    found = dict(zip(ranges, share_out(run, ranges, max(1, threads)), strict=True))
    results: Sequence[Any] = [found[limits] for limits in sorted(found)]
    return pa.concat_tables(results)


def biggest_first(tables: Sequence[QueryTable], n_parts: int) -> list[tuple[int, int]]:
    """First query and last query + 1 of about ``n_parts`` parts, the one with the most rows first."""
    weights = _weights(tables)
    total = offsets_of(weights)
    ranges = list(pairwise(cut_queries(weights, int(total[-1]) // max(1, n_parts)).tolist()))
    return sorted(ranges, key=lambda limits: int(total[limits[0]] - total[limits[1]]))


def _weights(tables: Sequence[QueryTable]) -> Int64:
    """Rows of each query, or a stand-in for them, over all tables."""
    counts: list[Int64] = []
    for table in tables:
        if isinstance(table, EdgeParts):
            weights = np.zeros(table.n_tokens, np.int64)
            weights[column(table.queries, "query")] = 1 + column(table.queries, "realisable")
            counts.append(weights)
        else:
            counts.append(_count_rows(table))
    total = np.zeros(max((len(count) for count in counts), default=0), np.int64)
    for count in counts:
        total[: len(count)] += count
    return total


def _count_rows(table: pa.Table) -> Int64:
    return np.bincount(column(table, "query"))


def _rows(table: QueryTable, first: int, stop: int) -> pa.Table:
    if isinstance(table, EdgeParts):
        return table.read(first, stop)
    return slice_queries(table, first, stop)
