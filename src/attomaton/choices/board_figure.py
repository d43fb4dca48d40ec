"""Figures of boards: a point with its interval for each item, or a line for each item across categories."""

# In ``draw_boards`` the items are at heights 0, −1, −2 and so on, with a gap above each further board. In
# ``draw_lines`` the categories are at 0, 1, 2 and so on of the horizontal axis.

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from attomaton.base.drawing import TWO_COLUMNS, drawable, house_axes
from attomaton.base.printing import BLUE
from attomaton.choices.board_rows import BoardRow, rank_interval

MOST_ROWS_DRAWN = 40  # items of each board
MOST_LINES = 14  # items whose ratings are drawn as lines
MOST_TICKS = 12  # with fewer categories, the axis names all of them
NAME_WIDTH = 28  # characters of a name

# Sizes of figures, in inches.
ROW_HEIGHT = 0.17
MARGIN_HEIGHT = 0.75  # title, axis and its label
LINES_WIDTH = TWO_COLUMNS / 1.5
LINES_HEIGHT = 2.6

# Distances in rows: 1 is from an item to the next.
BOARD_GAP = 0.75  # above the heading of a board
HEADING_ROWS = 1.0
END_GAP = 0.75  # above the first row and below the last

# Where texts begin, in widths of the axes from the left.
HEADING_X = 0.01
RANKS_X = 1.02

STUB_SHARE = 0.06  # length of the dotted line beside a bound, as a share of the range of all ends
LINES_SPREAD = 0.04  # from the first line to the last, in categories: so that intervals do not overlap

MARKER = {"color": BLUE, "markersize": 4}  # in points
SEGMENT = {"color": BLUE, "linewidth": 1}  # in points
FAINT = "0.45"  # grey

# Lines change their style after each cycle of colours.
N_COLOURS = 7
LINE_STYLES = ("-", "--", ":")

AXIS_LABELS = {"elo": "Elo rating", "log-odds": "rating (log odds)"}


def height_of_boards(boards: Sequence[Sequence[BoardRow]]) -> float:
    """The height of a figure of boards, in inches."""
    n_headings = len(boards) * (len(boards) > 1)
    n_rows = sum(map(len, boards)) + (BOARD_GAP + HEADING_ROWS) * n_headings
    return MARGIN_HEIGHT + ROW_HEIGHT * (n_rows + 1)


def draw_boards(boards: Sequence[Sequence[BoardRow]], scale: str, title: str, ax: Any = None) -> Any:
    """Draw the rows of each board, best on top, with their rank intervals on the right; return the axes."""
    ends = [row[name] for board in boards for row in board for name in ("rating", "low", "high")]
    ends = [end for end in ends if end is not None and isfinite(end)]
    stub = STUB_SHARE * (max(ends, default=1.0) - min(ends, default=0.0)) or 1.0
    with house_axes(ax, height=height_of_boards(boards)) as axes:
        in_margin = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "left"}
        axes.text(RANKS_X, 1.0, "ranks", transform=axes.transAxes, ha="left", va="bottom", color=FAINT)
        height = 0.0
        name_at = dict[float, str]()
        for number, board in enumerate(boards, 1):
            if len(boards) > 1:
                height -= BOARD_GAP * (number > 1)
                axes.text(HEADING_X, height, f"board {number}", color=FAINT, fontsize=6, **in_margin)
                height -= HEADING_ROWS
            for row in board:
                _draw_row(axes, row, height, stub)
                axes.text(RANKS_X, height, rank_interval(row), **in_margin)
                name_at[height] = drawable(str(row["item"]), NAME_WIDTH)
                height -= 1.0
        axes.set_yticks(list(name_at), list(name_at.values()), parse_math=False)
        axes.set_ylim(height + 1.0 - END_GAP, END_GAP)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(AXIS_LABELS[scale])
        axes.set_title(title)
        return axes


def _draw_row(axes: Any, row: BoardRow, height: float, stub: float) -> None:
    # draw a rating as a point; an infinite one as a triangle at its bound with a line of length ``stub``
    rating, low, high = row["rating"], row["low"], row["high"]
    if not isfinite(rating):
        sign = 1.0 if rating > 0 else -1.0
        bound = low if sign > 0 else high
        if isfinite(bound):
            axes.plot([bound, bound + sign * stub], [height, height], ":", **SEGMENT)
            axes.plot(bound, height, ">" if sign > 0 else "<", **MARKER)
    elif low is None:
        axes.plot(rating, height, "o", markeredgecolor=FAINT, **(MARKER | {"color": "white"}))
    else:
        axes.plot([low, high], [height, height], "-", **SEGMENT)
        axes.plot(rating, height, "o", **MARKER)


def draw_lines(
    boards: Mapping[Any, Sequence[BoardRow]], items: Sequence[Any], scale: str, title: str, ax: Any = None
) -> Any:
    """Draw the finite ratings of items by category as lines with intervals, and return the axes."""
    rows_by_category = [{row["item"]: row for row in rows} for rows in boards.values()]
    with house_axes(ax, height=LINES_HEIGHT, width=LINES_WIDTH) as axes:
        for number, item in enumerate(items):
            shift = LINES_SPREAD * (number - len(items) / 2) / len(items)
            points = [(x + shift, rows[item]) for x, rows in enumerate(rows_by_category) if item in rows]
            points = [(x, row) for x, row in points if isfinite(row["rating"])]
            if not points:
                continue
            (line,) = axes.plot(
                [x for x, _ in points],
                [row["rating"] for _, row in points],
                marker="o",
                markersize=2.5,
                linestyle=LINE_STYLES[number // N_COLOURS % len(LINE_STYLES)],
                label=drawable(str(item), NAME_WIDTH),
            )
            intervals = [(x, row["low"], row["high"]) for x, row in points if row["low"] is not None]
            x_low_high = np.array(intervals).reshape(-1, 3).T  # of an empty list, too
            axes.vlines(*x_low_high, color=line.get_color(), linewidth=0.5)
        names = [drawable(str(name), NAME_WIDTH) for name in boards]
        step = 1 + len(boards) // MOST_TICKS
        axes.set_xticks(range(0, len(names), step), names[::step], parse_math=False)
        axes.set_ylabel(AXIS_LABELS[scale])
        axes.set_title(title)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return axes
