"""Whether one W has the log-odds of every support at once, proved either way.

Compatible: some W has (e_z − e_z')ᵀ W h_j = ln(p_jz/p_jz') for all z, z' in S_j; that W is the proof. If
there is none, the equations contradict each other: weights c on them have Σ c (e_z − e_z')h_jᵀ = 0 although
Σ c ln(p_jz/p_jz') is not 0 (Fredholm's alternative). Those weights are the proof.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.tables import Float64, Int64
from attomaton.theories.decoder.supports import Supports

EXACT = 1e-8
"""How far log-odds may miss, relative to the largest, and still be met."""

BALANCED = 1e-9
"""How small a sum counts as zero, relative to the sum of the norms."""

ROUNDING = 1e-13
"""Weights of equations below this, relative to the largest, are rounding and no part of a contradiction."""

NEGLIGIBLE = 1e-10
"""Singular values smaller than this, relative to the largest, count as zero."""


@dataclass(frozen=True, eq=False)
class Compatibility:
    """The answer, with its proof.

    Attributes
    ----------
    one, other : int64 arrays, shape (n_ties,)
        The pairs z and z' of each equation: neighbours in a support.
    weights : float64 array, shape (n_tokens, dim)
        The W that misses the log-odds least.
    miss : float
        The largest |(e_z − e_z')ᵀ W h_j − ln(p_jz/p_jz')|, relative to the largest of these logarithms, or 1.
    contradiction : float64 array, shape (n_ties,)
        c, with Σ |c| = 1; all 0 if the log-odds are met.
    balance : float
        ‖Σ c (e_z − e_z')h_jᵀ‖ relative to Σ ‖c (e_z − e_z')h_jᵀ‖: 0 but for rounding.
    conflict : float
        Σ c ln(p_jz/p_jz'), which every W would have to make 0.

    Examples
    --------
    >>> from attomaton.theories.decoder.supports import count_supports
    >>> supports = count_supports([[0, 2, 0, 3, 0, 2, 1, 2, 1, 3, 0]], 1)  # odds 2 and 1 of 2 against 3
    >>> met = find_compatibility(supports, np.eye(4))
    >>> met.compatible, met.miss < 1e-12
    (True, True)
    >>> alike = find_compatibility(supports, np.array([[1.0], [1.0], [2.0], [3.0]]))  # 0 and 1 look the same
    >>> alike.compatible, alike.decided, round(alike.conflict, 4)
    (False, True, 0.3466)
    """

    one: Int64
    other: Int64
    weights: Float64
    miss: float
    contradiction: Float64
    balance: float
    conflict: float

    @property
    def met(self) -> bool:
        """Whether the W that is given proves that the log-odds can be met."""
        return self.miss <= EXACT

    @property
    def decided(self) -> bool:
        """Whether the proof holds, of either answer."""
        return self.met or (self.balance <= BALANCED and self.conflict > 1e3 * BALANCED)

    @property
    def compatible(self) -> bool:
        """Whether one W has all log-odds; raises ``UncertifiedSolution`` where that is not proved."""
        if not self.decided:
            raise UncertifiedSolution(
                f"the features are too nearly dependent to tell whether the log-odds can be met: they miss "
                f"by {self.miss:.1e}, and the contradiction is balanced to {self.balance:.1e} only"
            )
        return self.met


def find_compatibility(supports: Supports, features: Float64) -> Compatibility:
    """Find the W with the log-odds of every support, or why there is none."""
    one = np.flatnonzero(np.diff(supports.row) == 0)  # tokens that follow each other inside a support
    other = one + 1
    wanted = np.log(supports.chances[one] / supports.chances[other])
    contexts = supports.row[one]
    left, singular, axes = np.linalg.svd(features, full_matrices=False)
    kept = singular > NEGLIGIBLE * singular.max(initial=0.0)
    there = np.abs(features).max(axis=1, keepdims=True, initial=0.0) > 0
    reduced = np.where(there, left[:, kept] * singular[kept], 0.0)
    rank, size = int(kept.sum()), supports.n_tokens
    matrix = np.zeros((len(one), size, rank))
    rows = np.arange(len(one))
    matrix[rows, supports.tokens[one]] += reduced[contexts]
    matrix[rows, supports.tokens[other]] -= reduced[contexts]
    flat = matrix.reshape(len(one), size * rank)
    solution = np.asarray(np.linalg.lstsq(flat, wanted, rcond=NEGLIGIBLE)[0], np.float64)
    missed = wanted - flat @ solution
    weights = solution.reshape(size, rank) @ axes[kept]
    miss = float(np.abs(missed).max(initial=0.0)) / max(1.0, float(np.abs(wanted).max(initial=0.0)))
    if miss <= EXACT:
        return Compatibility(one, other, weights, miss, np.zeros(len(one)), 0.0, 0.0)
    return Compatibility(one, other, weights, miss, *_contradict(missed, flat, wanted))


def _contradict(missed: Float64, flat: Float64, wanted: Float64) -> tuple[Float64, float, float]:
    """What is missed is a combination of the equations whose left sides cancel."""
    missed = missed - flat @ np.asarray(np.linalg.lstsq(flat, missed, rcond=NEGLIGIBLE)[0], np.float64)
    missed = np.where(np.abs(missed) > ROUNDING * np.abs(missed).max(), missed, 0.0)
    weights = missed / np.abs(missed).sum()
    norms = np.linalg.norm(flat, axis=1)
    total = float(np.abs(weights) @ norms)
    left = float(np.linalg.norm(weights @ flat))
    return weights, left / total if total > 0 else 0.0, float(weights @ wanted)
