"""What each rung adds to each head, drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attomaton.display import BLUE, GREEN, ORANGE
from attomaton.drawing import GREY, TWO_COLUMNS, drawable, house_axes
from attomaton.tables import Bool, Float64

COLOURS = (GREY, BLUE, ORANGE, GREEN, "#8a5cb8", "#b0892e", "#3a9aa8")
"""Colours of rungs, in their order, and from the first on again."""


def draw_audit(
    heads: Sequence[str], rungs: Sequence[str], shares: Float64, seeks: Bool, ax: Any = None
) -> Any:
    """Explained shares, shape (n_rungs, n_heads), as bars of what rungs add; a dot: the head seeks the label.

    A rung that takes away from those before it, on documents held back, is drawn as nothing.
    """
    tops = np.maximum(np.maximum.accumulate(shares, axis=0), 0.0)
    places = np.arange(len(heads))
    with house_axes(ax, height=2.2, width=TWO_COLUMNS) as axes:
        below = np.zeros(len(heads))
        for number, (name, top) in enumerate(zip(rungs, tops, strict=True)):
            colour = COLOURS[number % len(COLOURS)]
            axes.bar(places, top - below, 0.8, bottom=below, color=colour, label=drawable(name, 24))
            below = top
        found = places[np.asarray(seeks, bool)]
        axes.plot(found, np.full(len(found), 1.03), ".", color="black", markersize=4, label="seeks the label")
        axes.set_ylim(0.0, 1.08)
        axes.set_xlim(-0.6, len(heads) - 0.4)
        every = max(len(heads) // 40, 1)
        axes.set_xticks(places[::every], [heads[place] for place in places[::every]], rotation=90)
        axes.set_ylabel("explained share")
        axes.set_title("What explains where each head looks, on documents held back", loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return axes
