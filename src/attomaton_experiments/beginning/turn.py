"""How long the forecast of the first steps holds on a text: over subsamples, step sizes, starts and depths.

Settings: ``tokenizer``, ``n_tokens``, ``window`` and ``n_sequences`` (the corpus); ``n_layers``,
``step_size``, ``steps`` and ``every`` (the run); ``trials`` (subsamples) and ``courses`` (for how many of
them the course is computed too); ``step_sizes``, ``starts`` and ``depths`` (of one more run each); ``marks``
(steps in the table).
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from attomaton.base.progress import Progress
from attomaton.base.tables import Float64
from attomaton.claims import compare_beginning, compare_course, verify_beginning
from attomaton.claims.agreement import Agreement
from attomaton.claims.beginning import judge_course
from attomaton.claims.verdicts import verdict_record
from attomaton.theories import follow_course
from attomaton.training import DeepModel, Watch, train_deep
from attomaton_experiments.beginning.curves import measured
from attomaton_experiments.beginning.sequences import Sequences, read_sequences
from attomaton_experiments.beginning.turn_page import render_turn
from attomaton_experiments.finished import FinishedResults
from attomaton_experiments.page import Page
from attomaton_experiments.settings import Settings

SHOWN = 6
"""Number of keys listed as those that attention turns to."""


@dataclass(frozen=True)
class TurnRun:
    """One run: subsample, depth, step size, steps, start, and whether its course is computed too."""

    trial: int
    n_layers: int
    step_size: float
    steps: int
    every: int
    start: float = 0.0
    course: bool = True


def run_turn(settings: Settings, progress: Progress) -> Page:
    """Train on every subsample, and once for each other step size, start and depth."""
    progress("reading", 0, 0)
    text = read_sequences(settings["source"], settings["n_tokens"], settings["window"], settings["tokenizer"])
    results = FinishedResults(settings.get("work"))
    common = {
        **{name: settings[name] for name in ("n_sequences", "seed", "tokenizer")},
        "text": text.name,
        "n_tokens": text.n_tokens,
        "shape": list(text.table.shape),
    }
    runs: dict[str, dict[str, Any]] = {}
    planned = list_runs(settings)
    for number, (name, run) in enumerate(planned.items()):
        progress(f"training, {name}", number, len(planned))
        options = {**common, **asdict(run)}
        numbers = results.take(name, options, partial(_train, settings, text, run))
        runs[name] = {**numbers, "step_size": run.step_size, "start": run.start}
    return render_turn(settings, text, runs)


def list_runs(settings: Settings) -> dict[str, TurnRun]:
    """Every run by its name: the subsamples, then the variations on the first of them."""
    layers, size, steps, every = (settings[name] for name in ("n_layers", "step_size", "steps", "every"))
    runs = {
        f"subsample {trial}": TurnRun(trial, layers, size, steps, every, course=trial < settings["courses"])
        for trial in range(settings["trials"])
    }
    for step_size in settings["step_sizes"]:
        longer = round(steps * size / step_size)
        runs[f"step size {step_size:g}"] = TurnRun(
            0, layers, step_size, longer, max(round(every * size / step_size), 1)
        )
    for start in settings["starts"]:
        runs[f"start {start:g}"] = TurnRun(0, layers, size, steps, every, start, course=False)
    for depth in settings["depths"]:
        runs[f"{depth} layers"] = TurnRun(0, depth, size, steps, every)
    return runs


def _train(settings: Settings, text: Sequences, run: TurnRun) -> dict[str, Any]:
    """Losses, cosines with the forecast and with the course, verdicts, and the keys attention turns to."""
    sequences = text.draw(settings["n_sequences"], [settings["seed"], run.trial])
    trace = train_deep(
        sequences,
        DeepModel(n_layers=run.n_layers, start=run.start),
        run.step_size,
        steps=run.steps,
        n_tokens=text.n_tokens,
        watch=Watch(every=run.every),
        seed=settings["seed"],
    )
    agreement = compare_beginning(trace)
    verdicts = [verdict_record(verdict) for verdict in verify_beginning(agreement)]
    numbers = measured(agreement)
    numbers["turns"] = [None if np.isnan(turn) else float(turn) for turn in agreement.turns[0, :, 0]]
    numbers["keys"] = _name_keys(agreement, text)
    if run.course:
        course = follow_course(
            sequences,
            text.n_tokens,
            step_size=run.step_size,
            steps=run.steps,
            n_layers=run.n_layers,
            every=run.every,
        )
        near = compare_course(trace, course)
        verdicts.append(verdict_record(judge_course(agreement, near["attention"])))
        records = [trace.steps.tolist().index(step) for step in numbers["steps"]]
        numbers["course"] = {
            name: weights.cosine[records, 0, :, 0].T.tolist() for name, weights in near.items()
        }
        numbers["course_size"] = near["attention"].size[records, 0, :, 0].T.tolist()
    return {**numbers, "verdicts": verdicts}


def _name_keys(agreement: Agreement, text: Sequences) -> dict[str, list[str]]:
    """The keys with the highest and lowest mean score over queries, at first and in each layer at the end."""
    trace, statistics = agreement.trace, agreement.beginnings[0].statistics
    queries = np.asarray(statistics.counts.sum(axis=1)).ravel() / statistics.n_positions
    last = trace.at(int(trace.steps[-1])).attention[0, :, 0]
    tables = {"first": statistics.look_table} | {
        f"layer {layer + 1}": table for layer, table in enumerate(last)
    }
    occurs = np.asarray((statistics.looks != 0).sum(axis=0)).ravel() > 0
    return {name: _extremes(queries @ table, occurs, text) for name, table in tables.items()}


def _extremes(score: Float64, occurs: Any, text: Sequences) -> list[str]:
    """The names of the highest keys, followed by those of the lowest."""
    order = np.argsort(-np.where(occurs, score, 0.0), kind="stable").tolist()
    return [text.vocabulary.tokens[key] for key in (*order[:SHOWN], *order[: -SHOWN - 1 : -1])]
