"""Figures in the style of :mod:`attomaton.base.drawing`, made without pyplot, which would open windows."""

# `draw_line_panels` draws curves. Other figures begin with `new_figure` and end with `save_figure` or
# `finish_figure` (PNG and PDF, with a caption), or with `write_figure` (one file of any kind).

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base.artifacts import check_target, explained, starts_with, write_target
from attomaton.base.drawing import ONE_COLUMN, PANEL_HEIGHT, paper_style, wrap_caption
from attomaton.base.errors import UnsupportedOption


def new_figure(height: float, *, width: float = ONE_COLUMN) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def finish_figure(figure: Any, path: Path, *, caption: str, n_columns: int) -> list[Path]:
    """Add a caption above and one legend of all panels below; write ``path`` as PNG and PDF."""
    named = {
        label: handle
        for axis in figure.axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if named:
        figure.legend(named.values(), named, loc="outside lower center", ncols=n_columns)
    return save_figure(figure, path, caption=caption)


def save_figure(figure: Any, path: Path, *, caption: str) -> list[Path]:
    """Add a caption above; write ``path`` as PNG and PDF, without the date, so files are reproducible."""
    figure.suptitle(caption, parse_math=False)
    written = [path.with_suffix(kind) for kind in (".png", ".pdf")]
    with explained(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        for file in written:
            figure.savefig(file, metadata={"CreationDate": None} if file.suffix == ".pdf" else None)
    return written


# The first bytes of figures of each kind: only such files are replaced.
FIGURE_SIGNS = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}


def check_figure(path: Path) -> str:
    """Check that a figure can be written to this path; return its kind: pdf, png or svg."""
    kind = path.suffix[1:].lower() or "pdf"
    if kind not in FIGURE_SIGNS:
        raise UnsupportedOption(f"{path.name} has an unknown suffix; end the name in .pdf, .png or .svg")
    check_target(path, is_ours=starts_with(FIGURE_SIGNS[kind]))
    return kind


def write_figure(figure: Any, path: Path) -> Path:
    """Write the figure in the format of the suffix, reproducible to the byte."""
    kind = check_figure(path)
    options: Any = {"format": kind, "bbox_inches": "tight"}
    if kind != "png":
        options["metadata"] = {"CreationDate" if kind == "pdf" else "Date": None}
    write_target(
        path, lambda draft: figure.savefig(draft, **options), is_ours=starts_with(FIGURE_SIGNS[kind])
    )
    return path


def hide_rest(axes: Any, n_used: int) -> Sequence[Any]:
    # the first axes of a grid; the others are made invisible
    for axis in axes.flat[n_used:]:
        axis.set_visible(False)
    return axes.flat[:n_used]


STYLES = ("-", "--", ":", "-.")  # of lines, by ``Line.style``


@dataclass(frozen=True)
class Line:
    """A curve; a single value is drawn as a level across the panel, and equal names share a legend entry."""

    name: str
    steps: Sequence[float]
    values: Sequence[float]
    colour: int
    style: int = 0
    errors: Sequence[float] | None = None


@dataclass(frozen=True)
class LinePanel:
    """Curves with common axes; the vertical axis starts at ``least``, or just below the smallest value.

    ``axis`` names the horizontal axis. ``log_axis`` and ``log`` make the horizontal and the vertical axis
    logarithmic.
    """

    title: str
    lines: Sequence[Line]
    least: float | None = None
    axis: str = "step"
    log_axis: bool = True
    log: bool = False


def draw_line_panels(
    panels: Sequence[LinePanel], path: Path, *, caption: str, n_columns: int = 1
) -> list[Path]:
    n_rows = -(-len(panels) // n_columns)
    title = wrap_caption(caption)
    with paper_style():
        # in inches: the panels, 0.11 for a line of the caption, and 0.9 for labels and legend
        figure = new_figure(PANEL_HEIGHT * n_rows + 0.11 * len(title) + 0.9)
        axes = hide_rest(figure.subplots(n_rows, n_columns, sharex="col", squeeze=False), len(panels))
        for axis, panel in zip(axes, panels, strict=True):
            _draw_lines(axis, panel)
        for axis, panel in zip(axes[-n_columns:], panels[-n_columns:], strict=True):
            axis.set_xlabel(panel.axis)
        return finish_figure(figure, path, caption="\n".join(title), n_columns=2)


def _draw_lines(axis: Any, panel: LinePanel) -> None:
    for line in panel.lines:
        look = {"color": f"C{line.colour}", "linestyle": STYLES[line.style], "label": line.name}
        if len(line.values) == 1:
            axis.axhline(line.values[0], linewidth=0.8, **look)
        elif line.errors is None:
            axis.plot(line.steps, line.values, **look)
        else:
            axis.errorbar(line.steps, line.values, line.errors, elinewidth=0.6, capsize=1.5, **look)
    if panel.log_axis:
        axis.set_xscale("log")
    if panel.log:
        axis.set_yscale("log")
    else:
        axis.ticklabel_format(axis="y", useOffset=False)
    axis.set_ylim(bottom=panel.least)
    axis.set_title(panel.title, loc="left")
