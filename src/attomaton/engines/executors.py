"""What Spark's executors run: the kernel on record batches, the merging of sorted rows, a function on a part.

Nothing here needs a Spark session; each class is a value that is sent to the executors and called there.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.artifacts import explained, identify_file, write_file
from attomaton.corpora.pieces import Piece, regroup
from attomaton.corpora.samples import TOKEN_BITS
from attomaton.corpora.shards import Cuts
from attomaton.engines.choiceparts import write_choices
from attomaton.engines.kernel import choices_of_piece, query_rows
from attomaton.engines.parts import EdgeParts, sum_neighbours, write_edges
from attomaton.engines.selection import Selection
from attomaton.engines.stages import Stage
from attomaton.graphs.choices import encode_choices
from attomaton.graphs.components import ORDER_SCHEMA, Components
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable
from attomaton.graphs.parts import slice_queries
from attomaton.graphs.windows import Links, link_repeats, window_edges
from attomaton.remote import Place
from attomaton.tables import Bool, Int64, exact_file, rows_to_bytes

BATCH_ROWS = 1 << 17
ENTRY = "told string"
"""What the driver hears of a part: plain values as JSON, with its number and what was written."""

_arrow: Any = pa
Batches = Iterable[Any]


@dataclass(frozen=True, eq=False)
class Kernel:
    """How numbers of tasks become pieces of documents; the passes are its children.

    Attributes
    ----------
    cuts : Cuts
        The documents of each task.
    selection : Selection
        Gives the window.
    kept : bool array, shape (n_tokens,)
        Which queries to count.
    piece_tokens : int
        About how many tokens to count at once.
    borders : int64 array
        Rows of the queries ``borders[i] … borders[i + 1] − 1`` go to part ``i``.
    """

    cuts: Cuts
    selection: Selection
    kept: Bool
    piece_tokens: int
    borders: Int64

    def pieces(self, batches: Batches) -> Iterator[Piece]:
        """The documents of a partition, in pieces."""
        read = (piece for task in _numbers(batches) for piece in self.cuts.pieces(task, self.piece_tokens))
        return regroup(read, self.piece_tokens, self.selection.reach)


class CountSamples(Kernel):
    """Tasks → (query, realisable, unrealisable), one row for each query of a partition."""

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Run on a partition."""
        realisable, unrealisable = (np.zeros(len(self.kept), np.int64) for _ in range(2))
        for piece in self.pieces(batches):
            links = link_repeats(piece, self.selection.reach, self.kept)
            realisable += links.realisable
            unrealisable += links.unrealisable
        nothing = np.empty(0, np.int32)
        yield from _batches_of(query_rows(Links(nothing, nothing, realisable, unrealisable)))


class PackEdges(Kernel):
    """Tasks → (part, key, count): edges as packed keys, counted within a piece."""

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Run on a partition."""
        for piece in self.pieces(batches):
            links = link_repeats(piece, self.selection.reach, self.kept)
            for keys, support in window_edges(
                piece, links, window=self.selection.reach, kept=self.kept, max_keys=16 * self.piece_tokens
            ):
                starts = np.searchsorted(keys, self.borders << 2 * TOKEN_BITS)
                part = np.repeat(np.arange(len(self.borders) - 1, dtype=np.int32), np.diff(starts))
                yield from _batches_of(_arrow.table({"part": part, "key": keys, "count": support}))


@dataclass(frozen=True, eq=False)
class PackChoices(Kernel):
    """Tasks → (part, key, count): choices as byte strings, counted within a piece."""

    components: Callable[[], Components | None]

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Run on a partition."""
        components = self.components()
        for piece in self.pieces(batches):
            found = choices_of_piece(piece, components, selection=self.selection, kept=self.kept, threads=1)
            part = np.searchsorted(self.borders, found["query"], side="right").astype(np.int32) - 1
            rows = rows_to_bytes(*encode_choices(found)).cast(pa.binary())
            yield from _batches_of(_arrow.table({"part": part, "key": rows, "count": found["count"]}))


@dataclass(frozen=True)
class WriteEdges:
    """Sorted (key, count) → one Parquet file of edges; tells its entry."""

    folder: Path
    min_support: int

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Run on a partition."""
        runs = ((batch.column(0).to_numpy(), batch.column(1).to_numpy()) for batch in _filled(batches))
        part, name = _name_here("edges")
        with explained(self.folder):
            entry = write_edges(
                self.folder / f"{name}.parquet", sum_neighbours(runs), min_support=self.min_support
            )
        yield _entry(part, entry)


@dataclass(frozen=True)
class WriteChoices:
    """Sorted (key, count) → one Arrow file of choices; tells its entry."""

    folder: Path

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Run on a partition."""
        rows = ((batch.column(0), batch.column(1).to_numpy()) for batch in _filled(batches))
        part, name = _name_here("choices")
        with explained(self.folder):
            entry = write_choices(self.folder / f"{name}.parquet", rows)
        yield _entry(part, entry)


