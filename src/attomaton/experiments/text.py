"""Attention trained on real text, compared with the text's automaton on contexts held out of training."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.claims.retrieval import Retrieval, attend, read_retrieval
from attomaton.corpora.readers import read_text
from attomaton.corpora.samples import Samples
from attomaton.errors import UnreadableSource, UnsupportedOption
from attomaton.experiments.text_settings import TextSettings
from attomaton.graphs.bags import Bags, count_tokens
from attomaton.models.lookup import Pairs, find_pairs
from attomaton.models.parametrisations import Dense, Factored, Parametrisation, PerQuery
from attomaton.pipeline import learn
from attomaton.tables import Float64, Int64, Integers, make_table
from attomaton.training.lookup import AtSteps, LookupTraining, Moment
from attomaton.training.steps import Adam, GradientDescent, Step

MEASURES = ("retrieved", "mass", "same_top", "distance")
CURVE_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("model", "contexts", "rule")),
        *((name, pa.int64()) for name in ("step", "n_contexts")),
        *((name, pa.float64()) for name in ("epochs", "log_loss", "top1", *MEASURES)),
    ]
)
Row = dict[str, Any]
"""One row of the curves: an agreement, and log-loss and top-1 over all contexts of its kind."""


@dataclass(frozen=True, eq=False)
class TextOutcome:
    """One experiment on text, done.

    Attributes
    ----------
    settings : TextSettings
        What was asked for.
    source : str
        The name of the file.
    counts : dict
        n_tokens, samples and realisable ones trained on and held out, pairs, components.
    shares : dict
        Share of the held-out contexts that each rule answered.
    curves : pyarrow.Table
        Columns model, contexts (``"held out"`` or ``"trained on"``), rule, step, n_contexts, epochs,
        log_loss, top1 and the measures of :class:`~attomaton.claims.retrieval.Agreement`. The models
        ``"uniform attention"`` (its top token is the most frequent of the context) and ``"any token"`` (all
        distinct tokens alike) show what is reached without training.
    """

    settings: TextSettings
    source: str
    counts: dict[str, int]
    shares: dict[str, float]
    curves: pa.Table

    def rows(self, **wanted: str) -> list[Row]:
        """The rows of the curves that have these values."""
        found: list[Row] = self.curves.to_pylist()
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]


def run_text(
    settings: TextSettings, path: str | Path, *, seed: int = 0, announce: Callable[[str], object] = str
) -> TextOutcome:
    """Learn the automaton of the text, train every model on the same samples, and compare."""
    announce("reading")
    trained, held_out = split_text(settings, path)
    bags, new = count_tokens(trained), count_tokens(held_out)
    announce("learning the automaton")
    automaton = learn(trained)
    asked = {
        "held out": read_retrieval(automaton, new),
        "trained on": read_retrieval(automaton, _some_of(bags, settings.n_training_contexts, seed)),
    }
    pairs = find_pairs([bags, new])
    rows = [row for kind, one in asked.items() for row in _untrained(kind, one)]
    for model in settings.models:
        announce(f"training {model['name']}")
        rows += _train(settings, model, bags, pairs, asked, seed)
    columns = {name: [row[name] for row in rows] for name in CURVE_SCHEMA.names}
    counts = {
        "n_tokens": trained.n_tokens,
        "trained_on": len(bags.samples),
        "held_out": len(new.samples),
        "pairs": len(find_pairs([bags])),
        "components": len(automaton.components),
    }
    shares = asked["held out"].shares()
    return TextOutcome(settings, Path(path).name, counts, shares, make_table(CURVE_SCHEMA, columns))


def split_text(settings: TextSettings, path: str | Path) -> tuple[Samples, Samples]:
    """The samples trained on and those held out; no context reaches over the cut."""
    ids = _read_characters(path) if settings.tokens == "characters" else read_text(path).ids
    cut = len(ids) - int(settings.held_out * len(ids))
    size = int(ids.max()) + 1
    trained, held_out = (
        Samples.from_windows(part, window=settings.window, n_tokens=size) for part in (ids[:cut], ids[cut:])
    )
    return trained, held_out


def _read_characters(path: str | Path) -> Integers:
    """The characters of a UTF-8 text as ids, in the order of their code points."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableSource(f"{path} cannot be read as UTF-8 text ({error}); give a text file") from error
    if len(text) < 100:
        raise UnreadableSource(f"{path} has {len(text)} characters; give a text with hundreds at least")
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return np.unique(codes, return_inverse=True)[1]


def _some_of(bags: Bags, number: int, seed: int) -> Bags:
    """The contexts of so many samples drawn at random."""
    size = len(bags.samples)
    drawn = np.random.default_rng([seed, 1]).choice(size, min(number, size), replace=False)
    return count_tokens(bags.samples.take(np.sort(drawn)))


def _untrained(kind: str, retrieval: Retrieval) -> list[Row]:
    bags = retrieval.bags
    scores = {"uniform attention": np.zeros(len(bags.token)), "any token": -np.log(bags.multiplicity)}
    start = Moment(0, 0.0, 0.0, {})
    return [row for name, one in scores.items() for row in _compare(name, kind, retrieval, one, start)]


def _compare(model: str, kind: str, retrieval: Retrieval, scores: Float64, moment: Moment) -> list[Row]:
    """One row for each rule, from a score for each entry."""
    masses = attend(retrieval.bags, scores)
    score = retrieval.score(masses)
    when = {"step": moment.step, "epochs": moment.epochs, "log_loss": score.log_loss, "top1": score.top1}
    return [
        {"model": model, "contexts": kind, "rule": rule, **when, **asdict(agreement)}
        for rule, agreement in retrieval.compare(masses).items()
    ]


def _train(
    settings: TextSettings,
    model: dict[str, Any],
    bags: Bags,
    pairs: Pairs,
    asked: dict[str, Retrieval],
    seed: int,
) -> list[Row]:
    places: dict[str, Int64] = {kind: pairs.find(one.bags) for kind, one in asked.items()}
    held: list[dict[str, Float64]] = []

    def keep(scores: Float64) -> dict[str, float]:
        held.append({kind: scores[place] for kind, place in places.items()})
        return {}

    training = LookupTraining(
        _parametrisation(model), _step(model), model.get("batch_size"), seed=seed, single=True
    )
    moments = training.run(bags, pairs, records=AtSteps(settings.steps), measure=keep)
    return [
        row
        for moment, scores in zip(moments, held, strict=True)
        for kind, one in asked.items()
        for row in _compare(model["name"], kind, one, scores[kind], moment)
    ]


def _parametrisation(model: dict[str, Any]) -> Parametrisation:
    match model["parametrisation"]:
        case "dense":
            return Dense()
        case "per-query":
            return PerQuery()
        case "factored":
            return Factored(model["rank"])
        case other:
            raise UnsupportedOption(f"no parametrisation {other!r}; choose dense, per-query or factored")


def _step(model: dict[str, Any]) -> Step:
    steps: dict[str, Callable[[float], Step]] = {"adam": Adam, "descent": GradientDescent}
    return steps[model["step"]](model["size"])
