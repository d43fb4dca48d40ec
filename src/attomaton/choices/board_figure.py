"""Figures of boards: a point with its interval for each item, or a line for each item across categories."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from attomaton.base.drawing import TWO_COLUMNS, drawable, house_axes
from attomaton.base.printing import BLUE
from attomaton.choices.board_rows import BoardRow, rank_interval

MOST_ROWS_DRAWN, MOST_LINES = 40, 14  # items of each board that are drawn, and lines

# Height of a row and of the margins in inches, and characters of a name.
ROW_HEIGHT, MARGIN_HEIGHT, NAME_WIDTH = 0.17, 0.75, 28

# Styles of lines, each for seven colours; the size of a figure of lines in inches.
LINE_STYLES, LINES_WIDTH, LINES_HEIGHT = ("-", "--", ":"), TWO_COLUMNS / 1.5, 2.6

MOST_TICKS = 12  # categories below which each is named on the axis

COLOUR, GREY = BLUE, "0.45"

AXIS_LABELS = {"elo": "Elo rating", "log-odds": "rating (log odds)"}


def height_of_boards(boards: Sequence[Sequence[BoardRow]]) -> float:
    n_rows = sum(map(len, boards)) + 1.75 * len(boards) * (len(boards) > 1)
    return MARGIN_HEIGHT + ROW_HEIGHT * (n_rows + 1)


def draw_boards(boards: Sequence[Sequence[BoardRow]], scale: str, title: str, ax: Any = None) -> Any:
    """Draw the rows of each board, best on top, with their rank intervals on the right; return the axes."""
    with house_axes(ax, height=height_of_boards(boards)) as axes:
        level, ticks, names = 0.0, list[float](), list[str]()
        rows = [row for board in boards for row in board]
        ends = [end for row in rows for end in (row["rating"], row["low"], row["high"])]
        ends = [end for end in ends if end is not None and isfinite(end)]
        stub = 0.06 * (max(ends, default=1.0) - min(ends, default=0.0)) or 1.0
        margin = axes.get_yaxis_transform()
        axes.text(1.02, 1.0, "ranks", transform=axes.transAxes, ha="left", va="bottom", color=GREY)
        for number, board in enumerate(boards, 1):
            if len(boards) > 1:
                level -= 0.75 * (number > 1)
                style = {"ha": "left", "va": "center", "color": GREY, "fontsize": 6}
                axes.text(0.01, level, f"board {number}", transform=margin, **style)
                level -= 1.0
            for row in board:
                _draw_row(axes, row, level, stub)
                ticks.append(level)
                names.append(drawable(str(row["item"]), NAME_WIDTH))
                axes.text(1.02, level, rank_interval(row), transform=margin, ha="left", va="center")
                level -= 1.0
        axes.set_yticks(ticks, names, parse_math=False)
        axes.set_ylim(level + 0.25, 0.75)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(AXIS_LABELS[scale])
        axes.set_title(title)
        return axes


def _draw_row(axes: Any, row: BoardRow, level: float, stub: float) -> None:
    if not isfinite(row["rating"]):
        sign = 1.0 if row["rating"] > 0 else -1.0
        bound = row["low"] if sign > 0 else row["high"]
        if isfinite(bound):
            axes.plot([bound, bound + sign * stub], [level, level], ":", color=COLOUR, linewidth=1)
            axes.plot(bound, level, ">" if sign > 0 else "<", color=COLOUR, markersize=4)
    elif row["low"] is None:
        axes.plot(row["rating"], level, "o", color="white", markeredgecolor=GREY, markersize=4)
    else:
        axes.plot([row["low"], row["high"]], [level, level], "-", color=COLOUR, linewidth=1)
        axes.plot(row["rating"], level, "o", color=COLOUR, markersize=4)


def draw_lines(
    boards: Mapping[Any, Sequence[BoardRow]], items: Sequence[Any], scale: str, title: str, ax: Any = None
) -> Any:
    """Draw the finite ratings of items by category as lines with intervals, and return the axes."""
    rows_of = [{row["item"]: row for row in rows} for rows in boards.values()]
    with house_axes(ax, height=LINES_HEIGHT, width=LINES_WIDTH) as axes:
        for number, item in enumerate(items):
            shift = 0.04 * (number - len(items) / 2) / len(items)
            points = [(x + shift, rows[item]) for x, rows in enumerate(rows_of) if item in rows]
            points = [(x, row) for x, row in points if isfinite(row["rating"])]
            if not points:
                continue
            (line,) = axes.plot(
                [x for x, _ in points],
                [row["rating"] for _, row in points],
                marker="o",
                markersize=2.5,
                linestyle=LINE_STYLES[number // 7 % len(LINE_STYLES)],
                label=drawable(str(item), NAME_WIDTH),
            )
            intervals = [(x, row["low"], row["high"]) for x, row in points if row["low"] is not None]
            ends = np.array(intervals).reshape(-1, 3).T
            axes.vlines(*ends, color=line.get_color(), linewidth=0.5)
        names, every = [drawable(str(name), NAME_WIDTH) for name in boards], 1 + len(boards) // MOST_TICKS
        axes.set_xticks(range(0, len(names), every), names[::every], parse_math=False)
        axes.set_ylabel(AXIS_LABELS[scale])
        axes.set_title(title)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return axes
