"""Solve the Graph-SVM in the nuclear and the spectral norm as semidefinite programs.

The solvers are `InteriorPoint` (nuclear) and `SpectralInterior`. Both call `follow_path` with a method, which
gives the first point and Newton's equations at later points (`NuclearMethod`, `SpectralMethod`).

On the central path the product of primal and dual matrix is μI, and s_c f_c = μ for the slack s_c and the
multiplier f_c of each priority; μ decreases to 0. A predictor step finds how far μ can decrease, a corrector
step aims there (Mehrotra; with the HKM direction of Helmberg, Kojima and Monteiro). About 20 steps suffice.
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

# Fraction of the distance to the boundary that a step takes, so that points stay inside.
STEP_FRACTION = 0.95


# Least length ‖u_c v_cᵀ‖, and least norm of D, by which a first point is scaled.
LEAST_LENGTH = 1e-6

# Regularisation of a system's diagonal, since it becomes singular at the optimum.
DIAGONAL_RAISE = 1e-14

# A lower bound that no float64 answer can reach: the constraints contradict each other.
HOPELESS = 1e14

# Iterative refinements of the solution of Newton's equations, which are nearly singular at the optimum.
NUCLEAR_REFINEMENTS = 3
SPECTRAL_REFINEMENTS = 2


class Point(NamedTuple):
    """An interior point, or a step from one point to the next."""

    primal: Float64  # [[·, W], [Wᵀ, ·]], shape (n_rows + n_columns, n_rows + n_columns)
    slack: Float64  # s, (n_priorities,): margin minus 1
    dual: Float64  # shape of ``primal``; the product of both vanishes at the optimum
    multipliers: Float64  # f of the priorities; in the nuclear norm, those of the ties follow

    @property
    def flow(self) -> Float64:
        """The multipliers f of the priorities, shape (n_priorities,)."""
        return self.multipliers[: len(self.slack)]

    def move(self, step: "Point", primal_length: float, dual_length: float) -> "Point":
        """The point after ``step``; primal and dual variables move by different multiples of it."""
        return Point(
            self.primal + primal_length * step.primal,
            self.slack + primal_length * step.slack,
            self.dual + dual_length * step.dual,
            self.multipliers + dual_length * step.multipliers,
        )

    def duality_measure(self) -> float:
        """μ: the mean of the products that vanish at the optimum."""
        products = float(np.vdot(self.primal, self.dual)) + float(self.slack @ self.flow)
        return products / (len(self.primal) + len(self.slack))

    def longest_move(self, step: "Point") -> tuple[float, float]:
        """The largest multiples of ``step`` after which primal and dual variables are feasible."""
        primal = min(longest_in_cone(self.primal, step.primal), longest_positive(self.slack, step.slack))
        dual = min(longest_in_cone(self.dual, step.dual), longest_positive(self.flow, step.flow))
        return primal, dual


def follow_path(
    problem: FactoredProblem,
    method: "NuclearMethod | SpectralMethod",
    *,
    norm: WeightNorm,
    rtol: float,
    max_steps: int,
) -> tuple[Float64, Float64]:
    """Follow the central path; return the best weights, and the multipliers with the best lower bound."""
    # The two may come from different points. There is one multiplier per constraint: priorities, then ties.
    n_rows = problem.tokens.shape[1]
    best_weights, upper = np.zeros((n_rows, problem.queries.shape[1])), np.inf
    best_multipliers, lower = np.zeros(len(problem.above)), 0.0
    if not problem.n_priorities:
        return best_weights, best_multipliers
    with np.errstate(all="ignore"):  # a point that overflows proves nothing and is not kept
        point = method.start()
        for _ in range(max_steps):
            try:
                weights = point.primal[:n_rows, n_rows:]
                norm_of_weights = upper_bound(problem, weights, norm)
                if norm_of_weights < upper:
                    best_weights, upper = weights, norm_of_weights
                multipliers = method.all_multipliers(point)
                proved = lower_bound(problem, multipliers, norm)
                if proved > lower:
                    best_multipliers, lower = multipliers, proved
                if relative_gap(lower, upper) <= rtol or lower > HOPELESS:
                    break
                point = _step_along_path(point, method.linearise(point))
            except (np.linalg.LinAlgError, ValueError):  # rounding allows no further step
                break
    return best_weights, best_multipliers


# One step: predict how far μ can decrease, then aim there with second-order terms.
def _step_along_path(point: Point, equations: "NuclearEquations | SpectralEquations") -> Point:
    predictor = equations.solve(0.0, np.zeros_like(point.primal), np.zeros(len(point.slack)))
    primal, dual = point.longest_move(predictor)
    mu = point.duality_measure()
    predicted = point.move(predictor, min(1.0, primal), min(1.0, dual)).duality_measure()
    # Mehrotra's exponent is 3; a longer way in one step than a factor of 1e-6 has no use.
    aim = mu * min(max((predicted / mu) ** 3, 1e-6), 1.0)
    corrector = equations.solve(aim, equations.second_order(predictor), predictor.slack * predictor.flow)
    primal, dual = point.longest_move(corrector)
    return point.move(corrector, min(1.0, STEP_FRACTION * primal), min(1.0, STEP_FRACTION * dual))


def first_scale(problem: FactoredProblem) -> float:
    """The multiple of I at which the primal matrix starts; it is large if some ‖u_c v_cᵀ‖ is small."""
    norms = np.linalg.norm(problem.left, axis=1) * np.linalg.norm(problem.right, axis=1)
    # The factor of 10 puts the first point far enough inside the cone.
    return 10.0 / min(1.0, max(float(norms[: problem.n_priorities].min()), LEAST_LENGTH))


def longest_in_cone(matrix: Float64, step: Float64) -> float:
    """The largest t with matrix + t·step ⪰ 0, from the lowest eigenvalue of step relative to matrix."""
    lowest = float(eigh(step, matrix, eigvals_only=True, check_finite=False)[0])
    return -1.0 / lowest if lowest < 0 else np.inf


def longest_positive(vector: Float64, step: Float64) -> float:
    """The largest t with vector + t·step ≥ 0."""
    return float(np.min(-vector[step < 0] / step[step < 0], initial=np.inf))


def symmetric(matrix: Float64) -> Float64:
    return (matrix + matrix.T) / 2


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
        """A point with P = scale·I, and equal multipliers of the priorities for which ‖D‖_op is ½."""
        problem, scale = self.problem, first_scale(self.problem)
        size = problem.tokens.shape[1] + problem.queries.shape[1]
        multipliers = np.zeros(len(problem.above))
        multipliers[: problem.n_priorities] = 1.0
        multipliers /= 2 * max(float(np.linalg.norm(problem.dual_matrix(multipliers), 2)), LEAST_LENGTH)
        dual = np.eye(size) + _dual_step(problem, multipliers)
        return Point(scale * np.eye(size), np.full(problem.n_priorities, scale), dual, multipliers)

    def all_multipliers(self, point: Point) -> Float64:
        return point.multipliers

    def linearise(self, point: Point) -> "NuclearEquations":
        """Newton's equations at a point, with the Cholesky factor of H."""
        problem, n_priorities = self.problem, self.problem.n_priorities
        n_rows = problem.tokens.shape[1]
        inverse = symmetric(np.asarray(np.linalg.inv(point.dual), np.float64))
        # ⟨W, u_c v_cᵀ⟩ should be 1 + s_c for priorities and 0 for ties.
        residual = -problem.differences(point.primal[:n_rows, n_rows:])
        residual[:n_priorities] += 1.0 + point.slack
        primal_products = _multiply(problem, point.primal)
        inverse_products = _multiply(problem, inverse)
        token = problem.nodes.token
        ends = token[problem.above], token[problem.below]  # rows of ``tokens``: u_c = e_above − e_below
        matrix = assemble_equations(primal_products, inverse_products, ends, problem.query)  # H (native)
        diagonal = np.einsum("ii->i", matrix)  # a view: the next two lines change the matrix
        diagonal[:n_priorities] += point.slack / point.flow
        diagonal *= 1 + DIAGONAL_RAISE
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return NuclearEquations(problem, point, inverse, factor, residual)


