"""Sorted parts on disk merged by DuckDB, with bounded memory.

An edge is one packed 63-bit key. Sorting keys and adding up neighbours costs DuckDB about half of what a hash
aggregation does, and the answer comes out in order. It happens in ranges of whole queries, so that little is
spilled and each range is a file of its own.
"""

import re
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from attomaton.artifacts import explained, write_file
from attomaton.artifacts.files import unwritable
from attomaton.corpora.samples import TOKEN_BITS
from attomaton.engines.parts import (
    MANIFEST,
    QUERIES,
    EdgeParts,
    finish,
    sum_neighbours,
    write_edges,
)
from attomaton.engines.queries import cut_queries
from attomaton.engines.work import clear_drafts
from attomaton.errors import AttomatonError, UnsupportedOption
from attomaton.graphs.choices import ChoiceTable, count_choices, unpack_choices
from attomaton.graphs.edges import QUERY_SCHEMA
from attomaton.graphs.grouping import sum_by_key
from attomaton.progress import Progress
from attomaton.tables import (
    Int64,
    arrow_parquet,
    column,
    exact_file,
    make_table,
    read_parquet,
    write_parquet,
)

BATCH_ROWS = 1 << 20
BYTES_PER_ROW = 128
"""What DuckDB and this process together hold for a row that is being sorted, generously."""


class Stopped(Exception):
    """Another range failed, or the user interrupted; nobody sees this."""


class Merger:
    """A DuckDB connection with a memory limit and a spill folder, which is removed at the end.

    Parameters
    ----------
    work : Path
        Folder of the parts, and for the answer. What does not fit in memory goes to ``spill`` there, which is
        emptied at the beginning and removed at the end.
    memory : int
        Bytes for everything; DuckDB itself gets half.
    threads : int
        Threads for DuckDB, and ranges merged at once.
    progress : callable
        Called with the stage, rows done and rows in all.
    """

    def __init__(self, work: Path, memory: int, threads: int, progress: Progress) -> None:
        self._work, self._memory, self._threads, self._progress = work, memory, threads, progress
        self._spill = work / "spill"
        self._open = ExitStack()

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
        if error is not None:
            clear_drafts(self._work)
        if error is not None and isinstance(error, self._explicable):
            raise self._explained(error) from error

    def edges(
        self, parts: Mapping[str, Sequence[Path]], *, min_support: int, about: Mapping[str, Any]
    ) -> EdgeParts:
        """Merge parts with packed keys to one sorted table: Parquet files of whole queries in ``edges``."""
        place = self._work / "edges"
        queries = sum_query_parts(parts.get("queries", []))
        paths = parts.get("edges", [])
        with explained(place):
            empty_edges(place)
            counted = write_file(place / QUERIES, lambda path: write_parquet(queries, str(path)))
            entries = self._merge_ranges(paths, queries, place, min_support) if paths else []
            return finish(place, entries, {**counted, "name": QUERIES}, about)

    def choices(self, parts: Mapping[str, Sequence[Path]]) -> ChoiceTable:
        """Merge parts with encoded choices to one sorted table."""
        paths = parts.get("choices", [])
        if not paths:
            return count_choices([])
        self._view(paths)
        merged = self._connection.sql(
            "SELECT row, sum(count)::BIGINT AS count FROM parts GROUP BY row ORDER BY row"
        ).to_arrow_table()
        return unpack_choices(merged.column("row"), column(merged, "count"))

    def _merge_ranges(
        self, paths: Sequence[Path], queries: pa.Table, place: Path, min_support: int
    ) -> list[dict[str, Any]]:
        n_rows = _count_rows(paths)
        max_rows = self._memory // (BYTES_PER_ROW * self._threads)
        ranges = _cut_ranges(queries, n_rows, max_rows=max_rows, threads=self._threads)
        self._view(paths)
        stop, done = Event(), 0
        self._progress("merging", 0, n_rows)
        pool = ThreadPoolExecutor(self._threads)
        entries: list[dict[str, Any]] = []
        try:
            files = [place / f"edges-{number:05d}.parquet" for number in range(len(ranges))]
            merge = [
                pool.submit(self._merge_range, *limits, file, min_support, stop)
                for limits, file in zip(ranges, files, strict=True)
            ]
            for future in merge:
                entry, read = future.result()
                entries.append(entry)
                done += read
                self._progress("merging", done, n_rows)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
        return entries

    def _view(self, paths: Sequence[Path]) -> None:
        """The view ``parts`` of these files and no others: no name of a user is read as a pattern."""
        listed = ", ".join(f"'{self._plain / path.name}'" for path in paths)
        self._connection.execute(
            f"CREATE VIEW parts AS SELECT * FROM read_parquet([{listed}], hive_partitioning = false)"  # noqa: S608
        )

    def _merge_range(
        self, first: int, last: int, file: Path, min_support: int, stop: Event
    ) -> tuple[dict[str, Any], int]:
        """Merge the edges of the queries ``first … last − 1`` into one file; its entry and the rows read."""
        read = [0]
        runs = sum_neighbours(self._sorted_keys(first, last, read, stop))
        return write_edges(file, runs, min_support=min_support), read[0]

    def _sorted_keys(
        self, first: int, last: int, read: list[int], stop: Event
    ) -> Iterator[tuple[Int64, Int64]]:
        low, high = first << 2 * TOKEN_BITS, (last << 2 * TOKEN_BITS) - 1
        with self._connection.cursor() as cursor:
            sql = f"SELECT key, support FROM parts WHERE key BETWEEN {low} AND {high} ORDER BY key"  # noqa: S608
            for batch in cursor.sql(sql).to_arrow_reader(BATCH_ROWS):
                if stop.is_set():
                    raise Stopped
                read[0] += batch.num_rows
                if batch.num_rows:
                    yield batch.column(0).to_numpy(), batch.column(1).to_numpy()

    @property
    def _explicable(self) -> tuple[type[BaseException], ...]:
        """What DuckDB raises when memory or disk run out; anything else is a fault of ours."""
        return self._duckdb.IOException, self._duckdb.OutOfMemoryException

    def _explained(self, error: BaseException) -> AttomatonError:
        reason = str(error).splitlines()[0]
        if isinstance(error, self._duckdb.OutOfMemoryException) and "disk" not in reason.lower():
            return UnsupportedOption(f"the memory is too small for this corpus ({reason}); give more")
        return unwritable(self._work, reason)


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


