"""Limits on the memory and time that an input file may claim, and the reasons for them.

Input files are not trusted. A count, a length or an id in a file never makes attomaton use more memory or
time than these limits; beyond a limit, an error says what, where, and what to do. No data in practical use
reach them.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from attomaton.base.errors import UnreadableSource
from attomaton.base.printing import shorten
from attomaton.corpora.samples import MAX_TOKENS

# Ids of a vocabulary: 2,097,152, eight times the 256 k of the largest tokenizers. Every id up to the largest
# gets a name, so ids are bounded like counts; three ids must also fit into one 63-bit key.
VOCABULARY_SIZE = MAX_TOKENS


def ids_most(n_tokens: int) -> int:
    """The largest vocabulary, gaps included, for this number of tokens: each id gets a name."""
    # real files leave few ids unused; a small file may leave 65,536
    return min(VOCABULARY_SIZE, 4 * n_tokens + (1 << 16))


# Characters of one token of a tokenizer file. The longest in use are runs of a few hundred spaces.
TOKEN_TEXT = 1 << 16

# Bytes of a tokenizer file: 64 MB. The largest in use, with 256 k tokens, has half of that.
TOKENIZER_BYTES = 1 << 26

# Declared bytes that the rows of a table may unpack to at once: 256 MB, or four documents of the greatest
# length allowed. Arrow holds about three times as much while it decodes.
UNPACKED = 1 << 28

UNPACKED_RATIO = 16  # how many times its size a row may unpack to: real text compresses three- to tenfold
# Largest expansion of a whole file. Gzip reaches no more; real text reaches 10, logs 100.
FILE_RATIO = 1000

FILE_SLACK = 1 << 26  # bytes that any file may unpack to, however small: 64 MB, like the longest document
# Documents that any file may contain, however small; beyond that, `FILE_RATIO` per byte.
DOCUMENT_SLACK = 1 << 20

# Bytes and rows that a table read as a whole may unpack to, however small its file; a row of choices takes
# about 130 bytes in memory.
TABLE_BYTES = 1 << 25
TABLE_ROWS = 1 << 22

# Values of a `.json` file or table, however small the file: two million, half a gigabyte as objects.
TABLE_VALUES = 1 << 21

TABLE_RATIO = 32  # bytes to which a byte of a larger file may unpack, where a row takes at least one byte
FOOTER_BYTES = 1 << 26  # bytes of one string in a Parquet footer: 64 MB
CONTAINER = 100_000  # entries of one list in a Parquet footer: columns, row groups, metadata pairs
# Values in one line of JSON: four million, which take about half a gigabyte as Python objects.
JSON_VALUES = 1 << 22

PIECE_ROWS = 1 << 16  # rows of a table processed together
NAME_LENGTH = 80  # characters of a name that an error message shows
NAMED_COLUMNS = 20  # columns that an error message lists


def brief(text: str) -> str:
    """A name from a file, as messages show it: without hidden characters, and cut if it is long."""
    return shorten(text, NAME_LENGTH)


def list_columns(names: Sequence[str]) -> str:
    listed = ", ".join(map(brief, names[:NAMED_COLUMNS])) or "none"
    return listed + (f" and {len(names) - NAMED_COLUMNS:,} more" if len(names) > NAMED_COLUMNS else "")


@dataclass
class Allowance:
    """The unpacked size of a file so far, compared with its size on disk if that is known."""

    source: str
    stored: int | None
    n_bytes: int = 0
    documents: int = 0

    def spend(self, *, n_bytes: int, documents: int) -> None:
        """Add what a batch unpacked to; an error if the file has unpacked to far too much."""
        if self.stored is None:
            return
        self.n_bytes += n_bytes
        self.documents += documents
        most_bytes = max(FILE_SLACK, FILE_RATIO * self.stored)
        most_documents = max(DOCUMENT_SLACK, FILE_RATIO * self.stored)
        if self.n_bytes > most_bytes:
            raise self._repetitive(f"unpacks to more than {most_bytes:,} bytes")
        if self.documents > most_documents:
            raise self._repetitive(f"has more than {most_documents:,} documents")

    def _repetitive(self, excess: str) -> UnreadableSource:
        return UnreadableSource(
            f"{self.source} has {self.stored:,} bytes, but {excess}: it is extremely repetitive, or damaged; "
            "remove repeated text, or store the file uncompressed"
        )


STANDARD_INPUT = "-"  # the name of standard input as a corpus
# Names of paths that are neither a file nor a folder.
IRREGULAR = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading, without blocking; any other kind of file is an error."""
    refuse_irregular(path, Path(path).stat().st_mode)  # before opening it, which affects some devices
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        refuse_irregular(path, os.fstat(number).st_mode)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def refuse_irregular(path: str | os.PathLike[str], mode: int) -> None:  # `mode` is that of its stat
    kind = IRREGULAR.get(stat.S_IFMT(mode))
    if kind is not None:
        raise UnreadableSource(
            f"{path} is {kind}, not a regular file; save its content to a file, or read it from standard "
            f"input with {STANDARD_INPUT!r} as the corpus"
        )
