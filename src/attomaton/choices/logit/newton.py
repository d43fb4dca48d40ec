"""Newton's method on a face of the choices, with the test that nothing there runs to infinity.

Let H u = g at any β where all probabilities are positive. If (x_ij − x̄_i)·u > −1 for every alternative but
the only chosen one of its situation, then no pair dies: λ_cj = n_ic p_ij (1 + (x_ij − x̄_i)·u) > 0 and
Σ λ d = g − H u = 0, which is Farkas' proof. On separated data every Newton step lowers some alternative by 1
or more; on others the step vanishes and the test passes.
"""

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.choices.logit.curvature import DenseCurvature, InformationMatrix, solve_information
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.untyped import linalg

LEAST_PROBABILITY = 1e-11
"""Below this a weight λ = n p (1 + …) proves nothing: gradient and information underflow together."""

LARGEST_FALL = 0.5
"""The theorem needs less than 1; saturated data stand at exactly 1, and the margin pays for rounding."""

LARGEST_RESIDUAL = 1e-11
"""How much of g − H u may be left, in units of the score's standard deviation."""


CHORD_DECREMENT = 1e-2
"""The decrement below which, after a proof, steps use the information of an earlier point."""


class Iterate(NamedTuple):
    """Where Newton's method is: a point with its derivatives, its next step, and the test's numbers."""

    beta: Float64
    probability: Float64
    log_likelihood: float
    gradient: Float64
    curvature: InformationMatrix
    step: Float64
    moved: Float64  # X·step, one value for each row
    decrement: float  # g·u, twice what the quadratic model still gains
    fall: float  # −min (x − x̄)·u
    least_probability: float
    residual: float
    n_steps: int

    @property
    def proves_survival(self) -> bool:
        """Whether this step proves that no pair of the face dies."""
        return (
            self.fall < LARGEST_FALL
            and self.least_probability >= LEAST_PROBABILITY
            and self.residual < LARGEST_RESIDUAL
        )


class Course(NamedTuple):
    """The last iterate, and the first whose step proves that no pair of the face dies."""

    last: Iterate
    proof: Iterate | None


