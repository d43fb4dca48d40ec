"""The interior-point solver: the Graph-SVM of least nuclear norm, for factored weights.

‖W‖_* is the least ½ tr P over symmetric P = [[·, W], [Wᵀ, ·]] ⪰ 0, and the multipliers α obey ‖D‖_op ≤ 1,
that is Z = [[I, −D], [−Dᵀ, I]] ⪰ 0 with D = Σ_c α_c u_c v_cᵀ. At the optimum PZ = 0, and each priority's
slack s_c or multiplier f_c is zero. Newton's method follows the path PZ = μI, s_c f_c = μ as μ falls to 0
(:mod:`attomaton.solvers.hard.factored.path`). Each step solves a symmetric system in α. As all constraints
have rank one, its matrix H takes a few products of the size of W: with Y = Z⁻¹, and s_c / f_c added on the
diagonal,

    2 H_cd =   u_cᵀP₁₁u_d · v_cᵀY₂₂v_d + u_cᵀWv_d · u_dᵀY₁₂v_c
             + u_cᵀY₁₁u_d · v_cᵀP₂₂v_d + u_cᵀY₁₂v_d · u_dᵀWv_c.

About 20 steps are enough, whatever the size.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from attomaton.base.kernels import compiled
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.hard.factored.path import RAISED, Point, first_scale, follow_path, symmetric
from attomaton.solvers.hard.factored.problem import FactoredProblem

REFINEMENTS = 3
"""How often each system is solved for what is left."""


@dataclass(frozen=True)
class InteriorPoint:
    """Solve until the relative gap is ``rtol``, in at most ``max_steps`` steps.

    Time grows with the cube of the number of constraints (priorities and ties), memory with the square.

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
    >>> weights, multipliers = InteriorPoint().solve_factored(problem)
    >>> problem.differences(weights).round(4).tolist(), multipliers.round(4).tolist()
    ([1.0, 1.0], [0.2887, 0.2887])
    """

    rtol: float = 1e-7
    max_steps: int = 60

    def solve_factored(self, problem: FactoredProblem) -> tuple[Float64, Float64]:
        """Weights, shape (n_rows, n_columns), and multipliers, shape (n_constraints,); the best met."""
        method = NuclearMethod(problem)
        return follow_path(problem, method, norm="nuclear", rtol=self.rtol, max_steps=self.max_steps)


@dataclass(frozen=True)
class NuclearMethod:
    """The nuclear norm of a problem: P is ``primal``, Z is ``dual``, and a point has all multipliers."""

    problem: FactoredProblem

    def start(self) -> Point:
        """Multiples of the identity, well inside; W = 0 meets no priority yet."""
        problem, scale = self.problem, first_scale(self.problem)
        size = problem.tokens.shape[1] + problem.queries.shape[1]
        multipliers = np.zeros(len(problem.above))
        multipliers[: problem.n_priorities] = 1.0
        multipliers /= 2 * max(float(np.linalg.norm(problem.press(multipliers), 2)), 1e-6)
        dual = np.eye(size) + _dual_step(problem, multipliers)
        return Point(scale * np.eye(size), np.full(problem.n_priorities, scale), dual, multipliers)

    def press(self, point: Point) -> Float64:
        """The multipliers as they are."""
        return point.multipliers

    def linearise(self, point: Point) -> "NuclearEquations":
        """Newton's equations, with H factored."""
        problem, n_priorities = self.problem, self.problem.n_priorities
        n_rows = problem.tokens.shape[1]
        inverse = symmetric(np.asarray(np.linalg.inv(point.dual), np.float64))
        missed = -problem.differences(point.primal[:n_rows, n_rows:])
        missed[:n_priorities] += 1.0 + point.slack
        primal, dual = _see(problem, point.primal), _see(problem, inverse)
        token = problem.nodes.token
        matrix = _assemble(primal, dual, (token[problem.above], token[problem.below]), problem.asked)
        diagonal = np.einsum("ii->i", matrix)
        diagonal[:n_priorities] += point.slack / point.flow
        diagonal *= 1 + RAISED
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return NuclearEquations(problem, point, inverse, factor, missed)


