"""HTML of results in a notebook.

It uses only inline styles: no scripts, no style sheets, no ids, so it survives a notebook's sanitiser.
Colours are inherited or translucent, for light and dark themes alike, except those that the caller gives.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

MOST_HTML_ROWS = 200  # most rows of a table in a notebook

FRAME = (
    "border:1px solid rgba(128,128,128,.4);border-radius:8px;padding:.8em 1.1em;margin:.3em 0;max-width:56em;"
    "overflow-x:auto;line-height:1.5;text-align:left"
)
LINE = "margin:.2em 0;white-space:pre-wrap"
TITLE = "font-weight:600;margin-top:.4em"
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
_EDGE = "display:inline-block;padding-left:.5em;border-left:4px solid"
_RIGHT_TO_LEFT = r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
_RIGHT_TO_LEFT_WORD = re.compile(rf"{_RIGHT_TO_LEFT}(?:\S*{_RIGHT_TO_LEFT})?")


class HtmlCell(NamedTuple):
    """A cell of a table as HTML; a short one is not wrapped."""

    html: str
    is_number: bool
    is_short: bool


def html_text(text: str) -> str:
    """Text as HTML; right-to-left words do not reorder the text around them."""
    return _RIGHT_TO_LEFT_WORD.sub(r"<bdi>\g<0></bdi>", escape(text))


def html_div(style: str, *html: str) -> str:
    return f'<div style="{style}">{"".join(html)}</div>'


def html_signal(html: str, colour: str) -> str:
    return f'<span style="{_EDGE} {colour}">{html}</span>'


def html_bar(share: float, html: str, colour: str) -> str:
    """A bar, filled to a share between 0 and 1, and a text behind it."""
    width = round(100 * min(max(share, 0.0), 1.0), 1)
    filled = f"display:block;height:100%;background:{colour};border-radius:3px;width:{width}%"
    return f'<span style="{_TRACK}"><span style="{filled}"></span></span> {html}'


def html_chip(html: str, weight: float, note: str) -> str:
    """A token, the heavier the darker, with a note below it."""
    shade = f";background:rgba(0,114,178,{0.16 + 0.34 * weight:.2f});font-weight:600" * bool(weight)
    small = f'<br><span style="font-size:.75em;font-weight:400">{note}</span>' if note else ""
    return f'<span style="{_CHIP}{shade}">{html}{small}</span>'


def html_chips(before: str, chips: Sequence[str]) -> str:
    start = f'<span style="{_QUIET}">{before} </span>' if before else ""
    return html_div("margin:.5em 0;line-height:1.35", start, *chips)


def html_table(headers: Sequence[str], rows: Sequence[Sequence[HtmlCell]], hidden: int) -> str:
    """A table, and how many rows are hidden; columns of numbers are right-aligned if they have headers."""
    has_headers = any(headers)
    styles: list[str] = []
    for column in range(len(headers)):
        is_right = has_headers and all(row[column].is_number for row in rows)
        styles.append(f"{_CELL}{'right' if is_right else 'left'}")
    head = "".join(
        f'<th style="{style};{_HEAD}">{html}</th>' for html, style in zip(headers, styles, strict=True)
    )
    if not has_headers:
        styles[0] += f";{_QUIET}"
    body = "".join(f"{_ROW}{''.join(map(_html_cell, row, styles))}</tr>" for row in rows)
    more = html_div(_QUIET, f"and {hidden:,} more row{'s' * (hidden != 1)}") if hidden else ""
    top = f"<thead>{_ROW}{head}</tr></thead>" if has_headers else ""
    return f'<table style="{_TABLE}">{top}<tbody>{body}</tbody></table>{more}'


def _html_cell(cell: HtmlCell, style: str) -> str:
    wrapping = ";white-space:nowrap" if cell.is_short else ""
    return f'<td style="{style}{wrapping}">{cell.html}</td>'
