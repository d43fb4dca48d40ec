"""Figures 4 and 5: two classes trained by SGD or Adam; attention as a heat map, and the loss.

Settings: those of the classes and of training, ``optimiser`` (sgd or adam), ``rates``, and ``published``, the
logged losses of the first pair of rates.
"""

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import spearmanr

from attomaton.base.printing import Grid
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Float64
from attomaton.claims import Verdict, VerdictStatus
from attomaton.claims.verdicts import Judgement
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton.theories import draw_linear_classes
from attomaton.theories.scansnap.reduced import ReducedCorpus
from attomaton.training import Adam, GradientDescent
from attomaton_experiments.figures.maps import BandPanel, draw_bands
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.scansnap_model.train import ScanTrace, Setup, train_classes
from attomaton_experiments.settings import Settings

RANKED = 0.95
"""Smallest rank correlation of P(l | n) and final weight, and smallest share of pairs of seeds in order."""

AWAY = 5.0
"""Standard deviations between a logged loss and the mean over seeds that would be a difference."""

FEWEST_SEEDS = 5
"""Fewer seeds do not show how far losses spread."""

POOLED = 9
"""Logged steps over which the variance of the seeds is pooled."""

SHOWN = (0, 2, 4, 6, 8, 10)
"""Steps of the published heat map, besides the last."""

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
    for row, logged in zip(rows, _logged(settings), strict=False):
        row["published"] = logged
    ranks = _ranks(reduced, trace)
    return render_figure(
        settings,
        _caption(settings, reduced),
        (_loss_table(settings, trace), _attention_table(rows, pairs)),
        pa.Table.from_pylist(rows),
        partial(_draw, settings, reduced, trace, rows),
        verdicts=(
            (_judge_loss(settings, trace), _judge_ranks(ranks), _judge_common(rows))
            if "published" in settings
            else (_judge_subset(settings, reduced, trace), _judge_common(rows))
        ),
        notes=(f"Published: {settings['published']['source']}.",) if "published" in settings else (),
    )


def draw_classes(settings: Settings, n_queries: int) -> ReducedCorpus:
    """The classes for a number of queries, from a figure's settings."""
    names = ("classes_per_query", "n_common", "n_distinct")
    return ReducedCorpus(draw_linear_classes(n_queries, **{name: settings[name] for name in names}))


def read_setup(settings: Settings, *, every: int = 1) -> Setup:
    """Training settings, from a figure's settings."""
    return Setup(
        n_steps=settings["n_steps"],
        batch_size=settings["batch_size"],
        length=settings["length"],
        optimiser=Adam(1.0)
        if settings.get("optimiser") == "adam"
        else GradientDescent(1.0, momentum=settings["momentum"]),
        random_start=settings["random_start"],
        every=every,
    )


def _rows(reduced: ReducedCorpus, trace: ScanTrace, pair: list[float], at: int, each: int) -> list[Row]:
    """Means over the trials of one pair of rates: the loss, and attention by kind of token, at every step."""
    trials = slice(at * each, (at + 1) * each)
    attention = reduced.attention(trace.scores[:, trials])
    distinct = np.stack(
        [attention[..., number, tokens] for number, tokens in _distinct_tokens(reduced)], axis=-2
    )
    shared = ~reduced.is_distinct.any(axis=0)
    each_share = {
        "common": attention[..., shared].mean(axis=-1),
        **{name: distinct[..., index] for name, index in zip(SHARES[1:], _ends(distinct), strict=True)},
        "all common": attention[..., shared].sum(axis=-1),
    }
    shares = {name: values.mean(axis=(1, 2)) for name, values in each_share.items()}
    losses = [*trace.losses[:, trials].mean(axis=1).tolist(), None]
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


def _logged(settings: Settings) -> list[float | None]:
    """The published loss of every step of the first pair of rates, None where none was logged."""
    losses: list[float | None] = [None] * settings["n_steps"]
    if "published" in settings:
        every = settings["published"]["every"]
        losses[::every] = settings["published"]["losses"][: len(losses[::every])]
    return losses


def _ends(distinct: Float64) -> tuple[int, int, int]:
    return 0, distinct.shape[-1] // 2, distinct.shape[-1] - 1


