"""Read delimited tables (``.csv``, ``.tsv``): the first row names the columns, every other row is a document.

Fields may be quoted (RFC 4180): inside quotes, delimiters and line ends are text, and two quotes mean one.
:class:`DelimitedReader` reads documents or a whole table, with the parser of Arrow if the file is simple.
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

from attomaton.base.errors import AttomatonError, SkippedDocuments, UnreadableSource
from attomaton.base.printing import count_noun
from attomaton.corpora.budgets import CONTAINER, PIECE_ROWS, list_columns
from attomaton.corpora.readers.batches import Reading, Skips, attempt, too_long
from attomaton.corpora.readers.files import BYTE_ORDER_MARK, TableReader, decode_utf8, naming, suffix_of
from attomaton.corpora.readers.records import RecordReader

_arrow: Any = pa
TEXT_COLUMNS = ("text", "content")  # read by default, if the table has one of them
DELIMITERS = ",;\t|"  # of .csv files: the first that is in the header
LARGEST_CELL = (1 << 31) - 1  # bytes: the most that the module csv accepts on every system
_QUOTED = re.compile(r'"[^"]*+"')
_COLUMN_NAME = re.compile(r"[\w.-]+")
_DELIMITER_LINE = re.compile(r'sep=([^"])\s*')  # with which spreadsheets declare the delimiter


@dataclass(frozen=True)
class DelimitedReader(RecordReader, TableReader):
    """A ``.csv`` or ``.tsv`` file, plain or compressed (``.gz``, ``.zst``). Blank lines are ignored."""

    def table(self) -> Any:
        """All rows; cells are verbatim text, so 007 stays 007."""
        rows = self._rows()
        content = self.read_whole().encode()
        schema = _arrow.schema([(name, pa.string()) for name in rows.open(io.BytesIO(content))])
        if not len(schema):
            raise UnreadableSource(f"{self.source} is empty: it has no header; leave it out")
        if (table := rows.read_with_arrow(content, schema)) is not None:
            return table
        skips = Skips(self.reading)
        numbered = skips.filter(rows.read())
        batches: list[Any] = []
        while lists := [cells for _, cells in islice(numbered, PIECE_ROWS)]:
            columns = [_arrow.array(column, pa.string()) for column in zip(*lists, strict=True)]
            batches.append(_arrow.RecordBatch.from_arrays(columns, schema=schema))
        skipped = skips.take()
        if skipped.count:
            warnings.warn(SkippedDocuments(skipped.count, skipped.first, "row"), stacklevel=2)
        return _arrow.Table.from_batches(batches, schema)

    def locate(self, row: int) -> str:
        """The first line of a row of the table, from 1; skipped lines are counted."""
        rows = self._rows()
        rows.open(io.BytesIO(self.read_whole().encode()))
        number, _ = next(islice(Skips(self.reading).filter(rows.read()), row, None))
        return f"line {number} of {self.source}"

    # Yields each row's line number, with the text of its document or the error.
    def _results(self) -> Iterator[tuple[int, str | AttomatonError]]:
        rows = self._rows()
        with naming(self.source, lambda: f", after line {rows.line_number},"), self.file.open() as file:
            columns = rows.open(file)
            column = self._choose_column(columns) if columns else 0
            for number, cells in rows.read():
                if isinstance(cells, AttomatonError):
                    yield number, cells
                    continue
                # bytes that are not UTF-8 are an error in this column only
                cell = cells[column].encode("utf-8", "surrogateescape")
                yield number, attempt(decode_utf8, cell, f"{self.source}, line {number},")

    def _rows(self) -> "_CsvRows":
        is_tsv = suffix_of(self.file, self.reading) == ".tsv"
        return _CsvRows(self.source, self.reading, "\t" if is_tsv else DELIMITERS)

    # The index of the column to read. Without `column`, it is the one called text or content, or the only one
    # if its name is a word: without a header, the first row of a file is often a sentence.
    def _choose_column(self, columns: list[str]) -> int:
        chosen = self.reading.column
        present = list_columns(columns)
        if chosen is None:
            usual = {name for name in columns if name in TEXT_COLUMNS}
            single = {name for name in columns if len(columns) == 1 and _COLUMN_NAME.fullmatch(name)}
            if len(usual or single) != 1:
                raise UnreadableSource(
                    f"{self.source} has the columns {present} in its first row; name the column of the "
                    "documents with column (--column on the command line); if the file has no header, add one"
                )
            (chosen,) = usual or single
        if columns.count(chosen) != 1:
            number = "two or more columns" if chosen in columns else "no column"
            raise UnreadableSource(f"{self.source} has {number} called {chosen!r}; choose one of {present}")
        return columns.index(chosen)


class _CsvRows:
    """The rows of a table, after :meth:`open` has read the header; ``line_number`` counts the lines read."""

    line_number = 0
    _row_start = 1  # first line of the current row
    _row_length = 0  # bytes of the current row so far
    _at_end = False

    def __init__(self, source: str, reading: Reading, delimiters: str) -> None:
        self._source = source
        self._reading = reading
        self._delimiters = delimiters  # candidates
        self._delimiter = delimiters[0]
        self._columns: list[str] = []
        self._cells: Iterator[list[str]] = iter(())  # of each row, from the module csv

    def open(self, file: BinaryIO) -> list[str]:
        """Read the header; return the names of the columns, none if the file is empty."""
        lines = self._lines(file)
        filled = (line for line in lines if line.strip("\r\n"))
        header = next(filled, "")
        if (declared := _DELIMITER_LINE.fullmatch(header)) is not None:
            header = next(filled, "")
            delimiter = declared[1]
        else:
            unquoted = _QUOTED.sub("", header)
            delimiter = next((sign for sign in self._delimiters if sign in unquoted), self._delimiters[0])
        if header.count(delimiter) >= CONTAINER:
            raise UnreadableSource(f"{self._source} has more than {CONTAINER:,} columns; remove some")
        csv.field_size_limit(LARGEST_CELL)  # of the whole process; here ``_lines`` limits whole rows
        self._row_start = self.line_number
        self._delimiter = delimiter
        self._cells = csv.reader(chain([header], lines), delimiter=delimiter, strict=True)
        try:
            self._columns = [name.strip() for name in next(self._cells)]
        except csv.Error as error:
            raise (self._unclosed("never closed") if self._at_end else self._malformed(error)) from error
        return self._columns

    # Yield the lines of a file; a line, or a row with an open quote, that is too long is an error.
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
                line = line.removeprefix(BYTE_ORDER_MARK)
                decode_utf8(line, f"{self._source}, line 1,")
            yield line.decode("utf-8", "surrogateescape")
        self._at_end = True

    def read(self) -> Iterator[tuple[int, list[str] | AttomatonError]]:
        """Yield the rows after the header: the number of the first line, and the cells or an error."""
        while not self._at_end:
            self._row_start = self.line_number + 1
            self._row_length = 0
            try:
                cells = next(self._cells, list[str]())
            except csv.Error as error:
                if self._at_end:
                    raise self._unclosed("never closed") from error
                yield self._row_start, self._malformed(error)
                continue
            if len(cells) == len(self._columns):
                yield self._row_start, cells
            elif cells:
                yield self._row_start, self._wrong_length(cells)

    def read_with_arrow(self, content: bytes, schema: Any) -> Any:
        """The table of :meth:`read`, from the parser of Arrow; None if quotes or line ends need care."""
        from pyarrow import csv as arrow_csv  # loaded only if a table is read as a whole

        parser: Any = arrow_csv
        longest = max(map(len, content.split(b"\n"))) + 1
        # care is needed if a line ends in \r alone, or a line is too long, ...
        if content.count(b"\r") > content.count(b"\r\n") or longest > self._reading.max_bytes:
            return None
        # ... or a quote is not at the border of a cell on one line
        delimiter = re.escape(self._delimiter).encode()
        quoted_cell = rb'(?:(?<=[%b\n])|^)"[^"\r\n]*"(?=[%b\r\n]|$)' % (delimiter, delimiter)
        if 2 * len(re.findall(quoted_cell, content)) < content.count(b'"'):
            return None
        types = {name: pa.string() for name in schema.names}
        try:
            return parser.read_csv(
                _arrow.BufferReader(content),
                parser.ReadOptions(column_names=schema.names, skip_rows=self.line_number, use_threads=False),
                parser.ParseOptions(delimiter=self._delimiter),
                parser.ConvertOptions(column_types=types),
            )
        except pa.ArrowInvalid:  # read again, to name the row
            return None

    def _location(self) -> str:
        return f"{self._source}, line {self._row_start},"

    def _wrong_length(self, cells: list[str]) -> UnreadableSource:
        return UnreadableSource(
            f"{self._location()} has {count_noun(len(cells), 'cell')}, but the header has "
            f"{len(self._columns):,}; quote cells that contain {self._delimiter!r}, or correct the row"
        )

    def _malformed(self, error: csv.Error) -> UnreadableSource:
        reason = str(error).partition(" - ")[0]
        return UnreadableSource(
            f"{self._location()} is not CSV ({reason}); write each quote inside quotes twice; if lines end "
            "with \\r alone, convert them: tr '\\r' '\\n'"
        )

    def _unclosed(self, reason: str) -> UnreadableSource:
        return UnreadableSource(
            f"{self._location()} opens a quote that is {reason}; close it, or write each inner quote twice"
        )
