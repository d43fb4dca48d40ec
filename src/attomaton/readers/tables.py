"""Parquet and Arrow files, and datasets of the library ``datasets``: each row is one document."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from attomaton.corpora.columnar.footers import Chunk, open_parquet, read_chunks
from attomaton.corpora.columnar.messages import MAGIC, check_messages
from attomaton.corpora.columnar.pages import ROWS, rows_at_once
from attomaton.errors import UnreadableSource
from attomaton.readers.batches import Batch, HeldReader, Reading
from attomaton.readers.columns import find_column, read_column
from attomaton.readers.files import FileReader, naming

_arrow: Any = pa


@dataclass(frozen=True)
class ParquetReader(FileReader):
    """A ``.parquet`` file: one column of text or of lists of ids; the others are not read."""

    has_columns = True

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        row = 0
        with naming(self.source, lambda: f", after row {row},"), self.file.open_raw() as file:
            table = open_parquet(file, self.source)
            name = find_column(table.schema_arrow, self.reading, self.source)
            for group, chunks in enumerate(self._chunks(file, table, name)):
                at_once = min(
                    (rows_at_once(file, one, self.reading.max_bytes) for one in chunks), default=ROWS
                )
                for batch in table.iter_batches(
                    at_once, row_groups=[group], columns=[name], use_threads=False
                ):
                    yield from read_column(batch.column(0), row, self.source, self.reading)
                    row += len(batch)

    def _chunks(self, file: BinaryIO, table: Any, name: str) -> list[list[Chunk]]:
        """For each row group, where the column is."""
        columns = [table.schema.column(place) for place in range(len(table.schema.names))]
        leaves = {
            place
            for place, column in enumerate(columns)
            if column.path == name or column.path.startswith(f"{name}.")
        }
        is_list = any(columns[place].max_repetition_level > 0 for place in leaves)
        return read_chunks(file, self.source, leaves, is_list=is_list)


@dataclass(frozen=True)
class ArrowReader(FileReader):
    """An ``.arrow`` or ``.feather`` file, in Arrow's file or stream format."""

    has_columns = True

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        row = 0
        with naming(self.source, lambda: f", after row {row},"), self.file.open_raw() as raw:
            check_messages(raw, self.source, self.reading.max_bytes)
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
