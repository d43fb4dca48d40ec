"""Results of an engine on disk, in partitions of whole queries: edges, choices and ties.

Each partition is a file that :func:`write_edges` or :func:`write_choices` wrote from sorted rows.
:func:`finish_edges` writes a manifest of edges, which :func:`open_edges` reads in a later run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base import tables
from attomaton.base.artifacts import check_files, digest_record, read_sealed, write_sealed
from attomaton.base.artifacts.parted import write_partition
from attomaton.base.borders import check_lengths, check_size, check_table
from attomaton.base.errors import CorruptRun
from attomaton.base.ragged import run_starts
from attomaton.base.tables import Int64, arrow_parquet, column, exact_file, read_parquet
from attomaton.corpora.samples import MAX_TOKENS
from attomaton.engines.kernel import edge_rows
from attomaton.graphs.choices import CHOICE_FILE, CHOICE_SCHEMA, ChoiceTable, unpack_choices
from attomaton.graphs.components import NODE_SCHEMA, Components
from attomaton.graphs.edges import EDGE_FILE, EDGE_SCHEMA, EdgeTable, check_queries
from attomaton.graphs.partitions import add_to_columns, cut_partitions, join_tables, of_nodes, slice_queries

EDGES_MANIFEST = "edges.json"
QUERIES_FILE = "queries.parquet"
EDGES_FORMAT = 2

CHOICE_NUMBERS = {"query": np.int32, "winner": np.int32, "count": np.int64}
CHOICE_LISTS = ("tokens", "multiplicities")

SCANNED_ROWS = 1 << 20  # rows in memory at a time when a file is streamed
READ_CHOICES = 1 << 17  # choices read at a time: with members, a choice is larger than an edge

_arrow: Any = pa


@dataclass(frozen=True, eq=False, repr=False)
class EdgePartitions:
    """Edges on disk, in partitions of whole queries; :meth:`load` reads them into one :class:`EdgeTable`.

    ``queries`` is the number of samples read, by query (columns query, realisable, unrealisable), and
    ``n_tokens`` the size of the vocabulary. There is one file for each partition in ``files``. ``sizes`` are
    their numbers of edges, and ``entries`` their entries in the manifest (name, digest and number of rows).
    """

    queries: pa.Table
    n_tokens: int
    files: tuple[Path, ...]
    sizes: tuple[int, ...]
    entries: tuple[Mapping[str, Any], ...]

    def __post_init__(self) -> None:
        size = check_size(self.n_tokens, MAX_TOKENS, "n_tokens")
        check_queries(self.queries, size)
        check_lengths("files of edges and their sizes", files=self.files, sizes=self.sizes)
        check_lengths("partitions and files", partitions=self.borders[1:], files=self.files)

    def __repr__(self) -> str:
        return f"EdgePartitions({len(self):,} edges in {len(self.files):,} partitions)"

    def __len__(self) -> int:
        return sum(self.sizes)

    def __iter__(self) -> Iterator[pa.Table]:
        """The rows of each partition, one partition in memory at a time."""
        return map(_read_edge_rows, self.files)

    @cached_property
    def borders(self) -> Int64:
        """Partition ``i`` has the queries ``borders[i] … borders[i + 1] − 1``, shape (n_partitions + 1,)."""
        return cut_partitions(self.queries, self.n_tokens)

    def partition(self, number: int) -> EdgeTable:
        """The edges of one partition, in memory."""
        return EdgeTable(_read_edge_rows(self.files[number]), self.queries_of(number), self.n_tokens)

    def scan(self, number: int) -> Iterator[pa.Table]:
        """The edges of one partition, about a million at a time."""
        return stream_rows(self.files[number], EDGE_SCHEMA)

    def queries_of(self, number: int) -> pa.Table:
        """The number of samples read for one partition."""
        return slice_queries(self.queries, *self.borders[number : number + 2].tolist())

    def load(self) -> EdgeTable:
        """All edges in memory: 20 bytes each."""
        rows: Any = list(self)
        whole = pa.concat_tables(rows).combine_chunks() if rows else tables.empty_table(EDGE_SCHEMA)
        return EdgeTable(whole, self.queries, self.n_tokens)


def write_edges(file: Path, runs: Iterable[tuple[Int64, Int64]], *, min_support: int = 1) -> dict[str, Any]:
    """Write sorted packed edges with their support to one Parquet file; return its entry."""

    def rows() -> Iterator[pa.Table]:
        for keys, support in runs:
            enough = support >= min_support
            yield edge_rows(keys[enough], support[enough])

    return write_partition(file, rows(), EDGE_SCHEMA, EDGE_FILE)


def sum_neighbours(batches: Iterator[tuple[Int64, Int64]]) -> Iterator[tuple[Int64, Int64]]:
    """Sorted batches of (keys, counts) → batches of distinct keys with the sum of the counts of each."""
    # The last key of a batch may continue in the next batch. It is held back with its sum: one entry, or
    # none before the first batch.
    last_key = np.empty(0, np.int64)
    last_sum = np.empty(0, np.int64)
    for keys, counts in batches:
        starts = run_starts(keys)
        distinct = keys[starts]
        sums = np.add.reduceat(counts, starts, dtype=np.int64)
        if len(last_key) and last_key[0] == distinct[0]:
            sums[0] += last_sum[0]
        else:
            distinct = np.concatenate([last_key, distinct])
            sums = np.concatenate([last_sum, sums])
        yield distinct[:-1], sums[:-1]
        last_key, last_sum = distinct[-1:], sums[-1:]
    yield last_key, last_sum


def finish_edges(
    folder: Path, entries: Sequence[Mapping[str, Any]], queries: Mapping[str, Any], about: Mapping[str, Any]
) -> EdgePartitions:
    """Write the manifest of edges, and open them; ``about`` is what :func:`open_edges` compares later."""
    record = {**about, "format": EDGES_FORMAT, "files": list(entries), "queries": queries}
    write_sealed(folder / EDGES_MANIFEST, record)
    return _edges_of(folder, record)


def open_edges(
    folder: Path, about: Mapping[str, Any], check: Callable[..., object] = check_files
) -> EdgePartitions:
    """The edges that :func:`finish_edges` listed with equal ``about``, after a check of the digests."""
    record = read_sealed(folder / EDGES_MANIFEST)
    if record is None:
        raise CorruptRun(f"{folder} contains no finished edges; run the pass again")
    try:
        listed = {entry["name"]: entry for entry in [*record["files"], record["queries"]]}
        check(folder, listed, again=f"delete {folder} and run again")
        is_same = record["format"] == EDGES_FORMAT and all(
            record.get(name) == value for name, value in about.items()
        )
        edges = _edges_of(folder, record)
    except CorruptRun:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptRun(f"{folder / EDGES_MANIFEST} cannot be read ({error}); run the pass again") from error
    if not is_same:
        raise CorruptRun(f"{folder} contains edges of another corpus or other settings; run the pass again")
    return edges


def _edges_of(folder: Path, record: Mapping[str, Any]) -> EdgePartitions:
    queries = read_parquet((folder / QUERIES_FILE).read_bytes())
    sizes = tuple(int(entry["rows"]) for entry in record["files"])
    files = tuple(folder / entry["name"] for entry in record["files"])
    return EdgePartitions(queries, record["n_tokens"], files, sizes, tuple(record["files"]))


def count_rows(file: Path) -> int:
    """The number of rows of a Parquet file, from its footer."""
    return arrow_parquet().read_metadata(exact_file(file)).num_rows


def stream_rows(file: Path, schema: pa.Schema, rows: int | None = None) -> Iterator[pa.Table]:
    """The rows of a Parquet file, at most ``rows`` at a time, by default :data:`SCANNED_ROWS`."""
    try:
        with exact_file(file) as opened, arrow_parquet().ParquetFile(opened, pre_buffer=False) as parquet:
            for batch in parquet.iter_batches(rows or SCANNED_ROWS, use_threads=False):
                table: Any = pa.Table.from_batches([batch])
                yield table.cast(schema)
    except ValueError as error:  # as Arrow's errors are
        raise CorruptRun(f"{file} was altered ({error}); delete {file.parent} and run again") from error


def _read_edge_rows(file: Path) -> pa.Table:
    try:
        table = read_parquet(file.read_bytes())
        check_table(table, EDGE_SCHEMA, "the edge table")
    except ValueError as error:  # as Arrow's errors and MismatchedParts are
        raise CorruptRun(f"{file} was altered ({error}); delete {file.parent} and run again") from error
    return table


@dataclass(frozen=True, eq=False, repr=False)
class ChoicePartitions:
    """Choices on disk, in partitions of whole queries; :meth:`load` reads them into one :class:`ChoiceTable`.

    Partition i has the queries from number i to number i + 1 of ``borders``. ``files`` are the files of the
    partitions, and ``entries`` their entries in a manifest.
    """

    borders: Int64
    files: tuple[Path, ...]
    entries: tuple[Mapping[str, Any], ...]

    def __repr__(self) -> str:
        return f"ChoicePartitions({len(self.files):,} partitions)"

    def partition(self, number: int) -> pa.Table:
        """The choices of one partition, in memory."""
        file = self.files[number]
        try:
            return read_choices(file)
        except ValueError as error:  # as Arrow's errors are, and those of mismatched parts
            raise CorruptRun(f"{file} was altered ({error}); delete {file.parent} and run again") from error

    def load(self) -> ChoiceTable:
        """All choices in memory."""
        return ChoiceTable(
            join_tables(CHOICE_SCHEMA, [self.partition(number) for number in range(len(self.files))])
        )


def read_choices(file: Path) -> pa.Table:
    """The choices of a file, read batch by batch into arrays of the final length, to save memory."""
    n_rows = count_rows(file)
    n_members = count_values(file, "tokens")
    numbers = {name: np.empty(n_rows, kind) for name, kind in CHOICE_NUMBERS.items()}
    lists = {name: np.empty(n_members, np.int32) for name in CHOICE_LISTS}
    offsets = np.zeros(n_rows + 1, np.int64)  # of both lists, which have equal lengths
    row = 0
    for table in stream_rows(file, CHOICE_SCHEMA, rows=READ_CHOICES):
        next_row = row + table.num_rows
        for name, values in numbers.items():
            values[row:next_row] = column(table, name)
        table_offsets, _ = tables.ragged_column(table, CHOICE_LISTS[0])  # they start at 0 in each batch
        offsets[row : next_row + 1] = offsets[row] + table_offsets
        for name, values in lists.items():
            values[offsets[row] : offsets[next_row]] = tables.ragged_column(table, name)[1]
        row = next_row
    ragged = {name: (offsets, values) for name, values in lists.items()}
    return tables.make_table(CHOICE_SCHEMA, {**numbers, **ragged})


def count_values(file: Path, name: str) -> int:
    """The total number of values in the lists of a column of a Parquet file, from its footer alone."""
    footer = arrow_parquet().read_metadata(exact_file(file))
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    columns = (group.column(number) for group in groups for number in range(group.num_columns))
    return sum(values.num_values for values in columns if values.path_in_schema.split(".")[0] == name)


def sum_choices(batches: Iterable[tuple[Any, Int64]]) -> Iterator[pa.Table]:
    """Sorted batches of (encoded choices, counts) → tables of distinct choices with summed counts."""
    # The last choice of a batch, held back with its sum as in `sum_neighbours`.
    last: Any = _arrow.array([], pa.large_binary())
    last_sum: Int64 = np.empty(0, np.int64)
    for batch, counts in batches:
        rows: Any = _arrow.concat_arrays([last, batch.cast(pa.large_binary())])
        all_counts = np.concatenate([last_sum, counts])
        # A run starts at the first row, and at each that differs from the row before.
        differs: Any = tables.arrow_compute().not_equal(rows.slice(1), rows.slice(0, len(rows) - 1))
        starts = np.flatnonzero(np.concatenate([[True], differs.to_numpy(zero_copy_only=False)]))
        sums: Int64 = np.add.reduceat(all_counts, starts, dtype=np.int64)
        distinct: Any = rows.take(_arrow.array(starts))
        n_complete = len(starts) - 1  # the last choice may continue in the next batch
        last, last_sum = distinct.slice(n_complete), sums[-1:]
        if n_complete:
            yield unpack_choices(_arrow.chunked_array([distinct.slice(0, n_complete)]), sums[:-1]).rows
    if len(last_sum):
        yield unpack_choices(_arrow.chunked_array([last]), last_sum).rows


def write_choices(file: Path, batches: Iterable[tuple[Any, Int64]]) -> dict[str, Any]:
    """Write sorted encoded choices with their counts to one Parquet file; return its entry."""
    return write_partition(file, sum_choices(batches), CHOICE_SCHEMA, CHOICE_FILE)


@dataclass(frozen=True)
class Ties:
    """Components with more than one token, in a file for each partition; a value to send to executors.

    ``paths`` are Parquet files of nodes, each with components numbered from 0. ``digests`` are the SHA-256 of
    the files, and ``n_tokens`` is the size of the vocabulary.
    """

    paths: tuple[Path, ...]
    digests: tuple[str, ...]
    n_tokens: int

    @property
    def fingerprint(self) -> str:
        """The digest of all files together."""
        return digest_record([self.n_tokens, list(self.digests)])

    def __iter__(self) -> Iterator[pa.Table]:
        """The nodes of each partition, read on demand, with components numbered over all partitions."""
        n_before = 0
        for path in self.paths:
            table = read_parquet(path.read_bytes())
            yield add_to_columns(table, n_before, "component")
            n_before += int(column(table, "component").max(initial=-1)) + 1  # 0 without nodes

    def load(self) -> Components:
        """All ties in memory, without edges and order."""
        return of_nodes(join_tables(NODE_SCHEMA, list(self)), self.n_tokens)
