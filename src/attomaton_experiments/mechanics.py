"""Training experiments of the first paper: draw, train, solve, measure, predict, judge.

Settings: ``data`` (how samples are drawn), ``model`` (what is trained; ``embeddings`` if not random) and
``step`` (the optimiser);
``local`` to measure also relative to the tokens that the model selects; ``authors`` to measure also as
the authors' code does (:mod:`attomaton_experiments.authors`); ``slope_from``, the step from which
the decay of ‖Π_fin W − W_fin‖ is fitted; ``published``, the values of ten trials, by the name of
the measure; ``panels``, the measures in the figure, if not all; ``log_axis`` for steps on a logarithmic
axis. ``record_every`` in ``step``: how many steps lie between records.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.automaton import Automaton
from attomaton.base.progress import Progress
from attomaton.base.tables import Float64, Int64
from attomaton.claims import solve_local, solve_trials, verify
from attomaton.claims.limits import dense
from attomaton.claims.measures import Curves, cyclic_coordinates, measure_against, predict_target
from attomaton.claims.third_term import expand_trial
from attomaton.corpora import Samples, synthetic
from attomaton.training import (
    AttentionModel,
    Equicorrelated,
    GradientDescent,
    Orthonormal,
    RandomUnit,
    Store,
    TokenId,
    Trace,
    Untied,
    train,
)
from attomaton.training.loop import Watch
from attomaton.training.models.losses import as_loss
from attomaton_experiments.authors import TITLES as AUTHORS, measure_authors
from attomaton_experiments.figures.panels import Panel
from attomaton_experiments.outcome import Outcome, render_outcome
from attomaton_experiments.page import Page
from attomaton_experiments.settings import Settings

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
"""The measures, by their names in :class:`~attomaton.claims.measures.Curves`."""

LOCAL = "local_"
LOCAL_MEASURES = {
    "local_correlation": "correlation with the local W_svm",
    "local_finite_distance": "‖Π_fin W − W_fin‖, local",
    "local_outside_correlation": "corr(local W_svm, Π⊥W)",
    "local_retrieved": "mass on the best local component",
    "local_surprise": "−ln of that mass, local",
}
"""The same relative to the Graph-SVM of the tokens that the model selects."""

LOGARITHMIC = ("finite_distance", "surprise")
EMBEDDINGS: dict[str, Callable[[int], Any]] = {
    "random": RandomUnit,
    "orthonormal": Orthonormal,
    "equicorrelated": partial(Equicorrelated, correlation=0.5),
}
"""The embeddings of the authors' ``token_choice``, by name."""

HEADS: dict[str, Any] = {"token-id": TokenId(), "softmax": Untied(1.0)}

PREDICTED = 40
"""Records at which curves are also predicted."""

ASTRAY = 0.95
"""A trial with a lower correlation with the global direction has converged elsewhere."""


def run_training(settings: Settings, progress: Progress) -> Page:
    """Train, measure and judge every trial, and make the page."""
    progress(f"{settings['name']}: drawing, training, solving, judging", 0, 0)
    return render_outcome(measure_training(settings))


def measure_training(settings: Settings, *, judged: bool = True) -> Outcome:
    """Train every trial with its own samples, embeddings and W(0), measure it, and optionally judge it."""
    trace = train_trials(settings)
    automata = solve_trials(trace)
    target = predict_target(trace, automata)
    curves = measure_against(trace, target)
    predicted = None
    if settings["model"]["head"] == "token-id" and settings["model"]["loss"] == "log":
        records = np.unique(np.linspace(0, len(trace.steps) - 1, PREDICTED).astype(np.int64))
        predicted = measure_against(predict_trace(trace, automata, records), target)
    measured = _panels(settings, MEASURES, curves, predicted)
    notes: list[str] = []
    if settings.get("authors"):
        projected = np.einsum("rba,bax->rbx", cyclic_coordinates(target.axes, trace.weights), target.axes)
        theirs = measure_authors(trace, automata, projected.reshape(trace.weights.shape))
        measured |= {
            name: _panel(settings, name, AUTHORS[name], trace.steps, values, log=name == "authors_distance")
            for name, values in theirs.items()
        }
    if settings.get("local"):
        local = measure_against(trace, solve_local(trace).target)
        measured |= _panels(settings, LOCAL_MEASURES, local, None)
        notes.append(_compare(curves.correlation[-1], local.correlation[-1]))
    if "slope_from" in settings:
        notes.append(_slope(trace, curves.finite_distance, settings["slope_from"]))
    verdicts = tuple(verify(automata, trace)) if judged else ()
    return Outcome(settings, measured, verdicts, tuple(notes))


