"""Compute the path of gradient descent that a run should follow, without training.

Plain descent is computed at any step. Normalised descent follows the same path at another speed: the loss at
half of the steps shows how far along the path the run is.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.claims.evidence import FEWEST_STEPS, Evidence, need_descent, need_log_loss, need_mass_head
from attomaton.claims.limits import dense, embeddings_for_solvers
from attomaton.claims.measures import Curves, measure_against
from attomaton.trajectory.forward import Trajectory, fast_forward
from attomaton.trajectory.sharpness import bound_any_sharpness

# Shares of the steps of plain descent at which its path is computed; half of the steps is the first.
TIMES = np.array([0.5, 0.625, 0.75, 0.875, 1.0])

# Multiples of the time reached at half of the steps, for normalised descent.
LATER = np.array([1.0, 1.5, 2.0, 4.0, 8.0])

# η λ of the plain descent whose path normalised steps follow: small, so that it is nearly a flow.
GENTLE = 0.1

# The path is computed up to this step of plain descent; runs beyond it are judged as if they were here.
LAST_STEP = 1e12

# To find when a claim can be judged, runs of up to this multiple of the steps are computed.
MOST_LENGTHENING = 1024

# Runs are doubled until one is long enough; these multiples of the one before it are tried then.
QUARTERS = 2.0 ** np.array([0.25, 0.5, 0.75, 1.0])

# Bisections for the exponent of the time at which the path has a given loss: it is found to 10^(1/8).
TIME_HALVINGS = 3

# log₁₀ of the factor between two times at which norms are compared: also 10^(1/8).
TIME_STEP = 0.125

# Tolerance for comparing losses, relative to 1.
LOSS_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class ComputedPath:
    """Where the trials should be at five times from half of the steps on."""

    curves: Curves  # measured on the weights
    weights: Float64  # shape (n_times, n_trials, dim, dim)
    error: Float64  # bounds the error of the weights, shape (n_trials,); infinite if a path is unknown
    reason: str  # why a path is unknown

    @property
    def is_known(self) -> Bool:
        return np.isfinite(self.error)


def compute_path(evidence: Evidence) -> ComputedPath:
    """The computed path of every trial; steps must be those of gradient descent."""
    trace = evidence.trace
    weights = np.zeros((len(TIMES), *trace.weights.shape[1:]))
    error = np.full(trace.n_trials, np.inf)
    reason = ""
    for trial in range(trace.n_trials):
        try:
            path = follow_trial(evidence, trial)
            times = _path_times(evidence, path, trial)
            error[trial] = path.error_at(float(times[-1]))
        except (UncertifiedSolution, UnsupportedOption) as problem:
            reason = reason or f"trial {trial}: {problem}"
            continue
        if np.isfinite(error[trial]):
            weights[:, trial] = [dense(path.weights_at(float(time))) for time in times]
        else:
            reason = reason or f"trial {trial}: {path.caveat}"
    unknown = np.full(weights.shape[:2], np.nan)
    # a trace of the computed weights; its losses are not used
    computed = replace(trace, steps=np.arange(len(TIMES)), weights=weights, losses=unknown)
    return ComputedPath(measure_against(computed, evidence.target), weights, error, reason)


def lengthen_run(evidence: Evidence, steps: int) -> Evidence:
    """Lengthen the run to this number of steps by its computed path, with records at start, half and end."""
    trace = evidence.trace
    halves = np.array([steps // 2, steps])
    weights = np.zeros((3, *trace.weights.shape[1:]))
    losses = np.full(weights.shape[:2], np.nan)
    weights[0] = trace.weights[0]
    for trial in np.flatnonzero(evidence.once(compute_path).is_known).tolist():
        path = follow_trial(evidence, trial)
        times = _times_ahead(evidence, path, trial, halves) if evidence.normalized else halves
        # weights and loss at one time after the other, since a path keeps only its last point
        for record, time in enumerate(map(float, times), start=1):
            weights[record, trial] = dense(path.weights_at(time))
            losses[record, trial] = path.loss_at(time)
    longer = replace(trace, steps=np.array([0, *halves]), weights=weights, losses=losses)
    return replace(evidence, trace=longer)


# The times at which the path has the norms that normalised steps will reach, to the 8th root of ten.
def _times_ahead(evidence: Evidence, path: Trajectory, trial: int, steps: Int64) -> list[float]:
    trace = evidence.trace
    middle = evidence.middle
    half, last = np.linalg.norm(trace.weights[[middle, -1], trial], axis=(1, 2))
    pace = (last - half) / (trace.steps[-1] - trace.steps[middle])
    grid = 10.0 ** np.arange(0.0, np.log10(LAST_STEP), TIME_STEP)
    # steps of constant length let the norm grow at a constant pace
    norms = [last + pace * (step - trace.steps[-1]) for step in steps.tolist()]

    def norm_at(time: float) -> float:
        return float(np.linalg.norm(dense(path.weights_at(time))))

    return [float(grid[bisect_left(grid, norm, hi=len(grid) - 1, key=norm_at)]) for norm in norms]


def look_ahead(evidence: Evidence, is_ready: Callable[[Evidence], bool]) -> int | str:
    """Estimate how many more steps a run needs until its computed path can be judged, or say why not."""
    missing = need_descent(evidence) or need_log_loss(evidence) or need_mass_head(evidence)
    if missing or not evidence.once(compute_path).is_known.any():
        missing = missing or evidence.once(compute_path).reason
        return f"the number of further steps is unknown, since a longer run cannot be predicted ({missing})"
    last = int(evidence.trace.steps[-1])
    if not last:
        return "the number of further steps is unknown, since no step was taken"
    # double the run until it can be judged, then try quarter powers of two in the last doubling
    short = max(last, FEWEST_STEPS // 2)
    while not is_ready(evidence.once(lengthen_run, 2 * short)):
        short *= 2
        if short >= MOST_LENGTHENING * max(last, FEWEST_STEPS // 2):
            return f"{short:,} steps would still be too few"
    steps = next(
        steps
        for steps in np.ceil(short * QUARTERS).astype(int)
        if is_ready(evidence.once(lengthen_run, steps))
    )
    n_more = int(steps) - last
    unit = 10 ** max(len(str(n_more)) - 2, 0)  # rounded up to two digits
    return -(-n_more // unit) * unit


def follow_trial(evidence: Evidence, trial: int) -> Trajectory:
    """Follow plain descent from a trial's W(0), with a small step size if the run's steps are normalised."""
    key = (follow_trial, trial)
    if key in evidence.of_data:
        return evidence.of_data[key]
    trace = evidence.trace
    table = trace.embeddings[trial]
    gentle = GENTLE / max(bound_any_sharpness(table), np.finfo(float).tiny)
    start = trace.weights[0, trial]
    path = fast_forward(
        trace.samples[trial],
        embeddings=embeddings_for_solvers(table),
        step_size=gentle if evidence.normalized else evidence.step_size,
        to=1.0 if evidence.normalized else max(float(trace.steps[-1]), 1.0),
        start=start if start.any() else None,
        components=evidence.automata[trial].components,
    )
    return evidence.of_data.setdefault(key, path)


# The steps of the computed path that correspond to half of the run's steps, and to later ones.
def _path_times(evidence: Evidence, path: Trajectory, trial: int) -> Float64:
    trace = evidence.trace
    if evidence.normalized:
        loss = float(trace.losses[evidence.middle, trial])
        return np.minimum(LATER * find_time(path, loss), LAST_STEP)
    half, last = trace.steps[[evidence.middle, -1]].tolist()
    return np.floor(half + (last - half) * (TIMES - TIMES[0]) / (TIMES[-1] - TIMES[0]))


def find_time(path: Trajectory, loss: float) -> float:
    """A late step at which the path still has at least this loss; 0 if it never has."""
    least = loss + LOSS_TOLERANCE * max(abs(loss), 1.0)
    if not path.loss_at(1.0) >= least:
        return 0.0
    low = 0.0
    # the exponent of a step that still has the loss: in whole powers of ten, then by bisection
    while low < np.log10(LAST_STEP) and path.loss_at(10.0 ** (low + 1.0)) >= least:
        low += 1.0
    width = 1.0
    for _ in range(TIME_HALVINGS):
        width /= 2.0
        if path.loss_at(10.0 ** (low + width)) >= least:
            low += width
    return 10.0**low
