"""The reference solver: Newton's method with conjugate gradients, all components at once."""

from dataclasses import dataclass

import numpy as np

from attomaton.base.ragged import centre, largest_of, occurs
from attomaton.base.tables import Float64
from attomaton.solvers.soft.damped import minimise
from attomaton.solvers.soft.gradients import solve_systems
from attomaton.solvers.soft.likelihood import LuceProblem


@dataclass(frozen=True)
class DampedNewton:
    """Damped Newton from zero until no gradient entry exceeds ``atol``, at most ``max_steps`` steps.

    The optimum is finite because choices are compared inside strongly connected components only (Ford 1957).
    The loss is flat along a constant on each component; conjugate gradients never leave the complement.

    Each component takes its own share of the step (:func:`~attomaton.solvers.soft.damped.damping`), d
    the range of the step on it.

    Attributes
    ----------
    atol : float
        Largest gradient entry to be left.
    max_steps : int
        Steps, at most.

    Examples
    --------
    >>> entries = np.array([0, 1, 0, 1]), np.array([0, 2, 4]), np.zeros(4)
    >>> problem = LuceProblem(*entries, np.array([0, 1]), np.array([3.0, 1.0]), np.array([0, 0]))  # 3 to 1
    >>> scores = DampedNewton().solve(problem)
    >>> round(float(np.exp(scores[0] - scores[1])), 6)
    3.0
    """

    atol: float = 1e-10
    max_steps: int = 200

    def solve(
        self, problem: LuceProblem, *, anchor: Float64 | None = None, stiffness: float = 0.0
    ) -> Float64:
        """The scores that minimise Σ count · (−ln p) + ½ stiffness · Σ (s − anchor)²: (n_alternatives,).

        With stiffness 0 they are known up to a constant on each component. A component that has converged
        stays where it is, so that the rounding of others does not disturb it.
        """
        component, size = problem.component, problem.n_components
        target = np.zeros(problem.n_alternatives) if anchor is None else anchor
        rounding = problem.rounding()[component] + 8 * np.finfo(np.float64).eps * stiffness * np.abs(target)

        def slope(scores: Float64) -> Float64:
            gradient = problem.gradient(scores) + stiffness * (scores - target)
            moving = occurs(component[np.abs(gradient) > self.atol + rounding], size)
            return np.where(moving[component], gradient, 0.0)

        def find_step(scores: Float64, gradient: Float64) -> tuple[Float64, Float64]:
            step = _newton_step(problem, scores, gradient, stiffness)
            return step, (largest_of(component, step, size) + largest_of(component, -step, size))[component]

        return minimise(slope, find_step, target, atol=0.0, max_steps=self.max_steps)[0]


def _newton_step(problem: LuceProblem, scores: Float64, gradient: Float64, stiffness: float) -> Float64:
    probabilities = problem.probabilities(scores)
    diagonal = np.maximum(problem.curvature_diagonal(probabilities) + stiffness, 1e-300)
    size = float(np.abs(gradient).max())
    if stiffness == 0.0:  # rounding puts a little of it along the flat direction
        gradient = centre(problem.component, gradient)
    return solve_systems(
        lambda direction: problem.curvature(probabilities, direction) + stiffness * direction,
        -gradient,
        diagonal,
        problem.component,
        rtol=min(0.1, np.sqrt(size)),
        max_steps=1_000,
    )
