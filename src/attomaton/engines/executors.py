"""Code for Spark's executors: passes over documents, writers of files, other tasks, and sums.

The driver (`attomaton.engines.spark`) makes instances of the classes with a method ``__call__(batches)`` and
gives them to Spark's ``mapInArrow``. An executor calls its copy with the record batches of one Spark
partition, and the call yields record batches. ``WriteEdges`` and ``WriteChoices`` read sorted rows: keys in
column 0, their counts in column 1. ``StoreRows`` reads any rows. All other classes read numbers of tasks,
files or partitions, in column 0 (`task_numbers`). What writes files yields reports (`report_task`).
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import explained, identify_file, write_file, write_sealed
from attomaton.base.artifacts.parted import write_partition
from attomaton.base.remote import AnyPath
from attomaton.base.tables import Bool, Float64, Int64, column, empty_table, exact_file, rows_to_bytes
from attomaton.corpora.documents import Chunk, regroup
from attomaton.corpora.samples import TOKEN_BITS
from attomaton.corpora.shards import Cuts
from attomaton.engines import sums
from attomaton.engines.kernel import choices_of_chunk, query_rows
from attomaton.engines.partitions import Ties, stream_rows, sum_neighbours, write_choices, write_edges
from attomaton.engines.selection import Selection
from attomaton.engines.sums import Counting, Sums
from attomaton.engines.tasks import Stage
from attomaton.engines.work import StageRecords
from attomaton.graphs.choices import CHOICE_FILE, CHOICE_SCHEMA, encode_choices
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components
from attomaton.graphs.edges import EDGE_FILE, EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable
from attomaton.graphs.partitions import cut_queries
from attomaton.graphs.windows import Links, link_repeats, window_edges

SPARK_BATCH_ROWS = 1 << 17  # most rows of a record batch given to Spark
FILE_BATCH_ROWS = 1 << 20  # most rows of a record batch in an Arrow file
EDGES_PER_TOKEN = 16  # uncounted edges in memory at a time, for each token of a chunk

# Schema of a task's report to the driver: a few plain values as JSON. Records of partitions are files.
REPORT = "report string"

# The rows of `ListSums`, before summation; `kind` is a number.
LISTED = "kind int, key long, high long, low long"

# Columns of each kind of file, and its writing options.
FILE_FORMATS = {"edges": (EDGE_SCHEMA, EDGE_FILE), "choices": (CHOICE_SCHEMA, CHOICE_FILE)}

_arrow: Any = pa  # its type stubs leave some functions partly unknown
SparkBatches = Iterable[Any]  # pyarrow.RecordBatch


# Slots: ranges of edges, one for each writing task.


@dataclass(frozen=True, eq=False)
class Slots:
    """Ranges of packed edges, each counted by one task, and the partition to which each belongs.

    Slot i has the packed edges (query, winner, loser) ``keys[i] … keys[i + 1] − 1``.
    """

    keys: Int64
    partitions: Int64

    def __len__(self) -> int:
        return len(self.partitions)

    def find(self, query: Int64, winner: Int64) -> Int64:
        """The slot of each choice, from its query and its winner, shape (n_choices,)."""
        # A slot may split the losers of a winner. The choice goes to the slot of the lowest loser, 0.
        key = query.astype(np.int64) << 2 * TOKEN_BITS | winner.astype(np.int64) << TOKEN_BITS
        return np.searchsorted(self.keys, key, side="right") - 1


def cut_slots(queries: pa.Table, borders: Int64, most_samples: int) -> Slots:
    """A slot for each partition, or several if it is a single query with more than ``most_samples`` samples.

    Such a query is cut by winner, and by loser if a single winner is too large. The cuts come from a model:
    winners and losers are drawn independently, each token with its share of all samples, as a query. A bad
    estimate only makes tasks uneven.
    """
    n_tokens = int(borders[-1])
    query, realisable = column(queries, "query"), column(queries, "realisable")
    samples = np.zeros(n_tokens)  # by query
    samples[query] = realisable + column(queries, "unrealisable")
    share = samples / max(1.0, float(samples.sum()))
    n_realisable = np.zeros(n_tokens, np.int64)  # by query
    n_realisable[query] = realisable
    keys: list[int] = []
    partitions: list[int] = []
    for partition, (first, stop) in enumerate(pairwise(borders.tolist())):
        starts = [0]  # one slot, from the first edge of the partition
        if stop - first == 1 and n_realisable[first] > most_samples:
            wins = n_realisable[first] * share  # estimated samples of the query that each token wins
            starts = _cut_query(wins, share, most_samples)
        # A packed edge has the query in its high bits, above winner and loser.
        keys += [(first << 2 * TOKEN_BITS) + start for start in starts]
        partitions += [partition] * len(starts)
    return Slots(np.array([*keys, n_tokens << 2 * TOKEN_BITS], np.int64), np.array(partitions, np.int64))


# Where the slots of one query begin, as packed (winner, loser).
def _cut_query(wins: Float64, share: Float64, most_samples: int) -> list[int]:
    # `wins` (n_tokens,) are the estimated samples that each token wins, and `share` (n_tokens,) is the
    # estimated share of a winner's samples that each token loses
    starts: list[int] = []
    for winner in cut_queries(np.ceil(wins).astype(np.int64), most_samples)[:-1].tolist():
        losers = [0]  # all losers are in one slot
        if wins[winner] > most_samples:
            losses = wins[winner] * share  # estimated samples that each token loses against this winner
            losers = cut_queries(np.ceil(losses).astype(np.int64), most_samples)[:-1].tolist()
        starts += [(winner << TOKEN_BITS) + loser for loser in losers]
    return starts


# Passes: task numbers to the rows of documents.


@dataclass(frozen=True, eq=False)
class TaskKernel:
    """Turns task numbers into chunks of about ``chunk_tokens`` tokens; base class of the passes."""

    cuts: Cuts
    selection: Selection
    selected: Bool
    chunk_tokens: int
    slots: Slots

    def chunks(self, batches: SparkBatches) -> Iterator[Chunk]:
        tasks = task_numbers(batches)
        read = (chunk for task in tasks for chunk in self.cuts.chunks(task, self.chunk_tokens))
        return regroup(read, self.chunk_tokens, self.selection.reach)


class CountSamples(TaskKernel):
    """Tasks → (query, realisable, unrealisable), one row for each query of a partition."""

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        realisable = np.zeros(len(self.selected), np.int64)
        unrealisable = np.zeros(len(self.selected), np.int64)
        for chunk in self.chunks(batches):
            links = link_repeats(chunk, self.selection.reach, self.selected)
            realisable += links.realisable
            unrealisable += links.unrealisable
        no_links = np.empty(0, np.int32)  # only the counts are sent
        yield from batches_of(query_rows(Links(no_links, no_links, realisable, unrealisable)))


class PackEdges(TaskKernel):
    """Tasks → (slot, key, count): edges as packed keys, counted within a chunk."""

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        reach, selected = self.selection.reach, self.selected
        max_keys = EDGES_PER_TOKEN * self.chunk_tokens
        for chunk in self.chunks(batches):
            links = link_repeats(chunk, reach, selected)
            for keys, support in window_edges(
                chunk, links, window=reach, selected=selected, max_keys=max_keys
            ):
                # The keys are sorted, so those of slot i are keys[starts[i] : starts[i + 1]].
                starts = np.searchsorted(keys, self.slots.keys)
                slot = np.repeat(np.arange(len(self.slots), dtype=np.int32), np.diff(starts))
                yield from batches_of(_arrow.table({"slot": slot, "key": keys, "count": support}))


@dataclass(frozen=True, eq=False)
class PackChoices(TaskKernel):
    """Tasks → (slot, key, count): choices as byte strings, counted within a chunk."""

    components: Callable[[], Components | None]

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        components = self.components()
        for chunk in self.chunks(batches):
            choices = choices_of_chunk(
                chunk, components, selection=self.selection, selected=self.selected, threads=1
            )
            slot = self.slots.find(choices["query"], choices["winner"]).astype(np.int32)
            rows = rows_to_bytes(*encode_choices(choices)).cast(pa.binary())
            yield from batches_of(_arrow.table({"slot": slot, "key": rows, "count": choices["count"]}))


@dataclass(frozen=True)
class StoredComponents:
    """Components as a file of nodes, which the executors of a machine share through the page cache."""

    path: Path
    n_tokens: int

    def __call__(self) -> Components:
        # Choices depend only on the nodes: neither edges nor the order are stored.
        no_edges = EdgeTable(empty_table(EDGE_SCHEMA), empty_table(QUERY_SCHEMA), self.n_tokens)
        return Components(no_edges, open_arrow(self.path), empty_table(ORDER_SCHEMA))


# Writers: each Spark partition (a slot, a number of files, or any rows) to one file.


@dataclass(frozen=True)
class WriteEdges:
    """Sorted (key, count) → one Parquet file of edges; reports the name of its entry."""

    folder: Path
    min_support: int

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        runs = ((batch.column(0).to_numpy(), batch.column(1).to_numpy()) for batch in filled(batches))
        with explained(self.folder):
            slot = _spark_partition()
            file = self.folder / name_attempt("edges", slot)
            entry = write_edges(file, sum_neighbours(runs), min_support=self.min_support)
            yield _report_entry(self.folder, entry, slot)


@dataclass(frozen=True)
class WriteChoices:
    """Sorted (key, count) → one Parquet file of choices; reports the name of its entry."""

    folder: Path

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        rows = ((batch.column(0), batch.column(1).to_numpy()) for batch in filled(batches))
        with explained(self.folder):
            slot = _spark_partition()
            file = self.folder / name_attempt("choices", slot)
            yield _report_entry(self.folder, write_choices(file, rows), slot)


@dataclass(frozen=True)
class JoinFiles:
    """Numbers → Parquet files of one partition (edges or choices) joined into one; reports the name."""

    files: Sequence[Sequence[Path]]
    kind: str
    folder: Path

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        schema, options = FILE_FORMATS[self.kind]
        for number in task_numbers(batches):
            rows = (table for file in self.files[number] for table in stream_rows(file, schema))
            with explained(self.folder):
                entry = write_partition(self.folder / name_attempt(self.kind, number), rows, schema, options)
                yield _report_entry(self.folder, entry, number)


@dataclass(frozen=True)
class StoreRows:
    """All rows → one Arrow file; reports its entry."""

    folder: Path
    kind: str = "rows"

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        rows = [_arrow.Table.from_batches([batch]) for batch in filled(batches)]
        if rows:
            path = self.folder / f"{self.kind}-{token_hex(6)}.arrow"
            yield report_task(0, **store_arrow(path, rows, rows[0].schema))


@dataclass(frozen=True)
class JoinTies:
    """The ties of all partitions → one Arrow file; reports its name. One partition is in memory at a time."""

    ties: Ties
    folder: Path

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        for number in task_numbers(batches):
            with explained(self.folder):
                path = self.folder / f"ties-{token_hex(6)}.arrow"
                entry = store_arrow(path, self.ties, NODE_SCHEMA)
            yield report_task(number, name=entry["name"])


# Other tasks.


@dataclass(frozen=True, eq=False)
class RunStage:
    """Task numbers → a stage run on a partition, and recorded; reports the number of the partition.

    ``order`` maps the number of a task to that of its partition. A partition that an earlier run finished is
    reused. Several attempts may record a partition: each names complete files with equal bytes.
    """

    stage: Stage
    stage_records: StageRecords
    order: Sequence[int]

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        folder = self.stage_records.folder
        attempt = f"-{token_hex(6)}"
        for task in task_numbers(batches):
            number = self.order[task]
            with explained(folder):
                self.stage_records.run(number, lambda number: self.stage(folder, number, attempt=attempt))
            yield report_task(number)


@dataclass(frozen=True)
class DigestFiles:
    """File numbers → their digests; for a URL, of size and tag if the store provides a tag."""

    paths: Sequence[AnyPath]

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        for number in task_numbers(batches):
            path = self.paths[number]
            yield report_task(number, sha256=identify_file(path) if path.is_file() else "")


# Sums by key: a pass, and the reading of its result.


@dataclass(frozen=True, eq=False)
class ListSums:
    """Tasks → (kind, key, high, low), summed within a chunk; the tables of ``count`` are Arrow files."""

    cuts: Cuts
    count: Counting
    tables: Mapping[str, Path]

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        count = self.count.with_tables({name: open_arrow(path) for name, path in self.tables.items()})
        number_of = {kind: number for number, kind in enumerate(count.sizes)}  # as in `read_sums`
        for task in task_numbers(batches):
            for chunk in self.cuts.chunks(task, sums.DOCUMENT_CHUNK_TOKENS):
                for kind, batch in sums.sum_in_batches(chunk, count, sums.MOST_BATCH_SUMS):
                    number = np.full(len(batch), number_of[kind], np.int32)
                    yield from batches_of(batch.to_table().add_column(0, "kind", _arrow.array(number)))


def share_tables(cuts: Cuts, count: Counting, folder: Path) -> ListSums:
    """The pass that is sent to executors: the lookup tables of ``count`` are files, which are not sent."""
    paths = {name: folder / f"{name}-{token_hex(6)}.arrow" for name in count.tables}
    for name, path in paths.items():
        store_arrow(path, [count.tables[name]], count.tables[name].schema)
    empty = {name: table.slice(0, 0) for name, table in count.tables.items()}
    return ListSums(cuts, count.with_tables(empty), paths)


def read_sums(paths: Sequence[Path], count: Counting) -> dict[str, Sums]:
    listed: dict[str, list[Sums]] = {kind: [] for kind in count.sizes}
    for path in paths:
        table = open_arrow(path)
        kinds, *rows = (column(table, name) for name in ("kind", "key", "sum(high)", "sum(low)"))
        for number, kind in enumerate(count.sizes):
            listed[kind].append(sums.add_rows(*(values[kinds == number] for values in rows)))
    return {kind: sums.merge_sums(tables) for kind, tables in listed.items()}


# Files and reports.


def store_arrow(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> dict[str, Any]:
    """Write tables of this schema as a memory-mappable Arrow file; return its name and digest."""

    def write(draft: Path) -> None:
        with exact_file(draft, "wb") as sink, _arrow.ipc.new_file(sink, schema) as writer:
            for table in tables:
                writer.write_table(table, FILE_BATCH_ROWS)

    with explained(path.parent):
        return {**write_file(path, write), "name": path.name}


def open_arrow(path: Path) -> pa.Table:
    """The table of an Arrow file, memory-mapped: data are read on demand."""
    return _arrow.ipc.open_file(_arrow.memory_map(os.fsencode(path))).read_all()


def name_attempt(kind: str, number: int) -> str:
    """A name for a file of a partition that no other attempt uses, in any session."""
    return f"{kind}-{number:05d}-{token_hex(6)}.parquet"


# The number of the Spark partition on which this code runs: in a pass, the number of the slot.
def _spark_partition() -> int:
    from pyspark import TaskContext  # an optional dependency

    context: Any = TaskContext.get()
    return context.partitionId()


# Write the manifest entry of a file beside the file; report the name under which the entry is.
def _report_entry(folder: Path, entry: dict[str, Any], number: int) -> Any:
    # Spark drops the reports of failed attempts, so their entries are never read.
    note = str(Path(entry["name"]).with_suffix(".json"))
    write_sealed(folder / note, entry)
    return report_task(number, note=note)


def report_task(number: int, **values: Any) -> Any:
    """The report to the driver about a task, slot, file or partition."""
    return _arrow.RecordBatch.from_pydict({"report": [json.dumps({"number": number, **values})]})


# Record batches.


def task_numbers(batches: SparkBatches) -> Iterator[int]:
    """The numbers in column 0, the only one."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def filled(batches: SparkBatches) -> Iterator[Any]:
    return (batch for batch in batches if batch.num_rows)


def batches_of(table: Any) -> Iterator[Any]:
    return iter(table.to_batches(SPARK_BATCH_ROWS))
