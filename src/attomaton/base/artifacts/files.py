"""One file on disk: opened, named, flushed, locked, hashed and written atomically.

Linux and macOS have all that is needed here. Windows has no flag that refuses links, opens no folders,
locks with another call, and removes no open file.
"""

import ctypes
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from io import FileIO
from pathlib import Path
from secrets import token_hex
from typing import Any

from attomaton.base.errors import AttomatonError, UnwritablePlace
from attomaton.base.remote import AnyPath, RemotePath, as_path


def _optional_module(name: str) -> Any:
    """A module that only some systems have; None on the others."""
    try:
        return import_module(name)
    except ImportError:
        return None


_fcntl, _msvcrt = _optional_module("fcntl"), _optional_module("msvcrt")
_REFUSES_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
_PLAINLY: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Do not block on a pipe, do not pass the descriptor to child processes, do not translate line ends."""

OPENS_FOLDERS = hasattr(os, "O_DIRECTORY")  # whether a folder can be opened, as flushing it requires
LOCKED_BYTE = 1 << 30  # the byte to lock where locks cover byte ranges: nobody reads or writes there


def open_itself(path: Path, flags: int) -> int:
    """Open a file and return its descriptor, without following a link (``ELOOP``) or blocking on a pipe."""
    if not _REFUSES_LINKS and path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return os.open(path, flags | _REFUSES_LINKS | _PLAINLY, 0o666)


def flush(path: Path) -> None:
    """Flush a file or folder to disk (``fsync``); a folder only where the system can.

    A link to a folder is followed.
    """
    if not OPENS_FOLDERS and path.is_dir():
        return
    descriptor = os.open(path, (os.O_RDONLY if OPENS_FOLDERS else os.O_RDWR) | _PLAINLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_file(file: FileIO) -> bool:
    """Lock a file until it is closed or this process ends; False if another has locked it."""
    if _fcntl is not None:
        try:
            _fcntl.flock(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    file.seek(LOCKED_BYTE)
    try:
        _msvcrt.locking(file.fileno(), _msvcrt.LK_NBLCK, 1)
    except PermissionError:
        return False
    finally:
        file.seek(0)
    return True


def remove_locked(path: Path, file: FileIO) -> None:
    """Remove and close a file that we have locked."""
    if _fcntl is not None:
        path.unlink(missing_ok=True)
    file.close()
    if _fcntl is None:  # Windows removes no open file: one that another process has opened stays for it
        with suppress(PermissionError):
            path.unlink(missing_ok=True)


EXCHANGING = 2  # a flag of renameat2
HERE = -100  # stands for the working directory in calls that take a folder
UNKNOWN = frozenset([errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM])
"""Error numbers for a call that the system or the file system does not support."""


def exchange(path: Path, old: Path, spare: Path) -> None:
    """Give two folders each other's names; in three renames where the system cannot do it in one.

    Between those, ``old`` has the name ``spare``.
    """
    call = _system_call()
    if call is not None:
        if call(HERE, os.fsencode(path), HERE, os.fsencode(old), EXCHANGING) == 0:
            return
        number = ctypes.get_errno()
        if number not in UNKNOWN:
            raise OSError(number, os.strerror(number), str(path), None, str(old))
    old.rename(spare)
    path.rename(old)
    spare.rename(path)


@cache
def _system_call() -> Any:
    """The C library's ``renameat2``, or None where there is none."""
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # no such call; no such library on Windows
        return None


NAME_BYTES = 255  # bytes of a name


def sibling(name: str, ending: str) -> str:
    """The name with a suffix; a name that would be too long is cut, and a digest of the whole is added."""
    raw, tail = os.fsencode(name), os.fsencode(ending)
    if len(raw) + len(tail) > NAME_BYTES:
        digest = hashlib.sha256(raw).hexdigest()[:16].encode()
        raw = raw[: NAME_BYTES - len(tail) - len(digest)] + digest
    return os.fsdecode(raw + tail)


def show_path(path: Path) -> str:
    """A path as messages show it: relative to the working directory, if it is inside."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        return str(path)
    return str(path.relative_to(here)) if path != here and here in path.parents else str(path)


def few(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    first = ", ".join(map(repr, names[:3]))
    return first if len(names) <= 3 else f"{first} and {len(names) - 3:,} more"


DRAFT = ".draft"  # suffix of a file that is being written
DRAFT_NAME = re.compile(r"\.[0-9a-f]{16}\.draft")
"""The whole name, as :func:`draft_name` returns it."""


def entry_of(path: Path) -> dict[str, Any]:
    """Digest and size of a file, as manifests list them."""
    return {"sha256": digest_file(path), "bytes": path.stat().st_size}


def write_file(
    path: Path,
    write: Callable[[Path], object],
    *,
    draft: Path | None = None,
    describe: Callable[[Path], dict[str, Any]] = entry_of,
) -> dict[str, Any]:
    """Write a draft, flush it, hash it, rename it to ``path``; return the digest and size of the file.

    For paths inside a folder that attomaton wrote; :func:`~attomaton.base.artifacts.targets.write_target` is
    for paths that a user names. ``draft`` is a new file on the same file system, by default next to ``path``.
    ``describe`` makes the returned record of the file.
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
    """A name that no other file has."""
    return f".{token_hex(8)}{DRAFT}"


def flush_tree(folder: Path) -> None:
    """Flush a folder and everything in it to the disk."""
    for subfolder, _, names in os.walk(folder, topdown=False):
        for name in names:
            flush(Path(subfolder, name))
        flush(Path(subfolder))


def digest_file(path: str | AnyPath) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    opened: Any = as_path(path).open("rb")
    with opened as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def identify_file(path: AnyPath) -> str:
    """The SHA-256 of a file; for a URL, that of its size and tag, if the store provides a tag."""
    return path.identify() if isinstance(path, RemotePath) else digest_file(path)


def link_or_copy(file: Path, new: Path) -> None:
    """Give a file a second name, replacing any file of that name; copy it where there are no hard links."""
    new.unlink(missing_ok=True)
    try:
        os.link(file, new)
    except OSError:
        shutil.copyfile(file, new)


@contextmanager
def explained(path: Path | str, *, resumable: bool = False) -> Generator[None]:
    """Turn any error of the disk into one that says where it happened and what to do.

    ``path`` is a path, or how messages name it; ``resumable`` work resumes when it is run again.
    """
    try:
        yield
    except AttomatonError:
        raise
    except OSError as error:
        raise unwritable(path, error.strerror or str(error), resumable=resumable) from error


def unwritable(path: Path | str, reason: str, *, resumable: bool = False) -> UnwritablePlace:
    """The error for a path that cannot be written."""
    named = path if isinstance(path, str) else show_path(path)
    again = ", and run it again: it resumes where it stopped" if resumable else ""
    return UnwritablePlace(
        f"{named} cannot be written: {reason}; free space there, or write elsewhere{again}"
    )