@dataclass(frozen=True, eq=False)
class RunFunction:
    """Numbers of parts → what a function makes of their rows, one Arrow file each; tells their entries.

    Attributes
    ----------
    function : callable
        From a table for each input to one table.
    inputs : sequence of Path or EdgeParts
        Arrow files sorted by their column query, or edges in Parquet files.
    ranges : sequence of (int, int)
        First and last query + 1 of each part, the biggest part first.
    folder : Path
        Where to write.
    """

    function: Callable[..., pa.Table]
    inputs: Sequence[Path | EdgeParts]
    ranges: Sequence[tuple[int, int]]
    folder: Path

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Run on a partition."""
        for part in _numbers(batches):
            rows = [_rows(table, *self.ranges[part]) for table in self.inputs]
            _, name = _name_here("mapped")
            yield _write_result(self.folder, name, part, self.function(*rows))


@dataclass(frozen=True, eq=False)
class RunStage:
    """Numbers of tasks → what a stage tells of a part.

    Attributes
    ----------
    stage : Stage
        What to run.
    folder : Path
        Where it writes.
    order : sequence of int
        The part that each task works on.
    """

    stage: Stage
    folder: Path
    order: Sequence[int]

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Run on a partition."""
        for task in _numbers(batches):
            part = self.order[task]
            attempt = _name_here("attempt")[1].removeprefix("attempt")
            with explained(self.folder):
                told = self.stage(self.folder, part, attempt=attempt)
            yield _entry(part, told)


@dataclass(frozen=True)
class DigestFiles:
    """Numbers of files → (number, sha256); behind a URL, of size and tag where the store gives one."""

    paths: Sequence[Place]

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Run on a partition."""
        for number in _numbers(batches):
            yield _entry(number, {"number": number, "sha256": identify_file(self.paths[number])})


@dataclass(frozen=True)
class StoredComponents:
    """Components as a file of nodes, which the executors of a machine share through its page cache."""

    path: Path
    n_tokens: int

    def __call__(self) -> Components:
        """Open them; the edges and the order between components stay behind."""
        nothing = EdgeTable(EDGE_SCHEMA.empty_table(), QUERY_SCHEMA.empty_table(), self.n_tokens)
        return Components(nothing, open_arrow(self.path), ORDER_SCHEMA.empty_table())


def no_components() -> None:
    """Choices in whole contexts."""


def store_arrow(path: Path, table: pa.Table) -> dict[str, Any]:
    """Write a table as an Arrow file, which can be mapped into memory; its name, digest, bytes and rows."""

    def write(draft: Path) -> None:
        with exact_file(draft, "wb") as sink, _arrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, 1 << 20)

    with explained(path.parent):
        return {**write_file(path, write), "name": path.name, "rows": table.num_rows}


def open_arrow(path: Path) -> pa.Table:
    """The table of an Arrow file, mapped into memory: only what is looked at is read."""
    return _arrow.ipc.open_file(_arrow.memory_map(os.fsencode(path))).read_all()


def _write_result(folder: Path, stem: str, part: int, table: pa.Table) -> Any:
    return _entry(part, store_arrow(folder / f"{stem}.arrow", table))


def _rows(table: Path | EdgeParts, first: int, stop: int) -> pa.Table:
    if isinstance(table, EdgeParts):
        return table.read(first, stop)
    return slice_queries(open_arrow(table), first, stop)


def _name_here(kind: str) -> tuple[int, str]:
    """The number of this partition, and a name that no other attempt at it uses."""
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    part = context.partitionId()
    return part, f"{kind}-{part:05d}-{context.taskAttemptId()}"


def _entry(part: int, entry: dict[str, Any]) -> Any:
    return _arrow.RecordBatch.from_pydict({"told": [json.dumps({**entry, "part": part})]})


def _numbers(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _filled(batches: Batches) -> Iterator[Any]:
    return (batch for batch in batches if batch.num_rows)


def _batches_of(table: Any) -> Iterator[Any]:
    return iter(table.to_batches(BATCH_ROWS))
