"""Figures for papers, drawn with matplotlib (the extra ``report``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from attomaton.errors import MissingExtra
from attomaton.tables import Float64

WIDTH = 3.4
"""Inches of a figure: one column of a paper. Two panels stand side by side."""

HEIGHT = 1.35
"""Inches of one row of panels."""

BLUE, ORANGE, GREY = "#1f5fa8", "#d9731a", "#8a8a8a"


@dataclass(frozen=True, eq=False)
class Panel:
    """One curve with its spread over trials.

    Attributes
    ----------
    title : str
        What is shown.
    at : float64 array, shape (n_records,)
        Where it was measured.
    values : float64 array, shape (n_records, n_trials)
        What was measured.
    predicted : pair of float64 arrays, optional
        Where something was computed without training, and its mean over trials; drawn dashed.
    published : tuple of float, optional
        A range reported for the end, drawn as a bar at the right.
    axis : str
        What the curve runs along.
    log : bool
        Whether the values are shown on a logarithmic axis; mean and spread are then those of the logarithms.
    log_axis : bool
        Whether what the curve runs along is; its zero is then left out.
    """

    title: str
    at: Float64
    values: Float64
    predicted: tuple[Float64, Float64] | None = None
    published: tuple[float, float] | None = None
    axis: str = "step"
    log: bool = False
    log_axis: bool = False


def draw_panels(panels: Sequence[Panel], path: Path, *, caption: str) -> list[Path]:
    """Draw the panels two by two, mean ± standard deviation over trials; write ``path`` as PNG and PDF."""
    plt = load_pyplot()
    n_columns = min(len(panels), 2)
    n_rows = -(-len(panels) // n_columns)
    title = wrap(caption, 62)
    size = (WIDTH, HEIGHT * n_rows + 0.11 * len(title) + 0.25)
    figure, axes = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        _draw(axis, panel)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    return finish_figure(figure, path, caption="\n".join(title), n_columns=3, fontsize=6.5)


def finish_figure(figure: Any, path: Path, *, caption: str, n_columns: int, fontsize: float) -> list[Path]:
    """Caption above, one legend of all panels below; write ``path`` as PNG and PDF, and close the figure."""
    named = {
        label: handle
        for axis in figure.axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        named.values(), named, loc="outside lower center", ncols=n_columns, frameon=False, fontsize=fontsize
    )
    return save_figure(figure, path, caption=caption)


def save_figure(figure: Any, path: Path, *, caption: str) -> list[Path]:
    """Caption above; write ``path`` as PNG and PDF, and close the figure."""
    figure.suptitle(caption, fontsize=7)
    written = [path.with_suffix(kind) for kind in (".png", ".pdf")]
    for file in written:
        figure.savefig(file, dpi=300)
    load_pyplot().close(figure)
    return written


def _draw(axis: Any, panel: Panel) -> None:
    values = np.log(panel.values) if panel.log else panel.values
    mean, spread = values.mean(axis=1), values.std(axis=1)
    mean, lower, upper = (np.exp(one) if panel.log else one for one in (mean, mean - spread, mean + spread))
    axis.fill_between(panel.at, lower, upper, color=BLUE, alpha=0.2, linewidth=0)
    axis.plot(panel.at, mean, color=BLUE, linewidth=1.0, label="measured, mean ± std")
    if panel.predicted is not None:
        axis.plot(*panel.predicted, "--", color=ORANGE, linewidth=1.0, label="predicted")
    if panel.published is not None:
        axis.plot(
            [panel.at[-1]] * 2,
            panel.published,
            color=GREY,
            linewidth=4,
            alpha=0.7,
            label="published",
            solid_capstyle="butt",
        )
    if panel.log:
        axis.set_yscale("log")
    if panel.log_axis:
        axis.set_xscale("log")
        axis.set_xlim(left=panel.at[panel.at > 0][0])
    axis.set_title("\n".join(wrap(panel.title, 30)), fontsize=6.5)
    axis.set_xlabel(panel.axis, fontsize=6.5, labelpad=1)
    axis.tick_params(labelsize=6, length=2)
    axis.spines[["top", "right"]].set_visible(False)


def load_pyplot() -> Any:
    """Matplotlib without a screen."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtra("figures need matplotlib: pip install 'attomaton[report]'") from error
    mpl.use("agg")
    import matplotlib.pyplot as plt

    return plt
