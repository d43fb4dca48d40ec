"""The ordered items as a table: ranks where the data determine them, infinite gaps, and nulls elsewhere.

Items that no chain of comparisons connects are in different groups, and each group is ranked separately: an
item has a rank if it can be compared with every other item of its group. Components are listed group by
group, so that none comes before one that precedes it; a component then precedes its neighbour exactly if an
edge joins the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attomaton.base.drawing import house_axes
from attomaton.base.errors import UnknownToken, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import show
from attomaton.base.printing import Block, Listing, shorten
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.solvers.soft.certify import SCORES_WITHIN

_arrow: Any = pa


@dataclass(frozen=True, eq=False, repr=False)
class Standings(Tabular):
    """The items of a fit, best first where the data determine an order.

    Attributes
    ----------
    rows : pyarrow.Table
        One row per item. ``rank`` (in its group; null where an item cannot be compared with every other item
        of the group), ``item``, ``group`` (from 1; no choice compares items of different groups),
        ``component`` (its number in the fit's listing, from 1), ``place`` (in its component, from 1; equal
        scores share a place), ``score`` (mean zero in each component, null for an item alone in its
        component), ``standard_error`` (null where there is none), ``ahead`` (the score minus that of the next
        row: infinite where the odds are infinite, null where the two cannot be compared), ``wins``,
        ``losses`` (choices it won, and those it was in and did not win; a tie counts half).

    Examples
    --------
    >>> import attomaton as at
    >>> fit = at.fit_choices(["a", "b", "a", "a"], losers=["b", "a", "b", "c"])
    >>> fit.standings["item"], fit.standings["rank"], fit.standings["ahead"][1:]  # c never won
    (['a', 'b', 'c'], [1, 2, 3], [inf, None])
    >>> fit.standings.to_pandas().shape  # fit.standings.to_polars() alike
    (3, 10)
    """

    rows: pa.Table

    def __repr__(self) -> str:
        return str(self)

    def _blocks(self) -> list[Block]:
        rows = [[_cell(value) for value in row.values()] for row in cast("Any", self.rows).to_pylist()]
        return [Listing(self.rows.column_names, rows)]

    def __len__(self) -> int:
        return self.rows.num_rows

    def __getitem__(self, name: str) -> list[Any]:
        """One column as a list."""
        columns: Any = self.rows
        if name not in columns.column_names:
            raise UnknownToken(f"no column {show(name)}; the columns are {', '.join(columns.column_names)}")
        return columns.column(name).to_pylist()

    def _table(self) -> pa.Table:
        return self.rows


def make_standings(
    *,
    items: tuple[Any, ...],
    component: Int64,
    scale: Int64,
    group: Int64,
    order: tuple[Int64, Int64],
    score: Float64 | None,
    error: Float64 | None,
    counts: tuple[NDArray[Any], NDArray[Any]],
) -> Standings:
    """The ordered items, with ranks where the data determine them.

    Scores can be compared within a ``scale``; no scale comes before one above it. ``group`` is the group of
    each scale, ascending, and ``order`` the pairs of scales of which one precedes the other. ``score`` is
    None where scores are not certified, ``error`` where there are no standard errors; ``counts`` are the
    choices that each item won and lost.
    """
    above, below = order
    known, score = np.full(len(items), score is not None), np.zeros(len(items)) if score is None else score
    row = np.lexsort((-score, scale))
    scale, score = scale[row], score[row]
    own_group, n_scales = group[scale], len(group)
    place, ahead = _place_rows(scale, np.where(known, score, np.nan))
    next_scale = np.flatnonzero(np.diff(scale))
    joined = np.isin(scale[next_scale] * n_scales + scale[next_scale + 1], above * n_scales + below)
    ahead[next_scale] = np.where(joined, np.inf, np.nan)
    alone = np.bincount(scale, minlength=n_scales)[scale] == 1
    ranked = find_fixed(group, above, below)[scale] & (known | alone)
    before = np.searchsorted(scale, scale) - np.searchsorted(own_group, own_group)  # in other scales
    errors = np.full(len(items), np.nan) if error is None else error[row]
    columns = {
        "rank": _nullable(before + place, ranked),
        "item": item_column([items[number] for number in row.tolist()]),
        "group": _arrow.array(own_group + 1),
        "component": _arrow.array(component[row] + 1),
        "place": _nullable(place, known | alone),
        "score": _nullable(score, known & ~alone),
        "standard_error": _nullable(errors, ~alone & (error is not None)),
        "ahead": _nullable(ahead, ~np.isnan(ahead)),
        "wins": _arrow.array(counts[0][row]),
        "losses": _arrow.array(counts[1][row]),
    }
    return Standings(_arrow.table(columns))


def find_fixed(group: Int64, above: Int64, below: Int64) -> Bool:
    """Which scales precede or follow every other scale of their group, shape (n_scales,).

    Edges lead to larger numbers. All scales after a given one are below it if each of them has a parent at it
    or later: that parent is then below it too, or equal to it. The same holds backwards. A scale without a
    parent uses the last scale of the previous group as its parent, so that groups do not affect each other.
    """
    last_parent, first_child = (np.searchsorted(group, group, side) for side in ("left", "right"))
    last_parent -= 1
    np.maximum.at(last_parent, below, above)
    np.minimum.at(first_child, above, below)
    place, size = np.arange(len(group)), len(group)
    least_parent = np.minimum.accumulate(last_parent[::-1])[::-1]  # over this scale and all after it
    most_child = np.maximum.accumulate(first_child)
    all_below = np.append(least_parent, size)[1:] >= place
    all_above = np.insert(most_child, 0, -1)[:-1] <= place
    return all_below & all_above


def _place_rows(scale: Int64, score: Float64) -> tuple[Int64, Float64]:
    """The place of each row in its scale, from 1, shared by equal scores; and its lead over the next row.

    Unknown scores are NaN.
    """
    ahead = np.full(len(scale), np.nan)
    inside = np.flatnonzero(np.diff(scale) == 0)
    ahead[inside] = score[inside] - score[inside + 1]
    starts_place = np.ones(len(scale), bool)
    starts_place[inside + 1] = ahead[inside] > 2 * SCORES_WITHIN
    row = np.arange(len(scale))
    first = np.maximum.accumulate(np.where(starts_place, row, 0))
    start = np.maximum.accumulate(np.where(np.diff(scale, prepend=-1) != 0, row, 0))
    return first - start + 1, ahead


def _nullable(values: NDArray[Any], known: Bool) -> Any:
    return _arrow.array(values, mask=~np.broadcast_to(known, values.shape))


def item_column(items: Sequence[Any]) -> Any:
    """Items as one Arrow column: strings, integers and floats unchanged, anything else as its repr."""
    for kind, arrow_type in ((str, pa.string()), (int, pa.int64()), (float, pa.float64())):
        if all(type(item) is kind for item in items):
            try:
                return _arrow.array(items, arrow_type)
            except (OverflowError, UnicodeEncodeError, pa.ArrowException):
                break
    return _arrow.array([ascii(item) for item in items], pa.string())


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


MOST = 40
"""Default number of items in a plot."""

WIDTH_95 = 1.959964
"""Half-width of a 95 % interval in standard errors."""

ROW, MARGIN = 0.16, 0.75
"""Height of a line, and of the margins around the lines, in inches."""

COLOUR, GREY = "C0", "0.45"
NAME = 28
"""Maximum number of characters shown of an item."""


def plot_standings(standings: Standings, *, joined: bool, ax: Any = None, limit: int = MOST) -> Any:
    """Draw the first ``limit`` items, best on top; return the axes."""
    if ax is not None and not hasattr(ax, "errorbar"):
        raise UnsupportedOption(f"ax is of type {type(ax).__name__}; give matplotlib axes, or none")
    rows: Any = standings.rows.slice(0, limit).to_pylist()
    with house_axes(ax, height=MARGIN + ROW * max(len(rows), 2) + 0.08 * len(rows)) as axes:
        level, ticks, names = 0.0, list[float](), list[str]()
        for place, row in enumerate(rows):
            if row["score"] is None:
                axes.plot(0.0, level, "o", color="white", markeredgecolor=GREY, markersize=4)
            else:
                error = row["standard_error"]
                spread = None if error is None else WIDTH_95 * error
                axes.errorbar(
                    row["score"], level, xerr=spread, fmt="o", color=COLOUR, markersize=4, elinewidth=1
                )
            ticks.append(level)
            rank = "–" if row["rank"] is None else row["rank"]
            names.append(f"{shorten(str(row['item']), NAME)}  {rank}")
            level -= 1.0
            if not joined and place + 1 < len(rows) and rows[place + 1]["component"] != row["component"]:
                ahead, border = row["ahead"], level + 0.25
                axes.axhline(border, color=GREY, linewidth=0.6, linestyle=":" if ahead is None else "-")
                words = "not compared" if ahead is None else "above: infinitely far ahead"
                style = {"ha": "right", "va": "bottom", "color": GREY, "fontsize": 5}
                axes.text(0.99, border, words, transform=axes.get_yaxis_transform(), **style)
                level -= 0.75
        axes.set_yticks(ticks, names, parse_math=False)
        axes.set_ylim(level + 0.25, 0.75)
        axes.tick_params(axis="y", length=0)
        several = not joined and len({row["component"] for row in rows}) > 1
        axes.set_xlabel("score (log odds), mean zero" + " in each component" * several)
        errors = any(row["standard_error"] is not None for row in rows)
        part = f", the first {len(rows):,} of {len(standings):,}" * (len(rows) < len(standings))
        intervals, prior = " with 95 % intervals" * errors, ", joined by a prior" * joined
        axes.set_title(f"scores{intervals}{part}{prior}")
        return axes
