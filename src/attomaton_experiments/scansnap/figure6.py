"""Figure 6: final sparsity of attention by learning rates and number of classes; and claim 5 on it."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.special import softmax

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

MEASURES = {"entropy": "entropy", "descent": "the fall of recall"}
"""What is compared between cells."""

SPREADS = 2.0
"""Cells whose means differ by fewer standard errors than this count as equal."""


@dataclass(frozen=True, eq=False)
class TrainedCell:
    """The final entropy of every seed, and by threshold the share of distinct tokens with more attention."""

    entropy: Float64
    recall: Float64  # (n_seeds, n_thresholds)

    @property
    def descent(self) -> Float64:
        """How much recall falls from the smallest threshold to the largest, for every seed."""
        return self.recall[:, 0] - self.recall[:, -1]


def run_figure6(settings: Settings, progress: Progress = silent) -> Page:
    """Train several trials of all cells, and compare them with the published table."""
    published = {(row[0], row[1], row[2]): (row[3], row[4]) for row in settings["published"]["cells"]}
    cells = _train_cells(settings, progress)
    rows = [
        {
            **dict(zip(("n_queries", "attention_rate", "ratio"), cell, strict=True)),
            "seed": number,
            "entropy": float(value),
            "published": published[cell][0],
            "published_deviation": published[cell][1],
            **{
                f"recall_{threshold:g}": float(share)
                for threshold, share in zip(settings["thresholds"], trained.recall[number], strict=True)
            },
        }
        for cell, trained in cells.items()
        for number, value in enumerate(trained.entropy)
    ]
    return render_figure(
        settings,
        f"{len(cells)} cells, {settings['trials']} seeds; {settings['classes_per_query']} classes per query, "
        f"{settings['n_common']} common tokens, {settings['n_distinct']} distinct ones per class; "
        f"{settings['n_steps']} steps of SGD with momentum {settings['momentum']:g}, batch "
        f"{settings['batch_size']}, T = {settings['length']}",
        tuple(_table(settings, cells, published, number) for number in settings["n_queries"]),
        pa.Table.from_pylist(rows),
        partial(_draw, settings, cells, published),
        verdicts=(
            _judge_published(settings, cells, published),
            _judge_sparser(settings, cells, "entropy"),
            _judge_denser(settings, cells, "entropy"),
            _judge_sparser(settings, cells, "descent"),
            _judge_denser(settings, cells, "descent"),
        ),
        notes=(*NOTES, f"Published: {settings['published']['source']}."),
    )


NOTES = (
    "Entropy of c_n on the distinct tokens of class n (normalised there), in nats, mean over "
    "classes, after the last step; 2.151 before training from 0, ln 10 = 2.303 if uniform.",
    "A larger decoder rate makes attention denser from η_Y = 2 η_Z on. At η_Y = η_Z, where the decoder is "
    "not faster, several queries show the opposite, here and in the published table.",
    "Recall (Figures 11 and 12) is the share of a class's distinct tokens whose softmax e^z/Σe^z, over all n "
    "tokens before queries, exceeds a threshold near 1/n. The sparser attention is, the less recall falls.",
)


def _train_cells(settings: Settings, progress: Progress) -> dict[Cell, TrainedCell]:
    """The final attention of every seed in every cell, as entropy and recall."""
    each, sizes = settings["trials"], settings["n_queries"]
    pairs = list(product(settings["attention_rates"], settings["ratios"]))
    rates = np.repeat([[slow * ratio, slow] for slow, ratio in pairs], each, axis=0)
    cells: dict[Cell, TrainedCell] = {}
    for at, n_queries in enumerate(sizes):
        reduced = draw_classes(settings, n_queries)

        def advance(done: int, total: int, at: int = at) -> None:
            progress(settings["name"], at * total + done, len(sizes) * total)

        setup = read_setup(settings, every=settings["n_steps"])
        trace = train_classes(reduced, rates, setup, seed=settings["seed"] + at, progress=advance)
        attention = reduced.attention(trace.scores[-1])
        entropy = reduced.distinct_entropy(attention)
        shares = softmax(trace.scores[-1], axis=-1)[:, reduced.query_index]
        thresholds = np.array(settings["thresholds"]) / len(reduced.keys)
        above = (shares[..., None] > thresholds) & reduced.is_distinct[..., None]
        recall = (above.sum(axis=2) / reduced.is_distinct.sum(axis=1)[:, None]).mean(axis=1)
        for number, pair in enumerate(pairs):
            trials = slice(number * each, (number + 1) * each)
            cells[n_queries, *pair] = TrainedCell(entropy[trials], recall[trials])
    return cells


def _judge_published(
    settings: Settings, cells: dict[Cell, TrainedCell], published: dict[Cell, tuple[float, float]]
) -> Verdict:
    """Every cell's mean beside the published one, in standard errors of the difference."""
    seeds = settings["published"]["seeds"]
    gaps = np.array([trained.entropy.mean() - published[cell][0] for cell, trained in cells.items()])
    errors = np.array(
        [
            np.hypot(
                trained.entropy.std(ddof=1) / len(trained.entropy) ** 0.5, published[cell][1] / seeds**0.5
            )
            for cell, trained in cells.items()
        ]
    )
    away, within = np.abs(gaps) / errors, settings["within"]
    worst = int(away.argmax())
    n_queries, slow, ratio = list(cells)[worst]
    meaning = (
        f"largest difference of any of {len(gaps)} cells in standard errors ({n_queries} queries, η_Z = "
        f"{slow:g}, η_Y/η_Z = {ratio:g}: {gaps[worst]:+.3f} nats); mean absolute difference "
        f"{np.abs(gaps).mean():.3f} nats"
    )
    return Judgement(float(away[worst]), within, bool(away[worst] <= within), meaning).about(
        "published table"
    )


