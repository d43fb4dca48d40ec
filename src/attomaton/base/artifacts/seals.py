"""Records that carry a digest of themselves, so that no altered one is taken for what was written."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from attomaton.base.artifacts.files import write_file
from attomaton.base.artifacts.systems import open_itself
from attomaton.base.errors import UnreadableSource
from attomaton.base.remote import Place, RemotePath

MANIFEST = "manifest.json"
"""The record of a folder that attomaton wrote: its kind, its files, and a digest of itself."""

FORMAT = 2
SEAL = "seal"
"""The name under which a record holds its own digest."""

LARGEST = 1 << 28
"""Bytes of a record; a larger one is not ours."""


def digest_record(record: Any) -> str:
    """The SHA-256 of a record of plain values, however it is laid out as text."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its own digest."""
    return {**record, SEAL: digest_record(dict(record))}


def is_sealed(record: object) -> bool:
    """Whether a record has the digest that it carries."""
    if not isinstance(record, dict):
        return False
    rest = dict(cast("dict[str, Any]", record))
    return rest.pop(SEAL, None) == digest_record(rest)


def read_sealed(path: Place) -> dict[str, Any] | None:
    """The record in a regular file, without its digest; None if there is none that is whole and ours.

    A store that does not answer is an error: nobody knows then what is there.
    """
    try:
        record = read_json(path)
    except FileNotFoundError:
        return None
    except UnreadableSource:
        raise
    except (OSError, ValueError, RecursionError):
        return None
    if not is_sealed(record):
        return None
    return {name: value for name, value in record.items() if name != SEAL}


def was_sealed(path: Place) -> bool:
    """Whether a file that is no whole record of ours looks as if it had been one.

    Either of two signs is enough, and one flipped bit cannot take both away.
    """
    try:
        with _open(path) as file:
            blob = file.read(LARGEST)
    except FileNotFoundError:
        return False
    except UnreadableSource:
        raise
    except OSError:
        return False
    return b'"attomaton"' in blob or f'"{SEAL}"'.encode() in blob


def read_json(path: Place) -> Any:
    """What a regular file holds as JSON; no link is followed."""
    with _open(path) as file:
        blob = file.read(LARGEST + 1)
    if len(blob) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST:,} bytes")
    return json.loads(blob)


def _open(path: Place) -> BinaryIO:
    if isinstance(path, RemotePath):
        return path.open("rb")
    return open(open_itself(path, os.O_RDONLY), "rb")  # noqa: PTH123  a descriptor


def write_sealed(path: Path, record: Mapping[str, Any], *, draft: Path | None = None) -> None:
    """Write a record with its digest; ``draft`` as for :func:`~attomaton.base.artifacts.files.write_file`."""
    write_file(path, json_writer(seal(record)), draft=draft)


def json_writer(record: Any) -> Callable[[Path], object]:
    """What writes a record as JSON, for :func:`~attomaton.base.artifacts.files.write_file`.

    Text stays readable; names of files that are not UTF-8 are written as escapes.
    """
    blob = encode_record(record)
    return lambda path: path.write_bytes(blob)


def encode_record(record: Any) -> bytes:
    """A record as the JSON that is written."""
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        blob = text.encode()
    except UnicodeEncodeError:
        blob = json.dumps(record, ensure_ascii=True, indent=1, allow_nan=False).encode()
    return blob + b"\n"
