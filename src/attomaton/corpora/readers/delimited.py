"""Tables as text: ``.csv`` and ``.tsv``, whose first row names the columns; each further row is one document.

Fields may be quoted (RFC 4180): inside quotes, delimiters and line ends are text, and two quotes mean one.
"""

import csv
import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, BinaryIO

import pyarrow as pa

from attomaton.base.errors import SkippedDocuments, UnreadableSource
from attomaton.corpora.budgets import CONTAINER, PIECE_ROWS, brief
from attomaton.corpora.readers.batches import Reading, Skips, too_long
from attomaton.corpora.readers.files import TableReader, decode_utf8, naming, suffix_of
from attomaton.corpora.readers.records import RecordReader

_arrow: Any = pa
TEXT_COLUMNS = ("text", "content")  # columns that are taken without being named, if only one of them is there
DELIMITERS = ",;\t|"  # of .csv files; the first that is in the header
HEADER_NAMES = 20  # columns that an error lists
_QUOTED = re.compile(r'"[^"]*+"')
_NAME = re.compile(r"[\w.-]+")
_DECLARED = re.compile(r'sep=([^"])\s*')  # a line that spreadsheets use to declare the delimiter


@dataclass(frozen=True)
class DelimitedReader(RecordReader, TableReader):
    """A ``.csv`` or ``.tsv`` file, plain or compressed (``.gz``, ``.zst``). Blank lines are ignored."""

    def table(self) -> Any:
        """All rows; cells are verbatim text: 007 stays 007."""
        rows, skips, content = self._rows(), Skips(self.reading), self.read_whole().encode()
        schema = _arrow.schema([(name, pa.string()) for name in rows.open(io.BytesIO(content))])
        if not len(schema):
            raise UnreadableSource(f"{self.source} is empty: it has no header; leave it out")
        if (table := rows.read_plainly(content, schema)) is not None:
            return table
        numbered, batches = rows.read(skips), list[Any]()
        while lists := [cells for _, cells in islice(numbered, PIECE_ROWS)]:
            columns = [_arrow.array(column, pa.string()) for column in zip(*lists, strict=True)]
            batches.append(_arrow.RecordBatch.from_arrays(columns, schema=schema))
        skipped = skips.take()
        if skipped.count:
            warnings.warn(SkippedDocuments(skipped.count, skipped.first, "row"), stacklevel=2)
        return _arrow.Table.from_batches(batches, schema)

    def locate(self, row: int) -> str:
        """The first line of a row of the table, from 1; lines that the table skips are counted."""
        rows = self._rows()
        rows.open(io.BytesIO(self.read_whole().encode()))
        number, _ = next(islice(rows.read(Skips(self.reading)), row, None))
        return f"line {number} of {self.source}"

    def _documents(self, skips: Skips) -> Iterator[tuple[int, str]]:
        """The documents, each with the number of its first line, from 1."""
        rows = self._rows()
        with naming(self.source, lambda: f", after line {rows.line_number},"), self.file.open() as file:
            columns = rows.open(file)
            column = self._choose(columns) if columns else 0
            for number, cells in rows.read(skips):
                try:  # other columns may have bytes that are not UTF-8
                    cell = cells[column].encode("utf-8", "surrogateescape")
                    text = decode_utf8(cell, f"{self.source}, line {number},")
                except UnreadableSource as error:
                    skips.add(error)
                else:
                    yield number, text

    def _rows(self) -> "_CsvRows":
        is_tsv = suffix_of(self.file, self.reading) == ".tsv"
        return _CsvRows(self.source, self.reading, "\t" if is_tsv else DELIMITERS)

    def _choose(self, columns: list[str]) -> int:
        """The index of the column to read; an error lists the columns if the choice is ambiguous."""
        chosen, source = self.reading.column, self.source
        present = ", ".join(brief(name) for name in columns[:HEADER_NAMES])
        present += f" and {len(columns) - HEADER_NAMES:,} more" if len(columns) > HEADER_NAMES else ""
        if chosen is None:
            named = {name for name in columns if name in TEXT_COLUMNS}
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


