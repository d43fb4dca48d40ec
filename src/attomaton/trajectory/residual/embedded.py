"""The third term for embedded tokens: one convex function over the span of all tight directions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.tables import Bool, Float64
from attomaton.graphs.components import Components
from attomaton.graphs.reduction import find_ends
from attomaton.solvers.soft.damped import minimise
from attomaton.trajectory.basis import Basis, find_span
from attomaton.trajectory.residual.problem import Priorities, Residual

_linalg: Any = np.linalg

MAX_STEPS = 500
POSITIVE = 1e-7
"""Multipliers below this, relative to the largest, count as zero."""


@dataclass(frozen=True, eq=False)
class EmbeddedResidual(Residual):
    """R in the span of the tight directions, with the directions of all edges, shape (n_order, n_axes)."""

    directions: Float64

    def settling(self) -> float:
        """The smallest eigenvalue of Σ flow·a aᵀ on the span of the directions that flow."""
        held = self.flow > 0
        along = self.directions[held] @ find_span(self.directions[held]).T
        return float(np.linalg.eigvalsh((along.T * self.flow[held]) @ along)[0]) if along.size else 1.0


def solve_embedded(
    components: Components, priorities: Priorities, basis: Basis, pressure: Float64
) -> EmbeddedResidual:
    """R in the coordinates of the basis, zero along cyclic axes and outside the span of tight directions."""
    directions, kappa = _edge_directions(components, basis), priorities.kappa
    tight = np.flatnonzero(priorities.tight)
    degenerate = np.zeros(len(kappa), bool)
    degenerate[tight] = _find_degenerate(directions[tight], pressure)
    held = np.flatnonzero(priorities.tight & ~degenerate)
    axes = find_span(directions[held])
    along = directions[held] @ axes.T
    answer, gradient = _minimise(along, np.log(kappa[held]), axes @ pressure)
    flow = np.zeros(len(kappa))
    flow[held] = kappa[held] * np.exp(-along @ answer)
    free = np.full(len(components), len(axes) < len(basis.axes) - basis.n_cyclic)
    place = answer @ axes
    weights, scores = basis.weights(place), basis.nodes @ place
    return EmbeddedResidual(priorities, weights, scores, flow, degenerate, free, gradient, directions)


def _edge_directions(components: Components, basis: Basis) -> Float64:
    """(e_A − e_B)e_kᵀ of every edge of the order, its cyclic part left out, shape (n_order, n_axes)."""
    above, below = find_ends(components)
    directions = basis.nodes[above] - basis.nodes[below]
    directions[:, : basis.n_cyclic] = 0.0
    return directions


def _find_degenerate(directions: Float64, pressure: Float64) -> Bool:
    """Which directions no multipliers α ≥ 0 with Σ α a = W_svm press, shape (n_tight,).

    One linear program: raise as many multipliers as possible to a small amount.
    """
    from scipy.optimize import linprog  # takes long to import, so only when needed

    size = len(directions)
    if not size:
        return np.zeros(0, bool)
    axes = find_span(directions)
    enough = POSITIVE * max(float(np.abs(pressure).max()), 1e-300)
    program: Any = linprog(
        np.concatenate([np.zeros(size), -np.ones(size)]),
        A_ub=np.hstack([-np.eye(size), np.eye(size)]),
        b_ub=np.zeros(size),
        A_eq=np.hstack([axes @ directions.T, np.zeros((len(axes), size))]),
        b_eq=axes @ pressure,
        bounds=[(0.0, None)] * size + [(0.0, enough)] * size,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10},  # far below what counts as zero
    )
    if program.status != 0:
        raise UncertifiedSolution(
            f"no multipliers were found that press the tight edges to W_svm ({program.message}); "
            "the hard solution is not precise enough: solve it with a smaller rtol"
        )
    return np.asarray(program.x[size:] < 0.5 * enough)


def _minimise(along: Float64, log_kappa: Float64, pressure: Float64) -> tuple[Float64, float]:
    """Newton's method for Σ e^{ln κ − a·y} + pressure·y, and the gradient left."""

    def flow_at(place: Float64) -> Float64:
        return np.exp(np.clip(log_kappa - along @ place, -700, 700))

    def find_step(place: Float64, gradient: Float64) -> tuple[Float64, float]:
        step: Float64 = -_linalg.lstsq((along.T * flow_at(place)) @ along, gradient, rcond=None)[0]
        return step, float(np.abs(along @ step).max())

    enough = 1e-12 * max(1.0, float(np.abs(pressure).max(initial=0.0)))
    return minimise(
        lambda place: pressure - flow_at(place) @ along,
        find_step,
        np.zeros(len(pressure)),
        atol=enough,
        max_steps=MAX_STEPS,
    )
