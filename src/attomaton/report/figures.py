"""Figures in the style of :mod:`attomaton.base.drawing`, made without pyplot, which would open windows."""

# `draw_line_panels` draws curves. Other figures begin with `new_figure` and end with `save_figure` or
# `finish_figure` (PNG and PDF, with a caption), or with `write_figure` (one file of any kind).

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base.artifacts import check_target, explained, starts_with, write_target
from attomaton.base.drawing import ONE_COLUMN, PANEL_HEIGHT, measure_text, paper_style, wrap_caption
from attomaton.base.errors import UnsupportedOption


def new_figure(height: float, *, width: float = ONE_COLUMN) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def finish_figure(figure: Any, path: Path, *, caption: str, n_columns: int) -> list[Path]:
    """Add a caption above and one legend below, of all panels without their own; write PNG and PDF."""
    named = {
        label: handle
        for axis in figure.axes
        if axis.get_legend() is None
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
    """Draw the panels with a legend below, or one in each panel if equal lines have different names."""
    n_rows = -(-len(panels) // n_columns)
    title = wrap_caption(caption)
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines if line.name))
    separate = n_columns == 1 and _looks_are_shared(panels)
    one_axis = all(
        len({panel.axis for panel in panels[column::n_columns]}) == 1 for column in range(n_columns)
    )
    with paper_style():
        # in inches: the panels, 0.11 for a line of the caption, 0.9 for labels and a legend of six lines
        height = PANEL_HEIGHT * n_rows + 0.11 * len(title) + 0.9
        n_legend_columns = _legend_columns(names)
        if separate:
            height += 0.125 * sum(_legend_lines(panel) for panel in panels) - 0.6
        else:
            height += 0.125 * max(-(-len(names) // n_legend_columns) - 6, 0)
        height += 0.0 if one_axis else 0.25 * (n_rows - 1)
        figure = new_figure(height)
        grid = figure.subplots(n_rows, n_columns, sharex="col" if one_axis else False, squeeze=False)
        axes = hide_rest(grid, len(panels))
        for axis, panel in zip(axes, panels, strict=True):
            _draw_lines(axis, panel)
            if separate:
                add_own_legend(axis)
        labelled = slice(-n_columns, None) if one_axis else slice(None)
        for axis, panel in zip(axes[labelled], panels[labelled], strict=True):
            axis.set_xlabel(panel.axis)
        return finish_figure(figure, path, caption="\n".join(title), n_columns=n_legend_columns)


def add_own_legend(axis: Any) -> None:
    """Give the panel a legend above its curves, with the panel's title as its title."""
    handles, names = axis.get_legend_handles_labels()
    if names:
        title, size = axis.get_title(loc="left"), axis.title.get_fontsize()
        axis.set_title("", loc="left")
        place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderpad": 0, "borderaxespad": 0.3}
        axis.legend(
            handles,
            names,
            title=title,
            title_fontsize=size,
            alignment="left",
            ncols=_legend_columns(names),
            **place,
        )


def _looks_are_shared(panels: Sequence[LinePanel]) -> bool:
    # whether lines of two panels have the same colour and style, but different names
    names: dict[tuple[int, int], set[str]] = {}
    for line in (line for panel in panels for line in panel.lines if line.name):
        names.setdefault((line.colour, line.style), set()).add(line.name)
    return any(len(of_look) > 1 for of_look in names.values())


def _legend_lines(panel: LinePanel) -> int:
    names = list(dict.fromkeys(line.name for line in panel.lines if line.name))
    return -(-len(names) // _legend_columns(names))


def _legend_columns(names: Sequence[str]) -> int:
    # 2 if two columns of these names, each with its line, are as wide as the figure at most; otherwise 1
    half = -(-len(names) // 2)
    widths = [max(map(measure_text, part), default=0.0) + 0.35 for part in (names[:half], names[half:])]
    return 2 if sum(widths) <= ONE_COLUMN else 1


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
