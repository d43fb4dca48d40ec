"""Token shares over the length of a text, drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attomaton.base.display import BLUE, GREEN, ORANGE
from attomaton.base.drawing import GREY, drawable, house_axes
from attomaton.base.tables import Float64, Int64

COLOURS = (BLUE, ORANGE, GREEN, "#8a5cb8", "#b0892e", "#3a9aa8")
"""Colours of the tokens with the largest shares; all others are grey."""

LONGEST = 16
"""Signs of a token that are shown."""


def draw_shares(
    names: Sequence[str],
    lengths: Int64,
    shares: Float64,
    limit: Float64 | None,
    drawn: tuple[Int64, Float64] | None,
    ax: Any = None,
) -> Any:
    """Predicted shares dashed, drawn ones solid, limits as marks at the right; the axes."""
    last = shares[-1] if limit is None else np.maximum(shares[-1], limit)
    order: list[int] = np.argsort(-last, kind="stable").tolist()
    with house_axes(ax, height=2.0) as axes:
        for rank, place in enumerate(order):
            named = rank < len(COLOURS)
            colour = COLOURS[rank] if named else GREY
            label = drawable(names[place], LONGEST) if named else None
            axes.plot(lengths, shares[:, place], "--", color=colour, linewidth=0.9, label=label)
            if drawn is not None:
                axes.plot(drawn[0], drawn[1][:, place], "-", color=colour, linewidth=0.7, alpha=0.7)
            if limit is not None and named:
                axes.plot([lengths[-1]], [limit[place]], "<", color=colour, markersize=4, clip_on=False)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("length of the text, t")
        axes.set_ylabel("share of the tokens")
        told = "dashed: predicted, marks: the limit" + ", solid: drawn" * (drawn is not None)
        axes.set_title(f"Token shares ({told})", loc="left")
        axes.legend(loc="best", frameon=False)
    return axes
