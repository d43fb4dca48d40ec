"""The study: every model trained, audited and followed over training, and its numbers as tables."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attomaton.base.printing import Grid
from attomaton.base.tables import Float64
from attomaton_experiments.head_study.audit import StudyText, audit_model, follow_utility
from attomaton_experiments.head_study.training import take_course
from attomaton_experiments.head_study.variants import plan_training

Record = dict[str, Any]
"""The numbers of one head, with its model and seed; also ``step`` where it is followed."""

TEXT = ("automaton", "shrink", "PMI", "lift", "same token", "profile")
"""Explanations that do not depend on the head, and its mean pattern, in the order of the table."""

UTILITIES = ("utility", "other utility", "relabelled", "closed", "closed, copies")
"""Explanations by utility, in the order of the table."""

CLOSED = ("correlation, closed", "correlation, closed, copies")

PLAIN = ("values and residual", "four heads")
"""Models whose heads are not priority heads: the plain graph should explain almost nothing."""

STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}
"""By the number of seeds: the half-width of a 95 % interval in standard errors."""


@dataclass(frozen=True)
class StudyModel:
    """One model of the study: variant, steps and seed."""

    variant: str
    steps: int
    seed: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.variant} {self.seed}".replace("'", "").replace(" ", "-")

    def run(self, text: StudyText, folder: Path | None) -> dict[str, list[Record]]:
        """Train it, or read it from the folder; audit every head, and follow utility over training."""
        torch.set_num_threads(1)
        training = plan_training(
            self.variant, text.n_tokens, longest=text.window, steps=self.steps, seed=self.seed
        )
        path = None if folder is None else folder / f"{self.name}.safetensors"
        course = take_course(training, text.train, path)
        about = asdict(self)
        audited = audit_model(text, course.last, copying=training.copying)
        followed = follow_utility(text, course)
        return {
            "heads": [{**about, **record} for record in audited],
            "course": [{**about, **record} for record in followed],
        }


def list_models(settings: Mapping[str, Any]) -> list[StudyModel]:
    """Every model of the settings with every seed, seed by seed.

    Examples
    --------
    >>> [one.name for one in list_models({"models": ["four heads"], "trials": 2, "seed": 5, "steps": 10})]
    ['four-heads-5', 'four-heads-6']
    """
    seeds = range(settings["seed"], settings["seed"] + settings["trials"])
    return [StudyModel(variant, settings["steps"], seed) for seed in seeds for variant in settings["models"]]


def tell_sizes(settings: Mapping[str, Any]) -> str:
    """The settings in one sentence, without its full stop."""
    return (
        f"{len(settings['models'])} models with {settings['trials']} seeds each, {settings['steps']:,} steps "
        f"of Adam on {settings['tokens']} with contexts of {settings['window']} tokens: what utility and "
        "attention during training explain of the attention at the end"
    )


def align(records: Sequence[Record]) -> list[Record]:
    """Records with the same keys, None for missing values."""
    names = dict.fromkeys(name for record in records for name in record)
    return [{name: record.get(name) for name in names} for record in records]


def tell_shares(records: Sequence[Record]) -> list[Grid]:
    """The study: shares explained by the text and by utility, means over heads and seeds, with intervals."""
    title = "Share of attention explained by {}, mean over heads (± 95 % over seeds)"
    return [
        _tell_means(records, title.format("the text, and by the mean pattern"), TEXT),
        _tell_means(records, title.format("utility"), UTILITIES),
    ]


def tell_closed(records: Sequence[Record]) -> Grid:
    """Utility in closed form: its correlation with the measured table; and the edges that heads obey."""
    title = "Correlation of closed forms with the measured table, and share of edges obeyed"
    return _tell_means(records, title, (*CLOSED, "obeyed"))


def _tell_means(records: Sequence[Record], title: str, names: Sequence[str]) -> Grid:
    rows = [
        [variant, *(_cell(chosen, name) for name in names)] for variant, chosen in _by(records, "variant")
    ]
    return Grid(title, ["model", *names], rows)


def tell_course(records: Sequence[Record]) -> Grid:
    """The share of the final attention explained by utility, and by attention, at each step."""
    steps = sorted({record["step"] for record in records})
    rows = [
        [
            variant,
            name,
            *(_cell([record for record in chosen if record["step"] == step], name) for step in steps),
        ]
        for variant, chosen in _by(records, "variant")
        for name in ("utility", "pattern")
    ]
    title = "Share of the final attention explained by utility and attention at each step"
    return Grid(title, ["model", "at the step", *(f"{step:,}" for step in steps)], rows)


def judge_study(
    records: Sequence[Record], bounds: dict[str, float]
) -> list[tuple[str, float, float, bool, str]]:
    """The criteria of the study: a name, a value, its bound, whether it holds, and what it means.

    ``bounds`` has the smallest ``obeyed`` and ``shrink`` of the theory's layer, the largest ``plain`` share
    and the smallest share of heads whose ``own`` utility is above others'; missing entries are not judged.
    """
    theory = [record for record in records if record["variant"] == "theory's layer"]
    plain = [max(record["automaton"], record["shrink"]) for record in records if record["variant"] in PLAIN]
    several = [record["utility"] > record["other utility"] for record in records if "other utility" in record]
    criteria: list[tuple[str, float, float, bool, str]] = []
    for name, meaning in (
        ("obeyed", "smallest share of edges that the theory's layer obeys, over seeds"),
        ("shrink", "smallest share of its attention that `shrink` explains, over seeds"),
    ):
        if theory and name in bounds:
            least = min(record[name] for record in theory)
            criteria.append((f"heads-{name}", least, bounds[name], least >= bounds[name], meaning))
    if plain and "plain" in bounds:
        most, meaning = max(plain), "largest share of a head with values that the plain graph explains"
        criteria.append(("heads-plain", most, bounds["plain"], most <= bounds["plain"], meaning))
    if several and "own" in bounds:
        share, meaning = (
            float(np.mean(several)),
            "share of heads whose own utility explains more than others'",
        )
        criteria.append(("heads-own", share, bounds["own"], share >= bounds["own"], meaning))
    return criteria


def find_interval(values: Float64) -> tuple[float, float]:
    """The mean, and the half-width of its 95 % interval; 0 for one value.

    Examples
    --------
    >>> [round(one, 3) for one in find_interval(np.array([0.8, 0.9, 1.0]))]
    [0.9, 0.248]
    """
    if len(values) < 2:
        return float(values.mean()), 0.0
    factor = STUDENT.get(len(values), 2.6)
    return float(values.mean()), float(factor * values.std(ddof=1) / len(values) ** 0.5)


def _cell(records: Sequence[Record], name: str) -> str:
    means = [
        float(np.mean([record[name] for record in of_seed if name in record]))
        for _, of_seed in _by(records, "seed")
        if any(name in record for record in of_seed)
    ]
    if not means:
        return "-"
    mean, half = find_interval(np.array(means, np.float64))
    return _short(mean) + (f"±{_short(half)}" if len(means) > 1 else "")


def _short(number: float) -> str:
    """Two decimals, without a leading 0.

    Examples
    --------
    >>> _short(-0.031), _short(10.04), _short(-0.001)
    ('-.03', '10.04', '.00')
    """
    rounded = round(number, 2) or 0.0  # no -0.00
    return re.sub(r"^(-?)0\.", r"\1.", f"{rounded:.2f}")


def _by(records: Sequence[Record], name: str) -> list[tuple[Any, list[Record]]]:
    """The records grouped by one of their entries, in order of first appearance."""
    return [
        (value, [record for record in records if record[name] == value])
        for value in dict.fromkeys(record[name] for record in records)
    ]
