"""Tables as text: ``.csv`` and ``.tsv``, whose first row names the columns; each further row is one document.

Fields may be quoted (RFC 4180): inside quotes, delimiters and line ends are text, and two quotes mean one.
"""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from attomaton.base.errors import SkippedDocuments, UnreadableSource
from attomaton.corpora.budgets import CONTAINER, shown
from attomaton.corpora.readers.batches import Reading, Skips, too_long
from attomaton.corpora.readers.files import TableReader, decode, naming, suffix_of
from attomaton.corpora.readers.records import RecordReader

_arrow: Any = pa
NAMES = ("text", "content")  # columns that are taken without being named, if only one of them is there
DELIMITERS = ",;\t|"  # of .csv files; the first that is in the header
SHOWN = 20  # columns that an error lists
_INSIDE = re.compile(r'[^"]*+(?:""[^"]*+)*+')
_QUOTED = re.compile(r'"[^"]*+"')
_NAME = re.compile(r"[\w.-]+")
_DECLARED = re.compile(r"sep=(.)")


@dataclass(frozen=True)
class DelimitedReader(RecordReader, TableReader):
    """A ``.csv`` or ``.tsv`` file, plain or compressed (``.gz``, ``.zst``). Blank lines are ignored."""

    def table(self) -> Any:
        """All rows; cells are verbatim text: 007 stays 007."""
        import pyarrow.csv

        tables: Any = pyarrow.csv
        blob = self.read_whole()
        blob, delimiter = self._split_declaration(blob)
        skips = Skips(self.reading)  # both passes skip, and the second one counts

        def refuse(row: Any) -> str:
            place = self.source if row.number is None else f"{self.source}, row {row.number},"
            cells = f"{row.actual_columns:,} cells and the header has {row.expected_columns:,}"
            skips.add(UnreadableSource(f"{place} has {cells}; mend the row"))
            return "skip"

        parse = tables.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            invalid_row_handler=refuse if self.reading.skip_bad else None,
        )
        head = tables.open_csv(_arrow.BufferReader(blob), parse_options=parse).schema
        skips.take()
        texts = {name: pa.string() for name in head.names}
        table = tables.read_csv(
            _arrow.BufferReader(blob),
            parse_options=parse,
            convert_options=tables.ConvertOptions(column_types=texts, strings_can_be_null=False),
            read_options=tables.ReadOptions(use_threads=False),
        )
        skipped = skips.take()
        if skipped.count:
            warnings.warn(SkippedDocuments(skipped.count, skipped.first), stacklevel=2)
        return table

    def _split_declaration(self, blob: bytes) -> tuple[bytes, str]:
        """The rows, and their delimiter, which a first line ``sep=;`` may declare."""
        header, _, rest = blob.partition(b"\n")
        declared = _DECLARED.fullmatch(header.decode().rstrip("\r"))
        if declared is not None:
            return rest, declared[1]
        is_tsv = suffix_of(self.file, self.reading) == ".tsv"
        return blob, _find_delimiter(header.decode(), "\t" if is_tsv else DELIMITERS)

    def locate(self, row: int) -> str:
        """The first line of a row of the table, from 1; lines that the table skips are counted."""
        rows = _DelimitedRows(self.source, self.reading, suffix_of(self.file, self.reading))
        rows.open(io.BytesIO(self.read_whole()))
        begin, number = 0, -1
        for line in rows.lines:
            if line.strip("\r\n"):
                begin = rows.number
                with suppress(UnreadableSource):
                    rows.read(line)
                    number += 1
                if number == row:
                    break
        return f"line {begin} of {self.source}"

    def _documents(self, skips: Skips) -> Iterator[tuple[int, str]]:
        """The documents; rows are the numbers of their first lines, from 1."""
        rows = _DelimitedRows(self.source, self.reading, suffix_of(self.file, self.reading))
        with naming(self.source, lambda: f", after line {rows.number},"), self.file.open() as file:
            columns = rows.open(file)
            column = rows.choose(columns) if columns else 0
            for line in rows.lines:
                if not line.strip("\r\n"):
                    continue
                number = rows.number
                try:
                    cell = rows.read(line)[column]
                    if not cell.isascii():  # other columns may have bytes that are not UTF-8
                        cell = decode(
                            cell.encode("utf-8", "surrogateescape"), f"{self.source}, line {number},"
                        )
                except UnreadableSource as error:
                    if rows.lost:
                        raise
                    skips.add(error)
                else:
                    yield number, cell


def _find_delimiter(header: str, delimiters: str) -> str:
    """The first of some delimiters that is in a header, outside quotes."""
    plain = _QUOTED.sub("", header)
    return next((sign for sign in delimiters if sign in plain), delimiters[0])


