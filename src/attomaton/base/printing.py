"""How values print: lines and tables of plain text, the same for ``print(value)`` and on the command line.

A value says once what it has to tell, as blocks: a text is a line, a :class:`Grid` a table. ``str(value)``
draws them here; the command line draws the same blocks to the width of its terminal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from attomaton.base.display import cut_long, show_hidden

WIDTH = 100
"""Signs of a line that a drawn table fills at most."""


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
    """What a value tells, for somebody else to draw."""
    return value._blocks()  # pyright: ignore[reportPrivateUsage]


def draw_blocks(blocks: Sequence[Block], *, width: int = WIDTH) -> str:
    """The blocks as text; tables are at most so wide, and their cells are broken where they must be."""
    lines: list[str] = []
    for block in blocks:
        lines += [clean(block)] if isinstance(block, str) else _draw(block, width)
    return "\n".join(lines)


def clean(text: str) -> str:
    """The text without hidden characters, cut where it is very long."""
    return show_hidden(cut_long(text))


def draw_table(grid: Grid, show: Callable[[str], Any]) -> Any:
    """The table of a grid, for a console of rich; ``show`` makes what stands in a cell of its text."""
    from rich.table import Table

    table = Table(show_header=any(grid.headers))
    for header in grid.headers:
        table.add_column(show(header), overflow="fold")
    for row in grid.rows:
        table.add_row(*(show(str(cell)) for cell in row))
    return table


def _draw(grid: Grid, width: int) -> list[str]:
    from rich.console import Console
    from rich.text import Text

    paper = StringIO()
    console = Console(file=paper, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    console.print(draw_table(grid, lambda text: Text(clean(text))))
    return [*([clean(grid.title)] if grid.title else []), *paper.getvalue().splitlines()]
