"""Solve the Graph-SVM in the nuclear and the spectral norm as semidefinite programs.

On the central path the product of primal and dual matrix is μI, and that of each priority's slack s_c and
multiplier f_c is μ; μ decreases to 0. A predictor step finds how far μ can decrease, a corrector step aims
there (Mehrotra; with the HKM direction of Helmberg, Kojima and Monteiro). About 20 steps suffice at any size.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, qr, solve_triangular

from attomaton.base.native import assemble_equations
from attomaton.base.tables import Float64
from attomaton.solvers.norms.certify import WeightNorm, lower_bound, relative_gap, upper_bound
from attomaton.solvers.norms.problem import FactoredProblem

# Fraction of the distance to the boundary that a step takes.
SHORT = 0.95

# Regularisation of a system's diagonal, since it becomes singular at the optimum.
DIAGONAL_RAISE = 1e-14

# A lower bound that no float64 answer can reach: the constraints contradict each other.
HOPELESS = 1e14


class Point(NamedTuple):
    """An interior point, or a step between two."""

    primal: Float64  # [[·, W], [Wᵀ, ·]], (n_rows + n_columns) squared
    slack: Float64  # s, (n_priorities,)
    dual: Float64  # complementary to ``primal``: their product vanishes at the optimum
    multipliers: Float64  # those of the priorities first, then others that the norm needs

    @property
    def flow(self) -> Float64:
        return self.multipliers[: len(self.slack)]

    def move(self, step: "Point", primal: float, dual: float) -> "Point":
        return Point(
            self.primal + primal * step.primal,
            self.slack + primal * step.slack,
            self.dual + dual * step.dual,
            self.multipliers + dual * step.multipliers,
        )

    def distance(self) -> float:
        """μ: the mean of the products that vanish at the optimum."""
        products = float(np.vdot(self.primal, self.dual)) + float(self.slack @ self.flow)
        return products / (len(self.primal) + len(self.slack))

    def reach(self, step: "Point") -> tuple[float, float]:
        primal = min(reach_matrix(self.primal, step.primal), reach_vector(self.slack, step.slack))
        return primal, min(reach_matrix(self.dual, step.dual), reach_vector(self.flow, step.flow))


def follow_path(
    problem: FactoredProblem,
    method: "NuclearMethod | SpectralMethod",
    *,
    norm: WeightNorm,
    rtol: float,
    max_steps: int,
) -> tuple[Float64, Float64]:
    """Follow the central path; return the weights and multipliers with the smallest gap."""
    n_rows = problem.tokens.shape[1]
    weights, upper = np.zeros((n_rows, problem.queries.shape[1])), np.inf
    multipliers, lower = np.zeros(len(problem.above)), 0.0
    if not problem.n_priorities:
        return weights, multipliers
    with np.errstate(all="ignore"):
        point = method.start()
        for _ in range(max_steps):
            try:
                moved = point.primal[:n_rows, n_rows:]
                reached = upper_bound(problem, moved, norm)
                if reached < upper:
                    weights, upper = moved, reached
                pressed = method.press(point)
                proved = lower_bound(problem, pressed, norm)
                if proved > lower:
                    multipliers, lower = pressed, proved
                if relative_gap(lower, upper) <= rtol or lower > HOPELESS:
                    break
                point = _step_along_path(point, method.linearise(point))
            except (np.linalg.LinAlgError, ValueError):  # rounding allows no further step
                break
    return weights, multipliers


def _step_along_path(point: Point, equations: "NuclearEquations | SpectralEquations") -> Point:
    """One step: predict how far μ can decrease, then aim there with second-order terms."""
    guess = equations.solve(0.0, np.zeros_like(point.primal), np.zeros(len(point.slack)))
    primal, dual = point.reach(guess)
    before, after = point.distance(), point.move(guess, min(1.0, primal), min(1.0, dual)).distance()
    aim = before * min(max((after / before) ** 3, 1e-6), 1.0)
    step = equations.solve(aim, equations.curve(guess), guess.slack * guess.flow)
    primal, dual = point.reach(step)
    return point.move(step, min(1.0, SHORT * primal), min(1.0, SHORT * dual))


def first_scale(problem: FactoredProblem) -> float:
    norms = np.linalg.norm(problem.left, axis=1) * np.linalg.norm(problem.right, axis=1)
    return 10.0 / min(1.0, max(float(norms[: problem.n_priorities].min()), 1e-6))


def reach_matrix(matrix: Float64, step: Float64) -> float:
    """The largest t with matrix + t·step ⪰ 0."""
    lowest = float(eigh(step, matrix, eigvals_only=True, check_finite=False)[0])
    return -1.0 / lowest if lowest < 0 else np.inf


def reach_vector(vector: Float64, step: Float64) -> float:
    """The largest t with vector + t·step ≥ 0."""
    return float(np.min(-vector[step < 0] / step[step < 0], initial=np.inf))


def symmetric(matrix: Float64) -> Float64:
    return (matrix + matrix.T) / 2


NUCLEAR_REFINEMENTS = 3


@dataclass(frozen=True)
class InteriorPoint:
    """Minimise the nuclear norm by an interior-point method.

    The solver stops if the relative gap is at most ``rtol``, or after ``max_steps`` steps. Its time grows
    with the cube of the number of constraints (priorities and ties), its memory with the square.

    Examples
    --------
    >>> import attomaton as at
    >>> components = at.find_components(at.extract_edges(at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])))
    >>> at.solve_graph_svm(components, norm="nuclear", solver=InteriorPoint(rtol=1e-9)).expect().rank
    1
    """

    rtol: float = 1e-7
    max_steps: int = 60

    def solve_factored(self, problem: FactoredProblem) -> tuple[Float64, Float64]:
        """Return the best weights found, shape (n_rows, n_columns), and one multiplier per constraint."""
        method = NuclearMethod(problem)
        return follow_path(problem, method, norm="nuclear", rtol=self.rtol, max_steps=self.max_steps)


@dataclass(frozen=True)
class NuclearMethod:
    """‖W‖_* is the least ½ tr P over symmetric P = [[·, W], [Wᵀ, ·]] ⪰ 0, the ``primal`` matrix.

    The multipliers α obey ‖D‖_op ≤ 1, that is Z = [[I, −D], [−Dᵀ, I]] ⪰ 0, the ``dual``, with D = Σ_c α_c u_c
    v_cᵀ. Each step solves a symmetric system in α; with Y = Z⁻¹, and s_c / f_c added on the diagonal, its
    matrix is

        2 H_cd =   u_cᵀP₁₁u_d · v_cᵀY₂₂v_d + u_cᵀWv_d · u_dᵀY₁₂v_c
                 + u_cᵀY₁₁u_d · v_cᵀP₂₂v_d + u_cᵀY₁₂v_d · u_dᵀWv_c.
    """

    problem: FactoredProblem

    def start(self) -> Point:
        problem, scale = self.problem, first_scale(self.problem)
        size = problem.tokens.shape[1] + problem.queries.shape[1]
        multipliers = np.zeros(len(problem.above))
        multipliers[: problem.n_priorities] = 1.0
        multipliers /= 2 * max(float(np.linalg.norm(problem.press(multipliers), 2)), 1e-6)
        dual = np.eye(size) + _dual_step(problem, multipliers)
        return Point(scale * np.eye(size), np.full(problem.n_priorities, scale), dual, multipliers)

    def press(self, point: Point) -> Float64:
        return point.multipliers

    def linearise(self, point: Point) -> "NuclearEquations":
        problem, n_priorities = self.problem, self.problem.n_priorities
        n_rows = problem.tokens.shape[1]
        inverse = symmetric(np.asarray(np.linalg.inv(point.dual), np.float64))
        missed = -problem.differences(point.primal[:n_rows, n_rows:])
        missed[:n_priorities] += 1.0 + point.slack
        primal, dual = _multiply(problem, point.primal), _multiply(problem, inverse)
        token = problem.nodes.token
        matrix = assemble_equations(primal, dual, (token[problem.above], token[problem.below]), problem.query)
        diagonal = np.einsum("ii->i", matrix)
        diagonal[:n_priorities] += point.slack / point.flow
        diagonal *= 1 + DIAGONAL_RAISE
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return NuclearEquations(problem, point, inverse, factor, missed)


class NuclearEquations(NamedTuple):
    """Newton's equations at a point of the nuclear-norm problem."""

    problem: FactoredProblem
    point: Point
    inverse: Float64  # Y = Z⁻¹
    factor: tuple[Float64, bool]  # of H
    missed: Float64  # (n_constraints,): residuals of the constraints at W and s

    def curve(self, guess: Point) -> Float64:
        return symmetric(guess.primal @ guess.dual @ self.inverse)

    def solve(self, aim: float, curved: Float64, product: Float64) -> Point:
        """The step to PZ = ``aim``·I and s f = ``aim``, less second-order terms."""
        problem, point, inverse, factor, missed = self
        n_rows, n_priorities = problem.tokens.shape[1], problem.n_priorities
        base = aim * inverse - point.primal - curved
        base_slack = (aim - product) / point.flow - point.slack
        multipliers = np.zeros(len(missed))
        primal, slack, dual = base, base_slack, np.zeros_like(base)
        for _ in range(NUCLEAR_REFINEMENTS):
            residual = missed - problem.differences(primal[:n_rows, n_rows:])
            residual[:n_priorities] += slack
            multipliers = multipliers + cho_solve(factor, residual, check_finite=False)
            dual = _dual_step(problem, multipliers)
            primal = base - symmetric(point.primal @ dual @ inverse)
            slack = base_slack - point.slack / point.flow * multipliers[:n_priorities]
        return Point(primal, slack, dual, multipliers)


