"""Figure 6: final sparsity of attention by learning rates and number of classes; and claim 5 on it."""

import csv
from functools import partial
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa

from attomaton.base.errors import UnreadableSource
from attomaton.base.printing import Grid
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Float64
from attomaton.claims import Verdict
from attomaton.claims.verdicts import Judgement
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.scansnap.figure4 import draw_classes, read_setup
from attomaton_experiments.scansnap_model.train import train_classes
from attomaton_experiments.settings import Settings

Cell = tuple[int, float, float]
"""Number of queries, η_Z, η_Y/η_Z."""

PUBLISHED = ("num_last", "eta_Z", "etaY_over_etaZ", "entropy_mean")
"""Columns of the published table, if it is given."""

SPREADS = 2.0
"""Cells whose means differ by fewer standard errors than this count as equal."""


def run_figure6(settings: Settings, progress: Progress = silent) -> Page:
    """Train several trials of all cells; with the published table as source, compare them with it."""
    published = {} if settings["source"] is None else read_published(settings["source"])
    cells = _train_cells(settings, progress)
    rows = [
        {
            **dict(zip(("n_queries", "attention_rate", "ratio"), cell, strict=True)),
            "seed": number,
            "entropy": float(value),
            "published": published.get(cell),
        }
        for cell, values in cells.items()
        for number, value in enumerate(values)
    ]
    compared = (_judge_published(settings, cells, published),) if published else ()
    return render_figure(
        settings,
        f"{len(cells)} cells, {settings['trials']} seeds; {settings['classes_per_query']} classes per query, "
        f"{settings['n_common']} common tokens, {settings['n_distinct']} distinct ones per class; "
        f"{settings['n_steps']} steps of SGD with momentum {settings['momentum']:g}, batch "
        f"{settings['batch_size']}, T = {settings['length']}",
        tuple(_table(settings, cells, published, number) for number in settings["n_queries"]),
        pa.Table.from_pylist(rows),
        partial(_draw, settings, cells, published),
        verdicts=(*compared, _judge_sparser(settings, cells), _judge_denser(settings, cells)),
        notes=NOTES,
        options="--data TABLE" if published else "",
    )


NOTES = (
    "Entropy of c_n on the distinct tokens of class n (normalised there), in nats, mean over "
    "classes, after the last step; 2.151 before training from 0, ln 10 = 2.303 if uniform.",
    "A larger decoder rate makes attention denser from η_Y = 2 η_Z on. At η_Y = η_Z, where the decoder is "
    "not faster, several queries show the opposite, here and in the published table.",
)


