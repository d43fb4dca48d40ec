"""Numbers between 0 and 1 as shaded grids with their values, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base import paper_style
from attomaton.base.drawing import TWO_COLUMNS, wrap_caption
from attomaton.report.figures import hide_rest, new_figure, save_figure

ROW = 0.17
"""Height in inches of one row of a grid."""


@dataclass(frozen=True)
class GridFigure:
    """One grid.

    Attributes
    ----------
    title : str
        The title.
    rows, columns : sequences of str
        Their names.
    values : sequence of sequences of float or None
        One per row and column, between 0 and 1; None is left white.
    marked : sequence of (int, int)
        Cells to frame.
    borders : sequence of int
        Rows preceded by a line.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    marked: Sequence[tuple[int, int]] = ()
    borders: Sequence[int] = ()


def draw_grids(grids: Sequence[GridFigure], path: Path, *, caption: str) -> list[Path]:
    """Draw the grids two by two; write ``path`` as PNG and PDF."""
    title = wrap_caption(caption, width=TWO_COLUMNS)
    n_rows = -(-len(grids) // 2)
    heights = [max(len(grid.rows) for grid in grids[2 * row : 2 * row + 2]) for row in range(n_rows)]
    with paper_style():
        figure = new_figure(ROW * sum(heights) + 0.9 * n_rows + 0.13 * len(title), width=TWO_COLUMNS)
        axes = figure.subplots(n_rows, 2, squeeze=False, height_ratios=heights)
        for axis, grid in zip(hide_rest(axes, len(grids)), grids, strict=True):
            _draw(axis, grid)
        return save_figure(figure, path, caption="\n".join(title))


def _draw(axis: Any, grid: GridFigure) -> None:
    from matplotlib.patches import Rectangle

    shown = [[float("nan") if cell is None else cell for cell in row] for row in grid.values]
    axis.imshow(shown, vmin=0.0, vmax=1.0, aspect="auto")
    for row, values in enumerate(grid.values):
        for column, value in enumerate(values):
            if value is not None:
                colour = "white" if value > 0.6 else "black"
                axis.text(
                    column, row, f"{value:.2f}", ha="center", va="center", fontsize="small", color=colour
                )
    for row, column in grid.marked:
        box: dict[str, Any] = {"fill": False, "edgecolor": "C1", "linewidth": 1.4}
        axis.add_patch(Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, **box))
    for row in grid.borders:
        axis.axhline(row - 0.5, color="black")
    axis.set_xticks(range(len(grid.columns)), grid.columns)
    axis.set_yticks(range(len(grid.rows)), grid.rows)
    axis.set_title(grid.title, loc="left")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
