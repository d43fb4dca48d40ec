"""The Spark engine runs both passes on a cluster, or on the processors of one machine.

The driver runs :class:`SparkEngine`; the code of the executors is in :mod:`~attomaton.engines.executors`. A
pass has three steps. Each task counts packed edges (or choices) in chunks of documents. Spark sends each row
to the slot of its query, and sorts the rows of a slot there, spilling to disk if necessary. An executor sums
equal neighbours in a slot and writes them to a file. The driver only receives reports: rows stay on the
executors. The executors read the shards themselves, by their exact names: Spark's reader would interpret
names as patterns, skip those that begin with ``_``, and turn folders such as ``x=1`` into columns.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import digest_arrays, explained, read_sealed, write_file
from attomaton.base.artifacts.manifests import list_digests
from attomaton.base.errors import CorruptRun
from attomaton.base.progress import Progress, silent
from attomaton.base.remote import AnyPath
from attomaton.base.tables import Bool, Int64, column, empty_table, make_table, write_parquet
from attomaton.corpora.shards import Cuts, Shards
from attomaton.engines import executors, partitions
from attomaton.engines.executors import Slots, cut_slots
from attomaton.engines.partitions import QUERIES_FILE, ChoicePartitions, EdgePartitions, Ties
from attomaton.engines.selection import Selection
from attomaton.engines.sparksession import explained_failure, map_batches, open_session
from attomaton.engines.sums import Counting, Sums
from attomaton.engines.tasks import Stage
from attomaton.engines.work import StageRecords, fingerprint, prepare_work, working_in
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components
from attomaton.graphs.edges import QUERY_SCHEMA
from attomaton.graphs.partitions import cut_partitions

# Tokens counted at once by one Python worker: about 230 MB with their edges at window 32.
SPARK_CHUNK_TOKENS = 1 << 19

# Most realisable samples of a query per task; a query with more is split among several tasks.
TASK_SAMPLES = 1 << 22

# The rows of each pass, before summation.
PACKED_SCHEMAS = {"edges": "slot int, key long, count int", "choices": "slot int, key binary, count long"}

# Least and most tokens per task, if row groups allow.
LEAST_TASK_TOKENS = 1 << 20
MOST_TASK_TOKENS = 1 << 24

# Names of a file of edges, and of the manifest entry beside it.
EDGES_FILE_NAME = re.compile(r"(edges|nothing)-\d+(-[0-9a-f]+)?\.(parquet|json)|nothing\.parquet")

_BatchFunction = Callable[[Iterable[Any]], Iterable[Any]]  # of record batches
AnyPass = TypeVar("AnyPass", bound=executors.TaskKernel)


@dataclass(frozen=True, eq=False)
class SparkEngine:
    """Run the two corpus passes over shards on Spark.

    Attributes
    ----------
    shards : Shards
        The tokenised corpus, at the same paths on every machine.
    work : Path
        A folder for results, at the same path on every machine. Only one run at a time can use it. Finished
        passes and partitions with equal shards and settings are reused. Copy the results before you delete
        this folder, because tables are read from it.
    selection : Selection
        The queries and edges to keep.
    master : str, optional
        The Spark master, such as ``local[2]`` or ``spark://host:7077``; the default is the active session, or
        ``local``.
    memory : str or int, optional
        Memory of a local session; the default is 60 % of the available memory. The memory of a
        cluster is configured on the cluster.
    threads : int, optional
        Threads of a local session; the default is all processors.
    progress : callable
        A function that is called with the name of a stage, the amount done and the total.

    Examples
    --------
    >>> import tempfile
    >>> from attomaton.graphs.components import find_components
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     ids, offsets = np.array([0, 2, 1, 1, 2, 0, 1, 2, 2], np.int32), np.array([0, 9])
    ...     shards = Shards.write(Path(folder, "shards"), ids, offsets, n_tokens=3)
    ...     SparkEngine(shards, Path(folder, "work"), Selection(window=3)).edges()
    EdgePartitions(8 edges in 1 partitions)
    """

    shards: Shards
    work: Path
    selection: Selection = Selection()  # noqa: RUF009  frozen
    master: str | None = None
    memory: str | int | None = None
    threads: int | None = None
    progress: Progress = silent

    @cached_property
    def session(self) -> Any:
        """The Spark session."""
        return open_session(self.master, self.threads, self.memory)

    @cached_property
    def selected(self) -> Bool:
        """Whether each token is a selected query, shape (n_tokens,)."""
        selected = self.selection.selected(self.shards.n_tokens)
        if self.selection.top is None:
            return selected
        realisable = np.zeros(len(selected), np.int64)
        counted = self._count_samples(selected)
        realisable[column(counted, "query")] = column(counted, "realisable")
        return self.selection.largest(selected, realisable)

    def edges(self) -> EdgePartitions:
        """First pass: count every edge, and write the edges to sorted Parquet files of whole queries."""
        digest = self._fingerprint({**self._settings, "min_support": self.selection.min_support})
        about = {"n_tokens": self.shards.n_tokens, "fingerprint": digest}
        with working_in(self.work) as work:
            folder = work / "edges"
            try:
                return partitions.open_edges(folder, about, self._check_files)
            except CorruptRun:
                pass  # not finished, or of another corpus or settings
            with explained(folder):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / partitions.EDGES_MANIFEST).unlink(missing_ok=True)
                for leftover in folder.iterdir():
                    if leftover.name == QUERIES_FILE or EDGES_FILE_NAME.fullmatch(leftover.name):
                        leftover.unlink()
                queries = self._samples
                counted = write_file(folder / QUERIES_FILE, lambda path: write_parquet(queries, str(path)))
                write = executors.WriteEdges(folder, self.selection.min_support)
                pack = self._make_pass(executors.PackEdges, self._borders)
                entries = self._count("edges", folder, pack, write, partitions.write_edges)
                return partitions.finish_edges(folder, entries, {**counted, "name": QUERIES_FILE}, about)

    def choices(self, components: Components | None) -> ChoiceTable:
        """Second pass: count the choices inside each label's component, or in whole contexts for None."""
        return self.choice_partitions(components, self._borders).load()

    def choice_partitions(self, within: Components | Ties | None, borders: Int64) -> ChoicePartitions:
        """Count the choices; file ``i`` has the queries ``borders[i] … borders[i + 1] − 1``."""
        digest = within.fingerprint if isinstance(within, Ties) else None
        if isinstance(within, Components):
            digest = digest_arrays(*(column(within.nodes, name) for name in within.nodes.schema.names))
        settings = {**self._settings, "within": digest, "borders": borders.tolist()}
        with working_in(self.work) as work, explained(work):
            folder = work / "choices"
            folder.mkdir(exist_ok=True)
            stage_records = StageRecords(folder, "all", self._fingerprint(settings))
            record = stage_records.read(0)
            if record is None or not self._are_whole(folder, record["files"]):
                pack = self._make_pass(executors.PackChoices, borders, components=self._share(folder, within))
                write = executors.WriteChoices(folder)
                counted = self._count("choices", folder, pack, write, partitions.write_choices)
                record = stage_records.write(0, {"files": {entry["name"]: entry for entry in counted}})
        entries = tuple(record["files"].values())
        return ChoicePartitions(borders, tuple(folder / entry["name"] for entry in entries), entries)

    # A function that returns the components on an executor, from one file; None for whole contexts.
    def _share(self, folder: Path, within: Components | Ties | None) -> Callable[[], Components | None]:
        if within is None:
            return type(None)  # calling it returns None
        if isinstance(within, Ties):  # in files that the driver may not reach: an executor joins them
            name = self._run_tasks("joining ties", 1, executors.JoinTies(within, folder))[0]["name"]
        else:
            path = folder / f"ties-{token_hex(6)}.arrow"
            name = executors.store_arrow(path, [within.nodes], within.nodes.schema)["name"]
        return executors.StoredComponents(folder / name, self.shards.n_tokens)

    def sums(self, count: Counting) -> dict[str, Sums]:
        """Sum by key what ``count`` lists for each chunk of whole documents; the driver stores the sums."""
        with working_in(self.work) as work, explained(work):
            folder = work / count.name
            folder.mkdir(exist_ok=True)
            stage_records = StageRecords(folder, "all", self._fingerprint(count.settings))
            record = stage_records.read(0)
            if record is None or not self._are_whole(folder, record["files"]):
                task = executors.share_tables(self._cuts, count, folder)
                rows = self._map_documents(task, executors.LISTED).groupBy("kind", "key").sum("high", "low")
                store = executors.StoreRows(folder, "sums")
                stored = self._collect(count.name, map_batches(rows, store, executors.REPORT))
                record = stage_records.write(0, {"files": {entry["name"]: entry for entry in stored}})
        return executors.read_sums([folder / name for name in record["files"]], count)

    def run_partitions(self, stage: Stage, weights: Sequence[int]) -> list[dict[str, Any]]:
        """Run a stage on partitions 0, 1, 2 … of the queries, on the executors; return the record of each.

        The heaviest partition is run first. Partitions that an earlier run finished are reused.
        """
        with working_in(self.work) as work, explained(work):
            folder = work / stage.name
            folder.mkdir(exist_ok=True)
            stage_records = StageRecords(folder, stage.name, stage.fingerprint)
            stage_records.clear(len(weights))
            heaviest = sorted(range(len(weights)), key=lambda number: -weights[number])
            run = executors.RunStage(stage, stage_records, heaviest)
            self._run_tasks(stage.title, len(weights), run)
            return [
                {**_checked(stage_records.read(number), folder), "folder": str(folder)}
                for number in range(len(weights))
            ]

    @cached_property
    def _samples(self) -> pa.Table:
        return self._count_samples(self.selected)

    # The number of samples read, by query: one cheap pass.
    def _count_samples(self, selected: Bool) -> pa.Table:
        no_slots = Slots(np.zeros(1, np.int64), np.zeros(0, np.int64))  # samples are not sent to slots
        count = executors.CountSamples(self._cuts, self.selection, selected, SPARK_CHUNK_TOKENS, no_slots)
        counted = self._map_documents(count, "query int, realisable long, unrealisable long")
        by_query = counted.groupBy("query").sum("realisable", "unrealisable")
        with explained(self.work):
            folder = Path(tempfile.mkdtemp(prefix="samples-", dir=prepare_work(self.work)))
        store = executors.StoreRows(folder)
        stored = self._collect("samples", map_batches(by_query.coalesce(1), store, executors.REPORT))
        if not stored:
            return empty_table(QUERY_SCHEMA)
        rows: Any = executors.open_arrow(folder / stored[0]["name"])
        ordered = rows.sort_by("query")
        # Spark calls the sum of the column x "sum(x)".
        columns = zip(QUERY_SCHEMA.names, ordered.schema.names, strict=True)
        return make_table(QUERY_SCHEMA, {name: column(ordered, summed) for name, summed in columns})

    # The borders of the partitions: whole queries, with about equal numbers of realisable samples.
    @cached_property
    def _borders(self) -> Int64:
        return cut_partitions(self._samples, self.shards.n_tokens)

    # A pass over the documents that sends rows to the slots of the partitions with these borders.
    def _make_pass(self, kernel: Callable[..., AnyPass], borders: Int64, **options: Any) -> AnyPass:
        slots = cut_slots(self._samples, borders, TASK_SAMPLES)
        return kernel(self._cuts, self.selection, self.selected, SPARK_CHUNK_TOKENS, slots, **options)

    # Run a pass, the function ``pack`` on tasks and then ``write`` on slots; join the files of a query.
    #
    # Returns the manifest entry of each partition's file. ``write_rows`` writes the files of empty slots.
    def _count(
        self,
        kind: str,
        folder: Path,
        pack: executors.PackEdges | executors.PackChoices,
        write: Callable[..., Any],
        write_rows: Callable[..., dict[str, Any]],
    ) -> list[dict[str, Any]]:
        slots = pack.slots
        rows = self._map_documents(pack, PACKED_SCHEMAS[kind])
        merged = rows.repartitionById(len(slots), "slot").select("key", "count")
        notes = self._collect(kind, map_batches(merged.sortWithinPartitions("key"), write, executors.REPORT))
        entries = _read_notes(notes, len(slots), folder, write_rows)
        first_slots = np.flatnonzero(np.diff(slots.partitions, prepend=-1))  # of each partition
        by_partition = [entries[start:stop] for start, stop in pairwise([*first_slots.tolist(), len(slots)])]
        split = [files for files in by_partition if len(files) > 1]
        if not split:
            return entries
        paths = [[folder / entry["name"] for entry in files] for files in split]
        joined_notes = self._run_tasks(kind, len(paths), executors.JoinFiles(paths, kind, folder))
        joined = iter(_read_notes(joined_notes, len(paths), folder, write_rows))
        return [next(joined) if len(files) > 1 else files[0] for files in by_partition]

    # The shards cut into tasks: three per processor, if each has enough to do.
    @cached_property
    def _cuts(self) -> Cuts:
        tokens_per_task = sum(self.shards.sizes) // (3 * self.session.sparkContext.defaultParallelism)
        return self.shards.cut(min(max(tokens_per_task, LEAST_TASK_TOKENS), MOST_TASK_TOKENS))

    # A frame of the rows that a function of task numbers yields; the tasks are those of `_cuts`.
    def _map_documents(self, function: _BatchFunction, schema: str) -> Any:
        return map_batches(self._number_tasks(len(self._cuts)), function, schema)

    def _number_tasks(self, n_tasks: int) -> Any:
        return self.session.range(0, n_tasks, 1, n_tasks)  # each number is in a Spark partition of its own

    # Call a function with each task number 0 … n_tasks − 1; return the reports.
    def _run_tasks(self, title: str, n_tasks: int, function: _BatchFunction) -> list[dict[str, Any]]:
        return self._collect(title, map_batches(self._number_tasks(n_tasks), function, executors.REPORT))

    @property
    def _settings(self) -> dict[str, Any]:
        return {"reach": self.selection.reach, "selected": digest_arrays(self.selected)}

    def _fingerprint(self, settings: Mapping[str, Any]) -> str:
        return fingerprint(self.shards, settings, self._digests)

    @cached_property
    def _digests(self) -> list[str]:
        return self._digest_files("checking shards", self.shards.paths)

    # The digest of each file, computed on the executors; empty if the file is missing.
    def _digest_files(self, stage: str, paths: Sequence[AnyPath]) -> list[str]:
        digests = self._run_tasks(stage, len(paths), executors.DigestFiles(paths))
        return [row["sha256"] for row in sorted(digests, key=lambda row: row["number"])]

    # Whether the executors find these files with the digests in the manifest entries `files`.
    def _are_whole(self, folder: Path, files: Mapping[str, Any]) -> bool:
        listed = list_digests(folder, files)
        digests = self._digest_files("checking files", [folder / name for name in listed])
        return digests == list(listed.values())

    def _check_files(self, folder: Path, files: Mapping[str, Any], *, again: str) -> None:
        if not self._are_whole(folder, files):
            raise CorruptRun(f"files in {folder} were altered after they were written; {again}")

    # Run the job that makes a frame of reports; return the reports, in the order of the partitions.
    def _collect(self, stage: str, reports: Any) -> list[dict[str, Any]]:
        total = sum(self.shards.sizes)
        self.progress(stage, 0, total)
        with explained_failure():
            collected = [json.loads(row["report"]) for row in reports.collect()]
        self.progress(stage, total, total)
        return collected


# The manifest entries of files, by number. A note says where an executor wrote the entry.
def _read_notes(
    notes: list[dict[str, Any]],
    n_files: int,
    folder: Path,
    write_rows: Callable[[Path, list[Any]], dict[str, Any]],
) -> list[dict[str, Any]]:
    path_of = {note["number"]: folder / note["note"] for note in notes}
    return [
        _checked(read_sealed(path_of[number]), folder)
        if number in path_of
        # Spark omits a slot without rows: an empty file is written here.
        else write_rows(folder / executors.name_attempt("nothing", number), [])
        for number in range(n_files)
    ]


def _checked(record: dict[str, Any] | None, folder: Path) -> dict[str, Any]:
    if record is None:  # the driver does not see the file
        raise CorruptRun(
            f"{folder} does not contain a file that an executor wrote there; give a work folder that all "
            "machines share"
        )
    return record
