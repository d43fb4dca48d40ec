"""Proven bounds on gradient and curvature of the Luce loss, and the standard errors of scores.

The native kernel ``bound_slopes`` (``native/solvers/soft/curvature.hpp``) computes the bounds. Here is the
proof of its bound on the curvature, the smallest eigenvalue of the Hessian L on scores with mean zero.

1. L = Σ count Σ_{i<j} p_i p_j (e_i − e_j)(e_i − e_j)ᵀ is a graph Laplacian. Let L_r be L without the row and
   column of one alternative. The curvature is at least the smallest eigenvalue of L_r (interlacing).
2. The off-diagonal entries of L_r are not positive. If some v > 0 has L_r v ≥ b > 0 in every entry, L_r is
   therefore an M-matrix: no entry of its inverse is negative, and each row of the inverse sums to at most
   max v / b.
3. So the smallest eigenvalue of L_r is at least b / max v.

Conjugate gradients supply v. The kernel computes L_r v and takes b from it, minus the rounding error of this
check, so the bound holds even if they have not converged.
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

_invert: Any = np.linalg.inv  # its type stubs leave the type of a stack of matrices unknown

# Most alternatives of a component for its covariance, a dense matrix: two gigabytes.
LARGEST_DENSE = 16_384

# Most entries of matrices that are inverted in one call, if there is more than one matrix.
ENTRIES_AT_ONCE = 1_000_000


def measure_slopes(
    problem: LuceProblem, scores: Float64, *, ridge: float = 0.0, threads: int | None = None
) -> Slopes:
    """Bounds on gradient and curvature of the summed loss + ½ ridge Σ s², by component."""
    scores = check_floats(scores, (problem.n_alternatives,), "scores")
    groups = sort_by_group(problem)
    return measure_groups(groups, scores[groups.alternatives], ridge=ridge, threads=threads)


def measure_groups(
    groups: Groups, scores: Float64, *, ridge: float = 0.0, threads: int | None = None
) -> Slopes:
    """What :func:`measure_slopes` returns, for sorted ``groups`` and scores in the order of the groups."""
    n_groups = len(groups)
    # The kernel leaves out groups of one alternative, whose score cannot move: their curvature is infinite.
    slopes = Slopes(
        largest=np.zeros(n_groups),
        gradient=np.zeros(n_groups),
        curvature=np.full(n_groups, np.inf),
        loss=np.zeros(n_groups),
    )
    # Computed by `bound_slopes` (native), which writes into the arrays of `slopes`.
    share_groups(groups, threads, bound_slopes, (scores, float(ridge)), slopes)
    return slopes


def score_errors(problem: LuceProblem, scores: Float64, *, ridge: float = 0.0) -> Float64:
    """The standard error of each score relative to the mean of its component, shape (n_alternatives,)."""
    scores = check_floats(scores, (problem.n_alternatives,), "scores")
    groups = sort_by_group(problem)
    largest = int(np.diff(groups.borders).max(initial=0))
    if largest > LARGEST_DENSE:
        raise UnsupportedOption(
            f"a component has {largest:,} alternatives; standard errors need a dense matrix of that size, "
            f"so give components of at most {LARGEST_DENSE:,} alternatives"
        )
    scores = scores[groups.alternatives]
    variance = np.zeros(problem.n_alternatives)  # in the order of the groups, as `scores` now

    def fill_variances(share: Int64) -> None:
        """Matrices of one size are inverted together."""
        sizes: Int64 = np.diff(groups.borders)[share]
        for size in map(int, np.unique(sizes[sizes > 1])):
            alike = share[sizes == size]
            step = max(1, ENTRIES_AT_ONCE // size**2)
            for begin in range(0, len(alike), step):
                batch = alike[begin : begin + step]
                # Row i lists the alternatives of the group batch[i], which are consecutive numbers.
                members = groups.borders[batch, np.newaxis] + np.arange(size)
                variance[members] = _find_variance(groups, batch, size, scores, ridge)

    divide_work(fill_variances, groups.shares(None))
    errors = np.empty_like(variance)
    errors[groups.alternatives] = np.sqrt(np.maximum(variance, 0.0))
    return errors


# The variances of the scores of groups of ``size`` alternatives, shape (len(batch), size).
def _find_variance(groups: Groups, batch: Int64, size: int, scores: Float64, ridge: float) -> Float64:
    # The loss of a component with m alternatives does not change along 1, the constant scores. The covariance
    # is the inverse of its Hessian H + ridge in all other directions, and 0 along 1:
    #     (H + ridge I + lift/m 11ᵀ)⁻¹ − 11ᵀ / ((lift + ridge) m)
    # Adding ``lift`` along 1 makes the matrix invertible; the last term removes what it adds to the inverse.
    diagonal = np.arange(size)
    hessians = np.zeros((len(batch), size, size))
    fill_hessians(groups.choices, groups.starts, batch, scores, hessians)  # native, in place
    # The mean of the diagonal: the added eigenvalue has the magnitude of the others.
    lift = hessians[:, diagonal, diagonal].sum(axis=1, keepdims=True) / size
    hessians[:, diagonal, diagonal] += ridge
    hessians += lift[:, np.newaxis] / size
    inverse: Float64 = _invert(hessians)
    return inverse[:, diagonal, diagonal] - 1.0 / ((lift + ridge) * size)
