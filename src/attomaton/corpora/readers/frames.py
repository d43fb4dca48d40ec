"""Frames and Series of pandas and Polars, and Arrow tables: each row is one document."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.corpora.budgets import shown
from attomaton.corpora.readers.batches import Batch, HeldReader, Reader, Reading
from attomaton.corpora.readers.columns import find_column, read_column
from attomaton.corpora.readers.files import naming
from attomaton.corpora.readers.memory import MemoryReader

_arrow: Any = pa
_types: Any = pa.types
FRAMES = ("DataFrame", "LazyFrame", "Series", "Index")
HEAD = 100
"""Rows of a pandas column that are looked at to see what it holds."""


@dataclass(frozen=True, eq=False)
class ColumnReader(HeldReader):
    """One column of Arrow, in memory."""

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
    """Whether this is a frame or Series of pandas or Polars, or a table or array of Arrow."""
    room, name = library_of(source), type(source).__name__
    return (room in ("pandas", "polars") and name in FRAMES) or isinstance(
        source, _arrow.Table | _arrow.RecordBatch | _arrow.Array | _arrow.ChunkedArray
    )


def read_frame(source: Any, reading: Reading) -> Reader:
    """The reader of a frame: of the column that is asked for, or the only one that fits."""
    room = library_of(source)
    if type(source).__name__ == "LazyFrame":
        raise UnreadableSource("the LazyFrame is not computed yet; give its .collect()")
    if hasattr(source, "columns"):
        called = f"the {room} frame"
        column = _pandas_column(source, reading, called) if room == "pandas" else _column(source, reading)
    else:
        called = f"the {room} column"
        if reading.column not in (None, getattr(source, "name", None)):
            raise UnsupportedOption(
                f"column is {shown(str(reading.column))!r}, and one column is given; leave it out"
            )
        column = source if room == "pyarrow" else _to_arrow(source)
    if isinstance(column, list):
        return MemoryReader(cast("list[Any]", column), reading, called)
    if isinstance(column, _arrow.Array):
        column = _arrow.chunked_array([column])
    return _read_column(column, reading, called, one=not hasattr(source, "columns"))


def _read_column(column: Any, reading: Reading, called: str, *, one: bool) -> Reader:
    kind = column.type
    if one and _types.is_integer(kind) and not column.null_count:
        return MemoryReader([column.to_numpy()], reading, called)  # one document, as an array of ids is
    lists = _types.is_list(kind) or _types.is_large_list(kind)
    if lists and not _types.is_integer(kind.value_type):
        return MemoryReader(column.to_pylist(), reading, called)
    try:
        find_column(_arrow.schema([("column", kind)]), Reading(column="column"), called)
    except UnreadableSource as error:
        raise UnreadableSource(
            f"{called} holds {shown(str(kind))}; documents are texts, lists of tokens or lists of ids"
        ) from error
    return ColumnReader(column, reading, called)


def _column(frame: Any, reading: Reading) -> Any:
    """A column of a Polars frame, or of an Arrow table."""
    table = frame if isinstance(frame, _arrow.Table | _arrow.RecordBatch) else frame.to_arrow()
    if reading.column is None:
        return table.column(find_column(table.schema, reading, "the frame"))
    fitting = [place for place, name in enumerate(table.schema.names) if name == reading.column]
    return table.column(_one_of(fitting, table.schema.names, reading.column))


def _pandas_column(frame: Any, reading: Reading, called: str) -> Any:
    """A column of a pandas frame, which may hold objects of any kind."""
    names = [str(name) for name in frame.columns]
    if reading.column is not None:
        fitting = [place for place, name in enumerate(names) if name == reading.column]
        return _to_arrow(frame.iloc[:, _one_of(fitting, names, reading.column)])
    fields: list[Any] = []
    for place, name in enumerate(names):
        column = _to_arrow(frame.iloc[:, place].dropna().head(HEAD))
        fields.append(_arrow.field(name, _arrow.string() if isinstance(column, list) else column.type))
    chosen = find_column(_arrow.schema(fields), reading, called)
    fitting = [place for place, name in enumerate(names) if name == chosen]
    return _to_arrow(frame.iloc[:, _one_of(fitting, names, chosen)])


def _one_of(places: list[int], names: list[str], asked: str) -> int:
    if len(places) != 1:
        number = "several columns" if places else "no column"
        present = ", ".join(map(shown, names[:20])) or "none"
        raise UnreadableSource(f"the frame has {number} called {asked!r}; it has {present}")
    return places[0]


def _to_arrow(series: Any) -> Any:
    """A column as Arrow; a list, if it holds objects that Arrow has no one type for."""
    if hasattr(series, "to_arrow"):
        return series.to_arrow()
    try:
        return _arrow.array(series, from_pandas=True)
    except (_arrow.ArrowException, TypeError, ValueError):
        return series.tolist()
