"""The held-out results as tables, numbers and a bar chart."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from attomaton.base import paper_style
from attomaton.base.drawing import wrap_caption
from attomaton.base.printing import Grid
from attomaton.base.tables import table_of
from attomaton.report.figures import new_figure, save_figure
from attomaton_experiments.mixture.table import MIXTURE, HeldOut
from attomaton_experiments.mixture.texts import SplitTexts

HEADERS = ["model", "log-loss", "perplexity", "in the window", "not in it", "seconds"]


def tell_rows(table: HeldOut) -> Grid:
    """One row per model: loss over all positions, inside and outside the window, and the cost."""
    rows = [
        [
            row.name,
            f"{row.loss:.4f}",
            f"{row.perplexity:.1f}",
            *(f"{row.losses[kind].mean():.3f}" for kind in (table.inside, ~table.inside)),
            f"{row.seconds:,.0f}",
        ]
        for row in table.rows
    ]
    return Grid("Log-loss per position in nats, and processor seconds", HEADERS, rows)


def tell_rules(table: HeldOut) -> Grid:
    """How often each expert of the mixture carries the prediction, and the loss at those positions."""
    losses, rules = table.find(MIXTURE).losses, table.rules
    rows = [
        [
            name,
            f"{(rules == number).mean():.1%}",
            f"{table.shares[:, number].mean():.1%}",
            f"{losses[rules == number].mean():.3f}" if (rules == number).any() else "",
            f"{table.inside[rules == number].mean():.0%}" if (rules == number).any() else "",
        ]
        for number, name in enumerate(table.experts)
    ]
    headers = ["rule", "positions", "share of the probability", "log-loss there", "in the window"]
    return Grid("Which rule of the mixture carries the prediction", headers, rows)


def tell_caption(table: HeldOut, texts: SplitTexts) -> str:
    """Sizes and settings in one sentence."""
    trained = table.trained
    return (
        f"All {len(texts.valid):,} positions of valid, over {len(texts.tokens):,} types; learned "
        f"from {len(texts.fitted):,} tokens of train, weights and θ = {table.flatness:g} from "
        f"{len(texts.held_out):,} held-out tokens; the window before a token contains it at "
        f"{table.inside.mean():.1%} of the positions; the transformer was trained for "
        f"{trained.seconds:,.0f} s of wall time ({trained.processor_seconds:,.0f} processor seconds, "
        f"{trained.steps:,} steps)"
    )


def tell_numbers(table: HeldOut) -> pa.Table:
    """All numbers of the table."""
    rows = table.rows
    return table_of(
        {
            "model": [row.name for row in rows],
            "log_loss": [row.loss for row in rows],
            "perplexity": [row.perplexity for row in rows],
            "inside": [float(row.losses[table.inside].mean()) for row in rows],
            "outside": [float(row.losses[~table.inside].mean()) for row in rows],
            "seconds": [row.seconds for row in rows],
        }
    )


def draw_rows(table: HeldOut, path: Path, *, caption: str) -> list[Path]:
    """One bar per model, from 0, the best at the top."""
    title = wrap_caption(caption)
    order = sorted(table.rows, key=lambda row: row.loss, reverse=True)
    with paper_style():
        figure = new_figure(0.2 * len(order) + 0.11 * len(title) + 0.6)
        axis: Any = figure.subplots()
        limits = ["C1" if row.name == MIXTURE else "C0" for row in order]
        bars = axis.barh(range(len(order)), [row.loss for row in order], color=limits, height=0.7)
        axis.bar_label(bars, fmt=" {:.2f}")
        axis.set_yticks(range(len(order)), [row.name for row in order])
        axis.margins(x=0.2)
        axis.set_xlabel("mean log-loss per position, nats")
        return save_figure(figure, path, caption="\n".join(title))
