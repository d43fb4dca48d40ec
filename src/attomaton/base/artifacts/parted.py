"""Partitioned tables: Parquet files of whole queries, so that reading the rows of one query is cheap.

Counts say which rows belong to which query, without a search: the rows of a query are contiguous, and all
row groups of a file except the last hold the same number of rows (:data:`GROUP_ROWS` when written).
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from os import getpid
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts.files import write_file
from attomaton.base.errors import CorruptRun
from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.remote import AnyPath, RangeReader
from attomaton.base.tables import Int64, arrow_parquet, empty_table, exact_file, take_rows

BLOCK_BYTES = 1 << 17  # bytes that have a digest of their own
BLOCK_DIGITS = 16  # hexadecimal digits kept of the SHA-256 of a block
REPLACED = ", or replaced after it was opened; load the run again, or write it again"
"""End of the message about a file that no longer matches the manifest of the opened run."""


def entry_in_blocks(path: Path) -> dict[str, Any]:
    """Digest and size of a file, as manifests list them, and under ``blocks`` the digests of its blocks."""
    whole, blocks, size = hashlib.sha256(), "", 0
    with path.open("rb", buffering=0) as file:
        while blob := file.read(BLOCK_BYTES):
            whole.update(blob)
            blocks += _digest(blob)
            size += len(blob)
    return {"sha256": whole.hexdigest(), "bytes": size, "blocks": blocks}


class CheckedFile(RangeReader):
    """A file open for reading that returns only blocks that match their digests."""

    def __init__(self, file: BinaryIO, entry: Any, name: str) -> None:
        self._n_bytes, self._blocks = int(entry["bytes"]), str(entry["blocks"])
        super().__init__(file, name, self._n_bytes)
        if len(self._blocks) != BLOCK_DIGITS * -(-self._n_bytes // BLOCK_BYTES):
            raise CorruptRun(f"the manifest has an invalid list of blocks for {name}; write the run again")

    def read_range(self, length: int) -> bytes:
        """The bytes, read as whole blocks whose digests are checked."""
        first, last = self.position // BLOCK_BYTES, (self.position + length - 1) // BLOCK_BYTES
        self.file.seek(first * BLOCK_BYTES)
        blob = self.file.read(min((last + 1) * BLOCK_BYTES, self._n_bytes) - first * BLOCK_BYTES)
        for number in range(first, last + 1):
            block = blob[(number - first) * BLOCK_BYTES : (number - first + 1) * BLOCK_BYTES]
            if _digest(block) != self._blocks[BLOCK_DIGITS * number : BLOCK_DIGITS * (number + 1)]:
                raise CorruptRun(f"{self.name} was altered after the run was written{REPLACED}")
        start = self.position - first * BLOCK_BYTES
        return blob[start : start + length]


def _digest(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()[:BLOCK_DIGITS]


GROUP_ROWS = 1 << 16
MOST_OPEN = 16  # files of one table kept open
_arrow: Any = pa


def partition_name(table: str, number: int) -> str:
    """The name of the file that holds a part of a table."""
    return f"{table}-{number:05d}.parquet"


def write_partition(
    file: Path, tables: Iterable[pa.Table], schema: pa.Schema, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Write rows that come in any pieces as one Parquet file; return its entry for the manifest.

    The same rows give the same bytes, however they are cut into pieces.
    """
    rows = 0

    def write(path: Path) -> None:
        nonlocal rows
        parquet = arrow_parquet()
        with exact_file(path, "wb") as sink, parquet.ParquetWriter(sink, schema, **options) as writer:
            for group in whole_groups(tables):
                writer.write_table(group, GROUP_ROWS)
                rows += group.num_rows

    entry = write_file(file, write, describe=entry_in_blocks)
    return {**entry, "name": file.name, "rows": rows, "group": GROUP_ROWS}


