"""A training run, drawn: its loss and the norm of its weights, step by step."""

from typing import Any

import numpy as np

from attomaton.base.display import BLUE
from attomaton.base.drawing import HEIGHT, house_axes
from attomaton.base.tables import Float64, Int64


def draw_run(steps: Int64, losses: Float64, norms: Float64, ax: Any = None) -> Any:
    """Loss and norm of W by step, mean ± standard deviation over trials, shape (n_records, n_trials) each.

    ``ax`` is None or a pair of axes, which are returned.
    """
    with house_axes(ax, height=2 * HEIGHT, n=2) as pair:
        several = losses.shape[1] > 1
        for axes, values, title, level in (
            (pair[0], losses, "training loss", True),
            (pair[1], norms, "norm of W", False),
        ):
            _draw(axes, steps, values, log=level)
            axes.set_title(
                f"{title}, mean ± std of {losses.shape[1]:,} trials" if several else title, loc="left"
            )
        pair[1].set_xlabel("step")
    return pair


def _draw(axes: Any, steps: Int64, values: Float64, *, log: bool) -> None:
    kept = steps > 0 if (steps > 0).sum() > 1 else np.ones(len(steps), bool)
    at, shown = steps[kept], values[kept]
    log = log and bool((shown > 0).all())
    if log:
        with np.errstate(invalid="ignore"):
            shown = np.log(shown)
    mean, spread = shown.mean(axis=1), shown.std(axis=1)
    middle, lower, upper = (np.exp(one) if log else one for one in (mean, mean - spread, mean + spread))
    if values.shape[1] > 1:
        axes.fill_between(at, lower, upper, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(at, middle, color=BLUE, marker="o" if len(at) == 1 else None)
    if len(at) > 1 and at[0] > 0:
        axes.set_xscale("log")
    if log:
        axes.set_yscale("log")
