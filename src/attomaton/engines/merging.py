"""Sorted parts on disk merged by DuckDB, with bounded memory.

An edge is one packed 63-bit key. Sorting keys and adding up neighbours costs DuckDB about half of what a hash
aggregation does, and the answer comes out in order. It happens in ranges of whole queries, so that little is
spilled and each range is a file of its own.
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
"""How often a choice is held while a part of them is sorted here: quicker than by DuckDB, which spills."""

BYTES_PER_ROW = 128  # what DuckDB and this process together hold for a row that is being sorted, generously


class MergeStopped(Exception):
    """Another range failed, or the user interrupted; nobody sees this."""


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
        """The work folder, under a name that DuckDB takes as it stands."""
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
            return  # a fault of ours: memory and disk have not run out
        reason = str(error).splitlines()[0]
        if isinstance(error, full) and "disk" not in reason.lower():
            raise UnsupportedOption(
                f"the memory is too small for this corpus ({reason}); give more"
            ) from error
        raise unwritable(self._work, reason) from error

    def edges(
        self, parts: Mapping[str, Sequence[Path]], *, min_support: int, about: Mapping[str, Any]
    ) -> EdgeParts:
        """Merge parts with packed keys to one sorted table: Parquet files of whole queries in ``edges``."""
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
        """Merge parts with encoded choices to one sorted table: Parquet files of whole queries."""
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
        """Add up the sums of parts, by key; what they come to is held in memory."""
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
        """Merge each part of the queries into a file of its own; the entries of the files."""
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
        """The view ``parts`` of these files and no others: no name of a user is read as a pattern."""
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
"""Names that mean to DuckDB, inside quotes, what they mean to the system."""


@contextmanager
def plainly_named(folder: Path) -> Generator[Path]:
    """The folder itself if DuckDB takes its name as it stands, or else a link to it that it does.

    DuckDB reads ``*``, ``?`` and ``[`` as patterns and ``x=1`` as a column, and has no way to say that a
    name is only a name.
    """
    place = folder.absolute()
    if PLAIN.fullmatch(place.as_posix()):
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="attomaton-") as name:
        if not PLAIN.fullmatch(Path(name).as_posix()):
            raise UnsupportedOption(
                f"DuckDB would read the names of the work folder {str(folder)!r} and of the folder for "
                f"temporary files {name!r} as patterns; set TMPDIR to a folder with a plain name"
            )
        link = Path(name, "work")
        link.symlink_to(place, target_is_directory=True)
        yield link


def sum_query_parts(paths: Sequence[Path]) -> pa.Table:
    """The samples read by query, over all parts."""
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
    """About how many rows each part has, judged by its realisable samples."""
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
