"""The board of ratings as one HTML page, and as a figure for papers."""

from collections.abc import Callable, Sequence
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

from attomaton.base.artifacts import check_target, write_target
from attomaton.base.drawing import paper_style
from attomaton.base.options import given_path
from attomaton.base.pages import COMMON, asset, frame_page, is_page
from attomaton.base.printing import TEXT_LENGTH, TOKEN_LENGTH, shorten
from attomaton.choices.board import HEADERS, Board
from attomaton.choices.board_figure import LINES_HEIGHT, LINES_WIDTH, MOST_ROWS_DRAWN
from attomaton.choices.board_rows import row_cells
from attomaton.choices.coefficient_list import list_coefficients
from attomaton.choices.result import ChoiceFit
from attomaton.report.figures import new_figure, write_figure

# In pixels: width and height of the drawing of an interval, and the space at its sides.
DRAWING_WIDTH, DRAWING_HEIGHT, SIDE_ROOM = 320.0, 18.0, 24.0

BODY = """<header><div><h1>{title}</h1><p>{subtitle}</p></div></header>
<main>
{sections}
</main>"""

BOARD_STYLE = """
.board td:not(:nth-child(3)), .board th:not(:nth-child(3)) { text-align: end; white-space: nowrap; }
.board td:nth-child(3) { overflow-wrap: anywhere; min-width: 6rem; }
.board td:last-child, .board th:last-child { text-align: start; }
.board svg line { stroke: var(--accent); stroke-width: 2; }
.board svg .bound { stroke-dasharray: 2 3; }
.board svg .centre { stroke: var(--rule); stroke-width: 1; }
.board svg circle, .board svg path { fill: var(--accent); }
.board svg .open { fill: var(--card); stroke: var(--quiet); stroke-width: 1.5; }
"""


def write_board(board: Board, out: str | Path = "board.html", *, title: str = "Ratings") -> Path:
    """Write a board of ratings as one HTML page, without scripts and without external files.

    Parameters
    ----------
    board : Board
        The board, from ``fit.board()``.
    out : str or Path
        The HTML file to write. Its path is returned.
    title : str
        The title of the page.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_board(at.fit_choices(["a", "b"], losers=["b", "a"]).board(), f"{folder}/board.html").name
    'board.html'
    """
    target = check_target(given_path(out, "out"), is_ours=is_page)
    boards = board.by_board()
    style = asset(COMMON, "style.css") + BOARD_STYLE
    sections = [
        _section(board, rows, f"Board {number}" if len(boards) > 1 else "Board")
        for number, rows in enumerate(boards, 1)
    ]
    if board.coefficients:
        listing = list_coefficients(board.coefficients, board.scale)
        cells = [[escape(shorten(cell, TEXT_LENGTH)) for cell in row] for row in listing.rows]
        sections.append(_write_table("Coefficients", listing.headers, cells))
    notes = {
        "How to read it": [*board.remarks(), *board.notes],
        "Compare next": map(str, board.next_comparisons()),
    }
    for heading, lines in notes.items():
        points = "".join(f"<li>{escape(shorten(line, TEXT_LENGTH))}</li>" for line in lines)
        if points:
            sections.append(f"<section><h2>{heading}</h2><ul>{points}</ul></section>")
    title = escape(title)
    body = BODY.format(title=title, subtitle=escape(board.headline()), sections="\n".join(sections))
    text = frame_page(title, style, body)
    write_target(target, lambda draft: draft.write_text(text, encoding="utf-8"), is_ours=is_page)
    return target


def draw_board(board: Board | ChoiceFit, out: str | Path = "board.pdf", *, limit: int | None = None) -> Path:
    """Draw a board of ratings as a figure for papers.

    Parameters
    ----------
    board : Board or ChoiceFit
        The board, from ``fit.board()``; or a fit with ``by=``, for a line through the ratings of each item.
    out : str or Path
        The file to write, which must end in .pdf, .png or .svg. Its path is returned.
    limit : int, optional
        The largest number of items of each board, or of lines for a fit with ``by=``. None means 40 items, or
        14 lines.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_board(at.fit_choices(["a", "b"], losers=["b", "a"]).board(), f"{folder}/board.png").name
    'board.png'
    """
    with paper_style():
        if isinstance(board, Board):
            figure = new_figure(board.figure_height(limit or MOST_ROWS_DRAWN))
            axes = board.plot(figure.subplots(), limit=limit or MOST_ROWS_DRAWN)
        else:
            figure = new_figure(LINES_HEIGHT, width=LINES_WIDTH)
            axes = board.plot(figure.subplots(), limit=limit)
        figure.suptitle(axes.get_title(), parse_math=False)
        axes.set_title("")
        return write_figure(figure, given_path(out, "out"))


def _section(board: Board, rows: list[dict[str, Any]], title: str) -> str:
    # the table of some items of the board, with a drawing of each interval; all drawings have one scale
    numbers = [value for row in rows for value in (row["rating"], row["low"], row["high"], board.centre)]
    finite = [value for value in numbers if value is not None and isfinite(value)]
    lowest = min(finite)
    span = max(finite) - lowest or 1.0

    def abscissa(value: float) -> float:  # in pixels
        return round(SIDE_ROOM + (value - lowest) / span * (DRAWING_WIDTH - 2 * SIDE_ROOM), 1)

    interval = f"{100 * board.level:g} % interval"
    headers = [interval if header == "interval" else header for header in HEADERS]
    cells = [[escape(shorten(cell, TOKEN_LENGTH)) for cell in row_cells(row, board.scale)] for row in rows]
    drawings = [_draw_interval(row, abscissa, board.centre) for row in rows]
    lines = [[*texts, drawing] for texts, drawing in zip(cells, drawings, strict=True)]
    return _write_table(title, [*headers, ""], lines, ' class="board"')


def _write_table(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], attribute: str = ""
) -> str:
    head = "".join(f'<th scope="col">{escape(header)}</th>' for header in headers)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table{attribute}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<section><h2>{escape(title)}</h2><div class="scroll">{table}</div></section>'


# The interval of an item; for an infinite rating, its bound and a triangle that points to the rating.
def _draw_interval(row: dict[str, Any], abscissa: Callable[[float], float], centre: float) -> str:
    middle = DRAWING_HEIGHT / 2
    rating = row["rating"]
    zero = abscissa(centre)
    shapes = f'<line class="centre" x1="{zero}" x2="{zero}" y1="0" y2="{DRAWING_HEIGHT}"/>'
    if not isfinite(rating):
        bound = row["low"] if rating > 0 else row["high"]
        if isfinite(bound):
            x = abscissa(bound)
            end, tip = (DRAWING_WIDTH, 6) if rating > 0 else (0.0, -6)  # the side to which the rating is
            shapes += f'<line class="bound" x1="{x}" x2="{end}" y1="{middle}" y2="{middle}"/>'
            shapes += f'<path d="M{x} {middle - 5}v10l{tip} -5z"/>'
    elif row["low"] is None:
        shapes += f'<circle class="open" cx="{abscissa(rating)}" cy="{middle}" r="4"/>'
    else:
        x1, x2 = abscissa(row["low"]), abscissa(row["high"])
        shapes += f'<line x1="{x1}" x2="{x2}" y1="{middle}" y2="{middle}"/>'
        shapes += f'<circle cx="{abscissa(rating)}" cy="{middle}" r="4"/>'
    return f'<svg width="{DRAWING_WIDTH:g}" height="{DRAWING_HEIGHT:g}" aria-hidden="true">{shapes}</svg>'