class NuclearEquations(NamedTuple):
    """Newton's equations at a point of the nuclear-norm problem."""

    problem: FactoredProblem
    point: Point
    inverse: Float64  # Y = Z⁻¹
    factor: tuple[Float64, bool]  # of H, as SciPy's cho_factor returns it
    residual: Float64  # (n_constraints,): 1 + s_c − ⟨W, u_c v_cᵀ⟩ for priorities, −⟨W, u_c v_cᵀ⟩ for ties

    def second_order(self, predictor: Point) -> Float64:
        """The product ΔP ΔZ Z⁻¹ that the linear equations leave out, estimated from the predictor step."""
        return symmetric(predictor.primal @ predictor.dual @ self.inverse)

    def solve(self, aim: float, second_order: Float64, slack_product: Float64) -> Point:
        """The step to PZ = ``aim``·I and s f = ``aim``, less the terms ΔP ΔZ Z⁻¹ and Δs Δf."""
        # ΔP = base − sym(P ΔZ Y) and Δs = base_slack − (s/f) Δf are functions of Δα, which H gives.
        problem, point, inverse, factor, missed = self
        n_rows, n_priorities = problem.tokens.shape[1], problem.n_priorities
        base = aim * inverse - point.primal - second_order
        base_slack = (aim - slack_product) / point.flow - point.slack
        multipliers = np.zeros(len(missed))
        primal, slack, dual = base, base_slack, np.zeros_like(base)  # the steps for Δα = 0
        for _ in range(NUCLEAR_REFINEMENTS):
            residual = missed - problem.differences(primal[:n_rows, n_rows:])
            residual[:n_priorities] += slack
            multipliers = multipliers + cho_solve(factor, residual, check_finite=False)
            dual = _dual_step(problem, multipliers)
            primal = base - symmetric(point.primal @ dual @ inverse)
            slack = base_slack - point.slack / point.flow * multipliers[:n_priorities]
        return Point(primal, slack, dual, multipliers)


