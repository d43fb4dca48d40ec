"""Renaming that loses nothing: to a name that nothing has, or two names exchanged at once.

Linux does both in one step (``renameat2``). Where a system or file system cannot, the same is done in several
steps, and :func:`~attomaton.base.artifacts.folders.settle` mends what a kill between them leaves.
"""

import ctypes
import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

NOT_REPLACING, EXCHANGING = 1, 2
HERE = -100
"""Stands for the working directory in calls that take a folder."""

UNKNOWN = frozenset([errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM])
"""How a system says that it has no such call, or the file system that it cannot do this."""

UNLINKABLE = UNKNOWN | {errno.EACCES, errno.EOPNOTSUPP}
"""How a file system says that it has no hard links."""

SPARE = ".old"
"""Ends the name that the old folder has between two renames, where names cannot be exchanged at once."""


def rename_new(source: Path, target: Path) -> None:
    """Give ``source`` the name ``target``, which nothing may have: ``FileExistsError`` otherwise."""
    if _rename(source, target, NOT_REPLACING):
        return
    if source.is_dir():
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        source.rename(target)
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in UNLINKABLE:
            raise
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        source.rename(target)
        return
    source.unlink()


def replace_empty(folder: Path, place: Path) -> None:
    """Put a folder in place of an empty one."""
    try:
        folder.rename(place)
    except FileExistsError:  # Windows puts a folder in place of none
        place.rmdir()
        folder.rename(place)


def replace_file(draft: Path, place: Path) -> bool:
    """Put a draft in place of a file; whether the old file is what the draft's name means now."""
    if _rename(draft, place, EXCHANGING):
        return True
    draft.replace(place)
    return False


def exchange(one: Path, other: Path, spare: Path) -> None:
    """Give two files or folders each other's names.

    Where that takes several steps, the other one has the name ``spare`` between them.
    """
    if _rename(one, other, EXCHANGING):
        return
    other.rename(spare)
    try:
        one.rename(other)
    except OSError:
        spare.rename(other)
        raise
    spare.rename(one)


def _rename(source: Path, target: Path, how: int) -> bool:
    """Whether the system could do it in one step."""
    call = _system_call()
    if call is None:
        return False
    if call(HERE, os.fsencode(source), HERE, os.fsencode(target), how) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(source), None, str(target))


@cache
def _system_call() -> Any:
    """The C library's ``renameat2``, or None where it has none."""
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # no such call; on Windows no such library
        return None
