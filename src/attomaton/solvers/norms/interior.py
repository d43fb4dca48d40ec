"""The interior-point solver: the Graph-SVM of least spectral norm.

The mirror image of :mod:`attomaton.solvers.hard.factored.interior`. ‖W‖_op is the least t with
S = [[tI, W], [Wᵀ, tI]] ⪰ 0, and the multipliers α obey ‖D‖_* ≤ 1 with D = Σ_c α_c u_c v_cᵀ: there is X ⪰ 0
of trace 1 with −2 X₁₂ = D. At the optimum XS = 0, and each priority's slack s_c or multiplier f_c is zero.
Newton's method follows XS = μI, s_c f_c = μ as μ falls to 0 (Mehrotra's steps, in the direction of Helmberg,
Kojima and Monteiro). Each step solves a symmetric system in (t, W): with Y = S⁻¹, its entries for two
entries of W are

    X₂₁[b,c] Y₂₁[d,a] + X₂₂[b,d] Y₁₁[c,a] + X₁₁[a,c] Y₂₂[d,b] + X₁₂[a,d] Y₁₂[c,b]   at (a,b), (c,d),

plus Σ_c (f_c/s_c) u_c v_cᵀ ⊗ u_c v_cᵀ. W moves where no tie is broken. About 15 steps are enough;
time grows with the sixth power of the number of tokens, memory with the fourth.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, qr, solve_triangular

from attomaton.base.tables import Float64
from attomaton.solvers.hard.certify import FEASIBLE
from attomaton.solvers.hard.factored.certify import find_violation, relative_gap, repair_weights
from attomaton.solvers.hard.factored.interior import reach_matrix, reach_vector, symmetric
from attomaton.solvers.hard.factored.problem import FactoredProblem
from attomaton.solvers.norms.certify import bound_below, measure_norm

SHORT, REFINEMENTS = 0.95, 2
"""How much of the way to the border is gone, and how often each system is solved for what is left."""

RAISED = 1e-14
"""By how much the diagonal of the system is raised, as it becomes singular at the optimum."""

HOPELESS = 1e14
"""A lower bound that no answer in floats can reach: the constraints contradict each other."""


class SpectralPoint(NamedTuple):
    """An interior point; or, from one to the next, a step."""

    bound: float  # t
    weights: Float64  # W, (n_rows, n_columns)
    slack: Float64  # s, (n_priorities,)
    dual: Float64  # X, (n_rows + n_columns) squared
    flow: Float64  # f, (n_priorities,)

    def pencil(self) -> Float64:
        """S = [[tI, W], [Wᵀ, tI]]."""
        n_rows, n_columns = self.weights.shape
        one, other = self.bound * np.eye(n_rows), self.bound * np.eye(n_columns)
        return np.block([[one, self.weights], [self.weights.T, other]])

    def move(self, step: "SpectralPoint", primal: float, dual: float) -> "SpectralPoint":
        """The point after the two parts of a step."""
        return SpectralPoint(
            self.bound + primal * step.bound,
            self.weights + primal * step.weights,
            self.slack + primal * step.slack,
            self.dual + dual * step.dual,
            self.flow + dual * step.flow,
        )

    def distance(self) -> float:
        """μ: the mean of the products that vanish at the optimum."""
        products = float(np.vdot(self.dual, self.pencil())) + float(self.slack @ self.flow)
        return products / (len(self.dual) + len(self.slack))


class ConstraintFrame(NamedTuple):
    """The constraints as rows, and the space in which no tie is broken."""

    asked: Float64  # u_c v_cᵀ of every priority, (n_priorities, n_rows · n_columns)
    held: Float64  # an orthonormal basis of what ties fix, (n_rows · n_columns, n_ties)
    triangle: Float64  # the ties in that basis, (n_ties, n_ties)
    free: Float64  # an orthonormal basis of the rest, (n_rows · n_columns, n_free)

    def pull(self, point: "SpectralPoint") -> Float64:
        """Multipliers of the ties that bring D nearest to −2 X₁₂, shape (n_ties,)."""
        n_rows = len(point.weights)
        left = -2.0 * point.dual[:n_rows, n_rows:].ravel() - self.asked.T @ point.flow
        return np.asarray(solve_triangular(self.triangle, self.held.T @ left))


class SpectralSystem(NamedTuple):
    """Newton's equations at a point."""

    frame: ConstraintFrame
    point: SpectralPoint
    inverse: Float64  # Y = S⁻¹
    matrix: Float64  # of the equations in t and W's free coordinates
    factor: tuple[Float64, bool]


