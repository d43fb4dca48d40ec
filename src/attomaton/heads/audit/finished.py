"""Finished layers of an audit in a folder, from which an audit that was stopped continues.

:class:`FinishedLayers` writes and reads the folder during an audit, :func:`read_finished` after it.
"""

import hashlib
import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

from attomaton.base.artifacts import digest_arrays, explained, write_file
from attomaton.base.artifacts.ownership import locked
from attomaton.base.errors import MismatchedParts, UnreadableSource
from attomaton.base.tables import write_parquet
from attomaton.heads.audit.digests import digest_value
from attomaton.heads.audit.result import HeadAudit, join_audits
from attomaton.heads.audit.saved import read_saved
from attomaton.heads.audit.storage import store
from attomaton.heads.model import HeadModel

IDENTITY = "audit.json"  # the file that says to which audit the layers belong

LAYER = "layer-{:04}.parquet"  # the file of a layer

AUDIT = b"attomaton audit"  # the metadata key in the file of a layer: the SHA-256 of ``IDENTITY``

DIGITS = re.compile(r"\d+")


def numbered(folder: Path, name: str) -> dict[int, Path]:
    """The files or folders whose name is ``name`` with a number, by that number; others are ignored."""
    entries: dict[int, Path] = {}
    for entry in folder.iterdir() if folder.is_dir() else ():
        number = DIGITS.search(entry.name)
        if number is not None and entry.name == name.format(int(number[0])):
            entries[int(number[0])] = entry
    return dict(sorted(entries.items()))


@contextmanager
def alone_in(folder: str | PathLike[str]) -> Generator[None]:
    """Refuse a folder that another process or thread uses."""
    path = Path(folder)
    with ExitStack() as stack:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(path, path.absolute().parent))
        yield


@dataclass(frozen=True)
class FinishedLayers:
    """A folder with a file for each finished layer."""

    folder: Path

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: str | PathLike[str],
        model: HeadModel,
        documents: Sequence[Any],
        settings: Mapping[str, Any],
    ) -> "Generator[FinishedLayers]":
        """The folder of an audit, locked; a folder with layers of another audit is refused."""
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise UnreadableSource(f"{path} is a file; give the path of a folder for finished layers")
        identity = {
            "version": version("attomaton"),
            "shape": str(model.shape),
            "weights": digest_value(model),
            "documents": digest_arrays(*(np.asarray(ids, np.int64) for ids in documents)),
            **settings,
        }
        with alone_in(path):
            cls._claim(path, identity)
            yield cls(path)

    # Write to which audit the folder belongs, or raise if it belongs to another.
    @staticmethod  # like ``open``, it has no folder of its own yet
    def _claim(folder: Path, identity: Mapping[str, Any]) -> None:
        text = json.dumps(identity, sort_keys=True, indent=1)
        new: Any = json.loads(text)  # as it is read back: tuples become lists
        try:
            old: Any = json.loads((folder / IDENTITY).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            if numbered(folder, LAYER):
                raise MismatchedParts(
                    f"{folder} has finished layers, but the file {IDENTITY}, which describes their audit, is "
                    "missing; delete the folder to start again"
                ) from error
            with explained(folder):
                folder.mkdir(exist_ok=True)
                write_file(folder / IDENTITY, lambda draft: draft.write_text(text, encoding="utf-8"))
            return
        except (OSError, ValueError, RecursionError) as error:
            raise UnreadableSource(f"{folder / IDENTITY} cannot be read; delete folder {folder}") from error
        if old != new:
            entries = cast("dict[str, Any]", old) if isinstance(old, dict) else {}
            different = [name for name in new if entries.get(name) != new[name]]
            raise MismatchedParts(
                f"{folder} has finished layers of another audit, which differs in {', '.join(different)}; "
                "call with the arguments of that audit, give another folder, or delete this one to begin anew"
            )

    def read(self) -> dict[int, HeadAudit]:
        """The audits of finished layers, without files that are damaged, misnamed or of another audit."""
        audits: dict[int, HeadAudit] = {}
        for layer, file in numbered(self.folder, LAYER).items():
            with suppress(UnreadableSource, OSError):
                if (read_saved(file)[0].schema.metadata or {}).get(AUDIT) == self._identify():
                    audits[layer] = HeadAudit.load(file)
        return {layer: audit for layer, audit in audits.items() if audit.layers == [layer]}

    def write(self, layer: int, audit: HeadAudit) -> None:
        """Write the audit of a finished layer, marked as a layer of this audit."""
        with explained(self.folder, resumable=True):
            table: Any = store(audit)
            table = table.replace_schema_metadata({**table.schema.metadata, AUDIT: self._identify()})
            write_file(self.folder / LAYER.format(layer), partial(write_parquet, table))

    # Layers of an audit with other arguments have another digest, and are not read.
    def _identify(self) -> bytes:
        return hashlib.sha256((self.folder / IDENTITY).read_bytes()).hexdigest().encode()

    def remove(self) -> None:
        """Remove the files of this audit, and the folder if nothing else is in it."""
        for file in (*numbered(self.folder, LAYER).values(), self.folder / IDENTITY):
            if file.is_file():
                file.unlink(missing_ok=True)
        with suppress(OSError):  # it has other files
            self.folder.rmdir()


def read_finished(folder: str | PathLike[str]) -> HeadAudit | None:
    """The audit of the finished layers in the ``work`` folder of an audit; None if there are none."""
    audits = FinishedLayers(Path(folder)).read()
    return join_audits([audits[layer] for layer in sorted(audits)]) if audits else None
