"""Figures for papers, drawn with matplotlib (the extra ``report``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.errors import MissingExtra
from attomaton.tables import Float64, Int64

WIDTH = 2.4
"""Inches of one panel: three stand side by side in a paper's text width."""

BLUE, ORANGE, GREY = "#1f5fa8", "#d9731a", "#8a8a8a"


@dataclass(frozen=True, eq=False)
class Panel:
    """One curve with its spread over trials.

    Attributes
    ----------
    title : str
        What is shown.
    steps : int64 array, shape (n_records,)
        Where it was measured.
    values : float64 array, shape (n_records, n_trials)
        What was measured.
    predicted : float64 array, shape (n_records,), optional
        What was computed without training (mean over trials), drawn dashed; NaN where it does not speak.
    published : tuple of float, optional
        A range reported for the last step, drawn as a bar at the right.
    log : bool
        Whether the axis is logarithmic; mean and spread are then those of the logarithms.
    """

    title: str
    steps: Int64
    values: Float64
    predicted: Float64 | None = None
    published: tuple[float, float] | None = None
    log: bool = False


def draw_panels(panels: Sequence[Panel], path: Path, *, caption: str) -> list[Path]:
    """Draw the panels side by side, mean ± standard deviation over trials; write ``path`` as PNG and PDF."""
    plt = load_pyplot()
    n_columns = min(len(panels), 3)
    n_rows = -(-len(panels) // n_columns)
    figure, axes = plt.subplots(
        n_rows,
        n_columns,
        figsize=(WIDTH * n_columns, 2.1 * n_rows + 0.4),
        layout="constrained",
        squeeze=False,
    )
    for axis, panel in zip(axes.flat, panels, strict=False):
        _draw(axis, panel)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=7)
    figure.suptitle(caption, fontsize=8)
    written = [path.with_suffix(kind) for kind in (".png", ".pdf")]
    for file in written:
        figure.savefig(file, dpi=200)
    plt.close(figure)
    return written


def _draw(axis: Any, panel: Panel) -> None:
    values = np.log(panel.values) if panel.log else panel.values
    mean, spread = values.mean(axis=1), values.std(axis=1)
    mean, lower, upper = (np.exp(one) if panel.log else one for one in (mean, mean - spread, mean + spread))
    axis.fill_between(panel.steps, lower, upper, color=BLUE, alpha=0.2, linewidth=0)
    axis.plot(panel.steps, mean, color=BLUE, linewidth=1.2, label="trained, mean ± std")
    if panel.predicted is not None:
        axis.plot(panel.steps, panel.predicted, "--", color=ORANGE, linewidth=1.2, label="predicted")
    if panel.published is not None:
        axis.plot(
            [panel.steps[-1]] * 2, panel.published, color=GREY, linewidth=4, alpha=0.7, label="published"
        )
    if panel.log:
        axis.set_yscale("log")
    axis.set_title(panel.title, fontsize=8)
    axis.set_xlabel("step", fontsize=7)
    axis.tick_params(labelsize=6)
    axis.spines[["top", "right"]].set_visible(False)


def load_pyplot() -> Any:
    """Matplotlib without a screen."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtra("figures need matplotlib: pip install attomaton[report]") from error
    mpl.use("agg")
    import matplotlib.pyplot as plt

    return plt
