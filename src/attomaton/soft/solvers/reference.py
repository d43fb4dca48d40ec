"""The reference solver: Newton's method with conjugate gradients, all components at once."""

from dataclasses import dataclass

import numpy as np

from attomaton.ragged import largest_of, occurs, sum_at
from attomaton.soft.likelihood import LuceProblem
from attomaton.soft.solvers.gradients import solve_systems
from attomaton.tables import Bool, Float64, Int64


@dataclass(frozen=True)
class Reference:
    """Damped Newton from zero until no gradient entry exceeds ``atol``, at most ``max_steps`` steps.

    The optimum is finite because choices are compared inside strongly connected components only (Ford 1957).
    The loss is flat along a constant on each component; conjugate gradients never leave the complement.

    Along a direction whose entries differ by at most d inside a component, the curvature of a log-sum-exp
    changes at most by the factor e^d (generalised self-concordance), so the step ln(1 + d)/d lowers the loss
    without any line search. It tends to 1, and each component has its own.

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
    >>> scores = Reference().solve(problem)
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
        leaves the problem, so that one slow component never keeps the others waiting, nor their rounding
        disturbs it.
        """
        answer = np.zeros(problem.n_alternatives) if anchor is None else anchor.copy()
        kept, scores, target = np.arange(problem.n_alternatives), answer, answer.copy()
        for _ in range(self.max_steps):
            gradient = problem.gradient(scores) + stiffness * (scores - target)
            open_components = self._unconverged(problem, gradient, stiffness * np.abs(target))
            if not open_components.all():
                answer[kept] = scores
                rows, problem = problem.restrict(open_components)
                kept, scores, gradient, target = kept[rows], scores[rows], gradient[rows], target[rows]
            if not len(kept):
                break
            direction = self._newton_direction(problem, scores, gradient, stiffness)
            scores = scores + damping(problem.component, direction)[problem.component] * direction
        answer[kept] = scores
        return answer

    def _unconverged(self, problem: LuceProblem, gradient: Float64, pull: Float64) -> Bool:
        """Which components have a gradient entry above the tolerance, shape (n_components,)."""
        rounding = problem.rounding()[problem.component] + 8 * np.finfo(np.float64).eps * pull
        return occurs(problem.component[np.abs(gradient) > self.atol + rounding], problem.n_components)

    def _newton_direction(
        self, problem: LuceProblem, scores: Float64, gradient: Float64, stiffness: float
    ) -> Float64:
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


def centre(component: Int64, values: Float64) -> Float64:
    """Values with mean zero in each component."""
    size = int(component.max(initial=-1)) + 1
    mean = sum_at(component, values, size) / np.maximum(np.bincount(component, minlength=size), 1)
    return values - mean[component]


def damping(component: Int64, direction: Float64) -> Float64:
    """ln(1 + d)/d for each component, d the range of ``direction`` on it, shape (n_components,)."""
    n_components = int(component.max(initial=-1)) + 1
    highest, lowest = (sign * largest_of(component, sign * direction, n_components) for sign in (1.0, -1.0))
    spread = np.maximum(highest - lowest, 1e-12)
    return np.log1p(spread) / spread
