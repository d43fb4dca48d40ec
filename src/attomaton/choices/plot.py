"""Scores as points with their intervals, component under component; gaps that are infinite are said to be."""

from typing import Any

from attomaton.base.display import shorten
from attomaton.base.drawing import house_axes
from attomaton.base.errors import UnsupportedOption
from attomaton.choices.standings import Standings, rows_of_table

MOST = 40
"""Items that a picture shows unless more are asked for."""

WIDTH_95 = 1.959964
"""Standard errors on either side of a score within which 95 % lie."""

ROW, MARGIN = 0.16, 0.75
"""Inches of a line, and of what stands around the lines."""

COLOUR, GREY = "C0", "0.45"
NAME = 28
"""Characters of an item that are shown."""


def plot_standings(standings: Standings, *, joined: bool, ax: Any = None, most: int = MOST) -> Any:
    """Draw the first ``most`` items, the best on top; the axes."""
    if ax is not None and not hasattr(ax, "errorbar"):
        raise UnsupportedOption(f"ax is of type {type(ax).__name__}; give axes of matplotlib, or none")
    rows = rows_of_table(standings.rows, most)
    with house_axes(ax, height=MARGIN + ROW * max(len(rows), 2) + 0.08 * len(rows)) as axes:
        level, ticks, names = 0.0, list[float](), list[str]()
        for place, row in enumerate(rows):
            _draw_row(axes, row, level)
            ticks.append(level)
            rank = "–" if row["rank"] is None else row["rank"]
            names.append(f"{shorten(str(row['item']), NAME)}  {rank}")
            level -= 1.0
            following = rows[place + 1] if place + 1 < len(rows) else None
            if following is not None and not joined and following["component"] != row["component"]:
                _draw_border(axes, row["ahead"], level + 0.25)
                level -= 0.75
        axes.set_yticks(ticks, names, parse_math=False)
        axes.set_ylim(level + 0.25, 0.75)
        axes.tick_params(axis="y", length=0)
        several = not joined and len({row["component"] for row in rows}) > 1
        axes.set_xlabel(
            "score (log odds), mean zero in each component" if several else "score (log odds), mean zero"
        )
        axes.set_title(_title(len(rows), len(standings), rows, joined=joined))
        return axes


def _draw_row(axes: Any, row: dict[str, Any], level: float) -> None:
    if row["score"] is None:
        axes.plot(0.0, level, "o", color="white", markeredgecolor=GREY, markersize=4)
        return
    error = row["standard_error"]
    spread = None if error is None else WIDTH_95 * error
    axes.errorbar(row["score"], level, xerr=spread, fmt="o", color=COLOUR, markersize=4, elinewidth=1.0)


def _draw_border(axes: Any, ahead: float | None, level: float) -> None:
    """The line between two components, with what lies between them."""
    axes.axhline(level, color=GREY, linewidth=0.6, linestyle=":" if ahead is None else "-")
    words = "not compared" if ahead is None else "above: infinitely far ahead"
    place = axes.get_yaxis_transform()
    axes.text(0.99, level, words, ha="right", va="bottom", color=GREY, fontsize=5, transform=place)


def _title(shown: int, size: int, rows: list[dict[str, Any]], *, joined: bool) -> str:
    errors = any(row["standard_error"] is not None for row in rows)
    what = "scores with 95 % intervals" if errors else "scores"
    part = f", the first {shown:,} of {size:,}" if shown < size else ""
    return f"{what}{part}{', joined by a prior' * joined}"
