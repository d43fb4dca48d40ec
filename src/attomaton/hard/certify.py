"""Proofs for the Graph-SVM: a lower and an upper bound on ‖W_svm‖², from the vectors alone.

Any feasible point gives an upper bound; any multipliers, after clipping and scaling, give a lower one (weak
duality). A solver's own verdict is never consulted.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.hard.problem import EmbeddedProblem, OrderProblem
from attomaton.tables import Float64

FEASIBLE = 1e-9
"""How much a constraint may be missed by rounding."""


@dataclass(frozen=True)
class HardCertificate:
    """Bounds on ‖W_svm‖².

    Attributes
    ----------
    lower, upper : float
        ``lower ≤ ‖W_svm‖² ≤ upper``; ``upper`` is the squared norm of the returned answer, or infinite if
        that is not feasible.
    gap : float
        Largest relative gap (upper − lower) / upper of any group that is solved on its own: any query for
        orthonormal embeddings, so that no small query hides behind a large one.
    violation : float
        Largest amount by which the returned answer misses a constraint (rounding, if anything).
    rtol : float
        The relative gap asked for.
    """

    lower: float
    upper: float
    gap: float
    violation: float
    rtol: float

    @property
    def certified(self) -> bool:
        """Whether all numbers are finite, and gap and violation within tolerance."""
        finite = np.isfinite([self.lower, self.upper, self.gap, self.violation]).all()
        return bool(finite and self.gap <= self.rtol and self.violation <= FEASIBLE)

    def __str__(self) -> str:
        bounds = f"{self.lower:.12g} ≤ ‖W_svm‖² ≤ {self.upper:.12g}"
        return (
            f"{bounds}, relative gap {self.gap:.1e} (asked {self.rtol:.0e}), violation {self.violation:.1e}"
        )


def repair_positions(problem: OrderProblem, positions: Float64) -> Float64:
    """A feasible point near ``positions``: each group scaled until its smallest gap is 1.

    Raises the positions' norm by the same factor, so a good answer stays good. A group with a gap that is not
    positive is beyond repair and comes back as it is; the certificate will then say so.
    """
    smallest = np.full(problem.n_groups, np.inf)
    np.minimum.at(smallest, problem.group[problem.above], problem.gaps(positions))
    usable = np.where(smallest > 0, smallest, 1.0)
    return positions / usable[problem.group]


def certify_positions(
    problem: OrderProblem, positions: Float64, flow: Float64, *, rtol: float
) -> HardCertificate:
    """Bounds from positions p and any flow f ≥ 0 on the edges (orthonormal embeddings).

    Upper: Σ|C|p². Lower: (Σf)² / Σ (div f)²/|C|, the dual value at the best multiple of f. Both by group.
    """
    from attomaton.graphs.summation import sum_precisely  # compiles, so only when needed

    clipped = np.maximum(flow, 0.0)
    group, size = problem.group, problem.n_groups
    upper = sum_precisely(group, problem.sizes * positions**2, size)
    pushed = sum_precisely(group[problem.above], clipped, size)
    spread = sum_precisely(group, problem.divergence(clipped) ** 2 / problem.sizes, size)
    lower = np.divide(pushed**2, spread, out=np.zeros_like(spread), where=spread > 0)
    gaps = np.divide(upper - lower, upper, out=np.zeros_like(upper), where=upper != 0)
    violation = _shortfall(problem.gaps(positions))
    return HardCertificate(
        lower=float(lower.sum()),
        upper=float(upper.sum()) if violation <= FEASIBLE else np.inf,
        gap=float(np.max(gaps, initial=0.0)),
        violation=violation,
        rtol=rtol,
    )


def _shortfall(margins: Float64) -> float:
    """How much the smallest margin misses 1; not a number if one of them is not."""
    return float(np.max(1.0 - margins, initial=0.0))


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
    untied = float(np.max(np.abs(margins[~problem.strict]), initial=0.0))
    violation = float(np.maximum(_shortfall(margins[problem.strict]), untied))
    clipped = np.where(problem.strict, np.maximum(dual, 0.0), dual)
    energy = float(clipped @ problem.margins(clipped))
    total = float(clipped[problem.strict].sum())
    lower = total**2 / energy if energy > 0 else 0.0
    upper = float(primal @ margins) if violation <= FEASIBLE else np.inf
    gap = (upper - lower) / upper if upper != 0 else 0.0
    return HardCertificate(lower, upper, float(gap), violation, rtol)
