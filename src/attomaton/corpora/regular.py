"""Regular files only: pipes, sockets and devices have no end, no size, and can be read but once."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from attomaton.base.errors import UnreadableSource

STANDARD_INPUT = "-"
"""The name of standard input as a corpus."""

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
"""What a place may be that is neither a file nor a folder."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading, at once: what is none is an error, and never waited for."""
    place = Path(path)
    refuse_irregular(place, place.stat().st_mode)  # before it is opened, which some devices notice
    number = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        refuse_irregular(place, os.fstat(number).st_mode)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def refuse_irregular(place: str | os.PathLike[str], mode: int) -> None:
    """Raise for a pipe, a socket or a device."""
    kind = KINDS.get(stat.S_IFMT(mode))
    if kind is not None:
        raise UnreadableSource(
            f"{place} is {kind}, not a regular file; to read what it gives, save it to a file, or send it to "
            f"standard input and give {STANDARD_INPUT!r} as the corpus"
        )
