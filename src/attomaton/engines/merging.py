"""Sorted parts on disk merged by DuckDB, with bounded memory.

An edge is one packed 63-bit key. Sorting keys and summing equal neighbours costs DuckDB about half as much as
a hash aggregation, and the result is sorted. This is done in ranges of whole queries, so that little is
spilled and each range is a separate file.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import explained, write_file
from attomaton.base.artifacts.files import unwritable
from attomaton.base.artifacts.parted import part_name
from attomaton.base.errors import UnsupportedOption
from attomaton.base.progress import Progress
from attomaton.base.tables import (
    Int64,
    arrow_parquet,
    column,
    empty_table,
    exact_file,
    make_table,
    read_parquet,
    write_parquet,
)
from attomaton.corpora.samples import TOKEN_BITS
from attomaton.engines.parts import (
    MANIFEST,
    QUERIES,
    ChoiceParts,
    EdgeParts,
    count_rows,
    count_unsorted,
    finish,
    sum_neighbours,
    write_choices,
    write_edges,
)
from attomaton.engines.sums import Sums, merge_sums, sums_of
from attomaton.engines.work import PartRecords, Record, clear_drafts, run_weighed
from attomaton.graphs.edges import QUERY_SCHEMA
from attomaton.graphs.grouping import sum_by_key
from attomaton.graphs.parts import cut_parts

BATCH_ROWS = 1 << 20
CHOICE_ROWS = 1 << 16
_arrow: Any = pa
COPIES = 7
"""Copies of a choice in memory while a part is sorted here, which is faster than DuckDB's spilling sort."""

BYTES_PER_ROW = 128  # generous estimate of the memory of DuckDB and this process per row being sorted


class MergeStopped(Exception):
    """Another range failed, or the user interrupted; never shown to users."""


