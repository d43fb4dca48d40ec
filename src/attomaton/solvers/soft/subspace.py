"""The Luce model when dependent embeddings tie the scores of different tokens and queries together.

W is sought in the cyclic subspace, the span of (e_i − e_j)e_kᵀ over all ties. There the loss is strictly
convex and grows without bound in every direction, so the optimum is finite and unique.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.tables import Float64
from attomaton.solvers.soft.damped import minimise
from attomaton.solvers.soft.likelihood import LuceProblem

_linalg: Any = np.linalg


@dataclass(frozen=True)
class Subspace:
    """Damped Newton from zero until no gradient entry exceeds ``atol``, at most ``max_steps`` steps.

    The step is ln(1 + d)/d, d the largest range of the direction on a component, as for free scores.
    """

    atol: float = 1e-10
    max_steps: int = 200

    def solve(self, problem: LuceProblem, features: Float64) -> Float64:
        """Coordinates x, shape (n_features,), of the best scores features @ x."""

        def slope(coordinates: Float64) -> Float64:
            return features.T @ problem.gradient(features @ coordinates)

        def find_step(coordinates: Float64, gradient: Float64) -> tuple[Float64, float]:
            probabilities = problem.probabilities(features @ coordinates)
            step: Float64 = -_linalg.solve(
                features.T @ problem.curvature_of(probabilities, features), gradient
            )
            return step, 2.0 * float(np.abs(features @ step).max())

        start = np.zeros(features.shape[1])
        return minimise(slope, find_step, start, atol=self.atol, max_steps=self.max_steps)[0]
