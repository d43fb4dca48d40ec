"""Run tasks over the chunks of a corpus, and stages over the partitions of its queries, in threads.

:meth:`Workshop.run` runs a :class:`Task`, which turns each chunk into sorted tables. They wait in files until
they are merged. The files are recorded by *job*: a few shards of about :data:`JOB_TOKENS` tokens, or one
larger shard. :func:`run_weighed` runs a :class:`Stage`, or a merge, on each partition.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Literal, Protocol

import pyarrow as pa

from attomaton.base.artifacts import explained
from attomaton.base.artifacts.files import draft_name
from attomaton.base.machine import release_memory
from attomaton.base.progress import Progress
from attomaton.base.tables import arrow_parquet
from attomaton.corpora.documents import Chunk
from attomaton.corpora.shards import Shards
from attomaton.engines.work import Record, StageRecords, clear_drafts, fingerprint

JOB_TOKENS = 1 << 22
_arrow: Any = pa


@dataclass(frozen=True)
class Task:
    """A function of each chunk of the corpus."""

    name: str  # begins the names of its files
    settings: Mapping[str, Any]  # everything that its result depends on besides the corpus, as plain values
    window: int | None  # None if documents must not be cut
    process: Callable[[Chunk], Iterable[tuple[str, pa.Table]]]  # (kind, table): each table becomes a file
    suffix: Literal["parquet", "arrow"] = "parquet"  # an Arrow file keeps the batches of the table


@dataclass(frozen=True)
class Workshop:
    """Where tasks run: the folder of their files, the number of threads, and the tokens of a chunk."""

    folder: Path
    threads: int
    chunk_tokens: int
    progress: Progress

    def run(self, task: Task, shards: Shards) -> dict[str, list[Path]]:
        """Run a task over all shards; return its files by kind, in corpus order."""
        files: dict[str, list[Path]] = {}
        done = 0  # tokens of the finished jobs
        total = sum(shards.sizes)

        def report(tokens: int) -> None:
            self.progress(task.name, min(done + tokens, total), total)

        report(0)
        for number, job in enumerate(shards.jobs(JOB_TOKENS)):
            digest = fingerprint(job, task.settings)
            stage_records = StageRecords(self.folder, f"{task.name}-{digest[:16]}", digest)
            work = partial(self._run_job, task, job, stage_records.stage, report)  # of the job's number
            for entry in stage_records.run(number, work)["files"].values():
                files.setdefault(entry["kind"], []).append(self.folder / entry["name"])
            done += sum(job.sizes)
            report(0)
        return files

    def count_chunks(self, shards: Shards) -> int:
        """About how many chunks a task cuts the shards into."""
        return sum(shards.sizes) // self.chunk_tokens + len(shards.jobs(JOB_TOKENS))

    # Process the chunks of a job in threads; return the record of the job, with its files in order.
    def _run_job(
        self, task: Task, job: Shards, stage: str, report: Callable[[int], object], number: int
    ) -> Record:
        # At most threads + 1 chunks are in memory: the oldest is waited for before the next one is read.
        entries: list[dict[str, Any]] = []
        waiting: deque[tuple[int, Future[list[dict[str, Any]]]]] = deque()
        done = 0

        def collect_first() -> None:
            nonlocal done
            tokens, future = waiting.popleft()
            entries.extend(future.result())
            done += tokens
            report(done)

        pool = ThreadPoolExecutor(self.threads)
        try:
            for index, chunk in enumerate(job.chunks(self.chunk_tokens, task.window)):
                future = pool.submit(self._process, task, chunk, f"{stage}-{number:05d}-{index:05d}")
                waiting.append((len(chunk.ids), future))
                if len(waiting) > self.threads:
                    collect_first()
            while waiting:
                collect_first()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            clear_drafts(self.folder)
            raise
        pool.shutdown()
        return {"files": {entry["name"]: entry for entry in entries}}

    # Write the tables of one chunk to files named `stem-number`; return the entries of the files.
    def _process(self, task: Task, chunk: Chunk, stem: str) -> list[dict[str, Any]]:
        return [
            {**write_unmerged(self.folder / f"{stem}-{number}.{task.suffix}", table), "kind": kind}
            for number, (kind, table) in enumerate(task.process(chunk))
        ]


def write_unmerged(path: Path, table: pa.Table) -> dict[str, Any]:
    """Write a table that waits to be merged, unflushed; return the file's name, digest and rows."""
    blob = _encode_arrow(table) if path.suffix == ".arrow" else _encode_parquet(table)
    with explained(path.parent):
        draft = path.with_name(draft_name())
        with draft.open("xb") as file:  # never through a link
            file.write(blob)
        draft.replace(path)
    return {"name": path.name, "sha256": hashlib.sha256(blob).hexdigest(), "rows": table.num_rows}


def _encode_parquet(table: pa.Table) -> Any:
    sink: Any = _arrow.BufferOutputStream()
    schema: Any = table.schema
    options: dict[str, Any] = {"compression": "lz4", "use_dictionary": False, "row_group_size": 1 << 16}
    encodings = {  # rising integers are best stored as differences
        field.name: "DELTA_BINARY_PACKED" if field.type == pa.int64() else "PLAIN" for field in schema
    }
    arrow_parquet().write_table(table, sink, column_encoding=encodings, **options)
    return sink.getvalue()


def _encode_arrow(table: pa.Table) -> Any:
    sink: Any = _arrow.BufferOutputStream()
    options = _arrow.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with _arrow.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


class Stage(Protocol):
    """A function that an engine runs on each partition of the queries; it can be sent to other machines."""

    @property
    def name(self) -> str:
        """The name of its folder; it begins the names of its records."""
        ...

    @property
    def title(self) -> str:
        """The description of the work for users."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of everything that its result depends on."""
        ...

    def __call__(self, folder: Path, number: int, /, attempt: str = "") -> dict[str, Any]:
        """Process partition ``number``, write files to ``folder``, and return plain values and ``files``.

        ``attempt`` is in the file names if several attempts may work on one partition.
        """
        ...


def run_weighed(
    work: Callable[[int], Record],
    weights: Sequence[int],
    *,
    threads: int,
    max_weight: int,
    report: Callable[[int], object],
    stop: Event,
) -> list[Record]:
    """Return ``work(number)`` for each partition 0, 1, 2 …, computed in threads.

    Partitions heavier than ``max_weight`` run first, one at a time. ``report`` gets the total weight of the
    finished partitions. If a partition fails, ``stop`` is set, so that others end early.
    """
    records: dict[int, Record] = {}
    done = 0  # weight of the finished partitions
    heavy = [number for number, weight in enumerate(weights) if weight > max_weight]
    light = [number for number, weight in enumerate(weights) if weight <= max_weight]
    release_memory()  # of the stage before
    for numbers, n_threads in ((heavy, 1), (light, threads)):
        pool = ThreadPoolExecutor(n_threads)
        try:
            futures = [pool.submit(work, number) for number in numbers]
            for number, future in zip(numbers, futures, strict=True):
                records[number] = future.result()
                done += weights[number]
                report(done)
        except BaseException:
            stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    return [records[number] for number in range(len(weights))]
