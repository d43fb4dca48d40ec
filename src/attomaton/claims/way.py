"""The way that theory computes for a run, from its data, its W(0) and its step size: what bounds come from.

A theorem speaks of the limit, and a run ends. But the way there can be computed without training: that of
plain descent at any step, and normalised descent runs along the same way at a speed of its own. So each claim
about a limit has a bound that the run itself has no say in: at its end it must be as near to the limit as the
computed way is at half of the steps. Where that is not near at all, the run is too short to be judged.

How far normalised descent has come by half of its steps is told by its loss there, the run's own.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.claims.evidence import (
    FEWEST_STEPS,
    Evidence,
    need_descent,
    need_log_loss,
    need_mass_head,
)
from attomaton.claims.measures import Curves, dense, measure_against, unless_orthonormal
from attomaton.trajectory.forward import Trajectory, fast_forward
from attomaton.trajectory.sharpness import bound_any_sharpness

TIMES = np.array([0.5, 0.625, 0.75, 0.875, 1.0])
"""Shares of the steps of plain descent at which its way is computed; half of the steps is the first."""

LATER = np.array([1.0, 1.5, 2.0, 4.0, 8.0])
"""Multiples of the time reached at half of the steps, for normalised descent."""

GENTLE = 0.1
"""η λ of the plain descent whose way normalised steps follow: small, so that it is nearly a flow."""

LONGEST = 1e12
"""The way is computed to this step of plain descent at most; who is further is judged as if here."""

FURTHEST = 1024
"""Runs of up to this many times the steps are computed to tell when a claim can be judged."""

QUARTERS = 2.0 ** np.array([0.25, 0.5, 0.75, 1.0])
"""How much longer than one that is too short a run is tried."""

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


def lengthen(evidence: Evidence, steps: int) -> Evidence:
    """The run as it would be after more steps, at none, half and all of them, by its computed way.

    Normalised steps are taken to go on along the way as fast as in the second half of the run.
    """
    trace, halves = evidence.trace, np.array([steps // 2, steps])
    weights = np.zeros((3, *trace.weights.shape[1:]))
    losses = np.full(weights.shape[:2], np.nan)
    weights[0] = trace.weights[0]
    for trial in np.flatnonzero(evidence.once(compute_way).known).tolist():
        path = follow_trial(evidence, trial)
        times = _times_ahead(evidence, path, trial, halves) if evidence.normalized else halves
        for at, time in enumerate(map(float, times), start=1):  # one by one: a path holds the last place only
            weights[at, trial], losses[at, trial] = dense(path.weights_at(time)), path.loss_at(time)
    longer = replace(trace, steps=np.array([0, *halves]), weights=weights, losses=losses)
    return replace(evidence, trace=longer)


def _times_ahead(evidence: Evidence, path: Trajectory, trial: int, steps: Int64) -> list[float]:
    """When the way has the norms that normalised steps will have reached, to the 8th root of ten."""
    trace, middle = evidence.trace, evidence.middle
    half, last = np.linalg.norm(trace.weights[[middle, -1], trial], axis=(1, 2))
    pace = (last - half) / (trace.steps[-1] - trace.steps[middle])
    grid = 10.0 ** np.arange(0.0, np.log10(LONGEST), 0.125)
    norms = [last + pace * (step - trace.steps[-1]) for step in steps.tolist()]
    return [
        float(grid[bisect_left(grid, norm, hi=len(grid) - 1, key=lambda time: _norm_at(path, time))])
        for norm in norms
    ]


def _norm_at(path: Trajectory, time: float) -> float:
    return float(np.linalg.norm(dense(path.weights_at(time))))


def look_ahead(evidence: Evidence, is_ready: Callable[[Evidence], bool]) -> int | str:
    """About how many more steps a run of gradient descent needs, in two digits, or why that is not known.

    It is the run of fewest steps, in steps of a factor 2^¼, whose computed way is ready.
    """
    missing = need_descent(evidence) or need_log_loss(evidence) or need_mass_head(evidence)
    if missing or not evidence.once(compute_way).known.any():
        missing = missing or evidence.once(compute_way).reason
        return f"no number of steps can be given, for where a longer run would be is not known ({missing})"
    last = int(evidence.trace.steps[-1])
    if not last:
        return "no number of steps can be given, for none was taken"
    short = max(last, FEWEST_STEPS // 2)
    while not is_ready(evidence.once(lengthen, 2 * short)):
        short *= 2
        if short >= FURTHEST * max(last, FEWEST_STEPS // 2):
            return f"{short:,} steps would still be too few"
    steps = next(
        steps for steps in np.ceil(short * QUARTERS).astype(int) if is_ready(evidence.once(lengthen, steps))
    )
    return round_up(int(steps) - last)


def round_up(number: int) -> int:
    """The next number of two digits and zeros."""
    unit = 10 ** max(len(str(number)) - 2, 0)
    return -(-number // unit) * unit


def follow_trial(evidence: Evidence, trial: int) -> Trajectory:
    """Plain descent from a trial's W(0), with its step size; a small one if its steps are normalised."""
    key = (follow_trial, trial)
    if key not in evidence.of_data:
        evidence.of_data[key] = _follow(evidence, trial)
    return evidence.of_data[key]


def _follow(evidence: Evidence, trial: int) -> Trajectory:
    trace = evidence.trace
    table = trace.embeddings[trial]
    gentle = GENTLE / max(bound_any_sharpness(table), np.finfo(float).tiny)
    start = trace.weights[0, trial]
    return fast_forward(
        trace.samples[trial],
        embeddings=unless_orthonormal(table),
        step_size=gentle if evidence.normalized else evidence.step_size,
        to=1.0 if evidence.normalized else max(float(trace.steps[-1]), 1.0),
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
