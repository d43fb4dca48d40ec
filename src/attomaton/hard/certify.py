"""Proofs for the Graph-SVM: a lower and an upper bound on ‖W_svm‖², from the vectors alone.

Any feasible point gives an upper bound; any multipliers, after clipping and scaling, give a lower one (weak
duality). A solver's own verdict is never consulted.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.hard.problem import EmbeddedProblem, OrderProblem
from attomaton.tables import Float64


@dataclass(frozen=True)
class HardCertificate:
    """Bounds on ‖W_svm‖².

    Attributes
    ----------
    lower, upper : float
        ``lower ≤ ‖W_svm‖² ≤ upper``; ``upper`` is the squared norm of the returned, feasible answer.
    violation : float
        Largest amount by which the returned answer misses a constraint (rounding, if anything).
    rtol : float
        The relative gap asked for.
    """

    lower: float
    upper: float
    violation: float
    rtol: float

    @property
    def gap(self) -> float:
        """(upper − lower) / upper, or 0 where both are 0."""
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0

    @property
    def certified(self) -> bool:
        """Whether gap and violation are within tolerance."""
        return bool(self.gap <= self.rtol and self.violation <= 1e-9)

    def __str__(self) -> str:
        bounds = f"{self.lower:.12g} ≤ ‖W_svm‖² ≤ {self.upper:.12g}"
        return (
            f"{bounds}, relative gap {self.gap:.1e} (asked {self.rtol:.0e}), violation {self.violation:.1e}"
        )


def repair_positions(problem: OrderProblem, positions: Float64) -> Float64:
    """A feasible point near ``positions``: scaled until the smallest gap is 1.

    Raises the positions' norm by the same factor, so a good answer stays good. Points with a gap that is not
    positive are beyond repair and come back as they are; the certificate will then say so.
    """
    if not len(problem.above):
        return np.zeros_like(positions)
    smallest = float(problem.gaps(positions).min())
    return positions / smallest if smallest > 0 else positions


def certify_positions(
    problem: OrderProblem, positions: Float64, flow: Float64, *, rtol: float
) -> HardCertificate:
    """Bounds from positions p and any flow f ≥ 0 on the edges (orthonormal embeddings).

    Upper: Σ|C|p². Lower: (Σf)² / Σ (div f)²/|C|, the dual value at the best multiple of f.
    """
    gaps = problem.gaps(positions)
    upper = float(np.sum(problem.sizes * positions**2))
    clipped = np.maximum(flow, 0.0)
    spread = float(np.sum(problem.divergence(clipped) ** 2 / problem.sizes))
    lower = float(clipped.sum()) ** 2 / spread if spread > 0 else 0.0
    return HardCertificate(lower, upper, max(0.0, 1.0 - float(gaps.min(initial=1.0))), rtol)


def repair_multipliers(problem: EmbeddedProblem, multipliers: Float64) -> Float64:
    """Multipliers whose W = Eᵀ A E keeps every tie exactly and every strict margin at least 1.

    The tie residual is removed inside the span of the ties, then all is scaled; signs are not kept, so these
    describe the primal point only.
    """
    ties = ~problem.strict
    repaired = multipliers.copy()
    if ties.any():
        repaired[ties] -= np.linalg.solve(problem.kernel(ties), problem.margins(repaired)[ties])
    smallest = float(problem.margins(repaired)[problem.strict].min(initial=np.inf))
    if np.isinf(smallest):
        return np.zeros_like(multipliers)
    return repaired / smallest if smallest > 0 else repaired


def certify_multipliers(
    problem: EmbeddedProblem, primal: Float64, dual: Float64, *, rtol: float
) -> HardCertificate:
    """Bounds from the multipliers of a feasible point and any dual multipliers (given embeddings).

    Upper: αᵀQα of the primal. Lower: (Σ_strict α)² / αᵀQα of the dual, strict parts clipped at 0.
    """
    margins = problem.margins(primal)
    short = max(0.0, 1.0 - float(margins[problem.strict].min(initial=1.0)))
    untied = float(np.abs(margins[~problem.strict]).max(initial=0.0))
    clipped = np.where(problem.strict, np.maximum(dual, 0.0), dual)
    energy = float(clipped @ problem.margins(clipped))
    total = float(clipped[problem.strict].sum())
    lower = total**2 / energy if energy > 0 else 0.0
    return HardCertificate(lower, float(primal @ margins), max(short, untied), rtol)
