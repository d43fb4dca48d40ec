"""How far rows are from being linearly dependent: bounds on their smallest singular value."""

import numpy as np

from attomaton.base.tables import Float64

FINEST = 13
"""Squares of singular values are bounded by the powers 4⁻¹ … of the shortest row's, down to this one."""

EPSILON = float(np.finfo(np.float64).eps)


def unit_rows(rows: Float64) -> Float64:
    """The rows, each scaled to length 1; zeros stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)


def bound_singular(rows: Float64) -> float:
    """A lower bound on the smallest singular value, at most twice too low; 0 if that is below about 1e-4.

    If R Rᵀ − μ has a Cholesky decomposition, no eigenvalue of R Rᵀ is below μ, but for rounding.
    """
    if not len(rows) or len(rows) > rows.shape[1]:
        return 0.0
    gram = rows @ rows.T
    rounding = 8.0 * EPSILON * sum(rows.shape) * float(np.trace(gram))
    coarse, fine = 0, FINEST + 1  # the answer is between these powers
    while fine - coarse > 1:
        power = (coarse + fine) // 2
        if _is_above(gram, 4.0**-power * float(np.diag(gram).min())):
            fine = power
        else:
            coarse = power
    least = 4.0**-fine * float(np.diag(gram).min()) - rounding
    return float(np.sqrt(least)) if fine <= FINEST and least > 0 else 0.0


def _is_above(gram: Float64, level: float) -> bool:
    """Whether all eigenvalues are above a level."""
    try:
        np.linalg.cholesky(gram - level * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        return False
    return level > 0
