"""The priority graph of one query for a paper's column: components in layers, winners on top."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.drawing import GREY, ONE_COLUMN, drawable, measure_text, paper_style, wrap_caption
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.report.figures import new_figure, save_figure
from attomaton.report.page.packing import FIELDS, Packer, expand, sum_up


@dataclass(frozen=True, eq=False)
class PageGraph:
    """The graph of one query, read back from what the page holds.

    Attributes
    ----------
    query, samples : int
        The query, and how many realisable samples it has.
    tokens : int64 array, shape (n_nodes,)
        The nodes, rising; rows below are places among them.
    members : tuple of tuples of int
        The rows of each component.
    hard, soft : float64 arrays, shape (n_nodes,)
        The scores.
    heights : int64 array, shape (n_components,)
        Longest chain below each component.
    above, below, support : int64 arrays, shape (n_pairs,)
        The order between components.
    implied : bool array, shape (n_pairs,)
        Which pairs a longer path replaces.
    """

    query: int
    samples: int
    tokens: Int64
    members: tuple[tuple[int, ...], ...]
    hard: Float64
    soft: Float64
    heights: Int64
    above: Int64
    below: Int64
    support: Int64
    implied: Bool

    @cached_property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """The components of each layer, highest first; larger ones and those with more support come first."""
        weight = np.zeros(len(self.members), np.int64)
        np.add.at(weight, self.above, self.support)
        np.add.at(weight, self.below, self.support)
        sizes = np.array([len(rows) for rows in self.members])
        order = np.lexsort((-weight, -sizes, -self.heights))
        borders = np.flatnonzero(np.diff(self.heights[order])) + 1
        return tuple(tuple(part.tolist()) for part in np.split(order, borders))


def read_graph(packer: Packer, place: int) -> PageGraph:
    """The query at this place of ``packer.queries``, out of its packed form."""
    packed = dict(zip(FIELDS, packer.pack(place), strict=True))
    tokens = sum_up(packed["tokens"])
    soft = np.zeros(len(tokens))
    soft[sum_up(packed["soft_rows"])] = packed["soft_values"]
    above = sum_up(packed["above"])
    implied = np.zeros(len(above), bool)
    implied[sum_up(packed["implied"])] = True
    return PageGraph(
        query=packed["query"],
        samples=packed["samples"],
        tokens=tokens,
        members=_members([sum_up(rows).tolist() for rows in packed["ties"]], len(tokens)),
        hard=np.array(packed["hard_values"])[expand(packed["hard_places"])],
        soft=soft,
        heights=expand(packed["heights"]),
        above=above,
        below=sum_up(packed["below"]),
        support=expand(packed["support"]),
        implied=implied,
    )


def _members(ties: list[list[int]], n_nodes: int) -> tuple[tuple[int, ...], ...]:
    """Ties and every other node alone, by their smallest row, as components are numbered."""
    tied = {row for rows in ties for row in rows}
    alone = [(row,) for row in range(n_nodes) if row not in tied]
    return tuple(sorted([*map(tuple, ties), *alone]))


MOST_LAYERS, MOST_COMPONENTS = 8, 10
"""Layers, and components of a layer, that are drawn."""

MOST_LINES = 160
"""Lines that are drawn, those with the most support."""

HIGH, LINE, BETWEEN = 0.19, 0.26, 0.2
"""Inches: height of a box, from one line of boxes to the next, and between layers."""

GAP, EDGE = 0.07, 0.13
"""Inches: between boxes, and around the text of one."""


@dataclass(frozen=True)
class Box:
    """A component, or a word on those left out, and where it stands, in inches from the top."""

    text: str
    kind: str
    component: int | None
    x: float
    y: float

    @property
    def width(self) -> float:
        """Inches."""
        return _width(self.text)


def draw_graph(graph: PageGraph, name: Callable[[int], str], path: Path) -> list[Path]:
    """Draw a query's graph as its page does; write ``path`` as PNG and PDF."""
    boxes, height = lay_out(graph, name)
    drawn = {box.component: box for box in boxes if box.component is not None}
    caption = _caption(graph, name, len(drawn))
    lines = wrap_caption(caption)
    with paper_style():
        figure = new_figure(height + 0.02 + 0.115 * len(lines) + 0.15)
        axis = figure.subplots()
        axis.set(xlim=(0, ONE_COLUMN), ylim=(height, -0.02))
        axis.set_axis_off()
        for row in _rows_shown(graph, drawn):
            _draw_line(axis, graph, int(row), drawn)
        for box in boxes:
            _draw_box(axis, box)
        return save_figure(figure, path, caption="\n".join(lines))


