"""Redraw a published experiment: draw, train, solve, measure, compare, write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.corpora import synthetic
from attomaton.corpora.samples import Samples
from attomaton.experiments.settings import Settings
from attomaton.limit.automaton import Automaton
from attomaton.limit.basis import find_basis
from attomaton.limit.expansion import expand
from attomaton.models.attention import AttentionModel
from attomaton.models.embeddings import RandomUnit
from attomaton.models.heads import TokenId, Untied
from attomaton.models.losses import LogLoss, SquaredLoss
from attomaton.tables import Float64
from attomaton.training.loop import train
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import Trace
from attomaton.verify.measures import Curves, measure_trace, solve_trials

DRAWS: dict[str, Callable[..., Samples]] = {
    "cyclic": synthetic.draw_cyclic,
    "acyclic": synthetic.draw_acyclic,
}
MEASURES = {
    "correlation": "correlation with W_svm",
    "finite_distance": "‖Π_fin W − W_fin‖",
    "outside_correlation": "corr(W_svm, Π⊥W)",
    "retrieved": "mass on the best component",
    "surprise": "−ln of that mass",
    "norm": "‖W‖",
}
"""What is measured, by its name in :class:`~attomaton.verify.measures.Curves`."""

HEADS: dict[str, Any] = {"token-id": TokenId(), "softmax": Untied(1.0)}
LOSSES: dict[str, Any] = {"log": LogLoss(), "squared": SquaredLoss()}


def train_trials(settings: Settings, *, trials: int, seed: int) -> Trace:
    """Every trial with samples, embeddings and W(0) of its own."""
    draw = DRAWS[settings.data["draw"]]
    sizes = {name: settings.data[name] for name in ("n_tokens", "n_samples", "window")}
    samples = [draw(np.random.default_rng([seed, trial, 1]), **sizes) for trial in range(trials)]
    model = AttentionModel(
        RandomUnit(settings.model["dim"]),
        HEADS[settings.model["head"]],
        LOSSES[settings.model["loss"]],
        start=settings.model["start"],
    )
    step = GradientDescent(settings.step["size"], normalized=settings.step["normalized"])
    return train(samples, model, step, steps=settings.step["steps"], seed=seed)


@dataclass(frozen=True, eq=False)
class Outcome:
    """One experiment, done.

    Attributes
    ----------
    settings : Settings
        What was asked for.
    trace : Trace
        The training runs.
    automata : list of Automaton
        What each trial converges to.
    curves : Curves
        What was measured.
    predicted : float64 array, shape (n_records,)
        Mean correlation with W_svm that the expansion gives at the norm reached; NaN while W is too short.
    """

    settings: Settings
    trace: Trace
    automata: list[Automaton]
    curves: Curves
    predicted: Float64

    def last(self) -> dict[str, tuple[float, float, float]]:
        """Mean, least and most over the trials of every measure at the last step."""
        ends = {name: getattr(self.curves, name)[-1] for name in MEASURES}
        return {name: (float(one.mean()), float(one.min()), float(one.max())) for name, one in ends.items()}


def run_experiment(settings: Settings, *, trials: int | None = None, seed: int = 0) -> Outcome:
    """Draw, train, solve and measure."""
    trace = train_trials(settings, trials=settings.trials if trials is None else trials, seed=seed)
    automata = solve_trials(trace)
    curves = measure_trace(trace, automata)
    predicted = predict_correlation(trace, automata)
    return Outcome(settings, trace, automata, curves, predicted)


def predict_correlation(trace: Trace, automata: Sequence[Automaton]) -> Float64:
    """The mean correlation of W with W_svm under normalised descent, from data, W(0) and the norm reached.

    Normalised descent runs along the path of plain flow, W = C·W_svm + W_fin + R in the span of the edges and
    W(0) outside of it; C is what the norm of W leaves for it.
    """
    found = np.empty((len(trace.steps), len(automata)))
    for trial, automaton in enumerate(automata):
        start, table = trace.weights[0, trial], trace.embeddings[trial]
        basis = find_basis(automaton.components, table)
        expansion = expand(automaton, trace.samples[trial], embeddings=table)
        direction = np.asarray(automaton.hard.weights)
        outside = start - basis.weights(basis.place(start))
        rest = np.asarray(expansion.weights_along(0.0)) + outside
        norms = np.linalg.norm(trace.weights[:, trial], axis=(1, 2))
        found[:, trial] = _correlations(direction, rest, norms)
    return found.mean(axis=1)


def _correlations(direction: Float64, rest: Float64, norms: Float64) -> Float64:
    """The correlation of C·direction + rest with the direction, C such that it has these norms, or NaN."""
    size, along, square = (float(np.sum(one)) for one in (direction**2, rest * direction, rest**2))
    root = (along / size) ** 2 - (square - norms**2) / size
    level = np.sqrt(np.where(root >= 0, root, np.nan)) - along / size
    return (level * size + along) / (norms * np.sqrt(size))
