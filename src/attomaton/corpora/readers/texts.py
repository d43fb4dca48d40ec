"""Plain text, where the file is one document or each line is, and FASTA, where each sequence is."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from attomaton.base.errors import UnreadableSource
from attomaton.corpora.readers.batches import Reading, Skips, too_long
from attomaton.corpora.readers.files import File, decode_utf8, naming, read_lines
from attomaton.corpora.readers.records import RecordReader

FIRST_BYTES = 1 << 16  # bytes inspected to check whether a file is plain text
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextReader(RecordReader):
    """A UTF-8 ``.txt``, ``.md`` or ``.log`` file, or one without a suffix."""

    def _documents(self, skips: Skips) -> Iterator[tuple[int, str]]:
        """The documents; rows are line numbers from 1."""
        if self.reading.documents == "line":
            yield from self._lines(skips)
            return
        content = read_beginning(self.file, self.reading, self.reading.max_bytes + 1)
        try:
            text = decode_text(content, self.source, self.reading)
        except UnreadableSource as error:
            skips.add(error)
        else:
            if text:
                yield 1, text

    def _lines(self, skips: Skips) -> Iterator[tuple[int, str]]:
        number = 0
        read_beginning(self.file, self.reading, FIRST_BYTES)
        with naming(self.source, lambda: f", after line {number},"), self.file.open() as file:
            for number, line in read_lines(file, self.reading.max_bytes):
                location = f"{self.source}, line {number},"
                try:
                    if line is None:
                        raise too_long(location, self.reading, advice="break it into lines")
                    text = decode_utf8(line, location)
                except UnreadableSource as error:
                    skips.add(error)
                else:
                    yield number, text


def read_beginning(file: File, reading: Reading, size: int) -> bytes:
    """The first bytes of a plain-text file; one that begins like JSON is refused: it is likely misnamed."""
    with naming(file.source), file.open() as stream:
        content = stream.read(size)
    if reading.format is None and file.suffix != ".txt" and _is_json(content[:FIRST_BYTES]):
        raise UnreadableSource(
            f"{file.source} begins with JSON; read it as JSON with format='jsonl' (or 'json'; --format on "
            "the command line), or as plain text with format='txt'"
        )
    return content


def decode_text(content: bytes, source: str, reading: Reading) -> str:
    """The bytes of a plain-text file as text, without byte order mark and with line feeds as line ends."""
    if len(content) > reading.max_bytes:
        raise too_long(source, reading, advice="read each line as a document with Reading(documents='line')")
    text = decode_utf8(content.removeprefix(BYTE_ORDER_MARK), source)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _is_json(beginning: bytes) -> bool:
    lines = beginning.removeprefix(BYTE_ORDER_MARK).split(b"\n", 64)
    first = next((line.strip() for line in lines if line.strip()), b"")
    if first in (b"{", b"[") or first.startswith((b'[{"', b'["', b'[ {"')):
        return True
    try:
        return first.startswith(b"{") and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):  # perhaps an object that is too long to parse here
        return first.startswith(b'{"') and len(first) > FIRST_BYTES // 2


@dataclass(frozen=True)
class FastaReader(RecordReader):
    """A ``.fasta``, ``.fa``, ``.faa`` or ``.fna`` file, plain or compressed.

    The lines of a record are joined; headers (``>``), comments (``;``) and white space are left out.
    """

    def _documents(self, skips: Skips) -> Iterator[tuple[int, str]]:
        """The documents; rows are the line numbers of their headers, from 1."""
        record: _Record | None = None
        number = 0
        with naming(self.source, lambda: f", after line {number},"), self.file.open() as file:
            for number, line in read_lines(file, self.reading.max_bytes):
                if line is not None and line.startswith(b">"):
                    if record is not None:
                        yield from record.documents(skips)
                    record = _Record(self.source, number, self.reading)
                elif record is not None:
                    record.add(line, number)
                elif line is None or (line.strip() and not line.startswith(b";")):
                    raise UnreadableSource(
                        f"{self.source}, line {number}, comes before any header; a FASTA file begins with '>'"
                    )
            if record is not None:
                yield from record.documents(skips)


class _Record:
    """The lines of one record so far, or its error."""

    _size = 0
    _error: UnreadableSource | None = None

    def __init__(self, source: str, row: int, reading: Reading) -> None:
        self._source, self._row, self._reading = source, row, reading
        self._lines: list[str] = []

    def add(self, line: bytes | None, number: int) -> None:
        if self._error is not None or (line is not None and line.startswith(b";")):
            return
        self._size += self._reading.max_bytes + 1 if line is None else len(line)
        try:
            if line is None or self._size > self._reading.max_bytes:
                location = f"{self._source}, the record at line {self._row},"
                raise too_long(location, self._reading, advice="split the sequence")
            self._lines.append("".join(decode_utf8(line, f"{self._source}, line {number},").split()))
        except UnreadableSource as error:
            self._error = error
            self._lines = []

    def documents(self, skips: Skips) -> Iterator[tuple[int, str]]:
        if self._error is None:
            yield self._row, "".join(self._lines)
        else:
            skips.add(self._error)
