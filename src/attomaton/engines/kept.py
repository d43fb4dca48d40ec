"""Work by part that survives being killed: a finished part is recorded, and a later run takes it up."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import pyarrow as pa

from attomaton.base.artifacts import check_files, digest_record, explained, read_sealed, write_sealed
from attomaton.base.errors import CorruptRun
from attomaton.base.tables import column, read_parquet
from attomaton.graphs.components import NODE_SCHEMA, Components
from attomaton.graphs.parts import join, of_nodes, shift


class Stage(Protocol):
    """What an engine runs on each part of the queries; it can be sent to other machines.

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
        """Begins the names of its records, and names its folder."""
        ...

    @property
    def title(self) -> str:
        """What users are told that is done."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of all that its answer depends on."""
        ...

    def __call__(self, folder: Path, number: int, /, attempt: str = "") -> dict[str, Any]:
        """Work on part ``number`` and write files into ``folder``; plain values, and ``files`` by name.

        ``attempt`` is in the names of the files where several may work on one part.
        """
        ...


Record = dict[str, Any]
"""What is known of a finished part: plain values, and under ``files`` the entry of each file by its name."""


@dataclass(frozen=True)
class Kept:
    """The records of the parts of one stage, beside their files; ``stage`` begins the names of the records.

    ``fingerprint`` is a digest of all that the answer depends on.
    """

    folder: Path
    stage: str
    fingerprint: str

    def run(self, number: int, work: Callable[[int], Record]) -> Record:
        """The record of a part: an earlier one if its files are whole, or what ``work`` makes now."""
        found = self.take_up(number)
        return self.write(number, work(number)) if found is None else found

    def write(self, number: int, record: Record) -> Record:
        """Record a finished part, whose files are written already."""
        whole = {**record, "fingerprint": self.fingerprint}
        with explained(self.folder):
            write_sealed(self._path(number), whole)
        return whole

    def read(self, number: int) -> Record | None:
        """The record that is there, if it is of the same work; its files are not looked at."""
        record = read_sealed(self._path(number))
        return record if record is not None and record.get("fingerprint") == self.fingerprint else None

    def take_up(self, number: int) -> Record | None:
        """The record that an earlier run left, if it is of the same work and its files are as written."""
        try:
            record = self.read(number)
            if record is None:
                return None
            files: Mapping[str, Any] = record["files"]
            check_files(self.folder, files, again="run it again")
        except (CorruptRun, OSError, KeyError, TypeError, AttributeError):
            return None
        return record

    def clear(self, n_parts: int) -> None:
        """Remove the records of this stage that are of other work or beyond ``n_parts``, and their files."""
        for path in sorted(self.folder.glob(f"{self.stage}-*.json")) if self.folder.is_dir() else ():
            number = re.fullmatch(rf"{self.stage}-(\d+)\.json", path.name)
            same = (read_sealed(path) or {}).get("fingerprint") == self.fingerprint
            if number is not None and not (same and int(number[1]) < n_parts):
                path.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{self.stage}-{number:05d}.json"


def run_weighed(
    work: Callable[[int], Record],
    weights: Sequence[int],
    *,
    threads: int,
    most: int,
    tell: Callable[[int], object],
    stop: Event,
) -> list[Record]:
    """Do ``work`` on the parts 0, 1, 2 … in threads; parts that weigh more than ``most`` one at a time.

    ``tell`` hears the weight of what is done. If a part fails, or the user interrupts, ``stop`` is set, the
    others end, and the error is raised.
    """
    done: dict[int, Record] = {}
    told = 0
    heavy = [number for number, weight in enumerate(weights) if weight > most]
    light = [number for number, weight in enumerate(weights) if weight <= most]
    for numbers, at_once in ((heavy, 1), (light, threads)):
        pool = ThreadPoolExecutor(at_once)
        try:
            waiting: list[tuple[int, Future[Record]]] = [(one, pool.submit(work, one)) for one in numbers]
            for number, future in waiting:
                done[number] = future.result()
                told += weights[number]
                tell(told)
        except BaseException:
            stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    return [done[number] for number in range(len(weights))]


@dataclass(frozen=True)
class Ties:
    """Components with more than one token, a file for each part of the queries; they can be sent elsewhere.

    Attributes
    ----------
    paths : tuple of Path
        Parquet files of nodes, components numbered from 0 in each.
    digests : tuple of str
        The SHA-256 of each file.
    n_tokens : int
        Size of the vocabulary.

    Examples
    --------
    >>> Ties((), (), 5).load()
    Components(0 components of 0 queries)
    """

    paths: tuple[Path, ...]
    digests: tuple[str, ...]
    n_tokens: int

    @property
    def fingerprint(self) -> str:
        """Of all files together."""
        return digest_record([self.n_tokens, list(self.digests)])

    def __iter__(self) -> Iterator[pa.Table]:
        """The nodes of each part, components numbered one after the other; one part is read at a time."""
        number = 0
        for path in self.paths:
            table = read_parquet(path.read_bytes())
            yield shift(table, number, "component")
            number += int(column(table, "component").max(initial=-1)) + 1

    def load(self) -> Components:
        """All of them in memory, without edges and order."""
        return of_nodes(join(NODE_SCHEMA, list(self)), self.n_tokens)