def empty_edges(place: Path) -> None:
    """Make the folder of the edges; files of ours that are there already go, the manifest first."""
    place.mkdir(parents=True, exist_ok=True)
    (place / MANIFEST).unlink(missing_ok=True)
    for leftover in place.iterdir():
        if leftover.name == QUERIES or EDGES.fullmatch(leftover.name):
            leftover.unlink()


EDGES = re.compile(r"edges-\d+(-\d+)?\.parquet")
"""What we call a file of edges."""


def sum_query_parts(paths: Sequence[Path]) -> pa.Table:
    """The samples read by query, over all parts."""
    tables = [QUERY_SCHEMA.empty_table(), *(read_parquet(path.read_bytes()) for path in paths)]
    counted = pa.concat_tables(tables)
    query, realisable, unrealisable = sum_by_key(
        column(counted, "query").astype(np.int64),
        column(counted, "realisable"),
        column(counted, "unrealisable"),
    )
    columns = {"query": query.astype(np.int32), "realisable": realisable, "unrealisable": unrealisable}
    return make_table(QUERY_SCHEMA, columns)


def _cut_ranges(queries: pa.Table, n_rows: int, *, max_rows: int, threads: int) -> list[tuple[int, int]]:
    """Runs of queries with about ``max_rows`` rows or fewer, judged by their realisable samples."""
    realisable = column(queries, "realisable")
    weights = np.zeros(int(column(queries, "query")[-1]) + 1, np.int64)
    weights[column(queries, "query")] = realisable
    size = max(1, min(max_rows, n_rows // (2 * threads)))
    samples = max(1, int(size * int(realisable.sum()) / max(1, n_rows)))
    return list(pairwise(cut_queries(weights, samples).tolist()))


def _count_rows(paths: Sequence[Path]) -> int:
    return sum(arrow_parquet().read_metadata(exact_file(path)).num_rows for path in paths)
