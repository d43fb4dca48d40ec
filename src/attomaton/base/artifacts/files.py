"""Write one file on disk: named, hashed and atomic, with errors that say where they happened."""

import hashlib
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from errno import ENOENT
from pathlib import Path
from secrets import token_hex
from typing import Any

from attomaton.base.artifacts.systems import flush
from attomaton.base.errors import AttomatonError, UnwritablePlace
from attomaton.base.remote import AnyPath, RemotePath, as_path

NAME_BYTES = 255  # longest name that file systems allow
LISTED_NAMES = 3  # names that a message lists
DRAFT = ".draft"  # suffix of a file that is being written
# The whole name, as `draft_name` returns it.
DRAFT_NAME = re.compile(r"\.[0-9a-f]{16}\.draft")


def entry_of(path: Path) -> dict[str, Any]:
    """Digest and size of a file, as manifests list them."""
    return {"sha256": digest_file(path), "bytes": path.stat().st_size}


def digest_file(path: str | AnyPath) -> str:
    opened: Any = as_path(path).open("rb")
    with opened as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(
    path: Path,
    write: Callable[[Path], object],
    *,
    draft: Path | None = None,
    describe: Callable[[Path], dict[str, Any]] = entry_of,
) -> dict[str, Any]:
    """Write a draft, flush it, hash it, and rename it to ``path``; return the manifest entry of the file.

    ``path`` is inside a folder of attomaton; :func:`.targets.write_target` writes files that a user names.
    ``draft`` is a new file on the same file system, by default next to ``path``.
    """
    new = path.with_name(draft_name()) if draft is None else draft
    try:
        write(new)
        flush(new)
        entry = describe(new)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    flush(path.parent)
    return entry


def draft_name() -> str:
    return f".{token_hex(8)}{DRAFT}"  # hidden, and of 64 random bits, so unique


def identify_file(path: AnyPath) -> str:
    """The SHA-256 of a file; for a URL, that of its size and the tag of the store, if it has a tag."""
    return path.identify() if isinstance(path, RemotePath) else digest_file(path)


def suffixed_name(name: str, suffix: str) -> str:
    """The name with a suffix; a name that would be too long is cut, and its digest is added."""
    raw, tail = os.fsencode(name), os.fsencode(suffix)
    if len(raw) + len(tail) > NAME_BYTES:
        digest = hashlib.sha256(raw).hexdigest()[:16].encode()
        raw = raw[: NAME_BYTES - len(tail) - len(digest)] + digest
    return os.fsdecode(raw + tail)


def show_path(path: Path) -> str:
    """A path as messages show it: relative to the working directory if it is inside."""
    try:
        working_directory = Path.cwd()
    except FileNotFoundError:  # it was removed
        return str(path)
    return str(path.relative_to(working_directory)) if working_directory in path.parents else str(path)


def list_first(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:LISTED_NAMES]))
    return shown if len(names) <= LISTED_NAMES else f"{shown} and {len(names) - LISTED_NAMES:,} more"


@contextmanager
def explained(path: Path | str, *, resumable: bool = False) -> Generator[None]:
    """Turn an error of the disk into one that says where it happened and what to do."""
    try:
        yield
    except AttomatonError:
        raise
    except OSError as error:
        raise unwritable(path, error.strerror or str(error), resumable=resumable) from error


def unwritable(path: Path | str, reason: str, *, resumable: bool = False) -> UnwritablePlace:
    shown = path if isinstance(path, str) else show_path(path)  # a text is the name in messages
    again = ", and run this again: it resumes where it stopped" if resumable else ""
    cure = "create its folder" if reason == os.strerror(ENOENT) else "free space"
    return UnwritablePlace(f"{shown} cannot be written: {reason}; {cure}, or write elsewhere{again}")
