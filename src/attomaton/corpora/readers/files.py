"""Open, decompress and hash files on this machine and at URLs, and explain their errors.

A :class:`File` is a file of any kind. :class:`FileReader` and :class:`TableReader` are the bases of the
readers of each format, which work inside :func:`naming`, so that every error names the file.
"""

import gzip
import hashlib
import io
import os
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ENAMETOOLONG, ENOENT
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from attomaton.base.artifacts import explained
from attomaton.base.errors import AttomatonError, UnreadableSource
from attomaton.base.ranges import RangeReader
from attomaton.base.remote import RemotePath, is_url
from attomaton.corpora.budgets import TABLE_BYTES, TABLE_RATIO, TABLE_ROWS, open_regular
from attomaton.corpora.readers.batches import Batch, Reading

_arrow: Any = pa
COMPRESSED = (".gz", ".zst")
CHUNK_BYTES = 1 << 20
LARGEST_TEXT_TABLE = 1 << 31  # bytes of a table that is read as a whole, uncompressed
SHOWN_PATH = 80  # characters of a path that a message shows
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # with which some programs begin UTF-8 text
# How other content begins that is given as UTF-8 text.
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
COMPRESSION_MARKS = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # of gzip and Zstandard


@dataclass(frozen=True)
class File:
    """A file at the path or URL ``source``; ``name`` is its name in the corpus."""

    source: str
    name: str

    @property
    def portable(self) -> bool:
        """Whether another process can read the same file."""
        return not self.source.startswith("memory:")

    @property
    def suffix(self) -> str:  # in lower case, without the suffix of a compression
        path = Path(self.name.lower())
        return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix

    @contextmanager
    def open(self) -> Generator[BinaryIO]:  # the content, decompressed if the name says so
        with self.open_raw() as raw:
            suffix = Path(self.name.lower()).suffix
            if suffix == ".gz":
                with gzip.open(raw) as stream:
                    yield cast("BinaryIO", stream)
            elif suffix == ".zst":
                unpacked: Any = _arrow.CompressedInputStream(_arrow.PythonFile(raw, "r"), "zstd")
                with io.BufferedReader(unpacked, CHUNK_BYTES) as stream:
                    yield cast("BinaryIO", stream)
            else:
                yield raw

    @contextmanager
    def open_raw(self) -> Generator[BinaryIO]:  # the bytes as they are stored
        with RemotePath(self.source).open() if is_url(self.source) else open_regular(self.source) as file:
            yield file

    def stored(self) -> int | None:  # the size on disk in bytes; None if it is unknown
        with naming(self.source):
            return None if is_url(self.source) else Path(self.source).stat().st_size

    def digest(self) -> str:
        with naming(self.source), self.open_raw() as file:
            return hashlib.file_digest(cast("Any", file), "sha256").hexdigest()


@dataclass(frozen=True)
class FileReader:
    """Base of the readers of files."""

    file: File
    reading: Reading
    has_columns = False

    @property
    def source(self) -> str:
        return self.file.source

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def portable(self) -> bool:
        return self.file.portable

    def batches(self) -> Iterator[Batch]:
        raise NotImplementedError

    def digest(self) -> str:
        return self.file.digest()

    def stored(self) -> int | None:
        return self.file.stored()


