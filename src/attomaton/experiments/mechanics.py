"""Training experiments of the first paper: draw, train, solve, measure, predict, judge."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attomaton.claims.forecast import predict_trace
from attomaton.claims.local import solve_local
from attomaton.claims.measures import Curves, aim_at, measure_against, solve_trials
from attomaton.claims.mechanics import verify
from attomaton.corpora import synthetic
from attomaton.corpora.samples import Samples
from attomaton.experiments.outcome import Measured, Outcome
from attomaton.experiments.settings import Settings
from attomaton.models.attention import AttentionModel
from attomaton.models.embeddings import RandomUnit
from attomaton.models.heads import TokenId, Untied
from attomaton.models.losses import CorrelationLoss, LogLoss, SquaredLoss
from attomaton.tables import Float64
from attomaton.training.loop import train
from attomaton.training.steps import GradientDescent
from attomaton.training.trace import Trace

DRAWS: dict[str, Callable[..., Samples]] = {
    "random": synthetic.draw_random,
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
"""What is measured, by its name in :class:`~attomaton.claims.measures.Curves`."""

LOCAL_MEASURES = {
    "correlation": "correlation with the local W_svm",
    "finite_distance": "‖Π_fin W − W_fin‖, local",
    "outside_correlation": "corr(local W_svm, Π⊥W)",
    "retrieved": "mass on the best local component",
    "surprise": "−ln of that mass, local",
}
"""The same against the Graph-SVM of the tokens that the model selects."""

LOGARITHMIC = ("finite_distance", "surprise")
HEADS: dict[str, Any] = {"token-id": TokenId(), "softmax": Untied(1.0)}
LOSSES: dict[str, Any] = {"log": LogLoss(), "squared": SquaredLoss(), "correlation": CorrelationLoss()}

PREDICTED = 40
"""Records at which curves are predicted too."""

ASTRAY = 0.95
"""Below this correlation with the global direction a trial has gone elsewhere."""


def run_training(settings: Settings, *, trials: int, seed: int, judged: bool) -> Outcome:
    """Train every trial with samples, embeddings and W(0) of its own, and measure it."""
    trace = train_trials(settings, trials=trials, seed=seed)
    automata = solve_trials(trace)
    target = aim_at(trace, automata)
    curves = measure_against(trace, target)
    predicted = None
    if settings.model["head"] == "token-id" and settings.model["loss"] == "log":
        records = np.unique(np.linspace(0, len(trace.steps) - 1, PREDICTED).astype(np.int64))
        predicted = measure_against(predict_trace(trace, tuple(automata), records), target)
    measured = [_measured(curves, name, title, predicted) for name, title in MEASURES.items()]
    notes: list[str] = []
    if settings.local:
        local = measure_against(trace, solve_local(trace).target)
        measured += [_measured(local, name, title, None, "local_") for name, title in LOCAL_MEASURES.items()]
        notes.append(_compare(curves.correlation[-1], local.correlation[-1]))
    if settings.slope_from is not None:
        notes.append(_slope(trace, curves.finite_distance, settings.slope_from))
    verdicts = tuple(verify(automata, trace)) if judged else ()
    return Outcome(settings, "step", tuple(measured), verdicts, tuple(notes))


def train_trials(settings: Settings, *, trials: int, seed: int) -> Trace:
    """The training runs of an experiment."""
    step = GradientDescent(settings.step["size"], normalized=settings.step["normalized"])
    model = AttentionModel(
        RandomUnit(settings.model["dim"]),
        HEADS[settings.model["head"]],
        LOSSES[settings.model["loss"]],
        start=settings.model["start"],
    )
    corpora = draw_corpora(settings, settings.data["draw"], trials=trials, seed=seed)
    return train(corpora, model, step, steps=settings.step["steps"], seed=seed)


def draw_corpora(settings: Settings, draw: str, *, trials: int, seed: int) -> list[Samples]:
    """A corpus for each trial, from a generator of its own."""
    sizes = {name: settings.data[name] for name in ("n_tokens", "n_samples", "window")}
    return [DRAWS[draw](np.random.default_rng([seed, trial, 1]), **sizes) for trial in range(trials)]


def _measured(curves: Curves, name: str, title: str, predicted: Curves | None, prefix: str = "") -> Measured:
    """One measure; nothing is predicted of the distance to W_fin, where the expansion is at its limit."""
    values: Float64 = getattr(curves, name)
    forecast, log = None, name in LOGARITHMIC
    if predicted is not None and name not in ("finite_distance", "norm"):
        told = np.asarray(getattr(predicted, name))
        mean = np.exp(np.log(told).mean(axis=1)) if log else told.mean(axis=1)
        forecast = predicted.steps.astype(np.float64), mean
    return Measured(prefix + name, title, curves.steps.astype(np.float64), values, forecast, log)


def _compare(globally: Float64, locally: Float64) -> str:
    """How often the local direction is the closer one."""
    astray = globally < ASTRAY
    closer = int((locally > globally)[astray].sum())
    return (
        f"Median correlation with the local direction at the end: {np.median(locally):.4f}. In "
        f"{int(astray.sum())} of {len(astray)} trials the correlation with the global direction is below "
        f"{ASTRAY}; in {closer} of these the local direction is closer."
    )


def _slope(trace: Trace, distance: Float64, start: int) -> str:
    """The slope of ln ‖Π_fin W − W_fin‖ over ln t."""
    first = int(np.abs(trace.steps - start).argmin())
    fallen = distance[-1] > 0
    slopes = np.log(distance[-1, fallen] / distance[first, fallen])
    slopes = slopes / np.log(trace.steps[-1] / trace.steps[first])
    quarters = ", ".join(f"{one:.3f}" for one in np.quantile(slopes, [0.25, 0.5, 0.75]))
    return (
        f"Slope of ln ‖Π_fin W − W_fin‖ over ln t from step {trace.steps[first]:,} to {trace.steps[-1]:,}, "
        f"quartiles over {int(fallen.sum())} trials: {quarters}."
    )