class _CsvRows:
    """The rows of a table; ``line_number`` counts the lines that were read."""

    line_number = 0
    _first = 1  # first line of the current row
    _row_length = 0  # bytes of the current row so far
    _at_end = False

    def __init__(self, source: str, reading: Reading, delimiters: str) -> None:
        self._source, self._reading, self._delimiters = source, reading, delimiters
        self._delimiter, self._columns = delimiters[0], list[str]()
        self._cells: Iterator[list[str]] = iter(())

    def open(self, file: BinaryIO) -> list[str]:
        """Read the header and return the names of the columns, none if the file is empty."""
        lines = self._lines(file)
        filled = (line for line in lines if line.strip("\r\n"))
        header = next(filled, "")
        if (declared := _DECLARED.fullmatch(header)) is not None:
            header, delimiter = next(filled, ""), declared[1]
        else:
            plain = _QUOTED.sub("", header)
            delimiter = next((sign for sign in self._delimiters if sign in plain), self._delimiters[0])
        if header.count(delimiter) >= CONTAINER:
            raise UnreadableSource(f"{self._source} has more than {CONTAINER:,} columns; leave some out")
        csv.field_size_limit((1 << 31) - 1)  # of the whole process; here ``_lines`` limits whole rows
        self._first, self._delimiter = self.line_number, delimiter
        self._cells = csv.reader(chain([header], lines), delimiter=delimiter, strict=True)
        try:
            self._columns = [name.strip() for name in next(self._cells)]
        except csv.Error as error:
            raise (self._unclosed("never closed") if self._at_end else self._wrong(error)) from error
        return self._columns

    def _lines(self, file: BinaryIO) -> Iterator[str]:
        most = self._reading.max_bytes
        while line := file.readline(most + 1):
            self.line_number += 1
            self._row_length += len(line)
            if len(line) > most:
                raise too_long(f"{self._source}, line {self.line_number},", self._reading, advice="break it")
            if self._row_length > most:
                raise self._unclosed("not closed within the longest document")
            if self.line_number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
                decode_utf8(line, f"{self._source}, line 1,")
            yield line.decode("utf-8", "surrogateescape")
        self._at_end = True

    def read(self, skips: Skips) -> Iterator[tuple[int, list[str]]]:
        """The rows after the header, each with the number of its first line."""
        while not self._at_end:
            self._first, self._row_length = self.line_number + 1, 0
            try:
                cells = next(self._cells, list[str]())
            except csv.Error as error:
                if self._at_end:
                    raise self._unclosed("never closed") from error
                skips.add(self._wrong(error))
                continue
            if len(cells) == len(self._columns):
                yield self._first, cells
            elif cells:
                skips.add(
                    UnreadableSource(
                        f"{self._source}, line {self._first}, has {len(cells):,} cells but the header has "
                        f"{len(self._columns):,}; quote cells that contain {self._delimiter!r}, or correct "
                        "the row"
                    )
                )

    def read_plainly(self, content: bytes, schema: Any) -> Any:
        """The table that :meth:`read` gives, by Arrow's parser; None if quotes or line ends need care."""
        from pyarrow import csv as arrow_csv

        parser: Any = arrow_csv
        longest = max(map(len, content.split(b"\n"))) + 1
        if content.count(b"\r") > content.count(b"\r\n") or longest > self._reading.max_bytes:
            return None
        sign = re.escape(self._delimiter).encode()
        quoted_cell = rb'(?:(?<=[%b\n])|^)"[^"\r\n]*"(?=[%b\r\n]|$)' % (sign, sign)
        if 2 * len(re.findall(quoted_cell, content)) < content.count(b'"'):  # a quote elsewhere
            return None
        names, types = schema.names, {name: pa.string() for name in schema.names}
        try:
            return parser.read_csv(
                _arrow.BufferReader(content),
                parser.ReadOptions(column_names=names, skip_rows=self.line_number, use_threads=False),
                parser.ParseOptions(delimiter=self._delimiter),
                parser.ConvertOptions(column_types=types),
            )
        except pa.ArrowInvalid:  # read again, to name the row
            return None

    def _wrong(self, error: csv.Error) -> UnreadableSource:
        reason = str(error).partition(" - ")[0]
        return UnreadableSource(
            f"{self._source}, line {self._first}, is not CSV ({reason}); double quotes inside quotes; if its "
            "lines end with \\r alone, convert them: tr '\\r' '\\n'"
        )

    def _unclosed(self, how: str) -> UnreadableSource:
        return UnreadableSource(
            f"{self._source}, line {self._first}, opens a quote that is {how}; close it, or double quotes "
            "inside quotes"
        )
