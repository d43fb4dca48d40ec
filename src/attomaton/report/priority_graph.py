"""Draw the priority graph of one query as a figure: components in layers, winners on top."""

# `draw_graph` lays out a box for each component, with `lay_out_boxes`, then draws the pairs of the order as
# lines between boxes, then the boxes.

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.drawing import HOUSE_GREY, ONE_COLUMN, drawable, measure_text, paper_style, wrap_caption
from attomaton.base.printing import count_noun
from attomaton.report.figures import new_figure, save_figure
from attomaton.report.page.packing import PageGraph

MOST_DRAWN_LAYERS, MOST_COMPONENTS = 8, 10  # layers, and components of a layer
MOST_DRAWN_LINES = 160  # those with the most support
# In inches: height of a box, distance from one line of boxes to the next, and extra space after a layer.
BOX_HEIGHT, LINE_HEIGHT, LAYER_GAP = 0.19, 0.26, 0.2

# In inches: distance between boxes in a line, margin around the text of a box, and the least width of the
# text.
BOX_GAP, BOX_MARGIN, LEAST_TEXT = 0.07, 0.13, 0.08

CAPTION_LINE, CAPTION_GAP = 0.115, 0.15  # in inches: height of a line of the caption, and space around it
TOP_MARGIN = 0.02  # in inches, for the line of the first boxes
LONE_CHARACTERS, TIED_CHARACTERS = 14, 10  # characters of a token alone, and in a tie
SHOWN_TIES = 3  # tokens of a tie that are named


class Label(NamedTuple):
    """The text of a box, its kind ("token", "tie" or "note"), and its component."""

    text: str
    kind: str
    component: int | None = None

    @property
    def width(self) -> float:
        """The width of the box, in inches."""
        return min(BOX_MARGIN + max(measure_text(self.text), LEAST_TEXT), ONE_COLUMN)


class Box(NamedTuple):
    """A label and its position, in inches from the top left corner."""

    label: Label
    x: float
    y: float

    @property
    def centre(self) -> float:
        """The x of its middle."""
        return self.x + self.label.width / 2


def draw_graph(graph: PageGraph, name: Callable[[int], str], path: Path) -> list[Path]:
    """Draw the graph as PNG and PDF; ``name`` gives the text of a token."""
    boxes, height = lay_out_boxes(graph, name)
    drawn = {box.label.component: box for box in boxes if box.label.component is not None}
    lines = wrap_caption(_caption(graph, name, len(drawn)))
    with paper_style():
        figure = new_figure(height + TOP_MARGIN + CAPTION_LINE * len(lines) + CAPTION_GAP)
        axis = figure.subplots()
        axis.set(xlim=(0, ONE_COLUMN), ylim=(height, -TOP_MARGIN))  # y grows downwards
        axis.set_axis_off()
        for row in _select_pairs(graph, drawn):
            _draw_line(axis, graph, int(row), drawn)
        for box in boxes:
            _draw_box(axis, box)
        return save_figure(figure, path, caption="\n".join(lines))


def lay_out_boxes(graph: PageGraph, name: Callable[[int], str]) -> tuple[list[Box], float]:
    """The boxes, layer by layer, in lines no wider than the column; and the total height in inches."""
    boxes: list[Box] = []
    top = 0.0
    for layer in graph.layers[:MOST_DRAWN_LAYERS]:
        shown = layer[:MOST_COMPONENTS]
        labels = [_label(graph, component, name) for component in shown]
        if len(layer) > len(shown):
            labels.append(Label(f"+ {len(layer) - len(shown):,} more", "note"))
        top = _add_boxes(labels, top, boxes) + LAYER_GAP
    n_hidden = len(graph.layers) - MOST_DRAWN_LAYERS
    if n_hidden > 0:
        note = Label(f"+ {count_noun(n_hidden, 'layer')} below", "note")
        top = _add_boxes([note], top, boxes) + LAYER_GAP
    return boxes, top - LAYER_GAP


