"""JSON: one list of documents or records, or records one after the other; read a megabyte at a time."""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from attomaton.base.errors import AttomatonError, UnreadableSource
from attomaton.corpora.budgets import JSON_VALUES, shown
from attomaton.corpora.readers import records
from attomaton.corpora.readers.batches import Reading, Skips, too_long
from attomaton.corpora.readers.files import CHUNK, TableReader, advise, decode, naming, read_lines

NEAR = 64
"""Characters before the end of what was read in which a mistake may only mean that more is to come."""

_SPACE = re.compile(r"[ \t\r\n]*+")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class JsonReader(records.RecordReader, TableReader):
    """A ``.json`` file, plain or packed (``.gz``, ``.zst``).

    Its value is a list, whose elements are texts, lists of tokens or of ids, or objects with the field that
    is asked for; or it is one such object, or objects one after the other, on lines of their own or not.
    """

    def table(self) -> list[Any]:
        """One object for each row, all in one list."""
        text = self.read_whole().decode()
        return records.check_records(lambda: json.loads(text), self.source)

    def _documents(self, skips: Skips) -> Iterator[tuple[int, records.Document]]:
        """The documents; rows are the numbers of the elements, from 0."""
        number = 0
        with naming(self.source, lambda: f", after element {number},"), self.file.open() as file:
            values = _Values(file, self.source, self.reading)
            for number, value in enumerate(values.elements()):
                place = f"{self.source}, element {number},"
                try:
                    if isinstance(value, UnreadableSource):
                        raise value
                    document = self._document(value, place, alone=values.alone)
                except AttomatonError as error:
                    skips.add(error)
                else:
                    yield number, document

    def _document(self, value: Any, place: str, *, alone: bool) -> records.Document:
        if isinstance(value, dict) or self.reading.column is not None:
            document = records.field_of(value, self.reading, place)
            if alone and not isinstance(document, str):
                field = self.reading.column or records.FIELD
                raise UnreadableSource(
                    f"{self.source} is one object, whose field {field!r} is a list, which may be one "
                    f"document or many; write a list of texts, or of objects with one document each: "
                    f"jq '.{shown(field)}' gives that list"
                )
            return document
        if isinstance(value, int | float):
            raise UnreadableSource(
                f"{place} is a number; write one document as a list in the list: [[0, 1, 2]]"
            )
        return records.document_of(value, self.reading, place)


class _Values:
    """The values of a file, one at a time; no more of it is held than the longest of them needs."""

    def __init__(self, file: BinaryIO, source: str, reading: Reading) -> None:
        self._file, self._source, self._reading = file, source, reading
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at = "", 0
        self._bytes = self._characters = 0
        self._ended = False
        self.alone = False
        """Whether the file is one object and nothing else."""

    def elements(self) -> Iterator[Any]:
        """The elements of the list, or the objects one after the other."""
        if self._peek() == "[":
            self._at += 1
            yield from self._listed()
            if self._peek():
                raise self._wrong("there is more behind the end of its list")
            return
        first = True
        while kind := self._peek():
            if kind != "{":
                raise self._wrong("it is neither a list nor an object")
            value = self._value()
            self.alone = first and not self._peek()
            first = False
            yield value

    def _listed(self) -> Iterator[Any]:
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            if not self._peek():
                raise self._wrong("it ends inside its list")
            yield self._value()
            sign = self._peek()
            self._at += 1
            if sign == "]":
                return
            if sign != ",":
                self._at -= 1
                raise self._wrong("a comma or the end of its list is missing")

    def _peek(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = self._at if found is None else found.end()
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read()

    def _value(self) -> Any:
        """The next value; an error in its place, if it is too long."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise self._wrong("it is nested too deeply to be read") from error
            except json.JSONDecodeError as error:
                begun = error.msg.startswith("Unterminated") or error.pos + NEAR >= len(self._text)
                if self._ended or not begun:
                    self._at = error.pos
                    raise self._wrong(error.msg) from error
            except ValueError as error:  # a number of too many digits
                raise self._wrong(shown(str(error))) from error
            else:
                if end < len(self._text) or self._ended:
                    size, self._at = end - self._at, end
                    return value if size <= self._reading.max_bytes else self._too_long()
            self._read()

    def _read(self) -> None:
        """Read on: as much again as is held, so that a long value is not tried too often."""
        self._characters += self._at
        self._text, self._at = self._text[self._at :], 0
        most = self._reading.max_bytes + CHUNK
        if len(self._text) >= most:
            raise self._too_long()
        blob = self._file.read(min(max(CHUNK, len(self._text)), most - len(self._text)))
        try:
            self._text += self._decoder.decode(blob, final=not blob)
        except UnicodeDecodeError as error:
            at = self._bytes - len(error.object) + len(blob) + error.start
            raise UnreadableSource(
                f"{self._source} is not UTF-8 text (byte {max(at, 0)}: {error.reason}){advise(error.object)}"
            ) from error
        self._bytes += len(blob)
        self._ended = not blob
        if len(self._text) > JSON_VALUES:
            records.check_values(self._text, f"{self._source}, from character {self._characters:,} on,")

    def _too_long(self) -> UnreadableSource:
        place = f"{self._source}, the value that ends behind character {self._characters + self._at:,},"
        return too_long(place, self._reading, advice="break the document")

    def _wrong(self, what: str) -> UnreadableSource:
        return UnreadableSource(
            f"{self._source} is not JSON ({what}, at character {self._characters + self._at:,}); mend it, or "
            "fetch the file again"
        )


@dataclass(frozen=True)
class JsonLinesReader(records.RecordReader, TableReader):
    """A ``.jsonl`` file, plain or packed (``.gz``, ``.zst``). Blank lines are no documents.

    The field holds the text of a document, or a list of its tokens or ids.
    """

    def table(self) -> list[Any]:
        """One object for each row, a line each."""
        lines = self.read_whole().decode().split("\n")
        return records.check_records(
            lambda: [json.loads(line) for line in lines if line.strip()], self.source
        )

    def _documents(self, skips: Skips) -> Iterator[tuple[int, records.Document]]:
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
                    document = records.field_of(
                        records.read_json(decode(line, place), place), self.reading, place
                    )
                except AttomatonError as error:
                    skips.add(error)
                else:
                    yield number, document
