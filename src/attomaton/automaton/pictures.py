"""What attention prefers under a query, and where it looks in a context, drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.drawing import GREY, drawable, house_axes, measure_text, wrap_caption
from attomaton.base.printing import BLUE, ORANGE

MOST_ROWS = 20
"""Tokens of a query that are drawn."""

MOST_POSITIONS = 40
"""Positions of a context that are drawn: the last ones."""

ROW, BESIDES = 0.14, 0.62
"""Inches of one row, and of all that is not rows."""

LONGEST = 16
"""Signs of a token that are shown."""


@dataclass(frozen=True)
class Ranking:
    """The tokens of a query, best first.

    ``notes`` stand at the end of each bar; ``total`` is how many tokens there are.
    """

    query: str
    names: Sequence[str]
    scores: Sequence[float]
    notes: Sequence[str]
    total: int
    axis: str


def draw_ranking(ranking: Ranking, ax: Any = None) -> Any:
    """A bar for each token, the best on top: blue ones are preferred, orange ones beaten; the axes."""
    names = [drawable(name, LONGEST) for name in ranking.names]
    shown = f"{len(names)} of {ranking.total:,} tokens" if len(names) < ranking.total else "tokens"
    title = f"Under the query “{drawable(ranking.query, LONGEST)}”: {shown}, best first"
    lines = wrap_caption(title)
    with house_axes(ax, height=ROW * len(names) + BESIDES + 0.11 * (len(lines) - 1)) as axes:
        places = np.arange(len(names))
        colours = [BLUE if score >= 0 else ORANGE for score in ranking.scores]
        axes.barh(places, ranking.scores, color=colours, height=0.72)
        axes.axvline(0.0, color="black", linewidth=0.6)
        for place, score, note in zip(places, ranking.scores, ranking.notes, strict=True):
            side = {"ha": "left", "xytext": (2, 0)} if score >= 0 else {"ha": "right", "xytext": (-2, 0)}
            beside = {"va": "center_baseline", "fontsize": "x-small", "textcoords": "offset points"}
            axes.annotate(note, (score, place), color="black", **beside, **side)
        axes.set_yticks(places, names, parse_math=False)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.margins(x=0.14)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(ranking.axis)
        axes.set_title("\n".join(lines), loc="left", parse_math=False)
    return axes


def draw_positions(names: Sequence[str], weights: Sequence[float], told: str, ax: Any = None) -> Any:
    """A bar for each position of a context, as high as its attention; the last one is the query; the axes."""
    hidden = max(len(names) - MOST_POSITIONS, 0)
    before = f" ({hidden:,} earlier positions: {sum(weights[:hidden]):.1%})" if hidden else ""
    texts, heights = [drawable(name, LONGEST) for name in names[hidden:]], list(weights[hidden:])
    lines = wrap_caption(f"Attention by position, query “{drawable(names[-1], LONGEST)}”: {told}{before}")
    room = max(measure_text(text) for text in texts)
    with house_axes(ax, height=1.0 + room + 0.11 * len(lines)) as axes:
        places = np.arange(len(texts))
        axes.bar(places, heights, color=BLUE, width=0.72)
        axes.set_xticks(places, texts, rotation=90, parse_math=False)
        axes.get_xticklabels()[-1].set_fontweight("bold")
        for label, weight in zip(axes.get_xticklabels(), heights, strict=True):
            label.set_color("black" if weight else GREY)
        axes.set_xlim(-0.6, len(texts) - 0.4)
        axes.set_ylim(0.0, max(1.08 * max(heights), 1e-9))
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("attention")
        axes.set_title("\n".join(lines), loc="left", parse_math=False)
    return axes
