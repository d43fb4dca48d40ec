"""FASTA: each record is one document, its sequence the text."""

from collections.abc import Iterator
from dataclasses import dataclass

from attomaton.base.errors import UnreadableSource
from attomaton.corpora.readers.batches import Reading, Skips, too_long
from attomaton.corpora.readers.files import decode, naming, read_lines
from attomaton.corpora.readers.records import RecordReader


@dataclass(frozen=True)
class FastaReader(RecordReader):
    """A ``.fasta``, ``.fa``, ``.faa`` or ``.fna`` file, plain or packed.

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
    """The lines of one record so far, or what is wrong with it."""

    def __init__(self, source: str, row: int, reading: Reading) -> None:
        self._source, self._row, self._reading = source, row, reading
        self._lines: list[str] = []
        self._size = 0
        self._error: UnreadableSource | None = None

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
