"""Partitioned tables: Parquet files of whole queries, in which the rows of one query are cheap to read.

Row counts say which rows belong to which query: the rows of a query are contiguous, and all row groups of a
file except the last have equal sizes (:data:`GROUP_ROWS` when written). :func:`write_partition` writes one
file, and :class:`PartedTable` reads the rows of chosen queries from all files.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from os import getpid
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts.blocks import BLOCK_BYTES, REPLACED, CheckedFile, entry_in_blocks
from attomaton.base.artifacts.files import write_file
from attomaton.base.errors import CorruptRun
from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.remote import AnyPath
from attomaton.base.tables import Int64, arrow_parquet, empty_table, exact_file, take_rows

GROUP_ROWS = 1 << 16  # rows of a row group, the unit that Parquet reads and compresses
GROUPS_AT_ONCE = 8  # row groups read together where one query is scanned
MOST_OPEN = 16  # files of one table that stay open


def partition_name(table: str, number: int) -> str:
    return f"{table}-{number:05d}.parquet"


def write_partition(
    file: Path, tables: Iterable[pa.Table], schema: pa.Schema, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the rows of some tables as one Parquet file; return its manifest entry."""
    rows = 0

    def write(path: Path) -> None:
        nonlocal rows
        parquet = arrow_parquet()
        with exact_file(path, "wb") as sink, parquet.ParquetWriter(sink, schema, **options) as writer:
            # whole row groups, so that equal rows give equal bytes, however they are divided among tables
            for groups in whole_groups(tables):
                writer.write_table(groups, GROUP_ROWS)
                rows += groups.num_rows

    entry = write_file(file, write, describe=entry_in_blocks)
    return {**entry, "name": file.name, "rows": rows, "group": GROUP_ROWS}


