"""Draw the picture of the README: ``python docs/pictures/questions.py heads.parquet``.

Three panels, each under its command: what an automaton retrieves, the types of the heads of a model, and a
board with an infinite rating. ``heads.parquet`` is what the README's second command writes with ``--out``.
"""

import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import attomaton as at
from attomaton.base.drawing import paper_style
from attomaton.choices import simulate_arena
from attomaton.heads import HeadAudit
from attomaton.heads.audit.pictures import COLOURS

PLACE = Path(__file__).parents[1] / "figures" / "questions.png"
CONTEXT = "the wind saw the lamp and the"
COMMANDS = (
    'attomaton explain run "the wind saw\n  the lamp and the"',
    "attomaton heads MODEL passages.jsonl\n  --figure heads.png",
    "attomaton choices arena.csv --scale elo\n  --moved-first model_a --features length …",
)
QUESTIONS = ("What will attention learn?", "What did my model's heads learn?", "How to rate who never won?")
PRINTED = (("arena-rank", "−1256 ± 0"), ("choix", "−1290"), ("scikit-learn", "548"))
"""What other packages print for the model that lost all of its battles (Elo, on arena.csv)."""

BLUE, RED, GREY, LIGHT = "#0072b2", "#d55e00", "#525d6e", "#dfe3e8"


def draw(audit: HeadAudit) -> Figure:
    """The picture."""
    with paper_style():
        figure = Figure(figsize=(10.0, 4.1), layout="none")
        panels = [figure.add_axes(box) for box in ((0.01, 0.06, 0.3, 0.74), (0.365, 0.09, 0.16, 0.68))]
        panels.append(figure.add_axes((0.765, 0.1, 0.225, 0.67)))
        for left, question, command in zip((0.01, 0.345, 0.68), QUESTIONS, COMMANDS, strict=True):
            figure.text(left, 0.965, question, fontsize=11, weight="bold", va="top")
            figure.text(left, 0.885, f"$ {command}", fontsize=8, family="monospace", va="top", color=GREY)
        _draw_answer(panels[0])
        _draw_types(panels[1], audit)
        _draw_board(panels[2])
    return figure


def _draw_answer(axis: Any) -> None:
    """The context, the tokens that are retrieved from it, and their probabilities."""
    explanation = at.learn(str(files("attomaton.corpora") / "example.txt"), window=8).explain(CONTEXT)
    retrieved = {token for component in explanation.retrieved for token in component}
    words = CONTEXT.split()
    axis.set(xlim=(0, 10), ylim=(0, 10), xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    x = 0.0
    for word, token in zip(words, explanation.context, strict=True):
        width = 0.22 * len(word) + 0.36
        is_retrieved = token in retrieved
        box = {"boxstyle": "round,pad=0.3", "facecolor": "#dcebfb" if is_retrieved else "white"}
        box |= {"edgecolor": BLUE if is_retrieved else LIGHT}
        axis.text(x + width / 2, 8.9, word, ha="center", va="center", fontsize=9, bbox=box)
        x += width + 0.4
    axis.text(0, 7.4, "After “the”, wins lead from lamp to wind and back,", fontsize=8, color=GREY)
    axis.text(0, 6.75, "and from both to the other words of the context.", fontsize=8, color=GREY)
    chosen = sorted(explanation.probabilities.items(), key=lambda pair: -pair[1])
    auto_names = {token: word for word, token in zip(words, explanation.context, strict=True)}
    for row, (token, probability) in enumerate(chosen):
        y = 4.9 - 1.5 * row
        axis.text(1.5, y, auto_names[token], fontsize=10, ha="right", va="center")
        axis.barh(y, 6.5 * probability, left=1.8, height=0.95, color=BLUE)
        axis.text(2.0 + 6.5 * probability, y, f"{probability:.2f}", fontsize=10, va="center")
    axis.text(0, 1.4, "One layer of attention, trained on the text, converges", fontsize=8, color=GREY)
    axis.text(0, 0.7, "to these probabilities. Nothing was trained to know them.", fontsize=8, color=GREY)


def _draw_types(axis: Any, audit: HeadAudit) -> None:
    """A cell for each head in the colour of its type."""
    kinds = [kind.name for kind in audit.types]
    names = [name for name in COLOURS if name in kinds]
    n_layers, n_heads = (max(numbers) + 1 for numbers in zip(*audit.heads, strict=True))
    cells = np.zeros((n_layers, n_heads))
    for (layer, number), kind in zip(audit.heads, kinds, strict=True):
        cells[layer, number] = names.index(kind)
    colours = ListedColormap([COLOURS[name] for name in names])
    axis.pcolormesh(cells, cmap=colours, vmin=-0.5, vmax=len(names) - 0.5, edgecolors="white", linewidth=0.5)
    for name in names:
        axis.plot([], [], "s", color=COLOURS[name], markersize=6, label=f"{name} ({kinds.count(name)})")
    axis.set_xlabel("head", fontsize=8)
    axis.set_ylabel("layer", fontsize=8)
    axis.set_xticks(np.arange(n_heads) + 0.5, range(n_heads), fontsize=7)
    axis.set_yticks(np.arange(0, n_layers, 4) + 0.5, range(0, n_layers, 4), fontsize=7)
    axis.tick_params(length=0)
    style = {"fontsize": 8, "handletextpad": 0.1, "labelspacing": 0.55}
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), **style)


def _draw_board(axis: Any) -> None:
    """Ratings with intervals, the infinite one as an arrow, and what others print for it."""
    controls = {"moved_first": "model_a", "features": ["length"], "cluster": "judge"}
    board = at.fit_choices(simulate_arena(), **controls, scale="elo").board()
    rows = range(len(board["item"]))
    for row, rating, low, high in zip(rows, board["rating"], board["low"], board["high"], strict=True):
        if np.isfinite(rating):
            axis.plot([low, high], [-row, -row], color=BLUE, linewidth=2)
            axis.plot(rating, -row, "o", color=BLUE, markersize=4)
        else:
            end = (high, -row)
            arrow = {"arrowstyle": "-|>", "color": RED, "lw": 1.6}
            axis.annotate("", (high - 170, -row), end, arrowprops=arrow)
            axis.plot([high, high], [-row - 0.25, -row + 0.25], color=RED, linewidth=1.6)
            axis.text(high + 25, -row, f"≤ {high:.0f} (95 %), or −∞", color=RED, fontsize=8, va="center")
    axis.set_yticks([-row for row in rows], board["item"], fontsize=8)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=7)
    axis.set_xlim(80, 1230)
    axis.set_xlabel("Elo rating with 95 % interval", fontsize=8)
    lines = ["other packages print for lotus:", *(f"{name}: {number}" for name, number in PRINTED)]
    axis.text(100, -0.2, "\n".join(lines), fontsize=8, color=GREY, va="top", linespacing=1.5)


if __name__ == "__main__":
    draw(HeadAudit.load(sys.argv[1])).savefig(PLACE, dpi=200)
