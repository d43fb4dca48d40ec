"""The regularisation path of the first paper: W_R for increasing R, for several losses.

Settings: ``path`` has the radii, as multiples of ‖W_svm‖, and the cases; ``data`` and ``model`` are as for
training.
"""

import numpy as np

from attomaton.automaton import Automaton
from attomaton.base.progress import Progress
from attomaton.base.tables import Float64
from attomaton.claims import Verdict, solve_trials
from attomaton.claims.limits import dense
from attomaton.claims.measures import predict_target
from attomaton.claims.third_term import expand_trial
from attomaton.claims.verdicts import Judgement
from attomaton.training import AttentionModel, GradientDescent, RandomUnit, Trace, trace_path, train
from attomaton.training.models.losses import as_loss
from attomaton_experiments.figures.panels import Panel
from attomaton_experiments.mechanics import draw_corpora, find_levels
from attomaton_experiments.outcome import Outcome, render_outcome
from attomaton_experiments.page import Page
from attomaton_experiments.settings import Settings

REACHED = 0.9
"""The tangent of the angle to W_svm must fall to this share when R grows twofold; in the limit to half."""


AXIS = "R / ‖W_svm‖"


def run_path(settings: Settings, progress: Progress) -> Page:
    """Compute every path, and make the page."""
    progress(f"{settings['name']}: drawing, solving, computing paths, judging", 0, 0)
    return render_outcome(measure_path(settings))


def measure_path(settings: Settings) -> Outcome:
    """Compute the path of every trial for every case of the settings, and judge it."""
    levels = np.array(settings["path"]["levels"], np.float64)
    measured: dict[str, Panel] = {}
    verdicts: list[Verdict] = []
    for case in settings["path"]["cases"]:
        draw, loss = case["draw"], case["loss"]
        model = AttentionModel(RandomUnit(settings["model"]["dim"]), loss=as_loss(loss))
        corpora = draw_corpora(settings, draw)
        trace = train(corpora, model, GradientDescent(1.0), steps=0, seed=settings["seed"])
        automata = solve_trials(trace)
        target = predict_target(trace, automata)
        radii = levels[:, None] * np.linalg.norm(target.directions, axis=(1, 2))
        weights = trace_path(corpora, model, list(trace.embeddings), radii=radii).weights
        name, title = f"{loss}_{draw}", f"{loss} loss, {draw}: correlation with W_svm"
        correlation = target.correlation(weights)
        predicted = (levels, _predict(trace, automata, radii)) if loss == "log" else None
        measured[f"correlation_{name}"] = Panel(title, levels, correlation, predicted, axis=AXIS)
        if loss == "log" and draw == "cyclic":
            distance = target.finite_distance(weights)
            title = f"{loss} loss, {draw}: ‖Π_fin W_R − W_fin‖"
            measured[f"finite_distance_{name}"] = Panel(title, levels, distance, axis=AXIS, log=True)
        verdicts.append(_judge(f"path, {loss} loss, {draw}", levels, correlation))
    return Outcome(settings, measured, tuple(verdicts))


def _predict(trace: Trace, automata: list[Automaton], radii: Float64) -> Float64:
    """The mean correlation of level·W_svm + W_fin + R with W_svm, where its norm is the radius."""
    cosines = np.empty(radii.shape)
    for trial, automaton in enumerate(automata):
        direction = dense(automaton.hard.weights)
        offset = dense(expand_trial(trace, automaton, trial).weights_along(0.0))
        level, size = find_levels(direction, offset, radii[:, trial]), np.linalg.norm(direction)
        cosines[:, trial] = (level * size + np.sum(offset * direction) / size) / radii[:, trial]
    return cosines.mean(axis=1)


def _judge(claim: str, levels: Float64, correlation: Float64) -> Verdict:
    """The tangent of the angle at the last radius / that at half of it, in the worst trial."""
    half = int(np.abs(levels - levels[-1] / 2).argmin())
    tangents = np.sqrt(np.maximum(1.0 / correlation[[half, -1]] ** 2 - 1.0, 0.0))
    share = tangents[1] / np.maximum(tangents[0], 1e-6)
    worst = int(share.argmax())
    return Judgement(
        float(share[worst]),
        REACHED,
        bool(share[worst] <= REACHED),
        f"tangent of the angle to W_svm at R = {levels[-1]:g} ‖W_svm‖ / that at {levels[half]:g} (trial "
        f"{worst}); {int((share <= REACHED).sum())} of {len(share)} trials are within the bound",
    ).about(claim)