# The label of a component: its token, or, for a tie, its most probable tokens and their number.
def _label(graph: PageGraph, component: int, name: Callable[[int], str]) -> Label:
    rows = sorted(graph.members[component], key=lambda row: -graph.soft[row])
    if len(rows) == 1:
        return Label(drawable(name(int(graph.tokens[rows[0]])), LONE_CHARACTERS), "token", component)
    best = ", ".join(drawable(name(int(graph.tokens[row])), TIED_CHARACTERS) for row in rows[:SHOWN_TIES])
    ellipsis = f" … ({len(rows):,} tie)" if len(rows) > SHOWN_TIES else ""
    return Label(best + ellipsis, "tie", component)


# Add a box for each label, from `top` on, in as many centred lines as they need; return where the last
# line ends.
def _add_boxes(labels: list[Label], top: float, boxes: list[Box]) -> float:
    lines: list[list[Label]] = [[]]
    used = 0.0  # the width of the last line
    for label in labels:
        if used and used + label.width > ONE_COLUMN:
            lines.append([])
            used = 0.0
        lines[-1].append(label)
        used += label.width + BOX_GAP
    for line in lines:
        x = (ONE_COLUMN - sum(label.width + BOX_GAP for label in line) + BOX_GAP) / 2
        for label in line:
            boxes.append(Box(label, x, top))
            x += label.width + BOX_GAP
        top += LINE_HEIGHT
    return top


# The pairs of the order to draw, the best supported last; implied pairs are left out.
def _select_pairs(graph: PageGraph, drawn: dict[int, Box]) -> Any:
    is_drawn = np.zeros(len(graph.members), bool)
    is_drawn[list(drawn)] = True
    rows = np.flatnonzero(is_drawn[graph.above] & is_drawn[graph.below] & ~graph.implied)
    return rows[np.argsort(-graph.support[rows], kind="stable")][:MOST_DRAWN_LINES][::-1]


def _draw_line(axis: Any, graph: PageGraph, row: int, drawn: dict[int, Box]) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    # a pair of the order as a curve from the foot of the winner to the top of the loser, vertical at both
    # ends
    winner, loser = drawn[int(graph.above[row])], drawn[int(graph.below[row])]
    foot = winner.y + BOX_HEIGHT
    bend = max(0.1, (loser.y - foot) / 2)
    points = [(winner.centre, foot), (winner.centre, foot + bend)]
    points += [(loser.centre, loser.y - bend), (loser.centre, loser.y)]
    curve = Curve(points, [Curve.MOVETO, *[Curve.CURVE4] * 3])
    width = 0.4 + 1.8 * log(graph.support[row]) / log(1 + graph.support.max())  # 0.4 to 2.2 points
    axis.add_patch(PathPatch(curve, fill=False, edgecolor=HOUSE_GREY, linewidth=width, alpha=0.55))


def _draw_box(axis: Any, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    look: dict[str, Any] = {
        "token": {"facecolor": "white", "edgecolor": HOUSE_GREY},
        "tie": {"facecolor": "#d6e9f5", "edgecolor": "C0"},
        "note": {"facecolor": "white", "edgecolor": "none"},
    }[box.label.kind]
    shape = "round,pad=0,rounding_size=0.05"
    axis.add_patch(
        FancyBboxPatch((box.x, box.y), box.label.width, BOX_HEIGHT, boxstyle=shape, zorder=2, **look)
    )
    style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "zorder": 3, "parse_math": False}
    colour = HOUSE_GREY if box.label.kind == "note" else "black"
    axis.text(box.centre, box.y + BOX_HEIGHT / 2, box.label.text, color=colour, **style)


def _caption(graph: PageGraph, name: Callable[[int], str], n_drawn: int) -> str:
    number = len(graph.members)
    shown = f"{n_drawn:,} of {number:,} components shown" if n_drawn < number else f"{number:,} components"
    return (
        f"Query “{drawable(name(graph.query), 24)}”: {graph.samples:,} samples, {shown}. Winners above "
        "losers, tied tokens in one box; thicker lines have more support."
    )
