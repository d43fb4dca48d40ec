"""The DuckDB engine reads corpora larger than memory on one machine, and can be resumed by shard.

The kernel turns chunks of the corpus into files, each sorted and counted. They are merged with bounded
memory: edges and sums by DuckDB, which spills to disk if necessary, choices batch by batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import digest_arrays, digest_record, explained
from attomaton.base.errors import CorruptRun
from attomaton.base.machine import count_processors, parse_memory
from attomaton.base.options import check_threads
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Bool, Int64, column
from attomaton.corpora.documents import Chunk
from attomaton.corpora.shards import Shards
from attomaton.engines.kernel import choices_of_chunk, query_rows
from attomaton.engines.memory import count_realisable
from attomaton.engines.merging import Merger
from attomaton.engines.partitions import ChoicePartitions, EdgePartitions, Ties, open_edges
from attomaton.engines.selection import Selection
from attomaton.engines.sorted_choices import cut_batches, size_batches
from attomaton.engines.sums import MOST_BATCH_SUMS, Counting, Sums, sum_in_batches
from attomaton.engines.tasks import Stage, Task, Workshop, run_weighed
from attomaton.engines.work import Record, StageRecords, fingerprint, working_in
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components
from attomaton.graphs.windows import link_repeats, window_edges

_arrow: Any = pa


@dataclass(frozen=True, eq=False)
class DuckDBEngine:
    """Run the two corpus passes over shards on disk, with bounded memory.

    Attributes
    ----------
    shards : Shards
        The tokenised corpus.
    work : Path
        A folder for unmerged files, spilled data and the result, which must be new, empty, or the folder of
        an earlier run. Only one run at a time can use it. A run with equal shards and settings resumes an
        earlier run. Delete the folder when the result is loaded or copied.
    selection : Selection
        The queries and edges to keep.
    memory : str or int, optional
        Memory for sorting and merging, such as "2GB"; by default 60 % of the available memory.
    threads : int, optional
        Number of threads; by default one per processor.
    progress : callable
        A function that is called with the name of a stage, the amount done and the total.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ids, offsets = np.array([0, 2, 1, 1, 2, 0, 1, 2, 2], np.int32), np.array([0, 9])
    ...     shards = Shards.write(Path(folder, "shards"), ids, offsets, n_tokens=3)
    ...     DuckDBEngine(shards, Path(folder, "work"), Selection(window=3), memory="1GB").edges()
    EdgePartitions(8 edges in 1 partitions)
    """

    shards: Shards
    work: Path
    selection: Selection = Selection()  # noqa: RUF009  frozen
    memory: str | int | None = None
    threads: int | None = None
    progress: Progress = silent

    @cached_property
    def selected(self) -> Bool:
        """Whether each token is a selected query, shape (n_tokens,)."""
        selected = self.selection.selected(self.shards.n_tokens)
        if self.selection.top is None:
            return selected
        return self.selection.largest(selected, count_realisable(self.shards, self.selection.reach, selected))

    def edges(self) -> EdgePartitions:
        """First pass: count every edge, and write the edges to sorted Parquet files of whole queries."""
        digest = fingerprint(self.shards, {**self._settings, "min_support": self.selection.min_support})
        about = {"n_tokens": self.shards.n_tokens, "fingerprint": digest}
        with working_in(self.work) as work:
            try:
                return open_edges(work / "edges", about)
            except CorruptRun:
                pass  # not finished, or of another corpus or settings
            task = Task("edges", self._settings, self.selection.reach, self._edges_of_chunk)
            unmerged = self._workshop.run(task, self.shards)
            with self._merger() as merger:
                return merger.edges(unmerged, min_support=self.selection.min_support, about=about)

    def choices(self, components: Components | None) -> ChoiceTable:
        """Second pass: count the choices inside each label's component, or in whole contexts for None."""
        return self.choice_partitions(components, np.array([0, self.shards.n_tokens])).load()

    def choice_partitions(self, within: Components | Ties | None, borders: Int64) -> ChoicePartitions:
        """Count the choices; file ``i`` has the queries ``borders[i] … borders[i + 1] − 1``."""
        components = within.load() if isinstance(within, Ties) else within
        n_bytes = size_batches(self._bytes // self._threads, self._workshop.count_chunks(self.shards))

        def process(chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
            choices = choices_of_chunk(
                chunk, components, selection=self.selection, selected=self.selected, threads=1
            )
            yield "choices", cut_batches(choices, borders, n_bytes)

        inside = None
        if components is not None:
            columns = (column(components.nodes, name) for name in ("query", "token", "component"))
            inside = digest_arrays(*columns)
        settings = {**self._settings, "components": inside, "borders": borders.tolist()}
        task = Task("choices", settings, self.selection.reach, process, "arrow")
        with working_in(self.work):
            unmerged = self._workshop.run(task, self.shards)
            names = [path.name for paths in unmerged.values() for path in paths]  # these have fingerprints
            digest = digest_record({**settings, "unmerged": names})
            with self._merger() as merger:
                return merger.choices(unmerged, borders, digest)

    def sums(self, count: Counting) -> dict[str, Sums]:
        """Sum by key what ``count`` lists for each chunk of whole documents; the sum can be resumed."""

        def process(chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
            most = min(MOST_BATCH_SUMS, self._max_keys)
            return ((kind, sums.to_table()) for kind, sums in sum_in_batches(chunk, count, most))

        with working_in(self.work):
            unmerged = self._workshop.run(Task(count.name, count.settings, None, process), self.shards)
            with self._merger() as merger:
                return {kind: merger.sums(unmerged.get(kind, [])) for kind in count.sizes}

    def run_partitions(self, stage: Stage, weights: Sequence[int]) -> list[Record]:
        """Run a stage on partitions 0, 1, 2 … of the queries; return the record of each, in order.

        Finished partitions are recorded. A partition with more ``weights`` (bytes) than a thread's share of
        memory runs alone.
        """
        folder, total = self.work / stage.name, sum(weights)

        def report(done: int) -> None:
            self.progress(stage.title, done, total)

        with working_in(self.work), explained(folder):
            folder.mkdir(exist_ok=True)
            stage_records = StageRecords(folder, stage.name, stage.fingerprint)
            stage_records.clear(len(weights))
            report(0)
            records = run_weighed(
                lambda number: stage_records.run(number, partial(stage, folder)),
                weights,
                threads=self._threads,
                max_weight=self._bytes // (2 * self._threads),
                report=report,
                stop=Event(),
            )
        return [{**record, "folder": str(folder)} for record in records]

    def _edges_of_chunk(self, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        reach = self.selection.reach
        links = link_repeats(chunk, reach, self.selected)
        yield "queries", query_rows(links)
        for keys, support in window_edges(
            chunk, links, window=reach, selected=self.selected, max_keys=self._max_keys
        ):
            yield "edges", _arrow.table({"key": keys, "support": support})

    # Everything that files of edges depend on besides the corpus.
    @property
    def _settings(self) -> dict[str, Any]:
        return {"reach": self.selection.reach, "selected": digest_arrays(self.selected)}

    @cached_property
    def _bytes(self) -> int:
        return parse_memory(self.memory)

    @cached_property
    def _threads(self) -> int:
        return check_threads(self.threads) or count_processors()

    # Edges that one thread packs at once: about 30 bytes each, overhead included.
    @property
    def _max_keys(self) -> int:
        return min(max(self._bytes // (64 * self._threads), 1 << 20), 1 << 25)

    # Threads that each process as many tokens as fit: text has fewer than reach / 3 edges per token.
    @property
    def _workshop(self) -> Workshop:
        fits = min(3 * self._max_keys // self.selection.reach, self._max_keys // 4)  # tokens
        share = sum(self.shards.sizes) // self._threads + 1
        return Workshop(self.work, self._threads, max(min(fits, share), 1 << 12), self.progress)

    def _merger(self) -> Merger:
        return Merger(self.work, self._bytes, self._threads, self.progress)
