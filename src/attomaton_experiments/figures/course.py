"""Labels of heads over training, the loss beside them, and what utility predicted."""

from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base import paper_style
from attomaton.base.drawing import HOUSE_GREY, PANEL_HEIGHT, wrap_caption
from attomaton.base.tables import Float64
from attomaton.report.figures import add_own_legend, new_figure, save_figure
from attomaton_experiments.head_course.history import History
from attomaton_experiments.head_course.targets import TARGETS


def draw_history(history: History, losses: dict[str, Float64], path: Path, *, caption: str) -> list[Path]:
    """Three panels by step: shares of heads by type, losses, and rank correlations of utility.

    ``losses`` have shape (n_seeds, n_steps). Step 0 is drawn where step 1 would be.
    """
    title, steps = wrap_caption(caption), np.maximum(history.steps, 1)
    with paper_style():
        figure = new_figure(PANEL_HEIGHT * 3.4 + 0.11 * len(title) + 1.2)
        types, loss, predicted = figure.subplots(3, 1, sharex=True, height_ratios=(1.4, 1, 1))
        n_heads = history.sizes[2] * history.sizes[3]
        shares = [history.count(name).mean(0) / n_heads for name in history.names]
        types.stackplot(steps, shares, labels=history.names, linewidth=0)
        types.set_ylim(0, 1)
        types.set_title("heads by type, mean of seeds", loc="left")
        for style, (name, values) in enumerate(losses.items()):
            _draw_spread(loss, steps, values, f"loss, {name.replace('_', ' ')}", style)
        loss.set_title("loss, nats per token: mean and range of seeds", loc="left")
        for style, name in enumerate(TARGETS):
            values = np.array([history.predicted(name, step, within=True) for step in history.steps]).T
            _draw_spread(predicted, steps, values, f"utility, {name}", style)
        predicted.axhline(0.0, color=HOUSE_GREY, linewidth=0.6)
        predicted.set_title("utility at the step and attention at the end: rank correlation", loc="left")
        predicted.set_xlabel("step")
        predicted.set_xscale("log")
        for axis in (types, loss, predicted):
            add_own_legend(axis)
        return save_figure(figure, path, caption="\n".join(title))


def _draw_spread(axis: Any, steps: Any, values: Float64, name: str, style: int) -> None:
    axis.plot(steps, values.mean(0), color=f"C{style}", linestyle=("-", "--", ":", "-.")[style], label=name)
    axis.fill_between(steps, values.min(0), values.max(0), color=f"C{style}", alpha=0.15, linewidth=0)
