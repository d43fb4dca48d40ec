"""Scores of tokens under several queries as a map: blue tokens are preferred, orange ones beaten."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.drawing import LIGHT, drawable, paper_style, wrap_caption
from attomaton.base.tables import Float64, Int64
from attomaton.report.query_graph import PageGraph
from attomaton.report.style import new_figure, save_figure

ROWS, COLUMNS = 14, 8
"""Tokens and queries that are shown."""

ROW = 0.15
"""Inches of one row."""


def choose_tokens(graphs: Sequence[PageGraph]) -> Int64:
    """The tokens that a map shows, as the page chooses them.

    Tokens of the first query that most queries know, those with ties and high scores first; best on top.
    """
    own = graphs[0]
    tied = np.zeros(len(own.tokens), bool)
    tied[[row for rows in own.members if len(rows) > 1 for row in rows]] = True
    times = sum(np.isin(own.tokens, graph.tokens).astype(np.int64) for graph in graphs)
    first = np.lexsort((-(10.0 * tied + np.abs(own.hard)), -np.asarray(times)))[:ROWS]
    return own.tokens[first[np.argsort(-own.hard[first], kind="stable")]]


def gather_scores(graphs: Sequence[PageGraph], tokens: Int64) -> Float64:
    """Hard scores, rows tokens, columns queries; NaN where a query has no evidence of a token."""
    values = np.full((len(tokens), len(graphs)), np.nan)
    for place, graph in enumerate(graphs):
        rows = np.searchsorted(graph.tokens, tokens).clip(max=len(graph.tokens) - 1)
        known = graph.tokens[rows] == tokens
        values[known, place] = graph.hard[rows[known]]
    return values


def draw_heat(graphs: Sequence[PageGraph], name: Callable[[int], str], path: Path) -> list[Path]:
    """Draw the hard scores under these queries; write ``path`` as PNG and PDF."""
    tokens = choose_tokens(graphs)
    values = gather_scores(graphs, tokens)
    caption = (
        f"Hard scores of {len(tokens)} tokens (rows) under {len(graphs)} queries (columns). Blue tokens are "
        "preferred, orange ones beaten; an empty cell is without evidence."
    )
    lines = wrap_caption(caption)
    with paper_style():
        figure = new_figure(ROW * len(tokens) + 0.75 + 0.115 * len(lines))
        axis = figure.subplots()
        _draw(axis, values)
        rows = [drawable(name(int(token)), 14) for token in tokens]
        columns = [drawable(name(graph.query), 10) for graph in graphs]
        axis.set_yticks(np.arange(len(rows)) + 0.5, rows, parse_math=False)
        axis.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=45, ha="right", parse_math=False)
        return save_figure(figure, path, caption="\n".join(lines))


def _draw(axis: Any, values: Float64) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colours: Any = LinearSegmentedColormap.from_list("scores", ["C1", "white", "C0"])
    most = float(np.nanmax(np.abs(values), initial=1e-12))
    edges = {"edgecolors": "white", "linewidth": 0.6}
    axis.pcolormesh(np.ma.masked_invalid(values), cmap=colours, vmin=-1.6 * most, vmax=1.6 * most, **edges)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")
            axis.text(column + 0.5, row + 0.5, text, ha="center", va="center_baseline", fontsize="x-small")
    axis.invert_yaxis()
    axis.set_facecolor(LIGHT)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
