"""Read JSON files as documents and as tables: ``.json`` as a whole, ``.jsonl`` line by line."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from attomaton.base.errors import AttomatonError, InvalidSamples, UnreadableSource
from attomaton.corpora.budgets import JSON_VALUES, TABLE_VALUES, brief
from attomaton.corpora.readers import records
from attomaton.corpora.readers.batches import attempt, too_long
from attomaton.corpora.readers.files import TableReader, decode_utf8, naming, read_lines
from attomaton.corpora.readers.records import FIELD, Document, RecordReader

# Possessive quantifiers (``*+``) never backtrack, so the time grows only with the length of the text.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*+")
_DECODER = json.JSONDecoder()

Parsed = TypeVar("Parsed")


class JsonTableReader(RecordReader, TableReader):
    """A file of JSON, which can be read as a table."""

    def read_values(self) -> str:
        """The text of the file; too many values are an error, because each becomes an object."""
        text = self.read_whole()
        if _count_values(text) > TABLE_VALUES:  # count again without the brackets and commas in strings
            most = max(TABLE_VALUES, self.stored() or 0)  # an id may be compressed to little more than a byte
            self.check_number(_count_values(_STRING.sub("", text)), "values", most)
        return text


@dataclass(frozen=True)
class JsonReader(JsonTableReader):
    """A ``.json`` file, plain or compressed (``.gz``, ``.zst``), which is read as a whole.

    It contains a list of texts, of lists of tokens or ids, or of objects with the selected field; or one such
    object; or several objects in sequence, with or without line ends between them. Rows are the numbers of
    the elements, from 0.
    """

    def table(self) -> list[Any]:
        text = self.read_values()
        return check_records(lambda: json.loads(text), self.source)

    # Yields each element's number, with its document or the error.
    def _results(self) -> Iterator[tuple[int, Document | AttomatonError]]:
        with naming(self.source):
            text = self.read_values()
            values = explained_json(lambda: list(_values_in(text)), self.source)
        is_single = len(values) == 1 and isinstance(values[0], dict)
        if len(values) == 1 and isinstance(values[0], list):
            values = cast("list[Any]", values[0])
        elif not all(isinstance(value, dict) for value in values):
            raise UnreadableSource(
                f"{self.source} is neither a list nor a sequence of objects; write a list of texts or objects"
            )
        for number, value in enumerate(values):
            location = f"{self.source}, element {number},"
            yield number, attempt(self._document, value, location, is_single=is_single)

    # The document in an element; `is_single` says that the file contains one object and nothing else.
    def _document(self, value: Any, location: str, *, is_single: bool) -> Document:
        if isinstance(value, dict) or self.reading.column is not None:
            document = records.document_in(value, self.reading, location)
            if is_single and not isinstance(document, str):
                field = self.reading.column or FIELD
                raise UnreadableSource(
                    f"{self.source} is one object whose field {field!r} is a list, which may be one "
                    "document or several; write a list of texts, or of objects with one document each (jq "
                    f"'.{brief(field)}' extracts the list)"
                )
        elif isinstance(value, int | float):
            raise UnreadableSource(f"{location} is a number; write each document as a list: [[0, 1, 2]]")
        else:
            document = records.document_of(value, self.reading, location)
        if records.document_bytes(document) > self.reading.max_bytes:
            raise too_long(location, self.reading, advice="break the document")
        return document


@dataclass(frozen=True)
class JsonLinesReader(JsonTableReader):
    """A ``.jsonl`` file, plain or compressed (``.gz``, ``.zst``); rows are line numbers, from 1.

    The selected field contains a text, or a list of tokens or ids. Blank lines are ignored.
    """

    def table(self) -> list[Any]:
        rows = [
            explained_json(partial(json.loads, line), f"{self.source}, line {number},")
            for number, line in enumerate(self.read_values().split("\n"), 1)
            if line.strip()
        ]
        return check_records(lambda: rows, self.source)

    def locate(self, row: int) -> str:
        lines = self.read_whole().split("\n")
        filled = [number for number, line in enumerate(lines, 1) if line.strip()]
        return f"line {filled[row]} of {self.source}"

    def _results(self) -> Iterator[tuple[int, Document | AttomatonError]]:
        number = 0
        with naming(self.source, lambda: f", after line {number},"), self.file.open() as file:
            for number, line in read_lines(file, self.reading.max_bytes):
                if line is None or line.strip():
                    yield number, attempt(self._document, line, f"{self.source}, line {number},")

    def _document(self, line: bytes | None, location: str) -> Document:
        if line is None:
            raise too_long(location, self.reading, advice="break the document")
        text = decode_utf8(line, location)
        # each value becomes an object; a count without the brackets and commas in strings is slower
        is_large = len(text) > JSON_VALUES and _count_values(text) > JSON_VALUES
        if is_large and _count_values(_STRING.sub("", text)) > JSON_VALUES:
            raise UnreadableSource(f"{location} has more than {JSON_VALUES:,} values; split the record")
        value = explained_json(lambda: json.loads(text), location)
        return records.document_in(value, self.reading, location)


def check_records(read: Callable[[], Any], source: str) -> list[Any]:  # a table as a list of objects
    rows = explained_json(read, source)
    if not isinstance(rows, list) or not rows:
        raise InvalidSamples(f"{source} is not a list of JSON objects; write one object for each row")
    for number, record in enumerate(cast("list[Any]", rows)):
        if not isinstance(record, dict):
            raise InvalidSamples(f"{source}: record {number} is not an object; write one object for each row")
    return cast("list[Any]", rows)


def explained_json(parse: Callable[[], Parsed], location: str) -> Parsed:
    """The result of ``parse``; an error of the JSON parser becomes one that names the ``location``."""
    try:
        return parse()
    except RecursionError as error:
        raise UnreadableSource(f"{location} is nested too deeply; write it with fewer levels") from error
    except ValueError as error:
        raise UnreadableSource(
            f"{location} is not JSON ({brief(str(error))}); correct it, or download the file again"
        ) from error


# An upper bound for the number of values in JSON: brackets, braces and commas.
def _count_values(text: str) -> int:
    return text.count("[") + text.count("{") + text.count(",")


# Yields the values in a text that contains several in sequence, which ``json.loads`` refuses.
def _values_in(text: str) -> Iterator[Any]:
    position = 0
    while position < len(text):
        space = _SPACE.match(text, position)
        position = position if space is None else space.end()
        if position < len(text):
            value, position = _DECODER.raw_decode(text, position)
            yield value
