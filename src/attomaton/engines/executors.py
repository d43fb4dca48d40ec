"""Code for Spark's executors: the kernel on record batches, the merge of sorted rows, stages.

Nothing here needs a Spark session; instances of each class are sent to the executors and called there.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
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
from attomaton.engines.kernel import choices_of_chunk, query_rows
from attomaton.engines.partitions import Ties, stream_rows, sum_neighbours, write_choices, write_edges
from attomaton.engines.selection import Selection
from attomaton.engines.sums import (
    DOCUMENT_CHUNK_TOKENS,
    MOST_BATCH_SUMS,
    Counting,
    Sums,
    add_rows,
    merge_sums,
    sum_in_batches,
)
from attomaton.engines.tasks import Stage
from attomaton.engines.work import StageRecords
from attomaton.graphs.choices import CHOICE_FILE, CHOICE_SCHEMA, encode_choices
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components
from attomaton.graphs.edges import EDGE_FILE, EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable
from attomaton.graphs.partitions import cut_queries
from attomaton.graphs.windows import Links, link_repeats, window_edges

SPARK_BATCH_ROWS = 1 << 17

REPORT = "report string"
"""Schema of a task's report to the driver: a few plain values as JSON. Records of partitions are files."""

LISTED = "kind int, key long, high long, low long"
"""The rows of a pass, before summation; ``kind`` is a number."""

FILE_FORMATS = {"edges": (EDGE_SCHEMA, EDGE_FILE), "choices": (CHOICE_SCHEMA, CHOICE_FILE)}
"""Columns of each kind of file, and its writing options."""

_arrow: Any = pa
SparkBatches = Iterable[Any]


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
        """The slots of choices with these queries and winners."""
        key = query.astype(np.int64) << 2 * TOKEN_BITS | winner.astype(np.int64) << TOKEN_BITS
        return np.searchsorted(self.keys, key, side="right") - 1


def cut_slots(queries: pa.Table, borders: Int64, most: int) -> Slots:
    """A slot for each partition, or several if it is a single query with more than ``most`` samples.

    Such a query is cut by winner, and by loser if a single winner is too large. How often each token wins or
    loses is estimated from how often it is a query itself; a bad estimate only makes tasks uneven.
    """
    n_tokens = int(borders[-1])
    query, realisable = column(queries, "query"), column(queries, "realisable")
    samples = np.zeros(n_tokens)
    samples[query] = realisable + column(queries, "unrealisable")
    share = samples / max(1.0, float(samples.sum()))
    weight = np.zeros(n_tokens, np.int64)
    weight[query] = realisable
    keys: list[int] = []
    partitions: list[int] = []
    for partition, (first, stop) in enumerate(pairwise(borders.tolist())):
        large = stop - first == 1 and weight[first] > most
        inside = _cut_query(weight[first] * share, share, most) if large else [0]
        keys += [(first << 2 * TOKEN_BITS) + start for start in inside]
        partitions += [partition] * len(inside)
    return Slots(np.array([*keys, n_tokens << 2 * TOKEN_BITS], np.int64), np.array(partitions, np.int64))


def _cut_query(wins: Float64, share: Float64, most: int) -> list[int]:
    """Where the slots of one query begin, as packed (winner, loser)."""
    starts: list[int] = []
    for winner in cut_queries(np.ceil(wins).astype(np.int64), most)[:-1].tolist():
        large = wins[winner] > most
        losers = cut_queries(np.ceil(wins[winner] * share).astype(np.int64), most)[:-1] if large else [0]
        starts += [(winner << TOKEN_BITS) + int(loser) for loser in losers]
    return starts


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
        realisable, unrealisable = (np.zeros(len(self.selected), np.int64) for _ in range(2))
        for chunk in self.chunks(batches):
            links = link_repeats(chunk, self.selection.reach, self.selected)
            realisable += links.realisable
            unrealisable += links.unrealisable
        nothing = np.empty(0, np.int32)
        yield from batches_of(query_rows(Links(nothing, nothing, realisable, unrealisable)))


class PackEdges(TaskKernel):
    """Tasks → (slot, key, count): edges as packed keys, counted within a chunk."""

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        reach, selected, most = self.selection.reach, self.selected, 16 * self.chunk_tokens
        for chunk in self.chunks(batches):
            links = link_repeats(chunk, reach, selected)
            for keys, support in window_edges(chunk, links, window=reach, selected=selected, max_keys=most):
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
class WriteEdges:
    """Sorted (key, count) → one Parquet file of edges; reports the name of its entry."""

    folder: Path
    min_support: int

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        runs = ((batch.column(0).to_numpy(), batch.column(1).to_numpy()) for batch in filled(batches))
        with explained(self.folder):
            file = self.folder / name_attempt("edges", _partition())
            entry = write_edges(file, sum_neighbours(runs), min_support=self.min_support)
            yield _noted(self.folder, entry, _partition())


@dataclass(frozen=True)
class WriteChoices:
    """Sorted (key, count) → one Parquet file of choices; reports the name of its entry."""

    folder: Path

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        rows = ((batch.column(0), batch.column(1).to_numpy()) for batch in filled(batches))
        with explained(self.folder):
            file = self.folder / name_attempt("choices", _partition())
            yield _noted(self.folder, write_choices(file, rows), _partition())


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
                yield _noted(self.folder, entry, number)