def lay_out(graph: PageGraph, name: Callable[[int], str]) -> tuple[list[Box], float]:
    """Where boxes stand, layer by layer, broken at the column's width; and how high all is, in inches."""
    boxes: list[Box] = []
    top = 0.0
    for layer in graph.layers[:MOST_LAYERS]:
        shown = layer[:MOST_COMPONENTS]
        items: list[tuple[str, str, int | None]] = [_label(graph, one, name) for one in shown]
        if len(layer) > len(shown):
            items.append((f"+ {len(layer) - len(shown):,} more", "rest", None))
        top = _fill(items, top, boxes) + BETWEEN
    left = len(graph.layers) - MOST_LAYERS
    if left > 0:
        text = f"+ {left:,} layer{'s' * (left != 1)} below"
        top = _fill([(text, "rest", None)], top, boxes) + BETWEEN
    return boxes, top - BETWEEN


def _label(graph: PageGraph, component: int, name: Callable[[int], str]) -> tuple[str, str, int]:
    """What a box says: its token, or of a tie the tokens with the best odds and how many there are."""
    rows = sorted(graph.members[component], key=lambda row: -graph.soft[row])
    if len(rows) == 1:
        return drawable(name(int(graph.tokens[rows[0]])), 14), "one", component
    first = ", ".join(drawable(name(int(graph.tokens[row])), 10) for row in rows[:3])
    rest = f" … ({len(rows):,} tie)" if len(rows) > 3 else ""
    return first + rest, "tie", component


def _width(text: str) -> float:
    return min(EDGE + max(measure_text(text), 0.08), ONE_COLUMN)


def _fill(items: list[tuple[str, str, int | None]], top: float, boxes: list[Box]) -> float:
    """Put boxes side by side, each line in the middle; the place below the last line."""
    lines: list[list[tuple[str, str, int | None]]] = [[]]
    used = 0.0
    for item in items:
        if used and used + _width(item[0]) > ONE_COLUMN:
            lines.append([])
            used = 0.0
        lines[-1].append(item)
        used += _width(item[0]) + GAP
    for line in lines:
        x = (ONE_COLUMN - sum(_width(text) + GAP for text, _, _ in line) + GAP) / 2
        for text, kind, component in line:
            boxes.append(Box(text, kind, component, x, top))
            x += _width(text) + GAP
        top += LINE
    return top


def _rows_shown(graph: PageGraph, drawn: dict[int, Box]) -> Any:
    """The rows of the order between boxes that no longer path replaces, the best supported last."""
    seen = np.zeros(len(graph.members), bool)
    seen[list(drawn)] = True
    rows = np.flatnonzero(seen[graph.above] & seen[graph.below] & ~graph.implied)
    return rows[np.argsort(-graph.support[rows], kind="stable")][:MOST_LINES][::-1]


def _draw_line(axis: Any, graph: PageGraph, row: int, drawn: dict[int, Box]) -> None:
    """A curve from the foot of the winner to the head of the loser, as thick as its support."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    winner, loser = drawn[int(graph.above[row])], drawn[int(graph.below[row])]
    x1, y1, x2, y2 = winner.x + winner.width / 2, winner.y + HIGH, loser.x + loser.width / 2, loser.y
    bend = max(0.1, (y2 - y1) / 2)
    points = [(x1, y1), (x1, y1 + bend), (x2, y2 - bend), (x2, y2)]
    curve = Curve(points, [Curve.MOVETO, *[Curve.CURVE4] * 3])
    width = 0.4 + 1.8 * log(graph.support[row]) / log(1 + graph.support.max())
    axis.add_patch(PathPatch(curve, fill=False, edgecolor=GREY, linewidth=width, alpha=0.55))


def _draw_box(axis: Any, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    look: dict[str, Any] = {
        "one": {"facecolor": "white", "edgecolor": GREY},
        "tie": {"facecolor": "#d6e9f5", "edgecolor": "C0"},
        "rest": {"facecolor": "white", "edgecolor": "none"},
    }[box.kind]
    shape = "round,pad=0,rounding_size=0.05"
    axis.add_patch(FancyBboxPatch((box.x, box.y), box.width, HIGH, boxstyle=shape, zorder=2, **look))
    colour = GREY if box.kind == "rest" else "black"
    place = (box.x + box.width / 2, box.y + HIGH / 2)
    axis.text(*place, box.text, ha="center", va="center_baseline", color=colour, zorder=3, parse_math=False)


def _caption(graph: PageGraph, name: Callable[[int], str], n_drawn: int) -> str:
    number = len(graph.members)
    shown = f"{n_drawn:,} of {number:,} components shown" if n_drawn < number else f"{number:,} components"
    return (
        f"Query “{drawable(name(graph.query), 24)}”: {graph.samples:,} samples, {shown}. Winners above "
        "losers, ties in one box, lines as thick as their support."
    )