def whole_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows in tables of whole row groups (the last may be smaller), each in one chunk."""
    pending: list[Any] = []
    size = 0
    for table in tables:
        if table.num_rows:
            pending.append(table)
            size += table.num_rows
        if size >= GROUP_ROWS:
            whole: Any = pa.concat_tables(pending).combine_chunks()
            n_whole = size // GROUP_ROWS * GROUP_ROWS  # rows in whole row groups
            yield whole.slice(0, n_whole)
            pending = [whole.slice(n_whole)]
            size -= n_whole
    if size:
        yield pa.concat_tables(pending).combine_chunks()


def open_partition(folder: AnyPath, entry: Mapping[str, Any]) -> Any:
    """Open the Parquet file of a partition; every block is checked when it is read."""
    path = folder / entry["name"]
    file = path.open("rb", buffering=0) if isinstance(path, Path) else path.open("rb", BLOCK_BYTES)
    return arrow_parquet().ParquetFile(CheckedFile(file, entry, str(path)), pre_buffer=False)


def read_whole(folder: AnyPath, entries: Mapping[str, Mapping[str, Any]], table: str) -> pa.Table:
    """All rows of a table of a run, from the manifest entries of all partitions."""
    tables: list[Any] = []
    for name in sorted(name for name in entries if name.startswith(f"{table}-")):
        with open_partition(folder, {**entries[name], "name": name}) as file:
            tables.append(file.read(use_threads=False))
    return pa.concat_tables(tables)


@dataclass(frozen=True, eq=False)
class PartedTable:
    """A partitioned table on disk, read query by query on demand.

    ``files`` are the manifest entries of the partitions. Partition ``i`` contains the queries ``borders[i] …
    borders[i + 1] − 1``, and ``counts`` has the number of rows of each query, shape (n_tokens,).
    """

    # Rows are numbered in three ways: in the table (over all files), in the file of a partition, and among
    # the row groups that one call of `_read_groups` returns. Names of the last begin with `read_`.

    folder: AnyPath
    files: Sequence[Mapping[str, Any]]
    borders: Int64
    counts: Int64
    schema: pa.Schema

    def __post_init__(self) -> None:
        rows = [int(entry["rows"]) for entry in self.files]
        if any(int(entry["group"]) < 1 for entry in self.files):
            raise CorruptRun(
                f"the manifest of {self.folder} has a row group size below 1; write the run again"
            )
        if len(self.borders) != len(rows) + 1 or rows != np.diff(self._offsets[self.borders]).tolist():
            raise CorruptRun(f"the partitions of {self.folder} do not match its index; write the run again")

    @cached_property
    def _offsets(self) -> Int64:  # the first row of each query in the table, and the number of all rows
        return offsets_of(self.counts)

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the open files: another process opens its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_opened"}

    # The open files by process: after a fork, two processes must not share a file position.
    @cached_property
    def _opened(self) -> dict[int, "_OpenFiles"]:
        return {}

    def read(self, queries: Int64) -> pa.Table:
        """The rows of these sorted queries."""
        partitions = np.searchsorted(self.borders, queries, side="right") - 1  # of each query
        # sorted queries are sorted by partition, too: queries[start:stop] are those in one partition
        changes = np.flatnonzero(np.diff(partitions)) + 1
        tables = [
            self._read_of_partition(int(partitions[start]), queries[start:stop])
            for start, stop in pairwise([0, *changes.tolist(), len(queries)])
            if start < stop
        ]
        if not tables:
            return empty_table(self.schema)
        whole: Any = pa.concat_tables(tables)
        return whole.combine_chunks()

    def scan(self, query: int) -> Iterator[pa.Table]:
        """Yield the rows of one query, a few row groups at a time."""
        partition = int(np.searchsorted(self.borders, query, side="right")) - 1
        start, stop = (int(row) for row in self._rows_of(partition, query))
        if start == stop:
            return
        group_rows = self._group_rows(partition)
        stride = GROUPS_AT_ONCE * group_rows
        # each step reads whole row groups, from a multiple of `stride` on, if they contain rows of the query
        for low in range(start // stride * stride, stop, stride):
            first = max(start, low)
            last = min(stop, low + stride) - 1
            groups = list(range(first // group_rows, last // group_rows + 1))
            read_start = first - groups[0] * group_rows
            yield self._read_groups(partition, groups).slice(read_start, last + 1 - first)

    # The first row of each query in the file of the partition, and the row after the last.
    def _rows_of(self, partition: int, queries: Any) -> tuple[Any, Any]:
        file_start = self._offsets[self.borders[partition]]  # the row of the table with which the file begins
        return self._offsets[queries] - file_start, self._offsets[queries + 1] - file_start

    # The rows of sorted queries that are all in this partition, in one chunk.
    def _read_of_partition(self, partition: int, queries: Int64) -> Any:
        starts, stops = self._rows_of(partition, queries)
        has_rows = stops > starts
        starts = starts[has_rows]
        stops = stops[has_rows]
        n_rows = int(self.files[partition]["rows"])
        if n_rows and not len(starts):
            return empty_table(self.schema)
        group_rows = self._group_rows(partition)
        n_groups = -(-n_rows // group_rows)  # rounded up
        # A query needs the row groups of its first and last row, and all between: 1 is added at the first and
        # subtracted after the last, so the running sum is the number of queries that need a row group.
        changes = np.zeros(n_groups + 1, np.int64)
        np.add.at(changes, starts // group_rows, 1)
        np.add.at(changes, (stops - 1) // group_rows + 1, -1)
        groups = np.flatnonzero(np.cumsum(changes)[:-1] > 0)
        table = self._read_groups(partition, groups.tolist())
        # where each row group begins among the rows that were read; a group that was not read is never used
        read_group_starts = np.full(n_groups, -1, np.int64)
        read_group_starts[groups] = np.arange(len(groups)) * group_rows
        read_starts = read_group_starts[starts // group_rows] + starts % group_rows
        return take_rows(table, ranges_of(read_starts, stops - starts))

    # The rows of whole row groups of a file, in one chunk, if the file is what its manifest entry says.
    def _read_groups(self, partition: int, groups: list[int]) -> Any:
        files = self._opened.setdefault(getpid(), _OpenFiles())
        path = self.folder / self.files[partition]["name"]
        with files.lock:
            try:
                file = files.open(partition, self.folder, self.files[partition])
                table = file.read_row_groups(groups, use_threads=False).combine_chunks()
            except CorruptRun:
                raise
            except FileNotFoundError as error:
                raise CorruptRun(f"{path} is missing{REPLACED}") from error
            except (OSError, ValueError, IndexError) as error:  # Arrow's errors are ValueErrors
                raise CorruptRun(f"{path} cannot be read ({error}); write the run again") from error
        group_rows = self._group_rows(partition)
        n_rows = int(self.files[partition]["rows"])
        # the last row group of a file may be smaller
        expected = sum(min(group_rows, n_rows - group * group_rows) for group in groups)
        if table.num_rows != expected or table.schema.names != self.schema.names:
            raise CorruptRun(f"{path} has unexpected rows or columns; write the run again")
        # a cast imports the compute functions of Arrow, so it is avoided
        return table if table.schema.equals(self.schema) else table.cast(self.schema)

    def _group_rows(self, partition: int) -> int:
        return int(self.files[partition]["group"])


@dataclass(frozen=True, eq=False)
class _OpenFiles:
    """The open files of a table by partition, the least recently used first."""

    lock: Any = field(default_factory=Lock)
    files: dict[int, Any] = field(default_factory=dict[int, Any])

    def open(self, partition: int, folder: AnyPath, entry: Mapping[str, Any]) -> Any:
        file = self.files.pop(partition, None)
        self.files[partition] = file = open_partition(folder, entry) if file is None else file
        if len(self.files) > MOST_OPEN:
            self.files.pop(next(iter(self.files))).close()
        return file