# [[0, −D], [−Dᵀ, 0]]: the change of Z by multipliers, shape (n_constraints,).
def _dual_step(problem: FactoredProblem, multipliers: Float64) -> Float64:
    dual = problem.dual_matrix(multipliers)
    n_rows, n_columns = dual.shape
    return np.block([[np.zeros((n_rows, n_rows)), -dual], [-dual.T, np.zeros((n_columns, n_columns))]])


class ConstraintProducts(NamedTuple):
    """A matrix [[A, B], [Bᵀ, C]] multiplied by constraints and embeddings, from which H is assembled."""

    tokens: Float64  # (n_constraints, n_tokens): u_cᵀ A e_i, with e_i the embedding of token i
    cross: Float64  # (n_constraints, n_queries): u_cᵀ B f_k, with f_k the embedding of query k
    queries: Float64  # (n_queries, n_queries): f_kᵀ C f_l


def _multiply(problem: FactoredProblem, matrix: Float64) -> ConstraintProducts:
    n_rows = problem.tokens.shape[1]
    tokens = problem.left @ matrix[:n_rows, :n_rows] @ problem.tokens.T
    cross = problem.left @ matrix[:n_rows, n_rows:] @ problem.queries.T
    queries = problem.queries @ matrix[n_rows:, n_rows:] @ problem.queries.T
    return ConstraintProducts(tokens, cross, queries)


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
        """A point with S = scale·I and X = I/size, which has trace 1."""
        size = self.problem.tokens.shape[1] + self.problem.queries.shape[1]
        scale, n_priorities = first_scale(self.problem), self.problem.n_priorities
        slack, flow = np.full(n_priorities, scale), np.full(n_priorities, 1.0 / size)
        return Point(scale * np.eye(size), slack, np.eye(size) / size, flow)

    def all_multipliers(self, point: Point) -> Float64:
        """Multipliers of all constraints; the equations eliminate the ties, so theirs come from X."""
        n_rows = self.problem.tokens.shape[1]
        ties = self.frame.tie_multipliers(point.dual[:n_rows, n_rows:], point.flow)
        return np.concatenate([point.flow, ties])

    def linearise(self, point: Point) -> "SpectralEquations":
        """Newton's equations at a point, in t and the coordinates of W that the ties leave free."""
        frame, shape = self.frame, (self.problem.tokens.shape[1], self.problem.queries.shape[1])
        inverse = symmetric(np.asarray(np.linalg.inv(point.primal), np.float64))
        matrix = _trace_products(point.dual, inverse, shape)
        matrix[1:, 1:] += frame.priorities.T @ ((point.flow / point.slack)[:, None] * frame.priorities)
        if frame.fixed.size:  # row and column 0 belong to t; the others are projected on the free subspace
            columns = matrix[:, 1:] @ frame.free
            inner = frame.free.T @ columns[1:]
            matrix = np.block([[matrix[:1, :1], columns[:1]], [columns[:1].T, (inner + inner.T) / 2]])
        raised = matrix.copy()  # refinement needs the matrix itself
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

    def second_order(self, predictor: Point) -> Float64:
        """The product ΔX ΔS S⁻¹ that the linear equations leave out, estimated from the predictor step."""
        return symmetric(predictor.dual @ predictor.primal @ self.inverse)

    def solve(self, aim: float, second_order: Float64, slack_product: Float64) -> Point:
        """The step to XS = ``aim``·I and s f = ``aim``, less the terms ΔX ΔS S⁻¹ and Δs Δf."""
        frame, shape, point, inverse, matrix, factor = self
        n_rows = shape[0]
        excess = frame.priorities @ point.primal[:n_rows, n_rows:].ravel() - 1.0 - point.slack
        ratio = point.flow / point.slack
        aimed_flow = (aim - slack_product) / point.slack  # f + Δf, except for the term of Δs
        target = aim * inverse - second_order  # X + ΔX, except for the term of ΔS
        target_weights = 2.0 * target[:n_rows, n_rows:].ravel()
        target_weights = target_weights + frame.priorities.T @ (aimed_flow - ratio * excess)
        # Solve for (Δt, coordinates of ΔW); the first equation keeps the trace of X at 1.
        right = np.concatenate([[np.trace(target) - 1.0], frame.free.T @ target_weights])
        answer = cho_solve(factor, right, check_finite=False)
        for _ in range(SPECTRAL_REFINEMENTS):
            answer = answer + cho_solve(factor, right - matrix @ answer, check_finite=False)
        weights = (frame.free @ answer[1:]).reshape(shape)
        upper, lower = (float(answer[0]) * np.eye(size) for size in shape)
        primal = np.block([[upper, weights], [weights.T, lower]])
        slack = frame.priorities @ weights.ravel() + excess
        flow = aimed_flow - point.flow - ratio * slack
        dual = target - point.dual - symmetric(point.dual @ primal @ inverse)
        return Point(primal, slack, dual, flow)


