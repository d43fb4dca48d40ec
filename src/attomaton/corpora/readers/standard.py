"""Standard input as a corpus: kept in a temporary file, so that it can be read twice and has a digest."""

import io
import sys
import tempfile
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from attomaton.base.artifacts import explained
from attomaton.base.errors import UnreadableSource
from attomaton.corpora.readers.files import CHUNK, File, naming

NAME = "standard input"
TEMPORARY = "the temporary folder, which keeps standard input while it is read (TMPDIR says where),"


@dataclass(frozen=True, eq=False)
class StandardInput(File):
    """What came through standard input; gone when the last reader of it is."""

    kept: Any = None

    @property
    def portable(self) -> bool:
        """No other process has it."""
        return False

    @property
    def suffix(self) -> str:
        """None: it is plain text, unless a format is asked for."""
        return ""

    def stored(self) -> int:
        """Its size."""
        return int(self.kept.seek(0, io.SEEK_END))

    @contextmanager
    def open_raw(self) -> Generator[BinaryIO]:
        """Its bytes, from the beginning."""
        with io.BufferedReader(_View(self.kept), CHUNK) as file:
            yield cast("BinaryIO", file)


def keep_standard_input() -> StandardInput:
    """Read standard input to its end, into a private temporary file that has no name."""
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise UnreadableSource("there is no standard input here to read; give the path of a file")
    with explained(TEMPORARY):
        kept = tempfile.TemporaryFile(prefix="attomaton-")  # noqa: SIM115  it lives as long as its readers
    try:
        while chunk := _read(stream):
            with explained(TEMPORARY):
                kept.write(chunk)
                kept.flush()
    except BaseException:
        with suppress(OSError):  # what could not be written is not written now
            kept.close()
        raise
    made = StandardInput(NAME, NAME, kept)
    weakref.finalize(made, kept.close)
    return made


def _read(stream: BinaryIO) -> bytes:
    with naming(NAME):
        return stream.read(CHUNK)


class _View(io.RawIOBase):
    """A place of its own in a file that several read."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset += self._file.seek(0, io.SEEK_END)
        elif whence == io.SEEK_CUR:
            offset += self._position
        self._position = offset
        return offset

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._position)
        count = int(self._file.readinto(buffer))
        self._position += count
        return count