class NuclearEquations(NamedTuple):
    """Newton's equations at a point."""

    problem: FactoredProblem
    point: Point
    inverse: Float64  # Y = Z⁻¹
    factor: tuple[Float64, bool]  # of H
    missed: Float64  # (n_constraints,): by how much W and s miss the constraints

    def curve(self, guess: Point) -> Float64:
        """ΔP ΔZ Y, made symmetric."""
        return symmetric(guess.primal @ guess.dual @ self.inverse)

    def solve(self, aim: float, curved: Float64, product: Float64) -> Point:
        """The step to PZ = ``aim``·I and s f = ``aim``, less second-order terms.

        What rounding leaves of the constraints in the step itself, not in H, is solved for again.
        """
        problem, point, inverse, factor, missed = self
        n_rows, n_priorities = problem.tokens.shape[1], problem.n_priorities
        base = aim * inverse - point.primal - curved
        base_slack = (aim - product) / point.flow - point.slack
        multipliers = np.zeros(len(missed))
        primal, slack, dual = base, base_slack, np.zeros_like(base)
        for _ in range(REFINEMENTS):
            left = missed - problem.differences(primal[:n_rows, n_rows:])
            left[:n_priorities] += slack
            multipliers = multipliers + cho_solve(factor, left, check_finite=False)
            dual = _dual_step(problem, multipliers)
            primal = base - symmetric(point.primal @ dual @ inverse)
            slack = base_slack - point.slack / point.flow * multipliers[:n_priorities]
        return Point(primal, slack, dual, multipliers)


def _dual_step(problem: FactoredProblem, multipliers: Float64) -> Float64:
    """[[0, −D], [−Dᵀ, 0]]."""
    pressed = problem.press(multipliers)
    n_rows, n_columns = pressed.shape
    return np.block([[np.zeros((n_rows, n_rows)), -pressed], [-pressed.T, np.zeros((n_columns, n_columns))]])


class Seen(NamedTuple):
    """A matrix [[A, B], [Bᵀ, C]] as the constraints see it."""

    tokens: Float64  # (n_constraints, n_tokens): u_cᵀ A e_i
    cross: Float64  # (n_constraints, n_queries): u_cᵀ B f_k
    queries: Float64  # (n_queries, n_queries): f_kᵀ C f_l


def _see(problem: FactoredProblem, matrix: Float64) -> Seen:
    """P or Y between the constraints on one side and tokens and queries on the other."""
    n_rows = problem.tokens.shape[1]
    tokens = problem.left @ matrix[:n_rows, :n_rows] @ problem.tokens.T
    cross = problem.left @ matrix[:n_rows, n_rows:] @ problem.queries.T
    return Seen(tokens, cross, problem.queries @ matrix[n_rows:, n_rows:] @ problem.queries.T)


def _pair_work(_: Seen, __: Seen, ___: tuple[Int64, Int64], asked: Int64) -> float:
    """Every pair of constraints, one half of the matrix, with ten entries each."""
    return 5.0 * len(asked) ** 2


@compiled(work=_pair_work)
def _assemble(primal: Seen, dual: Seen, nodes: tuple[Int64, Int64], asked: Int64) -> Float64:
    """The lower half of H, shape (n_constraints, n_constraints)."""
    above, below = nodes
    matrix = np.zeros((len(asked), len(asked)))
    for one in range(len(asked)):
        query = asked[one]
        for other in range(one + 1):
            i, j, k = above[other], below[other], asked[other]
            value = (primal.tokens[one, i] - primal.tokens[one, j]) * dual.queries[query, k]
            value += (dual.tokens[one, i] - dual.tokens[one, j]) * primal.queries[query, k]
            value += primal.cross[one, k] * dual.cross[other, query]
            value += dual.cross[one, k] * primal.cross[other, query]
            matrix[one, other] = 0.5 * value
    return matrix