class ConstraintFrame(NamedTuple):
    """The constraints as rows, and the subspace in which all ties are met."""

    priorities: Float64  # u_c v_cᵀ of every priority, (n_priorities, n_rows · n_columns)
    fixed: Float64  # an orthonormal basis of the subspace fixed by ties, (n_rows · n_columns, n_ties)
    triangle: Float64  # the ties in that basis, (n_ties, n_ties)
    free: Float64  # an orthonormal basis of its complement, (n_rows · n_columns, n_free)

    def tie_multipliers(self, cross: Float64, flow: Float64) -> Float64:
        """Multipliers of the ties for which D is nearest to −2 X₁₂ (X₁₂ = ``cross``), shape (n_ties,)."""
        target = -2.0 * cross.ravel() - self.priorities.T @ flow
        return np.asarray(solve_triangular(self.triangle, self.fixed.T @ target))


# The frame of a problem; a QR decomposition of the ties separates the fixed from the free subspace.
def _frame(problem: FactoredProblem) -> ConstraintFrame:
    rows = (problem.left[:, :, None] * problem.right[:, None, :]).reshape(len(problem.above), -1)
    priorities, ties = rows[: problem.n_priorities], rows[problem.n_priorities :]
    if not len(ties):
        size = rows.shape[1]
        return ConstraintFrame(priorities, np.zeros((size, 0)), np.zeros((0, 0)), np.eye(size))
    basis, triangle = (np.asarray(factor, np.float64) for factor in qr(ties.T))
    return ConstraintFrame(priorities, basis[:, : len(ties)], triangle[: len(ties)], basis[:, len(ties) :])


# tr(A_i X A_j Y), shape (1 + n_w, 1 + n_w): A_0 = ∂S/∂t, then ∂S/∂W_ab for each entry of W.
def _trace_products(dual: Float64, inverse: Float64, shape: tuple[int, int]) -> Float64:
    n_rows, n_columns = shape
    x11, x12, x22 = dual[:n_rows, :n_rows], dual[:n_rows, n_rows:], dual[n_rows:, n_rows:]
    y11, y12, y22 = inverse[:n_rows, :n_rows], inverse[:n_rows, n_rows:], inverse[n_rows:, n_rows:]
    # The four terms of the class's formula at (a,b), (c,d); X and Y are symmetric, so X₂₁[b,c] = X₁₂[c,b].
    entries = np.einsum("cb,ad->abcd", x12, y12) + np.einsum("ad,cb->abcd", x12, y12)
    entries += np.einsum("bd,ac->abcd", x22, y11) + np.einsum("ac,bd->abcd", x11, y22)
    size, product = n_rows * n_columns, inverse @ dual
    matrix = np.empty((1 + size, 1 + size))
    matrix[1:, 1:] = entries.reshape(size, size)
    matrix[0, 0] = np.trace(product)
    matrix[0, 1:] = matrix[1:, 0] = (product[:n_rows, n_rows:] + product[n_rows:, :n_rows].T).ravel()
    return matrix
