"""Proofs for the Graph-SVM in any norm of W: bounds on the least norm, from the vectors alone.

Weak duality, with the dual norm ‖D‖° = max ⟨W, D⟩ over ‖W‖ ≤ 1: for any W that meets the constraints and any
multipliers, f ≥ 0 on priorities and free on ties, with D = Σ_c α_c u_c v_cᵀ,

    Σ f ≤ Σ_c α_c ⟨W, u_c v_cᵀ⟩ = ⟨W, D⟩ ≤ ‖D‖° ‖W‖.

The dual of the largest entry is the sum of all entries' sizes; that of the largest singular value is the sum
of the singular values.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from attomaton.base.tables import Float64
from attomaton.solvers.hard.certify import FEASIBLE
from attomaton.solvers.hard.factored.certify import FactoredCertificate, find_violation, relative_gap
from attomaton.solvers.hard.factored.problem import FactoredProblem

Norm = Literal["max", "spectral"]
"""The largest entry in size, or the largest singular value."""


@dataclass(frozen=True)
class NormCertificate(FactoredCertificate):
    """Bounds on the least norm of a W with margins of 1; the best margin of a W of norm 1 is its inverse.

    Attributes
    ----------
    lower, upper : float
        ``lower ≤ min ‖W‖ ≤ upper``; ``upper`` is the norm of the returned answer, or infinite if that is not
        feasible.
    gap : float
        (upper − lower) / upper.
    violation : float
        Largest amount by which the returned answer misses a constraint (rounding, if anything).
    rtol : float
        The relative gap asked for.
    norm : str
        "max" for the largest entry of W in size, "spectral" for its largest singular value.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1])  # under 2, 0 beats 1 and 1 beats 2
    >>> components = at.find_components(at.extract_edges(samples))
    >>> from attomaton.solvers.norms.solve import solve_normed
    >>> certificate = solve_normed(components, norm="max").certificate
    >>> certificate.lower, certificate.upper, certificate.certified
    (1.0, 1.0, True)
    >>> print(certificate)
    1 ≤ min ‖W‖_max ≤ 1, relative gap 0.0e+00 (asked 1e-12), violation 0.0e+00
    >>> certificate.scaled(2.0).upper
    2.0
    """

    norm: Norm

    @property
    def _symbol(self) -> str:
        return f"‖W‖_{self.norm}"


def measure_norm(weights: Float64, norm: Norm | Literal["frobenius"]) -> Float64:
    """The norm of each matrix, shape (…) from (…, m, n).

    Examples
    --------
    >>> two = np.array([[3.0, 0.0], [0.0, -4.0]])
    >>> [float(measure_norm(two, norm)) for norm in ("max", "frobenius", "spectral")]
    [4.0, 5.0, 4.0]
    """
    if not weights.size:
        return np.zeros(weights.shape[:-2])
    if norm == "max":
        return np.abs(weights).max(axis=(-2, -1))
    return np.asarray(np.linalg.norm(weights, 2 if norm == "spectral" else "fro", axis=(-2, -1)))


def measure_dual(pressed: Float64, norm: Norm) -> float:
    """‖D‖°: the sum of the sizes of all entries, or of the singular values."""
    if not pressed.size:
        return 0.0
    return float(np.abs(pressed).sum() if norm == "max" else np.linalg.norm(pressed, "nuc"))


def certify_normed(
    problem: FactoredProblem, weights: Float64, multipliers: Float64, *, norm: Norm, rtol: float
) -> NormCertificate:
    """Bounds from weights W, as they are, and any multipliers, shape (n_constraints,).

    For the largest entry, ``problem`` must have the coordinates in which entries are meant.
    """
    violation = find_violation(problem, weights)
    upper = float(measure_norm(weights, norm)) if violation <= FEASIBLE else np.inf
    lower = bound_below(problem, multipliers, norm)
    return NormCertificate(lower, upper, relative_gap(lower, upper), violation, rtol, norm)


def bound_below(problem: FactoredProblem, multipliers: Float64, norm: Norm) -> float:
    """Σf / ‖D‖° for any multipliers, those of priorities clipped to f ≥ 0; infinite if D = 0 < Σf."""
    if not np.isfinite(multipliers).all():
        return 0.0
    clipped = multipliers.copy()
    clipped[: problem.n_priorities] = np.maximum(multipliers[: problem.n_priorities], 0.0)
    total, dual = float(clipped[: problem.n_priorities].sum()), measure_dual(problem.press(clipped), norm)
    if dual > 0:
        return total / dual
    return np.inf if total > 0 else 0.0
