"""Read plain text, where the file or each line is a document, and FASTA, where each sequence is one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from attomaton.base.errors import AttomatonError, UnreadableSource
from attomaton.corpora.readers.batches import Reading, attempt, too_long
from attomaton.corpora.readers.files import BYTE_ORDER_MARK, File, decode_utf8, naming, read_lines
from attomaton.corpora.readers.records import RecordReader

FIRST_BYTES = 1 << 16  # bytes inspected to check whether a file is plain text
MOST_BLANK_LINES = 64  # before the line inspected


@dataclass(frozen=True)
class TextReader(RecordReader):
    """A UTF-8 file, ``.txt``, ``.md``, ``.log`` or without suffix; rows are line numbers, from 1."""

    def _results(self) -> Iterator[tuple[int, str | AttomatonError]]:
        if self.reading.documents == "line":
            yield from self._lines()
            return
        content = read_beginning(self.file, self.reading, self.reading.max_bytes + 1)
        text = attempt(decode_text, content, self.source, self.reading)
        if text:
            yield 1, text

    def _lines(self) -> Iterator[tuple[int, str | AttomatonError]]:
        number = 0
        read_beginning(self.file, self.reading, FIRST_BYTES)
        with naming(self.source, lambda: f", after line {number},"), self.file.open() as file:
            for number, line in read_lines(file, self.reading.max_bytes):
                yield number, attempt(self._decode_line, line, f"{self.source}, line {number},")

    def _decode_line(self, line: bytes | None, location: str) -> str:
        if line is None:
            raise too_long(location, self.reading, advice="break it into lines")
        return decode_utf8(line, location)


def read_beginning(file: File, reading: Reading, size: int) -> bytes:
    """The first bytes of a plain-text file; if they are JSON, the file is misnamed, which is an error."""
    with naming(file.source), file.open() as stream:
        content = stream.read(size)
    if reading.format is None and file.suffix != ".txt" and _is_json(content[:FIRST_BYTES]):
        raise UnreadableSource(
            f"{file.source} begins with JSON; set format='jsonl' or 'json' (--format on the command line), "
            "or format='txt' to read it as plain text"
        )
    return content


def decode_text(content: bytes, source: str, reading: Reading) -> str:
    if len(content) > reading.max_bytes:
        raise too_long(source, reading, advice="read each line as a document with Reading(documents='line')")
    text = decode_utf8(content.removeprefix(BYTE_ORDER_MARK), source)
    return text.replace("\r\n", "\n").replace("\r", "\n")


# Whether the first line that is not blank begins JSON: an object, or a list of texts or objects.
def _is_json(beginning: bytes) -> bool:
    lines = beginning.removeprefix(BYTE_ORDER_MARK).split(b"\n", MOST_BLANK_LINES)
    line = next((line.strip() for line in lines if line.strip()), b"")
    if line in (b"{", b"[") or line.startswith((b'[{"', b'["', b'[ {"')):
        return True
    try:
        return line.startswith(b"{") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):  # perhaps an object that is too long to parse here
        return line.startswith(b'{"') and len(line) > FIRST_BYTES // 2


@dataclass(frozen=True)
class FastaReader(RecordReader):
    """A ``.fasta``, ``.fa``, ``.faa`` or ``.fna`` file, plain or compressed; rows are the lines of headers.

    The lines of a sequence are joined; headers (``>``), comments (``;``) and white space are left out.
    """

    # Yields the line of each header, with the sequence below it or the error.
    def _results(self) -> Iterator[tuple[int, str | AttomatonError]]:
        sequence: _Sequence | None = None
        number = 0
        with naming(self.source, lambda: f", after line {number},"), self.file.open() as file:
            for number, line in read_lines(file, self.reading.max_bytes):
                if line is not None and line.startswith(b">"):
                    if sequence is not None:
                        yield sequence.row, sequence.result()
                    sequence = _Sequence(self.source, number, self.reading)
                elif sequence is not None:
                    sequence.add(line, number)
                elif line is None or (line.strip() and not line.startswith(b";")):
                    raise UnreadableSource(
                        f"{self.source}, line {number}, is before the first header; begin the first "
                        "sequence with a line such as '>name'"
                    )
            if sequence is not None:
                yield sequence.row, sequence.result()


class _Sequence:
    """The lines of a sequence so far, or its error; ``row`` is the line of its header."""

    _size = 0
    _error: UnreadableSource | None = None

    def __init__(self, source: str, row: int, reading: Reading) -> None:
        self.row = row
        self._source, self._reading = source, reading
        self._lines: list[str] = []

    def add(self, line: bytes | None, number: int) -> None:
        """Adds a line of the sequence, and its number; None is a line longer than `max_bytes`."""
        if self._error is not None or (line is not None and line.startswith(b";")):
            return
        self._size += self._reading.max_bytes + 1 if line is None else len(line)
        try:
            if line is None or self._size > self._reading.max_bytes:
                location = f"{self._source}, the sequence at line {self.row},"
                raise too_long(location, self._reading, advice="split the sequence")
            self._lines.append("".join(decode_utf8(line, f"{self._source}, line {number},").split()))
        except UnreadableSource as error:
            self._error = error
            self._lines = []

    def result(self) -> str | UnreadableSource:
        return "".join(self._lines) if self._error is None else self._error
