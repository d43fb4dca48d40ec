"""Maps of audits: types of heads (``draw_audit``), and shares over training (``draw_course``)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attomaton.base.drawing import HOUSE_LIGHT, TWO_COLUMNS, colour_map, drawable, house_axes
from attomaton.base.printing import BLUE, ORANGE
from attomaton.base.tables import Bool, Float64
from attomaton.heads.model import Head

# Colours of types, in the order of the legend; assets/page.js has the same colours.
COLOURS = {
    "sink": "#5b6470",
    "previous token": "#0072b2",
    "induction": "#d55e00",
    "duplicate": "#e69f00",
    "position": "#56b4e9",
    "delimiter": "#f0e442",
    "token-specific": "#009e73",
    "next-token seeking": "#cc79a7",
    "contextual": "#dfe3e8",
    "mixed": "#b9a58c",
    "like random weights": "#f3ead7",
    "uniform": "#a3abb5",
    "outside the window": "#c9b8e8",
}

CELL = 0.16  # height in inches of a layer's row in the map of an audit

HEAD_HEIGHT = 0.1  # height in inches of a head's row in a map of a course

HIGHEST = 5.0  # height in inches of all rows of a map, at most

MOST_STEP_LABELS = 12  # steps labelled below a map, at most


def draw_audit(heads: Sequence[Head], types: Sequence[str], seeks: Bool, ax: Any = None) -> Any:
    """A map with a row per layer and a cell per head in the colour of its type; dots: see the legend."""
    names = [name for name in COLOURS if name in types]
    n_layers, n_heads = (max(numbers) + 1 for numbers in zip(*heads, strict=True))
    colours = np.full((n_layers, n_heads), np.nan)  # the index of each cell's type among the names
    for (layer, number), name in zip(heads, types, strict=True):
        colours[layer, number] = names.index(name)
    # Inches for the rows, at least 1.6, and 0.6 for the axis below them.
    height = min(max(CELL * n_layers, 1.6), HIGHEST) + 0.6
    with house_axes(ax, height=height, width=TWO_COLUMNS) as axes:
        axes.pcolormesh(
            np.ma.masked_invalid(colours),
            # The map blends n + 1 colours from 0 to n: type i has colour i, and n does not occur.
            cmap=colour_map([COLOURS[name] for name in (*names, names[-1])]),
            vmin=0,
            vmax=len(names),
            edgecolors="white",
            linewidth=0.6,
        )
        for name in names:
            axes.plot([], [], "s", color=COLOURS[name], label=f"{name} ({types.count(name)})")
        seekers = [
            head
            for head, name, is_seeking in zip(heads, types, seeks, strict=True)
            if is_seeking and name != "next-token seeking"
        ]
        if seekers:
            layer, number = np.array(seekers).T + 0.5  # the middle of the cell
            axes.plot(number, layer, ".", color="black", markersize=3, label="also seeks the next token")
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
        for set_ticks, count in ((axes.set_xticks, n_heads), (axes.set_yticks, n_layers)):
            every = -(-count // 16)  # rounded up, so there are at most 16 labels
            set_ticks(np.arange(0, count, every) + 0.5, [str(label) for label in range(0, count, every)])
        axes.tick_params(length=0)
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
    """Three maps of heads by steps, from shares (n_steps, n_rungs, n_heads) and excess (n_steps, n_heads)."""
    height = min(max(HEAD_HEIGHT * len(heads), 0.6), HIGHEST) + 0.75
    with house_axes(ax, height=height, width=TWO_COLUMNS, n=3, side_by_side=True) as three:
        most = float(np.nanmax(np.abs(excess), initial=1e-12))
        titles = (
            f"explained by {drawable(rungs[0], 24)}",
            f"… and the rungs up to {drawable(rungs[-1], 24)}",
            "next-token excess",
        )
        for axes, values, title in zip(three, (shares[:, 0], shares[:, -1], excess), titles, strict=True):
            is_share = title != "next-token excess"
            drawn = axes.pcolormesh(
                np.ma.masked_invalid(np.clip(values, 0.0, 1.0) if is_share else values).T,
                cmap=colour_map(("white", BLUE) if is_share else (ORANGE, "white", BLUE)),
                vmin=0.0 if is_share else -most,
                vmax=1.0 if is_share else most,
            )
            axes.set_facecolor(HOUSE_LIGHT)
            axes.set_title(title, loc="left")
            axes.set_xlabel("step")
            axes.invert_yaxis()
            _label_axes(axes, steps, heads)
            axes.figure.colorbar(drawn, ax=axes, fraction=0.06, pad=0.03)
        three[0].set_ylabel("head")
    return three


# Label as many heads and steps, evenly spaced, as there is room for.
def _label_axes(axes: Any, steps: Sequence[int], heads: Sequence[str]) -> None:
    for set_ticks, names, room in (
        (axes.set_yticks, list(heads), int(HIGHEST / HEAD_HEIGHT)),
        (axes.set_xticks, [f"{step:,}" for step in steps], MOST_STEP_LABELS),
    ):
        every = -(-len(names) // room)
        rotation = {"rotation": 90} if set_ticks == axes.set_xticks else {}
        set_ticks(np.arange(0, len(names), every) + 0.5, names[::every], **rotation)
    axes.tick_params(length=0)
