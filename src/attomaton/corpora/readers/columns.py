"""One column of Arrow tables as documents: text, or lists of token ids."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.errors import AttomatonError, UnreadableSource
from attomaton.base.tables import Int64, Integers, arrow_compute
from attomaton.corpora.budgets import PIECE_ROWS, shown
from attomaton.corpora.readers.batches import (
    BATCH_BYTES,
    Batch,
    Reading,
    Skips,
    TextBatch,
    TokenBatch,
    bad_id,
    checked_text,
    token_batch,
    too_long,
)

_arrow: Any = pa
_types: Any = pa.types
NAMES = ("text", "content", "tokens", "input_ids", "ids")
"""Columns that are taken without being named, if only one of them is there."""
ADVICE = "split the document"
FIELDS = 20
"""Columns that an error lists."""


def find_column(schema: Any, reading: Reading, source: str) -> str:
    """The name of the column to read; an error lists the columns if it is not clear which."""
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
        raise UnreadableSource(
            f"{source}, column {shown(chosen)!r}, is {shown(str(_type_of(schema, chosen)))}; documents are "
            "text, or lists of integers that are not nested further: name another column"
        )
    return chosen


def read_column(array: Any, first_row: int, source: str, reading: Reading) -> Iterator[Batch]:
    """The documents of one array, in pieces of about ``BATCH_BYTES`` or one document."""
    _validate(array)
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
    """The bytes of each row once it is unpacked; rows can share theirs, so the array may have fewer."""
    kind = array.type
    if _types.is_dictionary(kind):
        of_value = np.append(_sizes(array.dictionary), 0)  # the last for rows that are null
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


def _validate(array: Any) -> None:
    """Raise if an array points outside its buffers, as one from a damaged file may; not for bad UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        same = {"string": _arrow.binary(), "large_string": _arrow.large_binary()}.get(str(array.type))
        if same is None:
            raise
        array.view(same).validate(full=True)


def _type_of(schema: Any, name: str) -> Any:
    return next(field.type for field in schema if field.name == name)


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
    kept: list[int] = []
    held = _values(array) if int(sizes.max(initial=0)) <= reading.max_bytes else array
    for row, size, one in zip(rows.tolist(), sizes.tolist(), held, strict=True):
        place = f"{source}, row {row},"
        try:
            if size > reading.max_bytes:
                raise too_long(place, reading, advice=ADVICE)
            value = one if held is not array else _value(one)
            texts.append(_text(value, place))
        except UnreadableSource as error:
            skips.add(error)
        else:
            kept.append(row)
    return TextBatch(texts, np.array(kept, np.int64), skips.take())


def _values(array: Any) -> list[str | UnicodeDecodeError | None]:
    try:
        return array.to_pylist()
    except UnicodeDecodeError:
        return [_value(scalar) for scalar in array]


def _value(scalar: Any) -> str | UnicodeDecodeError | None:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return error


def _text(value: str | UnicodeDecodeError | None, place: str) -> str:
    if value is None:
        raise UnreadableSource(f"{place} is null, not text; drop the row")
    if isinstance(value, UnicodeDecodeError):
        raise UnreadableSource(
            f"{place} is not UTF-8 text (byte {value.start}: {value.reason}); convert it to UTF-8 first"
        ) from value
    return checked_text(value, place)


def _tokens(array: Any, rows: Int64, source: str, reading: Reading, skips: Skips) -> TokenBatch:
    """Lists of ids; the common case, in which nothing is wrong, looks at all of them at once."""
    flat: Any = array.flatten()
    lengths: Int64 = arrow_compute().list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    if not array.null_count and not flat.null_count and 4 * int(lengths.max(initial=0)) <= reading.max_bytes:
        ids = flat.to_numpy(zero_copy_only=False)
        if bad_id(ids, source, reading.n_tokens) is None:
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
            return TokenBatch(offsets, ids.astype(np.int32), rows, skips.take())
    lists: list[Integers] = []
    kept: list[int] = []
    for row, scalar in zip(rows.tolist(), array, strict=True):
        try:
            lists.append(_ids(scalar, f"{source}, row {row}", reading))
        except AttomatonError as error:
            skips.add(error)
        else:
            kept.append(row)
    return token_batch(lists, kept, skips)


def _ids(scalar: Any, place: str, reading: Reading) -> Integers:
    if not scalar.is_valid:
        raise UnreadableSource(f"{place}, is null, not a list of ids; drop the row")
    values = scalar.values
    if values.null_count:
        raise UnreadableSource(f"{place}, has a null among its ids; drop the row or mend it")
    if 4 * len(values) > reading.max_bytes:
        raise too_long(f"{place},", reading, advice=ADVICE)
    ids: Integers = values.to_numpy(zero_copy_only=False)
    error = bad_id(ids, place, reading.n_tokens)
    if error is not None:
        raise error
    return ids
