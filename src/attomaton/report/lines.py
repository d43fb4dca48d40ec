"""Curves over steps of training, several in a panel, for a paper's column."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base.drawing import HEIGHT, paper_style, wrap_caption
from attomaton.report.style import finish_figure, hide_rest, new_figure

STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes
    ----------
    name : str
        What the legend calls it; lines of one name look alike and are named once, those without one never.
    steps, values : sequences of float
        Where it was measured, and what. One value only: a level, drawn across the panel.
    colour, style : int
        Numbers of the style's colour and of the stroke, so that neither alone has to tell lines apart.
    """

    name: str
    steps: Sequence[float]
    values: Sequence[float]
    colour: int
    style: int = 0


@dataclass(frozen=True)
class LinePanel:
    """Curves that share an axis.

    Attributes
    ----------
    title : str
        What is shown.
    lines : sequence of Line
        The curves.
    least : float, optional
        Where the vertical axis begins. None means a little below the least value.
    axis : str
        What the curves run along.
    log_axis, log : bool
        Whether that, and whether the values, are shown on a logarithmic axis.
    """

    title: str
    lines: Sequence[Line]
    least: float | None = None
    axis: str = "step"
    log_axis: bool = True
    log: bool = False


def draw_lines(panels: Sequence[LinePanel], path: Path, *, caption: str, n_columns: int = 1) -> list[Path]:
    """Draw the panels row by row, those of a column over one axis; write ``path`` as PNG and PDF."""
    n_rows = -(-len(panels) // n_columns)
    title = wrap_caption(caption)
    with paper_style():
        figure = new_figure(HEIGHT * n_rows + 0.11 * len(title) + 0.9)
        axes = hide_rest(figure.subplots(n_rows, n_columns, sharex="col", squeeze=False), len(panels))
        for axis, panel in zip(axes, panels, strict=True):
            _draw(axis, panel)
        for axis, panel in zip(axes[-n_columns:], panels[-n_columns:], strict=True):
            axis.set_xlabel(panel.axis)
        return finish_figure(figure, path, caption="\n".join(title), n_columns=2)


def _draw(axis: Any, panel: LinePanel) -> None:
    for line in panel.lines:
        look = {"color": f"C{line.colour}", "linestyle": STYLES[line.style], "label": line.name}
        if len(line.values) == 1:
            axis.axhline(line.values[0], linewidth=0.8, **look)
        else:
            axis.plot(line.steps, line.values, **look)
    if panel.log_axis:
        axis.set_xscale("log")
    if panel.log:
        axis.set_yscale("log")
    else:
        axis.ticklabel_format(axis="y", useOffset=False)
    axis.set_ylim(bottom=panel.least)
    axis.set_title(panel.title, loc="left")
