"""Parquet files of token ids: a column ``tokens`` of integer lists, one document per row.

To read: :func:`read_batches` yields record batches, and :func:`chunk_of` checks and converts each. To write:
:func:`shard_table` makes tables, and :func:`write_shards` divides them among files, called *shards*.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import write_file
from attomaton.base.borders import trusted
from attomaton.base.errors import AttomatonError, UnreadableSource
from attomaton.base.ragged import offsets_of
from attomaton.base.remote import AnyPath, RemotePath
from attomaton.base.tables import Int32, Int64, arrow_compute, arrow_parquet, exact_file
from attomaton.corpora.documents import Chunk
from attomaton.corpora.samples import ID_CURE, check_range

TOKENS = "tokens"  # the column of the documents
ROWS_AT_ONCE = 1 << 14  # most rows read together
# Bytes read ahead of a file at a URL: as many as Arrow first reads at the end of a file.
FOOTER_AHEAD = 1 << 16
# Number of tokens at which a row group is closed; a row group is the unit that Parquet reads and compresses.
GROUP_TOKENS = 1 << 20

_arrow: Any = pa
# Token ids of a document, its source file, and its row there.
SHARD_SCHEMA: pa.Schema = _arrow.schema(
    [
        _arrow.field(TOKENS, _arrow.list_(_arrow.int32()), nullable=False),
        _arrow.field("source", _arrow.string(), nullable=False),
        _arrow.field("row", _arrow.int64(), nullable=False),
    ]
)
# Token ids alone, for documents from memory.
IDS_SCHEMA = pa.schema([(TOKENS, pa.large_list(pa.int32()))])


def chunk_of(
    batch: pa.RecordBatch, n_tokens: int, *, location: str = "the batch", first_row: int = 0
) -> Chunk:
    """The documents of a batch as checked arrays; errors cite ``location`` and the row."""
    documents: Any = batch
    check_token_column(documents.schema, location)
    offsets, ids = read_lists(documents.column(TOKENS), n_tokens, location, first_row)
    return trusted(Chunk, ids=ids, documents=offsets, head=0, n_tokens=n_tokens)


def check_token_column(schema: Any, location: object) -> None:
    """Refuses a table without a column `tokens` of integer lists."""
    if TOKENS not in schema.names:
        raise UnreadableSource(
            f"{location} has no column {TOKENS!r} (it has {', '.join(schema.names)}); tokenise it first"
        )
    arrow_type = schema.field(TOKENS).type
    is_list = pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)
    if not is_list or not pa.types.is_integer(arrow_type.value_type):
        fault = f"{TOKENS!r} is {arrow_type}, not a list of integers"
        raise UnreadableSource(f"{location}: {fault}; tokenise first")


def read_lists(lists: Any, n_tokens: int, location: str, first_row: int) -> tuple[Int64, Int32]:
    """Arrow lists of ids as ``(offsets, ids)``: list ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.

    A null, or an id outside 0 … n_tokens − 1, is an error that names the row, counted from ``first_row``.
    """
    flat = lists.flatten()  # without the values of null lists, so a null list has the length 0
    offsets = offsets_of(arrow_compute().list_value_length(lists).fill_null(0).to_numpy())

    def row_of(index: int) -> int:  # the last row that begins at or before ids[index]
        return int(np.searchsorted(offsets, index, side="right")) - 1

    def locate(index: int) -> str:
        row = row_of(index)
        return f"{location}, row {first_row + row}, position {index - offsets[row]},"

    if lists.null_count:
        row = first_row + lists.is_null().to_pylist().index(True)
        raise UnreadableSource(f"{location}, row {row}, is null, not a list of ids; drop the row")
    if flat.null_count:
        row = first_row + row_of(flat.is_null().to_pylist().index(True))
        raise UnreadableSource(f"{location}, row {row}, has a null among its ids; correct the row")
    ids = flat.to_numpy(zero_copy_only=False)
    check_range(ids, n_tokens, locate, ID_CURE)
    return offsets, ids.astype(np.int32, copy=False)


def read_batches(
    path: AnyPath, size: int, groups: range | None = None
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield batches of about ``size`` tokens of a file, or of some row groups, each with its first row."""
    file = _open_tokens(path)
    n_rows, n_tokens = _group_sizes(file).sum(axis=0).tolist()
    mean_length = max(1, n_tokens // max(1, n_rows))  # of a document of the whole file, in tokens
    rows_at_once = min(ROWS_AT_ONCE, max(1, size // mean_length))
    chosen = None if groups is None else list(groups)
    reader = file.iter_batches(rows_at_once, chosen, columns=[TOKENS], use_threads=False)
    row = 0  # counted from the first chosen row group
    while (batch := _explained(path, lambda: next(reader, None))) is not None:
        yield batch, row
        row += batch.num_rows


def count_groups(path: AnyPath) -> Int64:
    with _open_tokens(path) as file:
        return _group_sizes(file)


# The rows and the tokens of each row group, shape (n_groups, 2), from the footer alone. Parquet stores a list
# column flat, under a path such as `tokens.list.element`, and counts an empty list as one value.
def _group_sizes(file: Any) -> Int64:
    footer: Any = file.metadata
    sizes = np.zeros((footer.num_row_groups, 2), np.int64)
    for number in range(len(sizes)):
        group = footer.row_group(number)
        columns = (group.column(index) for index in range(footer.num_columns))
        ids = (column for column in columns if column.path_in_schema.split(".")[0] == TOKENS)
        sizes[number] = group.num_rows, sum(column.num_values for column in ids)
    return sizes


def has_token_column(path: AnyPath) -> bool:
    return TOKENS in _open_parquet(path).schema_arrow.names


def _open_tokens(path: AnyPath) -> Any:
    file = _open_parquet(path)
    check_token_column(file.schema_arrow, path)
    return file


def _open_parquet(path: AnyPath) -> Any:
    def read() -> Any:
        if isinstance(path, RemotePath):
            file = _arrow.PythonFile(path.open("rb", ahead=FOOTER_AHEAD), "r")
        else:
            file = exact_file(path)
        return arrow_parquet().ParquetFile(file, pre_buffer=False)

    return _explained(path, read)


# The result of `read`; an error of Arrow or of the disk becomes one that names the file.
def _explained(path: AnyPath, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except AttomatonError:
        raise  # error of a store
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise UnreadableSource(f"{path} cannot be read as Parquet ({reason}); write it again") from error


def shard_table(offsets: Int64, ids: Int32, rows: Int64, source: str) -> pa.Table:
    """Documents as rows of a shard: document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``."""
    lists = _arrow.ListArray.from_arrays(_arrow.array(offsets, _arrow.int32()), _arrow.array(ids))
    # the name of the source in each row, without a Python string for each
    sources = _arrow.array([source]).take(_arrow.array(np.zeros(len(rows), np.int32)))
    return _arrow.Table.from_arrays([lists, sources, _arrow.array(rows)], schema=SHARD_SCHEMA)


class _NumberedTable(NamedTuple):
    """A table of documents, the number of the shard that will contain it, and its number of tokens."""

    shard: int
    n_tokens: int
    table: pa.Table


def write_shards(
    tables: Iterable[pa.Table], path_of: Callable[[int], Path], *, shard_tokens: int
) -> dict[str, dict[str, Any]]:
    """Write tables to as many shards as needed; return file name → digest, size and counts."""
    written: dict[str, dict[str, Any]] = {}
    for shard, numbered in groupby(_number_shards(tables, shard_tokens), key=attrgetter("shard")):
        path = path_of(shard)
        counts = {"documents": 0, "tokens": 0}  # complete when the shard is written
        row_groups = _join_tables(numbered, counts)
        entry = write_file(path, partial(_write_shard, row_groups=row_groups))
        written[path.name] = {**entry, **counts}
    return written


# Yields each table with its shard: a new one begins when the current one has `shard_tokens` tokens or more. A
# table is never split.
def _number_shards(tables: Iterable[pa.Table], shard_tokens: int) -> Iterator[_NumberedTable]:
    shard = 0
    shard_size = 0  # tokens in the current shard so far
    for table in tables:
        if shard_size >= shard_tokens:
            shard += 1
            shard_size = 0
        lists: Any = table.column(TOKENS).combine_chunks()
        n_tokens = len(lists.flatten())
        shard_size += n_tokens
        yield _NumberedTable(shard, n_tokens, table)


# Yields the tables of a shard joined to row groups of at least GROUP_TOKENS tokens (the last may have fewer),
# and adds the documents and tokens of each table to `counts`.
def _join_tables(numbered: Iterable[_NumberedTable], counts: dict[str, int]) -> Iterator[Any]:
    pending: list[pa.Table] = []
    group_size = 0  # tokens of the pending tables
    for _, n_tokens, table in numbered:
        pending.append(table)
        group_size += n_tokens
        counts["tokens"] += n_tokens
        counts["documents"] += len(table)
        if group_size >= GROUP_TOKENS:
            yield _arrow.concat_tables(pending)
            pending = []
            group_size = 0
    if pending:
        yield _arrow.concat_tables(pending)


def _write_shard(path: Path, row_groups: Iterable[Any]) -> None:
    options: Any = {"compression": "zstd", "write_page_checksum": True}
    parquet = arrow_parquet()
    with exact_file(path, "wb") as sink, parquet.ParquetWriter(sink, SHARD_SCHEMA, **options) as writer:
        for group in row_groups:
            writer.write_table(group, row_group_size=max(1, len(group)))
