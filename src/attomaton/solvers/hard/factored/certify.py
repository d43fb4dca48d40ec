"""Proofs for the Graph-SVM of factored weights: bounds on its nuclear norm, from the vectors alone.

Weak duality: for any W that meets the constraints and any multipliers, f ≥ 0 on priorities and free on ties,
with D = Σ_c α_c u_c v_cᵀ,

    Σ f ≤ Σ_c α_c ⟨W, u_c v_cᵀ⟩ = ⟨W, D⟩ ≤ ‖D‖_op ‖W‖_*.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from attomaton.base.tables import Float64
from attomaton.solvers.hard.certify import FEASIBLE, find_extremes, margins
from attomaton.solvers.hard.factored.problem import FactoredProblem


@dataclass(frozen=True)
class FactoredCertificate:
    """Bounds on the least nuclear norm ‖W‖_*, the sum of W's singular values.

    Attributes
    ----------
    lower, upper : float
        ``lower ≤ min ‖W‖_* ≤ upper``; ``upper`` is the norm of the returned answer, or infinite if that is
        not feasible.
    gap : float
        (upper − lower) / upper.
    violation : float
        Largest amount by which the returned answer misses a constraint (rounding, if anything).
    rtol : float
        The relative gap asked for.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.solvers.hard.factored.solve import solve_factored
    >>> samples = at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])  # 0 beats 1 under 1, and 2 under 2
    >>> certificate = solve_factored(at.find_components(at.extract_edges(samples))).certificate
    >>> round(certificate.lower, 4), round(certificate.upper, 4), certificate.certified
    (1.1547, 1.1547, True)
    >>> round(certificate.scaled(2.0).upper, 4)
    2.3094
    """

    lower: float
    upper: float
    gap: float
    violation: float
    rtol: float

    @property
    def _symbol(self) -> str:
        """The norm, as formulas write it."""
        return "‖W‖_*"

    @property
    def certified(self) -> bool:
        """Whether all numbers are finite, and gap and violation within tolerance."""
        finite = np.isfinite([self.lower, self.upper, self.gap, self.violation]).all()
        return bool(finite and abs(self.gap) <= self.rtol and self.violation <= FEASIBLE)

    def scaled(self, factor: float) -> Self:
        """The same bounds for ``factor`` · W, as other units of the embeddings give."""
        return replace(self, lower=factor * self.lower, upper=factor * self.upper)

    def __str__(self) -> str:
        bounds = f"{self.lower:.12g} ≤ min {self._symbol} ≤ {self.upper:.12g}"
        return (
            f"{bounds}, relative gap {self.gap:.1e} (asked {self.rtol:.0e}), violation {self.violation:.1e}"
        )


def repair_weights(problem: FactoredProblem, weights: Float64) -> Float64:
    """Weights that break no tie, scaled until the smallest margin is 1; unscaled if that is not positive."""
    settled = problem.settle_ties(weights)
    smallest = float(margins(problem.nodes, problem.scores(settled)).min(initial=np.inf))
    return settled / smallest if 0 < smallest < np.inf else settled


def certify_weights(
    problem: FactoredProblem, weights: Float64, multipliers: Float64, *, rtol: float
) -> FactoredCertificate:
    """Bounds from weights W, as they are, and any multipliers, shape (n_constraints,)."""
    violation = find_violation(problem, weights)
    upper = nuclear_norm(weights) if violation <= FEASIBLE else np.inf
    lower = lower_bound(problem, multipliers)
    return FactoredCertificate(lower, upper, relative_gap(lower, upper), violation, rtol)


def relative_gap(lower: float, upper: float) -> float:
    """(upper − lower) / upper; infinite if the bounds are."""
    if not np.isfinite([lower, upper]).all():
        return np.inf
    return (upper - lower) / upper if upper != 0 else 0.0


def lower_bound(problem: FactoredProblem, multipliers: Float64) -> float:
    """Σf / ‖D‖_op for any multipliers, those of priorities clipped to f ≥ 0; infinite if D = 0 < Σf."""
    if not np.isfinite(multipliers).all():
        return 0.0
    clipped = multipliers.copy()
    clipped[: problem.n_priorities] = np.maximum(multipliers[: problem.n_priorities], 0.0)
    total = float(clipped[: problem.n_priorities].sum())
    pressed = problem.press(clipped)
    largest = float(np.linalg.norm(pressed, 2)) if pressed.size else 0.0
    if largest > 0:
        return total / largest
    return np.inf if total > 0 else 0.0


def upper_bound(problem: FactoredProblem, weights: Float64) -> float:
    """‖W‖_* of the repaired weights; infinite if they cannot be repaired."""
    repaired = repair_weights(problem, weights)
    return nuclear_norm(repaired) if find_violation(problem, repaired) <= FEASIBLE else np.inf


def nuclear_norm(weights: Float64) -> float:
    """‖W‖_*, the sum of the singular values."""
    return float(np.linalg.norm(weights, "nuc")) if weights.size else 0.0


def find_violation(problem: FactoredProblem, weights: Float64) -> float:
    """The largest amount by which a tie or a priority is missed."""
    if not np.isfinite(weights).all():
        return np.inf
    scores = problem.scores(weights)
    lowest, highest = find_extremes(problem.nodes, scores)
    missed = 1.0 - margins(problem.nodes, scores)
    return float(max(np.max(highest - lowest, initial=0.0), np.max(missed, initial=0.0)))
