"""Claim 2: the loss is convex in W, and strictly so on the cyclic subspace."""

from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Float64
from attomaton.claims.evidence import Evidence
from attomaton.claims.verdicts import Judgement
from attomaton.training.models.attention import measure_curvatures

N_POINTS = 1_000
"""Random points at which the curvature is computed, over all trials."""

MOST_DIMENSIONS = 16
"""A Hessian has dim² rows, and a thousand of them are decomposed."""

AT_ONCE = 2_000_000
"""Numbers of curvatures computed at once."""

ROUNDING = 1e-12
"""Eigenvalues above −this, relative to the largest, count as zero or more."""


@dataclass(frozen=True, eq=False)
class Curvature:
    """Smallest eigenvalues of the Hessian at random points, relative to its largest.

    Attributes
    ----------
    least : float64 array, shape (n_points,)
        In all directions.
    least_cyclic : float64 array, shape (n_cyclic_points,)
        Within the cyclic subspace, at the points of trials that have one.
    """

    least: Float64
    least_cyclic: Float64


def draw_curvature(evidence: Evidence, *, n_points: int = N_POINTS, seed: int = 0) -> Curvature:
    """Hessians at points W with normal entries of size 0.1 to 3, spread over the trials."""
    trace = evidence.trace
    rng = np.random.default_rng(seed)
    dim = trace.weights.shape[2]
    axes = evidence.target.axes
    least: list[float] = []
    least_cyclic: list[float] = []
    at_once = max(AT_ONCE // dim**4, 1)
    for first in range(0, n_points, at_once):
        numbers = range(first, min(first + at_once, n_points))
        trials = [number % trace.n_trials for number in numbers]
        sizes = 10 ** rng.uniform(-1.0, np.log10(3.0), (len(trials), 1, 1))
        points = sizes * rng.normal(size=(len(trials), dim, dim))
        samples = [trace.samples[trial] for trial in trials]
        bent = measure_curvatures(trace.model, samples, list(trace.embeddings[trials]), points)
        values = np.linalg.eigvalsh(bent)
        largest = np.maximum(np.abs(values).max(1), np.finfo(float).tiny)
        least += (values[:, 0] / largest).tolist()
        for one, frame, unit in zip(bent, axes[trials], largest, strict=True):
            used = frame[frame.any(axis=1)]
            if len(used):
                least_cyclic.append(float(np.linalg.eigvalsh(used @ one @ used.T)[0] / unit))
    return Curvature(np.array(least), np.array(least_cyclic))


def need_few_dimensions(evidence: Evidence) -> str:
    """The Hessian is small enough to decompose it often."""
    dim = evidence.trace.weights.shape[2]
    return "" if dim <= MOST_DIMENSIONS else f"tried in at most {MOST_DIMENSIONS} dimensions, not {dim}"


def judge_convexity(evidence: Evidence) -> Judgement:
    """No eigenvalue of the Hessian below zero, but for rounding."""
    least = float(evidence.once(draw_curvature).least.min())
    meaning = f"smallest eigenvalue of the Hessian at {N_POINTS:,} random points, relative to its largest"
    return Judgement(least, -ROUNDING, least >= -ROUNDING, meaning)


def judge_strictness(evidence: Evidence) -> Judgement:
    """Every eigenvalue within the cyclic subspace above zero."""
    least = float(evidence.once(draw_curvature).least_cyclic.min(initial=np.inf))
    meaning = f"the same within the cyclic subspace, at {N_POINTS:,} random points"
    return Judgement(least, ROUNDING, least > ROUNDING, meaning)
