"""Files as each operating system has them: how one is opened itself, flushed, locked and removed while open.

Linux and macOS have all that is asked for here. Windows has no flag that refuses links, opens no folders,
locks with another call, and removes no file that is open.
"""

import errno
import os
from importlib import import_module
from io import FileIO
from pathlib import Path
from typing import Any


def _load(name: str) -> Any:
    """A module that only some systems have; None on the others."""
    try:
        return import_module(name)
    except ImportError:
        return None


_fcntl, _msvcrt = _load("fcntl"), _load("msvcrt")
_REFUSES_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
_PLAINLY: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Do not wait for a pipe, hand nothing on to other programs, change no line ends."""

OPENS_FOLDERS = hasattr(os, "O_DIRECTORY")
"""Whether a folder can be opened, which is how it is flushed."""

REMOVES_OPEN = _fcntl is not None
"""Whether a file can be removed while it is open."""

FAR = 1 << 30
"""The byte that is locked where locks are for bytes: nobody reads or writes there."""


def open_itself(path: Path, flags: int) -> int:
    """The descriptor of a file; a link is not followed (``ELOOP``), and a pipe is not waited for."""
    if not _REFUSES_LINKS and path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return os.open(path, flags | _REFUSES_LINKS | _PLAINLY, 0o666)


def flush(path: Path) -> None:
    """Have a file or folder on the disk, not only on its way there; a folder only where the system can.

    A link to a folder stands for the folder.
    """
    if not OPENS_FOLDERS and path.is_dir():
        return
    descriptor = os.open(path, (os.O_RDONLY if OPENS_FOLDERS else os.O_RDWR) | _PLAINLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_file(file: FileIO) -> bool:
    """Lock a file until it is closed, or this process ends, in whatever way; False if another has locked it.

    Raises
    ------
    OSError
        If the system or the file system has no locks.
    """
    if _fcntl is not None:
        try:
            _fcntl.flock(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    if _msvcrt is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    file.seek(FAR)
    try:
        _msvcrt.locking(file.fileno(), _msvcrt.LK_NBLCK, 1)
    except PermissionError:
        return False
    finally:
        file.seek(0)
    return True


def remove_open(path: Path, file: FileIO) -> None:
    """Remove a file that we have open and locked; where that cannot be, it is closed first.

    Somebody may open it in between. It then stays, and whoever has it open removes it.
    """
    if REMOVES_OPEN:
        path.unlink(missing_ok=True)
        return
    file.close()
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return
