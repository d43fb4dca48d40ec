"""Attention maps with their tokens, for a paper's column."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base import paper_style
from attomaton.base.drawing import HOUSE_LIGHT, drawable, wrap_caption
from attomaton.base.tables import Float64
from attomaton.report.figures import hide_rest, new_figure, save_figure

SIDE = 1.5
"""Size of one map in inches."""


@dataclass(frozen=True, eq=False)
class MapPanel:
    """One square map.

    Attributes
    ----------
    title : str
        The title.
    masses : float64 array, shape (n, n)
        Rows are queries, columns keys; entries above the diagonal are grey.
    tokens : sequence of str
        The token of each row and column.
    """

    title: str
    masses: Float64
    tokens: Sequence[str]


def draw_maps(panels: Sequence[MapPanel], path: Path, *, caption: str, n_columns: int = 2) -> list[Path]:
    """Draw the maps row by row on one colour scale; write ``path`` as PNG and PDF.

    Tokens are shown at the left of each row of maps and below each column, so the maps of a row, and
    those of a column, should have the same tokens.
    """
    n_rows = -(-len(panels) // n_columns)
    lines = wrap_caption(caption)
    with paper_style():
        figure = new_figure(SIDE * n_rows + 0.85 + 0.11 * len(lines))
        axes = figure.subplots(n_rows, n_columns, sharex="col", sharey="row", squeeze=False)
        used = zip(hide_rest(axes, len(panels)), panels, strict=True)
        image = [_draw(axis, panel) for axis, panel in used][-1]
        bar = figure.colorbar(
            image,
            ax=axes,
            location="bottom",
            fraction=0.03,
            pad=0.02,
            aspect=40,
            ticks=[0, 0.05, 0.2, 0.5, 1],
        )
        bar.set_label("attention of the row's token on the column's")
        return save_figure(figure, path, caption="\n".join(lines))


def _draw(axis: Any, panel: MapPanel) -> Any:
    """Colours follow the square root, which separates small masses."""
    from matplotlib.colors import PowerNorm

    masses = np.ma.masked_array(panel.masses, np.triu(np.ones(panel.masses.shape, bool), 1))
    image = axis.imshow(masses, norm=PowerNorm(0.5, 0.0, 1.0), interpolation="nearest")
    places = np.arange(len(panel.tokens))
    names = [drawable(token, 11) for token in panel.tokens]
    size = min(6.0, 72 * SIDE / len(names) * 0.85)
    axis.set_xticks(places, names, rotation=90, fontsize=size, parse_math=False)
    axis.set_yticks(places, names, fontsize=size, parse_math=False)
    axis.tick_params(length=0, pad=1.5)
    axis.set_title(panel.title)
    axis.set_facecolor(HOUSE_LIGHT)  # hidden from all queries
    axis.spines[:].set_visible(False)
    return image
