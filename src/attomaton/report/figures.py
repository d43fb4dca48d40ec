"""How figures are made and saved, in the style of :mod:`attomaton.base.drawing`.

They are made without pyplot, so the backend and the windows of the session that asks for them stay as they
are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base.artifacts import explained
from attomaton.base.drawing import HEIGHT, ONE_COLUMN, paper_style, wrap_caption


def new_figure(height: float, *, width: float = ONE_COLUMN) -> Any:
    """An empty figure of this size in inches; call it inside :func:`paper_style`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def finish_figure(figure: Any, path: Path, *, caption: str, n_columns: int) -> list[Path]:
    """Caption above, one legend of all panels below; write ``path`` as PNG and PDF."""
    named = {
        label: handle
        for axis in figure.axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if named:
        figure.legend(named.values(), named, loc="outside lower center", ncols=n_columns)
    return save_figure(figure, path, caption=caption)


def save_figure(figure: Any, path: Path, *, caption: str) -> list[Path]:
    """Caption above; write ``path`` as PNG and PDF, the same bytes whenever it is drawn."""
    figure.suptitle(caption, parse_math=False)
    written = [path.with_suffix(kind) for kind in (".png", ".pdf")]
    with explained(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        for file in written:
            figure.savefig(file, metadata={"CreationDate": None} if file.suffix == ".pdf" else None)
    return written


def hide_rest(axes: Any, n_used: int) -> Sequence[Any]:
    """The axes that are used; the others are hidden."""
    for axis in axes.flat[n_used:]:
        axis.set_visible(False)
    return axes.flat[:n_used]


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
