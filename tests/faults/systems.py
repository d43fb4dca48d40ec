"""Commands under a system that lacks what macOS or Windows lack, as far as that can be told on Linux.

``python -m tests.faults.systems windows < commands.json`` takes away what the system does not have, has the
rest behave as it does there, runs each command line in turn, and prints how each ended.
"""

import ctypes
import errno
import fcntl
import importlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import types
from contextlib import suppress
from pathlib import Path

NOT_ON_MACOS = ("sched_getaffinity", "O_TMPFILE", "posix_fadvise", "posix_fallocate")
NOT_ON_WINDOWS = (
    *NOT_ON_MACOS,
    *("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "O_SYNC", "O_DSYNC"),
    *("geteuid", "getuid", "getegid", "getgid", "sysconf", "pread", "pwrite", "fork", "getloadavg"),
    *("mkfifo", "mknod", "statvfs", "fchmod", "fchown", "chown", "lchown", "killpg", "setsid", "uname"),
)
OTHERS = (
    *("subprocess", "multiprocessing.context", "concurrent.futures.process", "importlib.metadata"),
    *("numpy.testing", "scipy.sparse.csgraph", "scipy.sparse.linalg", "scipy.optimize"),
    *("pyarrow.parquet", "pyarrow.compute", "pyarrow.csv", "duckdb", "safetensors.numpy"),
    *("typer", "rich.console", "rich.table", "rich.progress"),
)
"""Packages of others look which system they are on: they are loaded before, and find Linux."""
MODULES_OF_UNIX = ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog")


class NoCalls:
    """A C library without the calls of Linux."""

    def __init__(self, name, **_):
        if name is None and os.environ["ATTOMATON_SYSTEM"] == "windows":
            raise TypeError("argument of type 'NoneType' is not iterable")


def imitate(system):
    """Take away what the system has not, and let the rest refuse what it refuses there."""
    for name in OTHERS:
        importlib.import_module(name)
    os.environ["ATTOMATON_SYSTEM"] = system
    ctypes.CDLL = NoCalls
    tempfile._O_TMPFILE_WORKS = False
    for name in NOT_ON_WINDOWS if system == "windows" else NOT_ON_MACOS:
        with suppress(AttributeError):
            delattr(os, name)
    (_imitate_windows if system == "windows" else _hide_processes)()


def _hide_processes():
    """No ``/proc``."""
    stat = os.stat

    def hidden(path, *arguments, **options):
        if isinstance(path, str | Path) and str(path).startswith("/proc"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return stat(path, *arguments, **options)

    os.stat = hidden


def _imitate_windows():
    for name in MODULES_OF_UNIX:
        sys.modules[name] = None
    importlib.import_module("attomaton.base.machine").sys = types.SimpleNamespace(platform="win32")
    sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=lock_byte)
    shutil._use_fd_functions = False
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile
    pathlib.Path.is_mount = _not_implemented
    os.symlink = _not_implemented
    os.open, os.fsync = _opening(os.open), _flushing(os.fsync)
    for name in ("unlink", "remove"):
        setattr(os, name, _guarded(getattr(os, name), refuses_existing=False))
    os.replace = _guarded(os.replace, refuses_existing=False)
    os.rename = _guarded(os.rename, refuses_existing=True)


def _not_implemented(*_, **__):
    raise NotImplementedError("not on this system")


def _denied(path):
    return PermissionError(errno.EACCES, "Permission denied", str(path))


def lock_byte(descriptor, mode, size):
    """A lock of one byte far behind the text, which everybody may read."""
    assert (mode, size) == (2, 1)
    assert os.lseek(descriptor, 0, os.SEEK_CUR) > os.fstat(descriptor).st_size
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _denied(descriptor) from error


def _opening(function):
    def opened(path, *arguments, **options):
        if Path(path).is_dir():
            raise _denied(path)
        return function(path, *arguments, **options)

    return opened


def _flushing(function):
    def flushed(descriptor):
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        function(descriptor)

    return flushed


def _guarded(function, *, refuses_existing):
    """A change of names that files in use forbid, and for a rename one that has the new name already."""

    def changed(source, *rest, **options):
        places = [Path(os.path.realpath(one)) for one in (source, *rest)]
        if refuses_existing and os.path.lexists(rest[0]):
            raise FileExistsError(errno.EEXIST, "File exists", str(rest[0]))
        for used in _files_in_use():
            if any(used == place or place in used.parents for place in places):
                raise _denied(source)
        return function(source, *rest, **options)

    return changed


def _files_in_use():
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208  pathlib would ask again
        with suppress(OSError):
            yield Path(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115  pathlib would ask again


def run(commands):
    """The exit code of each command line, run in this process."""
    from attomaton.cli import main

    for command in commands:
        sys.argv = ["attomaton", *command]
        try:
            main()
            yield 0
        except SystemExit as end:
            yield end.code or 0


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    imitate(sys.argv[1])
    codes = list(run(asked))
    sys.stdout.flush()
    sys.stderr.write(f"\n{json.dumps(codes)}\n")
