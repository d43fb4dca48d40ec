"""Tables as text: ``.csv`` and ``.tsv``, whose first row names the columns; each further row is one document.

Fields may be quoted (RFC 4180): inside quotes a delimiter and a line end are text, and two quotes are one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa

from attomaton.base.errors import UnreadableSource
from attomaton.corpora.budgets import CONTAINER, shown
from attomaton.corpora.readers.batches import Reading, Skips, too_long
from attomaton.corpora.readers.files import TableReader, decode, naming, suffix_of
from attomaton.corpora.readers.records import RecordReader

_arrow: Any = pa
NAMES = ("text", "content")
"""Columns that are taken without being named, if only one of them is there."""
SHOWN = 20
"""Columns that an error lists."""

_INSIDE = re.compile(r'[^"]*+(?:""[^"]*+)*+')
_NAME = re.compile(r"[\w.-]+")
_DECLARED = re.compile(r"sep=(.)")


@dataclass(frozen=True)
class DelimitedReader(RecordReader, TableReader):
    """A ``.csv`` or ``.tsv`` file, plain or packed (``.gz``, ``.zst``). Blank lines are no rows."""

    def table(self) -> Any:
        """All rows; cells are text as it stands there: 007 stays 007."""
        from pyarrow import csv

        tables: Any = csv
        blob = self.read_whole()
        delimiter = "\t" if self.file.suffix == ".tsv" else ","
        parse = tables.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        head = tables.open_csv(_arrow.BufferReader(blob), parse_options=parse).schema
        texts = {name: pa.string() for name in head.names}
        return tables.read_csv(
            _arrow.BufferReader(blob),
            parse_options=parse,
            convert_options=tables.ConvertOptions(column_types=texts, strings_can_be_null=False),
            read_options=tables.ReadOptions(use_threads=False),
        )

    def _documents(self, skips: Skips) -> Iterator[tuple[int, str]]:
        """The documents; rows are the numbers of the lines in which they begin, from 1."""
        lines = _Lines(self.source, self.reading)
        with naming(self.source, lambda: f", after line {lines.number},"), self.file.open() as file:
            every = lines.of(file)
            table = _open_table(lines, every, suffix_of(self.file, self.reading))
            if table is None:
                return
            for line in every:
                if not line.strip("\r\n"):
                    continue
                number = lines.number
                try:
                    cells = table.row(line, lines, every)
                    text = _cell(cells[table.place], f"{self.source}, line {number},")
                except UnreadableSource as error:
                    if lines.lost:
                        raise
                    skips.add(error)
                else:
                    yield number, text


class _Lines:
    """Numbered lines with their line ends; bytes that are no UTF-8 are kept: they may be in other columns."""

    def __init__(self, source: str, reading: Reading) -> None:
        self.source, self.reading = source, reading
        self.number = 0
        self.lost = False
        """Whether it cannot be said where the next row begins."""

    def of(self, file: BinaryIO) -> Iterator[str]:
        while line := file.readline(self.reading.max_bytes + 1):
            self.number += 1
            if len(line) > self.reading.max_bytes:
                self.lost = True
                raise too_long(f"{self.source}, line {self.number},", self.reading, advice="break it")
            content = line.removeprefix(b"\xef\xbb\xbf") if self.number == 1 else line
            if self.number == 1:
                decode(content, f"{self.source}, line 1,")
            yield content.decode("utf-8", "surrogateescape")


@dataclass
class _Header:
    """What the header says, and how rows are split."""

    delimiter: str
    columns: list[str]
    place: int

    def row(self, line: str, lines: _Lines, every: Iterator[str]) -> list[str]:
        """The cells of the row that begins with this line; a quoted cell may go on in the next ones."""
        begun = lines.number
        place = f"{lines.source}, line {begun},"
        most = len(self.columns)
        if '"' not in line:
            if line.count(self.delimiter) + 1 != most:
                raise self._uneven(line.count(self.delimiter) + 1, place)
            return line.rstrip("\r\n").split(self.delimiter)
        cells = _split_quoted(line, self.delimiter, most, lines, every)
        if len(cells) != most:
            raise self._uneven(len(cells), place)
        return cells

    def _uneven(self, size: int, place: str) -> UnreadableSource:
        more = f"more than {len(self.columns):,}" if size > len(self.columns) else f"{size:,}"
        return UnreadableSource(
            f"{place} has {more} cells and the header has {len(self.columns):,}; put cells that hold a "
            f"{self.delimiter!r} in quotes, or mend the row"
        )


def _split_quoted(line: str, delimiter: str, most: int, lines: _Lines, every: Iterator[str]) -> list[str]:
    """The cells of a row with quotes, at most one more than ``most``."""
    begun = lines.number
    row = _Row(delimiter, most)
    size = len(line)
    while not row.add(line, f"{lines.source}, line {lines.number},"):
        line = next(every, "")
        size += len(line)
        if not line or size > lines.reading.max_bytes:
            lines.lost = True
            raise UnreadableSource(
                f"{lines.source}, line {begun}, opens a quote that is "
                f"{'not closed within the longest document' if line else 'never closed'}; close it, or "
                "double quotes inside quotes"
            )
    return row.cells


@dataclass
class _Row:
    """The cells of one row so far."""

    delimiter: str
    most: int
    cells: list[str] = field(default_factory=list[str])
    held: list[str] = field(default_factory=list[str])
    inside: bool = False

    def add(self, line: str, place: str) -> bool:
        """Take one line; whether the row ends with it."""
        at = 0
        while len(self.cells) <= self.most:
            if self.inside:
                at = self._take_quoted(line, at)
                if self.inside:
                    return False
                if line.startswith(self.delimiter, at):
                    at += 1
                    continue
                if line[at:].strip("\r\n"):
                    raise UnreadableSource(
                        f"{place} has text behind the quote that ends a cell; double quotes inside quotes"
                    )
                return True
            if line.startswith('"', at):
                self.inside = True
                at += 1
                continue
            stop = line.find(self.delimiter, at)
            if stop < 0:
                self.cells.append(line[at:].rstrip("\r\n"))
                return True
            self.cells.append(line[at:stop])
            at = stop + 1
        return True

    def _take_quoted(self, line: str, at: int) -> int:
        """What stands inside quotes, up to the closing one or the end of the line; where to go on."""
        found = _INSIDE.match(line, at)
        stop = at if found is None else found.end()
        self.held.append(line[at:stop])
        if stop < len(line):
            self.cells.append("".join(self.held).replace('""', '"'))
            self.held, self.inside = [], False
        return stop + 1


def _open_table(lines: _Lines, every: Iterator[str], suffix: str) -> _Header | None:
    """Read the header; nothing for an empty file."""
    line = next((one for one in every if one.strip("\r\n")), None)
    if line is None:
        return None
    declared = _DECLARED.fullmatch(line.rstrip("\r\n"))
    if declared is not None:  # a line that spreadsheets write for each other
        line = next(every, "")
    delimiter = _delimiter(line, suffix) if declared is None else declared[1]
    cells = _split_quoted(line, delimiter, CONTAINER, lines, every)
    columns = [cell.strip() for cell in cells]
    if len(columns) > CONTAINER:
        raise UnreadableSource(f"{lines.source} has more than {CONTAINER:,} columns; leave some out")
    if any("\r" in name for name in columns):
        raise UnreadableSource(
            f"{lines.source} ends its lines with \\r alone; convert it first: tr '\\r' '\\n'"
        )
    return _Header(delimiter, columns, _choose(columns, lines))


def _delimiter(header: str, suffix: str) -> str:
    """A tab in ``.tsv``; otherwise a comma, unless the header has none and has another one."""
    candidates = "\t" if suffix == ".tsv" else ",;\t|"
    return next((one for one in candidates if one in header), candidates[0])


def _choose(columns: list[str], lines: _Lines) -> int:
    """The place of the column to read; an error lists the columns if it is not clear which."""
    asked, source = lines.reading.column, lines.source
    present = ", ".join(shown(name) for name in columns[:SHOWN])
    present += f" and {len(columns) - SHOWN:,} more" if len(columns) > SHOWN else ""
    if asked is None:
        named = [name for name in columns if name in NAMES]
        only = [name for name in columns if len(columns) == 1 and _NAME.fullmatch(name)]
        fitting = named or only
        if len(set(fitting)) != 1:
            raise UnreadableSource(
                f"{source} has the columns {present}, by its first row; name the one that holds the "
                "documents with column (--column on the command line), and begin the file with a row of "
                "names if it has none"
            )
        asked = fitting[0]
    if columns.count(asked) != 1:
        number = "two or more columns" if asked in columns else "no column"
        raise UnreadableSource(f"{source} has {number} called {asked!r}; it has {present}")
    return columns.index(asked)


def _cell(cell: str, place: str) -> str:
    try:
        cell.encode("utf-8")
    except UnicodeEncodeError:
        return decode(cell.encode("utf-8", "surrogateescape"), place)
    return cell