class Merger:
    """A DuckDB connection with a memory limit and a spill folder, which is removed at the end."""

    def __init__(self, work: Path, memory: int, threads: int, progress: Progress) -> None:
        self._work, self._memory, self._threads, self._progress = work, memory, threads, progress
        self._spill = work / "spill"
        self._open, self._stop = ExitStack(), Event()

    def __enter__(self) -> Self:
        shutil.rmtree(self._spill, ignore_errors=True)
        return self

    @cached_property
    def _plain(self) -> Path:
        """The work folder, under a name that DuckDB takes literally."""
        return self._open.enter_context(plainly_named(self._work))

    @cached_property
    def _duckdb(self) -> Any:
        import duckdb

        return duckdb

    @cached_property
    def _connection(self) -> Any:
        settings: dict[str, Any] = {
            "threads": self._threads,
            "memory_limit": f"{self._memory // 2}B",
            "temp_directory": str(self._plain / self._spill.name),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        connection = self._duckdb.connect(config=settings)
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET parquet_metadata_cache = true")
        return connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()
        self._open.close()
        shutil.rmtree(self._spill, ignore_errors=True)
        if error is None:
            return
        clear_drafts(self._work)
        full = self._duckdb.OutOfMemoryException
        if not isinstance(error, (self._duckdb.IOException, full)):
            return  # a bug of ours: memory and disk have not run out
        reason = str(error).splitlines()[0]
        if isinstance(error, full) and "disk" not in reason.lower():
            raise UnsupportedOption(
                f"the memory limit is too small for this corpus ({reason}); raise it"
            ) from error
        raise unwritable(self._work, reason) from error

    def edges(
        self, parts: Mapping[str, Sequence[Path]], *, min_support: int, about: Mapping[str, Any]
    ) -> EdgeParts:
        """Merge parts with packed keys into one sorted table: Parquet files of whole queries in ``edges``."""
        place = self._work / "edges"
        queries = sum_query_parts(parts.get("queries", []))
        borders = cut_parts(queries, int(about["n_tokens"]))
        with explained(place):
            place.mkdir(parents=True, exist_ok=True)
            (place / MANIFEST).unlink(missing_ok=True)
            counted = write_file(place / QUERIES, lambda path: write_parquet(queries, str(path)))

            def merge(first: int, stop: int, file: Path) -> dict[str, Any]:
                keys = self._sorted_keys(first, stop) if parts.get("edges") else iter(())
                return write_edges(file, sum_neighbours(keys), min_support=min_support)

            part_records = PartRecords(place, "edges", str(about["fingerprint"]))
            paths = parts.get("edges", [])
            weights = _weigh(queries, borders, sum(map(count_rows, paths)))
            entries = self._merge_parts(part_records, merge, paths, borders, weights)
            return finish(place, entries, {**counted, "name": QUERIES}, about)

    def choices(self, parts: Mapping[str, Sequence[Path]], borders: Int64, fingerprint: str) -> ChoiceParts:
        """Merge parts with encoded choices into one sorted table: Parquet files of whole queries."""
        place = self._work / "choices"
        with explained(place):
            place.mkdir(parents=True, exist_ok=True)

            paths = parts.get("choices", [])
            weights = _count_by_part(paths, borders)
            most = self._memory // (2 * COPIES * _bytes_per_row(paths) * self._threads)
            large = {int(borders[part]) for part, weight in enumerate(weights) if weight > most}

            def merge(first: int, stop: int, file: Path) -> dict[str, Any]:
                is_large = first in large
                rows = self._choices(first, stop, ordered=is_large) if paths else iter(())
                return write_choices(file, rows) if is_large else count_unsorted(file, rows)

            part_records = PartRecords(place, "choices", fingerprint)
            entries = self._merge_parts(part_records, merge, paths, borders, weights)
        return ChoiceParts(borders, tuple(place / entry["name"] for entry in entries), tuple(entries))

    def sums(self, paths: Sequence[Path]) -> Sums:
        """Add up the sums of parts, by key; the result is kept in memory."""
        if not paths:
            return merge_sums([])
        self._view(paths)
        added = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("high", "low"))
        sql = f"SELECT key, {added} FROM parts GROUP BY key ORDER BY key"  # noqa: S608  (names of ours)
        batches = [*self._batches(sql, BATCH_ROWS)]
        return sums_of(_arrow.Table.from_batches(batches)) if batches else merge_sums([])

    def _merge_parts(
        self,
        part_records: PartRecords,
        merge: Callable[[int, int, Path], dict[str, Any]],
        paths: Sequence[Path],
        borders: Int64,
        weights: Sequence[int],
    ) -> list[dict[str, Any]]:
        """Merge each part of the queries into a separate file; return the entries of the files."""
        limits = list(pairwise(borders.tolist()))
        if paths:
            self._view(paths)

        def work(number: int) -> Record:
            entry = merge(*limits[number], part_records.folder / part_name(part_records.stage, number))
            return {"files": {entry["name"]: entry}, "entry": entry}

        def report(done: int) -> None:
            self._progress("merging", done, sum(weights))

        report(0)
        part_records.clear(len(limits))
        records = run_weighed(
            lambda number: part_records.run(number, work),
            weights,
            threads=self._threads,
            max_weight=self._memory // (BYTES_PER_ROW * self._threads),
            report=report,
            stop=self._stop,
        )
        return [record["entry"] for record in records]

    def _view(self, paths: Sequence[Path]) -> None:
        """Create the view ``parts`` of exactly these files: names are never interpreted as patterns."""
        listed = ", ".join(f"'{self._plain / path.name}'" for path in paths)
        parts = f"read_parquet([{listed}], hive_partitioning = false)"
        self._connection.execute(f"CREATE OR REPLACE VIEW parts AS SELECT * FROM {parts}")  # noqa: S608

    def _sorted_keys(self, first: int, stop: int) -> Iterator[tuple[Int64, Int64]]:
        low, high = first << 2 * TOKEN_BITS, (stop << 2 * TOKEN_BITS) - 1
        within = f"WHERE key BETWEEN {low} AND {high}"
        sql = f"SELECT key, support FROM parts {within} ORDER BY key"  # noqa: S608  (numbers)
        for batch in self._batches(sql, BATCH_ROWS):
            yield batch.column(0).to_numpy(), batch.column(1).to_numpy()

    def _choices(self, first: int, stop: int, *, ordered: bool) -> Iterator[tuple[Any, Int64]]:
        within = f"WHERE query BETWEEN {first} AND {stop - 1}{' ORDER BY row' if ordered else ''}"
        sql = f"SELECT row, count FROM parts {within}"  # noqa: S608  (numbers)
        batches = self._batches(sql, CHOICE_ROWS)
        return ((batch.column(0), batch.column(1).to_numpy()) for batch in batches)

    def _batches(self, sql: str, size: int) -> Iterator[Any]:
        with self._connection.cursor() as cursor:
            for batch in cursor.sql(sql).arrow(size):
                if self._stop.is_set():
                    raise MergeStopped
                if batch.num_rows:
                    yield batch


