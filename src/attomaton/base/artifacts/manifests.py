"""Read and write sealed records: JSON with a digest of its content, so that changes are detected.

The most important one is the manifest, which completes a folder. A changed, truncated or foreign file is not
a record: :func:`read_sealed` returns None, and :func:`read_manifest` says what is wrong.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from attomaton.base.artifacts.files import digest_file, write_file
from attomaton.base.artifacts.systems import open_no_follow
from attomaton.base.errors import CorruptRun, UnreadableSource
from attomaton.base.remote import AnyPath, RemotePath

# The record of a folder that attomaton wrote: its kind, its files, and its own digest.
MANIFEST = "manifest.json"

FORMAT = 2  # of run folders; a folder of another format is refused
SEAL = "seal"  # the key of the digest in a record
LARGEST_RECORD = 1 << 28  # bytes of a record; a larger file is not ours


def digest_record(record: Any) -> str:
    """The SHA-256 of a record of plain values, however it is formatted."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record, SEAL: digest_record(dict(record))}


def is_sealed(record: object) -> bool:  # whether a record has the digest of its other entries
    if not isinstance(record, dict):
        return False
    content = dict(cast("dict[str, Any]", record))
    return content.pop(SEAL, None) == digest_record(content)


def read_sealed(path: AnyPath) -> dict[str, Any] | None:
    """The record in a regular file, without its digest; None if there is no intact record of ours."""
    try:
        record = json.loads(_read_bytes(path))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, UnreadableSource) and not isinstance(error, FileNotFoundError):
            raise  # a store that does not answer: the content is unknown
        return None
    return {name: value for name, value in record.items() if name != SEAL} if is_sealed(record) else None


def was_sealed(path: AnyPath) -> bool:
    """Whether a file that is not an intact record looks as if it had been one of ours."""
    try:
        blob = _read_bytes(path)
    except (OSError, ValueError) as error:
        if isinstance(error, UnreadableSource) and not isinstance(error, FileNotFoundError):
            raise
        return False
    # either sign is enough: one flipped bit cannot remove both
    return b'"attomaton"' in blob or f'"{SEAL}"'.encode() in blob


# The bytes of a file, if it is no link and no larger than a record may be.
def _read_bytes(path: AnyPath) -> bytes:
    remote = isinstance(path, RemotePath)
    with path.open("rb") if remote else open(open_no_follow(path, os.O_RDONLY), "rb") as file:  # noqa: PTH123
        blob = file.read(LARGEST_RECORD + 1)
    if len(blob) > LARGEST_RECORD:
        raise ValueError(f"it has more than {LARGEST_RECORD:,} bytes")
    return blob


def write_sealed(path: Path, record: Mapping[str, Any], *, draft: Path | None = None) -> None:
    write_file(path, json_writer(seal(record)), draft=draft)


def json_writer(record: Any) -> Callable[[Path], object]:
    blob = encode_record(record)
    return lambda path: path.write_bytes(blob)


def encode_record(record: Any) -> bytes:
    """A record as JSON bytes, with a line for each entry (indentation is slow)."""
    dump = partial(json.dumps, ensure_ascii=False, allow_nan=False)
    entries = cast("dict[str, Any]", record).items() if isinstance(record, dict) else ()
    lines = ",\n".join(f"{dump(name)}: {dump(entry)}" for name, entry in entries)
    return (f"{{\n{lines}\n}}\n" if lines else f"{dump(record)}\n").encode(errors="backslashreplace")


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder, declared by the module that writes such folders.

    ``name`` is its name in manifests, ``phrase`` its name in messages, with an article, and ``writer`` the
    command or the method that writes it.
    """

    name: str
    phrase: str
    writer: str

    @property
    def noun(self) -> str:
        return self.phrase.removeprefix("a ").removeprefix("an ")


RUN = FolderKind("run", "a run", "attomaton learn --out")
# The kinds that `ownership` needs: a run may contain a training.
TRAINING = FolderKind("training", "a training", "attomaton train --out")


def read_manifest(folder: AnyPath, kind: FolderKind = RUN) -> dict[str, Any]:
    """Read the manifest of a folder of attomaton; it must be intact and of this kind."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(_read_bytes(path))
    except FileNotFoundError as error:
        command = kind.writer.replace("--out", f"… --out {folder}")
        raise CorruptRun(
            f"{folder} has no {MANIFEST}, so it is not a complete {kind.noun}; write one with `{command}`"
        ) from error
    except NotADirectoryError as error:
        raise CorruptRun(f"{folder} is a file; give a folder that `{kind.writer}` wrote") from error
    except UnreadableSource:
        raise  # a store that does not answer
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptRun(f"{path} cannot be read ({error}); write the {kind.noun} again") from error
    if not isinstance(manifest, dict):
        raise CorruptRun(f"{path} is not a manifest of attomaton; write the {kind.noun} again")
    record: dict[str, Any] = dict(manifest)  # pyright: ignore[reportUnknownArgumentType]
    if record.get("format") != FORMAT:
        raise CorruptRun(f"{folder} has format {record.get('format')}, not format {FORMAT}; write it again")
    if not is_sealed(record):
        raise CorruptRun(f"{path} was altered after it was written; write the run again")
    if record.get("kind") != kind.name:
        raise CorruptRun(
            f"{folder} is of the kind {record.get('kind')!r}, not {kind.name!r}; give another folder"
        )
    del record[SEAL]
    return record


def list_digests(folder: AnyPath, files: Any) -> dict[str, str]:
    """The name and the digest of each file in a record; a name outside of the folder is refused."""
    try:
        listed = {str(name): str(entry["sha256"]) for name, entry in files.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise CorruptRun(f"the manifest of {folder} has an invalid list of files; write it again") from error
    outside = [name for name in listed if Path(name).name != name]
    if outside:
        raise CorruptRun(
            f"the manifest of {folder} lists {outside[0]!r}, which is outside of this folder; do not trust "
            "the folder, and write it again"
        )
    return listed


def check_files(folder: AnyPath, files: Any, *, again: str) -> list[str]:
    """The digests of the files in a record; if one does not match, an error advises ``again``."""
    listed = list_digests(folder, files)
    for name, digest in listed.items():
        path = folder / name
        if not path.is_file() or digest_file(path) != digest:
            raise CorruptRun(f"{path} was altered after it was written; {again}")
    return list(listed.values())


def read_checked(path: AnyPath, digest: str) -> bytes:
    """The bytes of a file in a manifest, if they match its digest."""
    try:
        blob = path.read_bytes()
    except OSError as error:
        if isinstance(error, UnreadableSource) and not isinstance(error, FileNotFoundError):
            raise  # a store that does not answer
        raise CorruptRun(f"{path} is in the manifest, but cannot be read; write the run again") from error
    if hashlib.sha256(blob).hexdigest() != digest:
        raise CorruptRun(f"{path} was altered after it was written; write the run again")
    return blob
