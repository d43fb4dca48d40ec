"""Columns of tables as documents, one per row: Parquet and Arrow files, datasets, frames in memory."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, Literal, cast

import numpy as np
import pyarrow as pa

from attomaton.base.errors import AttomatonError, UnreadableSource, UnsupportedOption
from attomaton.base.tables import Int64, Integers, arrow_compute, arrow_parquet
from attomaton.corpora.budgets import (
    CONTAINER,
    FOOTER_BYTES,
    PIECE_ROWS,
    TABLE_ROWS,
    UNPACKED,
    brief,
    unpacked_most,
)
from attomaton.corpora.readers.batches import (
    RAISE_LIMIT,
    TEXT_BATCH_BYTES,
    Batch,
    ObjectReader,
    Reader,
    Reading,
    Skips,
    TextBatch,
    TokenBatch,
    checked_text,
    token_batch,
    too_long,
)
from attomaton.corpora.readers.files import FileReader, TableReader, naming
from attomaton.corpora.readers.records import MemoryReader
from attomaton.corpora.token_files import read_lists

_arrow: Any = pa
_types: Any = pa.types
COLUMN_NAMES = ("text", "content", "tokens", "input_ids", "ids")
"""Columns that are taken without being named, if only one of them is there."""
NAMED_COLUMNS = 20  # columns that an error lists
COLUMN_BATCH_ROWS = 1000  # rows that are read at once, where nothing speaks against it
SAMPLE_ROWS = 100  # rows of a pandas column that are looked at to see what it holds
ARROW_MAGIC = b"ARROW1"
ID_BYTES = 4  # of a token id in memory
FRAME_TYPES = ("DataFrame", "LazyFrame", "Series", "Index")
SPLIT_DOCUMENT = "split the document"


def find_document_column(schema: Any, reading: Reading, source: str) -> str:
    """The name of the column to read; an error lists the columns if it is not clear which."""
    kinds = {field.name: _document_kind(field.type) for field in schema}
    present = (
        ", ".join(brief(f"{field.name}: {field.type}") for field in list(schema)[:NAMED_COLUMNS]) or "none"
    )
    present += f" and {len(kinds) - NAMED_COLUMNS:,} more" if len(kinds) > NAMED_COLUMNS else ""
    name = reading.column
    if name is None:
        usable = [name for name, kind in kinds.items() if kind is not None]
        candidates = [name for name in usable if name in COLUMN_NAMES] or usable
        if not candidates:
            raise UnreadableSource(
                f"{source} has no column of text or of lists of integers (it has {present}); add one"
            )
        if len(candidates) > 1:
            several = ", ".join(map(brief, candidates[:NAMED_COLUMNS]))
            raise UnreadableSource(f"{source} has several columns to read ({several}); name one with column")
        return candidates[0]
    if name not in kinds:
        raise UnreadableSource(f"{source} has no column {name!r}; it has {present}")
    if kinds[name] is None:
        arrow_type = next(field.type for field in schema if field.name == name)
        raise UnreadableSource(
            f"{source}, column {brief(name)!r}, is {brief(str(arrow_type))}; documents must be "
            "text, or flat lists of integers: name another column"
        )
    return name


def documents_of_column(array: Any, first_row: int, source: str, reading: Reading) -> Iterator[Batch]:
    """The documents of one array, in batches of about ``BATCH_BYTES`` or one document."""
    try:  # an array from a damaged file may point outside its buffers
        array.validate(full=True)
    except pa.ArrowInvalid:
        binary = {"string": _arrow.binary(), "large_string": _arrow.large_binary()}.get(str(array.type))
        if binary is None:
            raise
        array.view(binary).validate(full=True)  # bad UTF-8 is named below
    is_text = _document_kind(array.type) == "text"
    skips = Skips(reading)
    for first in range(0, len(array), PIECE_ROWS):
        rows = array.slice(first, PIECE_ROWS)
        sizes = _row_sizes(rows)
        for start, stop in pairwise(_cut_rows(sizes)):
            batch = rows.slice(start, stop - start)
            numbers = first_row + first + np.arange(start, stop, dtype=np.int64)
            if is_text:
                yield _text_batch(batch, numbers, sizes[start:stop], source, reading, skips)
            else:
                yield _token_batch(batch, numbers, source, reading, skips)


def _row_sizes(array: Any) -> Int64:
    """The bytes of each row once it is unpacked; rows can share theirs, so the array may have fewer."""
    if _types.is_dictionary(array.type):
        value_sizes = np.append(_row_sizes(array.dictionary), 0)  # the last for rows that are null
        null = len(value_sizes) - 1
        indices = array.indices.fill_null(null) if array.null_count else array.indices
        return value_sizes[np.minimum(indices.to_numpy(zero_copy_only=False).astype(np.int64), null)]
    if _types.is_string_view(array.type):  # views of 16 bytes, which begin with the length
        lengths: Int64 = np.frombuffer(array.buffers()[1] or b"", np.int32)[::4].astype(np.int64)
        return lengths[array.offset : array.offset + len(array)]
    if _document_kind(array.type) == "text":
        n_bytes = arrow_compute().binary_length(array).fill_null(0)
        return n_bytes.to_numpy(zero_copy_only=False).astype(np.int64)
    return ID_BYTES * _list_lengths(array)


def _list_lengths(array: Any) -> Int64:
    lengths = arrow_compute().list_value_length(array).fill_null(0)
    return lengths.to_numpy(zero_copy_only=False).astype(np.int64)


def _cut_rows(sizes: Int64) -> list[int]:
    """Where to cut rows of these sizes into batches: 0, …, the number of rows."""
    ends = np.cumsum(sizes)
    cuts = [0]
    while cuts[-1] < len(sizes):
        before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        fitting = int(np.searchsorted(ends, before + TEXT_BATCH_BYTES, side="right"))
        cuts.append(max(fitting, cuts[-1] + 1))
    return cuts


def _document_kind(arrow_type: Any) -> Literal["text", "ids"] | None:
    """What documents a column of this type holds; None if it holds none."""
    if _types.is_dictionary(arrow_type):
        return "text" if _document_kind(arrow_type.value_type) == "text" else None
    if (
        _types.is_string(arrow_type)
        or _types.is_large_string(arrow_type)
        or _types.is_string_view(arrow_type)
    ):
        return "text"
    is_fixed = _types.is_fixed_size_list(arrow_type) and arrow_type.list_size > 0
    is_list = _types.is_list(arrow_type) or _types.is_large_list(arrow_type) or is_fixed
    return "ids" if is_list and _types.is_integer(arrow_type.value_type) else None


def _text_batch(
    array: Any, rows: Int64, sizes: Int64, source: str, reading: Reading, skips: Skips
) -> TextBatch:
    texts: list[str] = []
    good_rows: list[int] = []
    values: Any = array
    if int(sizes.max(initial=0)) <= reading.max_bytes:
        with suppress(UnicodeDecodeError):  # the bad row is reported below
            values = array.to_pylist()
    for row, size, value in zip(rows.tolist(), sizes.tolist(), values, strict=True):
        where = f"{source}, row {row},"
        try:
            if size > reading.max_bytes:
                raise too_long(where, reading, advice=SPLIT_DOCUMENT)
            text = value.as_py() if values is array else value
            if text is None:
                raise UnreadableSource(f"{where} is null, not text; drop the row")
            texts.append(checked_text(text, where))
        except UnicodeDecodeError as error:
            reason = f"{where} is not UTF-8 text (byte {error.start}: {error.reason})"
            skips.add(UnreadableSource(f"{reason}; convert it to UTF-8 first"))
        except UnreadableSource as error:
            skips.add(error)
        else:
            good_rows.append(row)
    return TextBatch(texts, np.array(good_rows, np.int64), skips.take())


def _token_batch(array: Any, rows: Int64, source: str, reading: Reading, skips: Skips) -> TokenBatch:
    """Lists of ids; all are read at once, unless something is wrong."""
    lengths = _list_lengths(array)
    if ID_BYTES * int(lengths.max(initial=0)) <= reading.max_bytes:
        with suppress(AttomatonError):  # the bad row is reported below
            return TokenBatch(*read_lists(array, reading.n_tokens, source, 0), rows, skips.take())
    lists: list[Integers] = []
    good_rows: list[int] = []
    for index, row in enumerate(rows.tolist()):
        try:
            if ID_BYTES * lengths[index] > reading.max_bytes:
                raise too_long(f"{source}, row {row},", reading, advice=SPLIT_DOCUMENT)
            lists.append(read_lists(array.slice(index, 1), reading.n_tokens, source, row)[1])
        except AttomatonError as error:
            skips.add(error)
        else:
            good_rows.append(row)
    return token_batch(lists, good_rows, skips)


READ_WHOLE = 1 << 26
"""Parquet files up to this size are read without a buffer: it would be as long as a damaged page claims."""


def open_parquet(file: BinaryIO) -> Any:
    """A Parquet file whose footer has no text or list that is longer than the file could hold."""
    size = file.seek(0, 2)
    return arrow_parquet().ParquetFile(
        _arrow.PythonFile(file, "r"),
        buffer_size=0 if size <= READ_WHOLE else 1 << 20,
        pre_buffer=False,
        page_checksum_verification=True,
        thrift_string_size_limit=min(FOOTER_BYTES, max(1, size)),
        thrift_container_size_limit=min(CONTAINER, max(64, size // 8)),
    )


@dataclass(frozen=True)
class ParquetReader(TableReader):
    """A ``.parquet`` file: one column of text or of lists of ids; the others are not read."""

    def table(self) -> Any:
        """All rows, unless the file declares too large a size."""
        with self.file.open_raw() as raw:
            parquet = open_parquet(raw)
            footer = parquet.metadata
            size = sum(footer.row_group(group).total_byte_size for group in range(footer.num_row_groups))
            self.check_size(max(size, footer.num_rows))
            self.check_number(footer.num_rows, "rows", TABLE_ROWS)
            table = parquet.read(use_threads=False)
            table.validate(full=True)  # text of a damaged file may not be UTF-8
            return table

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        row = 0
        with naming(self.source, lambda: f", after row {row},"), self.file.open_raw() as raw:
            file_size, parquet = raw.seek(0, 2), open_parquet(raw)
            name = find_document_column(parquet.schema_arrow, self.reading, self.source)
            for group in range(parquet.num_row_groups):
                batch_rows = self._batch_rows(parquet, group, file_size)
                for batch in parquet.iter_batches(
                    batch_rows, row_groups=[group], columns=[name], use_threads=False
                ):
                    yield from documents_of_column(batch.column(0), row, self.source, self.reading)
                    row += len(batch)

    def _batch_rows(self, parquet: Any, group: int, file_size: int) -> int:
        """How many rows may be read together, by the size that the file gives for the group; at least one.

        Arrow's column metadata is not used: with a damaged footer that would crash the process.
        """
        footer, limit = parquet.metadata.row_group(group), self.reading.max_bytes
        rows, size = max(1, footer.num_rows), max(1, footer.total_byte_size)
        if size // rows > unpacked_most(file_size, limit):
            raise UnreadableSource(
                f"{self.source}, row group {group}, has rows that unpack to {size // rows:,} bytes each; "
                f"split the documents, or {RAISE_LIMIT}"
            )
        return max(1, min(COLUMN_BATCH_ROWS, max(UNPACKED, 4 * limit) * rows // size))


@dataclass(frozen=True)
class ArrowReader(FileReader):
    """An ``.arrow`` or ``.feather`` file, in Arrow's file or stream format."""

    has_columns = True

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        row = 0
        with naming(self.source, lambda: f", after row {row},"), self.file.open_raw() as raw:
            schema, _ = _open_arrow(raw, None)
            name = find_document_column(schema, self.reading, self.source)
            _, batches = _open_arrow(raw, schema.get_all_field_indices(name))
            for batch in batches:
                yield from documents_of_column(batch.column(0), row, self.source, self.reading)
                row += len(batch)


