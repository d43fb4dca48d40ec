"""Plain text: the file is one document, or each line is."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from attomaton.base.errors import UnreadableSource
from attomaton.corpora.readers.batches import Skips, too_long
from attomaton.corpora.readers.files import decode, naming, read_lines
from attomaton.corpora.readers.records import RecordReader

BEGINNING = 1 << 16
"""Bytes of a file that are looked at to see whether it is plain text at all."""


@dataclass(frozen=True)
class TextReader(RecordReader):
    """A UTF-8 ``.txt``, ``.md`` or ``.log`` file, or one without an ending."""

    def _documents(self, skips: Skips) -> Iterator[tuple[int, str]]:
        """The documents; rows are line numbers from 1."""
        if self.reading.format is None and self.file.suffix != ".txt":
            with naming(self.source), self.file.open() as file:
                refuse_records(file.read(BEGINNING), self.source)
        yield from self._whole(skips) if self.reading.documents == "file" else self._lines(skips)

    def _whole(self, skips: Skips) -> Iterator[tuple[int, str]]:
        with naming(self.source), self.file.open() as file:
            content = file.read(self.reading.max_bytes + 1)
        try:
            if len(content) > self.reading.max_bytes:
                advice = "read each line as a document (Reading(documents='line')), split it into files"
                raise too_long(self.source, self.reading, advice=advice)
            text = decode(content.removeprefix(b"\xef\xbb\xbf"), self.source)
        except UnreadableSource as error:
            skips.add(error)
            return
        if text:
            yield 1, text.replace("\r\n", "\n").replace("\r", "\n")

    def _lines(self, skips: Skips) -> Iterator[tuple[int, str]]:
        number = 0
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


def refuse_records(beginning: bytes, source: str) -> None:
    """Refuse what is named as plain text, or not at all, and begins as JSON does: nobody means its signs."""
    lines = beginning.removeprefix(b"\xef\xbb\xbf").split(b"\n", 64)
    first = next((line.strip() for line in lines if line.strip()), b"")
    if first in (b"{", b"[") or first.startswith((b'[{"', b'["', b'[ {"')) or _is_object(first):
        raise UnreadableSource(
            f"{source} begins with JSON; read it as such with format='jsonl' (or 'json'; --format on the "
            "command line), or as plain text with format='txt'"
        )


def _is_object(line: bytes) -> bool:
    """Whether a line is a JSON object, or the beginning of one that is too long to be looked at."""
    if not line.startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return line.startswith(b'{"') and len(line) > BEGINNING // 2