PLAIN = re.compile(r"([A-Z]:)?[\w/.-]+", re.ASCII)
"""Names that DuckDB takes literally inside quotes."""


@contextmanager
def plainly_named(folder: Path) -> Generator[Path]:
    """The folder itself if DuckDB takes its name literally, otherwise a link to it with a plain name.

    DuckDB interprets ``*``, ``?`` and ``[`` as patterns and ``x=1`` as a column, and offers no way to
    escape them.
    """
    place = folder.absolute()
    if PLAIN.fullmatch(place.as_posix()):
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="attomaton-") as name:
        if not PLAIN.fullmatch(Path(name).as_posix()):
            raise UnsupportedOption(
                f"DuckDB would interpret the names of the work folder {str(folder)!r} and of the folder for "
                f"temporary files {name!r} as patterns; set TMPDIR to a folder with a plain name"
            )
        link = Path(name, "work")
        link.symlink_to(place, target_is_directory=True)
        yield link


def sum_query_parts(paths: Sequence[Path]) -> pa.Table:
    """The number of samples read by query, over all parts."""
    tables = [empty_table(QUERY_SCHEMA), *(read_parquet(path.read_bytes()) for path in paths)]
    counted = pa.concat_tables(tables)
    query, realisable, unrealisable = sum_by_key(
        column(counted, "query").astype(np.int64),
        column(counted, "realisable"),
        column(counted, "unrealisable"),
    )
    columns = {"query": query.astype(np.int32), "realisable": realisable, "unrealisable": unrealisable}
    return make_table(QUERY_SCHEMA, columns)


def _weigh(queries: pa.Table, borders: Int64, n_rows: int) -> list[int]:
    """The approximate number of rows of each part, estimated from its realisable samples."""
    realisable = column(queries, "realisable")
    part = np.searchsorted(borders, column(queries, "query"), side="right") - 1
    shares = np.bincount(part, realisable, len(borders) - 1) / max(1, int(realisable.sum()))
    return [int(share * n_rows) + 1 for share in shares]


def _count_by_part(paths: Sequence[Path], borders: Int64) -> list[int]:
    """The rows of each part, from the column query of the files."""
    total = np.zeros(len(borders) - 1, np.int64)
    for path in paths:
        with exact_file(path) as opened, arrow_parquet().ParquetFile(opened, pre_buffer=False) as file:
            query = column(file.read(["query"], use_threads=False), "query")
        total += np.bincount(np.searchsorted(borders, query, side="right") - 1, minlength=len(total))
    return (total + 1).tolist()


def _bytes_per_row(paths: Sequence[Path]) -> int:
    """The mean length of a row of these files in memory, rounded up."""
    about = [arrow_parquet().read_metadata(exact_file(path)) for path in paths]
    groups = [file.row_group(number) for file in about for number in range(file.num_row_groups)]
    return 1 + sum(group.total_byte_size for group in groups) // max(1, sum(file.num_rows for file in about))
