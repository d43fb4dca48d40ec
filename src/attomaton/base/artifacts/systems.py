"""File operations that differ by operating system: refuse links, flush, lock, exchange and link.

Linux and macOS have all of them. Windows has no flag that refuses links, cannot open folders, locks with
another call, and cannot remove open files.
"""

import ctypes
import errno
import os
import shutil
from contextlib import suppress
from functools import cache
from importlib import import_module
from io import FileIO
from pathlib import Path
from typing import Any


def _optional_module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


_fcntl = _optional_module("fcntl")  # None on Windows
_msvcrt = _optional_module("msvcrt")  # None elsewhere
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
# Do not block on a pipe, do not pass the descriptor to child processes, do not translate line ends.
_SAFE_FLAGS: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

OPENS_FOLDERS = hasattr(os, "O_DIRECTORY")  # whether a folder can be opened, as flushing it requires
LOCKED_BYTE = 1 << 30  # the byte to lock where locks cover byte ranges: nobody reads or writes there
NEW_FILE_MODE = 0o666  # all may read and write, except as the umask of the user says: the default of `open`

RENAME_EXCHANGE = 2  # a flag of renameat2
AT_WORKING_DIRECTORY = -100  # AT_FDCWD: paths are relative to the working directory
# Error numbers if the system or the file system does not support renameat2. EPERM is one of them, because
# sandboxes refuse unknown calls with it; if the renames are really forbidden, the fallback fails too.
UNSUPPORTED_CALL = frozenset([errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM])


def open_no_follow(path: Path, flags: int) -> int:
    """Open a file and return its descriptor, without following a link (``ELOOP``) or blocking on a pipe."""
    if not _NO_FOLLOW and path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return os.open(path, flags | _NO_FOLLOW | _SAFE_FLAGS, NEW_FILE_MODE)


def flush(path: Path) -> None:
    """Flush a file to disk (``fsync``), or a folder if the system can; a link to a folder is followed."""
    if not OPENS_FOLDERS and path.is_dir():
        return
    # Windows (which opens no folders) flushes a descriptor only if it can be written to; elsewhere, reading
    # is enough, and also works for folders and for files without write permission
    descriptor = os.open(path, (os.O_RDONLY if OPENS_FOLDERS else os.O_RDWR) | _SAFE_FLAGS)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:  # each folder after what is in it
    for subfolder, _, names in os.walk(folder, topdown=False):
        for name in names:
            flush(Path(subfolder, name))
        flush(Path(subfolder))


def lock_file(file: FileIO) -> bool:
    """Lock a file until it is closed or this process ends; False if another process has locked it."""
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
    """Remove and close a lock file, in this order, so that nobody locks it in between."""
    if _fcntl is not None:
        path.unlink(missing_ok=True)
    file.close()
    # Windows cannot remove an open file, so there it is closed first. If another process has opened the file
    # meanwhile, it stays for that process.
    if _fcntl is None:
        with suppress(PermissionError):
            path.unlink(missing_ok=True)


def exchange_folders(path: Path, target: Path, spare: Path) -> None:
    """Exchange the names of two folders, in three renames through ``spare`` if no call does it at once."""
    renameat2 = _find_renameat2()
    if renameat2 is not None:
        names = AT_WORKING_DIRECTORY, os.fsencode(path), AT_WORKING_DIRECTORY, os.fsencode(target)
        if renameat2(*names, RENAME_EXCHANGE) == 0:
            return
        number = ctypes.get_errno()
        if number not in UNSUPPORTED_CALL:
            raise OSError(number, os.strerror(number), str(path), None, str(target))
    target.rename(spare)
    path.rename(target)
    spare.rename(path)


@cache
def _find_renameat2() -> Any:
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # no such call; no such library on Windows
        return None


def link_or_copy(file: Path, copy: Path) -> None:
    """Give a file a second name, replacing any file of that name; copy it if hard links are impossible."""
    copy.unlink(missing_ok=True)
    try:
        os.link(file, copy)
    except OSError:
        shutil.copyfile(file, copy)
