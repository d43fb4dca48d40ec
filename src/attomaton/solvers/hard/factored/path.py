"""The interior-point method, for any norm whose least value is a semidefinite program.

A norm gives Newton's equations at a point (:class:`Equations`); the path is followed here. The products of a
primal and a dual matrix, and of each priority's slack s_c and multiplier f_c, are μI and μ on the path, and
μ falls to 0: a first step predicts how far μ may fall at once, a second aims there (Mehrotra; the direction
is that of Helmberg, Kojima and Monteiro).
"""

from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import eigh

from attomaton.base.tables import Float64
from attomaton.solvers.hard.factored.certify import Norm, lower_bound, relative_gap, upper_bound
from attomaton.solvers.hard.factored.problem import FactoredProblem

SHORT = 0.95
"""How much of the way to the border is gone."""

RAISED = 1e-14
"""By how much the diagonal of a system is raised, as it becomes singular at the optimum."""

HOPELESS = 1e14
"""A lower bound that no answer in floats can reach: the constraints contradict each other."""


class Point(NamedTuple):
    """An interior point; or, from one to the next, a step."""

    primal: Float64  # [[·, W], [Wᵀ, ·]], (n_rows + n_columns) squared
    slack: Float64  # s, (n_priorities,)
    dual: Float64  # what the product with ``primal`` vanishes for, of its size
    multipliers: Float64  # those of the priorities first; further ones as a norm needs them

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

    def reach(self, step: "Point") -> tuple[float, float]:
        """How many times the primal and the dual part of a step fit before the border."""
        primal = min(reach_matrix(self.primal, step.primal), reach_vector(self.slack, step.slack))
        return primal, min(reach_matrix(self.dual, step.dual), reach_vector(self.flow, step.flow))


class Equations(Protocol):
    """Newton's equations at a point."""

    def solve(self, aim: float, curved: Float64, product: Float64) -> Point:
        """The step to products of ``aim``, less the second-order terms of matrices and of vectors."""
        ...

    def curve(self, guess: Point) -> Float64:
        """The second-order term of the product of the two matrices."""
        ...


class Method(Protocol):
    """What differs between norms."""

    def start(self) -> Point:
        """A point well inside all borders."""
        ...

    def press(self, point: Point) -> Float64:
        """Multipliers of all constraints, shape (n_constraints,)."""
        ...

    def linearise(self, point: Point) -> Equations:
        """Newton's equations; ``LinAlgError`` where rounding has made them indefinite."""
        ...


def follow_path(
    problem: FactoredProblem, method: Method, *, norm: Norm, rtol: float, max_steps: int
) -> tuple[Float64, Float64]:
    """Weights, shape (n_rows, n_columns), and multipliers, shape (n_constraints,); the best met."""
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
                point = _advance(point, method.linearise(point))
            except (np.linalg.LinAlgError, ValueError):  # rounding allows no further step
                break
    return weights, multipliers


def _advance(point: Point, equations: Equations) -> Point:
    """One step: predict how far μ may fall, then aim there with what the prediction left out."""
    guess = equations.solve(0.0, np.zeros_like(point.primal), np.zeros(len(point.slack)))
    primal, dual = point.reach(guess)
    before, after = point.distance(), point.move(guess, min(1.0, primal), min(1.0, dual)).distance()
    aim = before * min(max((after / before) ** 3, 1e-6), 1.0)
    step = equations.solve(aim, equations.curve(guess), guess.slack * guess.flow)
    primal, dual = point.reach(step)
    return point.move(step, min(1.0, SHORT * primal), min(1.0, SHORT * dual))


def first_scale(problem: FactoredProblem) -> float:
    """The size of a first point that is well inside."""
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
    """The symmetric part of a matrix."""
    return (matrix + matrix.T) / 2
