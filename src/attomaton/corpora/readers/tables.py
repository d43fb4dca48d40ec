"""Read documents from tables (Parquet and Arrow files, datasets, frames in memory), one from each row."""

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import pyarrow as pa

from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.base.tables import arrow_parquet
from attomaton.corpora import budgets
from attomaton.corpora.budgets import brief, list_columns
from attomaton.corpora.readers.batches import RAISE_LIMIT, Batch, ObjectReader, Reader, Reading
from attomaton.corpora.readers.columns import document_kind, documents_of_column, find_document_column
from attomaton.corpora.readers.files import FileReader, TableReader, naming
from attomaton.corpora.readers.records import MemoryReader, split_stream

COLUMN_BATCH_ROWS = 1000  # rows that are read at once, if they are not too large
SAMPLE_ROWS = 100  # rows of a pandas column that show the type of its values
BUFFER_BYTES = 1 << 20  # bytes read together of a large Parquet file
ARROW_MAGIC = b"ARROW1"
FRAME_TYPES = ("DataFrame", "LazyFrame", "Series", "Index")
# Bytes of the largest Parquet file that is read without a buffer, which a damaged page could make huge.
UNBUFFERED = 1 << 26

_arrow: Any = pa
_types: Any = pa.types


def open_parquet(file: BinaryIO) -> Any:
    """Open a Parquet file; a text or list in its footer that is longer than the file is an error."""
    size = file.seek(0, io.SEEK_END)
    return arrow_parquet().ParquetFile(
        _arrow.PythonFile(file, "r"),
        buffer_size=0 if size <= UNBUFFERED else BUFFER_BYTES,
        pre_buffer=False,
        page_checksum_verification=True,
        thrift_string_size_limit=min(budgets.FOOTER_BYTES, max(1, size)),
        # a list has at most one entry for each eight bytes of the file, but small files may have a few more
        thrift_container_size_limit=min(budgets.CONTAINER, max(64, size // 8)),
    )


@dataclass(frozen=True)
class ParquetReader(TableReader):
    """A ``.parquet`` file: one column of text or of lists of ids; rows are numbered from 0."""

    def table(self) -> Any:
        with self.file.open_raw() as raw:
            parquet = open_parquet(raw)
            footer = parquet.metadata
            size = sum(footer.row_group(group).total_byte_size for group in range(footer.num_row_groups))
            self.check_size(max(size, footer.num_rows))
            self.check_number(footer.num_rows, "rows", budgets.TABLE_ROWS)
            table = parquet.read(use_threads=False)
            table.validate(full=True)  # text of a damaged file may not be UTF-8
            return table

    def batches(self) -> Iterator[Batch]:
        row = 0
        with naming(self.source, lambda: f", after row {row},"), self.file.open_raw() as raw:
            file_size = raw.seek(0, io.SEEK_END)
            parquet = open_parquet(raw)
            name = find_document_column(parquet.schema_arrow, self.reading, self.source)
            for group in range(parquet.num_row_groups):
                batch_rows = self._batch_rows(parquet, group, file_size)
                for batch in parquet.iter_batches(
                    batch_rows, row_groups=[group], columns=[name], use_threads=False
                ):
                    yield from documents_of_column(batch.column(0), row, self.source, self.reading)
                    row += len(batch)

    # The number of rows to read together, from the size that the file declares for the row group.
    # The column metadata of Arrow are not used: a damaged footer would crash the process.
    def _batch_rows(self, parquet: Any, group: int, file_size: int) -> int:
        footer = parquet.metadata.row_group(group)
        n_rows = max(1, footer.num_rows)
        size = max(1, footer.total_byte_size)  # of all its columns, unpacked
        size_at_once = max(budgets.UNPACKED, 4 * self.reading.max_bytes)  # some documents of the longest
        if size // n_rows > max(size_at_once, budgets.UNPACKED_RATIO * file_size):
            raise UnreadableSource(
                f"{self.source}, row group {group}, has rows that unpack to {size // n_rows:,} bytes each; "
                f"split the documents, or {RAISE_LIMIT}"
            )
        return max(1, min(COLUMN_BATCH_ROWS, size_at_once * n_rows // size))


@dataclass(frozen=True)
class ArrowReader(FileReader):
    """An ``.arrow`` or ``.feather`` file, in the file format or the stream format of Arrow."""

    has_columns = True

    def batches(self) -> Iterator[Batch]:
        row = 0
        with naming(self.source, lambda: f", after row {row},"), self.file.open_raw() as raw:
            schema, _ = _open_arrow(raw, None)
            name = find_document_column(schema, self.reading, self.source)
            _, batches = _open_arrow(raw, schema.get_all_field_indices(name))
            for batch in batches:
                yield from documents_of_column(batch.column(0), row, self.source, self.reading)
                row += len(batch)


# The schema of an Arrow file, and its record batches with these columns (all if `fields` is None).
def _open_arrow(raw: Any, fields: list[int] | None) -> tuple[Any, Iterator[Any]]:
    raw.seek(0)
    magic = raw.read(len(ARROW_MAGIC))
    raw.seek(0)
    file = _arrow.PythonFile(raw, "r")
    options = _arrow.ipc.IpcReadOptions(included_fields=fields)
    if magic == ARROW_MAGIC:
        table = _arrow.ipc.open_file(file, options=options)
        return table.schema, (table.get_batch(index) for index in range(table.num_record_batches))
    stream = _arrow.ipc.open_stream(file, options=options)
    return stream.schema, iter(stream)


@dataclass(frozen=True, eq=False)
class DatasetReader(ObjectReader):
    """A ``datasets.Dataset`` or ``IterableDataset`` of the library ``datasets``."""

    dataset: Any
    reading: Reading
    source: str = "the dataset"
    name = "dataset"
    has_columns = True

    def digest(self) -> str:
        digest = hashlib.sha256()
        for table in dataset_tables(self.dataset, self.source):
            digest.update(f"{table.schema.names} {table.schema.types}".encode("utf-8", "surrogatepass"))
            for batch in table.to_batches():
                digest.update(batch.serialize())
        return digest.hexdigest()

    def batches(self) -> Iterator[Batch]:
        row = 0
        with naming(self.source, lambda: f", after row {row},"):
            for table in dataset_tables(self.dataset, self.source):
                name = find_document_column(table.schema, self.reading, self.source)
                for array in table.column(name).chunks:
                    yield from documents_of_column(array, row, self.source, self.reading)
                    row += len(array)


def dataset_tables(dataset: Any, source: str = "the dataset") -> Iterator[Any]:
    """A ``datasets.Dataset`` or ``IterableDataset`` as small Arrow tables."""
    if not hasattr(dataset, "iter"):
        raise UnreadableSource(f"{source} has the splits {', '.join(dataset)}; give one of these splits")
    return dataset.with_format("arrow").iter(COLUMN_BATCH_ROWS)


@dataclass(frozen=True, eq=False)
class ColumnReader(ObjectReader):
    """One Arrow column in memory."""

    column: Any
    reading: Reading
    source: str
    name = "frame"
    has_columns = True

    def digest(self) -> str:
        digest = hashlib.sha256(str(self.column.type).encode())
        for chunk in self.column.chunks:
            digest.update(_arrow.record_batch([chunk], ["column"]).serialize())
        return digest.hexdigest()

    def batches(self) -> Iterator[Batch]:
        row = 0
        with naming(self.source, lambda: f", after row {row},"):
            for chunk in self.column.chunks:
                yield from documents_of_column(chunk, row, self.source, self.reading)
                row += len(chunk)


def library_of(value: object) -> str:  # the package that defines its type
    return type(value).__module__.partition(".")[0]


def is_data_frame(source: Any) -> bool:
    """Whether this is a frame or a Series of pandas or Polars, or a table or an array of Arrow."""
    if library_of(source) in ("pandas", "polars"):  # neither of which is imported here
        return type(source).__name__ in FRAME_TYPES
    return isinstance(source, _arrow.Table | _arrow.RecordBatch | _arrow.Array | _arrow.ChunkedArray)


def read_frame(source: Any, reading: Reading) -> Reader:
    """The reader of a frame, a Series, an Arrow table or an Arrow array, whose rows are the documents."""
    library = library_of(source)
    if type(source).__name__ == "LazyFrame":
        raise UnreadableSource("a LazyFrame has no data yet; call .collect() on it")
    is_table = hasattr(source, "columns")
    title = f"the {library} {'frame' if is_table else 'column'}"
    if is_table:
        column = _column_of(source, reading, title)
    elif reading.column in (None, getattr(source, "name", None)):
        column = source if library == "pyarrow" else _to_arrow(source)
    else:
        raise UnsupportedOption(
            f"column is {brief(str(reading.column))!r}, but the source is a single column; leave column out"
        )
    if isinstance(column, list):
        return MemoryReader(cast("list[Any]", column), reading, title)
    if isinstance(column, _arrow.Array):
        column = _arrow.chunked_array([column])
    # a Series or array of integers is a stream of ids, as an array of NumPy is
    if not is_table and _types.is_integer(column.type) and not column.null_count:
        return MemoryReader(split_stream(column.to_numpy(), reading.separator), reading, title)
    is_list = _types.is_list(column.type) or _types.is_large_list(column.type)
    if is_list and not _types.is_integer(column.type.value_type):
        return MemoryReader(column.to_pylist(), reading, title)
    if document_kind(column.type) is None:
        raise UnreadableSource(
            f"{title} is {brief(str(column.type))}; give texts, lists of tokens or lists of ids"
        )
    return ColumnReader(column, reading, title)


# The column to read of a Polars frame, an Arrow table, or a pandas frame of any objects.
def _column_of(frame: Any, reading: Reading, title: str) -> Any:
    library = library_of(frame)
    if library == "pandas":
        names = [str(name) for name in frame.columns]
        columns = [frame.iloc[:, index] for index in range(len(names))]
        schema = None
    else:
        table = frame if library == "pyarrow" else frame.to_arrow()
        columns = table.columns
        schema = table.schema
        names = schema.names
    name = reading.column
    if name is None:
        schema = _guess_schema(names, columns) if schema is None else schema
        name = find_document_column(schema, reading, title)
    if names.count(name) != 1:
        number = "several columns" if name in names else "no column"
        raise UnreadableSource(f"the frame has {number} called {name!r}; choose one of {list_columns(names)}")
    column = columns[names.index(name)]
    return _to_arrow(column) if library == "pandas" else column


# The Arrow schema of columns of pandas, from their first rows; objects of mixed types may be text.
def _guess_schema(names: list[str], columns: list[Any]) -> Any:
    arrays = [_to_arrow(column.dropna().head(SAMPLE_ROWS)) for column in columns]
    types = [_arrow.string() if isinstance(array, list) else array.type for array in arrays]
    return _arrow.schema(list(zip(names, types, strict=True)))


# A column as an Arrow array, or as a list if Arrow has no single type for its objects.
def _to_arrow(series: Any) -> Any:
    if hasattr(series, "to_arrow"):
        return series.to_arrow()
    try:
        return _arrow.array(series, from_pandas=True)
    except (_arrow.ArrowException, TypeError, ValueError):
        return series.tolist()
