"""Attention trained on real text, compared with the text's automaton on held-out contexts.

Settings: ``tokens`` (``"characters"`` or ``"words"``), ``window`` (the longest context), ``held_out`` (the
share of the text, at its end, that is not trained on), ``n_training_contexts`` (how many random training
contexts are also compared with the automaton), ``steps`` (when attention is compared) and
``models``, each with its name, parametrisation (and rank), step and size, and batch_size unless all samples
are used at once.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.automaton import learn
from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Float64, Int64, Integers, make_table
from attomaton.corpora import Samples
from attomaton.corpora.readers.corpus import read_text
from attomaton.graphs import count_tokens
from attomaton.graphs.bags import Bags
from attomaton.training import Adam, GradientDescent, Step
from attomaton_experiments.lookup.lookup import Pairs, find_pairs
from attomaton_experiments.lookup.parametrisations import Dense, Factored, Parametrisation, PerQuery
from attomaton_experiments.lookup.training import AtSteps, LookupRecord, LookupTraining
from attomaton_experiments.page import Page
from attomaton_experiments.retrieval import Retrieval, attend, read_retrieval
from attomaton_experiments.settings import Settings
from attomaton_experiments.text_outcome import CURVE_SCHEMA, Row, TextOutcome, render_text


def run_text(settings: Settings, progress: Progress) -> Page:
    """Compare attention with the automaton of the text, and make the page."""
    return render_text(compare_text(settings, progress))


def compare_text(settings: Settings, progress: Progress = silent) -> TextOutcome:
    """Learn the automaton of the text, train every model on the same samples, and compare."""
    progress("reading", 0, 0)
    trained, held_out = split_text(settings)
    bags, new = count_tokens(trained), count_tokens(held_out)
    progress("learning the automaton", 0, 0)
    automaton = learn(trained)
    retrievals = {
        "held out": read_retrieval(automaton, new),
        "trained on": read_retrieval(automaton, _some_of(bags, settings)),
    }
    pairs = find_pairs([bags, new])
    rows = [row for kind, retrieval in retrievals.items() for row in _untrained(kind, retrieval)]
    for model in settings["models"]:
        progress(f"training {model['name']}", 0, 0)
        rows += _train(settings, model, bags, pairs, retrievals)
    columns = {name: [row[name] for row in rows] for name in CURVE_SCHEMA.names}
    counts = {
        "n_tokens": trained.n_tokens,
        "trained_on": len(bags.samples),
        "held_out": len(new.samples),
        "pairs": len(find_pairs([bags])),
        "components": len(automaton.components),
    }
    return TextOutcome(settings, counts, retrievals["held out"].shares(), make_table(CURVE_SCHEMA, columns))


def split_text(settings: Settings) -> tuple[Samples, Samples]:
    """The training samples and the held-out samples; no context crosses the cut."""
    path: Path = settings["source"]
    ids = _read_characters(path) if settings["tokens"] == "characters" else read_text(path).ids
    cut = len(ids) - int(settings["held_out"] * len(ids))
    size = int(ids.max()) + 1
    trained, held_out = (
        Samples.from_windows(half, window=settings["window"], n_tokens=size)
        for half in (ids[:cut], ids[cut:])
    )
    return trained, held_out


def _read_characters(path: Path) -> Integers:
    """The characters of a UTF-8 text as ids, in the order of their code points."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableSource(f"{path} cannot be read as UTF-8 text ({error}); give a text file") from error
    if len(text) < 100:
        raise UnreadableSource(f"{path} has {len(text)} characters; give a text with several hundred")
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return np.unique(codes, return_inverse=True)[1]


def _some_of(bags: Bags, settings: Settings) -> Bags:
    """The contexts of some samples, drawn at random."""
    size = len(bags.samples)
    number: int = min(settings["n_training_contexts"], size)
    drawn = np.random.default_rng([settings["seed"], 1]).choice(size, number, replace=False)
    return count_tokens(bags.samples.take(np.sort(drawn)))


def _untrained(kind: str, retrieval: Retrieval) -> list[Row]:
    bags = retrieval.bags
    scores = {"uniform attention": np.zeros(len(bags.token)), "any token": -np.log(bags.multiplicity)}
    start = LookupRecord(0, 0.0, 0.0, {})
    return [row for name, score in scores.items() for row in _compare(name, kind, retrieval, score, start)]


def _compare(model: str, kind: str, retrieval: Retrieval, scores: Float64, moment: LookupRecord) -> list[Row]:
    """One row per rule, from a score for each entry."""
    masses = attend(retrieval.bags, scores)
    score = retrieval.score(masses)
    when = {"step": moment.step, "epochs": moment.epochs, "log_loss": score.log_loss, "top1": score.top1}
    return [
        {"model": model, "contexts": kind, "rule": rule, **when, **asdict(agreement)}
        for rule, agreement in retrieval.compare(masses).items()
    ]


def _train(
    settings: Settings, model: dict[str, Any], bags: Bags, pairs: Pairs, retrievals: dict[str, Retrieval]
) -> list[Row]:
    rows: dict[str, Int64] = {kind: pairs.find(retrieval.bags) for kind, retrieval in retrievals.items()}
    recorded: list[dict[str, Float64]] = []

    def keep(scores: Float64) -> dict[str, float]:
        recorded.append({kind: scores[row] for kind, row in rows.items()})
        return {}

    training = LookupTraining(
        _parametrisation(model), _step(model), model.get("batch_size"), seed=settings["seed"], single=True
    )
    moments = training.run(bags, pairs, records=AtSteps(tuple(settings["steps"])), measure=keep)
    return [
        row
        for moment, scores in zip(moments, recorded, strict=True)
        for kind, retrieval in retrievals.items()
        for row in _compare(model["name"], kind, retrieval, scores[kind], moment)
    ]


def _parametrisation(model: dict[str, Any]) -> Parametrisation:
    match model["parametrisation"]:
        case "dense":
            return Dense()
        case "per-query":
            return PerQuery()
        case "factored":
            return Factored(model["rank"])
        case unknown:
            raise UnsupportedOption(f"no parametrisation {unknown!r}; choose dense, per-query or factored")


def _step(model: dict[str, Any]) -> Step:
    steps: dict[str, Callable[[float], Step]] = {"adam": Adam, "descent": GradientDescent}
    return steps[model["step"]](model["size"])
