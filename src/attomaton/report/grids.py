"""Numbers between 0 and 1 as shaded grids with their values written in, several beside each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from attomaton.report.figures import WIDTH, load_pyplot, save_figure

ROW = 0.17
"""Inches of one row of a grid."""


@dataclass(frozen=True)
class Grid:
    """One grid.

    Attributes
    ----------
    title : str
        What it shows.
    rows, columns : sequences of str
        Their names.
    values : sequence of sequences of float or None
        One for each row and column, between 0 and 1; None is left white.
    marked : sequence of (int, int)
        Cells to frame.
    borders : sequence of int
        Rows before which a line is drawn.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    marked: Sequence[tuple[int, int]] = ()
    borders: Sequence[int] = ()


def draw_grids(grids: Sequence[Grid], path: Path, *, caption: str) -> list[Path]:
    """Draw the grids two by two; write ``path`` as PNG and PDF."""
    plt = load_pyplot()
    title = wrap(caption, 120)
    n_rows = -(-len(grids) // 2)
    heights = [max(len(one.rows) for one in grids[2 * row : 2 * row + 2]) for row in range(n_rows)]
    figure, axes = plt.subplots(
        n_rows,
        2,
        figsize=(2 * WIDTH, ROW * sum(heights) + 0.9 * n_rows + 0.13 * len(title)),
        layout="constrained",
        squeeze=False,
        height_ratios=heights,
    )
    for axis in axes.flat[len(grids) :]:
        axis.set_visible(False)
    for axis, grid in zip(axes.flat, grids, strict=False):
        _draw(axis, grid)
    return save_figure(figure, path, caption="\n".join(title))


def _draw(axis: Any, grid: Grid) -> None:
    shown = [[float("nan") if one is None else one for one in row] for row in grid.values]
    axis.imshow(shown, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for row, values in enumerate(grid.values):
        for column, value in enumerate(values):
            if value is not None:
                colour = "white" if value > 0.6 else "black"
                axis.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6, color=colour)
    for row, column in grid.marked:
        box = {"fill": False, "edgecolor": "#d9731a", "linewidth": 1.4}
        axis.add_patch(load_pyplot().Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, **box))
    for row in grid.borders:
        axis.axhline(row - 0.5, color="black", linewidth=0.8)
    axis.set_xticks(range(len(grid.columns)), grid.columns, fontsize=5.5)
    axis.set_yticks(range(len(grid.rows)), grid.rows, fontsize=6)
    axis.set_title(grid.title, fontsize=7, loc="left")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
