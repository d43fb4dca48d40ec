"""The dense solver for small problems: least distance by non-negative least squares (Lawson and Hanson).

With y the coordinates of W in an orthonormal basis of what ties leave free and B the directions of the edges
in it, min ‖y‖ subject to B y ≥ 1 is solved by u = argmin ‖[Bᵀ; 1ᵀ] u − [0; 1]‖ over u ≥ 0: with ρ the
residual, y = −ρ_y / ρ_1. It needs no inverse, so linearly dependent embeddings are no trouble; its time grows
with the cube of the nodes.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from attomaton.base.ragged import centre, means_at
from attomaton.base.tables import Float64
from attomaton.solvers.hard.problem import EmbeddedProblem, OrderProblem

NEGLIGIBLE = 1e-12
"""Eigenvalues of the kernel smaller than this, relative to the largest, count as zero."""


@dataclass(frozen=True)
class LeastDistance:
    """Solve with at most ``max_steps`` changes of the active set for each edge."""

    max_steps: int = 10

    def solve_embedded(self, problem: EmbeddedProblem) -> tuple[Float64, Float64]:
        """Forces, shape (n_nodes,), and edge multipliers, shape (n_edges,)."""
        order, n_nodes = problem.order, len(problem.token)
        if not len(order.above):
            return np.zeros(n_nodes), np.zeros(0)
        values, vectors = np.linalg.eigh(problem.kernel())
        usable = values > NEGLIGIBLE * values[-1]
        features = vectors[:, usable] * np.sqrt(values[usable])  # scores = features @ coordinates of W
        free = _free_of_ties(problem, features)
        coordinates, flow = self._least_distance(problem.order, means_at(problem.component, features) @ free)
        return _forces(problem, features, free @ coordinates, flow), flow

    def _least_distance(self, order: OrderProblem, positions: Float64) -> tuple[Float64, Float64]:
        """Coordinates y of least norm with gaps of 1, and the multipliers; zeros where there is none."""
        directions = positions[order.above] - positions[order.below]
        stacked = np.vstack([directions.T, np.ones(len(directions))])
        target = np.zeros(len(stacked))
        target[-1] = 1.0
        try:
            weights, _ = nnls(stacked, target, maxiter=self.max_steps * len(directions))
        except RuntimeError:  # too many steps; the certificate will tell
            weights = np.zeros(len(directions))
        rest = target - stacked @ weights
        scale = max(float(rest[-1]), 1e-300)
        return -rest[:-1] / scale, weights / scale


def _forces(problem: EmbeddedProblem, features: Float64, coordinates: Float64, flow: Float64) -> Float64:
    """Node forces with W's coordinates: what the flow puts on components, and free multipliers of ties."""
    order, size = problem.order, len(problem.order.sizes)
    pressed = (order.divergence(flow) / order.sizes)[problem.component]
    spread = centre(problem.component, features)
    ties = np.linalg.lstsq(spread.T, coordinates - features.T @ pressed, rcond=NEGLIGIBLE)[0]
    return pressed + ties - (np.bincount(problem.component, ties, size) / order.sizes)[problem.component]


def _free_of_ties(problem: EmbeddedProblem, features: Float64) -> Float64:
    """An orthonormal basis of the coordinates that give equal scores inside every component."""
    spread = centre(problem.component, features)
    values, vectors = np.linalg.eigh(spread.T @ spread)
    return vectors[:, values <= NEGLIGIBLE * max(values[-1], 1.0)]
