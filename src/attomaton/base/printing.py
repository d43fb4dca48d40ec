"""How results are displayed: as plain text, in a terminal, and as HTML in a notebook.

A result defines its display once, as a list of blocks: a string is a line, a :class:`Grid` a table, and there
are a few others. ``str(result)`` draws them as text of a fixed width, the command line at the width of the
terminal, a notebook as HTML (:mod:`.markup`). Hidden characters are written out, long texts and tables
are cut with a count.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from io import StringIO
from typing import Any

from attomaton.base import markup

PRINTED_ROWS = 8  # rows shown of a table
TOKEN_LENGTH, TEXT_LENGTH = 40, 600  # characters shown of a token, and of any other text
LONGEST_UNCUT = 4096  # characters of the longest word that a terminal shows in full: no path is longer
CUT_WORD, LONGEST_CELL = 200, 20_000  # characters shown of a longer word, and of any text in a terminal
WIDTH = 100  # most characters per line of a drawn table
FULL_BAR = 20  # characters of a full bar in plain text
UNBROKEN = 18  # characters of a cell that a notebook does not break

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
"""Colours that readers with any kind of colour vision can distinguish (Okabe and Ito)."""

_EDGE_COLOURS = {True: GREEN, False: ORANGE, None: "rgba(128,128,128,.6)"}
_NUMBER = re.compile(r"[+-]?[\d,.]+(e[+-]?\d+)?%?|[+-]?inf|[-–]?")
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: terminals act on them, and XML cannot hold them
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line and paragraph ends, direction marks
    "\ufeff\ufffe\uffff\ud800-\udfff]"  # byte order mark, non-characters, lone surrogates
)
_LONG_WORD = re.compile(rf"\S{{{LONGEST_UNCUT + 1},}}")


def show_hidden(text: str) -> str:
    r"""The text with every hidden character written out, as in JSON; a backslash stays as it is."""
    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def shorten(text: str, most: int = TOKEN_LENGTH) -> str:
    """The text without hidden characters; if it is long, its beginning and its length."""
    if len(text) <= most:
        return show_hidden(text)
    return f"{show_hidden(text[:most])}… ({len(text):,} characters)"


def show_count(count: float) -> str:
    """A number of cases, with one decimal where weights make it a fraction: ``1,234,567`` or ``53.8``."""
    return f"{count:,.{0 if float(count).is_integer() else 1}f}"


def tell_accuracy(noun: str, distance: str, *, infinite: bool) -> str:
    """A sentence about what a certificate proves: how far each estimate is from the best fit."""
    if not infinite:
        return f"certified: every {noun} is within {distance} of the best fit"
    return (
        f"certified: every finite {noun} is within {distance} of the best fit; which {noun}s are infinite is "
        "proved"
    )


def name_item(item: object) -> str:
    """What a message calls an item of the user: a date as text, anything else as its repr."""
    return str(item) if isinstance(item, date) else repr(item)


def list_words(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def cut_long(text: str) -> str:
    """The text; very long words and texts, which a terminal would wrap, are cut and their length is added."""
    if len(text) <= LONGEST_UNCUT:
        return text
    cut = _LONG_WORD.sub(lambda match: shorten(match[0], CUT_WORD), text)
    return cut if len(cut) <= LONGEST_CELL else shorten(cut, LONGEST_CELL)


@dataclass(frozen=True)
class Signal:
    """A line or cell that is good news, bad news or neither (None): a notebook colours its edge."""

    text: str
    good: bool | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Bar:
    """A cell with a fraction between 0 and 1: a notebook also draws it as a bar."""

    share: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Grid:
    """A table: its title, column names (not shown if all are empty), and rows."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Listing:
    """A table without a frame: names (``item``, ``coefficient``) and notes (no header) are on the left."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [[show_hidden(cell) for cell in row] for row in (self.headers, *self.rows)]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if header in ("item", "coefficient", "") else cell.rjust(width)
                for header, cell, width in zip(self.headers, line, widths, strict=True)
            ).rstrip()
            for line in lines
        )


@dataclass(frozen=True)
class Bars:
    """Names with a bar each; ``width`` reserves room for names that are not shown here."""

    rows: Sequence[tuple[str, Bar]]
    width: int = 0

    def __str__(self) -> str:
        width = max([self.width, *(len(name) for name, _ in self.rows)])
        return "\n".join(
            f"  {name:{width}}  {bar.text}  {'#' * round(FULL_BAR * bar.share)}".rstrip()
            for name, bar in self.rows
        )


@dataclass(frozen=True)
class Chip:
    """A token in a row: ``weight`` between 0 and 1 shades it, ``note`` is printed below it."""

    text: str
    weight: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class Chips:
    """Tokens in a row, after the text ``before``: those with weight are in brackets, or shaded."""

    chips: Sequence[Chip]
    before: str = ""

    def __str__(self) -> str:
        words = [f"[{shorten(chip.text)}]" if chip.weight else shorten(chip.text) for chip in self.chips]
        return " ".join([self.before, *words] if self.before else words)


Block = str | Signal | Grid | Listing | Bars | Chips
"""One block of a result: a line, a table, bars, or tokens in a row."""


class Printed:
    """A result whose ``_blocks`` define its display for ``print``, the command line and notebooks."""

    def _blocks(self) -> list[Block]:
        raise NotImplementedError

    def __str__(self) -> str:
        return draw_text(self._blocks())

    def _repr_html_(self) -> str:
        return draw_html(self._blocks())


def blocks_of(value: Printed) -> list[Block]:
    return value._blocks()  # pyright: ignore[reportPrivateUsage]


def draw_text(blocks: Sequence[Block], *, width: int = WIDTH) -> str:
    """The blocks as text; tables have at most ``width`` characters, and cells are wrapped if necessary."""
    lines: list[str] = []
    for block in blocks:
        lines += _draw_grid(block, width) if isinstance(block, Grid) else map(clean, lines_of(block))
    return "\n".join(lines)


def lines_of(block: str | Signal | Listing | Bars | Chips) -> list[str]:
    return [block] if isinstance(block, str) else str(block).split("\n")


def clean(text: str) -> str:
    """The text without hidden characters, cut where it is very long."""
    return show_hidden(cut_long(text))


def draw_table(grid: Grid, show: Callable[[str], Any]) -> Any:
    """The grid as a table for a rich console; ``show`` turns text into the content of a cell."""
    from rich.table import Table

    table = Table(show_header=any(grid.headers))
    for header in grid.headers:
        table.add_column(show(header), overflow="fold")
    for row in grid.rows:
        table.add_row(*(show(str(cell)) for cell in row))
    return table


def _draw_grid(grid: Grid, width: int) -> list[str]:
    from rich.console import Console
    from rich.text import Text

    paper = StringIO()
    console = Console(file=paper, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    console.print(draw_table(grid, lambda text: Text(clean(text))))
    return [*([clean(grid.title)] if grid.title else []), *paper.getvalue().splitlines()]


def draw_html(blocks: Sequence[Block]) -> str:
    return markup.html_div(markup.FRAME, *map(_html_block, blocks))


def _html_block(block: Block) -> str:
    match block:
        case Grid(title, headers, rows):
            return (markup.html_div(markup.TITLE, _html_text(title)) if title else "") + _html_table(
                headers, rows
            )
        case Listing(headers, rows):
            return _html_table(headers, rows)
        case Bars(rows):
            return _html_table(["", ""], rows)
        case Chips(chips, before):
            tokens = [
                markup.html_chip(_html_text(shorten(chip.text)), chip.weight, _html_text(chip.note))
                for chip in chips
            ]
            return markup.html_chips(_html_text(before), tokens)
        case _:
            return markup.html_div(markup.LINE, _html_cell(block).html)


def _html_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    shown = [[_html_cell(cell) for cell in row] for row in rows[: markup.MOST_HTML_ROWS]]
    return markup.html_table([_html_text(name) for name in headers], shown, len(rows) - len(shown))


def _html_cell(cell: object) -> markup.HtmlCell:
    text = str(cell)
    html, is_number = _html_text(text), _NUMBER.fullmatch(text) is not None
    match cell:
        case Bar(share):
            html, is_number = markup.html_bar(share, html, BLUE), False
        case Signal(good=good):
            html = markup.html_signal(html, _EDGE_COLOURS[good])
        case _:
            pass
    return markup.HtmlCell(html, is_number, len(text) <= UNBROKEN)


def _html_text(text: str) -> str:
    return markup.html_text(shorten(text, TEXT_LENGTH))
