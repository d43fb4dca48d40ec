"""The documents of a record batch, one a row in the column ``tokens``, as checked arrays."""

from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.borders import trusted
from attomaton.base.errors import InvalidSamples, TokenOutOfRange, UnreadableSource
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.pieces import Piece

TOKENS = "tokens"
"""The column that holds a document."""


def piece_of(batch: pa.RecordBatch, n_tokens: int, *, place: str = "the batch", first_row: int = 0) -> Piece:
    """A batch's documents as arrays, checked; ``place`` and ``first_row`` say in errors where it is from."""
    offsets, values = flatten_lists(batch, place=place, first_row=first_row)
    if len(values) and (int(values.min()) < 0 or int(values.max()) >= n_tokens):
        at = int(np.flatnonzero((values < 0) | (values >= n_tokens))[0])
        row = int(np.searchsorted(offsets, at, side="right")) - 1
        raise TokenOutOfRange(
            f"token {values[at]} at position {at - offsets[row]} of document {first_row + row} of {place} is "
            f"not in 0 … {n_tokens - 1}; mend the ids, or give the vocabulary they belong to"
        )
    return trusted(Piece, ids=values, documents=offsets, head=0, n_tokens=n_tokens)


def flatten_lists(batch: pa.RecordBatch, *, place: str, first_row: int = 0) -> tuple[Int64, Int32]:
    """The column ``tokens`` as ``(offsets, values)``."""
    if TOKENS not in batch.schema.names:
        raise UnreadableSource(
            f"{place} has no column {TOKENS!r} (it has {', '.join(batch.schema.names)}); tokenise it first"
        )
    rows: Any = batch
    lists = rows.column(TOKENS)
    kind = lists.type
    lists_of_integers = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not lists_of_integers or not pa.types.is_integer(kind.value_type):
        raise UnreadableSource(
            f"{place}: column {TOKENS!r} is {kind}, not a list of integers; tokenise it first"
        )
    if lists.null_count:
        row = lists.is_null().to_pylist().index(True)
        raise UnreadableSource(
            f"document {first_row + row} of {place} is null; drop it, or write an empty list"
        )
    offsets: Int64 = lists.offsets.to_numpy().astype(np.int64)
    flat = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    if flat.null_count:
        at: int = int(offsets[0]) + flat.is_null().to_pylist().index(True)
        row = int(np.searchsorted(offsets, at, side="right")) - 1
        raise InvalidSamples(f"document {first_row + row} of {place} holds a null token; mend it")
    values: Any = flat.to_numpy()
    if values.dtype != np.int32:
        values = _as_int32(values, place)
    return offsets - offsets[0], values


def _as_int32(values: Any, place: str) -> Int32:
    wide = np.clip(values, -1, np.iinfo(np.int32).max)
    if len(values) and not np.array_equal(wide, values):
        worst = values[np.flatnonzero(wide != values)[0]]
        raise TokenOutOfRange(f"token {worst} in {place} is not a 32-bit token id; renumber the ids")
    return wide.astype(np.int32)
