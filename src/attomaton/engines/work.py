"""Resumable work: finished parts are recorded, and a later run reuses them.

A task turns shards into small Parquet or Arrow parts. A job of a task is a few shards of about
:data:`JOB_TOKENS` tokens, or one larger shard; its record lists the digest of every part and is written last.
A stage works on parts of the queries, each with its own record. The folder is ours alone: we created it or
found it empty, and put a marker in it.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Literal, Protocol

import pyarrow as pa

from attomaton.base.artifacts import (
    check_files,
    digest_record,
    explained,
    identify_file,
    read_sealed,
    write_sealed,
)
from attomaton.base.artifacts.files import DRAFT_NAME, draft_name, lock_file
from attomaton.base.errors import UnwritablePlace
from attomaton.base.machine import release_memory
from attomaton.base.progress import Progress
from attomaton.base.remote import refuse_url
from attomaton.base.tables import arrow_parquet
from attomaton.corpora.documents import Chunk
from attomaton.corpora.shards import Shards

MARKER = "attomaton-work.txt"  # marks a folder that we may work in
JOB_TOKENS = 1 << 22
_arrow: Any = pa

Record = dict[str, Any]
"""What is known of a finished part: plain values, and under ``files`` the entry of each file by its name."""


@dataclass(frozen=True)
class Task:
    """A function of each piece of the corpus.

    ``name`` is the prefix of its file names; ``settings`` are everything that its result depends on besides
    the corpus, as plain values; ``window`` is None if documents must not be cut; ``process`` turns a piece
    into ``(kind, table)`` pairs, each of which becomes a part: a Parquet file, or an Arrow file with the
    table's own batches.
    """

    name: str
    settings: Mapping[str, Any]
    window: int | None
    process: Callable[[Chunk], Iterable[tuple[str, pa.Table]]]
    suffix: Literal["parquet", "arrow"] = "parquet"


@dataclass(frozen=True)
class Workshop:
    """Where and how tasks run: the folder of their parts, threads, and tokens at once."""

    folder: Path
    threads: int
    piece_tokens: int
    progress: Progress

    def run(self, task: Task, shards: Shards) -> dict[str, list[Path]]:
        """Run a task over all shards; return its parts by kind, in corpus order."""
        parts: dict[str, list[Path]] = {}
        done, total = 0, sum(shards.sizes)

        def report(tokens: int) -> None:
            """Tokens of the job that is under way."""
            self.progress(task.name, min(done + tokens, total), total)

        report(0)
        for number, job in enumerate(shards.jobs(JOB_TOKENS)):
            digest = fingerprint(job, task.settings)
            part_records = PartRecords(self.folder, f"{task.name}-{digest[:16]}", digest)
            work = partial(self._run_job, task, job, part_records.stage, report)
            for entry in part_records.run(number, work)["files"].values():
                parts.setdefault(entry["kind"], []).append(self.folder / entry["name"])
            done += sum(job.sizes)
            report(0)
        return parts

    def count_pieces(self, shards: Shards) -> int:
        """About how many pieces a task cuts the shards into."""
        return sum(shards.sizes) // self.piece_tokens + len(shards.jobs(JOB_TOKENS))

    def _run_job(
        self, task: Task, job: Shards, stage: str, report: Callable[[int], object], number: int
    ) -> Record:
        """Process a job's pieces in threads, few at a time; the record of its parts."""
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
            for at, piece in enumerate(job.chunks(self.piece_tokens, task.window)):
                future = pool.submit(self._process, task, piece, f"{stage}-{number:05d}-{at:05d}")
                waiting.append((len(piece.ids), future))
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

    def _process(self, task: Task, piece: Chunk, stem: str) -> list[dict[str, Any]]:
        return [
            {**write_part(self.folder / f"{stem}-{number}.{task.suffix}", table), "kind": kind}
            for number, (kind, table) in enumerate(task.process(piece))
        ]


def fingerprint(shards: Shards, settings: Mapping[str, Any], digests: Sequence[str] | None = None) -> str:
    """The SHA-256 of the shards' bytes and the settings; ``digests`` are those of the shards, if known.

    A shard at a URL is identified by its size and the tag of its content, if the store provides one.
    """
    identities = [identify_file(path) for path in shards.paths] if digests is None else list(digests)
    return digest_record([identities, shards.n_tokens, dict(settings)])


def write_part(path: Path, table: pa.Table) -> dict[str, Any]:
    """Write a part under a temporary name and rename it; return its name, digest and number of rows.

    It is not flushed to disk: the digest in the record shows later whether it was written.
    """
    blob = _to_arrow(table) if path.suffix == ".arrow" else _to_parquet(table)
    with explained(path.parent):
        draft = path.with_name(draft_name())
        with draft.open("xb") as file:  # never through a link
            file.write(blob)
        draft.replace(path)
    return {"name": path.name, "sha256": hashlib.sha256(blob).hexdigest(), "rows": table.num_rows}


