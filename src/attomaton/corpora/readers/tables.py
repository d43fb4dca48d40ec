"""Parquet and Arrow files, and datasets of the library ``datasets``: each row is one document."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from attomaton.corpora.readers.batches import Batch, Reading
from attomaton.corpora.readers.columns import find_column, read_column
from attomaton.corpora.readers.files import FileReader, naming
from attomaton.errors import UnreadableSource

_arrow: Any = pa
PARQUET = {"buffer_size": 1 << 20, "pre_buffer": False, "page_checksum_verification": True}
ROWS = 1000
"""Rows that are taken from a table at a time."""


@dataclass(frozen=True)
class ParquetReader(FileReader):
    """A ``.parquet`` file: one column of text or of lists of ids; the others are not read."""

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        from pyarrow import parquet

        tables: Any = parquet
        row = 0
        with naming(self.source, lambda: f", after row {row},"), self.file.open_raw() as file:
            table = tables.ParquetFile(_arrow.PythonFile(file, "r"), **PARQUET)
            name = find_column(table.schema_arrow, self.reading, self.source)
            for batch in table.iter_batches(ROWS, columns=[name], use_threads=False):
                yield from read_column(batch.column(0), row, self.source, self.reading)
                row += len(batch)


@dataclass(frozen=True)
class ArrowReader(FileReader):
    """An ``.arrow`` or ``.feather`` file, in Arrow's file or stream format."""

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        row = 0
        with naming(self.source, lambda: f", after row {row},"), self.file.open_raw() as raw:
            schema, tables = _open_arrow(raw)
            name = find_column(schema, self.reading, self.source)
            for batch in tables:
                yield from read_column(batch.column(name), row, self.source, self.reading)
                row += len(batch)


def _open_arrow(raw: Any) -> tuple[Any, Iterator[Any]]:
    from pyarrow import ipc

    begins = raw.read(6)
    raw.seek(0)
    file = _arrow.PythonFile(raw, "r")
    if begins == b"ARROW1":
        table: Any = ipc.open_file(file)
        return table.schema, (table.get_batch(index) for index in range(table.num_record_batches))
    stream: Any = ipc.open_stream(file)
    return stream.schema, iter(stream)


@dataclass(frozen=True, eq=False)
class DatasetReader:
    """A ``datasets.Dataset`` or ``IterableDataset`` of the library ``datasets``."""

    dataset: Any
    reading: Reading
    source: str = "the dataset"
    name: str = "dataset"
    portable: bool = False

    def digest(self) -> str:
        """The SHA-256 of its rows."""
        digest = hashlib.sha256()
        for table in self._tables():
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
