"""Drawings of attention: the tokens that a query prefers, and the weight of each position of a context."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.drawing import HOUSE_GREY, drawable, house_axes, measure_text, wrap_caption
from attomaton.base.errors import UnsupportedOption
from attomaton.base.printing import BLUE, ORANGE, shorten

MOST_RANKED = 20  # tokens drawn for a query
MOST_POSITIONS = 40  # last positions drawn of a context
# In inches: the height of a row, of everything else, and of each further line of the title.
TOKEN_HEIGHT = 0.14
AXES_HEIGHT = 0.62
LINE_INCHES = 0.11

LONGEST_NAME = 16  # characters drawn of a token


@dataclass(frozen=True)
class Ranking:
    """The bars of the best tokens of a query, best first: their names, scores, and notes at their ends.

    ``total`` is the number of tokens with evidence under the query, and ``axis`` names the scores.
    """

    query: str
    names: Sequence[str]
    scores: Sequence[float]
    notes: Sequence[str]
    total: int
    axis: str


def check_ranked(query: str, n_tokens: int) -> None:
    # refuse a query without evidence about any token
    if not n_tokens:
        raise UnsupportedOption(
            f"there is nothing to draw under the query {shorten(query)!r}, because no sample with this query "
            "has its label in its context; choose another query"
        )


def draw_ranking(ranking: Ranking, ax: Any = None) -> Any:
    # horizontal bars, the best token at the top, with notes at the ends of the bars
    names = [drawable(name, LONGEST_NAME) for name in ranking.names]
    shown = f"{len(names)} of {ranking.total:,} tokens" if len(names) < ranking.total else "tokens"
    title = f"Under the query “{drawable(ranking.query, LONGEST_NAME)}”: {shown}, best first"
    lines = wrap_caption(title)
    with house_axes(
        ax, height=TOKEN_HEIGHT * len(names) + AXES_HEIGHT + LINE_INCHES * (len(lines) - 1)
    ) as axes:
        heights = np.arange(len(names))
        colours = [BLUE if score >= 0 else ORANGE for score in ranking.scores]
        axes.barh(heights, ranking.scores, color=colours, height=0.72)
        axes.axvline(0.0, color="black", linewidth=0.6)
        for height, score, note in zip(heights, ranking.scores, ranking.notes, strict=True):
            side = {"ha": "left", "xytext": (2, 0)} if score >= 0 else {"ha": "right", "xytext": (-2, 0)}
            style = {"va": "center_baseline", "fontsize": "x-small", "textcoords": "offset points"}
            axes.annotate(note, (score, height), color="black", **style, **side)
        axes.set_yticks(heights, names, parse_math=False)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.margins(x=0.14)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(ranking.axis)
        axes.set_title("\n".join(lines), loc="left", parse_math=False)
    return axes


def draw_positions(names: Sequence[str], weights: Sequence[float], rule: str, ax: Any = None) -> Any:
    # vertical bars, one for each of the last positions; the sum of the others is in the title
    n_hidden = max(len(names) - MOST_POSITIONS, 0)
    hidden = f" ({n_hidden:,} earlier positions: {sum(weights[:n_hidden]):.1%})" if n_hidden else ""
    texts = [drawable(name, LONGEST_NAME) for name in names[n_hidden:]]
    heights = list(weights[n_hidden:])
    query = drawable(names[-1], LONGEST_NAME)
    lines = wrap_caption(f"Attention by position, query “{query}”: {rule}{hidden}")
    label_height = max(measure_text(text) for text in texts)
    with house_axes(ax, height=1.0 + label_height + LINE_INCHES * len(lines)) as axes:
        positions = np.arange(len(texts))
        axes.bar(positions, heights, color=BLUE, width=0.72)
        axes.set_xticks(positions, texts, rotation=90, parse_math=False)
        axes.get_xticklabels()[-1].set_fontweight("bold")
        for label, weight in zip(axes.get_xticklabels(), heights, strict=True):
            label.set_color("black" if weight else HOUSE_GREY)
        axes.set_xlim(-0.6, len(texts) - 0.4)
        axes.set_ylim(0.0, max(1.08 * max(heights), 1e-9))  # some room above; not empty if all are 0
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("attention")
        axes.set_title("\n".join(lines), loc="left", parse_math=False)
    return axes
