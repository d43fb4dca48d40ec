"""Items of a few kinds: a histogram along one axis, and a scatter plot on two."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attomaton.base import paper_style
from attomaton.base.drawing import HOUSE_GREY, PANEL_HEIGHT, wrap_caption
from attomaton.base.tables import Float64, Int64
from attomaton.report.figures import finish_figure, new_figure

BINS = 40
COLOURS = ("C0", "C1", HOUSE_GREY)
MARKS = ("o", "v", ".")


def draw_bags(
    weight: Float64, agreement: Float64, kind: Int64, path: Path, *, names: Sequence[str], caption: str
) -> list[Path]:
    """Draw a histogram of agreements by kind, and agreement against weight; write ``path`` as PNG and PDF.

    Parameters
    ----------
    weight : float64 array, shape (n,)
        The weight of each item, above 0; on a logarithmic axis.
    agreement : float64 array, shape (n,)
        From −1 to 1.
    kind : int64 array, shape (n,)
        The number of each item's kind.
    path : Path
        The output path, without extension.
    names : sequence of str
        The names of the kinds, at most three.
    caption : str
        The caption.
    """
    title = wrap_caption(caption)
    chosen = [kind == number for number in range(len(names))]
    with paper_style():
        figure = new_figure(2 * PANEL_HEIGHT + 0.11 * len(title) + 0.7)
        above, below = figure.subplots(2, 1, sharex=True)
        bins = np.linspace(-1, 1, BINS + 1)
        above.hist(
            [agreement[rule] for rule in chosen], bins, stacked=True, color=COLOURS[: len(names)], label=names
        )
        above.set_title("queries by agreement of beginning and end", loc="left")
        for rule, colour, mark in zip(chosen, COLOURS, MARKS, strict=False):
            below.plot(
                agreement[rule], weight[rule], mark, color=colour, markersize=2, alpha=0.5, markeredgewidth=0
            )
        below.set_yscale("log")
        below.set_title("how often each query occurs", loc="left")
        below.set_xlabel("rank agreement of Q̄'s row and W_svm's column")
        below.set_xlim(-1, 1)
        return finish_figure(figure, path, caption="\n".join(title), n_columns=1)
