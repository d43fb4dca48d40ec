"""Columns of tables as documents, one per row: Parquet and Arrow files, datasets, frames in memory."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from attomaton.base.errors import AttomatonError, UnreadableSource, UnsupportedOption
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int64, Integers, arrow_compute
from attomaton.corpora.budgets import CONTAINER, FOOTER, PIECE_ROWS, UNPACKED, shown, unpacked_most
from attomaton.corpora.readers.batches import (
    BATCH_BYTES,
    Batch,
    HeldReader,
    Reader,
    Reading,
    Skips,
    TextBatch,
    TokenBatch,
    bad_id,
    checked_text,
    token_batch,
    too_long,
)
from attomaton.corpora.readers.files import FileReader, TableReader, naming
from attomaton.corpora.readers.records import MemoryReader

_arrow: Any = pa
_types: Any = pa.types
NAMES = ("text", "content", "tokens", "input_ids", "ids")
"""Columns used by default, if exactly one of them is present."""
ADVICE = "split the document"
FIELDS = 20  # columns that an error message lists


def find_column(schema: Any, reading: Reading, source: str) -> str:
    """The name of the column to read; an error lists the columns if the choice is ambiguous."""
    kinds = {field.name: _kind(field.type) for field in schema}
    present = ", ".join(shown(f"{field.name}: {field.type}") for field in list(schema)[:FIELDS]) or "none"
    present += f" and {len(kinds) - FIELDS:,} more" if len(kinds) > FIELDS else ""
    if reading.column is not None:
        if reading.column not in kinds:
            raise UnreadableSource(f"{source} has no column {reading.column!r}; it has {present}")
        chosen = reading.column
    else:
        usable = [name for name, kind in kinds.items() if kind is not None]
        named = [name for name in usable if name in NAMES] or usable
        if not named:
            raise UnreadableSource(
                f"{source} has no column of text or of lists of integers (it has {present}); write one"
            )
        if len(named) > 1:
            several = ", ".join(map(shown, named[:FIELDS]))
            raise UnreadableSource(f"{source} has several columns to read ({several}); name one with column")
        chosen = named[0]
    if kinds[chosen] is None:
        kind = next(field.type for field in schema if field.name == chosen)
        raise UnreadableSource(
            f"{source}, column {shown(chosen)!r}, is {shown(str(kind))}; documents must be "
            "text, or flat lists of integers: name another column"
        )
    return chosen


def read_column(array: Any, first_row: int, source: str, reading: Reading) -> Iterator[Batch]:
    """The documents of one array, in pieces of about ``BATCH_BYTES`` or one document."""
    try:  # an array from a damaged file may point outside its buffers
        array.validate(full=True)
    except pa.ArrowInvalid:
        same = {"string": _arrow.binary(), "large_string": _arrow.large_binary()}.get(str(array.type))
        if same is None:
            raise
        array.view(same).validate(full=True)  # bad UTF-8 is reported below
    texts = _kind(array.type) == "text"
    skips = Skips(reading)
    for first in range(0, len(array), PIECE_ROWS):
        rows = array.slice(first, PIECE_ROWS)
        sizes = _sizes(rows)
        for start, stop in pairwise(_cuts(sizes)):
            piece = rows.slice(start, stop - start)
            numbers = first_row + first + np.arange(start, stop, dtype=np.int64)
            if texts:
                yield _texts(piece, numbers, sizes[start:stop], source, reading, skips)
            else:
                yield _tokens(piece, numbers, source, reading, skips)


def _sizes(array: Any) -> Int64:
    """The unpacked bytes of each row; rows can share memory, so the array itself may be smaller."""
    kind = array.type
    if _types.is_dictionary(kind):
        of_value = np.append(_sizes(array.dictionary), 0)  # the last entry is for null rows
        places = array.indices.fill_null(len(of_value) - 1) if array.null_count else array.indices
        return of_value[np.minimum(places.to_numpy(zero_copy_only=False).astype(np.int64), len(of_value) - 1)]
    if _types.is_string_view(kind):
        views: Int64 = np.frombuffer(array.buffers()[1] or b"", np.int32)[::4].astype(np.int64)
        return views[array.offset : array.offset + len(array)]
    if _kind(kind) == "text":
        bytes_of = arrow_compute().binary_length(array).fill_null(0)
        return bytes_of.to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = arrow_compute().list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    return 4 * lengths.astype(np.int64)


def _cuts(sizes: Int64) -> list[int]:
    """Where to cut rows of these sizes into pieces: 0, …, the number of rows."""
    ends = np.cumsum(sizes)
    cuts = [0]
    while cuts[-1] < len(sizes):
        before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        fitting = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        cuts.append(max(fitting, cuts[-1] + 1))
    return cuts


def _kind(kind: Any) -> str | None:
    if _types.is_dictionary(kind):
        return "text" if _kind(kind.value_type) == "text" else None
    if _types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind):
        return "text"
    fixed = _types.is_fixed_size_list(kind) and kind.list_size > 0
    lists = _types.is_list(kind) or _types.is_large_list(kind) or fixed
    return "ids" if lists and _types.is_integer(kind.value_type) else None


def _texts(array: Any, rows: Int64, sizes: Int64, source: str, reading: Reading, skips: Skips) -> TextBatch:
    texts: list[str] = []
    good: list[int] = []
    values: Any = array
    if int(sizes.max(initial=0)) <= reading.max_bytes:
        with suppress(UnicodeDecodeError):  # the bad row is reported below
            values = array.to_pylist()
    for row, size, value in zip(rows.tolist(), sizes.tolist(), values, strict=True):
        place = f"{source}, row {row},"
        try:
            if size > reading.max_bytes:
                raise too_long(place, reading, advice=ADVICE)
            text = value.as_py() if values is array else value
            if text is None:
                raise UnreadableSource(f"{place} is null, not text; drop the row")
            texts.append(checked_text(text, place))
        except UnicodeDecodeError as error:
            reason = f"{place} is not UTF-8 text (byte {error.start}: {error.reason})"
            skips.add(UnreadableSource(f"{reason}; convert it to UTF-8 first"))
        except UnreadableSource as error:
            skips.add(error)
        else:
            good.append(row)
    return TextBatch(texts, np.array(good, np.int64), skips.take())


def _tokens(array: Any, rows: Int64, source: str, reading: Reading, skips: Skips) -> TokenBatch:
    """Lists of ids; the common case without errors checks all of them at once."""
    flat: Any = array.flatten()
    lengths: Int64 = arrow_compute().list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    if not array.null_count and not flat.null_count and 4 * int(lengths.max(initial=0)) <= reading.max_bytes:
        ids = flat.to_numpy(zero_copy_only=False)
        if bad_id(ids, source, reading.n_tokens) is None:
            return TokenBatch(offsets_of(lengths), ids.astype(np.int32), rows, skips.take())
    lists: list[Integers] = []
    good: list[int] = []
    for row, scalar in zip(rows.tolist(), array, strict=True):
        place = f"{source}, row {row}"
        error: AttomatonError | None = None
        if not scalar.is_valid:
            error = UnreadableSource(f"{place}, is null, not a list of ids; drop the row")
        elif scalar.values.null_count:
            error = UnreadableSource(f"{place}, has a null among its ids; drop or correct the row")
        elif 4 * len(scalar.values) > reading.max_bytes:
            error = too_long(f"{place},", reading, advice=ADVICE)
        else:
            lists.append(scalar.values.to_numpy(zero_copy_only=False))
            error = bad_id(lists[-1], place, reading.n_tokens)
            if error is None:
                good.append(row)
                continue
            lists.pop()
        skips.add(error)
    return token_batch(lists, good, skips)


MAGIC = b"ARROW1"
ROWS = 1000  # rows read at once by default


def open_parquet(file: BinaryIO) -> Any:
    """A Parquet file; a footer with strings or lists longer than the file could hold is refused."""
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
        """All rows, unless the file declares too large a size."""
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
        """How many rows to read together, from the size that the file declares for the group; at least one.

        Arrow's column metadata is not used: with a damaged footer that would crash the process.
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
    """The schema and the batches, restricted to ``fields`` if given."""
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


