"""Prove bounds on the least norm of the Graph-SVM in norms that couple queries.

Weak duality, with the dual norm ‖D‖° = max ⟨W, D⟩ over ‖W‖ ≤ 1: for any W that meets the constraints and any
multipliers, f ≥ 0 on priorities and free on ties, with D = Σ_c α_c u_c v_cᵀ,

    Σ f ≤ Σ_c α_c ⟨W, u_c v_cᵀ⟩ = ⟨W, D⟩ ≤ ‖D‖° ‖W‖.

The max norm is dual to the sum of absolute entries; the spectral and the nuclear norm are dual to each other.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attomaton.base.tables import Float64
from attomaton.solvers.hard.certify import FEASIBLE_VIOLATION, BoundsCertificate, find_extremes, margins
from attomaton.solvers.norms.problem import FactoredProblem

# The sum of the singular values, the largest absolute entry, or the largest singular value.
WeightNorm = Literal["nuclear", "max", "spectral"]

SYMBOLS: dict[WeightNorm, str] = {"nuclear": "‖W‖_*", "max": "‖W‖_max", "spectral": "‖W‖_spectral"}
# Numpy's names of the norms of singular values.
ORDERS: dict[str, Any] = {"nuclear": "nuc", "frobenius": "fro", "spectral": 2}


@dataclass(frozen=True)
class NormCertificate(BoundsCertificate):
    """Bounds on the least norm of a W with margins of 1; the best margin of a W of norm 1 is its inverse.

    The least norm is from ``lower`` to ``upper``, certified if their relative ``gap`` is at most ``rtol``.
    ``upper`` is the norm of the answer, infinite if the answer is not feasible, and ``violation`` its largest
    constraint violation. ``norm`` is "nuclear" (the sum of W's singular values), "spectral" (the largest
    singular value) or "max" (the largest absolute entry of W).
    """

    norm: WeightNorm

    def __str__(self) -> str:
        return self._describe(f"min {SYMBOLS[self.norm]}")


def repair_weights(problem: FactoredProblem, weights: Float64) -> Float64:
    """Weights that violate no tie, scaled to a smallest margin of 1 if that is positive."""
    settled = problem.settle_ties(weights)
    smallest = float(margins(problem.nodes, problem.scores(settled)).min(initial=np.inf))
    return settled / smallest if 0 < smallest < np.inf else settled


def measure_norm(weights: Float64, norm: WeightNorm | Literal["frobenius"]) -> Float64:
    """The norm of each matrix, shape (…, n_rows, n_columns) → (…)."""
    if not weights.size:
        return np.zeros(weights.shape[:-2])
    if norm == "max":
        return np.abs(weights).max(axis=(-2, -1))
    return np.asarray(np.linalg.norm(weights, ORDERS[norm], axis=(-2, -1)))


def certify_weights(
    problem: FactoredProblem, weights: Float64, multipliers: Float64, *, norm: WeightNorm, rtol: float
) -> NormCertificate:
    """Bounds from weights W, in the coordinates of their entries, and any multipliers, (n_constraints,)."""
    violation = find_violation(problem, weights)
    upper = float(measure_norm(weights, norm)) if violation <= FEASIBLE_VIOLATION else np.inf
    lower = lower_bound(problem, multipliers, norm)
    return NormCertificate(lower, upper, relative_gap(lower, upper), violation, rtol, norm)


# (upper − lower)/upper; 0 if no constraint needs weights, infinite if a bound is missing.
def relative_gap(lower: float, upper: float) -> float:
    if not np.isfinite([lower, upper]).all():
        return np.inf
    return (upper - lower) / upper if upper != 0 else 0.0


def lower_bound(problem: FactoredProblem, multipliers: Float64, norm: WeightNorm) -> float:
    """Σf / ‖D‖° for any multipliers, those of priorities clipped to f ≥ 0; infinite if D = 0 < Σf."""
    if not np.isfinite(multipliers).all():
        return 0.0
    clipped = multipliers.copy()
    clipped[: problem.n_priorities] = np.maximum(multipliers[: problem.n_priorities], 0.0)
    total = float(clipped[: problem.n_priorities].sum())  # Σf; the multipliers of ties do not count
    dual_matrix = problem.dual_matrix(clipped)
    duals: dict[WeightNorm, WeightNorm] = {"nuclear": "spectral", "spectral": "nuclear"}
    dual_norm = float(np.abs(dual_matrix).sum() if norm == "max" else measure_norm(dual_matrix, duals[norm]))
    if dual_norm > 0:
        return total / dual_norm
    return np.inf if total > 0 else 0.0


def upper_bound(problem: FactoredProblem, weights: Float64, norm: WeightNorm) -> float:
    """The norm of the weights after `repair_weights`, infinite if they are not feasible even then."""
    repaired = repair_weights(problem, weights)
    feasible = find_violation(problem, repaired) <= FEASIBLE_VIOLATION
    return float(measure_norm(repaired, norm)) if feasible else np.inf


def find_violation(problem: FactoredProblem, weights: Float64) -> float:
    """The largest violation of a tie (a range of scores inside a component) or of a margin of 1."""
    if not np.isfinite(weights).all():
        return np.inf
    scores = problem.scores(weights)
    lowest, highest = find_extremes(problem.nodes, scores)
    shortfall = 1.0 - margins(problem.nodes, scores)
    return float(max(np.max(highest - lowest, initial=0.0), np.max(shortfall, initial=0.0)))
