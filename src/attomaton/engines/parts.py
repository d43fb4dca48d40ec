"""Results of the passes in parts of whole queries: edges, choices and ties."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import check_files, digest_record, read_sealed, write_sealed
from attomaton.base.artifacts.parted import write_part
from attomaton.base.borders import (
    check_counts,
    check_ids_of,
    check_lengths,
    check_rising,
    check_size,
    check_table,
)
from attomaton.base.errors import CorruptRun
from attomaton.base.ragged import run_starts
from attomaton.base.tables import (
    Int64,
    arrow_compute,
    arrow_parquet,
    column,
    empty_table,
    exact_file,
    make_table,
    ragged_column,
    read_parquet,
)
from attomaton.corpora.samples import MAX_TOKENS
from attomaton.engines.kernel import edge_rows
from attomaton.graphs.choices import (
    CHOICE_FILE,
    CHOICE_SCHEMA,
    ChoiceTable,
    unpack_choices,
)
from attomaton.graphs.components import NODE_SCHEMA, Components
from attomaton.graphs.edges import EDGE_FILE, EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable
from attomaton.graphs.partitions import add_to_columns, cut_partitions, join_tables, of_nodes, slice_queries

MANIFEST = "edges.json"
QUERIES = "queries.parquet"
FORMAT = 2

SCANNED_ROWS = 1 << 20  # rows in memory at a time when a file is streamed


@dataclass(frozen=True, eq=False, repr=False)
class EdgeParts:
    """Result of an engine's first pass. :meth:`load` makes it one :class:`EdgeTable` if memory suffices.

    Attributes
    ----------
    queries : pyarrow.Table
        Columns query, realisable, unrealisable: the number of samples read, by query.
    n_tokens : int
        Size of the vocabulary.
    pieces : tuple of Path
        The edges, a file for each part of the queries (:func:`~attomaton.graphs.partitions.cut_partitions`).
    sizes : tuple of int
        Edges in each file.
    entries : tuple of dict
        The record of each file from when it was written.

    Examples
    --------
    >>> import tempfile
    >>> from attomaton.corpora.shards import Shards
    >>> from attomaton.engines.duckdb import DuckDBEngine
    >>> ids = np.array([0, 1, 0, 2, 0, 1, 0], np.int32)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shards = Shards.write(Path(folder, "shards"), ids, np.array([0, 7]), n_tokens=3)
    ...     parts = DuckDBEngine(shards, Path(folder, "work"), memory="1GB", threads=1).edges()
    ...     print(parts, len(parts.load()), len(parts.part(0)), parts.queries_of(0).num_rows)
    ...     print([piece.num_rows for piece in parts.scan(0)])
    EdgeParts(6 edges in 1 parts) 6 6 3
    [6]
    """

    queries: pa.Table
    n_tokens: int
    pieces: tuple[Path, ...]
    sizes: tuple[int, ...]
    entries: tuple[Mapping[str, Any], ...]

    def __post_init__(self) -> None:
        """Refuse queries beyond the vocabulary; the edges are checked as they are read."""
        size = check_size(self.n_tokens, MAX_TOKENS, "n_tokens")
        check_table(self.queries, QUERY_SCHEMA, "the table of queries")
        check_ids_of(self.queries, {"query": size}, "the table of queries")
        check_rising(column(self.queries, "query"), "the table of queries")
        for name in ("realisable", "unrealisable"):
            check_counts(column(self.queries, name), 0, f"{name} in the table of queries")
        check_lengths("pieces of edges and their sizes", pieces=self.pieces, sizes=self.sizes)
        check_lengths("parts of queries and pieces", parts=self.borders[1:], pieces=self.pieces)

    def __repr__(self) -> str:
        return f"EdgeParts({len(self):,} edges in {len(self.pieces):,} parts)"

    def __len__(self) -> int:
        return sum(self.sizes)

    def __iter__(self) -> Iterator[pa.Table]:
        """The rows of each part, one part in memory at a time."""
        return map(_read_piece, self.pieces)

    @cached_property
    def borders(self) -> Int64:
        """Part ``i`` holds the queries ``borders[i] … borders[i + 1] − 1``, shape (n_parts + 1,)."""
        return cut_partitions(self.queries, self.n_tokens)

    def part(self, number: int) -> EdgeTable:
        """The edges of one part of the queries, in memory."""
        return EdgeTable(_read_piece(self.pieces[number]), self.queries_of(number), self.n_tokens)

    def scan(self, number: int) -> Iterator[pa.Table]:
        """The edges of one part of the queries, about a million at a time."""
        return scan_rows(self.pieces[number], EDGE_SCHEMA)

    def queries_of(self, number: int) -> pa.Table:
        """The number of samples read for one part of the queries."""
        return slice_queries(self.queries, *self.borders[number : number + 2].tolist())

    def load(self) -> EdgeTable:
        """All edges in memory: 20 bytes each."""
        tables: Any = list(self)
        whole = pa.concat_tables(tables).combine_chunks() if tables else empty_table(EDGE_SCHEMA)
        return EdgeTable(whole, self.queries, self.n_tokens)


def write_edges(file: Path, runs: Iterable[tuple[Int64, Int64]], *, min_support: int = 1) -> dict[str, Any]:
    """Write sorted packed edges with their support to one Parquet file; return its entry."""

    def rows() -> Iterator[pa.Table]:
        for keys, support in runs:
            often = support >= min_support
            yield edge_rows(keys[often], support[often])

    return write_part(file, rows(), EDGE_SCHEMA, EDGE_FILE)


def sum_neighbours(batches: Iterator[tuple[Int64, Int64]]) -> Iterator[tuple[Int64, Int64]]:
    """Sorted keys with counts → distinct keys with summed counts; a run may cross batches."""
    last_key, last_sum = np.empty(0, np.int64), np.empty(0, np.int64)
    for keys, counts in batches:
        first = run_starts(keys)
        distinct, sums = keys[first], np.add.reduceat(counts, first, dtype=np.int64)
        if len(last_key) and last_key[0] == distinct[0]:
            sums[0] += last_sum[0]
        else:
            distinct, sums = np.concatenate([last_key, distinct]), np.concatenate([last_sum, sums])
        yield distinct[:-1], sums[:-1]
        last_key, last_sum = distinct[-1:], sums[-1:]
    yield last_key, last_sum


def finish(
    folder: Path, entries: Sequence[Mapping[str, Any]], queries: Mapping[str, Any], about: Mapping[str, Any]
) -> EdgeParts:
    """Write the manifest that turns files in ``folder`` into a result; each was verified when written."""
    record = {**about, "format": FORMAT, "files": list(entries), "queries": queries}
    write_sealed(folder / MANIFEST, record)
    return _parts_of(folder, record)


def open_parts(
    folder: Path, about: Mapping[str, Any], check: Callable[..., object] = check_files
) -> EdgeParts:
    """The result that :func:`finish` made with the same settings, every file checked.

    ``check`` is called like :func:`~attomaton.base.artifacts.check_files`, and may delegate the work.
    """
    record = read_sealed(folder / MANIFEST)
    if record is None:
        raise CorruptRun(f"{folder} does not hold finished edges; run the pass again")
    try:
        listed = {entry["name"]: entry for entry in [*record["files"], record["queries"]]}
        check(folder, listed, again=f"delete {folder} and run again")
        same = record["format"] == FORMAT and all(record.get(name) == value for name, value in about.items())
        parts = _parts_of(folder, record)
    except CorruptRun:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptRun(f"{folder / MANIFEST} cannot be read ({error}); run the pass again") from error
    if not same:
        raise CorruptRun(f"{folder} holds the edges of another corpus or other settings; run the pass again")
    return parts


def _parts_of(folder: Path, record: Mapping[str, Any]) -> EdgeParts:
    queries = read_parquet((folder / QUERIES).read_bytes())
    sizes = tuple(int(entry["rows"]) for entry in record["files"])
    pieces = tuple(folder / entry["name"] for entry in record["files"])
    return EdgeParts(queries, record["n_tokens"], pieces, sizes, tuple(record["files"]))


def count_rows(file: Path) -> int:
    """The number of rows of a Parquet file, from its footer."""
    return arrow_parquet().read_metadata(exact_file(file)).num_rows


def scan_rows(file: Path, schema: pa.Schema, rows: int | None = None) -> Iterator[pa.Table]:
    """The rows of a Parquet file, at most ``rows`` at a time, by default :data:`SCANNED_ROWS`."""
    try:
        with exact_file(file) as opened, arrow_parquet().ParquetFile(opened, pre_buffer=False) as parquet:
            for batch in parquet.iter_batches(rows or SCANNED_ROWS, use_threads=False):
                table: Any = pa.Table.from_batches([batch])
                yield table.cast(schema)
    except ValueError as error:  # as Arrow's errors are
        raise CorruptRun(f"{file} was altered ({error}); delete {file.parent} and run again") from error


def _read_piece(piece: Path) -> pa.Table:
    try:
        table = read_parquet(piece.read_bytes())
        check_table(table, EDGE_SCHEMA, "the edge table")
    except ValueError as error:  # as Arrow's errors and MismatchedParts are
        raise CorruptRun(f"{piece} was altered ({error}); delete {piece.parent} and run again") from error
    return table


_arrow: Any = pa

PLAIN = {"query": np.int32, "winner": np.int32, "count": np.int64}
LISTS = ("tokens", "multiplicities")
READ_ROWS = 1 << 17  # choices read at a time


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceParts:
    """Result of an engine's second pass. :meth:`load` makes it one :class:`ChoiceTable` if memory suffices.

    Attributes
    ----------
    borders : int64 array, shape (n_parts + 1,)
        Part ``i`` holds the queries ``borders[i] … borders[i + 1] − 1``.
    pieces : tuple of Path
        The choices of each part, in files.
    entries : tuple of dict
        The record of each file from when it was written.

    Examples
    --------
    >>> import tempfile
    >>> from attomaton.corpora.shards import Shards
    >>> from attomaton.engines.duckdb import DuckDBEngine
    >>> ids = np.array([0, 2, 1, 1, 2, 0, 1, 2, 2], np.int32)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shards = Shards.write(Path(folder, "shards"), ids, np.array([0, 9]), n_tokens=3)
    ...     engine = DuckDBEngine(shards, Path(folder, "work"), memory="1GB", threads=1)
    ...     parts = engine.choice_parts(None, np.array([0, 1, 3]))
    ...     print(parts, parts.part(1).num_rows, len(parts.load()))
    ChoiceParts(2 parts) 5 6
    """

    borders: Int64
    pieces: tuple[Path, ...]
    entries: tuple[Mapping[str, Any], ...]

    def __repr__(self) -> str:
        return f"ChoiceParts({len(self.pieces):,} parts)"

    def part(self, number: int) -> pa.Table:
        """The choices of one part of the queries, in memory."""
        piece = self.pieces[number]
        try:
            return read_choices(piece)
        except ValueError as error:  # as Arrow's errors are, and those of mismatched parts
            raise CorruptRun(f"{piece} was altered ({error}); delete {piece.parent} and run again") from error

    def load(self) -> ChoiceTable:
        """All choices in memory."""
        return ChoiceTable(
            join_tables(CHOICE_SCHEMA, [self.part(number) for number in range(len(self.pieces))])
        )


def read_choices(file: Path) -> pa.Table:
    """The choices of a file, read piece by piece into arrays of the right length, so none is in memory twice.

    A frequent word of a large corpus has a hundred million members in its choice sets.
    """
    n_rows, n_members = count_rows(file), count_values(file, "tokens")
    plain = {name: np.empty(n_rows, kind) for name, kind in PLAIN.items()}
    lists = {name: np.empty(n_members, np.int32) for name in LISTS}
    offsets, row, member = np.zeros(n_rows + 1, np.int64), 0, 0
    for piece in scan_rows(file, CHOICE_SCHEMA, rows=READ_ROWS):
        until = row + piece.num_rows
        for name, values in plain.items():
            values[row:until] = column(piece, name)
        ends, _ = ragged_column(piece, LISTS[0])
        offsets[row : until + 1] = member + ends
        for name, values in lists.items():
            values[member : offsets[until]] = ragged_column(piece, name)[1]
        row, member = until, int(offsets[until])
    return make_table(CHOICE_SCHEMA, {**plain, **{name: (offsets, values) for name, values in lists.items()}})


def count_values(piece: Path, name: str) -> int:
    """The total number of values in the lists of a column of a Parquet file, from its footer alone."""
    about = arrow_parquet().read_metadata(exact_file(piece))
    groups = (about.row_group(number) for number in range(about.num_row_groups))
    columns = (group.column(place) for group in groups for place in range(group.num_columns))
    return sum(values.num_values for values in columns if values.path_in_schema.split(".")[0] == name)


def sum_choices(batches: Iterable[tuple[Any, Int64]]) -> Iterator[pa.Table]:
    """Sorted batches of encoded choices with counts → choices with summed counts; a run may cross batches."""
    last: Any = _arrow.array([], pa.large_binary())
    last_sum: Int64 = np.empty(0, np.int64)
    for batch, counts in batches:
        rows: Any = _arrow.concat_arrays([last, batch.cast(pa.large_binary())])
        counts = np.concatenate([last_sum, counts])
        differs: Any = arrow_compute().not_equal(rows.slice(1), rows.slice(0, len(rows) - 1))
        first = np.flatnonzero(np.concatenate([[True], differs.to_numpy(zero_copy_only=False)]))
        sums: Int64 = np.add.reduceat(counts, first, dtype=np.int64)
        distinct: Any = rows.take(_arrow.array(first))
        last, last_sum = distinct.slice(len(first) - 1), sums[-1:]
        if len(first) > 1:
            yield unpack_choices(_arrow.chunked_array([distinct.slice(0, len(first) - 1)]), sums[:-1]).rows
    if len(last_sum):
        yield unpack_choices(_arrow.chunked_array([last]), last_sum).rows


def write_choices(file: Path, batches: Iterable[tuple[Any, Int64]]) -> dict[str, Any]:
    """Write sorted encoded choices with their counts to one Parquet file; return its entry."""
    return write_part(file, sum_choices(batches), CHOICE_SCHEMA, CHOICE_FILE)


@dataclass(frozen=True)
class Ties:
    """Components with more than one token, a file for each part of the queries; they can be sent elsewhere.

    Attributes
    ----------
    paths : tuple of Path
        Parquet files of nodes, components numbered from 0 in each.
    digests : tuple of str
        The SHA-256 of each file.
    n_tokens : int
        Size of the vocabulary.

    Examples
    --------
    >>> Ties((), (), 5).load()
    Components(0 components of 0 queries)
    """

    paths: tuple[Path, ...]
    digests: tuple[str, ...]
    n_tokens: int

    @property
    def fingerprint(self) -> str:
        """Of all files together."""
        return digest_record([self.n_tokens, list(self.digests)])

    def __iter__(self) -> Iterator[pa.Table]:
        """The nodes of each part, components numbered one after the other; one part is read at a time."""
        number = 0
        for path in self.paths:
            table = read_parquet(path.read_bytes())
            yield add_to_columns(table, number, "component")
            number += int(column(table, "component").max(initial=-1)) + 1

    def load(self) -> Components:
        """All of them in memory, without edges and order."""
        return of_nodes(join_tables(NODE_SCHEMA, list(self)), self.n_tokens)
