"""Read the documents in a column of a table: which column to read, and how to cut it into batches.

A reader calls :func:`find_document_column` with the schema, and then :func:`documents_of_column` with each
array of the column, which may come from a damaged file. An array is cut into pieces of ``PIECE_ROWS`` rows,
and a piece into batches.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from attomaton.base.errors import AttomatonError, UnreadableSource
from attomaton.base.tables import Int64, Integers, arrow_compute
from attomaton.corpora.budgets import PIECE_ROWS, brief, list_columns
from attomaton.corpora.readers import batches
from attomaton.corpora.readers.batches import TEXT_BATCH_BYTES, Batch, Reading, Skips, TextBatch, TokenBatch
from attomaton.corpora.token_files import read_lists

COLUMN_NAMES = ("text", "content", "tokens", "input_ids", "ids")  # read by default, if there is one of them
ID_BYTES = 4  # of a token id in memory
SPLIT_DOCUMENT = "split the document"

_arrow: Any = pa
_types: Any = pa.types


def find_document_column(schema: Any, reading: Reading, source: str) -> str:
    """The name of the column to read; if it is not clear which, the error lists the columns."""
    kinds = {field.name: document_kind(field.type) for field in schema}
    present = list_columns([f"{field.name}: {field.type}" for field in schema])
    name = reading.column
    if name is None:
        usable = [name for name, kind in kinds.items() if kind is not None]
        candidates = [name for name in usable if name in COLUMN_NAMES] or usable
        if not candidates:
            raise UnreadableSource(
                f"{source} has no column of text or of lists of integers, only {present}; add such a column"
            )
        if len(candidates) > 1:
            several = list_columns(candidates)
            raise UnreadableSource(f"{source} has several columns to read ({several}); choose one by column")
        return candidates[0]
    if name not in kinds:
        raise UnreadableSource(f"{source} has no column {name!r}; choose one of {present}")
    if kinds[name] is None:
        arrow_type = next(field.type for field in schema if field.name == name)
        raise UnreadableSource(
            f"{source}, column {brief(name)!r}, is {brief(str(arrow_type))}, not text or flat lists of "
            "integers; choose another column"
        )
    return name


def document_kind(arrow_type: Any) -> Literal["text", "ids"] | None:
    """Whether a column of this type contains text or ids; None for any other type."""
    if _types.is_dictionary(arrow_type):
        return "text" if document_kind(arrow_type.value_type) == "text" else None
    is_text = (_types.is_string, _types.is_large_string, _types.is_string_view)
    if any(test(arrow_type) for test in is_text):
        return "text"
    is_fixed = _types.is_fixed_size_list(arrow_type) and arrow_type.list_size > 0
    is_list = _types.is_list(arrow_type) or _types.is_large_list(arrow_type) or is_fixed
    return "ids" if is_list and _types.is_integer(arrow_type.value_type) else None


def documents_of_column(array: Any, first_row: int, source: str, reading: Reading) -> Iterator[Batch]:
    """Yield the documents of an Arrow array in batches of about ``TEXT_BATCH_BYTES``."""
    _check_buffers(array)
    is_text = document_kind(array.type) == "text"
    skips = Skips(reading)
    for offset in range(0, len(array), PIECE_ROWS):
        piece = array.slice(offset, PIECE_ROWS)
        sizes = _row_sizes(piece)
        for start, stop in pairwise(_cut_rows(sizes)):
            batch = piece.slice(start, stop - start)
            rows = first_row + offset + np.arange(start, stop, dtype=np.int64)  # their numbers in the source
            if is_text:
                yield _text_batch(batch, rows, sizes[start:stop], source, reading, skips)
            else:
                yield _token_batch(batch, rows, source, reading, skips)


# Refuses an array from a damaged file, which may point outside its buffers. Text that is not UTF-8 passes,
# because the error for it must name the row: for this check it is viewed as bytes.
def _check_buffers(array: Any) -> None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        binary = {"string": _arrow.binary(), "large_string": _arrow.large_binary()}.get(str(array.type))
        if binary is None:
            raise
        array.view(binary).validate(full=True)


# The bytes of each row after unpacking; in the array, rows may share their bytes.
def _row_sizes(array: Any) -> Int64:
    if _types.is_dictionary(array.type):
        # a row is an index into the dictionary; null rows get the index after the last entry, and the size 0
        value_sizes = np.append(_row_sizes(array.dictionary), 0)
        null = len(value_sizes) - 1
        indices = array.indices.fill_null(null) if array.null_count else array.indices
        return value_sizes[np.minimum(indices.to_numpy(zero_copy_only=False).astype(np.int64), null)]
    if _types.is_string_view(array.type):
        # a view has 16 bytes, four int32, of which the first is the length; Arrow has no kernel for it
        lengths: Int64 = np.frombuffer(array.buffers()[1] or b"", np.int32)[::4].astype(np.int64)
        return lengths[array.offset : array.offset + len(array)]
    if document_kind(array.type) == "text":
        n_bytes = arrow_compute().binary_length(array).fill_null(0)
        return n_bytes.to_numpy(zero_copy_only=False).astype(np.int64)
    return ID_BYTES * _list_lengths(array)


def _list_lengths(array: Any) -> Int64:  # 0 for a null list
    lengths = arrow_compute().list_value_length(array).fill_null(0)
    return lengths.to_numpy(zero_copy_only=False).astype(np.int64)


# Where batches of rows of these sizes begin and end: each has at most TEXT_BATCH_BYTES, or one row.
def _cut_rows(sizes: Int64) -> list[int]:
    ends = np.cumsum(sizes)
    cuts = [0]
    while cuts[-1] < len(sizes):
        bytes_before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        fitting = int(np.searchsorted(ends, bytes_before + TEXT_BATCH_BYTES, side="right"))
        cuts.append(max(fitting, cuts[-1] + 1))
    return cuts


# The texts of an array, whose rows have these numbers and sizes in bytes. If possible, all are converted at
# once; otherwise one by one, so that the error names the row.
def _text_batch(
    array: Any, rows: Int64, sizes: Int64, source: str, reading: Reading, skips: Skips
) -> TextBatch:
    values: Any = array
    if int(sizes.max(initial=0)) <= reading.max_bytes:
        with suppress(UnicodeDecodeError):
            values = array.to_pylist()

    def read(value: Any, row: int, size: int) -> str:
        location = f"{source}, row {row},"
        if size > reading.max_bytes:
            raise batches.too_long(location, reading, advice=SPLIT_DOCUMENT)
        try:
            text = value.as_py() if values is array else value
        except UnicodeDecodeError as error:
            raise UnreadableSource(
                f"{location} is not UTF-8 text (byte {error.start}: {error.reason}); convert it first"
            ) from error
        if text is None:
            raise UnreadableSource(f"{location} is null, not text; drop the row")
        return batches.checked_text(text, location)

    numbered = zip(values, rows.tolist(), sizes.tolist(), strict=True)
    results = ((row, batches.attempt(read, value, row, size)) for value, row, size in numbered)
    good = list(skips.filter(results))
    return TextBatch([text for _, text in good], np.array([row for row, _ in good], np.int64), skips.take())


# The same for lists of ids, which are checked at once, or list by list if one of them is wrong.
def _token_batch(array: Any, rows: Int64, source: str, reading: Reading, skips: Skips) -> TokenBatch:
    lengths = _list_lengths(array)
    if ID_BYTES * int(lengths.max(initial=0)) <= reading.max_bytes:
        with suppress(AttomatonError):  # the bad row is reported below
            return TokenBatch(*read_lists(array, reading.n_tokens, source, 0), rows, skips.take())

    def read(index: int, row: int) -> Integers:
        if ID_BYTES * lengths[index] > reading.max_bytes:
            raise batches.too_long(f"{source}, row {row},", reading, advice=SPLIT_DOCUMENT)
        return read_lists(array.slice(index, 1), reading.n_tokens, source, row)[1]

    results = ((row, batches.attempt(read, index, row)) for index, row in enumerate(rows.tolist()))
    good = list(skips.filter(results))
    return batches.token_batch([ids for _, ids in good], [row for row, _ in good], skips)
