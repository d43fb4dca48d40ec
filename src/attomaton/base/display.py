"""Values as HTML for notebooks: cards of facts, tables, bars and tokens.

Everything is text with inline style: no script, no style sheet, no ids, so that what a notebook's sanitiser
strips is never needed. Colours are the reader's own (``currentColor``) or translucent, for light and dark
themes alike. Whatever is given as text is escaped, hidden characters are written out, and long texts and
tables are cut with a count, so a value of any size is shown at once.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NewType

if TYPE_CHECKING:
    import pyarrow as pa

Html = NewType("Html", str)
"""Markup that is safe to show; made by this module only."""

SHOWN = 8
"""Rows of a table that are shown."""

TOKEN_LENGTH, TEXT_LENGTH = 40, 600
"""Characters of a token, and of any other text, that are shown."""

LONGEST_WORD, KEPT, LONGEST_CELL = 4096, 200, 20_000
"""Characters of a word that a terminal shows whole (no path is longer), what it shows of a longer one, and
the most of any text."""

UNBROKEN = 18
"""Characters of a cell that stand in one line."""

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
"""Colours that readers with any kind of colour vision tell apart (Okabe and Ito)."""

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: what terminals obey, and XML cannot hold
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line and paragraph ends, marks that turn the direction
    "\ufeff\ufffe\uffff\ud800-\udfff]"  # byte order mark, no characters, halves of characters
)
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_CARD = (
    "border:1px solid rgba(128,128,128,.4);border-radius:8px;padding:.8em 1.1em;margin:.3em 0;max-width:56em;"
    "overflow-x:auto;line-height:1.5;text-align:left"
)
_QUIET = "opacity:.72"
_TABLE = "border-collapse:collapse;margin:.2em 0;border:none;font-variant-numeric:tabular-nums"
_CELL = "padding:.15em .9em .15em 0;border:none;vertical-align:top;text-align:"
_HEAD = f"{_QUIET};font-weight:500;border-bottom:1px solid rgba(128,128,128,.4)"
_CHIP = (
    "display:inline-block;text-align:center;vertical-align:top;border-radius:5px;padding:.05em .4em;"
    "margin:.15em .12em;white-space:pre-wrap;overflow-wrap:anywhere"
)


@dataclass(frozen=True)
class Bar:
    """A share between 0 and 1, drawn, with its number beside it."""

    share: float
    text: str


@dataclass(frozen=True)
class Chip:
    """A token among others: ``weight`` between 0 and 1 shades it, ``note`` stands below it."""

    text: str
    weight: float = 0.0
    note: str = ""
    framed: bool = False


@dataclass(frozen=True)
class Made:
    """A cell that is markup already."""

    html: Html


Cell = str | int | float | Bar | Made
"""What may stand in a table: numbers stand at the right, texts at the left."""


def show_hidden(text: str) -> str:
    r"""The text with every hidden character written out, as in JSON; a backslash stays as it is."""
    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def shorten(text: str, most: int = TOKEN_LENGTH) -> str:
    """The text without hidden characters, its first part and its length if it is long."""
    return (
        show_hidden(text) if len(text) <= most else f"{show_hidden(text[:most])}… ({len(text):,} characters)"
    )


def cut_long(text: str) -> str:
    """The text, shortened: words that no line holds are cut, with their length, and so is a long text.

    A token may have millions of characters, and a terminal's table wraps each of them.
    """
    if len(text) <= LONGEST_WORD:
        return text
    cut = _LONG_WORD.sub(lambda match: shorten(match[0], KEPT), text)
    return cut if len(cut) <= LONGEST_CELL else shorten(cut, LONGEST_CELL)


def isolate(text: str) -> Html:
    """A token in a line of others, cut if long, that does not turn the direction of what is around it."""
    return Html(f"<bdi>{escape(shorten(text))}</bdi>")


def render_card(title: str, *parts: Html) -> Html:
    """A frame with a title and what stands in it.

    Examples
    --------
    >>> "&lt;b&gt;" in render_card("<b>", render_facts([("size", 3)]))
    True
    """
    head = f'<div style="font-weight:600;font-size:1.1em">{_text(title)}</div>'
    return Html(f'<div style="{_CARD}">{head}{"".join(parts)}</div>')


def render_note(text: str) -> Html:
    """A quiet sentence."""
    return Html(f'<div style="{_QUIET}">{_text(text)}</div>')


def render_code(*lines: str) -> Html:
    """What may be typed next."""
    shown = "<br>".join(f"<code>{_text(line)}</code>" for line in lines)
    return Html(f'<div style="margin-top:.5em">{shown}</div>')


def render_status(word: str, text: str, *, good: bool | None) -> Html:
    """A word with a coloured edge (good, bad, or neither if None), and what it means."""
    colour = {True: GREEN, False: ORANGE, None: "rgba(128,128,128,.6)"}[good]
    edge = f"border-left:4px solid {colour};padding-left:.5em;margin:.35em 0"
    return Html(f'<div style="{edge}"><b>{_text(word)}</b> <span style="{_QUIET}">{_text(text)}</span></div>')


def render_facts(facts: Sequence[tuple[str, Cell]]) -> Html:
    """Names and values, one pair a line."""
    lines = (
        f'<tr style="background:transparent"><td style="{_CELL}left;{_QUIET}">{_text(name)}</td>'
        f'<td style="{_CELL}left">{_cell(value)}</td></tr>'
        for name, value in facts
    )
    return Html(f'<table style="{_TABLE}">{"".join(lines)}</table>')


def render_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    title: str = "",
    n_rows: int | None = None,
    most: int = SHOWN,
) -> Html:
    """The first rows of a table, and how many there are.

    Parameters
    ----------
    headers : sequence of str
        Names of the columns.
    rows : sequence of sequences
        The rows; the first ``most`` are shown.
    title : str
        What it shows.
    n_rows : int, optional
        How many rows there are, if only some were given.

    Examples
    --------
    >>> "991 more rows" in render_table(["token"], [["a"]] * 9, n_rows=999)
    True
    """
    shown = rows[:most]
    sides = [
        "right" if shown and isinstance(cell, int | float) else "left" for cell in (shown or [headers])[0]
    ]
    head = "".join(
        f'<th style="{_CELL}{side};{_HEAD}">{_text(one)}</th>'
        for one, side in zip(headers, sides, strict=True)
    )
    body = "".join(
        '<tr style="background:transparent">'
        + "".join(
            f'<td style="{_CELL}{side}{_wrapping(one)}">{_cell(one)}</td>'
            for one, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in shown
    )
    rest = (len(rows) if n_rows is None else n_rows) - len(shown)
    more = render_note(f"and {rest:,} more row{'s' * (rest != 1)}") if rest > 0 else ""
    above = f'<div style="font-weight:600;margin-top:.6em">{_text(title)}</div>' if title else ""
    return Html(
        f'{above}<table style="{_TABLE}"><thead><tr style="background:transparent">{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>{more}"
    )


def render_first_rows(table: "pa.Table", *, title: str = "") -> Html:
    """The first rows of an Arrow table; the others are never touched."""
    first: Any = table.slice(0, SHOWN)
    rows: list[list[Cell]] = [list(row.values()) for row in first.to_pylist()]
    return render_table(table.column_names, rows, title=title, n_rows=table.num_rows)


def render_chips(chips: Sequence[Chip], *, before: str = "") -> Html:
    """Tokens in a row, the heavier the darker, each with its note below; ``before`` stands first."""
    start = f'<span style="{_QUIET}">{_text(before)} </span>' if before else ""
    return Html(f'<div style="margin:.5em 0;line-height:1.35">{start}{"".join(map(_chip, chips))}</div>')


def _chip(chip: Chip) -> str:
    shade = (
        f"background:rgba(0,114,178,{0.16 + 0.34 * chip.weight:.2f});font-weight:600" if chip.weight else ""
    )
    edge = f"1px solid {'currentColor' if chip.framed else 'transparent'}"
    note = f'<br><span style="font-size:.75em;font-weight:400">{_text(chip.note)}</span>' if chip.note else ""
    return f'<span style="{_CHIP};border:{edge};{shade}">{isolate(chip.text)}{note}</span>'


def _cell(value: Cell) -> str:
    if isinstance(value, Bar):
        return _bar(value)
    if isinstance(value, Made):
        return value.html
    if isinstance(value, float):
        return f"{value:.6g}"
    return _text(str(value))


def _wrapping(value: Cell) -> str:
    return ";white-space:nowrap" if not isinstance(value, Made) and len(str(value)) <= UNBROKEN else ""


def _bar(bar: Bar) -> str:
    width = round(100 * min(max(bar.share, 0.0), 1.0), 1)
    track = "display:inline-block;width:9em;height:.7em;background:rgba(128,128,128,.22);border-radius:3px"
    filled = f"display:block;width:{width}%;height:100%;background:{BLUE};border-radius:3px"
    return f'<span style="{track}"><span style="{filled}"></span></span> {_text(bar.text)}'


def _text(text: str) -> str:
    return escape(shorten(text, TEXT_LENGTH))
