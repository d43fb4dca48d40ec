"""Parquet and Arrow files, and datasets of the library ``datasets``: each row is one document."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from attomaton.base.errors import UnreadableSource
from attomaton.corpora.budgets import CONTAINER, FOOTER, UNPACKED, unpacked_most
from attomaton.corpora.readers.batches import Batch, HeldReader, Reading
from attomaton.corpora.readers.columns import find_column, read_column
from attomaton.corpora.readers.files import FileReader, TableReader, naming

_arrow: Any = pa
MAGIC = b"ARROW1"
ROWS = 1000
"""Rows that are read at once, where nothing speaks against it."""


def open_parquet(file: BinaryIO) -> Any:
    """A Parquet file whose footer has no text or list that is longer than the file could hold."""
    from pyarrow import parquet

    tables: Any = parquet
    size = file.seek(0, 2)
    return tables.ParquetFile(
        _arrow.PythonFile(file, "r"),
        buffer_size=1 << 20,
        pre_buffer=False,
        page_checksum_verification=True,
        thrift_string_size_limit=min(FOOTER, max(1, size)),
        thrift_container_size_limit=min(CONTAINER, max(64, size // 8)),
    )


@dataclass(frozen=True)
class ParquetReader(TableReader):
    """A ``.parquet`` file: one column of text or of lists of ids; the others are not read."""

    def table(self) -> Any:
        """All rows of a file that does not say that it is too large."""
        with self.file.open_raw() as raw:
            opened = open_parquet(raw)
            about = opened.metadata
            size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
            self.check_size(max(size, about.num_rows))
            return opened.read(use_threads=False)

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        row = 0
        with naming(self.source, lambda: f", after row {row},"), self.file.open_raw() as file:
            stored, table = file.seek(0, 2), open_parquet(file)
            name = find_column(table.schema_arrow, self.reading, self.source)
            for group in range(table.num_row_groups):
                at_once = self._rows_at_once(table, group, stored)
                for batch in table.iter_batches(
                    at_once, row_groups=[group], columns=[name], use_threads=False
                ):
                    yield from read_column(batch.column(0), row, self.source, self.reading)
                    row += len(batch)

    def _rows_at_once(self, table: Any, group: int, stored: int) -> int:
        """How many rows may be read together, by the size that the file gives for the group; at least one.

        Arrow's metadata of a column is not asked: where a footer is damaged that would end the process.
        """
        about, limit = table.metadata.row_group(group), self.reading.max_bytes
        rows, size = max(1, about.num_rows), max(1, about.total_byte_size)
        if size // rows > unpacked_most(stored, limit):
            raise UnreadableSource(
                f"{self.source}, row group {group}, has rows that unpack to {size // rows:,} bytes each; "
                "split the documents, or raise the limit (max_bytes; --max-document on the command line)"
            )
        return max(1, min(ROWS, max(UNPACKED, 4 * limit) * rows // size))


@dataclass(frozen=True)
class ArrowReader(FileReader):
    """An ``.arrow`` or ``.feather`` file, in Arrow's file or stream format."""

    has_columns = True

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        row = 0
        with naming(self.source, lambda: f", after row {row},"), self.file.open_raw() as raw:
            schema, _ = _open_arrow(raw, None)
            name = find_column(schema, self.reading, self.source)
            _, tables = _open_arrow(raw, schema.get_all_field_indices(name))
            for batch in tables:
                yield from read_column(batch.column(0), row, self.source, self.reading)
                row += len(batch)


def _open_arrow(raw: Any, fields: list[int] | None) -> tuple[Any, Iterator[Any]]:
    """The schema and the batches; only some fields of these, if they are given."""
    from pyarrow import ipc

    raw.seek(0)
    begins = raw.read(6)
    raw.seek(0)
    file = _arrow.PythonFile(raw, "r")
    interchange: Any = ipc
    options = interchange.IpcReadOptions(included_fields=fields)
    if begins == MAGIC:
        table = interchange.open_file(file, options=options)
        return table.schema, (table.get_batch(index) for index in range(table.num_record_batches))
    stream = interchange.open_stream(file, options=options)
    return stream.schema, iter(stream)


@dataclass(frozen=True, eq=False)
class DatasetReader(HeldReader):
    """A ``datasets.Dataset`` or ``IterableDataset`` of the library ``datasets``."""

    dataset: Any
    reading: Reading
    source: str = "the dataset"
    name = "dataset"
    has_columns = True

    def digest(self) -> str:
        """The SHA-256 of its rows."""
        digest = hashlib.sha256()
        for table in self._tables():
            digest.update(f"{table.schema.names} {table.schema.types}".encode("utf-8", "surrogatepass"))
            for batch in table.to_batches():
                digest.update(batch.serialize())
        return digest.hexdigest()

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        row = 0
        with naming(self.source, lambda: f", after row {row},"):
            for table in self._tables():
                name = find_column(table.schema, self.reading, self.source)
                for array in table.column(name).chunks:
                    yield from read_column(array, row, self.source, self.reading)
                    row += len(array)

    def _tables(self) -> Iterator[Any]:
        dataset: Any = self.dataset
        if not hasattr(dataset, "iter"):
            raise UnreadableSource(f"{self.source} has splits ({', '.join(dataset)}); give one of them")
        return dataset.with_format("arrow").iter(ROWS)