class TableReader(FileReader):
    """A file of rows with named columns, which can also be read as a whole."""

    has_columns = True

    def table(self) -> Any:  # all rows, as an Arrow table or a list of records
        raise NotImplementedError

    def locate(self, row: int) -> str:
        """The name of a row of the table in messages: its number, from 0, and the file."""
        return f"row {row} of {self.source}"

    def read_whole(self) -> str:
        """The text of the file; a file that unpacks to far more than its size on disk is refused."""
        stored = self.stored()
        most_bytes = LARGEST_TEXT_TABLE
        if stored is not None:
            most_bytes = min(most_bytes, max(TABLE_BYTES, TABLE_RATIO * stored))
        with self.file.open() as raw:
            blob = raw.read(most_bytes + 1)  # one more byte shows that there are too many
        self.check_size(len(blob))
        if stored is not None and len(blob) > most_bytes:
            raise self._repetitive(stored, f"unpacks to more than {most_bytes:,} bytes")
        self.check_number(blob.count(b"\n"), "rows", TABLE_ROWS)
        return decode_utf8(blob, self.source).removeprefix("\ufeff")

    def check_size(self, size: int) -> None:
        """Refuses a table that is too large to be read as a whole; `size` is its unpacked size in bytes."""
        if size > LARGEST_TEXT_TABLE:
            raise UnreadableSource(
                f"{self.source} has more than {LARGEST_TEXT_TABLE:,} bytes; split it, or replace equal rows "
                "by one row with a count"
            )

    def _repetitive(self, stored: int, excess: str) -> UnreadableSource:
        return UnreadableSource(
            f"{self.source} has {stored:,} bytes, but {excess}; replace equal rows by one row with a count, "
            "or decompress the file (Parquet: save it as CSV)"
        )

    def check_number(self, number: int, noun: str, most: int) -> None:
        """Refuses more than `most` rows or values (`noun`), unless the stored file has two bytes for each."""
        stored = self.stored()
        if stored is not None and number > max(most, stored // 2):
            raise self._repetitive(stored, f"has {number:,} {noun}")


def suffix_of(file: File, reading: Reading) -> str:
    """The suffix that decides how a file is read: that of ``reading.format``, or else of the file."""
    return file.suffix if reading.format is None else f".{reading.format.lower().removeprefix('.')}"


@contextmanager
def naming(source: str, position: Callable[[], str] = str) -> Generator[None]:
    """Turn errors of the file system and of damaged files into an error that names source and position."""
    try:
        yield
    except AttomatonError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnreadableSource(f"{source}{position()} is damaged: {error}; download it again") from error
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        advice = "check the path" if error.strerror else "download it again"
        advice += text_cure(source) if error.errno in (ENOENT, ENAMETOOLONG) else ""
        raise UnreadableSource(
            f"{shorten_path(source)}{position()} cannot be read: {reason}; {advice}"
        ) from error
    except (_arrow.ArrowException, OverflowError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UnreadableSource(
            f"{source}{position()} is damaged, or has the wrong suffix: {reason}; download it again"
        ) from error
    except MemoryError as error:
        raise UnreadableSource(
            f"{source}{position()} does not fit into memory; split large rows, or download it again"
        ) from error
    except Exception as error:  # each store behind a URL has errors of its own
        if not is_url(source):
            raise
        raise UnreadableSource(
            f"{source}{position()} cannot be read: {type(error).__name__}: {error}; check the URL"
        ) from error


# What the error for a missing file adds if its path contains white space, and so may be the text itself.
def text_cure(source: str) -> str:
    if not any(sign.isspace() for sign in source):
        return ""
    return (
        ", or, if this is the text itself, give a list of documents ([text]); on the command line, pipe the "
        "text in and give - as the corpus"
    )


def read_lines(file: BinaryIO, max_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield numbered lines, from 1, without line ends; None for a line longer than ``max_bytes``."""
    number = 0
    most = max_bytes + 2  # with the line end \r\n
    while line := file.readline(most):
        number += 1
        is_whole_line = line.endswith(b"\n") or len(line) < most  # the last line may have no line end
        body = line.rstrip(b"\r\n")
        if is_whole_line and len(body) <= max_bytes:
            yield number, body.removeprefix(BYTE_ORDER_MARK) if number == 1 else body
            continue
        while line and not line.endswith(b"\n"):  # skip to the end of the long line
            line = file.readline(CHUNK_BYTES)
        yield number, None


def decode_utf8(content: bytes, location: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = f"{location} is not UTF-8 text (byte {error.start}: {error.reason})"
        raise UnreadableSource(fault + _encoding_advice(content)) from error


def _encoding_advice(content: bytes) -> str:
    if content.startswith(UTF16_MARKS):
        return " (it looks like UTF-16); convert it to UTF-8 first: iconv -f UTF-16 -t UTF-8"
    if content.startswith(COMPRESSION_MARKS):
        return " (it is compressed); decompress it first (zcat, zstdcat), or end its name in .gz or .zst"
    if b"\0" in content[:CHUNK_BYTES]:
        return " (it contains zero bytes, so it is not text); give a text file"
    return "; convert it to UTF-8 first; for Western text: iconv -f WINDOWS-1252 -t UTF-8"


def shorten_path(source: str) -> str:  # to its end, which contains the name of the file
    return source if len(source) <= SHOWN_PATH else f"…{source[-SHOWN_PATH:]}"


def printable(name: str) -> str:
    r"""A name that any file can contain: bytes that are not UTF-8 are escaped."""
    try:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        return name.encode("utf-8", "backslashreplace").decode()


STANDARD_INPUT_NAME = "standard input"
SPOOL_FOLDER = "the temporary folder (TMPDIR), in which standard input is stored while it is read,"


@dataclass(frozen=True, eq=False)
class StandardInput(File):
    """The content of standard input, in the temporary file ``spool``, deleted with its last reader."""

    spool: Any = None

    @property
    def portable(self) -> bool:
        return False

    @property
    def suffix(self) -> str:
        return ""

    def stored(self) -> int:
        return int(self.spool.seek(0, io.SEEK_END))

    @contextmanager
    def open_raw(self) -> Generator[BinaryIO]:
        with io.BufferedReader(_View(self.spool, STANDARD_INPUT_NAME, self.stored()), CHUNK_BYTES) as file:
            yield cast("BinaryIO", file)


def keep_standard_input() -> StandardInput:
    """Read standard input to its end, into a private temporary file without a name."""
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise UnreadableSource("this process has no standard input; give the path of a file")
    with explained(SPOOL_FOLDER):
        spool = tempfile.TemporaryFile(prefix="attomaton-")  # noqa: SIM115  it lives as long as its readers
    try:
        while True:
            with naming(STANDARD_INPUT_NAME):
                chunk = stream.read(CHUNK_BYTES)
            if not chunk:
                break
            with explained(SPOOL_FOLDER):
                spool.write(chunk)
                spool.flush()
    except BaseException:
        with suppress(OSError):  # bytes that could not be written are not written now
            spool.close()
        raise
    file = StandardInput(STANDARD_INPUT_NAME, STANDARD_INPUT_NAME, spool)
    weakref.finalize(file, spool.close)
    return file


class _View(RangeReader):
    """A view of a file that several readers share, with its own position."""

    def read_range(self, length: int) -> bytes:
        self.file.seek(self.position)
        return self.file.read(length)

    def close(self) -> None:
        io.RawIOBase.close(self)  # the file stays open for the others
