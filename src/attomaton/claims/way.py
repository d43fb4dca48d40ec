"""The way that theory computes for a run, from its data, its W(0) and its step size: what bounds come from.

A theorem speaks of the limit, and a run ends. But the way there can be computed without training: that of
plain descent at any step, and normalised descent runs along the same way at a speed of its own. So each claim
about a limit has a bound that the run itself has no say in: at its end it must be as near to the limit as the
computed way is at half of the steps. Where that is not near at all, the run is too short to be judged.

How far normalised descent has come by half of its steps is told by its loss there, the run's own.
"""

from dataclasses import dataclass, replace

import numpy as np

from attomaton.claims.evidence import Evidence
from attomaton.claims.measures import Curves, dense, measure_against, unless_orthonormal
from attomaton.errors import UncertifiedSolution, UnsupportedOption
from attomaton.tables import Bool, Float64
from attomaton.trajectory.fast_forward import Trajectory, fast_forward
from attomaton.trajectory.stability import bound_any_sharpness

TIMES = np.array([0.5, 0.625, 0.75, 0.875, 1.0])
"""Shares of the steps of plain descent at which its way is computed; half of the steps is the first."""

LATER = np.array([1.0, 1.5, 2.0, 4.0, 8.0])
"""Multiples of the time reached at half of the steps, for normalised descent."""

GENTLE = 0.1
"""η λ of the plain descent whose way normalised steps follow: small, so that it is nearly a flow."""

LONGEST = 1e12
"""The way is computed to this step of plain descent at most; who is further is judged as if here."""

HALVINGS = 3
"""The time at which the way has a loss is found to the 8th root of ten, and rounded down."""

ROUNDED = 1e-12
"""Losses are compared to this, relative to 1."""


@dataclass(frozen=True, eq=False)
class Way:
    """Where the trials should be from half of the steps on.

    Attributes
    ----------
    curves : Curves
        Of the computed weights, shape (n_times, n_trials) each; the first time is half of the steps.
    weights : float64 array, shape (n_times, n_trials, dim, dim)
        W.
    error : float64 array, shape (n_trials,)
        A bound on ‖error‖ of the computed weights; infinite where the way is not known.
    reason : str
        Why it is not known, of the first such trial.
    """

    curves: Curves
    weights: Float64
    error: Float64
    reason: str

    @property
    def known(self) -> Bool:
        """Trials whose way is known, shape (n_trials,)."""
        return np.isfinite(self.error)


def compute_way(evidence: Evidence) -> Way:
    """The way of every trial; steps must be those of gradient descent."""
    trace = evidence.trace
    weights = np.zeros((len(TIMES), *trace.weights.shape[1:]))
    error, reason = np.full(trace.n_trials, np.inf), ""
    for trial in range(trace.n_trials):
        try:
            path = follow_trial(evidence, trial)
            times = _times(evidence, path, trial)
            error[trial] = path.error_at(float(times[-1]))
        except (UncertifiedSolution, UnsupportedOption) as problem:
            reason = reason or f"trial {trial}: {problem}"
            continue
        if np.isfinite(error[trial]):
            weights[:, trial] = [dense(path.weights_at(float(time))) for time in times]
        else:
            reason = reason or f"trial {trial}: {path.caveat}"
    unknown = np.full(weights.shape[:2], np.nan)
    computed = replace(trace, steps=np.arange(len(TIMES)), weights=weights, losses=unknown)
    return Way(measure_against(computed, evidence.target), weights, error, reason)


def follow_trial(evidence: Evidence, trial: int) -> Trajectory:
    """Plain descent from a trial's W(0), with its step size; a small one if its steps are normalised."""
    trace = evidence.trace
    table = trace.embeddings[trial]
    gentle = GENTLE / max(bound_any_sharpness(table), np.finfo(float).tiny)
    start = trace.weights[0, trial]
    return fast_forward(
        trace.samples[trial],
        embeddings=unless_orthonormal(table),
        step_size=gentle if evidence.normalized else evidence.step_size,
        to=1.0 if evidence.normalized else float(trace.steps[-1]),
        start=start if start.any() else None,
        components=evidence.automata[trial].components,
    )


def _times(evidence: Evidence, path: Trajectory, trial: int) -> Float64:
    """The steps of the computed way that stand for half of the run's steps, and for later ones."""
    trace = evidence.trace
    if evidence.normalized:
        loss = float(trace.losses[evidence.middle, trial])
        return np.minimum(LATER * _find_time(path, loss), LONGEST)
    half, last = float(trace.steps[evidence.middle]), float(trace.steps[-1])
    return np.floor(half + (last - half) * (TIMES - TIMES[0]) / (TIMES[-1] - TIMES[0]))


def _find_time(path: Trajectory, loss: float) -> float:
    """A step at which the way still has at least this loss, next to the last such; 0 if it never has."""
    least = loss + ROUNDED * max(abs(loss), 1.0)
    if not path.loss_at(1.0) >= least:
        return 0.0
    low = 0.0
    while low < np.log10(LONGEST) and path.loss_at(10.0 ** (low + 1.0)) >= least:
        low += 1.0
    width = 1.0
    for _ in range(HALVINGS):
        width /= 2.0
        if path.loss_at(10.0 ** (low + width)) >= least:
            low += width
    return 10.0**low