def _distinct_tokens(reduced: ReducedCorpus) -> list[tuple[int, Any]]:
    """Each class with the positions of its distinct tokens, the least probable first."""
    distinct: list[tuple[int, Any]] = []
    for number, is_distinct in enumerate(reduced.is_distinct):
        tokens = np.flatnonzero(is_distinct)
        distinct.append((number, tokens[np.argsort(reduced.probabilities[number, tokens], kind="stable")]))
    return distinct


def _ranks(reduced: ReducedCorpus, trace: ScanTrace) -> Float64:
    """Rank correlation of P(l | n) with the final weight, for every trial and class."""
    final = reduced.attention(trace.scores[-1])
    return np.array(
        [
            [
                spearmanr(reduced.probabilities[number, tokens], trial[number, tokens]).statistic
                for trial in final
            ]
            for number, tokens in _distinct_tokens(reduced)
        ]
    )


def _judge_loss(settings: Settings, trace: ScanTrace) -> Verdict:
    """Every logged loss beside the seeds' at that step, in standard deviations of ln loss.

    The deviation is pooled over neighbouring steps. Losses of one seed depend on each other, so few seeds are
    not enough.
    """
    if settings["trials"] < FEWEST_SEEDS:
        reason = f"the spread over seeds needs at least {FEWEST_SEEDS} of them, not {settings['trials']}"
        return Verdict("loss", VerdictStatus.NOT_APPLICABLE, None, None, reason)
    ours, published = _compare_losses(settings, trace)
    window = np.ones(min(POOLED, len(ours)))
    spread = np.convolve(np.log(ours).var(axis=1, ddof=1), window, "same")
    pooled = spread / np.convolve(np.ones(len(ours)), window, "same")
    away = (np.log(published) - np.log(ours).mean(axis=1))[1:] / np.sqrt(pooled[1:])
    worst, every = float(np.abs(away).max()), settings["published"]["every"]
    meaning = (
        f"largest distance of ln loss to the seeds' mean over {len(away)} logged steps (step "
        f"{every * (1 + int(np.abs(away).argmax()))}), in their standard deviations; root mean square "
        f"{np.sqrt((away**2).mean()):.2f}; at step 0 the losses differ by "
        f"{abs(published[0] / ours[0].mean() - 1):.0e} of their size"
    )
    return Judgement(worst, AWAY, worst <= AWAY, meaning).about("loss")


def _compare_losses(settings: Settings, trace: ScanTrace) -> tuple[Float64, Float64]:
    """The losses of the first pair of rates at the logged steps, (n_logged, n_seeds), and the logged ones."""
    published = settings["published"]
    ours = trace.losses[:: published["every"], : settings["trials"]]
    return ours, np.array(published["losses"][: len(ours)])


def _judge_subset(settings: Settings, reduced: ReducedCorpus, trace: ScanTrace) -> Verdict:
    """How often the top token of one rate is more probable than that of a smaller rate, over all seeds."""
    attention = reduced.attention(trace.scores[-1])
    tops = np.stack(
        [attention[:, number, tokens].argmax(axis=1) for number, tokens in _distinct_tokens(reduced)]
    )
    groups = [group.ravel() for group in np.split(tops, len(settings["rates"]), axis=1)]
    share = min(float((high[:, None] > low).mean()) for low, high in pairwise(groups))
    listed = ", ".join(
        f"{pair[0]:g}: {np.median(group) + 1:g}"
        for pair, group in zip(settings["rates"], groups, strict=True)
    )
    meaning = (
        "smallest share of pairs of seeds in which the token with most attention is more probable at the "
        f"larger of two rates; median ranks by P {listed}"
    )
    return Judgement(share, RANKED, share >= RANKED, meaning).about("another subset at each rate")


def _judge_ranks(ranks: Float64) -> Verdict:
    least = float(ranks.min())
    meaning = f"smallest rank correlation of P and final weight; mean {ranks.mean():.4f}"
    return Judgement(least, RANKED, least >= RANKED, meaning).about("ranks follow P (3)")


def _judge_common(rows: list[Row]) -> Verdict:
    first = rows[0]["all common"]
    last = max(row["all common"] for row in rows if row["step"] == rows[-1]["step"])
    meaning = "attention on them at the end and the start"
    return Judgement(last, first, last < first, meaning).about("off the common tokens (2)")