def _judge_sparser(settings: Settings, cells: dict[Cell, TrainedCell], measure: str) -> Verdict:
    """Both rates increased at a fixed ratio."""
    steps = [
        (getattr(cells[n_queries, low, ratio], measure), getattr(cells[n_queries, high, ratio], measure))
        for n_queries, ratio in product(settings["n_queries"], settings["ratios"])
        for low, high in pairwise(settings["attention_rates"])
    ]
    names = {"entropy": "both rates up: sparser (5)", "descent": "both rates up: recall falls less (5)"}
    return _judge_order(names[measure], steps, f"increasing η_Z at fixed η_Y/η_Z lowers {MEASURES[measure]}")


def _judge_denser(settings: Settings, cells: dict[Cell, TrainedCell], measure: str) -> Verdict:
    """η_Y increased alone, where it is larger."""
    fast = [ratio for ratio in settings["ratios"] if ratio > 1]
    steps = [
        (getattr(cells[n_queries, slow, high], measure), getattr(cells[n_queries, slow, low], measure))
        for n_queries, slow in product(settings["n_queries"], settings["attention_rates"])
        for low, high in pairwise(fast)
    ]
    names = {"entropy": "larger η_Y: denser (5)", "descent": "larger η_Y: recall falls more (5)"}
    return _judge_order(names[measure], steps, f"increasing η_Y from 2 η_Z on raises {MEASURES[measure]}")


def _judge_order(name: str, steps: list[tuple[Float64, Float64]], meaning: str) -> Verdict:
    """No pair with significantly different means may have the opposite order."""
    significant = wrong = 0
    for higher, lower in steps:
        error = np.sqrt(higher.var() / len(higher) + lower.var() / len(lower))
        gap = higher.mean() - lower.mean()
        significant += bool(abs(gap) > SPREADS * error)
        wrong += bool(gap < -SPREADS * error)
    sentence = f"{meaning}: {wrong} of {significant} significantly different pairs have the opposite order"
    return Judgement(float(wrong), 0.0, not wrong, sentence).about(name)


def _table(
    settings: Settings,
    cells: dict[Cell, TrainedCell],
    published: dict[Cell, tuple[float, float]],
    number: int,
) -> Grid:
    rows: list[list[str]] = []
    for slow in settings["attention_rates"]:
        shown: list[str] = []
        for ratio in settings["ratios"]:
            values, (mean, deviation) = cells[number, slow, ratio].entropy, published[number, slow, ratio]
            shown.append(f"{values.mean():.3f} ± {values.std(ddof=1):.3f} ({mean:.3f} ± {deviation:.3f})")
        rows.append([f"{slow:g}", *shown])
    headers = ["η_Z", *(f"η_Y/η_Z = {ratio:g}" for ratio in settings["ratios"])]
    return Grid(f"{_size(settings, number)}, published in brackets", headers, rows)


def _size(settings: Settings, n_queries: int) -> str:
    named = "1 query" if n_queries == 1 else f"{n_queries} queries"
    return f"{named}, {n_queries * settings['classes_per_query']} classes"


def _draw(
    settings: Settings,
    cells: dict[Cell, TrainedCell],
    published: dict[Cell, tuple[float, float]],
    path: Path,
    *,
    caption: str,
) -> list[Path]:
    """Entropies with error bars beside the published ones, and recall by threshold."""
    panels: list[LinePanel] = []
    recalls: list[LinePanel] = []
    for number in settings["n_queries"]:
        lines: list[Line] = []
        for colour, slow in enumerate(settings["attention_rates"]):
            keys = [(number, slow, ratio) for ratio in settings["ratios"]]
            ours = [cells[key].entropy for key in keys]
            means, errors = (
                [float(entropies.mean()) for entropies in ours],
                [float(entropies.std(ddof=1)) for entropies in ours],
            )
            lines.append(Line(f"η_Z = {slow:g}", settings["ratios"], means, colour, errors=errors))
            means_printed, bars = zip(*(published[key] for key in keys), strict=True)
            name = f"η_Z = {slow:g}, published"
            lines.append(Line(name, settings["ratios"], list(means_printed), colour, 1, errors=list(bars)))
        panels.append(LinePanel(_size(settings, number), lines, axis="η_Y/η_Z"))
        curves = [
            Line(
                f"η_Z = {slow:g}",
                settings["thresholds"],
                cells[number, slow, settings["ratios"][-1]].recall.mean(axis=0).tolist(),
                colour,
            )
            for colour, slow in enumerate(settings["attention_rates"])
        ]
        curves += [
            Line(
                f"η_Y/η_Z = {ratio:g}",
                settings["thresholds"],
                cells[number, settings["attention_rates"][-1], ratio].recall.mean(axis=0).tolist(),
                colour,
                1,
            )
            for colour, ratio in enumerate(settings["ratios"])
        ]
        recalls.append(LinePanel(_size(settings, number), curves, axis="threshold · n", log_axis=False))
    written = draw_line_panels(panels, path, caption=caption, n_columns=2)
    fixed = f"solid: η_Y/η_Z = {settings['ratios'][-1]:g}, dashed: η_Z = {settings['attention_rates'][-1]:g}"
    title = f"Recall of distinct tokens by threshold; {fixed}"
    return written + draw_line_panels(
        recalls, path.with_name(f"{path.name}-recall"), caption=title, n_columns=2
    )
