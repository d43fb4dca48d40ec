"""Merge the sorted files that tasks wrote, with bounded memory.

The engine opens a :class:`Merger` and calls :meth:`Merger.edges`, :meth:`Merger.choices` or
:meth:`Merger.sums`. DuckDB sorts edges, each one packed 63-bit key, and equal neighbours are then summed;
that costs about half as much as a hash aggregation in DuckDB. Each partition (a range of whole queries) is
merged separately into one file, so that little is spilled.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import explained, write_file
from attomaton.base.artifacts.files import unwritable
from attomaton.base.artifacts.parted import partition_name, write_partition
from attomaton.base.errors import UnsupportedOption, needing
from attomaton.base.progress import Progress
from attomaton.base.tables import Int64, column, empty_table, make_table, read_parquet, write_parquet
from attomaton.corpora.samples import TOKEN_BITS
from attomaton.engines import partitions
from attomaton.engines.partitions import QUERIES_FILE, ChoicePartitions, EdgePartitions
from attomaton.engines.sorted_choices import SortedChoices, merge_partition
from attomaton.engines.sums import Sums, merge_sums, sums_of
from attomaton.engines.tasks import run_weighed
from attomaton.engines.work import Record, StageRecords, clear_drafts
from attomaton.graphs.choices import CHOICE_FILE, CHOICE_SCHEMA
from attomaton.graphs.edges import QUERY_SCHEMA, sum_queries
from attomaton.graphs.partitions import cut_partitions

DUCKDB_BATCH_ROWS = 1 << 20  # rows of a batch read from DuckDB
BYTES_PER_ROW = 128  # generous estimate of the memory of DuckDB and this process per row being sorted

# Names that DuckDB takes literally inside quotes.
LITERAL_NAME = re.compile(r"([A-Z]:)?[\w/.-]+", re.ASCII)

_arrow: Any = pa  # its type stubs leave some functions partly unknown


class MergeStopped(Exception):
    """Another partition failed, or the user interrupted; never shown to users."""


def import_duckdb(feature: str) -> Any:
    """The module ``duckdb``, or an error that says how to install what ``feature`` needs."""
    with needing(feature):
        import duckdb
    return duckdb


class Merger:
    """Merges files in the folder ``work``: DuckDB with a memory limit, and a spill folder that is removed."""

    def __init__(self, work: Path, memory: int, threads: int, progress: Progress) -> None:
        self._work = work
        self._memory = memory  # bytes
        self._threads = threads
        self._progress = progress
        self._spill = work / "spill"
        self._open = ExitStack()  # closes the link to the work folder
        self._stop = Event()  # set if a partition fails or the user interrupts

    def __enter__(self) -> Self:
        shutil.rmtree(self._spill, ignore_errors=True)
        return self

    # The work folder, under a name that DuckDB takes literally.
    @cached_property
    def _plain(self) -> Path:
        return self._open.enter_context(plainly_named(self._work))

    @cached_property
    def _duckdb(self) -> Any:
        return import_duckdb("the engine duckdb")

    @cached_property
    def _connection(self) -> Any:
        settings: dict[str, Any] = {
            "threads": self._threads,
            "memory_limit": f"{self._memory // 2}B",  # the other half is for this process
            "temp_directory": str(self._plain / self._spill.name),
            "preserve_insertion_order": False,  # every query has ORDER BY
            "autoinstall_known_extensions": False,  # no downloads
            "autoload_known_extensions": False,
        }
        connection = self._duckdb.connect(config=settings)
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET parquet_metadata_cache = true")
        return connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if "_connection" in self.__dict__:  # the cached property was used
            self._connection.close()
        self._open.close()
        shutil.rmtree(self._spill, ignore_errors=True)
        if error is None:
            return
        clear_drafts(self._work)
        out_of_memory = self._duckdb.OutOfMemoryException
        if not isinstance(error, (self._duckdb.IOException, out_of_memory)):
            return  # a bug of ours: memory and disk have not run out
        reason = str(error).splitlines()[0]
        # DuckDB raises the same exception if the spill folder is full.
        if isinstance(error, out_of_memory) and "disk" not in reason.lower():
            raise UnsupportedOption(
                f"the memory limit is too small for this corpus ({reason}); increase memory"
            ) from error
        raise unwritable(self._work, reason) from error

    def edges(
        self, unmerged: Mapping[str, Sequence[Path]], *, min_support: int, about: Mapping[str, Any]
    ) -> EdgePartitions:
        """Merge files of packed keys into sorted Parquet files of whole queries, in the folder ``edges``."""
        # `unmerged` lists files by kind: "edges" (key, support) and "queries" (samples by query).
        folder = self._work / "edges"
        queries = sum_samples(unmerged.get("queries", []))
        borders = cut_partitions(queries, int(about["n_tokens"]))
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / partitions.EDGES_MANIFEST).unlink(missing_ok=True)
            counted = write_file(folder / QUERIES_FILE, lambda path: write_parquet(queries, str(path)))

            paths = unmerged.get("edges", [])
            if paths:
                self._create_view(paths)

            def merge(number: int, file: Path) -> dict[str, Any]:
                keys = self._sorted_keys(*borders[number : number + 2].tolist()) if paths else iter(())
                return partitions.write_edges(file, partitions.sum_neighbours(keys), min_support=min_support)

            stage_records = StageRecords(folder, "edges", str(about["fingerprint"]))
            weights = _estimate_rows(queries, borders, sum(map(partitions.count_rows, paths)))
            entries = self._merge_partitions(stage_records, merge, weights)
            return partitions.finish_edges(folder, entries, {**counted, "name": QUERIES_FILE}, about)

    def choices(
        self, unmerged: Mapping[str, Sequence[Path]], borders: Int64, fingerprint: str
    ) -> ChoicePartitions:
        """Merge files of sorted choices, without DuckDB, into Parquet files in the folder ``choices``."""
        folder = self._work / "choices"
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            files = [SortedChoices(path) for path in unmerged.get("choices", [])]

            def merge(number: int, file: Path) -> dict[str, Any]:
                rows = self._unless_stopped(merge_partition(files, number))
                return write_partition(file, rows, CHOICE_SCHEMA, CHOICE_FILE)

            stage_records = StageRecords(folder, "choices", fingerprint)
            # the number of batches of each partition, plus 1
            weights = sum((np.diff(file.starts) for file in files), np.ones(len(borders) - 1, np.int64))
            entries = self._merge_partitions(stage_records, merge, weights.tolist())
        return ChoicePartitions(borders, tuple(folder / entry["name"] for entry in entries), tuple(entries))

    def sums(self, paths: Sequence[Path]) -> Sums:
        """Add up the sums in files, by key, in memory."""
        if not paths:
            return merge_sums([])
        self._create_view(paths)
        added = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("high", "low"))
        sql = f"SELECT key, {added} FROM unmerged GROUP BY key ORDER BY key"  # noqa: S608  (names of ours)
        batches = [*self._batches(sql, DUCKDB_BATCH_ROWS)]
        return sums_of(_arrow.Table.from_batches(batches)) if batches else merge_sums([])

    # Call ``merge(number, file)`` for each partition, in threads; return the entries of the files.
    def _merge_partitions(
        self,
        stage_records: StageRecords,
        merge: Callable[[int, Path], dict[str, Any]],
        weights: Sequence[int],
    ) -> list[dict[str, Any]]:
        def work(number: int) -> Record:
            entry = merge(number, stage_records.folder / partition_name(stage_records.stage, number))
            return {"files": {entry["name"]: entry}, "entry": entry}

        def report(done: int) -> None:
            self._progress("merging", done, sum(weights))

        report(0)
        stage_records.clear(len(weights))
        records = run_weighed(
            lambda number: stage_records.run(number, work),
            weights,
            threads=self._threads,
            max_weight=self._memory // (BYTES_PER_ROW * self._threads),
            report=report,
            stop=self._stop,
        )
        return [record["entry"] for record in records]

    # Create the view ``unmerged`` of exactly these files: names are never interpreted as patterns.
    def _create_view(self, paths: Sequence[Path]) -> None:
        listed = ", ".join(f"'{self._plain / path.name}'" for path in paths)
        rows = f"read_parquet([{listed}], hive_partitioning = false)"
        self._connection.execute(f"CREATE OR REPLACE VIEW unmerged AS SELECT * FROM {rows}")  # noqa: S608

    # The packed edges of the queries first … stop − 1 with their support, sorted; keys may be equal.
    def _sorted_keys(self, first: int, stop: int) -> Iterator[tuple[Int64, Int64]]:
        # The query is in the high bits of a key, above winner and loser.
        low = first << 2 * TOKEN_BITS
        high = (stop << 2 * TOKEN_BITS) - 1
        within = f"WHERE key BETWEEN {low} AND {high}"
        sql = f"SELECT key, support FROM unmerged {within} ORDER BY key"  # noqa: S608  (numbers)
        for batch in self._batches(sql, DUCKDB_BATCH_ROWS):
            yield batch.column(0).to_numpy(), batch.column(1).to_numpy()

    # The record batches of a query's result, without empty ones.
    def _batches(self, sql: str, size: int) -> Iterator[Any]:
        with self._connection.cursor() as cursor:
            batches = self._unless_stopped(cursor.sql(sql).arrow(size))
            yield from (batch for batch in batches if batch.num_rows)

    # The tables, until another partition fails; then :class:`MergeStopped` is raised.
    def _unless_stopped(self, tables: Iterable[Any]) -> Iterator[Any]:
        for table in tables:
            if self._stop.is_set():
                raise MergeStopped
            yield table


@contextmanager
def plainly_named(folder: Path) -> Generator[Path]:
    """The folder, or a link to it if DuckDB would interpret its name as a pattern or a column."""
    target = folder.absolute()
    if LITERAL_NAME.fullmatch(target.as_posix()):
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="attomaton-") as name:
        if not LITERAL_NAME.fullmatch(Path(name).as_posix()):
            raise UnsupportedOption(
                f"DuckDB would interpret the names of the work folder {str(folder)!r} and of the folder for "
                f"temporary files {name!r} as patterns; set TMPDIR to a folder with a plain name"
            )
        link = Path(name, "work")
        link.symlink_to(target, target_is_directory=True)
        yield link


def sum_samples(paths: Sequence[Path]) -> pa.Table:
    """The number of samples read, by query, summed over files."""
    tables = [empty_table(QUERY_SCHEMA), *(read_parquet(path.read_bytes()) for path in paths)]
    query, realisable, unrealisable = sum_queries(tables)
    columns = {"query": query.astype(np.int32), "realisable": realisable, "unrealisable": unrealisable}
    return make_table(QUERY_SCHEMA, columns)


# The approximate number of the `n_rows` rows in each partition, in proportion to its samples.
def _estimate_rows(queries: pa.Table, borders: Int64, n_rows: int) -> list[int]:
    realisable = column(queries, "realisable")
    partition_of = np.searchsorted(borders, column(queries, "query"), side="right") - 1
    shares = np.bincount(partition_of, realisable, len(borders) - 1) / max(1, int(realisable.sum()))
    return [int(share * n_rows) + 1 for share in shares]