class _DelimitedRows:
    """Turns the lines of a table, numbered from 1 and with their ends, into rows."""

    lost = False  # whether it is unknown where the next row begins

    def __init__(self, source: str, reading: Reading, suffix: str) -> None:
        self._source, self._reading = source, reading
        self._delimiters = "\t" if suffix == ".tsv" else DELIMITERS
        self.number = self._n_columns = 0
        self.lines: Iterator[str] = iter(())

    def open(self, file: BinaryIO) -> list[str]:
        """Read the header and return the names of the columns, none if the file is empty."""
        self.lines = self._read_lines(file)
        line = next((line for line in self.lines if line.strip("\r\n")), None)
        if line is None:
            return []
        declared = _DECLARED.fullmatch(line.rstrip("\r\n"))
        if declared is not None:  # a line that spreadsheets use to declare the delimiter
            line, self._delimiters = next(self.lines, ""), declared[1]
        self._delimiters = _find_delimiter(line, self._delimiters)
        columns = [cell.strip() for cell in self._split_quoted(line, CONTAINER)]
        if len(columns) > CONTAINER:
            raise UnreadableSource(f"{self._source} has more than {CONTAINER:,} columns; leave some out")
        if any("\r" in name for name in columns):
            raise UnreadableSource(
                f"{self._source} ends its lines with \\r alone; convert it first: tr '\\r' '\\n'"
            )
        self._n_columns = len(columns)
        return columns

    def _read_lines(self, file: BinaryIO) -> Iterator[str]:
        while line := file.readline(self._reading.max_bytes + 1):
            self.number += 1
            if len(line) > self._reading.max_bytes:
                self.lost = True
                raise too_long(f"{self._source}, line {self.number},", self._reading, advice="break it")
            if self.number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
                decode(line, f"{self._source}, line 1,")
            yield line.decode("utf-8", "surrogateescape")

    def read(self, line: str) -> list[str]:
        """The cells of the row that begins with this line; a quoted cell may span several lines."""
        place = f"{self._source}, line {self.number},"
        if '"' in line:
            cells = self._split_quoted(line, self._n_columns)
        else:
            cells = line.rstrip("\r\n").split(self._delimiters)
        if len(cells) != self._n_columns:
            more = f"more than {self._n_columns:,}" if len(cells) > self._n_columns else f"{len(cells):,}"
            raise UnreadableSource(
                f"{place} has {more} cells but the header has {self._n_columns:,}; quote cells that contain "
                f"{self._delimiters!r}, or correct the row"
            )
        return cells

    def _split_quoted(self, line: str, most: int) -> list[str]:
        """The cells of a row with quotes, at most one more than ``most``."""
        begun, size, at = self.number, len(line), 0
        cells: list[str] = []
        while len(cells) <= most:
            if not line.startswith('"', at):
                stop = line.find(self._delimiters, at)
                cells.append(line[at:].rstrip("\r\n") if stop < 0 else line[at:stop])
                if stop < 0:
                    break
                at = stop + 1
                continue
            parts: list[str] = []
            at += 1
            while True:  # text inside quotes, which may span several lines
                inside = _INSIDE.match(line, at)
                stop = at if inside is None else inside.end()
                parts.append(line[at:stop])
                if stop < len(line):
                    break
                line, at = next(self.lines, ""), 0
                size += len(line)
                if not line or size > self._reading.max_bytes:
                    self.lost = True
                    raise UnreadableSource(
                        f"{self._source}, line {begun}, opens a quote that is "
                        f"{'not closed within the longest document' if line else 'never closed'}; close it, "
                        "or double quotes inside quotes"
                    )
            cells.append("".join(parts).replace('""', '"'))
            at = stop + 1
            if line.startswith(self._delimiters, at):
                at += 1
                continue
            if line[at:].strip("\r\n"):
                raise UnreadableSource(
                    f"{self._source}, line {self.number}, has text after the quote that ends a cell; double "
                    "quotes inside quotes"
                )
            break
        return cells

    def choose(self, columns: list[str]) -> int:
        """The index of the column to read; an error lists the columns if the choice is ambiguous."""
        chosen, source = self._reading.column, self._source
        present = ", ".join(shown(name) for name in columns[:SHOWN])
        present += f" and {len(columns) - SHOWN:,} more" if len(columns) > SHOWN else ""
        if chosen is None:
            named = {name for name in columns if name in NAMES}
            only = {name for name in columns if len(columns) == 1 and _NAME.fullmatch(name)}
            if len(named or only) != 1:
                raise UnreadableSource(
                    f"{source} has the columns {present} in its first row; name the one that holds the "
                    "documents with column (--column on the command line); if the file has no header, "
                    "add one"
                )
            (chosen,) = named or only
        if columns.count(chosen) != 1:
            number = "two or more columns" if chosen in columns else "no column"
            raise UnreadableSource(f"{source} has {number} called {chosen!r}; it has {present}")
        return columns.index(chosen)
