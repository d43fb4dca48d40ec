"""How values print: lines and tables of plain text, the same for ``print(value)`` and on the command line.

A value says once what it has to tell, as blocks: a text is a line, a :class:`Grid` a table. ``str(value)``
draws them here; the command line draws the same blocks to the width of its terminal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from unicodedata import combining, east_asian_width

from attomaton.display import cut_long, show_hidden

WIDTH = 100
"""Signs of a line that a drawn table fills at most."""

NARROWEST = 8
"""Signs that a column keeps when a table is squeezed."""


@dataclass(frozen=True)
class Grid:
    """A table: its title, the names of its columns (all empty: none are shown), and the rows."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]


Block = str | Grid
"""A line, or a table."""


class Printed:
    """A value that prints as the command line shows it; what it tells is its ``_blocks``.

    Examples
    --------
    >>> class Pair(Printed):
    ...     def _blocks(self):
    ...         return ["Two tokens:", Grid("", ["token", "chance"], [("lamp", 0.75), ("sea", 0.25)])]
    >>> print(Pair())
    Two tokens:
    ┏━━━━━━━┳━━━━━━━━┓
    ┃ token ┃ chance ┃
    ┡━━━━━━━╇━━━━━━━━┩
    │ lamp  │ 0.75   │
    │ sea   │ 0.25   │
    └───────┴────────┘
    """

    def _blocks(self) -> list[Block]:
        raise NotImplementedError

    def __str__(self) -> str:
        return draw_blocks(self._blocks())


def blocks_of(value: Printed) -> list[Block]:
    """What a value tells, for somebody else to draw.

    Examples
    --------
    >>> class Word(Printed):
    ...     def _blocks(self):
    ...         return ["one"]
    >>> blocks_of(Word())
    ['one']
    """
    return value._blocks()  # pyright: ignore[reportPrivateUsage]


def draw_blocks(blocks: Sequence[Block], *, width: int = WIDTH) -> str:
    """The blocks as text; tables are at most so wide, and their cells are broken where they must be.

    Examples
    --------
    >>> print(draw_blocks([Grid("Sizes", ["", ""], [("tokens", 7)])]))
    Sizes
    ┌────────┬───┐
    │ tokens │ 7 │
    └────────┴───┘
    """
    lines: list[str] = []
    for block in blocks:
        lines += [clean(block)] if isinstance(block, str) else _draw(block, width)
    return "\n".join(lines)


def clean(text: str) -> str:
    """The text without hidden characters, cut where it is very long."""
    return show_hidden(cut_long(text))


def measure(text: str) -> int:
    """How many columns of a terminal a text takes.

    Examples
    --------
    >>> measure("lamp"), measure("灯"), measure("e\N{COMBINING ACUTE ACCENT}")
    (4, 2, 1)
    """
    return sum(0 if combining(sign) else 1 + (east_asian_width(sign) in "WF") for sign in text)


def _draw(grid: Grid, width: int) -> list[str]:
    headed = any(grid.headers)
    rows = [
        [clean(str(cell)) for cell in row] for row in ([grid.headers] if headed else []) + list(grid.rows)
    ]
    widths = _fit([max(map(measure, cells)) for cells in zip(*rows, strict=True)], width)
    lines = [clean(grid.title)] if grid.title else []
    rules = ["┏━┳┓", "┡━╇┩"] if headed else ["┌─┬┐"]
    lines.append(_rule(rules[0], widths))
    for number, row in enumerate(rows):
        lines += _lay(row, widths, "┃" if headed and not number else "│")
        if headed and not number:
            lines.append(_rule(rules[1], widths))
    return [*lines, _rule("└─┴┘", widths)]


def _fit(widths: list[int], width: int) -> list[int]:
    """The widths of columns, the widest made narrower until the table fits."""
    fitted = list(widths)
    while (over := sum(fitted) + 3 * len(fitted) + 1 - width) > 0 and max(fitted) > NARROWEST:
        most = max(fitted)
        places = [place for place, one in enumerate(fitted) if one == most]
        next_most = max([one for one in fitted if one < most], default=0)
        step = min(most - max(next_most, NARROWEST), max(over // len(places), 1))
        for place in places[:over]:
            fitted[place] -= step
    return fitted


def _rule(signs: str, widths: Sequence[int]) -> str:
    return signs[0] + signs[2].join(signs[1] * (width + 2) for width in widths) + signs[3]


def _lay(row: Sequence[str], widths: Sequence[int], edge: str) -> list[str]:
    """One row, its cells broken to their columns."""
    broken = [_break(cell, width) for cell, width in zip(row, widths, strict=True)]
    return [
        f"{edge} "
        + f" {edge} ".join(
            part + " " * (width - measure(part)) for part, width in zip(parts, widths, strict=True)
        )
        + f" {edge}"
        for parts in zip_longest(*broken, fillvalue="")
    ]


def _break(text: str, width: int) -> list[str]:
    """The text in lines of this width, broken at blanks where there are any."""
    if measure(text) <= width:
        return [text]
    lines, line = list[str](), ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if measure(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while measure(line) > width:
            cut = 1
            while cut < len(line) and measure(line[: cut + 1]) <= width:
                cut += 1
            lines.append(line[:cut])
            line = line[cut:]
    return [*lines, line]