@dataclass(frozen=True)
class StoreRows:
    """All rows → one Arrow file; reports its entry."""

    folder: Path
    kind: str = "rows"

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        rows = [_arrow.Table.from_batches([batch]) for batch in filled(batches)]
        if rows:
            yield report_task(0, **store_arrow(self.folder / f"{self.kind}-{token_hex(6)}.arrow", rows))


@dataclass(frozen=True, eq=False)
class RunStage:
    """Task numbers → a stage run on a partition, and recorded; reports the number of the partition.

    A partition that an earlier run finished is reused. Several attempts may record a partition: each names
    complete files with equal bytes.
    """

    stage: Stage
    stage_records: StageRecords
    order: Sequence[int]

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        folder, attempt = self.stage_records.folder, f"-{token_hex(6)}"
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


@dataclass(frozen=True)
class JoinTies:
    """The ties of all partitions → one Arrow file; reports its name. One partition is in memory at a time."""

    ties: Ties
    folder: Path

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        for number in task_numbers(batches):
            with explained(self.folder):
                entry = store_arrow(self.folder / f"ties-{token_hex(6)}.arrow", self.ties)
            yield report_task(number, name=entry["name"])


@dataclass(frozen=True)
class StoredComponents:
    """Components as a file of nodes, which the executors of a machine share through the page cache."""

    path: Path
    n_tokens: int

    def __call__(self) -> Components:
        nothing = EdgeTable(empty_table(EDGE_SCHEMA), empty_table(QUERY_SCHEMA), self.n_tokens)
        return Components(nothing, open_arrow(self.path), empty_table(ORDER_SCHEMA))


@dataclass(frozen=True, eq=False)
class ListSums:
    """Tasks → (kind, key, high, low), summed within a chunk; the tables of ``count`` are Arrow files."""

    cuts: Cuts
    count: Counting
    tables: Mapping[str, Path]

    def __call__(self, batches: SparkBatches) -> Iterator[Any]:
        count = self.count.with_tables({name: open_arrow(path) for name, path in self.tables.items()})
        number_of = {kind: number for number, kind in enumerate(count.sizes)}
        for task in task_numbers(batches):
            for chunk in self.cuts.chunks(task, DOCUMENT_CHUNK_TOKENS):
                for kind, sums in sum_in_batches(chunk, count, MOST_BATCH_SUMS):
                    number = np.full(len(sums), number_of[kind], np.int32)
                    yield from batches_of(sums.to_table().add_column(0, "kind", _arrow.array(number)))


def share_tables(cuts: Cuts, count: Counting, folder: Path) -> ListSums:
    """The pass in the form sent to executors: its tables are written to files instead of being sent."""
    paths = {name: folder / f"{name}-{token_hex(6)}.arrow" for name in count.tables}
    for name, path in paths.items():
        store_arrow(path, [count.tables[name]])
    empty = {name: table.slice(0, 0) for name, table in count.tables.items()}
    return ListSums(cuts, count.with_tables(empty), paths)


def read_sums(paths: Sequence[Path], count: Counting) -> dict[str, Sums]:
    """The sums of each kind, from the files of all partitions."""
    listed: dict[str, list[Sums]] = {kind: [] for kind in count.sizes}
    for path in paths:
        kinds, *rows = (column(open_arrow(path), name) for name in ("kind", "key", "sum(high)", "sum(low)"))
        for number, kind in enumerate(count.sizes):
            listed[kind].append(add_rows(*(values[kinds == number] for values in rows)))
    return {kind: merge_sums(sums) for kind, sums in listed.items()}


def store_arrow(path: Path, tables: Iterable[pa.Table]) -> dict[str, Any]:
    """Write tables of one schema as a memory-mappable Arrow file; return its name and digest."""
    rows = iter(tables)
    first = next(rows, empty_table(NODE_SCHEMA))

    def write(draft: Path) -> None:
        with exact_file(draft, "wb") as sink, _arrow.ipc.new_file(sink, first.schema) as writer:
            for table in chain([first], rows):
                writer.write_table(table, 1 << 20)

    with explained(path.parent):
        return {**write_file(path, write), "name": path.name}


def open_arrow(path: Path) -> pa.Table:
    """The table of an Arrow file, memory-mapped: data are read on demand."""
    return _arrow.ipc.open_file(_arrow.memory_map(os.fsencode(path))).read_all()


def name_attempt(kind: str, number: int) -> str:
    """A name for a file of a partition that no other attempt uses, in any session."""
    return f"{kind}-{number:05d}-{token_hex(6)}.parquet"


def _partition() -> int:
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    return context.partitionId()


def _noted(folder: Path, entry: dict[str, Any], number: int) -> Any:
    """Write the entry of a file next to it and report its name; Spark drops reports of failed attempts."""
    note = str(Path(entry["name"]).with_suffix(".json"))
    write_sealed(folder / note, entry)
    return report_task(number, note=note)


def report_task(number: int, **values: Any) -> Any:
    """The report to the driver about a task, slot, file or partition."""
    return _arrow.RecordBatch.from_pydict({"report": [json.dumps({"number": number, **values})]})


def task_numbers(batches: SparkBatches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def filled(batches: SparkBatches) -> Iterator[Any]:
    return (batch for batch in batches if batch.num_rows)


def batches_of(table: Any) -> Iterator[Any]:
    return iter(table.to_batches(SPARK_BATCH_ROWS))
