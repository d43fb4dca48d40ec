"""Verdicts, drawn: how far each claim's number is from its bound, and on which side."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from attomaton.base.display import GREEN, ORANGE
from attomaton.base.drawing import GREY, TWO_COLUMNS, house_axes

ROW, BESIDES = 0.17, 0.6
"""Inches of one row, and of all that is not rows."""

REACH = 10.0
"""Ratios of value and bound are drawn up to this, and down to one over it."""

MARKS = {"holds": ("o", GREEN), "fails": ("X", ORANGE)}
"""The mark and the colour of what was judged: neither alone has to tell them apart."""

Row = tuple[str, str, float | None, float | None, str]
"""Claim, status, value, bound, and the two as text."""


def draw_verdicts(rows: Sequence[Row], title: str, ax: Any = None) -> Any:
    """A line for each claim: its value over its bound, where both can be compared so, and both as text."""
    with house_axes(ax, height=ROW * max(len(rows), 1) + BESIDES, width=0.75 * TWO_COLUMNS) as axes:
        axes.axvline(1.0, color="black", linewidth=0.6)
        for place, (_, status, value, bound, text) in enumerate(rows):
            mark, colour = MARKS.get(status, ("", GREY))
            where = _ratio(value, bound)
            if where is not None and mark:
                axes.plot([1.0, where], [place] * 2, color=colour, linewidth=0.8)
                axes.plot([where], [place], mark, color=colour, markersize=4, label=status.replace("_", " "))
            beside = {"va": "center_baseline", "fontsize": "x-small", "parse_math": False}
            axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), color=colour, **beside)
        axes.set_xscale("log")
        axes.set_xlim(0.8 / REACH, 1.25 * REACH)
        axes.set_xticks([0.1, 1, 10], ["a tenth", "the bound", "ten times"])
        axes.minorticks_off()
        axes.set_yticks(range(len(rows)), [row[0] for row in rows], parse_math=False)
        axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_title(title, loc="left")
    return axes


def _ratio(value: float | None, bound: float | None) -> float | None:
    """Value over bound, within reach; None where that says nothing."""
    if value is None or bound is None or not (isfinite(value) and isfinite(bound)):
        return None
    if bound == 0 or value / bound <= 0:
        return None
    return min(max(value / bound, 1 / REACH), REACH)
