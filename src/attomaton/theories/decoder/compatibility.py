"""Find whether one W has the log-odds of every support at once, with a proof of either answer.

The log-odds are compatible if some W has (e_z − e_z')ᵀ W h_j = ln(p_jz/p_jz') for all tokens z, z' in the
support S_j of each context j, with features h_j; this W is the proof. Otherwise some weights c on the
equations have Σ c (e_z − e_z')h_jᵀ = 0 although Σ c ln(p_jz/p_jz') is not 0 (Fredholm's alternative).
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.tables import Float64, Int64
from attomaton.theories.decoder.supports import Supports

# Tolerance for meeting log-odds, relative to the largest.
MET_TOLERANCE = 1e-8

# A sum counts as zero below this, relative to the sum of the norms.
BALANCED = 1e-9

# Weights of equations below this, relative to the largest, are rounding and not part of a contradiction.
ROUNDED_WEIGHT = 1e-13

# Singular values smaller than this, relative to the largest, count as zero.
NEGLIGIBLE_FEATURE = 1e-10


@dataclass(frozen=True, eq=False)
class Compatibility:
    """Whether one W has all log-odds, with the proof.

    Each equation, shape (n_ties,), ties two tokens z and z' that follow one context: the pairs ``first`` and
    ``second``, neighbours in a support. ``weights``, shape (n_tokens, dim), is the W closest to the log-odds,
    and ``miss`` the largest |(e_z − e_z')ᵀ W h_j − ln(p_jz/p_jz')|, relative to the largest of these
    logarithms, or 1. ``contradiction`` is c, shape (n_ties,), with Σ |c| = 1, or all 0 if the log-odds are
    met. ``balance`` is ‖Σ c (e_z − e_z')h_jᵀ‖ relative to Σ ‖c (e_z − e_z')h_jᵀ‖, and 0 up to rounding.
    ``conflict`` is Σ c ln(p_jz/p_jz'), which every W would have to make 0.
    """

    first: Int64
    second: Int64
    weights: Float64
    miss: float
    contradiction: Float64
    balance: float
    conflict: float

    @property
    def met(self) -> bool:
        """Whether W is a proof that the log-odds are compatible."""
        return self.miss <= MET_TOLERANCE

    @property
    def decided(self) -> bool:
        """Whether W or c is a proof."""
        # a conflict must be far above the rounding of a balanced sum
        return self.met or (self.balance <= BALANCED and self.conflict > 1e3 * BALANCED)

    @property
    def compatible(self) -> bool:
        """Whether one W has all log-odds; raises ``UncertifiedSolution`` if neither answer is proved."""
        if not self.decided:
            raise UncertifiedSolution(
                "the features are too close to linear dependence to decide whether one W gives all log-odds "
                f"(relative error of the best W: {self.miss:.1e}; imbalance of the proof that there is none: "
                f"{self.balance:.1e}); add features, or use features that depend less on each other"
            )
        return self.met


def find_compatibility(supports: Supports, features: Float64) -> Compatibility:
    """Solve for W by least squares, given h_j in the rows of ``features``; take c from what remains."""
    first = np.flatnonzero(np.diff(supports.row) == 0)  # followed by a pair of the same context
    second = first + 1
    log_odds = np.log(supports.probabilities[first] / supports.probabilities[second])
    left, singular, axes = np.linalg.svd(features, full_matrices=False)
    nonzero = singular > NEGLIGIBLE_FEATURE * singular.max(initial=0.0)
    has_features = np.abs(features).max(axis=1, keepdims=True, initial=0.0) > 0
    # h_j in coordinates along the axes, shape (n_contexts, rank); exactly 0 if h_j = 0
    reduced = np.where(has_features, left[:, nonzero] * singular[nonzero], 0.0)
    rank = int(nonzero.sum())
    rows = np.arange(len(first))
    # the left side of each equation, (e_z − e_z')h_jᵀ, as a row of coefficients of the entries of W
    equations = np.zeros((len(first), supports.n_tokens, rank))
    equations[rows, supports.tokens[first]] += reduced[supports.row[first]]
    equations[rows, supports.tokens[second]] -= reduced[supports.row[first]]
    matrix = equations.reshape(len(first), supports.n_tokens * rank)
    solution = _solve_least_squares(matrix, log_odds)
    residual = log_odds - matrix @ solution
    weights = solution.reshape(supports.n_tokens, rank) @ axes[nonzero]
    miss = float(np.abs(residual).max(initial=0.0)) / max(1.0, float(np.abs(log_odds).max(initial=0.0)))
    if miss <= MET_TOLERANCE:
        return Compatibility(first, second, weights, miss, np.zeros(len(first)), 0.0, 0.0)
    return Compatibility(first, second, weights, miss, *_contradict(residual, matrix, log_odds))


def _solve_least_squares(matrix: Float64, right: Float64) -> Float64:
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=NEGLIGIBLE_FEATURE)[0], np.float64)


# The residual as weights c of the equations whose left sides cancel; their balance and conflict.
def _contradict(residual: Float64, matrix: Float64, log_odds: Float64) -> tuple[Float64, float, float]:
    # a least-squares residual is perpendicular to the columns of the matrix: solved twice, to few roundings
    residual = residual - matrix @ _solve_least_squares(matrix, residual)
    residual = np.where(np.abs(residual) > ROUNDED_WEIGHT * np.abs(residual).max(), residual, 0.0)
    weights = residual / np.abs(residual).sum()
    total = float(np.abs(weights) @ np.linalg.norm(matrix, axis=1))
    left = float(np.linalg.norm(weights @ matrix))
    return weights, left / total if total > 0 else 0.0, float(weights @ log_odds)
