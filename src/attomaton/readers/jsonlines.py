"""JSON lines: one object per line, whose text is one document."""

from collections.abc import Iterator
from dataclasses import dataclass

from attomaton.errors import AttomatonError
from attomaton.readers.batches import Batch, Skips, too_long
from attomaton.readers.files import FileReader, decode, naming, read_lines
from attomaton.readers.records import Document, batch_documents, field_of, read_json


@dataclass(frozen=True)
class JsonLinesReader(FileReader):
    """A ``.jsonl`` file, plain or packed (``.gz``, ``.zst``). Blank lines are no documents.

    The field holds the text of a document, or a list of its tokens or ids.
    """

    @property
    def has_columns(self) -> bool:
        """Whether ``column`` says which part of it is read."""
        return True

    def batches(self) -> Iterator[Batch]:
        """The documents; rows are line numbers from 1."""
        skips = Skips(self.reading)
        yield from batch_documents(self._documents(skips), skips)

    def _documents(self, skips: Skips) -> Iterator[tuple[int, Document]]:
        number = 0
        with naming(self.source, lambda: f", after line {number},"), self.file.open() as file:
            for number, line in read_lines(file, self.reading.max_bytes):
                if line is not None and not line.strip():
                    continue
                place = f"{self.source}, line {number},"
                try:
                    if line is None:
                        raise too_long(place, self.reading, advice="break the document")
                    document = field_of(read_json(decode(line, place), place), self.reading, place)
                except AttomatonError as error:
                    skips.add(error)
                else:
                    yield number, document