def read_published(path: Path) -> dict[Cell, float]:
    """Mean entropies of the published table, a CSV file: num_last, eta_Z, etaY_over_etaZ, entropy_mean."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        found = {
            (int(row[PUBLISHED[0]]), float(row[PUBLISHED[1]]), float(row[PUBLISHED[2]])): float(
                row[PUBLISHED[3]]
            )
            for row in rows
        }
        if not found:
            raise ValueError("it has no rows")
        return found
    except (OSError, UnicodeDecodeError, KeyError, ValueError, TypeError) as error:
        raise UnreadableSource(
            f"{path} is not the published table: it needs the columns {', '.join(PUBLISHED)} ({error})"
        ) from error


def _train_cells(settings: Settings, progress: Progress) -> dict[Cell, Float64]:
    """The final entropy of every seed in every cell."""
    each, sizes = settings["trials"], settings["n_queries"]
    pairs = list(product(settings["attention_rates"], settings["ratios"]))
    rates = np.repeat([[slow * ratio, slow] for slow, ratio in pairs], each, axis=0)
    found: dict[Cell, Float64] = {}
    for at, n_queries in enumerate(sizes):
        reduced = draw_classes(settings, n_queries)

        def advance(done: int, total: int, at: int = at) -> None:
            progress(settings["name"], at * total + done, len(sizes) * total)

        setup = read_setup(settings, every=settings["n_steps"])
        trace = train_classes(reduced, rates, setup, seed=settings["seed"] + at, progress=advance)
        entropy = reduced.distinct_entropy(reduced.attention(trace.scores[-1])).reshape(len(pairs), each)
        found |= {(n_queries, *pair): values for pair, values in zip(pairs, entropy, strict=True)}
    return found


def _judge_published(settings: Settings, cells: dict[Cell, Float64], published: dict[Cell, float]) -> Verdict:
    off = float(
        np.mean([abs(values.mean() - published[cell]) for cell, values in cells.items() if cell in published])
    )
    within = settings["within"]
    meaning = "mean absolute difference of the cells, nats"
    return Judgement(off, within, off <= within, meaning).about("published table")


def _judge_sparser(settings: Settings, cells: dict[Cell, Float64]) -> Verdict:
    """Both rates increased at a fixed ratio."""
    steps = [
        (cells[n_queries, low, ratio], cells[n_queries, high, ratio])
        for n_queries, ratio in product(settings["n_queries"], settings["ratios"])
        for low, high in pairwise(settings["attention_rates"])
    ]
    return _judge_order("both rates up: sparser (5)", steps, "increasing η_Z at fixed η_Y/η_Z lowers entropy")


def _judge_denser(settings: Settings, cells: dict[Cell, Float64]) -> Verdict:
    """η_Y increased alone, where it is larger."""
    fast = [ratio for ratio in settings["ratios"] if ratio > 1]
    steps = [
        (cells[n_queries, slow, high], cells[n_queries, slow, low])
        for n_queries, slow in product(settings["n_queries"], settings["attention_rates"])
        for low, high in pairwise(fast)
    ]
    return _judge_order("larger η_Y: denser (5)", steps, "increasing η_Y from 2 η_Z on raises entropy")


def _judge_order(name: str, steps: list[tuple[Float64, Float64]], meaning: str) -> Verdict:
    """No pair with significantly different means may have the opposite order."""
    told = wrong = 0
    for higher, lower in steps:
        error = np.sqrt(higher.var() / len(higher) + lower.var() / len(lower))
        gap = higher.mean() - lower.mean()
        told += bool(abs(gap) > SPREADS * error)
        wrong += bool(gap < -SPREADS * error)
    found = f"{meaning}: {wrong} of {told} significantly different pairs have the opposite order"
    return Judgement(float(wrong), 0.0, not wrong, found).about(name)


def _table(settings: Settings, cells: dict[Cell, Float64], published: dict[Cell, float], number: int) -> Grid:
    rows: list[list[str]] = []
    for slow in settings["attention_rates"]:
        told: list[str] = []
        for ratio in settings["ratios"]:
            values, known = cells[number, slow, ratio], published.get((number, slow, ratio))
            told.append(f"{values.mean():.3f} ± {values.std():.3f}" + (f" ({known:.3f})" if known else ""))
        rows.append([f"{slow:g}", *told])
    headers = ["η_Z", *(f"η_Y/η_Z = {ratio:g}" for ratio in settings["ratios"])]
    beside = ", published in brackets" if published else ""
    return Grid(f"{_size(settings, number)}{beside}", headers, rows)


def _size(settings: Settings, n_queries: int) -> str:
    named = "1 query" if n_queries == 1 else f"{n_queries} queries"
    return f"{named}, {n_queries * settings['classes_per_query']} classes"


def _draw(
    settings: Settings,
    cells: dict[Cell, Float64],
    published: dict[Cell, float],
    path: Path,
    *,
    caption: str,
) -> list[Path]:
    panels: list[LinePanel] = []
    for number in settings["n_queries"]:
        lines: list[Line] = []
        for colour, slow in enumerate(settings["attention_rates"]):
            keys = [(number, slow, ratio) for ratio in settings["ratios"]]
            means = [float(cells[key].mean()) for key in keys]
            lines.append(Line(f"η_Z = {slow:g}", settings["ratios"], means, colour))
            if published:
                known = [published[key] for key in keys]
                lines.append(Line(f"η_Z = {slow:g}, published", settings["ratios"], known, colour, 1))
        panels.append(LinePanel(_size(settings, number), lines, axis="η_Y/η_Z"))
    return draw_line_panels(panels, path, caption=caption, n_columns=2)
