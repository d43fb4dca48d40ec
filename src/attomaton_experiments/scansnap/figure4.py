"""Figure 4: two classes trained by SGD with momentum; loss, and attention on common and distinct tokens."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import spearmanr

from attomaton.base.printing import Grid
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Float64
from attomaton.claims import Verdict
from attomaton.claims.verdicts import Judgement
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton.theories import draw_linear_classes
from attomaton.theories.scansnap.reduced import Reduced
from attomaton.training import GradientDescent
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.scansnap_model.train import ScanTrace, Setup, train_classes
from attomaton_experiments.settings import Settings

RANKED = 0.95
"""Smallest rank correlation of P(l | n) and final weight."""

BLACK = 4
"""Index of the colour for no kind."""

Row = dict[str, Any]
SHARES = ("common", "lowest distinct", "middle distinct", "highest distinct")


def run_figure4(settings: Settings, progress: Progress = silent) -> Page:
    """Train several trials of every pair of rates and compare the losses with the published ones."""
    reduced = draw_classes(settings, settings["n_queries"])
    each, pairs = settings["trials"], settings["rates"]
    trace = train_classes(
        reduced,
        np.repeat(pairs, each, axis=0),
        read_setup(settings),
        seed=settings["seed"],
        progress=partial(progress, settings["name"]),
    )
    rows = [row for at in range(len(pairs)) for row in _rows(reduced, trace, pairs[at], at, each)]
    ranks = _ranks(reduced, trace)
    return render_figure(
        settings,
        _caption(settings, reduced),
        (_loss_table(settings, rows), _attention_table(rows, pairs)),
        pa.Table.from_pylist(rows),
        partial(_draw, rows, pairs),
        verdicts=(_judge_loss(settings, rows), _judge_ranks(ranks), _judge_common(rows)),
    )


def draw_classes(settings: Settings, n_queries: int) -> Reduced:
    """The classes for a number of queries, from a figure's settings."""
    names = ("classes_per_query", "n_common", "n_distinct")
    return Reduced(draw_linear_classes(n_queries, **{name: settings[name] for name in names}))


def read_setup(settings: Settings, *, every: int = 1) -> Setup:
    """Training settings, from a figure's settings."""
    return Setup(
        n_steps=settings["n_steps"],
        batch_size=settings["batch_size"],
        length=settings["length"],
        optimiser=GradientDescent(1.0, momentum=settings["momentum"]),
        random_start=settings["random_start"],
        every=every,
    )


def _rows(reduced: Reduced, trace: ScanTrace, pair: list[float], at: int, each: int) -> list[Row]:
    """Means over the trials of one pair of rates: the loss, and attention by kind of token, at every step."""
    some = slice(at * each, (at + 1) * each)
    attention = reduced.attention(trace.scores[:, some])
    own = np.stack([attention[..., number, place] for number, place in _own_places(reduced)], axis=-2)
    shared = ~reduced.is_own.any(axis=0)
    each_share = {
        "common": attention[..., shared].mean(axis=-1),
        **{name: own[..., place] for name, place in zip(SHARES[1:], _ends(own), strict=True)},
        "all common": attention[..., shared].sum(axis=-1),
    }
    shares = {name: values.mean(axis=(1, 2)) for name, values in each_share.items()}
    losses = [*trace.losses[:, some].mean(axis=1).tolist(), None]
    return [
        {
            "decoder_rate": pair[0],
            "attention_rate": pair[1],
            "step": int(step),
            "loss": losses[step],
            **{name: float(values[record]) for name, values in shares.items()},
        }
        for record, step in enumerate(trace.steps)
    ]


def _ends(own: Float64) -> tuple[int, int, int]:
    return 0, own.shape[-1] // 2, own.shape[-1] - 1


def _own_places(reduced: Reduced) -> list[tuple[int, Any]]:
    """Each class with the positions of its distinct tokens, the least probable first."""
    places: list[tuple[int, Any]] = []
    for number, own in enumerate(reduced.is_own):
        found = np.flatnonzero(own)
        places.append((number, found[np.argsort(reduced.law[number, found], kind="stable")]))
    return places