def _open_arrow(raw: Any, fields: list[int] | None) -> tuple[Any, Iterator[Any]]:
    """The schema and the batches; only some fields of these, if they are given."""
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
        """The SHA-256 of its rows."""
        digest = hashlib.sha256()
        for table in dataset_tables(self.dataset, self.source):
            digest.update(f"{table.schema.names} {table.schema.types}".encode("utf-8", "surrogatepass"))
            for batch in table.to_batches():
                digest.update(batch.serialize())
        return digest.hexdigest()

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        row = 0
        with naming(self.source, lambda: f", after row {row},"):
            for table in dataset_tables(self.dataset, self.source):
                name = find_document_column(table.schema, self.reading, self.source)
                for array in table.column(name).chunks:
                    yield from documents_of_column(array, row, self.source, self.reading)
                    row += len(array)


def dataset_tables(dataset: Any, source: str = "the dataset") -> Iterator[Any]:
    """A ``datasets.Dataset`` or ``IterableDataset`` as Arrow tables of some rows each."""
    if not hasattr(dataset, "iter"):
        raise UnreadableSource(f"{source} has splits ({', '.join(dataset)}); give one of them")
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
        """The SHA-256 of its rows."""
        digest = hashlib.sha256(str(self.column.type).encode())
        for chunk in self.column.chunks:
            digest.update(_arrow.record_batch([chunk], ["column"]).serialize())
        return digest.hexdigest()

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are numbered from 0."""
        row = 0
        with naming(self.source, lambda: f", after row {row},"):
            for chunk in self.column.chunks:
                yield from documents_of_column(chunk, row, self.source, self.reading)
                row += len(chunk)


def library_of(value: object) -> str:
    """The package that the type of a value comes from."""
    return type(value).__module__.partition(".")[0]


def is_data_frame(source: Any) -> bool:
    """Whether this is a frame or Series of pandas or Polars, or a table or array of Arrow."""
    library, name = library_of(source), type(source).__name__
    return (library in ("pandas", "polars") and name in FRAME_TYPES) or isinstance(
        source, _arrow.Table | _arrow.RecordBatch | _arrow.Array | _arrow.ChunkedArray
    )


def read_frame(source: Any, reading: Reading) -> Reader:
    """The reader of a frame: of the column that is asked for, or the only one that fits."""
    library = library_of(source)
    if type(source).__name__ == "LazyFrame":
        raise UnreadableSource("the LazyFrame is not computed yet; give its .collect()")
    is_table = hasattr(source, "columns")
    if is_table:
        title = f"the {library} frame"
        column = _column_of(source, reading, title)
    else:
        title = f"the {library} column"
        if reading.column not in (None, getattr(source, "name", None)):
            raise UnsupportedOption(
                f"column is {brief(str(reading.column))!r}, but the source is a single column; leave it out"
            )
        column = source if library == "pyarrow" else _to_arrow(source)
    if isinstance(column, list):
        return MemoryReader(cast("list[Any]", column), reading, title)
    if isinstance(column, _arrow.Array):
        column = _arrow.chunked_array([column])
    if not is_table and _types.is_integer(column.type) and not column.null_count:
        return MemoryReader([column.to_numpy()], reading, title)  # one document, as an array of ids is
    is_list = _types.is_list(column.type) or _types.is_large_list(column.type)
    if is_list and not _types.is_integer(column.type.value_type):
        return MemoryReader(column.to_pylist(), reading, title)
    if _document_kind(column.type) is None:
        raise UnreadableSource(
            f"{title} holds {brief(str(column.type))}; documents are texts, lists of tokens or lists of ids"
        )
    return ColumnReader(column, reading, title)


def _column_of(frame: Any, reading: Reading, title: str) -> Any:
    """A column of a Polars frame, of an Arrow table, or of a pandas frame, which may hold any objects."""
    library = library_of(frame)
    if library == "pandas":
        names, schema = [str(name) for name in frame.columns], None
        columns = [frame.iloc[:, index] for index in range(len(names))]
    else:
        table = frame if library == "pyarrow" else frame.to_arrow()
        names, schema, columns = table.schema.names, table.schema, table.columns
    name = reading.column
    if name is None:
        name = find_document_column(
            _guess_schema(names, columns) if schema is None else schema, reading, title
        )
    if names.count(name) != 1:
        number = "several columns" if name in names else "no column"
        present = ", ".join(map(brief, names[:NAMED_COLUMNS])) or "none"
        raise UnreadableSource(f"the frame has {number} called {name!r}; it has {present}")
    column = columns[names.index(name)]
    return _to_arrow(column) if library == "pandas" else column


def _guess_schema(names: list[str], columns: list[Any]) -> Any:
    """The Arrow types of pandas columns, by their first values; text, if they hold objects of any kind."""
    arrays = [_to_arrow(column.dropna().head(SAMPLE_ROWS)) for column in columns]
    types = [_arrow.string() if isinstance(array, list) else array.type for array in arrays]
    return _arrow.schema(list(zip(names, types, strict=True)))


def _to_arrow(series: Any) -> Any:
    """A column as an Arrow array; a list, if Arrow has no single type for its objects."""
    if hasattr(series, "to_arrow"):
        return series.to_arrow()
    try:
        return _arrow.array(series, from_pandas=True)
    except (_arrow.ArrowException, TypeError, ValueError):
        return series.tolist()