def _dual_step(problem: FactoredProblem, multipliers: Float64) -> Float64:
    pressed = problem.press(multipliers)
    n_rows, n_columns = pressed.shape
    return np.block([[np.zeros((n_rows, n_rows)), -pressed], [-pressed.T, np.zeros((n_columns, n_columns))]])


class ConstraintProducts(NamedTuple):
    """A matrix [[A, B], [Bᵀ, C]] multiplied by the vectors of the constraints."""

    tokens: Float64  # (n_constraints, n_tokens): u_cᵀ A e_i
    cross: Float64  # (n_constraints, n_queries): u_cᵀ B f_k
    queries: Float64  # (n_queries, n_queries): f_kᵀ C f_l


def _multiply(problem: FactoredProblem, matrix: Float64) -> ConstraintProducts:
    n_rows = problem.tokens.shape[1]
    tokens = problem.left @ matrix[:n_rows, :n_rows] @ problem.tokens.T
    cross = problem.left @ matrix[:n_rows, n_rows:] @ problem.queries.T
    return ConstraintProducts(tokens, cross, problem.queries @ matrix[n_rows:, n_rows:] @ problem.queries.T)


SPECTRAL_REFINEMENTS = 2


@dataclass(frozen=True)
class SpectralInterior:
    """Minimise the spectral norm by an interior-point method.

    The solver stops if the relative gap is at most ``rtol``, or after ``max_steps`` steps.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.solvers.norms.problem import factored_problem
    >>> components = at.find_components(at.extract_edges(at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])))
    >>> SpectralInterior().solve_spectral(factored_problem(components, np.eye(3))[0])[1].round(4).tolist()
    [0.2549, 0.2549]
    """

    rtol: float = 1e-7
    max_steps: int = 60

    def solve_spectral(self, problem: FactoredProblem) -> tuple[Float64, Float64]:
        """Return the best weights found, shape (n_rows, n_columns), and one multiplier per constraint."""
        method = SpectralMethod(problem)
        return follow_path(problem, method, norm="spectral", rtol=self.rtol, max_steps=self.max_steps)