@dataclass(frozen=True)
class SpectralInterior:
    """Solve until the relative gap is ``rtol``, in at most ``max_steps`` steps.

    Attributes
    ----------
    rtol : float
        The relative gap at which to stop.
    max_steps : int
        Steps, at most.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.solvers.hard.factored.problem import factored_problem
    >>> samples = at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])  # 0 beats 1 under 1, and 2 under 2
    >>> problem, _, _ = factored_problem(at.find_components(at.extract_edges(samples)), np.eye(3))
    >>> weights, multipliers = SpectralInterior().solve_spectral(problem)
    >>> problem.differences(weights).round(4).tolist(), (multipliers / multipliers.sum()).round(4).tolist()
    ([1.0, 1.0], [0.5, 0.5])
    """

    rtol: float = 1e-7
    max_steps: int = 60

    def solve_spectral(self, problem: FactoredProblem) -> tuple[Float64, Float64]:
        """Weights, shape (n_rows, n_columns), and multipliers, shape (n_constraints,); the best met."""
        weights = np.zeros((problem.tokens.shape[1], problem.queries.shape[1]))
        multipliers = np.zeros(len(problem.above))
        if not problem.n_priorities:
            return weights, multipliers
        upper, lower = np.inf, 0.0
        with np.errstate(all="ignore"):
            point, frame = _start(problem), _frame(problem)
            for _ in range(self.max_steps):
                try:
                    reached = _bound_above(problem, point.weights)
                    if reached < upper:
                        weights, upper = point.weights, reached
                    pressed = np.concatenate([point.flow, frame.pull(point)])
                    proved = bound_below(problem, pressed, "spectral")
                    if proved > lower:
                        multipliers, lower = pressed, proved
                    if relative_gap(lower, upper) <= self.rtol or lower > HOPELESS:
                        break
                    point = _advance(frame, point)
                except (np.linalg.LinAlgError, ValueError):  # rounding allows no further step
                    break
        return weights, multipliers


def _bound_above(problem: FactoredProblem, weights: Float64) -> float:
    """‖W‖_op of the repaired weights; infinite if they cannot be repaired."""
    repaired = repair_weights(problem, weights)
    feasible = find_violation(problem, repaired) <= FEASIBLE
    return float(measure_norm(repaired, "spectral")) if feasible else np.inf


def _start(problem: FactoredProblem) -> SpectralPoint:
    """W = 0, which meets no priority yet, well inside all borders."""
    n_rows, n_columns = problem.tokens.shape[1], problem.queries.shape[1]
    norms = np.linalg.norm(problem.left, axis=1) * np.linalg.norm(problem.right, axis=1)
    scale = 10.0 / min(1.0, max(float(norms[: problem.n_priorities].min()), 1e-6))
    n_priorities, size = problem.n_priorities, n_rows + n_columns
    return SpectralPoint(
        scale,
        np.zeros((n_rows, n_columns)),
        np.full(n_priorities, scale),
        np.eye(size) / size,
        np.full(n_priorities, 1.0 / size),
    )


def _frame(problem: FactoredProblem) -> ConstraintFrame:
    rows = (problem.left[:, :, None] * problem.right[:, None, :]).reshape(len(problem.above), -1)
    asked, ties = rows[: problem.n_priorities], rows[problem.n_priorities :]
    if not len(ties):
        size = rows.shape[1]
        return ConstraintFrame(asked, np.zeros((size, 0)), np.zeros((0, 0)), np.eye(size))
    basis, triangle = (np.asarray(part, np.float64) for part in qr(ties.T))
    return ConstraintFrame(asked, basis[:, : len(ties)], triangle[: len(ties)], basis[:, len(ties) :])


def _advance(frame: ConstraintFrame, point: SpectralPoint) -> SpectralPoint:
    """One step: predict how far μ may fall, then aim there with what the prediction left out."""
    system, size = _linearise(frame, point), len(point.dual)
    guess = _solve(system, 0.0, np.zeros((size, size)), np.zeros(len(point.slack)))
    primal, dual = _reach(point, guess)
    before, after = point.distance(), point.move(guess, min(1.0, primal), min(1.0, dual)).distance()
    aim = before * min(max((after / before) ** 3, 1e-6), 1.0)
    curved = symmetric(guess.dual @ guess.pencil() @ system.inverse)
    step = _solve(system, aim, curved, guess.slack * guess.flow)
    primal, dual = _reach(point, step)
    return point.move(step, min(1.0, SHORT * primal), min(1.0, SHORT * dual))


