"""Plain text, where the file is one document or each line is, and FASTA, where each sequence is."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from attomaton.base.errors import UnreadableSource
from attomaton.corpora.readers.batches import Reading, Skips, too_long
from attomaton.corpora.readers.files import File, decode, naming, read_lines
from attomaton.corpora.readers.records import RecordReader

BEGINNING = 1 << 16  # bytes inspected to check whether a file is plain text


@dataclass(frozen=True)
class TextReader(RecordReader):
    """A UTF-8 ``.txt``, ``.md`` or ``.log`` file, or one without a suffix."""

    def _documents(self, skips: Skips) -> Iterator[tuple[int, str]]:
        """The documents; rows are line numbers from 1."""
        if self.reading.documents == "file":
            text = read_plain_text(self.file, self.reading, skips).text
            if text:
                yield 1, text
        else:
            yield from self._lines(skips)

    def _lines(self, skips: Skips) -> Iterator[tuple[int, str]]:
        number = 0
        if is_unnamed(self.file, self.reading):
            with naming(self.source), self.file.open() as file:
                refuse_records(file.read(BEGINNING), self.source)
        with naming(self.source, lambda: f", after line {number},"), self.file.open() as file:
            for number, line in read_lines(file, self.reading.max_bytes):
                place = f"{self.source}, line {number},"
                try:
                    if line is None:
                        raise too_long(place, self.reading, advice="break it into lines")
                    text = decode(line, place)
                except UnreadableSource as error:
                    skips.add(error)
                else:
                    yield number, text


class PlainText(NamedTuple):
    """The text of a file, and the SHA-256 of the bytes that were read."""

    text: str
    sha256: str


def read_plain_text(file: File, reading: Reading, skips: Skips) -> PlainText:
    """A plain-text file as one document, without a byte order mark and with line feeds as line ends.

    A file that is longer than ``reading.max_bytes`` or not UTF-8 goes to ``skips``; its text is then empty.
    """
    with naming(file.source), file.open() as stream:
        content = stream.read(reading.max_bytes + 1)
    if is_unnamed(file, reading):
        refuse_records(content[:BEGINNING], file.source)
    text = ""
    try:
        if len(content) > reading.max_bytes:
            advice = "read each line as a document with Reading(documents='line')"
            raise too_long(file.source, reading, advice=advice)
        text = decode(content.removeprefix(b"\xef\xbb\xbf"), file.source)
    except UnreadableSource as error:
        skips.add(error)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return PlainText(text, hashlib.sha256(content).hexdigest())


def is_unnamed(file: File, reading: Reading) -> bool:
    """Whether neither a suffix nor a format says that a file is plain text."""
    return reading.format is None and file.suffix != ".txt"


def refuse_records(beginning: bytes, source: str) -> None:
    """Refuse a plain-text file, or one without a suffix, that begins like JSON: it is likely misnamed."""
    lines = beginning.removeprefix(b"\xef\xbb\xbf").split(b"\n", 64)
    first = next((line.strip() for line in lines if line.strip()), b"")
    is_json = first in (b"{", b"[") or first.startswith((b'[{"', b'["', b'[ {"'))
    if not is_json and first.startswith(b"{"):
        try:
            is_json = isinstance(json.loads(first), dict)
        except (ValueError, RecursionError):  # perhaps an object that is too long to parse here
            is_json = first.startswith(b'{"') and len(first) > BEGINNING // 2
    if is_json:
        raise UnreadableSource(
            f"{source} begins with JSON; read it as JSON with format='jsonl' (or 'json'; --format on the "
            "command line), or as plain text with format='txt'"
        )


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
                place = f"{self._source}, the record at line {self._row},"
                raise too_long(place, self._reading, advice="split the sequence")
            self._lines.append("".join(decode(line, f"{self._source}, line {number},").split()))
        except UnreadableSource as error:
            self._error = error
            self._lines = []

    def documents(self, skips: Skips) -> Iterator[tuple[int, str]]:
        if self._error is None:
            yield self._row, "".join(self._lines)
        else:
            skips.add(self._error)
