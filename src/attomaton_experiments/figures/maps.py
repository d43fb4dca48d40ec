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
    positions = np.arange(len(panel.tokens))
    names = [drawable(token, 11) for token in panel.tokens]
    size = min(6.0, 72 * SIDE / len(names) * 0.85)
    axis.set_xticks(positions, names, rotation=90, fontsize=size, parse_math=False)
    axis.set_yticks(positions, names, fontsize=size, parse_math=False)
    axis.tick_params(length=0, pad=1.5)
    axis.set_title(panel.title)
    axis.set_facecolor(HOUSE_LIGHT)  # hidden from all queries
    axis.spines[:].set_visible(False)
    return image


@dataclass(frozen=True, eq=False)
class BandPanel:
    """Rows of attention, one per record.

    Attributes
    ----------
    title : str
        The title.
    masses : float64 array, shape (n_records, n_tokens)
        The attention of each record.
    names : sequence of str
        The names of the records.
    """

    title: str
    masses: Float64
    names: Sequence[str]


def draw_bands(
    panels: Sequence[BandPanel], path: Path, *, caption: str, border: int, columns: str
) -> list[Path]:
    """Draw the panels below each other on one colour scale, with a line before column ``border``."""
    lines = wrap_caption(caption)
    most = max(float(panel.masses.max()) for panel in panels)
    with paper_style():
        figure = new_figure(1.25 * len(panels) + 0.8 + 0.11 * len(lines))
        axes = figure.subplots(len(panels), 1, sharex="col", squeeze=False)[:, 0]
        image: Any = None
        for axis, panel in zip(axes, panels, strict=True):
            image = axis.imshow(panel.masses, vmin=0.0, vmax=most, aspect="auto", interpolation="nearest")
            axis.axvline(border - 0.5, color="white", linestyle="--", linewidth=1)
            axis.set_yticks(range(len(panel.names)), panel.names)
            axis.set_ylabel("step")
            axis.set_title(panel.title)
        axes[-1].set_xticks(range(0, panels[0].masses.shape[1], 5))
        axes[-1].set_xlabel(columns)
        figure.colorbar(image, ax=list(axes), location="right", fraction=0.04, pad=0.02)
        return save_figure(figure, path, caption="\n".join(lines))
