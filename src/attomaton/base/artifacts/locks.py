"""Lock files: the operating system locks each of them while the process that created it is alive.

A lock file contains a JSON record of its owner, with the name of the draft of the owner (:mod:`.ownership`).
"""

import errno
import json
import os
import socket
import stat
import time
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from typing import Any, cast

from attomaton.base.artifacts.files import draft_name, show_path
from attomaton.base.artifacts.systems import lock_file, open_no_follow
from attomaton.base.errors import UnwritablePlace

LOCK_KIND = "lock of attomaton"
LOCK_SIZE = 1024  # bytes to which each record is padded, so that a new one covers the old one


def open_locked(path: Path, target: Path) -> FileIO:
    """Open and lock a lock file, new or left by a killed owner; an error if its owner is alive."""
    while True:
        file, is_new = _open_or_create(path)
        if file is None:
            continue  # the owner removed it in the meantime
        with ExitStack() as closing:
            closing.enter_context(file)
            if is_new:
                write_owner(file, draft_name())
            is_free = True
            with suppress(OSError):  # on a file system without locks, the file counts as free
                is_free = lock_file(file)
            owner = read_owner(file)
            if owner is None:
                raise _foreign_file(path)
            if not is_free:
                raise _target_in_use(target, owner)
            # the owner may have removed the file after it was opened here, and another one created a new file
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                    closing.pop_all()  # leave it open
                    return file


# A lock file, and whether it is new; None if it has disappeared.
def _open_or_create(path: Path) -> tuple[FileIO | None, bool]:
    try:
        return FileIO(open_no_follow(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), "r+"), True
    except FileExistsError:
        pass
    try:
        return FileIO(open_no_follow(path, os.O_RDWR), "r+"), False
    except FileNotFoundError:
        return None, False
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):  # a link, a folder, a socket
            raise
        raise _foreign_file(path) from error


def write_owner(file: FileIO, draft: str) -> None:
    """Write the record of this process, which may write the file or folder ``draft``, to its lock file."""
    owner = {"kind": LOCK_KIND, "pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    file.seek(0)
    file.write(json.dumps({**owner, "draft": draft}).ljust(LOCK_SIZE).encode())


def read_owner(file: FileIO) -> dict[str, Any] | None:
    """The owner that a lock file names, nobody if it is empty; None if the file is not our lock."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return None
    file.seek(0)
    blob = file.read(LOCK_SIZE)
    try:
        owner = json.loads(blob) if blob else {"kind": LOCK_KIND}
    except ValueError:
        return None
    record = cast("dict[str, Any]", owner) if isinstance(owner, dict) else {}
    return record if record.get("kind") == LOCK_KIND else None


def _foreign_file(path: Path) -> UnwritablePlace:
    return UnwritablePlace(f"{show_path(path)} is not a lock file of attomaton; move it, or write elsewhere")


# The error for a target whose lock belongs to a process that is alive.
def _target_in_use(target: Path, owner: dict[str, Any]) -> UnwritablePlace:
    minutes = (time.time() - float(owner.get("since", 0.0))) / 60
    age = f"{minutes:.0f} minutes" if minutes >= 2 else f"{60 * minutes:.0f} seconds"
    return UnwritablePlace(
        f"{show_path(target)} is being written by process {owner.get('pid')} on "
        f"{owner.get('host')} (for {age}); wait, or write elsewhere"
    )
