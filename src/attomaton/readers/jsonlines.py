"""JSON lines: one object per line, whose text is one document."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from attomaton.corpora.budgets import JSON_VALUES, shown
from attomaton.errors import UnreadableSource
from attomaton.readers.batches import Skips, TextBatch, batch_texts, checked_text, too_long
from attomaton.readers.files import FileReader, decode, naming, read_lines

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


@dataclass(frozen=True)
class JsonLinesReader(FileReader):
    """A ``.jsonl`` file, plain or packed (``.gz``, ``.zst``). Blank lines are no documents."""

    def batches(self) -> Iterator[TextBatch]:
        """The documents; rows are line numbers from 1."""
        skips = Skips(self.reading)
        yield from batch_texts(self._documents(skips), skips)

    def _documents(self, skips: Skips) -> Iterator[tuple[int, str]]:
        number = 0
        with naming(self.source, lambda: f", after line {number},"), self.file.open() as file:
            for number, line in read_lines(file, self.reading.max_bytes):
                if line is not None and not line.strip():
                    continue
                place = f"{self.source}, line {number},"
                try:
                    if line is None:
                        raise too_long(place, self.reading, advice="break the document")
                    text = _text_of(decode(line, place), self.reading.column or "text", place)
                except UnreadableSource as error:
                    skips.add(error)
                else:
                    yield number, text


def _check_values(line: str, place: str) -> None:
    """Refuse a line of very many values, each of which would become an object; texts count as one."""
    if (
        len(line) > JSON_VALUES
        and _values_of(line) > JSON_VALUES
        and _values_of(_STRING.sub("", line)) > JSON_VALUES
    ):
        raise UnreadableSource(
            f"{place} holds more than {JSON_VALUES:,} values; write the text in a record of its own"
        )


def _values_of(line: str) -> int:
    return line.count("[") + line.count("{") + line.count(",")


def _text_of(line: str, field: str, place: str) -> str:
    _check_values(line, place)
    try:
        record = json.loads(line)
    except RecursionError as error:
        raise UnreadableSource(f"{place} is nested too deeply to be read; mend it") from error
    except ValueError as error:
        raise UnreadableSource(
            f"{place} is not JSON ({shown(str(error))}); mend it, or fetch the file again"
        ) from error
    if not isinstance(record, dict):
        raise UnreadableSource(f"{place} is no JSON object; write one object with a text per line")
    fields = cast("dict[str, Any]", record)
    if field not in fields:
        present = ", ".join(shown(name) for name in sorted(fields)[:8]) or "none"
        raise UnreadableSource(
            f"{place} has no field {field!r} (it has {present}); name the field with column"
        )
    text = fields[field]
    if not isinstance(text, str):
        raise UnreadableSource(
            f"{place} has {type(text).__name__} in the field {field!r}, not text; name the field with column"
        )
    return checked_text(text, place)
