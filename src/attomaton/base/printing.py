"""Display results: as plain text, in a terminal, and as HTML in a notebook.

A result defines its display once, as a list of blocks: a string is a line, a :class:`Grid` a table, and there
are a few others. ``str(result)`` draws them as text of a fixed width, the command line in the width of the
terminal, a notebook as HTML. Hidden characters are escaped; long texts and tables are cut.

The HTML has only inline styles (no scripts, style sheets or ids), so that it passes the sanitiser of a
notebook. Colours are inherited or translucent, for light and dark themes.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from io import StringIO
from typing import Any

PRINTED_ROWS = 8  # rows shown of a table
TOKEN_LENGTH = 40  # characters shown of a token
TEXT_LENGTH = 600  # characters shown of any other text in a notebook
LONGEST_UNCUT = 4096  # characters of the longest word that a terminal shows in full: no path is longer
CUT_WORD = 200  # characters shown of a longer word in a terminal
LONGEST_CELL = 20_000  # characters shown of any text in a terminal
WIDTH = 100  # most characters per line of a drawn table
FULL_BAR = 20  # characters of a full bar in plain text
MOST_HTML_ROWS = 200  # most rows of a table in a notebook
UNBROKEN = 18  # characters of a cell that a notebook does not break
LEFT_ALIGNED = ("item", "coefficient", "")  # headers of the columns of a listing that contain names

# Colours that readers with any kind of colour vision can distinguish (Okabe and Ito).
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"

_EDGE_COLOURS = {True: GREEN, False: ORANGE, None: "rgba(128,128,128,.6)"}
_NUMBER = re.compile(r"[+-]?[\d,.]+(e[+-]?\d+)?%?|[+-]?inf|[-–]?")
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: terminals act on them, and XML cannot hold them
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line and paragraph ends, direction marks
    "\ufeff\ufffe\uffff\ud800-\udfff]"  # byte order mark, non-characters, lone surrogates
)
_LONG_WORD = re.compile(rf"\S{{{LONGEST_UNCUT + 1},}}")


def show_hidden(text: str) -> str:
    r"""The text with every hidden character escaped, as in JSON; backslashes stay as they are."""
    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def shorten(text: str, most: int = TOKEN_LENGTH) -> str:
    """The text without hidden characters; of a long text, the beginning and the length."""
    if len(text) <= most:
        return show_hidden(text)
    return f"{show_hidden(text[:most])}… ({len(text):,} characters)"


def show_count(count: float) -> str:
    """A number of cases, with a decimal if weights make it a fraction: ``1,234,567`` or ``53.8``."""
    return f"{count:,.{0 if float(count).is_integer() else 1}f}"


def count_noun(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: ``1 row``, ``2 rows``, ``1,234 queries``."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def tell_accuracy(noun: str, distance: str, *, infinite: bool) -> str:
    """A sentence on what a certificate proves: how far each estimate is at most from the best fit."""
    if not infinite:
        return f"certified: every {noun} is within {distance} of the best fit"
    return (
        f"certified: every finite {noun} is within {distance} of the best fit, and it is proved which "
        f"{noun}s are infinite"
    )


def name_item(item: object) -> str:
    """The name of an item of the user in messages: a date as text, anything else as its repr."""
    return str(item) if isinstance(item, date) else repr(item)


def list_words(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def cut_long(text: str) -> str:
    """The text, with very long words cut, which a terminal would wrap; their length is added."""
    if len(text) <= LONGEST_UNCUT:
        return text
    cut = _LONG_WORD.sub(lambda match: shorten(match[0], CUT_WORD), text)
    return cut if len(cut) <= LONGEST_CELL else shorten(cut, LONGEST_CELL)


@dataclass(frozen=True)
class Signal:
    """A line or cell that is good news, bad news or neither (None); a notebook colours its edge."""

    text: str
    good: bool | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Bar:
    """A cell with a fraction between 0 and 1, which a notebook also draws as a bar."""

    share: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Grid:
    """A table: its title, column names (hidden if all are empty), and rows."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Listing:
    """A table without a frame; columns of names (:data:`LEFT_ALIGNED`) are aligned left, others right."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [[show_hidden(cell) for cell in row] for row in (self.headers, *self.rows)]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if header in LEFT_ALIGNED else cell.rjust(width)
                for header, cell, width in zip(self.headers, line, widths, strict=True)
            ).rstrip()
            for line in lines
        )


@dataclass(frozen=True)
class Bars:
    """Names, each with a bar; ``width`` reserves room for names that are not shown."""

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
    """A token in a row; ``weight``, between 0 and 1, shades it, and ``note`` is printed below it."""

    text: str
    weight: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class Chips:
    """Tokens in a row after the text ``before``; tokens with weight are in brackets, or shaded."""

    chips: Sequence[Chip]
    before: str = ""

    def __str__(self) -> str:
        words = [f"[{shorten(chip.text)}]" if chip.weight else shorten(chip.text) for chip in self.chips]
        return " ".join([self.before, *words] if self.before else words)


# One block of a result: a line, a table, bars, or tokens in a row.
Block = str | Signal | Grid | Listing | Bars | Chips


class Printed:
    """A result whose ``_blocks`` define its display for ``print``, the command line and notebooks."""

    # each result overrides this
    def _blocks(self) -> list[Block]:
        raise NotImplementedError

    def __str__(self) -> str:
        return draw_text(self._blocks())

    def _repr_html_(self) -> str:
        return draw_html(self._blocks())


def blocks_of(value: Printed) -> list[Block]:
    return value._blocks()  # pyright: ignore[reportPrivateUsage]


def draw_text(blocks: Sequence[Block], *, width: int = WIDTH) -> str:
    """The blocks as text; tables have at most ``width`` characters, and their cells are wrapped."""
    lines: list[str] = []
    for block in blocks:
        lines += _draw_grid(block, width) if isinstance(block, Grid) else map(clean, lines_of(block))
    return "\n".join(lines)


# A string that is itself a block stays one line, even if it contains line ends, which `clean` then escapes.
def lines_of(block: str | Signal | Listing | Bars | Chips) -> list[str]:
    return [block] if isinstance(block, str) else str(block).split("\n")


def clean(text: str) -> str:
    return show_hidden(cut_long(text))


def draw_table(grid: Grid, show: Callable[[str], Any]) -> Any:
    """The grid as a table for a rich console; ``show`` converts text to the content of a cell."""
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

    drawn = StringIO()
    console = Console(file=drawn, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    console.print(draw_table(grid, lambda text: Text(clean(text))))
    title = [clean(grid.title)] if grid.title else []
    return title + drawn.getvalue().splitlines()


_FRAME = (
    "border:1px solid rgba(128,128,128,.4);border-radius:8px;padding:.8em 1.1em;margin:.3em 0;max-width:56em;"
    "overflow-x:auto;line-height:1.5;text-align:left"
)
_QUIET = "opacity:.72"
_TABLE = "border-collapse:collapse;margin:.2em 0 .4em;border:none;font-variant-numeric:tabular-nums"
_CELL = "padding:.15em .9em .15em 0;border:none;vertical-align:top;text-align:"
_HEAD = f"{_QUIET};font-weight:500;border-bottom:1px solid rgba(128,128,128,.4)"
_ROW = '<tr style="background:transparent">'
_CHIP = (
    "display:inline-block;text-align:center;vertical-align:top;border-radius:5px;padding:.05em .4em;"
    "margin:.15em .12em;white-space:pre-wrap;overflow-wrap:anywhere"
)
_TRACK = "display:inline-block;width:9em;height:.7em;background:rgba(128,128,128,.22);border-radius:3px"
_FILLED = f"display:block;height:100%;background:{BLUE};border-radius:3px"
_EDGE = "display:inline-block;padding-left:.5em;border-left:4px solid"
_RIGHT_TO_LEFT = r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
_RIGHT_TO_LEFT_WORD = re.compile(rf"{_RIGHT_TO_LEFT}(?:\S*{_RIGHT_TO_LEFT})?")


def draw_html(blocks: Sequence[Block]) -> str:
    return f'<div style="{_FRAME}">{"".join(map(_html_block, blocks))}</div>'


# A block as HTML; a line, good or bad news or not, is the last case.
def _html_block(block: Block) -> str:
    match block:
        case Grid(title, headers, rows):
            above = f'<div style="font-weight:600;margin-top:.4em">{_html_text(title)}</div>' if title else ""
            return above + _html_table(headers, rows)
        case Listing(headers, rows):
            return _html_table(headers, rows)
        case Bars(rows):
            return _html_table(["", ""], rows)
        case Chips(chips, before):
            start = f'<span style="{_QUIET}">{_html_text(before)} </span>' if before else ""
            row = start + "".join(map(_html_chip, chips))
            return f'<div style="margin:.5em 0;line-height:1.35">{row}</div>'
        case _:
            return f'<div style="margin:.2em 0;white-space:pre-wrap">{_html_cell(block)}</div>'


# A table as HTML, cut to MOST_HTML_ROWS. Columns of numbers are aligned right. Without any header, the row of
# headers is left out, and the first column gets their quiet style.
def _html_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    shown = rows[:MOST_HTML_ROWS]
    has_headers = any(headers)
    styles: list[str] = []  # of the cells of each column
    for column in range(len(headers)):
        cells = [row[column] for row in shown]
        are_numbers = all(not isinstance(cell, Bar) and _NUMBER.fullmatch(str(cell)) for cell in cells)
        styles.append(f"{_CELL}{'right' if has_headers and are_numbers else 'left'}")
    header_cells = "".join(
        f'<th style="{style};{_HEAD}">{_html_text(name)}</th>'
        for name, style in zip(headers, styles, strict=True)
    )
    if not has_headers:
        styles[0] += f";{_QUIET}"
    body = "".join(f"{_ROW}{''.join(map(_html_table_cell, row, styles))}</tr>" for row in shown)
    n_hidden = len(rows) - len(shown)
    remark = f'<div style="{_QUIET}">and {count_noun(n_hidden, "more row")}</div>' if n_hidden else ""
    header = f"<thead>{_ROW}{header_cells}</tr></thead>" if has_headers else ""
    return f'<table style="{_TABLE}">{header}<tbody>{body}</tbody></table>{remark}'


def _html_table_cell(cell: object, style: str) -> str:
    wrapping = ";white-space:nowrap" if len(str(cell)) <= UNBROKEN else ""
    return f'<td style="{style}{wrapping}">{_html_cell(cell)}</td>'


def _html_cell(cell: object) -> str:
    match cell:
        case Bar(share, text):
            width = f"width:{round(100 * min(max(share, 0.0), 1.0), 1)}%"
            return f'<span style="{_TRACK}"><span style="{_FILLED};{width}"></span></span> {_html_text(text)}'
        case Signal(text, good):
            return f'<span style="{_EDGE} {_EDGE_COLOURS[good]}">{_html_text(text)}</span>'
        case _:
            return _html_text(str(cell))


def _html_chip(chip: Chip) -> str:
    opacity = 0.16 + 0.34 * chip.weight  # of BLUE: visible at the least weight, and readable text at weight 1
    shade = f";background:rgba(0,114,178,{opacity:.2f});font-weight:600" if chip.weight else ""
    small = '<br><span style="font-size:.75em;font-weight:400">'
    note = f"{small}{_html_text(chip.note)}</span>" if chip.note else ""
    return f'<span style="{_CHIP}{shade}">{_html_text(shorten(chip.text))}{note}</span>'


# Text as HTML; right-to-left words do not reorder the text around them.
def _html_text(text: str) -> str:
    return _RIGHT_TO_LEFT_WORD.sub(r"<bdi>\g<0></bdi>", escape(shorten(text, TEXT_LENGTH)))