FRAMES = ("DataFrame", "LazyFrame", "Series", "Index")
HEAD = 100  # rows of a pandas column inspected to find its type


@dataclass(frozen=True, eq=False)
class ColumnReader(HeldReader):
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
                yield from read_column(chunk, row, self.source, self.reading)
                row += len(chunk)


def library_of(value: object) -> str:
    """The package that the type of a value comes from."""
    return type(value).__module__.partition(".")[0]


def is_frame(source: Any) -> bool:
    """Whether this is a pandas or Polars frame or Series, or an Arrow table or array."""
    room, name = library_of(source), type(source).__name__
    return (room in ("pandas", "polars") and name in FRAMES) or isinstance(
        source, _arrow.Table | _arrow.RecordBatch | _arrow.Array | _arrow.ChunkedArray
    )


def read_frame(source: Any, reading: Reading) -> Reader:
    """The reader of a frame: of the selected column, or of the only suitable one."""
    room = library_of(source)
    if type(source).__name__ == "LazyFrame":
        raise UnreadableSource("the LazyFrame is not computed yet; give its .collect()")
    if hasattr(source, "columns"):
        called = f"the {room} frame"
        column = _column_of(source, reading, called)
    else:
        called = f"the {room} column"
        if reading.column not in (None, getattr(source, "name", None)):
            raise UnsupportedOption(
                f"column is {shown(str(reading.column))!r}, but the source is a single column; leave it out"
            )
        column = source if room == "pyarrow" else _to_arrow(source)
    if isinstance(column, list):
        return MemoryReader(cast("list[Any]", column), reading, called)
    if isinstance(column, _arrow.Array):
        column = _arrow.chunked_array([column])
    kind = column.type
    if not hasattr(source, "columns") and _types.is_integer(kind) and not column.null_count:
        return MemoryReader([column.to_numpy()], reading, called)  # one document, like an array of ids
    lists = _types.is_list(kind) or _types.is_large_list(kind)
    if lists and not _types.is_integer(kind.value_type):
        return MemoryReader(column.to_pylist(), reading, called)
    try:
        find_column(_arrow.schema([("column", kind)]), Reading(column="column"), called)
    except UnreadableSource as error:
        raise UnreadableSource(
            f"{called} holds {shown(str(kind))}; documents must be texts, lists of tokens or lists of ids"
        ) from error
    return ColumnReader(column, reading, called)