def whole_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows in tables of whole row groups (the last may be smaller), each in one chunk."""
    pending: list[Any] = []
    size = 0
    for table in tables:
        if table.num_rows:
            pending.append(table)
            size += table.num_rows
        if size >= GROUP_ROWS:
            whole: Any = pa.concat_tables(pending).combine_chunks()
            cut = size // GROUP_ROWS * GROUP_ROWS
            yield whole.slice(0, cut)
            pending, size = [whole.slice(cut)], size - cut
    if size:
        yield pa.concat_tables(pending).combine_chunks()


def open_partition(folder: AnyPath, entry: Mapping[str, Any]) -> Any:
    """The Parquet file of a part; every block is checked as it is read."""
    path = folder / entry["name"]
    opened = path.open("rb", buffering=0) if isinstance(path, Path) else path.open("rb", BLOCK_BYTES)
    return arrow_parquet().ParquetFile(CheckedFile(opened, entry, str(path)), pre_buffer=False)


def read_whole(folder: AnyPath, entries: Mapping[str, Mapping[str, Any]], table: str) -> pa.Table:
    """All rows of a table of a run, from the entries of the parts of all its tables."""
    tables: list[Any] = []
    for name in sorted(name for name in entries if name.startswith(f"{table}-")):
        with open_partition(folder, {**entries[name], "name": name}) as file:
            tables.append(file.read(use_threads=False))
    return pa.concat_tables(tables)


@dataclass(frozen=True, eq=False)
class PartedTable:
    """A partitioned table on disk, read query by query on demand.

    ``files`` has the entry of each part, as :func:`write_partition` gave it. Part ``i`` holds the queries
    ``borders[i] … borders[i + 1] − 1``, and ``counts`` has the rows of each query, shape (n_tokens,).
    """

    folder: AnyPath
    files: Sequence[Mapping[str, Any]]
    borders: Int64
    counts: Int64
    schema: pa.Schema

    def __post_init__(self) -> None:
        rows = [int(entry["rows"]) for entry in self.files]
        if any(int(entry["group"]) < 1 for entry in self.files):
            raise CorruptRun(
                f"the manifest of {self.folder} lacks the size of row groups; write the run again"
            )
        if len(self.borders) != len(rows) + 1 or rows != np.diff(self._offsets[self.borders]).tolist():
            raise CorruptRun(f"the parts of {self.folder} do not match its index; write the run again")

    @cached_property
    def _offsets(self) -> Int64:
        return offsets_of(self.counts)

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the open files: another process opens its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_opened"}

    @cached_property
    def _opened(self) -> dict[int, "_OpenFiles"]:
        """The open files of each process: after a fork two processes must not share a file position."""
        return {}

    def read(self, queries: Int64) -> pa.Table:
        """The rows of these queries, which are sorted."""
        partitions = np.searchsorted(self.borders, queries, side="right") - 1
        starts = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
        tables = [
            self._read_of_part(int(partitions[first]), queries[first:last])
            for first, last in pairwise(starts)
            if first < last
        ]
        if not tables:
            return empty_table(self.schema)
        whole: Any = pa.concat_tables(tables)
        return whole.combine_chunks()

    def scan(self, query: int) -> Iterator[pa.Table]:
        """The rows of one query, a few row groups at a time."""
        partition = int(np.searchsorted(self.borders, query, side="right")) - 1
        base = int(self._offsets[self.borders[partition]])
        first, last = (int(row) - base for row in self._offsets[[query, query + 1]])
        size = self._group_rows(partition)
        for start in range(first // (8 * size) * 8 * size, last if first < last else 0, 8 * size):
            low, high = max(first, start), min(last, start + 8 * size)
            groups = list(range(low // size, (high - 1) // size + 1))
            yield self._read_groups(partition, groups).slice(low - groups[0] * size, high - low)

    def _read_of_part(self, partition: int, queries: Int64) -> Any:
        base = int(self._offsets[self.borders[partition]])
        first, last = self._offsets[queries] - base, self._offsets[queries + 1] - base
        filled = last > first
        first, last = first[filled], last[filled]
        n_rows, size = int(self.files[partition]["rows"]), self._group_rows(partition)
        if n_rows and not len(first):
            return empty_table(self.schema)
        needed = np.zeros(-(-n_rows // size) + 1, np.int64)
        np.add.at(needed, first // size, 1)
        np.add.at(needed, (last - 1) // size + 1, -1)
        groups = np.flatnonzero(np.cumsum(needed)[:-1] > 0)
        table = self._read_groups(partition, groups.tolist())
        shifts = np.full(len(needed), -1, np.int64)  # where each row group begins among the rows read
        shifts[groups] = np.arange(len(groups)) * size
        rows = ranges_of(shifts[first // size] + first % size, last - first)
        return take_rows(table, rows)

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
        size, n_rows = self._group_rows(partition), int(self.files[partition]["rows"])
        whole = table.num_rows == sum(min(size, n_rows - group * size) for group in groups)
        if not whole or table.schema.names != self.schema.names:
            raise CorruptRun(f"{path} has unexpected rows or columns; write the run again")
        return table if table.schema.equals(self.schema) else table.cast(self.schema)  # loads much

    def _group_rows(self, partition: int) -> int:
        return int(self.files[partition]["group"])


@dataclass(frozen=True, eq=False)
class _OpenFiles:
    lock: Any = field(default_factory=Lock)
    files: dict[int, Any] = field(default_factory=dict[int, Any])

    def open(self, partition: int, folder: AnyPath, entry: Mapping[str, Any]) -> Any:
        """The Parquet file of a part; the least recently used one is closed when there are too many."""
        file = self.files.pop(partition, None)
        self.files[partition] = file = open_partition(folder, entry) if file is None else file
        if len(self.files) > MOST_OPEN:
            self.files.pop(next(iter(self.files))).close()
        return file