@dataclass(frozen=True)
class SpectralMethod:
    """‖W‖_op is the least t with S = [[tI, W], [Wᵀ, tI]] ⪰ 0, the ``primal`` matrix, where W meets all ties.

    The multipliers α obey ‖D‖_* ≤ 1: there is X ⪰ 0 of trace 1, the ``dual``, with −2 X₁₂ = D. Each step
    solves a symmetric system in (t, W); with Y = S⁻¹, its entries for two entries of W are

        X₂₁[b,c] Y₂₁[d,a] + X₂₂[b,d] Y₁₁[c,a] + X₁₁[a,c] Y₂₂[d,b] + X₁₂[a,d] Y₁₂[c,b]   at (a,b), (c,d),

    plus Σ_c (f_c/s_c) u_c v_cᵀ ⊗ u_c v_cᵀ. Time grows with the sixth power of the number of tokens.
    """

    problem: FactoredProblem

    @cached_property
    def frame(self) -> "ConstraintFrame":
        return _frame(self.problem)

    def start(self) -> Point:
        size = self.problem.tokens.shape[1] + self.problem.queries.shape[1]
        scale, n_priorities = first_scale(self.problem), self.problem.n_priorities
        slack, flow = np.full(n_priorities, scale), np.full(n_priorities, 1.0 / size)
        return Point(scale * np.eye(size), slack, np.eye(size) / size, flow)

    def press(self, point: Point) -> Float64:
        n_rows = self.problem.tokens.shape[1]
        return np.concatenate([point.flow, self.frame.pull(point.dual[:n_rows, n_rows:], point.flow)])

    def linearise(self, point: Point) -> "SpectralEquations":
        frame, shape = self.frame, (self.problem.tokens.shape[1], self.problem.queries.shape[1])
        inverse = symmetric(np.asarray(np.linalg.inv(point.primal), np.float64))
        matrix = _curvature(point.dual, inverse, shape)
        matrix[1:, 1:] += frame.priorities.T @ ((point.flow / point.slack)[:, None] * frame.priorities)
        if frame.fixed.size:
            columns = matrix[:, 1:] @ frame.free
            inner = frame.free.T @ columns[1:]
            matrix = np.block([[matrix[:1, :1], columns[:1]], [columns[:1].T, (inner + inner.T) / 2]])
        raised = matrix.copy()
        np.einsum("ii->i", raised)[:] *= 1 + DIAGONAL_RAISE
        factor = cho_factor(raised, lower=True, overwrite_a=True, check_finite=False)
        return SpectralEquations(frame, shape, point, inverse, matrix, factor)


