"""The interior-point solver: the Graph-SVM of least spectral norm.

The mirror image of :mod:`attomaton.solvers.hard.factored.interior`. ‖W‖_op is the least t with
S = [[tI, W], [Wᵀ, tI]] ⪰ 0, and the multipliers α obey ‖D‖_* ≤ 1 with D = Σ_c α_c u_c v_cᵀ: there is X ⪰ 0
of trace 1 with −2 X₁₂ = D. At the optimum XS = 0, and each priority's slack s_c or multiplier f_c is zero.
Newton's method follows XS = μI, s_c f_c = μ as μ falls to 0 (:mod:`attomaton.solvers.hard.factored.path`).
Each step solves a symmetric system in (t, W): with Y = S⁻¹, its entries for two entries of W are

    X₂₁[b,c] Y₂₁[d,a] + X₂₂[b,d] Y₁₁[c,a] + X₁₁[a,c] Y₂₂[d,b] + X₁₂[a,d] Y₁₂[c,b]   at (a,b), (c,d),

plus Σ_c (f_c/s_c) u_c v_cᵀ ⊗ u_c v_cᵀ. W moves where no tie is broken. About 15 steps are enough;
time grows with the sixth power of the number of tokens, memory with the fourth.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, qr, solve_triangular

from attomaton.base.tables import Float64
from attomaton.solvers.hard.factored.path import RAISED, Point, first_scale, follow_path, symmetric
from attomaton.solvers.hard.factored.problem import FactoredProblem

REFINEMENTS = 2
"""How often each system is solved for what is left."""


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
        method = SpectralMethod(problem)
        return follow_path(problem, method, norm="spectral", rtol=self.rtol, max_steps=self.max_steps)


@dataclass(frozen=True)
class SpectralMethod:
    """The spectral norm of a problem: S is ``primal``, X is ``dual``, and ties are never broken."""

    problem: FactoredProblem

    @cached_property
    def frame(self) -> "ConstraintFrame":
        """The constraints, and the space in which W moves."""
        return _frame(self.problem)

    def start(self) -> Point:
        """W = 0, which meets no priority yet, well inside all borders."""
        size = self.problem.tokens.shape[1] + self.problem.queries.shape[1]
        scale, n_priorities = first_scale(self.problem), self.problem.n_priorities
        slack, flow = np.full(n_priorities, scale), np.full(n_priorities, 1.0 / size)
        return Point(scale * np.eye(size), slack, np.eye(size) / size, flow)

    def press(self, point: Point) -> Float64:
        """Those of the priorities, and those of the ties that fit them best."""
        n_rows = self.problem.tokens.shape[1]
        return np.concatenate([point.flow, self.frame.pull(point.dual[:n_rows, n_rows:], point.flow)])

    def linearise(self, point: Point) -> "SpectralEquations":
        """Newton's equations, with the matrix factored."""
        frame, shape = self.frame, (self.problem.tokens.shape[1], self.problem.queries.shape[1])
        inverse = symmetric(np.asarray(np.linalg.inv(point.primal), np.float64))
        matrix = _curvature(point.dual, inverse, shape)
        matrix[1:, 1:] += frame.asked.T @ ((point.flow / point.slack)[:, None] * frame.asked)
        if frame.held.size:
            across = matrix[:, 1:] @ frame.free
            inner = frame.free.T @ across[1:]
            matrix = np.block([[matrix[:1, :1], across[:1]], [across[:1].T, (inner + inner.T) / 2]])
        raised = matrix.copy()
        np.einsum("ii->i", raised)[:] *= 1 + RAISED
        factor = cho_factor(raised, lower=True, overwrite_a=True, check_finite=False)
        return SpectralEquations(frame, shape, point, inverse, matrix, factor)


class SpectralEquations(NamedTuple):
    """Newton's equations at a point."""

    frame: "ConstraintFrame"
    shape: tuple[int, int]  # of W
    point: Point
    inverse: Float64  # Y = S⁻¹
    matrix: Float64  # of the equations in t and W's free coordinates
    factor: tuple[Float64, bool]

    def curve(self, guess: Point) -> Float64:
        """ΔX ΔS Y, made symmetric."""
        return symmetric(guess.dual @ guess.primal @ self.inverse)

    def solve(self, aim: float, curved: Float64, product: Float64) -> Point:
        """The step to XS = ``aim``·I and s f = ``aim``, less second-order terms."""
        frame, shape, point, inverse, matrix, factor = self
        n_rows = shape[0]
        missed = frame.asked @ point.primal[:n_rows, n_rows:].ravel() - 1.0 - point.slack
        aimed = (aim - product) / point.slack  # f + Δf, but for what Δs takes off
        target = aim * inverse - curved
        wanted = 2.0 * target[:n_rows, n_rows:].ravel()
        wanted = wanted + frame.asked.T @ (aimed - point.flow / point.slack * missed)
        right = np.concatenate([[np.trace(target) - 1.0], frame.free.T @ wanted])
        found = cho_solve(factor, right, check_finite=False)
        for _ in range(REFINEMENTS):
            found = found + cho_solve(factor, right - matrix @ found, check_finite=False)
        moved = (frame.free @ found[1:]).reshape(shape)
        primal = _pencil(float(found[0]), moved)
        slack = frame.asked @ moved.ravel() + missed
        flow = aimed - point.flow - point.flow / point.slack * slack
        dual = target - point.dual - symmetric(point.dual @ primal @ inverse)
        return Point(primal, slack, dual, flow)


def _pencil(bound: float, weights: Float64) -> Float64:
    """S = [[tI, W], [Wᵀ, tI]]."""
    one, other = (bound * np.eye(size) for size in weights.shape)
    return np.block([[one, weights], [weights.T, other]])


class ConstraintFrame(NamedTuple):
    """The constraints as rows, and the space in which no tie is broken."""

    asked: Float64  # u_c v_cᵀ of every priority, (n_priorities, n_rows · n_columns)
    held: Float64  # an orthonormal basis of what ties fix, (n_rows · n_columns, n_ties)
    triangle: Float64  # the ties in that basis, (n_ties, n_ties)
    free: Float64  # an orthonormal basis of the rest, (n_rows · n_columns, n_free)

    def pull(self, cross: Float64, flow: Float64) -> Float64:
        """Multipliers of the ties that bring D nearest to −2 X₁₂, shape (n_ties,)."""
        left = -2.0 * cross.ravel() - self.asked.T @ flow
        return np.asarray(solve_triangular(self.triangle, self.held.T @ left))


def _frame(problem: FactoredProblem) -> ConstraintFrame:
    rows = (problem.left[:, :, None] * problem.right[:, None, :]).reshape(len(problem.above), -1)
    asked, ties = rows[: problem.n_priorities], rows[problem.n_priorities :]
    if not len(ties):
        size = rows.shape[1]
        return ConstraintFrame(asked, np.zeros((size, 0)), np.zeros((0, 0)), np.eye(size))
    basis, triangle = (np.asarray(part, np.float64) for part in qr(ties.T))
    return ConstraintFrame(asked, basis[:, : len(ties)], triangle[: len(ties)], basis[:, len(ties) :])


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
