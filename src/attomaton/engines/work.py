"""The work folder of an engine, and the records of what is finished in it.

A later run resumes an interrupted run. Each finished job or partition has a record: a sealed JSON file,
written last, with the digest of every file of the result. The folder belongs to the engine: it was created or
found empty, and contains a marker.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base import artifacts
from attomaton.base.artifacts.files import DRAFT_NAME
from attomaton.base.artifacts.systems import lock_file
from attomaton.base.errors import UnwritablePlace
from attomaton.base.remote import refuse_url
from attomaton.corpora.shards import Shards

WORK_MARKER = "attomaton-work.txt"  # marks a folder that we may work in

# A finished result: plain values, and under `files` the entry of each file by its name.
Record = dict[str, Any]


@dataclass(frozen=True)
class StageRecords:
    """The numbered records of a stage, in the folder of their files; names of records begin with ``stage``.

    ``fingerprint`` is a digest of everything that the results depend on.
    """

    folder: Path
    stage: str
    fingerprint: str

    def run(self, number: int, work: Callable[[int], Record]) -> Record:
        """The record of an earlier run if its files are whole, or else of ``work(number)``."""
        finished = self.read_intact(number)
        return self.write(number, work(number)) if finished is None else finished

    def write(self, number: int, record: Record) -> Record:
        """Record a result whose files are written already."""
        signed = {**record, "fingerprint": self.fingerprint}
        with artifacts.explained(self.folder):
            artifacts.write_sealed(self._path(number), signed)
        return signed

    def read(self, number: int) -> Record | None:
        """The existing record, if its fingerprint is the same; its files are not checked."""
        record = artifacts.read_sealed(self._path(number))
        return record if record is not None and record.get("fingerprint") == self.fingerprint else None

    def read_intact(self, number: int) -> Record | None:
        """The existing record, if its fingerprint is the same and its files are as written."""
        try:
            record = self.read(number)
            if record is None:
                return None
            artifacts.check_files(self.folder, record["files"], again="run it again")
        except (OSError, KeyError, TypeError, AttributeError):
            return None
        return record

    def clear(self, n_records: int) -> None:
        """Remove the records with other fingerprints, and those from number ``n_records`` on."""
        for path in sorted(self.folder.glob(f"{self.stage}-*.json")) if self.folder.is_dir() else ():
            number = re.fullmatch(rf"{self.stage}-(\d+)\.json", path.name)
            is_current = (artifacts.read_sealed(path) or {}).get("fingerprint") == self.fingerprint
            if number is not None and not (is_current and int(number[1]) < n_records):
                path.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{self.stage}-{number:05d}.json"


def fingerprint(shards: Shards, settings: Mapping[str, Any], digests: Sequence[str] | None = None) -> str:
    """The SHA-256 of the shards' bytes and the settings; ``digests`` are those of the shards, if known."""
    if digests is None:
        digests = [artifacts.identify_file(path) for path in shards.paths]
    return artifacts.digest_record([list(digests), shards.n_tokens, dict(settings)])


def prepare_work(folder: Path) -> Path:
    """Create the work folder, or check that an existing one is empty or contains our marker."""
    refuse_url(folder, "the work folder")
    with artifacts.explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / WORK_MARKER).is_file():
            strangers = sorted(path.name for path in folder.iterdir())
            if strangers:
                raise UnwritablePlace(
                    f"the work folder {folder} contains other files, such as {strangers[0]!r}; "
                    f"give a new or empty folder"
                )
            (folder / WORK_MARKER).write_text(
                "attomaton works here. Delete this folder when the results are copied.\n", encoding="utf-8"
            )
    return folder


@contextmanager
def working_in(folder: Path) -> Generator[Path]:
    """The work folder, for one run at a time; the drafts of a killed run are removed first."""
    prepare_work(folder)
    with artifacts.explained(folder):
        marker = (folder / WORK_MARKER).open("ab", buffering=0)
    with marker:
        free = True
        with suppress(OSError):  # a file system without locks
            free = lock_file(marker)
        if not free:
            raise UnwritablePlace(
                f"another run uses the work folder {folder}; wait until it ends, or give another folder"
            )
        with artifacts.explained(folder):
            clear_drafts(folder)
        yield folder


def clear_drafts(folder: Path) -> None:
    """Remove half-written files in the work folder and the folders of its stages."""
    for path in [*folder.glob("*"), *folder.glob("*/*")]:
        if DRAFT_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
