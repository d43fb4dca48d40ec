"""The Luce model when dependent embeddings tie the scores of different tokens and queries together.

W is sought in the cyclic subspace, the span of (e_i − e_j)e_kᵀ over all ties. There the loss is strictly
convex and grows without bound in every direction, so the optimum is finite and unique.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.soft.likelihood import LuceProblem
from attomaton.tables import Float64


@dataclass(frozen=True)
class Subspace:
    """Damped Newton from zero until no gradient entry exceeds ``atol``, at most ``max_steps`` steps.

    The step is ln(1 + d)/d, d the largest range of the direction on a component, as for free scores.
    """

    atol: float = 1e-10
    max_steps: int = 200

    def solve(self, problem: LuceProblem, features: Float64) -> Float64:
        """Coordinates x, shape (n_features,), of the best scores features @ x.

        Parameters
        ----------
        problem : LuceProblem
            The choices.
        features : float64 array, shape (n_alternatives, n_features)
            Linearly independent columns.
        """
        coordinates = np.zeros(features.shape[1])
        for _ in range(self.max_steps):
            scores = features @ coordinates
            gradient = features.T @ problem.gradient(scores)
            if np.abs(gradient).max(initial=0.0) <= self.atol:
                break
            probabilities = problem.probabilities(scores)
            step = -np.linalg.solve(features.T @ problem.curvature_of(probabilities, features), gradient)
            reach = 2.0 * float(np.abs(features @ step).max())
            coordinates = coordinates + np.log1p(reach) / reach * step
        return coordinates
