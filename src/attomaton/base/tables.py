"""Convert between Arrow tables and typed NumPy columns, and read and write Parquet.

Rows of unequal length are a pair (offsets, values): row i has ``values[offsets[i]:offsets[i + 1]]``.
Functions of Arrow are typed as Any here, because its stubs leave them partly unknown.
"""

from collections.abc import Mapping, Sequence
from os import PathLike, fsencode
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attomaton.base.errors import needing

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]
Integers = NDArray[np.integer[Any]]

_arrow: Any = pa


def make_table(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    """An Arrow table from NumPy columns, without copies if types agree; lists are (offsets, values)."""
    arrays = [_array(columns[field.name], field.type) for field in cast("Any", schema)]
    return _arrow.Table.from_arrays(arrays, schema=schema)


def table_of(columns: Mapping[str, Any]) -> pa.Table:
    return _arrow.table(dict(columns))


def column_of(numbers: Any, missing: Bool | None = None) -> Any:
    """An Arrow column of int64 or float64 numbers, null where ``missing``."""
    arrow_type: Any = pa.int64() if numbers.dtype.kind == "i" else pa.float64()
    # Arrow marks values that are not null, with one bit each, the lowest bit of a byte first
    valid = None if missing is None else _arrow.py_buffer(np.packbits(~missing, bitorder="little"))
    values = np.ascontiguousarray(numbers, _NUMPY[str(arrow_type)])
    return _arrow.Array.from_buffers(arrow_type, len(values), [valid, _arrow.py_buffer(values)])


def text_column(texts: Sequence[str]) -> Any:
    """An Arrow column of texts; ``pyarrow.array`` would import pandas first, which takes 0.5 s."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return _arrow.StringArray.from_buffers(
        len(encoded), _arrow.py_buffer(offsets), _arrow.py_buffer(b"".join(encoded))
    )


def column(table: pa.Table, name: str) -> NDArray[Any]:
    """A numeric column as a numpy array (without a copy if the table is in one chunk)."""
    chunks: Any = table.column(name)
    return numbers_of(chunks.chunk(0) if chunks.num_chunks == 1 else join_chunks(chunks))


def ragged_column(table: pa.Table, name: str) -> tuple[Int64, NDArray[Any]]:
    """A list column as ``(offsets, values)``: row ``i`` is ``values[offsets[i]:offsets[i + 1]]``."""
    lists = join_chunks(table.column(name))
    offsets = numbers_of(lists.offsets).astype(np.int64)  # into all values, of which a slice has some
    return offsets - offsets[0], numbers_of(lists.values)[offsets[0] : offsets[-1]]


def empty_table(schema: Any) -> pa.Table:
    """A table without rows; Arrow's ``empty_table`` would import pandas first, which takes 0.5 s."""
    return _arrow.table([_arrow.nulls(0, field.type) for field in schema], schema=schema)


def keep_rows(table: pa.Table, mask: Bool) -> pa.Table:
    return table.filter(_arrow.array(mask))


def take_rows(table: pa.Table, rows: Int64) -> pa.Table:
    # consecutive rows are a slice, which copies nothing
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and (np.diff(rows) == 1).all():
        return table.slice(int(rows[0]), len(rows))
    return table.take(_array(rows, pa.int64()))


def number_strings(words: Sequence[str]) -> tuple[tuple[str, ...], Int32]:
    """The distinct strings in order of first appearance, and the index of each word among them."""
    distinct = tuple(dict.fromkeys(words))
    "".join(distinct).encode()  # a lone surrogate is not text, and is refused here
    index_of = {word: index for index, word in enumerate(distinct)}
    return distinct, np.fromiter(map(index_of.__getitem__, words), np.int32, len(words))


def sum_equal_rows(offsets: Int64, words: Int32, count: Int64) -> tuple[Int64, Int32, Int64]:
    """The distinct rows of ragged rows of non-negative integers, sorted, with their counts summed."""
    keys = rows_to_bytes(offsets, words)
    grouped = _arrow.table({"row": keys, "count": count}).group_by("row").aggregate([("count", "sum")])
    ordered = grouped.sort_by("row")
    return (*bytes_to_rows(ordered.column("row")), column(ordered, "count_sum"))


def rows_to_bytes(offsets: Int64, words: Int32) -> Any:
    """Ragged rows of non-negative integers as an Arrow array of byte strings, which sort as rows do."""
    # an integer becomes four bytes, the highest first, so that strings compare as their integers do
    blob = words.astype(">i4")
    buffers = [None, _arrow.py_buffer(4 * offsets), _arrow.py_buffer(blob)]
    return _arrow.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def bytes_to_rows(strings: Any) -> tuple[Int64, Int32]:
    """The inverse of :func:`rows_to_bytes`: the rows as ``(offsets, values)``."""
    rows = join_chunks(strings)
    _, offsets, content = rows.buffers()  # None if there are no rows; 8 zero bytes are the only offset, 0
    borders: Int64 = np.frombuffer(offsets or bytes(8), np.int64)[rows.offset : rows.offset + len(rows) + 1]
    values = np.frombuffer(content or b"", ">i4")[borders[0] // 4 : borders[-1] // 4]
    return (borders - borders[0]) // 4, values.astype(np.int32)


def write_parquet(table: pa.Table, path: str | PathLike[str]) -> None:
    with exact_file(path, "wb") as sink:
        arrow_parquet().write_table(table, sink, compression="zstd")


def exact_file(path: str | PathLike[str], mode: str = "rb") -> Any:
    """Open a file of exactly this name for Arrow, which would read ``s3:/x`` as a URL."""
    return _arrow.OSFile(fsencode(path), mode)


def read_parquet(blob: bytes) -> pa.Table:
    """The table in a Parquet file, read without threads: those of Arrow may abort the interpreter at exit."""
    return arrow_parquet().ParquetFile(_arrow.BufferReader(blob), pre_buffer=False).read(use_threads=False)


def arrow_parquet() -> Any:
    """The Parquet module of Arrow, loaded on demand: it is a tenth of the start-up time."""
    import pyarrow.parquet

    return pyarrow.parquet


def arrow_compute() -> Any:
    import pyarrow.compute

    return pyarrow.compute


def join_chunks(chunked: Any) -> Any:
    """The chunks of a column as one array, without empty chunks, whose offsets Arrow never checks."""
    filled = [chunk for chunk in chunked.chunks if len(chunk)]
    if len(filled) == 1:  # Arrow would copy it
        return filled[0]
    return _arrow.concat_arrays(filled or [_arrow.nulls(0, chunked.type)])


# Arrow's name of a type → NumPy's type; `pyarrow.array` would import pandas first.
_NUMPY = {"int32": np.dtype(np.int32), "int64": np.dtype(np.int64), "double": np.dtype(np.float64)}


# Values as an Arrow array of this type, a pair (offsets, values) as lists. Numbers whose type agrees are not
# copied: the array uses their memory.
def _array(values: Any, arrow_type: Any) -> Any:
    if isinstance(values, tuple):
        offsets, numbers = cast("tuple[Any, Any]", values)
        borders = _array(offsets, pa.int64())
        return _arrow.LargeListArray.from_arrays(borders, _array(numbers, arrow_type.value_type))
    dtype = _NUMPY.get(str(arrow_type))
    flat = cast("NDArray[Any] | None", values if isinstance(values, np.ndarray) else None)
    if dtype is None or flat is None or flat.ndim != 1 or flat.dtype != dtype:
        return _arrow.array(values, arrow_type)
    buffer = _arrow.py_buffer(np.ascontiguousarray(flat))
    return _arrow.Array.from_buffers(arrow_type, len(flat), [None, buffer], 0)  # None: no value is null


def numbers_of(array: Any) -> NDArray[Any]:
    """An Arrow array of numbers as a read-only numpy array, copied only if it is not aligned."""
    dtype = _NUMPY.get(str(array.type))
    if dtype is None or array.null_count or not len(array):
        return array.to_numpy(zero_copy_only=False)
    numbers = np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)
    numbers = np.require(numbers, requirements="A")  # Arrow takes buffers that begin anywhere
    numbers.flags.writeable = False
    return numbers


def to_pandas(table: pa.Table) -> Any:
    with needing("to_pandas"):
        import pandas as pd  # noqa: F401  # pyright: ignore
    return cast("Any", table).to_pandas()


def to_polars(table: pa.Table) -> Any:
    with needing("to_polars"):
        import polars as pl  # pyright: ignore
    return cast("Any", pl).from_arrow(table)
