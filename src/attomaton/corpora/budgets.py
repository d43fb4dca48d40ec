"""How much a file of input may ask for, and why so much.

A file is written by somebody else. What it says of itself (a count, a length, an id) is never the reason to
take memory or time beyond these numbers; where it asks for more, the error says what, where and what to do.
None of them is reached by data that is in use: where a real file comes near, the reason says which.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from attomaton.base.errors import UnreadableSource
from attomaton.base.printing import shorten
from attomaton.corpora.samples import MAX_TOKENS

VOCABULARY = MAX_TOKENS
"""Ids of a vocabulary: 2,097,152, eight times the 256 k that the largest tokenizers have. Names are made for
every id up to the largest, so an id is bounded like a count; three ids must also fit into one 63-bit key."""


def ids_most(n_tokens: int) -> int:
    """The largest vocabulary, gaps included, of this number of tokens: each id gets a name, used or not."""
    return min(VOCABULARY, 4 * n_tokens + (1 << 16))


TOKEN_TEXT = 1 << 16
"""Characters of one token of a tokenizer file. The longest in use are runs of some hundred blanks."""

TOKENIZER_BYTES = 1 << 26
"""Bytes of a tokenizer file: 64 MB. The largest in use, of 256 k tokens, has half of it."""

UNPACKED = 1 << 28
"""Bytes that rows of a table may unpack to at once, as its file declares them: 256 MB, or four of the longest
documents that are asked for. Arrow holds about three times as much while it decodes."""

UNPACKED_RATIO = 16  # how many times its size a row may unpack to: texts in use pack three- to tenfold
FILE_RATIO = 1000
"""What a whole file unpacks to, for each of its bytes. Gzip does no more; texts in use reach 10, logs 100."""

FILE_SLACK = 1 << 26  # bytes that any file may unpack to, however small it is: 64 MB, as long as a document
DOCUMENT_SLACK = 1 << 20
"""Documents that any file may hold, however small it is; beyond, ``FILE_RATIO`` for each of its bytes."""

FOOTER = 1 << 26  # bytes of one text of a Parquet file's footer: 64 MB
CONTAINER = 100_000  # entries of one list of a Parquet file's footer: columns, row groups, pairs of metadata
JSON_VALUES = 1 << 22
"""Values of one line of JSON: four million, which take about half a gigabyte as Python's objects."""

PIECE_ROWS = 1 << 16  # rows of a table that are looked at together
SHOWN = 80  # characters of a name that an error repeats


def unpacked_most(stored: int, max_bytes: int) -> int:
    """Bytes that one row of a table may unpack to, given the bytes its file is stored in."""
    return max(UNPACKED, 4 * max_bytes, UNPACKED_RATIO * stored)


def shown(text: str) -> str:
    """A name from a file, as an error may repeat it: without hidden characters, cut if long."""
    return shorten(text, SHOWN)


@dataclass
class Allowance:
    """What a file has unpacked to so far, compared with its size on disk if that is known."""

    source: str
    stored: int | None
    n_bytes: int = 0
    documents: int = 0

    def spend(self, *, n_bytes: int, documents: int) -> None:
        """Count what was unpacked; an error if it is too much for the file's size."""
        if self.stored is None:
            return
        self.n_bytes += n_bytes
        self.documents += documents
        most_bytes, most = (max(slack, FILE_RATIO * self.stored) for slack in (FILE_SLACK, DOCUMENT_SLACK))
        if self.n_bytes > most_bytes or self.documents > most:
            large = self.n_bytes > most_bytes
            what = f"unpacks to more than {most_bytes:,}" if large else f"has more than {most:,} documents"
            raise UnreadableSource(
                f"{self.source} has {self.stored:,} bytes and {what}: it repeats one thing without end, or "
                "is damaged; leave out what is repeated, or store it unpacked"
            )


STANDARD_INPUT = "-"  # the name of standard input as a corpus
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
