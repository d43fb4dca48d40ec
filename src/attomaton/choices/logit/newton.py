"""Newton's method on a face of the choices, with a test that no estimate there is infinite.

Let u be the Newton step, H u = g for the information H and the gradient g, at any β where all probabilities
are positive. If (x_ij − x̄_i)·u > −1 for every alternative except the only chosen one of its situation, then
no pair (chosen c, other j) dies: λ_cj = n_ic p_ij (1 + (x_ij − x̄_i)·u) > 0 and Σ λ d = g − H u = 0 for the
differences d of the pairs, which is Farkas' proof. On separated data every Newton step lowers some
alternative by 1 or more; on other data the step vanishes and the test passes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.choices.logit.curvature import DenseCurvature, InformationMatrix, solve_information
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.untyped import linalg

# Below this probability a weight λ = n p (1 + …) proves nothing: gradient and information underflow.
LEAST_PROBABILITY = 1e-11

# The theorem needs less than 1. Saturated data have exactly 1, and the margin allows for rounding.
LARGEST_FALL = 0.5

LARGEST_RESIDUAL = 1e-11  # the largest entry of g − H u, in units of the standard deviation of the score

# The decrement below which, after a proof, steps use the information of an earlier point.
CHORD_DECREMENT = 1e-2


class ClimbPoint(NamedTuple):
    """A point β, with the probability of each row there."""

    beta: Float64
    utilities: Float64  # with offsets
    probability: Float64
    log_likelihood: float


class Iterate(NamedTuple):
    """A point, the step from there, and the numbers that decide what the step proves."""

    point: ClimbPoint
    curvature: InformationMatrix
    step: Float64  # u
    step_utilities: Float64  # X u, shape (n_rows,)
    decrement: float  # g·u, twice what the quadratic model still gains
    fall: float  # −min (x − x̄)·u
    least_probability: float
    residual: float

    @property
    def proves_survival(self) -> bool:
        """Whether the step proves that no pair of the face dies."""
        return (
            self.fall < LARGEST_FALL
            and self.least_probability >= LEAST_PROBABILITY
            and self.residual < LARGEST_RESIDUAL
        )


class Course(NamedTuple):
    """The last iterate of a climb, and the first whose step proves that no pair of the face dies."""

    last: Iterate
    proof: Iterate | None


@dataclass(frozen=True)
class NewtonClimb:
    """The settings of damped Newton steps, and their loop, :meth:`run`."""

    most_steps: int = 60
    patience: int | None = None  # stop after this number of steps without a proof; None: never
    reach: float = 8.0  # the largest change of a utility in one step while nothing is proved
    settled: float = 1e-15  # below this decrement the next step, whose error is quadratic in it, is the last
    until_proof: bool = False  # stop at the first proof
    chord: bool = True  # late steps may use the information of an earlier point
    basis: Float64 | None = None  # (n_parameters, rank): stay in the span of its columns

    def run(self, problem: ChoiceProblem, face: Bool | None, start: Float64) -> Course:
        """Climb from ``start`` on the alternatives of ``face`` (None: all)."""
        utilities = problem.with_offsets(problem.utilities(start))
        point = ClimbPoint(start, utilities, *problem.probabilities(utilities, face))
        here = self._look(problem, face, point, None)
        proof: Iterate | None = None
        decrement_before = np.inf
        for n_steps in range(self.most_steps + 1):
            proof = here if proof is None and here.proves_survival else proof
            # a chord step has no fall, and its error is not quadratic: it must be smaller
            if here.decrement <= (1e-6 * self.settled if here.fall == np.inf else self.settled):
                here = here._replace(point=point._replace(beta=point.beta + here.step))
                break
            # rounding is the floor; on the way to a far maximum each step leaves e⁻¹ of the decrement
            least_decrease = 0.25 if self.chord else 1.0
            is_floor = here.decrement < 1e-8 and here.decrement > least_decrease * decrement_before
            if is_floor or n_steps == self.most_steps:
                break
            if proof is None and self.patience is not None and n_steps >= self.patience:
                break
            if proof is not None and self.until_proof:
                break
            decrement_before = here.decrement
            point = self._advance(problem, face, here, damped=proof is None)
            if self.chord and proof is not None and decrement_before < CHORD_DECREMENT:
                here = self._look(problem, face, point, here.curvature)
                if here.decrement <= max(0.1 * decrement_before, 1e-16):
                    continue  # the earlier information is still good enough
            here = self._look(problem, face, point, None)
        return Course(here, proof)

    # Go along the step, half as far until the likelihood rises.
    def _advance(
        self, problem: ChoiceProblem, face: Bool | None, here: Iterate, *, damped: bool
    ) -> ClimbPoint:
        beta, utilities, _, value = here.point
        length = 1.0
        if damped and here.fall > 1:
            length = min(1.0, self.reach / max(float(np.abs(here.step_utilities).max(initial=0.0)), 1e-300))
        while True:
            ahead = utilities + length * here.step_utilities
            probability, reached = problem.probabilities(ahead, face)
            gain = 1e-4 * length * here.decrement - 1e-12 * abs(value)
            if reached >= value + gain or length < 1e-10:
                return ClimbPoint(beta + length * here.step, ahead, probability, reached)
            length /= 2

    # The step at a point, and what it proves: nothing if ``chord`` is the information of another.
    def _look(
        self, problem: ChoiceProblem, face: Bool | None, point: ClimbPoint, chord: InformationMatrix | None
    ) -> Iterate:
        gradient = problem.gradient(problem.residuals(point.probability))
        curvature = chord or _curve(problem, face, point)
        step = self._solve(problem, point, curvature, gradient)
        utilities = problem.utilities(step)
        spread = np.sqrt(np.maximum(curvature.diagonal, 0.0))
        remainder = np.abs(gradient - curvature.times(step))
        residual = float(np.max(remainder / np.where(spread > 0, spread, 1.0), initial=0.0))
        fall, least = np.inf, 0.0
        if chord is None:
            fall, least = measure_fall(problem, face, point.probability, utilities)
        return Iterate(point, curvature, step, utilities, float(gradient @ step), fall, least, residual)

    # The step u with H u = g, in the span of the basis.
    def _solve(
        self, problem: ChoiceProblem, point: ClimbPoint, curvature: InformationMatrix, gradient: Float64
    ) -> Float64:
        if self.basis is None or not isinstance(curvature, DenseCurvature):
            return curvature.solve(gradient)
        root = information_root(problem, point.probability, self.basis)
        if root is not None:
            return root @ (root.T @ gradient)
        inside = self.basis.T @ curvature.matrix @ self.basis
        return self.basis @ solve_information(inside, self.basis.T @ gradient)


# The information at a point; at zero it was computed before, for the scale.
def _curve(problem: ChoiceProblem, face: Bool | None, point: ClimbPoint) -> InformationMatrix:
    at_zero = face is None and problem.offsets is None and not point.beta.any()
    if at_zero and problem.graph is None:
        return DenseCurvature(problem.information_at_zero(None))
    return problem.curvature(point.probability)


def measure_fall(
    problem: ChoiceProblem, face: Bool | None, probability: Float64, step_utilities: Float64
) -> tuple[float, float]:
    """−min (x − x̄)·u over alternatives for the X u of a step u, and the least probability among them."""
    means = problem.situations.sum(probability * step_utilities)
    away = problem.situations.apply(np.subtract, step_utilities.copy(), means)
    # The only chosen alternative of a situation does not count.
    counted = problem.pairs_of(face)
    if len(problem.shared):  # there other rows were chosen, and form pairs with the reference
        counted = counted.copy()
        counted[problem.shared] = True
    if not counted.any():
        return 0.0, 1.0
    lowest = np.where(counted, away, np.inf).min()
    return -float(lowest), float(np.where(counted, probability, 1.0).min())


def information_root(problem: ChoiceProblem, probability: Float64, basis: Float64) -> Float64 | None:
    """R with R Rᵀ = H⁺ on the span of a basis, from the rows; None if these are too many."""
    rows = problem.weighted_rows(probability, basis)
    if rows is None:
        return None
    # The Gram matrix of the rows would square the condition.
    values, vectors = linalg.svd(rows, full_matrices=False, check_finite=False)[1:]
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 1e-15 * values[:1])
    return basis @ (inverse[:, None] * vectors).T