def _to_parquet(table: pa.Table) -> Any:
    sink: Any = _arrow.BufferOutputStream()
    schema: Any = table.schema
    options: dict[str, Any] = {"compression": "lz4", "use_dictionary": False, "row_group_size": 1 << 16}
    encodings = {  # rising integers are best kept as differences
        field.name: "DELTA_BINARY_PACKED" if field.type == pa.int64() else "PLAIN" for field in schema
    }
    arrow_parquet().write_table(table, sink, column_encoding=encodings, **options)
    return sink.getvalue()


def _to_arrow(table: pa.Table) -> Any:
    sink: Any = _arrow.BufferOutputStream()
    options = _arrow.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with _arrow.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def prepare_work(folder: Path) -> Path:
    """Create the work folder; an existing one must be empty, or contain our marker.

    Nothing in it is touched yet, so other files are safe, and so is a run in progress there.
    """
    refuse_url(folder, "the work folder")
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MARKER).is_file():
            strangers = sorted(path.name for path in folder.iterdir())
            if strangers:
                raise UnwritablePlace(
                    f"{folder} holds other files ({strangers[0]!r}), so it cannot be the work folder; "
                    f"give a new or empty folder"
                )
            (folder / MARKER).write_text(
                "attomaton works here. Delete this folder when the results are copied.\n", encoding="utf-8"
            )
    return folder


@contextmanager
def working_in(folder: Path) -> Generator[Path]:
    """The work folder, for one run at a time; what a killed run left half written is cleared away."""
    prepare_work(folder)
    with explained(folder):
        marker = (folder / MARKER).open("ab", buffering=0)
    with marker:
        free = True
        with suppress(OSError):  # a file system without locks
            free = lock_file(marker)
        if not free:
            raise UnwritablePlace(
                f"another run is working in {folder}; wait until it ends, or use another folder"
            )
        with explained(folder):
            clear_drafts(folder)
        yield folder


def clear_drafts(folder: Path) -> None:
    """Remove what we did not write to its end."""
    for parent in (folder, folder / "edges", folder / "choices"):
        for path in parent.iterdir() if parent.is_dir() else ():
            if DRAFT_NAME.fullmatch(path.name):
                path.unlink(missing_ok=True)


class Stage(Protocol):
    """A function that an engine runs on each part of the queries; it can be sent to other machines.

    Examples
    --------
    >>> class Count:
    ...     name, title, fingerprint = "count", "counting", "0" * 64
    ...     def __call__(self, folder, number, attempt=""):
    ...         return {"files": {}, "number": number}
    >>> Count()(Path("work"), 3)["number"]
    3
    """

    @property
    def name(self) -> str:
        """The prefix of its records, and the name of its folder."""
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
        """Process part ``number``, write files to ``folder``, and return plain values and ``files`` by name.

        ``attempt`` is part of the file names if several attempts may work on one part.
        """
        ...


@dataclass(frozen=True)
class PartRecords:
    """The records of the parts of one stage, beside their files; ``stage`` begins the names of the records.

    ``fingerprint`` is a digest of everything that the result depends on.
    """

    folder: Path
    stage: str
    fingerprint: str

    def run(self, number: int, work: Callable[[int], Record]) -> Record:
        """The record of a part: an earlier one if its files are whole, or what ``work`` makes now."""
        finished = self.read_intact(number)
        return self.write(number, work(number)) if finished is None else finished

    def write(self, number: int, record: Record) -> Record:
        """Record a finished part, whose files are written already."""
        signed = {**record, "fingerprint": self.fingerprint}
        with explained(self.folder):
            write_sealed(self._path(number), signed)
        return signed

    def read(self, number: int) -> Record | None:
        """The existing record, if it is of the same work; its files are not checked."""
        record = read_sealed(self._path(number))
        return record if record is not None and record.get("fingerprint") == self.fingerprint else None

    def read_intact(self, number: int) -> Record | None:
        """The record that an earlier run left, if it is of the same work and its files are as written."""
        try:
            record = self.read(number)
            if record is None:
                return None
            check_files(self.folder, record["files"], again="run it again")
        except (OSError, KeyError, TypeError, AttributeError):
            return None
        return record

    def clear(self, n_parts: int) -> None:
        """Remove this stage's records of other work or beyond ``n_parts``, and their files."""
        for path in sorted(self.folder.glob(f"{self.stage}-*.json")) if self.folder.is_dir() else ():
            number = re.fullmatch(rf"{self.stage}-(\d+)\.json", path.name)
            is_current = (read_sealed(path) or {}).get("fingerprint") == self.fingerprint
            if number is not None and not (is_current and int(number[1]) < n_parts):
                path.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{self.stage}-{number:05d}.json"


def run_weighed(
    work: Callable[[int], Record],
    weights: Sequence[int],
    *,
    threads: int,
    max_weight: int,
    report: Callable[[int], object],
    stop: Event,
) -> list[Record]:
    """Do ``work`` on the parts 0, 1, 2 … in threads; parts that weigh more than ``max_weight`` one at a time.

    ``report`` hears the weight of what is done. If a part fails, or the user interrupts, ``stop`` is set, the
    others end, and the error is raised.
    """
    records: dict[int, Record] = {}
    done = 0
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
