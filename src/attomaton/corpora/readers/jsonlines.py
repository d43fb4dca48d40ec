"""JSON lines: one object per line, whose text is one document."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attomaton.base.errors import AttomatonError
from attomaton.corpora.readers.batches import Skips, too_long
from attomaton.corpora.readers.files import TableReader, decode, naming, read_lines
from attomaton.corpora.readers.records import Document, RecordReader, check_records, field_of, read_json


@dataclass(frozen=True)
class JsonLinesReader(RecordReader, TableReader):
    """A ``.jsonl`` file, plain or packed (``.gz``, ``.zst``). Blank lines are no documents.

    The field holds the text of a document, or a list of its tokens or ids.
    """

    def table(self) -> list[Any]:
        """One object for each row, a line each."""
        lines = self.read_whole().decode().split("\n")
        return check_records(lambda: [json.loads(line) for line in lines if line.strip()], self.source)

    def _documents(self, skips: Skips) -> Iterator[tuple[int, Document]]:
        """The documents; rows are line numbers from 1."""
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