class SpectralEquations(NamedTuple):
    """Newton's equations at a point of the spectral-norm problem."""

    frame: "ConstraintFrame"
    shape: tuple[int, int]  # of W
    point: Point
    inverse: Float64  # Y = S⁻¹
    matrix: Float64  # of the equations in t and W's free coordinates
    factor: tuple[Float64, bool]

    def curve(self, guess: Point) -> Float64:
        return symmetric(guess.dual @ guess.primal @ self.inverse)

    def solve(self, aim: float, curved: Float64, product: Float64) -> Point:
        """The step to XS = ``aim``·I and s f = ``aim``, less second-order terms."""
        frame, shape, point, inverse, matrix, factor = self
        n_rows = shape[0]
        missed = frame.priorities @ point.primal[:n_rows, n_rows:].ravel() - 1.0 - point.slack
        aimed = (aim - product) / point.slack  # f + Δf, except for the term of Δs
        target = aim * inverse - curved
        target_weights = 2.0 * target[:n_rows, n_rows:].ravel()
        target_weights = target_weights + frame.priorities.T @ (aimed - point.flow / point.slack * missed)
        right = np.concatenate([[np.trace(target) - 1.0], frame.free.T @ target_weights])
        answer = cho_solve(factor, right, check_finite=False)
        for _ in range(SPECTRAL_REFINEMENTS):
            answer = answer + cho_solve(factor, right - matrix @ answer, check_finite=False)
        moved = (frame.free @ answer[1:]).reshape(shape)
        upper, lower = (float(answer[0]) * np.eye(size) for size in shape)
        primal = np.block([[upper, moved], [moved.T, lower]])
        slack = frame.priorities @ moved.ravel() + missed
        flow = aimed - point.flow - point.flow / point.slack * slack
        dual = target - point.dual - symmetric(point.dual @ primal @ inverse)
        return Point(primal, slack, dual, flow)


class ConstraintFrame(NamedTuple):
    """The constraints as rows, and the subspace in which all ties are met."""

    priorities: Float64  # u_c v_cᵀ of every priority, (n_priorities, n_rows · n_columns)
    fixed: Float64  # an orthonormal basis of the subspace fixed by ties, (n_rows · n_columns, n_ties)
    triangle: Float64  # the ties in that basis, (n_ties, n_ties)
    free: Float64  # an orthonormal basis of its complement, (n_rows · n_columns, n_free)

    def pull(self, cross: Float64, flow: Float64) -> Float64:
        """Multipliers of the ties for which D is nearest to −2 X₁₂, shape (n_ties,)."""
        target = -2.0 * cross.ravel() - self.priorities.T @ flow
        return np.asarray(solve_triangular(self.triangle, self.fixed.T @ target))


def _frame(problem: FactoredProblem) -> ConstraintFrame:
    rows = (problem.left[:, :, None] * problem.right[:, None, :]).reshape(len(problem.above), -1)
    priorities, ties = rows[: problem.n_priorities], rows[problem.n_priorities :]
    if not len(ties):
        size = rows.shape[1]
        return ConstraintFrame(priorities, np.zeros((size, 0)), np.zeros((0, 0)), np.eye(size))
    basis, triangle = (np.asarray(factor, np.float64) for factor in qr(ties.T))
    return ConstraintFrame(priorities, basis[:, : len(ties)], triangle[: len(ties)], basis[:, len(ties) :])


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
