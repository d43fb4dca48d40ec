"""One curve per panel with its spread over trials, for a paper's column."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from attomaton.base import paper_style
from attomaton.base.drawing import HOUSE_GREY, PANEL_HEIGHT, wrap_caption
from attomaton.base.tables import Float64
from attomaton.report.figures import finish_figure, hide_rest, new_figure


@dataclass(frozen=True, eq=False)
class Panel:
    """One curve with its spread over trials.

    Attributes
    ----------
    title : str
        The title.
    at : float64 array, shape (n_records,)
        The coordinates of the records.
    values : float64 array, shape (n_records, n_trials)
        The measured values.
    predicted : pair of float64 arrays, optional
        Coordinates and mean over trials of a prediction made without training; drawn dashed.
    published : tuple of float, optional
        A published range for the end, drawn as a bar at the right.
    axis : str
        The label of the horizontal axis.
    log : bool
        Whether the values are on a logarithmic axis; mean and spread are then those of the logarithms.
    log_axis : bool
        Whether the horizontal axis is logarithmic; its zero is then left out.
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
    """Draw the panels, two per row: mean ± standard deviation over trials; write ``path`` as PNG and PDF."""
    n_columns = min(len(panels), 2)
    n_rows = -(-len(panels) // n_columns)
    title = wrap_caption(caption)
    with paper_style():
        figure = new_figure(PANEL_HEIGHT * n_rows + 0.11 * len(title) + 0.25)
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
        for axis, panel in zip(hide_rest(axes, len(panels)), panels, strict=True):
            _draw(axis, panel)
        return finish_figure(figure, path, caption="\n".join(title), n_columns=3)


def _draw(axis: Any, panel: Panel) -> None:
    drawn = panel.at > 0 if panel.log_axis else np.ones(len(panel.at), bool)
    at, values = panel.at[drawn], panel.values[drawn]
    values = np.log(values) if panel.log else values
    mean, spread = values.mean(axis=1), values.std(axis=1)
    mean, lower, upper = (
        np.exp(curve) if panel.log else curve for curve in (mean, mean - spread, mean + spread)
    )
    axis.fill_between(at, lower, upper, color="C0", alpha=0.2, linewidth=0)
    axis.plot(at, mean, color="C0", label="measured, mean ± std")
    if panel.predicted is not None:
        axis.plot(*panel.predicted, "--", color="C1", label="predicted")
    if panel.published is not None:
        bar = {"linewidth": 4, "alpha": 0.7, "solid_capstyle": "butt"}
        axis.plot([at[-1]] * 2, panel.published, color=HOUSE_GREY, label="published", **bar)
    if panel.log:
        axis.set_yscale("log")
    if panel.log_axis:
        axis.set_xscale("log")
        axis.set_xlim(left=at[0])
    axis.set_title("\n".join(wrap(panel.title, 30)))
    axis.set_xlabel(panel.axis)
