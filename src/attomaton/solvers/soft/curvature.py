"""Proven bounds on gradient and curvature of the Luce loss in each group of alternatives.

The Hessian on a group is a graph Laplacian: L = Σ count Σ_{i<j} p_i p_j (e_i − e_j)(e_i − e_j)ᵀ. Its smallest
eigenvalue on scores with mean zero is no smaller than that of L without the row and column of one alternative
(interlacing), L_r, whose off-diagonal entries are not positive. If some v > 0 has L_r v ≥ c > 0 in every
entry, L_r is an M-matrix: its inverse has no negative entry, and its row sums are at most max v / c, so that
the eigenvalue is at least c / max v. Conjugate gradients supply v; whatever they return, the bound holds for
the v that is checked, and the rounding error of the check itself is subtracted.
"""

from typing import Any

import numpy as np

from attomaton.base.borders import check_floats
from attomaton.base.errors import UnsupportedOption
from attomaton.base.machine import divide_work
from attomaton.base.native import bound_slopes, fill_hessians
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.soft.likelihood import LuceProblem, Slopes
from attomaton.solvers.soft.newton import Groups, share_groups, sort_by_group

invert: Any = np.linalg.inv

LARGEST_DENSE = 16_384
"""Most tokens of a component for its covariance, a dense matrix: two gigabytes."""

TOGETHER = 1_000_000
"""Most entries of matrices that are inverted in one call, if there is more than one."""


def measure_slopes(
    problem: LuceProblem, scores: Float64, *, ridge: float = 0.0, threads: int | None = None
) -> Slopes:
    """Bounds on gradient and curvature of the summed loss + ½ ridge Σ s² in each component."""
    scores = check_floats(scores, (problem.n_alternatives,), "scores")
    groups = sort_by_group(problem)
    return measure_groups(groups, scores[groups.alternatives], ridge=ridge, threads=threads)


def measure_groups(
    groups: Groups, scores: Float64, *, ridge: float = 0.0, threads: int | None = None
) -> Slopes:
    n_groups = len(groups)
    slopes = Slopes(np.zeros(n_groups), np.zeros(n_groups), np.full(n_groups, np.inf), np.zeros(n_groups))
    share_groups(groups, threads, bound_slopes, (scores, float(ridge)), slopes)
    return slopes


def score_errors(problem: LuceProblem, scores: Float64, *, ridge: float = 0.0) -> Float64:
    """The standard error of each score relative to the mean of its component, shape (n_alternatives,).

    The covariance is the pseudo-inverse of the Hessian H of the summed loss, (H + c/m 11ᵀ)⁻¹ − 11ᵀ/(c m):
    adding c along the flat direction makes H invertible and changes nothing else.
    """
    scores = check_floats(scores, (problem.n_alternatives,), "scores")
    groups = sort_by_group(problem)
    largest = int(np.diff(groups.borders).max(initial=0))
    if largest > LARGEST_DENSE:
        raise UnsupportedOption(
            f"a component has {largest:,} tokens; standard errors need a dense matrix of that size, "
            f"so give components of at most {LARGEST_DENSE:,} tokens"
        )
    scores, variance = scores[groups.alternatives], np.zeros(problem.n_alternatives)

    def fill_variances(share: Int64) -> None:
        sizes: Int64 = np.diff(groups.borders)[share]
        for size in map(int, np.unique(sizes[sizes > 1])):
            alike, step = share[sizes == size], max(1, TOGETHER // size**2)
            for begin in range(0, len(alike), step):
                batch = alike[begin : begin + step]
                members = groups.borders[batch, np.newaxis] + np.arange(size)
                variance[members] = _find_variance(groups, batch, size, scores, ridge)

    divide_work(fill_variances, groups.shares(None))
    errors = np.empty_like(variance)
    errors[groups.alternatives] = np.sqrt(np.maximum(variance, 0.0))
    return errors


def _find_variance(groups: Groups, batch: Int64, size: int, scores: Float64, ridge: float) -> Float64:
    hessians, diagonal = np.zeros((len(batch), size, size)), np.arange(size)
    fill_hessians(groups.choices, groups.starts, batch, scores, hessians)
    lift = hessians[:, diagonal, diagonal].sum(axis=1, keepdims=True) / size
    hessians[:, diagonal, diagonal] += ridge
    hessians += lift[:, np.newaxis] / size
    return invert(hessians)[:, diagonal, diagonal] - 1.0 / ((lift + ridge) * size)
