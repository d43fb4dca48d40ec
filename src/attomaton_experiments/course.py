"""When each head of a small language model gets its type, and whether utility at the start predicts it.

Settings: ``n_tokens``, ``held_out`` and ``shortest`` (the text), ``shape``, ``training`` and ``trials`` (the
models), ``n_documents``, ``random`` and ``n_windows`` (the audit of each checkpoint), ``order`` (two places)
and ``n_permutations``. Checkpoints are folders in ``--work``, which ``attomaton heads`` opens too.
"""

import tempfile
from dataclasses import asdict
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.base.tables import Float64, Int64
from attomaton.claims import Verdict, VerdictStatus
from attomaton.claims.verdicts import Judgement
from attomaton.heads import AuditSettings, audit_heads, open_model, plain_rungs
from attomaton_experiments.figures.course import draw_history
from attomaton_experiments.finished import FinishedResults
from attomaton_experiments.head_course.history import History, Record, tell_interval, tell_steps
from attomaton_experiments.head_course.llama import LlamaShape
from attomaton_experiments.head_course.targets import TARGETS, measure_targets, target_column
from attomaton_experiments.head_course.training import CourseTraining, Stories, read_stories
from attomaton_experiments.head_study.run import find_interval
from attomaton_experiments.head_study.training import draw_windows
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

MEASURED = ("n_documents", "random", "n_windows")
"""The settings of the audit."""


def run_course(settings: Settings, progress: Progress) -> Page:
    """Train, audit every checkpoint of every seed, and make the page."""
    sizes = {name: settings[name] for name in ("n_tokens", "held_out", "shortest")}
    stories = read_stories(settings["source"], **sizes)
    seeds = range(settings["seed"], settings["seed"] + settings["trials"])
    records, losses = list[Record](), list[dict[str, list[float]]]()
    with tempfile.TemporaryDirectory() as temporary:
        for seed in seeds:
            folder = Path(settings["work"] or temporary) / f"seed-{seed}"
            heads, loss = _follow(settings, stories, seed, folder, progress)
            records += heads
            losses.append(loss)
    history = History(records)
    losses_by_seed = {
        name: np.array([loss_of_seed[name] for loss_of_seed in losses]) for name in ("train", "held_out")
    }
    n_permutations, seed = settings["n_permutations"], settings["seed"]
    caption = (
        f"A model of {history.sizes[2]} layers of {history.sizes[3]} heads, width "
        f"{settings['shape']['width']}, trained on {len(stories.train):,} tokens of "
        f"{settings['source'].name} with {len(seeds)} seeds; "
        f"{len(history.steps)} checkpoints up to step {history.steps[-1]:,}"
    )
    return render_figure(
        settings,
        caption,
        (
            _tell_types(history),
            _tell_times(history),
            _tell_rises(history),
            _tell_predicted(history, n_permutations, seed),
            _tell_losses(history, losses_by_seed),
        ),
        pa.Table.from_pylist(records),
        partial(draw_history, history, losses_by_seed),
        verdicts=[_judge_order(history, settings["order"])],
        notes=NOTES,
        options="--data FILE",
    )


NOTES = (
    "Brackets are 95 % intervals over seeds, of the logarithm for steps. A head has a type for good from "
    "the step after which its type no longer changes.",
    "Attention at a place is the mean over the queries that have it. Utility at a place is the fall of the "
    "loss for each unit of attention moved there, where all heads attend uniformly. Within layers, heads are "
    "compared with heads of their own layer: p, two-sided and one for each place, is small if utility at the "
    "start tells which head of a layer ends there.",
)


def _follow(
    settings: Settings, stories: Stories, seed: int, folder: Path, progress: Progress
) -> tuple[list[Record], dict[str, list[float]]]:
    """The heads of one seed at every checkpoint, and its losses."""
    shape = LlamaShape(stories.n_tokens, **settings["shape"])
    training = CourseTraining(shape, **settings["training"], seed=seed)
    finished = FinishedResults(settings["work"])
    options = {**asdict(training), "text": stories.digest}
    loss = finished.take(f"training {seed}", options, partial(training.run, stories, folder, progress))
    audit_options = options | {name: settings[name] for name in MEASURED}
    heads = list[Record]()
    for number, step in enumerate(training.marks):
        progress(f"auditing seed {seed}", number, len(training.marks))
        make = partial(_audit, folder / f"checkpoint-{step}", stories, audit_options)
        audited = finished.take(f"audit {seed} {step}", audit_options, make)["heads"]
        heads += [{"seed": seed, "step": step, **head} for head in audited]
    return heads, loss


