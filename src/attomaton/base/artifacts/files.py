"""One file on disk: written beside its place under a private name, flushed, renamed, read back."""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from attomaton.base.artifacts.naming import shown
from attomaton.base.artifacts.systems import flush, open_itself
from attomaton.base.errors import AttomatonError, CorruptRun, UnwritablePlace
from attomaton.base.remote import Place, RemotePath, as_place

DRAFT = ".draft"
"""Ends the name of a file that is being written."""

DRAFT_NAME = re.compile(r"\.[0-9a-f]{16}\.draft")
"""The whole name, as :func:`draft_name` gives it."""


def write_file(
    path: Path,
    write: Callable[[Path], object],
    *,
    draft: Path | None = None,
    describe: "Callable[[Path], dict[str, Any]] | None" = None,
) -> dict[str, Any]:
    """Write a draft, flush it, rename it to ``path``, read it back; the digest and size of what is there.

    For places inside a folder of ours; :func:`~attomaton.base.artifacts.targets.write_target` is for those
    that a user names. ``draft`` is a new file on the same file system; by default it stands beside ``path``.
    What comes back is what ``describe`` says of the file, :func:`entry_of` by default.
    """
    place = path.with_name(draft_name()) if draft is None else draft
    digest = write_draft(place, write)
    try:
        place.replace(path)
    except BaseException:
        place.unlink(missing_ok=True)
        raise
    flush(path.parent)
    return check_written(path, digest, describe or entry_of)


def write_draft(draft: Path, write: Callable[[Path], object]) -> str:
    """Fill a new file and flush it; its digest. A link or file of that name is not touched."""
    os.close(open_itself(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    try:
        write(draft)
        flush(draft)
        return digest_file(draft)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def check_written(path: Path, digest: str, describe: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Digest and size of a file, which must read back as it was written."""
    entry = describe(path)
    if entry["sha256"] != digest:
        raise CorruptRun(f"{path} reads back differently than it was written; check the disk")
    return entry


def draft_name() -> str:
    """A name that no other file has."""
    return f".{token_hex(8)}{DRAFT}"


def flush_tree(folder: Path) -> None:
    """Flush a folder and everything in it to the disk."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            flush(Path(place, name))
        flush(Path(place))


def digest_file(path: str | Place) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    opened: Any = as_place(path).open("rb")
    with opened as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def identify_file(path: Place) -> str:
    """The SHA-256 of a file; behind a URL that of its size and tag, where the store gives one."""
    return path.identify() if isinstance(path, RemotePath) else digest_file(path)


def link_or_copy(file: Path, new: Path) -> None:
    """Give a file a second name, in place of what has that name; a copy where there are no hard links."""
    new.unlink(missing_ok=True)
    try:
        os.link(file, new)
    except OSError:
        shutil.copyfile(file, new)


def entry_of(path: Path) -> dict[str, Any]:
    """Digest and size of a file, as manifests list them."""
    return {"sha256": digest_file(path), "bytes": path.stat().st_size}


@contextmanager
def explained(place: Path | str, *, resumable: bool = False) -> Generator[None]:
    """Whatever the disk refuses becomes an error that says where and what to do.

    ``place`` is a path, or what a sentence calls it; work that is ``resumable`` goes on when it is run again.
    """
    try:
        yield
    except AttomatonError:
        raise
    except OSError as error:
        raise unwritable(place, error.strerror or str(error), resumable=resumable) from error


def unwritable(place: Path | str, reason: str, *, resumable: bool = False) -> UnwritablePlace:
    """The error for a place that takes no more."""
    named = place if isinstance(place, str) else shown(place)
    again = ", and run it again: it goes on where it stopped" if resumable else ""
    return UnwritablePlace(f"{named} cannot be written: {reason}; make room there, or work elsewhere{again}")