def _caption(settings: Settings, reduced: ReducedCorpus) -> str:
    adam = settings["optimiser"] == "adam"
    optimiser = "Adam" if adam else f"SGD with momentum {settings['momentum']:g}"
    return (
        f"{len(reduced.classes)} classes with a query each, {settings['n_common']} common and "
        f"{settings['n_distinct']} distinct tokens per class, M = {reduced.classes.n_tokens}; batch "
        f"{settings['batch_size']}, T = {settings['length']}, {optimiser}, "
        f"mean of {settings['trials']} seeds"
    )


def _loss_table(settings: Settings, trace: ScanTrace) -> Grid:
    """Where losses are published, every logged step; else a few steps of each pair of rates."""
    if "published" in settings:
        every = settings["published"]["every"]
        ours, published = _compare_losses(settings, trace)
        rows = [
            [
                f"{every * row}",
                f"{logged:.6g}",
                f"{measured.mean():.6g}",
                f"{100 * (measured.mean() / logged - 1):.1f} %",
            ]
            for row, (measured, logged) in enumerate(zip(ours, published, strict=True))
        ]
        pair = settings["rates"][0]
        title = f"Loss at η_Y = {pair[0]:g}, η_Z = {pair[1]:g}, every logged step"
        return Grid(title, ["step", "published", "mean", "difference"], rows)
    steps = [step for step in (0, 2, 6, 10, 20, 50, settings["n_steps"] - 1) if step < settings["n_steps"]]
    groups = np.split(trace.losses, len(settings["rates"]), axis=1)
    rows = [
        [f"{pair[0]:g}, {pair[1]:g}", *(f"{group[step].mean():.3g}" for step in steps)]
        for pair, group in zip(settings["rates"], groups, strict=True)
    ]
    return Grid("Loss (mean)", ["η_Y, η_Z", *(f"step {step}" for step in steps)], rows)


def _attention_table(rows: list[Row], pairs: list[list[float]]) -> Grid:
    lines: list[list[str]] = []
    for pair in pairs:
        chosen = [row for row in rows if [row["decoder_rate"], row["attention_rate"]] == pair]
        for row in (chosen[0], chosen[-1]):
            shares = (row[name] for name in ("all common", *SHARES))
            lines.append(
                [f"{pair[0]:g}, {pair[1]:g}", f"{row['step']}", *(f"{share:.4f}" for share in shares)]
            )
    headers = ["η_Y, η_Z", "step", "all common tokens", "a common one", *SHARES[1:]]
    return Grid("Attention c_n", headers, lines)


def _draw(
    settings: Settings, reduced: ReducedCorpus, trace: ScanTrace, rows: list[Row], path: Path, *, caption: str
) -> list[Path]:
    """The heat map of class 0 at the published iterations, and losses with a few tokens over all steps."""
    each, pairs = settings["trials"], settings["rates"]
    records = [record for record in SHOWN if record < len(trace.steps)] + [len(trace.steps) - 1]
    names = [f"{trace.steps[record]}" for record in records]
    used = np.flatnonzero(reduced.probabilities[0] > 0)
    used = np.concatenate([used[~reduced.is_distinct[0, used]], _distinct_tokens(reduced)[0][1]])
    attention = reduced.attention(trace.scores[records])[:, :, 0, used]
    panels = [
        BandPanel(
            f"η_Y = {pair[0]:g}, η_Z = {pair[1]:g}",
            attention[:, at * each : (at + 1) * each].mean(axis=1),
            names,
        )
        for at, pair in enumerate(pairs)
    ]
    border = int((~reduced.is_distinct[0, used]).sum())
    written = draw_bands(
        panels, path, caption=caption, border=border, columns="common tokens, then distinct ones by P"
    )
    losses: list[Line] = []
    shares: list[Line] = []
    for style, pair in enumerate(pairs):
        chosen = [row for row in rows if [row["decoder_rate"], row["attention_rate"]] == pair]
        steps = [row["step"] for row in chosen]
        name = f"η_Y = {pair[0]:g}, η_Z = {pair[1]:g}"
        losses.append(Line(name, steps[:-1], [row["loss"] for row in chosen[:-1]], BLACK, style))
        for colour, kind in enumerate(SHARES):
            shares.append(Line("" if style else kind, steps, [row[kind] for row in chosen], colour, style))
    curves = [
        LinePanel("loss", losses, log_axis=False, log=True),
        LinePanel("attention c_n on one token", shares, least=0.0, log_axis=False),
    ]
    return written + draw_line_panels(curves, path.with_name(f"{path.name}-curves"), caption=caption)