def predict_trace(trace: Trace, automata: list[Automaton], records: Int64) -> Trace:
    """The run as the expansion predicts it at these records, from data, W(0) and the norms reached.

    Normalised descent follows the path of plain flow, W = level·W_svm + W_fin + R in the span of the edges
    and W(0) outside of it. Its speed depends on the steps, so the level is computed from the norm of W;
    NaN while W is too short.
    """
    weights = np.empty((len(records), *trace.weights.shape[1:]))
    for trial, automaton in enumerate(automata):
        offset = dense(expand_trial(trace, automaton, trial).weights_along(0.0))
        direction = dense(automaton.hard.weights)
        norms = np.linalg.norm(trace.weights[records, trial], axis=(1, 2))
        levels = find_levels(direction, offset, norms)
        weights[:, trial] = levels[:, None, None] * direction + offset
    unknown = np.full((len(records), trace.n_trials), np.nan)
    return replace(trace, steps=trace.steps[records], weights=weights, losses=unknown)


def find_levels(direction: Float64, offset: Float64, norms: Float64) -> Float64:
    """The level at which level·direction + offset has these norms, or NaN."""
    size, projection, square = (
        float(np.sum(product)) for product in (direction**2, offset * direction, offset**2)
    )
    if size == 0:
        return np.full(len(norms), np.nan)
    root = (projection / size) ** 2 - (square - norms**2) / size
    return np.sqrt(np.where(root >= 0, root, np.nan)) - projection / size


def train_trials(settings: Settings) -> Trace:
    """The training runs of an experiment."""
    options, step = settings["model"], settings["step"]
    head, loss = HEADS[options["head"]], as_loss(options["loss"])
    embeddings = EMBEDDINGS[options.get("embeddings", "random")](options["dim"])
    model = AttentionModel(embeddings, head, loss, start=options["start"])
    descent = GradientDescent(step["size"], normalized=step["normalized"])
    corpora = draw_corpora(settings, settings["data"]["draw"])
    work = settings.get("work")
    out = None if work is None else Store(Path(work) / "run", resume=True)
    watch = Watch(every=step.get("record_every"))
    return train(corpora, model, descent, steps=step["steps"], seed=settings["seed"], watch=watch, out=out)


def draw_corpora(settings: Settings, draw: str) -> list[Samples]:
    """A corpus per trial, each from its own generator."""
    sizes = {name: settings["data"][name] for name in ("n_tokens", "n_samples", "window")}
    seeds = ([settings["seed"], trial, 1] for trial in range(settings["trials"]))
    return [DRAWS[draw](np.random.default_rng(seed), **sizes) for seed in seeds]


def _panels(
    settings: Settings, titles: dict[str, str], curves: Curves, predicted: Curves | None
) -> dict[str, Panel]:
    """Every measure; the distance to W_fin is not predicted, where the expansion is at its limit."""
    panels: dict[str, Panel] = {}
    for name, title in titles.items():
        measure = name.removeprefix(LOCAL)
        forecast, log = None, measure in LOGARITHMIC
        if predicted is not None and measure not in ("finite_distance", "norm"):
            forecast_values = np.asarray(getattr(predicted, measure))
            mean = np.exp(np.log(forecast_values).mean(axis=1)) if log else forecast_values.mean(axis=1)
            forecast = predicted.steps.astype(np.float64), mean
        panels[name] = _panel(
            settings, name, title, curves.steps, getattr(curves, measure), forecast=forecast, log=log
        )
    return panels


def _panel(
    settings: Settings,
    name: str,
    title: str,
    steps: Int64,
    values: Float64,
    *,
    log: bool,
    forecast: tuple[Float64, Float64] | None = None,
) -> Panel:
    range_published, log_axis = settings.get("published", {}).get(name), settings.get("log_axis", False)
    published = None if range_published is None else (min(range_published), max(range_published))
    return Panel(title, steps.astype(np.float64), values, forecast, published, log=log, log_axis=log_axis)


def _compare(globally: Float64, locally: Float64) -> str:
    """How often the local direction is closer."""
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
    quarters = ", ".join(f"{quantile:.3f}" for quantile in np.quantile(slopes, [0.25, 0.5, 0.75]))
    return (
        f"Slope of ln ‖Π_fin W − W_fin‖ over ln t from step {trace.steps[first]:,} to {trace.steps[-1]:,}, "
        f"quartiles over {int(fallen.sum())} trials: {quarters}."
    )
