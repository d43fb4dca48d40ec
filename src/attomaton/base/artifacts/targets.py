"""Write files that a user names: atomically, and never over a file that attomaton did not write."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attomaton.base.artifacts.files import explained, write_file
from attomaton.base.artifacts.ownership import locked, refuse_inside
from attomaton.base.errors import UnwritablePlace

HEAD_BYTES = 4096  # bytes at the beginning of a file that are searched for a sign of attomaton


def write_target(
    path: str | os.PathLike[str], write: Callable[[Path], object], *, is_ours: Callable[[Path], bool]
) -> dict[str, Any]:
    """Write a file that a user names; return its digest and its size.

    An existing file is replaced if ``is_ours`` accepts it; links, devices, folders and all other files are
    refused. The path ``-`` is standard output.
    """
    if os.fspath(path) == "-":
        with tempfile.TemporaryDirectory(prefix="attomaton-") as folder:
            target = Path(folder, "out")
            entry = write_file(target, write)
            with target.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.flush()
        return entry
    target = check_target(path, is_ours=is_ours)

    def write_and_check(draft: Path) -> None:
        write(draft)
        check_target(target, is_ours=is_ours)  # again: other programs may have written there

    with explained(target), locked(target, target.parent) as lock:
        return write_file(target, write_and_check, draft=lock.draft)


def check_target(path: str | os.PathLike[str], *, is_ours: Callable[[Path], bool]) -> Path:
    """The path of a file to write, after checking that it may be written."""
    if not os.fspath(path):
        raise UnwritablePlace("the path of the file is empty; give the path of a file")
    target = Path(path)
    if os.fspath(path) == "-":
        return target
    with explained(target):
        refuse_inside(Path(os.path.realpath(target)), target)
        try:
            kind = target.lstat().st_mode
        except FileNotFoundError:
            return target
    if stat.S_ISDIR(kind):
        raise UnwritablePlace(f"{target} is a folder; give the path of a file")
    if not stat.S_ISREG(kind):
        raise UnwritablePlace(
            f"{target} is a link, a device or a pipe; give the path of a file, or - for standard output"
        )
    if not is_ours(target):
        raise UnwritablePlace(f"{target} exists, and attomaton did not write it; choose another name")
    return target


def begins_with(*signs: bytes) -> Callable[[Path], bool]:
    """Make a test of whether the beginning of a file contains one of these byte strings."""

    def is_ours(path: Path) -> bool:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        return any(sign in head for sign in signs)

    return is_ours


def starts_with(sign: bytes) -> Callable[[Path], bool]:
    """Make a test of whether a file begins with exactly these bytes."""

    def is_ours(path: Path) -> bool:
        with path.open("rb") as file:
            return file.read(len(sign)) == sign

    return is_ours


# Whether a file is a Parquet file.
is_parquet = starts_with(b"PAR1")
