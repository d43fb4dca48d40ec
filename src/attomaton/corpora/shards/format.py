"""One shard: a Parquet file with one document a row, as it is written, checked and read.

Any file with a column ``tokens`` of integer lists is a shard. Those that ``tokenize_corpus`` writes also say
where each document came from.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import write_file
from attomaton.base.borders import trusted
from attomaton.base.errors import AttomatonError, InvalidSamples, TokenOutOfRange, UnreadableSource
from attomaton.base.remote import Place, RemotePath
from attomaton.base.tables import Int32, Int64, arrow_parquet, exact_file, make_table, write_parquet
from attomaton.corpora.documents import Piece

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


_arrow: Any = pa
ROWS_AT_ONCE = 1 << 14
"""Rows that are read together, at most."""
FOOTER = 1 << 16
"""Bytes that are read ahead of a shard behind a URL: what Arrow reads at the end of a file at first."""
GROUP_TOKENS = 1 << 20
"""Number of tokens at which a row group is closed."""
SHARD_SCHEMA: pa.Schema = _arrow.schema(
    [
        _arrow.field(TOKENS, _arrow.list_(_arrow.int32()), nullable=False),
        _arrow.field("source", _arrow.string(), nullable=False),
        _arrow.field("row", _arrow.int64(), nullable=False),
    ]
)
"""Token ids of a document, the file it came from, and where it stood there."""
IDS_SCHEMA = pa.schema([(TOKENS, pa.large_list(pa.int32()))])
"""Token ids alone, of documents that were in memory."""


def read_batches(path: Place, size: int, groups: range | None = None) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The record batches of a shard, or of these row groups of it, with their first row from there on.

    Each has about ``size`` tokens, or fewer rows.
    """
    file = _open_shard(path)
    n_rows, n_values = _groups_of(file).sum(axis=0).tolist()
    rows_at_once = min(ROWS_AT_ONCE, max(1, size // max(1, n_values // max(1, n_rows))))
    row = 0
    chosen = None if groups is None else list(groups)
    reader = file.iter_batches(rows_at_once, chosen, columns=[TOKENS], use_threads=False)
    while (batch := _reading(path, lambda: next(reader, None))) is not None:
        yield batch, row
        row += batch.num_rows


def count_groups(path: Place) -> Int64:
    """Rows and tokens of each row group of a shard, shape (n_groups, 2), from its footer."""
    with _open_shard(path) as file:
        return _groups_of(file)


def _groups_of(file: Any) -> Int64:
    footer: Any = file.metadata
    counted = np.zeros((footer.num_row_groups, 2), np.int64)
    for number in range(len(counted)):
        group = footer.row_group(number)
        columns = (group.column(place) for place in range(footer.num_columns))
        values = sum(one.num_values for one in columns if one.path_in_schema.split(".")[0] == TOKENS)
        counted[number] = group.num_rows, values
    return counted


def has_tokens(path: Place) -> bool:
    """Whether a Parquet file has the column of a shard."""
    return TOKENS in _open_parquet(path).schema_arrow.names


def _open_parquet(path: Place) -> Any:
    return _reading(path, lambda: arrow_parquet().ParquetFile(_open_file(path), pre_buffer=False))


def _open_file(path: Place) -> Any:
    if isinstance(path, RemotePath):
        return _arrow.PythonFile(path.open("rb", ahead=FOOTER), "r")
    return exact_file(path)


def _open_shard(path: Place) -> Any:
    file = _open_parquet(path)
    if TOKENS not in file.schema_arrow.names:
        names = ", ".join(file.schema_arrow.names)
        raise UnreadableSource(f"{path} has no column {TOKENS!r} (it has {names}); tokenise it first")
    return file


def _reading(path: Place, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except AttomatonError:
        raise  # of a store
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise UnreadableSource(
            f"{path} cannot be read as Parquet ({reason}); write it again, or leave it out"
        ) from error


def write_documents(path: Path, ids: Int32, offsets: Int64) -> None:
    """Write documents in memory as one shard; document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``."""
    table = make_table(IDS_SCHEMA, {TOKENS: (offsets, ids)})
    write_file(path, lambda place: write_parquet(table, place))


def shard_table(offsets: Int64, ids: Int32, rows: Int64, source: str) -> pa.Table:
    """Documents as rows of a shard."""
    lists = _arrow.ListArray.from_arrays(_arrow.array(offsets, _arrow.int32()), _arrow.array(ids))
    name = _arrow.array([source]).take(_arrow.array(np.zeros(len(rows), np.int32)))
    return _arrow.Table.from_arrays([lists, name, _arrow.array(rows)], schema=SHARD_SCHEMA)


def write_shards(
    tables: Iterator[pa.Table], path_of: Callable[[int], Path], *, shard_tokens: int
) -> dict[str, dict[str, Any]]:
    """Write tables to as many shards as they need: file name → digest, size and counts.

    A shard is closed after the table that takes it to ``shard_tokens``; a document is never divided.
    """
    written: dict[str, dict[str, Any]] = {}
    ahead = next(tables, None)
    while ahead is not None:
        path = path_of(len(written))
        filling = _Filling(ahead, tables, shard_tokens)
        entry = write_file(path, filling.write)
        written[path.name] = {**entry, "documents": filling.documents, "tokens": filling.tokens}
        ahead = filling.ahead
    return written


class _Filling:
    """One shard as it is filled from a stream of tables."""

    def __init__(self, first: pa.Table, tables: Iterator[pa.Table], shard_tokens: int) -> None:
        self.ahead: pa.Table | None = first
        self.documents = self.tokens = 0
        self._tables, self._limit = tables, shard_tokens

    def write(self, path: Path) -> None:
        options: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
        with (
            exact_file(path, "wb") as sink,
            arrow_parquet().ParquetWriter(sink, SHARD_SCHEMA, **options) as writer,
        ):
            for group in self._groups():
                writer.write_table(group, row_group_size=max(1, len(group)))

    def _groups(self) -> Iterator[Any]:
        held: list[pa.Table] = []
        size = 0
        while self.ahead is not None and self.tokens < self._limit:
            held.append(self.ahead)
            lists: Any = self.ahead.column(TOKENS).combine_chunks()
            count = len(lists.flatten())
            size += count
            self.tokens += count
            self.documents += len(self.ahead)
            if size >= GROUP_TOKENS:
                yield _arrow.concat_tables(held)
                held, size = [], 0
            self.ahead = next(self._tables, None)
        if held:
            yield _arrow.concat_tables(held)