def _ranks(reduced: Reduced, trace: ScanTrace) -> Float64:
    """Rank correlation of P(l | n) with the final weight, for every trial and class."""
    final = reduced.attention(trace.scores[-1])
    return np.array(
        [
            [spearmanr(reduced.law[number, place], trial[number, place]).statistic for trial in final]
            for number, place in _own_places(reduced)
        ]
    )


def _judge_loss(settings: Settings, rows: list[Row]) -> Verdict:
    published = settings["published"]
    losses = [row["loss"] for row in rows[: settings["n_steps"]]]
    off = max(
        abs(losses[step] / told - 1)
        for step, told in zip(published["steps"], published["losses"], strict=True)
        if step
    )
    within = published["within"]
    meaning = "largest relative distance to the published loss"
    return Judgement(off, within, off <= within, meaning).about("loss")


def _judge_ranks(ranks: Float64) -> Verdict:
    least = float(ranks.min())
    meaning = f"smallest rank correlation of P and final weight; mean {ranks.mean():.4f}"
    return Judgement(least, RANKED, least >= RANKED, meaning).about("ranks follow P (3)")


def _judge_common(rows: list[Row]) -> Verdict:
    first = rows[0]["all common"]
    last = max(row["all common"] for row in rows if row["step"] == rows[-1]["step"])
    meaning = "attention on them at the end and the start"
    return Judgement(last, first, last < first, meaning).about("off the common tokens (2)")


def _caption(settings: Settings, reduced: Reduced) -> str:
    return (
        f"{len(reduced.classes)} classes with a query each, {settings['n_common']} common and "
        f"{settings['n_distinct']} distinct tokens per class, M = {reduced.classes.n_tokens}; batch "
        f"{settings['batch_size']}, T = {settings['length']}, SGD with momentum {settings['momentum']:g}, "
        f"mean of {settings['trials']} seeds"
    )


def _loss_table(settings: Settings, rows: list[Row]) -> Grid:
    told = dict(zip(settings["published"]["steps"], settings["published"]["losses"], strict=True))
    steps = sorted({*told, 2, 4, 8, 20, settings["n_steps"] - 1} & set(range(settings["n_steps"])))
    lines: list[list[str]] = []
    for at, pair in enumerate(settings["rates"]):
        losses = [row["loss"] for row in rows[at * (settings["n_steps"] + 1) :]]
        shown = f"{pair[0]:g}, {pair[1]:g}"
        lines += [
            [shown, f"{step}", f"{losses[step]:.3g}", f"{told[step]:g}" if step in told and not at else ""]
            for step in steps
        ]
    return Grid("Loss", ["η_Y, η_Z", "step", "mean", "published"], lines)


def _attention_table(rows: list[Row], pairs: list[list[float]]) -> Grid:
    lines: list[list[str]] = []
    for pair in pairs:
        some = [row for row in rows if [row["decoder_rate"], row["attention_rate"]] == pair]
        for row in (some[0], some[-1]):
            told = (row[name] for name in ("all common", *SHARES))
            lines.append([f"{pair[0]:g}, {pair[1]:g}", f"{row['step']}", *(f"{one:.4f}" for one in told)])
    headers = ["η_Y, η_Z", "step", "all common tokens", "a common one", *SHARES[1:]]
    return Grid("Attention c_n", headers, lines)


def _draw(rows: list[Row], pairs: list[list[float]], path: Path, *, caption: str) -> list[Path]:
    losses: list[Line] = []
    shares: list[Line] = []
    for style, pair in enumerate(pairs):
        some = [row for row in rows if [row["decoder_rate"], row["attention_rate"]] == pair]
        steps = [row["step"] for row in some]
        name = f"η_Y = {pair[0]:g}, η_Z = {pair[1]:g}"
        losses.append(Line(name, steps[:-1], [row["loss"] for row in some[:-1]], BLACK, style))
        for colour, kind in enumerate(SHARES):
            shares.append(Line("" if style else kind, steps, [row[kind] for row in some], colour, style))
    panels = [
        LinePanel("loss", losses, log_axis=False, log=True),
        LinePanel("attention c_n on one token", shares, least=0.0, log_axis=False),
    ]
    return draw_line_panels(panels, path, caption=caption)