def _audit(folder: Path, stories: Stories, options: dict[str, Any]) -> dict[str, list[Record]]:
    """Every head of a checkpoint: the audit on held-out documents, and attention and utility at places."""
    model, longest = open_model(folder), options["shape"]["longest"]
    documents = stories.held_out[: options["n_documents"]]
    audit = audit_heads(
        model,
        documents,
        rungs=plain_rungs(stories.texts),
        random=options["random"],
        settings=AuditSettings(longest=longest, seed=options["seed"]),
    )
    windows: Int64 = draw_windows(stories.train, longest // 2, options["n_windows"], seed=0)
    table: Any = audit.table()
    return {
        "heads": [
            {name: _plain(value) for name, value in row.items()} | positions
            for row, positions in zip(table.to_pylist(), measure_targets(model, windows), strict=True)
        ]
    }


def _plain(cell: Any) -> Any:
    return None if isinstance(cell, float) and not isfinite(cell) else cell


RISE = 2.0
"""How many times the first attention at a place the last must be to have risen."""

SHOWN = 9
"""Steps in a printed table."""


def _shown(history: History) -> list[int]:
    """Some of the steps, as indices, with the first and the last."""
    return sorted({int(at) for at in np.linspace(0, len(history.steps) - 1, SHOWN).round()})


def _headers(history: History) -> list[str]:
    return [f"step {history.steps[at]:,}" for at in _shown(history)]


def _tell_types(history: History) -> Grid:
    rows = [
        [kind, *(f"{history.count(kind)[:, at].mean():.1f}" for at in _shown(history))]
        for kind in history.names
    ]
    title = f"Heads with each type, of {history.sizes[2] * history.sizes[3]}, mean over seeds"
    return Grid(title, ["type", *_headers(history)], rows)


def _tell_times(history: History) -> Grid:
    last, settled, rows = history.types[:, -1], history.settled(), list[list[str]]()
    for kind in history.names:
        ends = history.count(kind)[:, -1]
        if not ends.any():
            continue
        medians = np.array(
            [
                np.median(steps[of_kind]) if of_kind.any() else np.nan
                for steps, of_kind in zip(settled, last == kind, strict=True)
            ]
        )
        n_heads, end = history.types.shape[-1], history.steps[-1]
        first, median = (tell_steps(steps, end) for steps in (history.first_settled(kind), medians))
        rows.append([kind, tell_interval(ends, 0, n_heads, "{:.1f}"), first, median])
    headers = ["type", "heads at the end", "first head has it for good at", "median head at"]
    return Grid("When heads get the type they end with", headers, rows)


def _tell_rises(history: History) -> Grid:
    rows = list[list[str]]()
    for target in TARGETS:
        most = history.values(target_column("attention", target)).max((2, 3))
        ends = [tell_interval(most[:, at], 0, 1) for at in (0, -1)]
        rows.append([target, *ends, tell_steps(history.half_rise(target), history.steps[-1])])
    headers = ["place", "most attention at first", "at the end", "halfway at step"]
    return Grid("Attention of the head that attends most to each place", headers, rows)


def _tell_predicted(history: History, n_permutations: int, seed: int) -> Grid:
    first, rows = history.steps[0], list[list[str]]()
    for target in TARGETS:
        overall, within = (history.predicted(target, first, within=is_within) for is_within in (False, True))
        p = history.test_predicted(target, first, n_permutations, seed)
        intervals = [tell_interval(correlation, -1, 1) for correlation in (overall, within)]
        rows.append([target, *intervals, f"{p:.2g}"])
    headers = ["place", "over all heads", "within layers", "p, permuted within layers"]
    title = "Rank correlation of utility at the start with attention at the end"
    return Grid(title, headers, rows)


def _tell_losses(history: History, losses: dict[str, Float64]) -> Grid:
    rows = [
        [name.replace("_", " "), *(f"{values[:, at].mean():.2f}" for at in _shown(history))]
        for name, values in losses.items()
    ]
    return Grid("Loss in nats per token, mean over seeds", ["documents", *_headers(history)], rows)


def _judge_order(history: History, order: list[str]) -> Verdict:
    """Whether attention to the first place rises before that to the second, over seeds, if both rise."""
    claim = f"{order[0]} before {order[1]}"
    for target in order:
        most = history.values(target_column("attention", target)).max((2, 3))
        few = int((most[:, -1] < RISE * most[:, 0]).sum())
        if few:
            reason = (
                f"with {few} of {len(most)} seeds, the head that attends most to {target} ends below "
                f"{RISE:g} times the attention at first, so it has not risen in {history.steps[-1]:,} steps"
            )
            return Verdict(claim, VerdictStatus.NOT_APPLICABLE, None, None, reason)
    first, second = (np.log2(np.maximum(history.half_rise(target), 1.0)) for target in order)
    mean, half = find_interval(second - first)
    meaning = (
        f"lower end of the 95 % interval over seeds of the doublings of steps from the half-rise of "
        f"{order[0]} to that of {order[1]}; mean {mean:.2f}"
    )
    return Judgement(mean - half, 0.0, mean - half > 0, meaning).about(claim)
