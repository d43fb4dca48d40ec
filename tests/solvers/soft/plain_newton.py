"""The plain solver of the Luce problem, to which the compiled one is compared."""

from dataclasses import dataclass

import numpy as np

from attomaton.base.ragged import centre, largest_of, occurs
from attomaton.solvers.soft.damped import minimise, solve_systems


@dataclass(frozen=True)
class DampedNewton:
    """Damped Newton from zero until no gradient entry exceeds ``atol``, at most ``max_steps`` steps.

    The optimum is finite because choices are compared only inside strongly connected components (Ford 1957).
    The loss is flat along a constant on each component; conjugate gradients never leave the complement.
    """

    atol: float = 1e-10
    max_steps: int = 200

    def solve(self, problem, *, anchor=None, stiffness=0.0):
        """The scores that minimise Σ count · (−ln p) + ½ stiffness · Σ (s − anchor)²: (n_alternatives,).

        With stiffness 0 they are known up to a constant on each component. A component that has converged
        stays fixed, so that the rounding errors of others do not disturb it.
        """
        component, size = problem.component, problem.n_components
        target = np.zeros(problem.n_alternatives) if anchor is None else anchor
        rounding = problem.rounding()[component] + 8 * np.finfo(np.float64).eps * stiffness * np.abs(target)

        def slope(scores):
            gradient = problem.gradient(scores) + stiffness * (scores - target)
            moving = occurs(component[np.abs(gradient) > self.atol + rounding], size)
            return np.where(moving[component], gradient, 0.0)

        def find_step(scores, gradient):
            probabilities, size_left = problem.probabilities(scores), float(np.abs(gradient).max())
            if stiffness == 0.0:  # rounding adds a little along the flat direction
                gradient = centre(component, gradient)
            step = solve_systems(
                lambda move: problem.curvature(probabilities, move) + stiffness * move,
                -gradient,
                np.maximum(problem.curvature_diagonal(probabilities) + stiffness, 1e-300),
                component,
                rtol=min(0.1, np.sqrt(size_left)),
                max_steps=1_000,
            )
            return step, (largest_of(component, step, size) + largest_of(component, -step, size))[component]

        return minimise(slope, find_step, target, atol=0.0, max_steps=self.max_steps)[0]