@dataclass(frozen=True)
class NewtonClimb:
    """Damped Newton steps.

    Attributes
    ----------
    most_steps : int
        Steps until it gives up.
    patience : int or None
        Steps without a proof after which it stops; None: never for that reason.
    reach : float
        The largest change of a utility in one step, as long as nothing is proved.
    settled : float
        The decrement below which it takes one last step and stops: the error left is quadratic in it. Steps
        that use an earlier information gain less, and go on to a millionth of it.
    until_proof : bool
        Whether it stops as soon as it has proved that no pair of the face dies.
    chord : bool
        Whether the last steps may use the information of an earlier point.
    basis : float64 array, shape (n_parameters, rank), or None
        Steps stay in the span of these columns; None: they are free.
    """

    most_steps: int = 60
    patience: int | None = None
    reach: float = 8.0
    settled: float = 1e-15
    until_proof: bool = False
    chord: bool = True
    basis: Float64 | None = None

    def run(self, problem: ChoiceProblem, face: Bool | None, start: Float64) -> Course:
        """Climb from ``start`` on the alternatives of ``face`` (None: all)."""
        utilities = problem.with_offsets(problem.utilities(start))
        probability, value = problem.probabilities(utilities, face)
        beta, proof, before = start, None, np.inf
        here = self._look(problem, face, beta, probability, value, 0)
        for number in range(self.most_steps + 1):
            if number:
                close = self.chord and proof is not None and before < CHORD_DECREMENT
                near = here.curvature if close else None
                here = self._look(problem, face, beta, probability, value, number, near)
                if close and here.decrement > max(
                    0.1 * before, 1e-16
                ):  # the old information is no longer good enough
                    here = self._look(problem, face, beta, probability, value, number)
            proof = here if proof is None and here.proves_survival else proof
            if here.decrement <= (1e-6 * self.settled if here.fall == np.inf else self.settled):
                here = here._replace(beta=beta + here.step)
                break
            # on the way to a far maximum each step leaves e⁻¹ of the decrement: that is no floor yet
            floor = here.decrement < 1e-8 and here.decrement > (0.25 if self.chord else 1.0) * before
            if floor or number == self.most_steps:
                break
            if proof is None and self.patience is not None and number >= self.patience:
                break
            if proof is not None and self.until_proof:
                break
            before, length = here.decrement, 1.0
            if proof is None and here.fall > 1:
                length = min(1.0, self.reach / max(float(np.abs(here.moved).max(initial=0.0)), 1e-300))
            while True:
                ahead = utilities + length * here.moved
                probability, reached = problem.probabilities(ahead, face)
                gain = 1e-4 * length * here.decrement - 1e-12 * abs(value)
                if reached >= value + gain or length < 1e-10:
                    break
                length /= 2
            beta, utilities, value = beta + length * here.step, ahead, reached
        return Course(here, proof)

    def _look(
        self,
        problem: ChoiceProblem,
        face: Bool | None,
        beta: Float64,
        probability: Float64,
        log_likelihood: float,
        number: int,
        curvature: InformationMatrix | None = None,
    ) -> Iterate:
        """The derivatives at a point, the step from there, and what the step proves.

        With the information of a point nearby, the step is one of the chord method, and proves nothing.
        """
        chord = curvature is not None
        gradient = problem.gradient(problem.residuals(probability))
        if curvature is None:
            first = number == 0 and face is None and problem.offsets is None and not beta.any()
            at_zero = first and problem.graph is None
            zero = DenseCurvature(problem.information_at_zero(None)) if at_zero else None
            curvature = zero or cast("InformationMatrix", problem.curvature(probability))
        if self.basis is None or not isinstance(curvature, DenseCurvature):
            step = curvature.solve(gradient)
        else:
            root = information_root(problem, probability, self.basis)
            if root is None:
                inside = self.basis.T @ curvature.matrix @ self.basis
                step = self.basis @ solve_information(inside, self.basis.T @ gradient)
            else:
                step = root @ (root.T @ gradient)
        moved = problem.utilities(step)
        spread = np.sqrt(np.maximum(curvature.diagonal, 0.0))
        remainder = np.abs(gradient - curvature.times(step))
        residual = float(np.max(remainder / np.where(spread > 0, spread, 1.0), initial=0.0))
        fall, least = (np.inf, 0.0) if chord else measure_fall(problem, face, probability, moved)
        decrement = float(gradient @ step)
        return Iterate(
            beta,
            probability,
            log_likelihood,
            gradient,
            curvature,
            step,
            moved,
            decrement,
            fall,
            least,
            residual,
            number,
        )


def measure_fall(
    problem: ChoiceProblem, face: Bool | None, probability: Float64, moved: Float64
) -> tuple[float, float]:
    """How far a step lowers some alternative below its situation's mean, and the least probability.

    The only chosen alternative of a situation does not count, nor do situations with a single alternative on
    the face.
    """
    situations = problem.situations
    away = situations.apply(np.subtract, moved.copy(), situations.sum(probability * moved))
    counted = problem.is_pair if face is None else problem.is_pair & face
    if len(problem.shared):  # there the reference is one of the two of a pair
        counted = counted.copy()
        counted[problem.shared] = True
    if not counted.any():
        return 0.0, 1.0
    lowest = np.where(counted, away, np.inf).min()
    return -float(lowest), float(np.where(counted, probability, 1.0).min())


def information_root(problem: ChoiceProblem, probability: Float64, basis: Float64) -> Float64 | None:
    """R with R Rᵀ = H⁺ on the span of a basis, from the rows themselves: a Gram matrix squares the condition.

    None where the rows are too many.
    """
    rows = problem.weighted_rows(probability, basis)
    if rows is None:
        return None
    values, vectors = linalg.svd(rows, full_matrices=False, check_finite=False)[1:]
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 1e-15 * values[:1])
    return basis @ (inverse[:, None] * vectors).T
