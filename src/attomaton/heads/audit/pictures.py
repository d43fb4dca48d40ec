"""What each rung adds to each head, drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attomaton.base.drawing import GREY, LIGHT, TWO_COLUMNS, colour_map, drawable, house_axes
from attomaton.base.printing import BLUE, GREEN, ORANGE
from attomaton.base.tables import Bool, Float64

COLOURS = (GREY, BLUE, ORANGE, GREEN, "#8a5cb8", "#b0892e", "#3a9aa8", "#e08fb4", "#222222", "#9fc131")
"""Colours of rungs in order, repeated if there are more."""

ROW, HIGHEST = 0.1, 5.0
"""Height in inches of a head's row in a map, and of all rows at most."""

VISIBLE = 0.01
"""A rung is in the legend if it adds at least this share to some head."""

MOST_STEPS = 12
"""Steps labelled below a map, at most."""


def draw_audit(
    heads: Sequence[str], rungs: Sequence[str], shares: Float64, seeks: Bool, ax: Any = None
) -> Any:
    """Explained shares, shape (n_rungs, n_heads), as bars of what rungs add; a dot marks label-seeking heads.

    A rung that lowers the share on held-out documents has no bar; the legend names visible rungs only.
    """
    tops = np.maximum(np.maximum.accumulate(shares, axis=0), 0.0)
    places = np.arange(len(heads))
    with house_axes(ax, height=2.2, width=TWO_COLUMNS) as axes:
        below = np.zeros(len(heads))
        for number, (name, top) in enumerate(zip(rungs, tops, strict=True)):
            colour = COLOURS[number % len(COLOURS)]
            label = drawable(name, 24) if (top - below).max(initial=0.0) >= VISIBLE else "_"
            axes.bar(places, top - below, 0.8, bottom=below, color=colour, label=label)
            below = top
        seekers = places[np.asarray(seeks, bool)]
        axes.plot(
            seekers, np.full(len(seekers), 1.03), ".", color="black", markersize=4, label="seeks the label"
        )
        axes.set_ylim(0.0, 1.08)
        axes.set_xlim(-0.6, len(heads) - 0.4)
        every = max(len(heads) // 40, 1)
        axes.set_xticks(places[::every], [heads[place] for place in places[::every]], rotation=90)
        axes.set_ylabel("explained share")
        axes.set_title("What explains where each head looks, on held-out documents", loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return axes


def draw_course(
    steps: Sequence[int],
    heads: Sequence[str],
    rungs: Sequence[str],
    shares: Float64,
    excess: Float64,
    ax: Any = None,
) -> Any:
    """Three maps with one row per head and one column per step.

    They show the share that the first rung explains, that of all rungs, and the label excess. ``shares`` has
    shape (n_steps, n_rungs, n_heads), ``excess`` (n_steps, n_heads). ``ax`` is None or three axes, which are
    returned. Shares below 0 are drawn as 0.
    """
    height = min(max(ROW * len(heads), 0.6), HIGHEST) + 0.75
    with house_axes(ax, height=height, width=TWO_COLUMNS, n=3, across=True) as three:
        most = float(np.nanmax(np.abs(excess), initial=1e-12))
        titles = (
            f"explained by {drawable(rungs[0], 24)}",
            f"… and the rungs up to {drawable(rungs[-1], 24)}",
            "label excess",
        )
        for axes, values, title in zip(three, (shares[:, 0], shares[:, -1], excess), titles, strict=True):
            is_share = title != "label excess"
            drawn = axes.pcolormesh(
                np.ma.masked_invalid(np.clip(values, 0.0, 1.0) if is_share else values).T,
                cmap=colour_map(("white", BLUE) if is_share else (ORANGE, "white", BLUE)),
                vmin=0.0 if is_share else -most,
                vmax=1.0 if is_share else most,
            )
            axes.set_facecolor(LIGHT)
            axes.set_title(title, loc="left")
            axes.set_xlabel("step")
            axes.invert_yaxis()
            _mark_ends(axes, steps, heads)
            axes.figure.colorbar(drawn, ax=axes, fraction=0.06, pad=0.03)
        three[0].set_ylabel("head")
    return three


def _mark_ends(axes: Any, steps: Sequence[int], heads: Sequence[str]) -> None:
    """Label as many heads and steps as there is room for."""
    for place, names, room in (
        (axes.set_yticks, list(heads), int(HIGHEST / ROW)),
        (axes.set_xticks, [f"{step:,}" for step in steps], MOST_STEPS),
    ):
        every = -(-len(names) // room)
        turned = {"rotation": 90} if place == axes.set_xticks else {}
        place(np.arange(0, len(names), every) + 0.5, names[::every], **turned)
    axes.tick_params(length=0)
