"""Curves over steps of training, several in a panel, for a paper's column."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.report.figures import BLUE, HEIGHT, ORANGE, WIDTH, finish_figure, load_pyplot

COLOURS = (BLUE, ORANGE, "#3a8f5a", "#8a4f9e")
STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes
    ----------
    name : str
        What the legend calls it; lines of one name look alike and are named once.
    steps, values : sequences of float
        Where it was measured, and what. One value only: a level, drawn across the panel.
    colour, style : int
        Numbers of the colour and of the kind of stroke, so that neither alone has to tell lines apart.
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
        Where the vertical axis begins. None: a little below the least value.
    """

    title: str
    lines: Sequence[Line]
    least: float | None = None


def draw_lines(panels: Sequence[LinePanel], path: Path, *, caption: str) -> list[Path]:
    """Draw the panels one above the other over logarithmic steps; write ``path`` as PNG and PDF."""
    plt = load_pyplot()
    figure, axes = plt.subplots(
        len(panels),
        1,
        figsize=(WIDTH, HEIGHT * len(panels) + 1.0),
        layout="constrained",
        sharex=True,
        squeeze=False,
    )
    for axis, panel in zip(axes.flat, panels, strict=True):
        _draw(axis, panel)
    axes.flat[-1].set_xlabel("step", fontsize=7)
    return finish_figure(figure, path, caption=caption, n_columns=2, fontsize=5.5)


def _draw(axis: Any, panel: LinePanel) -> None:
    for line in panel.lines:
        look = {"color": COLOURS[line.colour], "linestyle": STYLES[line.style], "label": line.name}
        if len(line.values) == 1:
            axis.axhline(line.values[0], linewidth=0.8, **look)
        else:
            axis.plot(line.steps, line.values, linewidth=1.2, **look)
    axis.set_xscale("log")
    axis.set_ylim(bottom=panel.least)
    axis.set_title(panel.title, fontsize=6.5, loc="left")
    axis.tick_params(labelsize=6)
    axis.spines[["top", "right"]].set_visible(False)