def _linearise(frame: ConstraintFrame, point: SpectralPoint) -> SpectralSystem:
    """Newton's equations, with the matrix factored; ``LinAlgError`` where rounding has made it indefinite."""
    inverse = symmetric(np.asarray(np.linalg.inv(point.pencil()), np.float64))
    matrix = _curvature(point.dual, inverse, point.weights.shape)
    matrix[1:, 1:] += frame.asked.T @ ((point.flow / point.slack)[:, None] * frame.asked)
    if frame.held.size:
        across = matrix[:, 1:] @ frame.free
        inner = frame.free.T @ across[1:]
        matrix = np.block([[matrix[:1, :1], across[:1]], [across[:1].T, (inner + inner.T) / 2]])
    raised = matrix.copy()
    np.einsum("ii->i", raised)[:] *= 1 + RAISED
    factor = cho_factor(raised, lower=True, overwrite_a=True, check_finite=False)
    return SpectralSystem(frame, point, inverse, matrix, factor)


def _curvature(dual: Float64, inverse: Float64, shape: tuple[int, int]) -> Float64:
    """tr(A_i X A_j Y) for the matrices A_i of t and of each entry of W, shape (1 + n_w, 1 + n_w)."""
    n_rows, n_columns = shape
    near, cross, far = dual[:n_rows, :n_rows], dual[:n_rows, n_rows:], dual[n_rows:, n_rows:]
    near_y, cross_y, far_y = inverse[:n_rows, :n_rows], inverse[:n_rows, n_rows:], inverse[n_rows:, n_rows:]
    entries = np.einsum("cb,ad->abcd", cross, cross_y) + np.einsum("ad,cb->abcd", cross, cross_y)
    entries += np.einsum("bd,ac->abcd", far, near_y) + np.einsum("ac,bd->abcd", near, far_y)
    size, product = n_rows * n_columns, inverse @ dual
    matrix = np.empty((1 + size, 1 + size))
    matrix[1:, 1:] = entries.reshape(size, size)
    matrix[0, 0] = np.trace(product)
    matrix[0, 1:] = matrix[1:, 0] = (product[:n_rows, n_rows:] + product[n_rows:, :n_rows].T).ravel()
    return matrix


def _solve(system: SpectralSystem, aim: float, curved: Float64, product: Float64) -> SpectralPoint:
    """The step to XS = ``aim``·I and s f = ``aim``, less second-order terms."""
    frame, point, inverse, matrix, factor = system
    n_rows = len(point.weights)
    missed = frame.asked @ point.weights.ravel() - 1.0 - point.slack
    aimed = (aim - product) / point.slack  # f + Δf, but for what Δs takes off
    target = aim * inverse - curved
    wanted = 2.0 * target[:n_rows, n_rows:].ravel()
    wanted = wanted + frame.asked.T @ (aimed - point.flow / point.slack * missed)
    right = np.concatenate([[np.trace(target) - 1.0], frame.free.T @ wanted])
    found = cho_solve(factor, right, check_finite=False)
    for _ in range(REFINEMENTS):
        found = found + cho_solve(factor, right - matrix @ found, check_finite=False)
    moved = (frame.free @ found[1:]).reshape(point.weights.shape)
    slack = frame.asked @ moved.ravel() + missed
    flow = aimed - point.flow - point.flow / point.slack * slack
    step = SpectralPoint(float(found[0]), moved, slack, curved, flow)
    dual = target - point.dual - symmetric(point.dual @ step.pencil() @ inverse)
    return step._replace(dual=dual)


def _reach(point: SpectralPoint, step: SpectralPoint) -> tuple[float, float]:
    """How many times the primal and the dual part of a step fit before the border."""
    pencil = reach_matrix(point.pencil(), step.pencil())
    primal = min(pencil, reach_vector(point.slack, step.slack))
    return primal, min(reach_matrix(point.dual, step.dual), reach_vector(point.flow, step.flow))
