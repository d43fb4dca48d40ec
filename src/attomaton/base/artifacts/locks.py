"""One lock for each target: who writes there now, and since when.

The lock is a small file beside the target, ``.NAME.attomaton-lock``, on which the operating system holds an
advisory lock for as long as its owner lives. A file that a killed owner left is taken over by the next
writer, who also removes what the owner was about to put in place or had just replaced: the file tells the
names.
"""

import errno
import json
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, cast

from attomaton.base.artifacts.files import DRAFT_NAME, draft_name
from attomaton.base.artifacts.naming import shown, sibling
from attomaton.base.artifacts.ownership import LOCK, remove_draft, remove_ours, tell_kept
from attomaton.base.artifacts.renaming import UNLINKABLE
from attomaton.base.artifacts.systems import REMOVES_OPEN, flush, lock_file, open_itself, remove_open
from attomaton.base.errors import UnwritablePlace

KIND = "lock of attomaton"
SWAP = ".swap"
PROCESSES = Path("/proc")
"""Where a system lists its processes by number, if it does."""

LONGEST = 24 * 3600
"""Seconds after which a lock is stale where nobody can say whether its owner lives."""


@dataclass(frozen=True)
class Lock:
    """A lock that is held.

    Attributes
    ----------
    path : Path
        The lock file.
    draft : Path
        A file beside it that its owner may write; what a killed owner leaves there is removed.
    """

    path: Path
    draft: Path

    def swap(self, beside: Path) -> Path:
        """The name of a folder while it changes places with the target; what is left of it is removed."""
        return beside / self.draft.with_suffix(SWAP).name

    def remember(self) -> None:
        """Have the lock file on the disk, so that it tells even after a loss of power what to remove."""
        flush(self.path)
        flush(self.path.parent)


@contextmanager
def locked(target: Path, beside: Path) -> Generator[Lock]:
    """Hold the lock of ``target``; the lock file is in the folder ``beside``.

    Raises
    ------
    UnwritablePlace
        If another process, or another thread of this one, writes to the target.
    """
    path = beside / sibling("." + target.name, LOCK)
    file, draft = _take(path, target)
    with file:
        try:
            yield Lock(path, beside / draft)
        finally:  # if this is interrupted, the lock file stays and tells the next writer what to remove
            _remove_left(draft, beside, target)
            remove_open(path, file)


def _take(path: Path, target: Path) -> tuple[FileIO, str]:
    """A lock file of ours, open, and the name of its draft."""
    for _ in range(1000):
        _remove_stale(path, target)
        draft = draft_name()
        file = _make(path, draft)
        if file is not None:
            return file, draft
    raise UnwritablePlace(f"{shown(target)} is being written by others all the time; write to another place")


def _make(path: Path, draft: str) -> FileIO | None:
    """A new lock file that is whole and locked when it appears; None if another one is there."""
    about = {"kind": KIND, "pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    blob = json.dumps({**about, "draft": draft}).encode()
    if not REMOVES_OPEN:
        return _make_plainly(path, blob)
    file, name = _open_unnamed(path)
    try:
        file.write(blob)
        _lock(file)
        if name is None:  # the folder is not looked at, but without one Python does not follow the link
            os.link(f"/proc/self/fd/{file.fileno()}", path, src_dir_fd=file.fileno())
        else:
            os.link(name, path)
    except BaseException as error:
        file.close()
        if isinstance(error, FileExistsError):
            return None
        if isinstance(error, OSError) and error.errno in UNLINKABLE:  # a file system without hard links
            return _make_plainly(path, blob)
        raise
    finally:
        if name is not None:
            name.unlink(missing_ok=True)
    return file


def _make_plainly(path: Path, blob: bytes) -> FileIO | None:
    """A new lock file that has its name before it is whole."""
    try:
        file = _open(path, os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return None
    file.write(blob)
    _lock(file)
    return file


def _open_unnamed(path: Path) -> tuple[FileIO, Path | None]:
    """A new file without a name, or with a private one where the file system asks for one."""
    try:
        return FileIO(os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666), "r+"), None
    except (AttributeError, OSError) as error:
        unknown = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
        if isinstance(error, OSError) and error.errno not in unknown:
            raise
    name = path.with_name(draft_name())
    return _open(name, os.O_CREAT | os.O_EXCL), name


def _open(path: Path, flags: int = 0) -> FileIO:
    """A file to read and write; no link is followed."""
    return FileIO(open_itself(path, os.O_RDWR | flags), "r+")


def _remove_stale(path: Path, target: Path) -> None:
    """Remove a lock whose owner is gone, with its draft; say who holds one that is in use."""
    try:
        file = _open(path)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise _in_the_way(path) from error
    with file:
        owner = _read(file)
        if owner is None:
            raise _in_the_way(path)
        if not _lock(file, owner):
            raise UnwritablePlace(
                f"{shown(target)} is being written by {_describe(owner)}; wait, or write elsewhere"
            )
        if _is_same(file, path):
            _remove_left(str(owner.get("draft")), path.parent, target)
            remove_open(path, file)


def _lock(file: FileIO, owner: dict[str, Any] | None = None) -> bool:
    """Whether the file could be locked; where none can, whether its owner seems gone."""
    try:
        return lock_file(file)
    except OSError:  # a file system without locks
        return owner is None or not _seems_alive(owner)


def _seems_alive(owner: dict[str, Any]) -> bool:
    """Whether the owner's process is there; where that cannot be seen, whether its lock is young."""
    if owner.get("host") != socket.gethostname() or not PROCESSES.is_dir():
        return time.time() - float(owner.get("since", 0.0)) < LONGEST
    return (PROCESSES / str(owner.get("pid"))).exists()


def _read(file: FileIO) -> dict[str, Any] | None:
    """Who a lock file says its owner is; None for a file that is no lock of ours."""
    try:
        owner = json.loads(file.read(4096) or b"")  # a pipe gives nothing
    except (OSError, ValueError):
        return None
    if not isinstance(owner, dict) or cast("dict[str, Any]", owner).get("kind") != KIND:
        return None
    return cast("dict[str, Any]", owner)


def _is_same(file: FileIO, path: Path) -> bool:
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file.fileno()), there)


def _remove_left(name: str, beside: Path, target: Path) -> None:
    """Remove what an owner left under its draft's name, beside the target or in it (a training in a run)."""
    if not DRAFT_NAME.fullmatch(name):
        return
    for folder in (beside, target):
        if not folder.is_dir():
            continue
        draft = folder / name
        swap = draft.with_suffix(SWAP)
        kept = remove_ours(swap, draft) if swap.is_dir() and not swap.is_symlink() else []
        remove_draft(draft)
        tell_kept(swap, kept)


def _describe(owner: dict[str, Any]) -> str:
    minutes = (time.time() - float(owner.get("since", 0.0))) / 60
    age = f"{minutes:.0f} minutes" if minutes >= 2 else f"{60 * minutes:.0f} seconds"
    return f"process {owner.get('pid')} on {owner.get('host')}, for {age} now"


def _in_the_way(path: Path) -> UnwritablePlace:
    return UnwritablePlace(
        f"{shown(path)} is in the way and no lock of attomaton; move it away, or write elsewhere"
    )
