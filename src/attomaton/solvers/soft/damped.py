"""Damped Newton's method without a line search: the loop shared by all numpy solvers.

Along a step that changes logits by amounts differing by at most d, the curvature of sums of exponentials
changes at most by the factor e^d (generalised self-concordance). So the fraction ln(1 + d)/d of Newton's step
lowers the function; it tends to 1. The kernels of ``soft/newton`` and ``trajectory/flow`` repeat the loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.ragged import centre, offsets_of, rows_of, sum_at
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.soft.likelihood import LuceProblem

# Smallest change d of logits along a step for which ln(1 + d)/d is computed.
LEAST_REACH = 1e-12

# Most consecutive steps of `solve_direct` that do not lower the largest entry of the gradient.
STEP_PATIENCE = 20

# A matrix, as a function of the vector that it multiplies.
Product = Callable[[Float64], Float64]

solve_dense: Any = np.linalg.solve


def minimise(
    slope: Callable[[Float64], Float64],  # the gradient at a point
    # (point, gradient) → Newton's step, and the largest d by which changes of logits along it differ
    find_step: Callable[[Float64, Float64], tuple[Float64, Float64 | float]],
    start: Float64,
    *,
    atol: float,
    max_steps: int,
    patience: int | None = None,
) -> tuple[Float64, float]:
    """The point where the largest entry of the gradient is smallest, and this entry."""
    # The loop ends if the entry is at most atol, or has not fallen in `patience` consecutive steps.
    point = best = start.copy()
    least, n_without_progress = np.inf, 0
    for number in range(max_steps + 1):
        gradient = slope(point)
        largest = float(np.abs(gradient).max(initial=0.0))
        n_without_progress = 0 if largest < least else n_without_progress + 1
        if largest < least:
            least, best = largest, point
        is_stuck = patience is not None and n_without_progress > patience
        if largest <= atol or number == max_steps or is_stuck:
            break
        step, logit_range = find_step(point, gradient)
        if not np.isfinite(step).all():
            break
        point = point + damping(logit_range) * step
    return best, least


def damping(logit_range: Float64 | float) -> Float64 | float:
    """ln(1 + d)/d, the fraction of a step along which logits change by amounts differing by at most d."""
    d = np.maximum(logit_range, LEAST_REACH)
    return np.log1p(d) / d


def solve_systems(
    product: Product, right: Float64, scale: Float64, system: Int64, *, rtol: float, max_steps: int
) -> Float64:
    """Solve H x = right for block-diagonal, positive semidefinite H, from zero, by conjugate gradients."""
    # ``system`` numbers the block of each entry. The systems are solved side by side, each until its own
    # residual is small; ``scale`` is a diagonal preconditioner.
    size = int(system.max(initial=-1)) + 1
    answer, residual = np.zeros_like(right), right.copy()
    direction = residual / scale
    error = sum_at(system, residual * direction, size)  # squared norm of the residual, scaled
    goal = rtol**2 * error
    for _ in range(max_steps):
        is_open = error > goal
        if not is_open.any():
            break
        image = product(direction)
        curvature = sum_at(system, direction * image, size)
        alpha = np.divide(error, curvature, out=np.zeros(size), where=is_open & (curvature > 0))
        answer += alpha[system] * direction
        residual -= alpha[system] * image
        scaled = residual / scale
        next_error = sum_at(system, residual * scaled, size)
        beta = np.divide(next_error, error, out=np.zeros(size), where=is_open & (error > 0))
        direction = np.where(is_open[system], scaled + beta[system] * direction, 0.0)
        error = np.where(is_open & (curvature > 0), next_error, 0.0)  # 0 closes a singular system
    return answer


@dataclass(frozen=True)
class Subspace:
    """The Luce model on the span of (e_i − e_j)e_kᵀ over all ties, for dependent embeddings."""

    atol: float = 1e-10
    max_steps: int = 200

    def solve(self, problem: LuceProblem, features: Float64) -> Float64:
        """Coordinates x, shape (n_features,), of the best scores features @ x."""

        def slope(coordinates: Float64) -> Float64:
            return features.T @ problem.gradient(features @ coordinates)

        def find_step(coordinates: Float64, gradient: Float64) -> tuple[Float64, float]:
            probabilities = problem.probabilities(features @ coordinates)
            step: Float64 = -solve_dense(features.T @ problem.curvature_of(probabilities, features), gradient)
            return step, 2.0 * float(np.abs(features @ step).max())

        start = np.zeros(features.shape[1])
        return minimise(slope, find_step, start, atol=self.atol, max_steps=self.max_steps)[0]


def solve_direct(
    problem: LuceProblem, scores: Float64, anchor: Float64, stiffness: float, *, atol: float, max_steps: int
) -> Float64:
    """The minimum for one group and ½ stiffness ‖scores − anchor‖², by sparse elimination."""
    first, second, choice = _pairs(problem)

    def slope(scores: Float64) -> Float64:
        return problem.gradient(scores) + stiffness * (scores - anchor)

    def find_step(scores: Float64, gradient: Float64) -> tuple[Float64, float]:
        probability = problem.probabilities(scores)
        weight = problem.count[choice] * probability[first] * probability[second]
        members = problem.alternative
        step = _eliminate(members[first], members[second], weight, -gradient, stiffness)
        return step, float(np.ptp(step))

    return minimise(slope, find_step, scores, atol=atol, max_steps=max_steps, patience=STEP_PATIENCE)[0]


# All pairs of entries of one choice set: first entry, second entry and choice, shape (n_pairs,) each.
def _pairs(problem: LuceProblem) -> tuple[Int64, Int64, Int64]:
    # A set of m members has m² cells; number i·m + j of them is the pair of its members i and j.
    lengths = np.diff(problem.offsets)
    offsets = offsets_of(lengths * lengths)
    choice = rows_of(offsets)
    first, second = np.divmod(np.arange(len(choice)) - offsets[choice], lengths[choice])
    is_ordered = first < second  # each pair once
    start = problem.offsets[choice[is_ordered]]
    return start + first[is_ordered], start + second[is_ordered], choice[is_ordered]


# Solve (Σ weight (e_i − e_j)(e_i − e_j)ᵀ + stiffness) x = right; with stiffness 0, x has mean zero.
def _eliminate(first: Int64, second: Int64, weight: Float64, right: Float64, stiffness: float) -> Float64:
    from scipy.sparse import csc_array  # takes long to import, so only when needed
    from scipy.sparse.linalg import splu

    size = len(right)
    every = np.arange(size)
    diagonal = sum_at(first, weight, size) + sum_at(second, weight, size) + stiffness
    rows, columns = np.concatenate([first, second, every]), np.concatenate([second, first, every])
    matrix = csc_array((np.concatenate([-weight, -weight, diagonal]), (rows, columns)), shape=(size, size))
    free = every if stiffness else every[1:]  # the omitted entry is fixed at zero
    answer = np.zeros(size)
    try:
        answer[free] = splu(matrix[free][:, free].tocsc(), options={"SymmetricMode": True}).solve(right[free])
    except RuntimeError:  # exactly singular: probabilities too small for floating point
        return np.full(size, np.nan)
    return answer if stiffness else centre(np.zeros(size, np.int64), answer)