def _column_of(frame: Any, reading: Reading, called: str) -> Any:
    """A column of a Polars frame, of an Arrow table, or of a pandas frame, which may hold any objects."""
    pandas = library_of(frame) == "pandas"
    table = frame if pandas or library_of(frame) == "pyarrow" else frame.to_arrow()
    names = [str(name) for name in frame.columns] if pandas else table.schema.names
    chosen = reading.column
    if chosen is None and not pandas:
        chosen = find_column(table.schema, reading, "the frame")
    elif chosen is None:
        fields: list[Any] = []
        for place, name in enumerate(names):
            column = _to_arrow(frame.iloc[:, place].dropna().head(HEAD))
            fields.append(_arrow.field(name, _arrow.string() if isinstance(column, list) else column.type))
        chosen = find_column(_arrow.schema(fields), reading, called)
    if names.count(chosen) != 1:
        number = "several columns" if chosen in names else "no column"
        present = ", ".join(map(shown, names[:FIELDS])) or "none"
        raise UnreadableSource(f"the frame has {number} called {chosen!r}; it has {present}")
    place = names.index(chosen)
    return _to_arrow(frame.iloc[:, place]) if pandas else table.column(place)


def _to_arrow(series: Any) -> Any:
    """A column as an Arrow array; a list, if Arrow has no single type for its objects."""
    if hasattr(series, "to_arrow"):
        return series.to_arrow()
    try:
        return _arrow.array(series, from_pandas=True)
    except (_arrow.ArrowException, TypeError, ValueError):
        return series.tolist()
