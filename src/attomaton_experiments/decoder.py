"""The decoder's limit compared with training: random contexts, frequent words of a text, and its concepts.

Settings of ``decoder``: ``n_tokens``, ``n_contexts``, ``positions``, ``trials``, ``step_size`` and ``steps``.
For ``decoder-text``: ``n_tokens``, ``step_share`` (step size as a share of the edge of stability), ``late``
and ``mass`` (train until ηtπV/s is ``late`` for this share of the positions). For ``decoder-concepts``:
``count``.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base import paper_style
from attomaton.base.drawing import ONE_COLUMN, wrap_caption
from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.base.tables import Float64, Int64, table_of
from attomaton.claims import Verdict
from attomaton.claims.verdicts import Judgement
from attomaton.report.figures import Line, LinePanel, draw_line_panels, new_figure, save_figure
from attomaton.theories import learn_decoder
from attomaton.theories.decoder.closed_form import asymptote, squared_norm
from attomaton.theories.decoder.course import UNSTABLE, find_levels, follow_levels
from attomaton.theories.decoder.supports import Supports
from attomaton_experiments.concepts import HEADERS, Concepts, find_concepts, group_supports
from attomaton_experiments.decoder_claims import DecoderTrace, train_decoder, verify_decoder
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

NEAR = 0.01
"""The relative error allowed for the predicted loss."""


def run_decoder(settings: Settings, progress: Progress) -> Page:
    """Train decoders on random contexts, and test each against the claims."""
    rng = np.random.default_rng(settings["seed"])
    steps = _spread(int(settings["steps"]), 40)
    traces: list[DecoderTrace] = []
    for trial in range(settings["trials"]):
        progress("training", trial, settings["trials"])
        traces.append(train_decoder(draw_contexts(settings, rng), steps, settings["step_size"]))
    rows = [_measure(trace) for trace in traces]
    caption = (
        f"{settings['trials']} draws of {settings['n_contexts']} one-hot contexts over {settings['n_tokens']}"
        f" tokens, {settings['steps']:,} steps of size {settings['step_size']:g}"
    )
    headers = ["t·(CE − H)", "its limit ‖W^mm‖²/η", "ratio", "largest logit error", "verdicts"]
    shown = [[f"{a:.4f}", f"{b:.4f}", f"{a / b:.4f}", f"{c:.4f}", summary] for a, b, c, summary in rows]
    numbers = {
        "trial": np.repeat(np.arange(len(traces)), len(steps)),
        "step": np.tile(steps, len(traces)),
        "excess": np.concatenate([trace.excesses for trace in traces]),
        "squared_norm": np.repeat([squared_norm(trace.supports) for trace in traces], len(steps)),
    }
    return render_figure(
        settings,
        caption,
        (Grid("Measured and predicted at the last step", headers, shown),),
        table_of(numbers),
        partial(_draw_runs, traces),
        verdicts=_worst(traces),
        notes=tuple(settings.get("remarks", ())),
    )


def _spread(last: int, count: int) -> list[int]:
    """Ascending steps up to the last, evenly spaced on a logarithmic scale."""
    return sorted({round(float(step)) for step in np.geomspace(1, last, count)})


def draw_contexts(settings: Settings, rng: np.random.Generator) -> Supports:
    """Random contexts, none rare, with random supports and no small probability."""
    size, count, positions = int(settings["n_tokens"]), int(settings["n_contexts"]), settings["positions"]
    sizes: list[int] = rng.integers(1, size, count).tolist()
    tokens = [np.sort(rng.choice(size, n_tokens, replace=False)) for n_tokens in sizes]
    shares: Float64 = 0.5 / count + 0.5 * rng.dirichlet(np.ones(count))
    laws: list[Float64] = [
        0.25 / n_tokens + 0.75 * rng.dirichlet(2 * np.ones(n_tokens)) for n_tokens in sizes
    ]
    drawn: list[Float64] = [positions * share * law for share, law in zip(shares.tolist(), laws, strict=True)]
    counts: Int64 = np.maximum(np.rint(np.concatenate(drawn)), 1).astype(np.int64)
    rows = (np.arange(count)[:, None] % size).astype(np.int32)
    return Supports(rows, np.cumsum([0, *sizes]), np.concatenate(tokens), counts, size)


def _measure(trace: DecoderTrace) -> tuple[float, float, float, str]:
    """t·(CE − H), its limit, the largest error of the predicted logits, and the verdicts in short."""
    step, size = trace.steps[-1], trace.step_size
    logits = trace.logits(-1)
    laws = [asymptote(trace.supports, number, step, size) for number in range(len(logits))]
    off = float(np.abs(logits - np.array(laws)).max())
    summary = verify_decoder(trace).summary
    return step * float(trace.excesses[-1]), squared_norm(trace.supports) / size, off, summary


def _worst(traces: Sequence[DecoderTrace]) -> list[Verdict]:
    """The worst verdict on each claim: a failure, or the one closest to its bound."""
    judged = [verify_decoder(trace) for trace in traces]
    order = {"fails": 0, "holds": 1, "too_early": 2, "not_applicable": 3}
    return [
        min(
            of_one,
            key=lambda verdict: (
                order[verdict.status.value],
                abs((verdict.value or 0.0) - (verdict.bound or 0.0)),
            ),
        )
        for of_one in zip(*judged, strict=True)
    ]


def _draw_runs(traces: Sequence[DecoderTrace], path: Path, *, caption: str) -> list[Path]:
    """t·(CE − H)·η/‖W^mm‖² over the steps, trained and predicted."""
    lines: list[Line] = []
    for trace in traces:
        scale = trace.step_size * np.array(trace.steps) / squared_norm(trace.supports)
        excesses = [
            level.excess for level in follow_levels(find_levels(trace.supports), trace.steps, trace.step_size)
        ]
        lines.append(Line("trained", trace.steps, (scale * trace.excesses).tolist(), 0))
        lines.append(Line("predicted", trace.steps, (scale * np.array(excesses)).tolist(), 1, 2))
    panel = LinePanel("ηt(CE − H) / ‖W^mm‖²", [*lines, Line("limit", [0], [1.0], 2, 1)])
    return draw_line_panels([panel], path, caption=caption)


def run_text(settings: Settings, progress: Progress) -> Page:
    """Train the bigram decoder of a text's frequent words, and compare with the prediction for every step."""
    progress("counting", 0, 0)
    limit = learn_decoder(
        settings["source"], "bigram", engine="memory", most_frequent=settings["n_tokens"] - 1
    )
    supports = limit.supports
    step_size = settings["step_share"] * UNSTABLE / float(supports.shares.max())
    last = find_late_step(supports, step_size, settings["late"], settings["mass"])
    steps = _spread(last, 30)
    progress("training", 0, 0)
    levels = find_levels(supports)
    trained = np.array([level.excess for level in follow_levels(levels, steps, step_size, exact=last)])
    predicted = np.array([level.excess for level in follow_levels(levels, steps, step_size)])
    law = limit.squared_norm / (step_size * np.array(steps))
    caption = (
        f"{Path(settings['source']).name}: {supports.n_positions:,} positions, {supports.n_tokens:,} words, "
        f"{len(supports.tokens):,} bigrams; {last:,} steps of size {step_size:.3g}, until ηtπV/s ≥ "
        f"{settings['late']:g} for {settings['mass']:.0%} of the positions"
    )
    marks = sorted({0, len(steps) // 3, 2 * len(steps) // 3, len(steps) - 1})
    rows = [
        [f"{steps[mark]:,}", *(f"{limit.entropy + curve[mark]:.5f}" for curve in (trained, predicted, law))]
        for mark in marks
    ]
    return render_figure(
        settings,
        caption,
        (Grid(f"Loss (entropy {limit.entropy:.5f})", ["step", "trained", "predicted", "by the law"], rows),),
        table_of({"step": steps, "trained": trained, "predicted": predicted, "law": law}),
        partial(_draw_text, steps, trained, predicted, law),
        verdicts=[_judge_text(limit.entropy + trained, limit.entropy + predicted, steps)],
        notes=tuple(settings.get("remarks", ())),
        options="--data FILE",
    )


def find_late_step(supports: Supports, step_size: float, late: float, mass: float) -> int:
    """The first step t with ηtπ_jV/s_j ≥ ``late`` for contexts with a ``mass`` of the positions.

    Examples
    --------
    >>> from attomaton.theories import count_supports
    >>> find_late_step(count_supports([[0, 1, 0, 2]], 1), 1.0, 100.0, 0.9)
    100
    """
    needed = late * supports.sizes / (step_size * supports.shares * supports.n_tokens)
    order = np.argsort(needed)
    reached = np.cumsum(supports.shares[order]) >= mass - 1e-12
    return int(np.ceil(needed[order][int(np.argmax(reached))] - 1e-9))


def _judge_text(trained: Float64, predicted: Float64, steps: Sequence[int]) -> Verdict:
    off = np.abs(predicted / trained - 1)
    worst = int(off.argmax())
    meaning = f"largest relative error of the predicted loss at any record, at step {steps[worst]:,}"
    return Judgement(float(off[worst]), NEAR, bool(off[worst] <= NEAR), meaning).about("decoder-text")


def _draw_text(steps: Any, trained: Any, predicted: Any, law: Any, path: Path, *, caption: str) -> list[Path]:
    curves = (("trained", trained), ("predicted", predicted), ("by the law of large steps", law))
    lines = [Line(name, steps, curve.tolist(), number, number) for number, (name, curve) in enumerate(curves)]
    return draw_line_panels([LinePanel("CE − H, nats by position", lines, log=True)], path, caption=caption)


def run_concepts(settings: Settings, progress: Progress) -> Page:
    """The leading directions of a text's centred support matrix."""
    progress("counting", 0, 0)
    limit = learn_decoder(settings["source"], "bigram", engine="memory")
    progress("decomposing", 0, 0)
    concepts = find_concepts(limit.supports, settings["count"], vocabulary=limit.vocabulary)
    groups = group_supports(limit.supports)
    alike = int((np.bincount(groups)[groups] > 1).sum())
    caption = (
        f"{Path(settings['source']).name}: {concepts.words.shape[0]:,} words by "
        f"{concepts.contexts.shape[0]:,} "
        f"contexts, {len(limit.supports.tokens):,} bigrams; {alike:,} contexts share their support with "
        f"another; these directions explain {concepts.explained:.1%} of ‖W^mm‖²"
    )
    return render_figure(
        settings,
        caption,
        (Grid("Leading concepts", HEADERS, concepts.rows()),),
        concepts.table(),
        partial(_draw_concepts, concepts),
        verdicts=(),
        notes=tuple(settings.get("remarks", ())),
        options="--data FILE",
    )


def _draw_concepts(concepts: Concepts, path: Path, *, caption: str) -> list[Path]:
    title = wrap_caption(caption)
    with paper_style():
        figure = new_figure(2 * ONE_COLUMN + 0.11 * len(title))
        for row, axis in enumerate(figure.subplots(2, 1)):
            concepts.plot(2 * row, 2 * row + 1, ax=axis)
        return save_figure(figure, path, caption="\n".join(title))
