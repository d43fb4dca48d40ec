"""The interior-point solver: the Graph-SVM of least nuclear norm, for factored weights.

‖W‖_* is the least ½ tr P over symmetric P = [[·, W], [Wᵀ, ·]] ⪰ 0, and the multipliers α obey ‖D‖_op ≤ 1,
that is Z = [[I, −D], [−Dᵀ, I]] ⪰ 0 with D = Σ_c α_c u_c v_cᵀ. At the optimum PZ = 0, and each priority's
slack s_c or multiplier f_c is zero. Newton's method follows the path PZ = μI, s_c f_c = μ as μ falls to 0: a
first step predicts how far μ may fall at once, a second aims there (Mehrotra; the direction is that of
Helmberg, Kojima and Monteiro). Each solves a symmetric system in α. As all constraints have rank one, its
matrix H takes a few products of the size of W: with Y = Z⁻¹, and s_c / f_c added on the diagonal,

    2 H_cd =   u_cᵀP₁₁u_d · v_cᵀY₂₂v_d + u_cᵀWv_d · u_dᵀY₁₂v_c
             + u_cᵀY₁₁u_d · v_cᵀP₂₂v_d + u_cᵀY₁₂v_d · u_dᵀWv_c.

About 20 steps are enough, whatever the size.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from attomaton.base.kernels import compiled
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.hard.factored.certify import lower_bound, relative_gap, upper_bound
from attomaton.solvers.hard.factored.problem import FactoredProblem

SHORT, REFINEMENTS = 0.95, 3
"""How much of the way to the border is gone, and how often each system is solved for what is left."""

RAISED = 1e-14
"""By how much H's diagonal is raised, as it becomes singular where tight priorities are dependent."""

HOPELESS = 1e14
"""A lower bound on ‖W‖_* that no answer in floats can reach: the constraints contradict each other."""


class Point(NamedTuple):
    """An interior point; or, from one to the next, a step."""

    primal: Float64  # P, (n_rows + n_columns) squared
    slack: Float64  # s, (n_priorities,)
    dual: Float64  # Z, of the size of P
    multipliers: Float64  # α, (n_constraints,): those of the priorities first, then of ties

    @property
    def flow(self) -> Float64:
        """f, the multipliers of the priorities."""
        return self.multipliers[: len(self.slack)]

    def move(self, step: "Point", primal: float, dual: float) -> "Point":
        """The point after the two parts of a step."""
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


class System(NamedTuple):
    """Newton's equations at a point."""

    problem: FactoredProblem
    point: Point
    inverse: Float64  # Y = Z⁻¹
    factor: tuple[Float64, bool]  # of H
    missed: Float64  # (n_constraints,): by how much W and s miss the constraints


class Seen(NamedTuple):
    """A matrix [[A, B], [Bᵀ, C]] as the constraints see it."""

    tokens: Float64  # (n_constraints, n_tokens): u_cᵀ A e_i
    cross: Float64  # (n_constraints, n_queries): u_cᵀ B f_k
    queries: Float64  # (n_queries, n_queries): f_kᵀ C f_l


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
        n_rows = problem.tokens.shape[1]
        weights, upper = np.zeros((n_rows, problem.queries.shape[1])), np.inf
        multipliers, lower = np.zeros(len(problem.above)), 0.0
        if not problem.n_priorities:
            return weights, multipliers
        with np.errstate(all="ignore"):
            point = _start(problem)
            for _ in range(self.max_steps):
                try:
                    reached = upper_bound(problem, point.primal[:n_rows, n_rows:])
                    if reached < upper:
                        weights, upper = point.primal[:n_rows, n_rows:], reached
                    proved = lower_bound(problem, point.multipliers)
                    if proved > lower:
                        multipliers, lower = point.multipliers, proved
                    if relative_gap(lower, upper) <= self.rtol or lower > HOPELESS:
                        break
                    point = _advance(problem, point)
                except np.linalg.LinAlgError:  # rounding allows no further step
                    break
        return weights, multipliers


def _start(problem: FactoredProblem) -> Point:
    """Multiples of the identity, well inside; W = 0 meets no priority yet."""
    size = problem.tokens.shape[1] + problem.queries.shape[1]
    norms = np.linalg.norm(problem.left, axis=1) * np.linalg.norm(problem.right, axis=1)
    scale = 10.0 / min(1.0, max(float(norms[: problem.n_priorities].min()), 1e-6))
    multipliers = np.zeros(len(problem.above))
    multipliers[: problem.n_priorities] = 1.0
    multipliers /= 2 * max(float(np.linalg.norm(problem.press(multipliers), 2)), 1e-6)
    dual = np.eye(size) + _dual_step(problem, multipliers)
    return Point(scale * np.eye(size), np.full(problem.n_priorities, scale), dual, multipliers)


def _dual_step(problem: FactoredProblem, multipliers: Float64) -> Float64:
    """[[0, −D], [−Dᵀ, 0]]."""
    pressed = problem.press(multipliers)
    n_rows, n_columns = pressed.shape
    return np.block([[np.zeros((n_rows, n_rows)), -pressed], [-pressed.T, np.zeros((n_columns, n_columns))]])


def _advance(problem: FactoredProblem, point: Point) -> Point:
    """One step: predict how far μ may fall, then aim there with what the prediction left out."""
    system, size = _linearise(problem, point), len(point.primal)
    guess = _solve(system, 0.0, np.zeros((size, size)), np.zeros(problem.n_priorities))
    primal, dual = _reach(point, guess)
    before, after = point.distance(), point.move(guess, min(1.0, primal), min(1.0, dual)).distance()
    aim = before * min(max((after / before) ** 3, 1e-6), 1.0)
    curved = symmetric(guess.primal @ guess.dual @ system.inverse)
    step = _solve(system, aim, curved, guess.slack * guess.flow)
    primal, dual = _reach(point, step)
    return point.move(step, min(1.0, SHORT * primal), min(1.0, SHORT * dual))


def _linearise(problem: FactoredProblem, point: Point) -> System:
    """Newton's equations, with the matrix factored; ``LinAlgError`` where rounding has made it indefinite."""
    n_rows, n_priorities = problem.tokens.shape[1], problem.n_priorities
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
    return System(problem, point, inverse, factor, missed)


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


def _solve(system: System, aim: float, curved: Float64, product: Float64) -> Point:
    """The step to PZ = ``aim``·I and s f = ``aim``, less second-order terms.

    What rounding leaves of the constraints in the step itself, not in H, is solved for again.
    """
    problem, point, inverse, factor, missed = system
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


def _reach(point: Point, step: Point) -> tuple[float, float]:
    """How many times the primal and the dual part of a step fit before the border."""
    primal = min(reach_matrix(point.primal, step.primal), reach_vector(point.slack, step.slack))
    return primal, min(reach_matrix(point.dual, step.dual), reach_vector(point.flow, step.flow))


def reach_matrix(matrix: Float64, step: Float64) -> float:
    """The largest t with matrix + t·step ⪰ 0."""
    lowest = float(eigh(step, matrix, eigvals_only=True, check_finite=False)[0])
    return -1.0 / lowest if lowest < 0 else np.inf


def reach_vector(vector: Float64, step: Float64) -> float:
    """The largest t with vector + t·step ≥ 0."""
    return float(np.min(-vector[step < 0] / step[step < 0], initial=np.inf))


def symmetric(matrix: Float64) -> Float64:
    """The symmetric part of a matrix."""
    return (matrix + matrix.T) / 2
