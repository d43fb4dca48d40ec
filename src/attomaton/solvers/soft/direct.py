"""Newton's method with sparse elimination, for the rare group on which conjugate gradients stall.

A long cycle is one: information passes from token to token, so conjugate gradients need as many turns as it
has tokens, and elimination needs one pass.
"""

import numpy as np

from attomaton.base.ragged import centre, offsets_of, rows_of, sum_at
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.soft.damped import minimise
from attomaton.solvers.soft.likelihood import LuceProblem

PATIENCE = 20
"""Steps in a row that need not lower the largest entry of the gradient."""


def solve_direct(
    problem: LuceProblem, scores: Float64, pull: tuple[Float64, float], limits: tuple[float, int]
) -> Float64:
    """The minimum for a problem of one group, from ``scores``.

    ``pull`` is the anchor and its stiffness, ``limits`` the largest gradient entry asked for and the most
    steps. Stops early where the next step would not be finite or the gradient no longer falls.
    """
    anchor, stiffness = pull
    one, other, choice = _pairs(problem)

    def slope(scores: Float64) -> Float64:
        return problem.gradient(scores) + stiffness * (scores - anchor)

    def find_step(scores: Float64, gradient: Float64) -> tuple[Float64, float]:
        chance = problem.probabilities(scores)
        weight = problem.count[choice] * chance[one] * chance[other]
        members = problem.alternative
        step = _eliminate(members[one], members[other], weight, (-gradient, stiffness))
        return step, float(np.ptp(step))

    return minimise(slope, find_step, scores, atol=limits[0], max_steps=limits[1], patience=PATIENCE)[0]


def _pairs(problem: LuceProblem) -> tuple[Int64, Int64, Int64]:
    """All pairs of entries of one choice set, and the choice of each."""
    lengths = np.diff(problem.offsets)
    begins = offsets_of(lengths * lengths)
    choice = rows_of(begins)
    within = np.arange(len(choice)) - begins[choice]
    one, other = within // lengths[choice], within % lengths[choice]
    kept = one < other
    start = problem.offsets[choice[kept]]
    return start + one[kept], start + other[kept], choice[kept]


def _eliminate(one: Int64, other: Int64, weight: Float64, system: tuple[Float64, float]) -> Float64:
    """Solve (Σ weight (e_i − e_j)(e_i − e_j)ᵀ + stiffness) x = right; with stiffness 0, x has mean zero."""
    from scipy.sparse import csc_array  # takes long to import, so only when needed
    from scipy.sparse.linalg import splu

    right, stiffness = system
    size = len(right)
    diagonal = sum_at(one, weight, size) + sum_at(other, weight, size) + stiffness
    every = np.arange(size)
    rows, columns = np.concatenate([one, other, every]), np.concatenate([other, one, every])
    matrix = csc_array((np.concatenate([-weight, -weight, diagonal]), (rows, columns)), shape=(size, size))
    kept = every if stiffness else every[1:]  # what is left out is held at zero
    answer = np.zeros(size)
    try:
        answer[kept] = splu(matrix[kept][:, kept].tocsc(), options={"SymmetricMode": True}).solve(right[kept])
    except RuntimeError:  # exactly singular: chances too small for floating point
        return np.full(size, np.nan)
    return answer if stiffness else centre(np.zeros(size, np.int64), answer)
