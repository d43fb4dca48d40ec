"""Manifests: sealed records of the files of a folder, read whole or not at all, and checked file by file."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base.artifacts.files import digest_file
from attomaton.base.artifacts.seals import FORMAT, MANIFEST, SEAL, is_sealed, read_json
from attomaton.base.errors import CorruptRun, UnreadableSource
from attomaton.base.remote import Place


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder; the module that writes such folders declares it.

    Attributes
    ----------
    name : str
        What manifests call it.
    phrase : str
        How a sentence names what such a folder holds, with its article.
    writer : str
        The command or method that writes one, such as ``attomaton learn --out``.

    Examples
    --------
    >>> FolderKind("run", "a run", "attomaton learn --out").noun
    'run'
    """

    name: str
    phrase: str
    writer: str

    @property
    def noun(self) -> str:
        """The phrase without its article."""
        return self.phrase.removeprefix("a ").removeprefix("an ")


RUN = FolderKind("run", "a run", "attomaton learn --out")
TRAINING = FolderKind("training", "a training", "attomaton train --out")
"""The two kinds that modules below their writers know: a training may stand in a run."""


def read_manifest(place: Place, kind: FolderKind = RUN) -> dict[str, Any]:
    """The manifest of a folder that attomaton wrote, if it is whole and of this kind."""
    path = place / MANIFEST
    try:
        manifest = read_json(path)
    except FileNotFoundError as error:
        how = kind.writer.replace("--out", f"… --out {place}")
        raise CorruptRun(
            f"{place} has no {MANIFEST}: there is no {kind.noun}, or it was cut short; write one with `{how}`"
        ) from error
    except NotADirectoryError as error:
        raise CorruptRun(f"{place} is a file; give the folder that `{kind.writer}` wrote") from error
    except UnreadableSource:
        raise  # a store that does not answer
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptRun(f"{path} cannot be read ({error}); write the run again") from error
    if not isinstance(manifest, dict):
        raise CorruptRun(f"{path} holds no manifest; write the run again")
    found: dict[str, Any] = dict(manifest)  # pyright: ignore[reportUnknownArgumentType]
    if found.get("format") != FORMAT:
        raise CorruptRun(
            f"{place} is of format {found.get('format')}, not {FORMAT}; write it again with this version"
        )
    if not is_sealed(found):
        raise CorruptRun(f"{path} was altered after it was written; write the run again")
    if found.get("kind") != kind.name:
        raise CorruptRun(
            f"{place} is of the kind {found.get('kind')!r}, not {kind.name!r}; give another folder"
        )
    del found[SEAL]
    return found


def list_digests(folder: Place, files: Any) -> dict[str, str]:
    """Name and digest of each file that a record lists; names must be plain, so nothing outside is read."""
    try:
        listed = {str(name): str(entry["sha256"]) for name, entry in files.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise CorruptRun(f"the manifest of {folder} lists its files wrongly; write it again") from error
    outside = [name for name in listed if Path(name).name != name]
    if outside:
        raise CorruptRun(
            f"the manifest of {folder} lists {outside[0]!r}, which is not in the folder; do not trust it"
        )
    return listed


def check_files(folder: Place, files: Any, *, again: str) -> list[str]:
    """The digests of the files that a record lists, if each file still has its own.

    ``again`` says what to do where one has not.
    """
    listed = list_digests(folder, files)
    for name, digest in listed.items():
        place = folder / name
        if not place.is_file() or digest_file(place) != digest:
            raise CorruptRun(f"{place} was altered after it was written; {again}")
    return list(listed.values())


def read_checked(path: Place, digest: str) -> bytes:
    """The bytes of a file that a manifest lists, if they are still what was written."""
    try:
        blob = path.read_bytes()
    except OSError as error:
        if isinstance(error, UnreadableSource) and not isinstance(error, FileNotFoundError):
            raise  # a store that does not answer
        raise CorruptRun(
            f"{path} is listed in the manifest but cannot be read; write the run again"
        ) from error
    if hashlib.sha256(blob).hexdigest() != digest:
        raise CorruptRun(f"{path} was altered after the run was written; write the run again")
    return blob
