"""The hard direction: the shortest v with d·v ≥ 1 on dying pairs and d·v = 0 on the others.

Gradient descent from 0 with small steps has β_t / ln t → v. Lawson and Hanson's least distance programming
solves it by non-negative least squares; rows are added where they are violated.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import Span

ROWS_ADDED = 200
"""Rows by which the program grows."""


@dataclass(frozen=True, eq=False)
class HardDirection:
    """The direction, in the coordinates of the features as given, and its certificate.

    Attributes
    ----------
    vector : float64 array, shape (n_parameters,)
        v; zeros if no pair dies.
    margin : float
        min d·v over dying pairs; 1 up to rounding.
    leak : float
        max |d·v| over surviving pairs.
    gap : float
        ‖v‖² less the value Σ λ of the dual problem at λ ≥ 0, as a share of ‖v‖²: 0 up to rounding.
    """

    vector: Float64
    margin: float
    leak: float
    gap: float

    @property
    def certified(self) -> bool:
        """Whether v is proved to be the shortest."""
        return self.margin > 1 - 1e-7 and self.leak < 1e-7 and abs(self.gap) < 1e-6


def find_direction(problem: ChoiceProblem, dying: Bool, finite: Span) -> HardDirection:
    """The hard direction of a face whose surviving pairs span ``finite`` (in scaled coordinates)."""
    size = problem.rows.n_parameters
    if not dying.any():
        return HardDirection(np.zeros(size), np.inf, 0.0, 0.0)
    # the length of v is measured in the coordinates of the features as given
    complement = raw_complement(problem, finite)
    rows = np.flatnonzero(dying)
    slopes = problem.slopes(problem.coordinates(complement), rows)
    unit = float(np.abs(slopes).max())  # features of any size: the program has entries near 1
    slopes = slopes / unit
    if slopes.size < 4_000_000:
        slopes = slopes[np.unique(np.round(slopes, 14), axis=0, return_index=True)[1]]
    weight, support = _least_distance(slopes)
    vector = complement @ (support.T @ weight) / unit
    weight = weight / unit**2
    gaps = problem.gaps(problem.coordinates(vector))
    margin, leak = float(gaps[dying].min()), float(np.abs(gaps[~dying]).max(initial=0.0))
    square = float(vector @ vector)
    # the dual of ½‖v‖² is Σ λ − ½‖Σ λ d‖², here with Σ λ d = v
    gap = (square - float(np.maximum(weight, 0.0).sum())) / square if square else np.inf
    return HardDirection(vector, margin, leak, gap)


def raw_complement(problem: ChoiceProblem, span: Span) -> Float64:
    """Orthonormal columns of the β, in the features as given, that change no difference of a span."""
    return np.linalg.qr(problem.parameters(span.complement))[0]


def _least_distance(slopes: Float64) -> tuple[Float64, Float64]:
    """Multipliers λ ≥ 0 and rows A of a support with v = Aᵀ λ shortest for A v ≥ 1."""
    from scipy.optimize import nnls

    use = np.zeros(len(slopes), bool)
    use[np.argsort(np.linalg.norm(slopes, axis=1))[:ROWS_ADDED]] = True
    while True:
        active = slopes[use]
        left = np.vstack([active.T, np.ones(len(active))])
        right = np.zeros(len(left))
        right[-1] = 1.0
        weight = np.asarray(nnls(left, right, maxiter=50 * left.shape[1])[0])
        residual = left @ weight - right
        weight = weight / -residual[-1]
        heavy = weight > 1e-12 * weight.max(initial=0.0)
        support = active[heavy]
        # equalities on the support: A Aᵀ λ = 1
        exact: Any = np.linalg.lstsq(support @ support.T, np.ones(len(support)), rcond=1e-13)[0]
        point = support.T @ exact
        low = np.flatnonzero((slopes @ point < 1 - 1e-9) & ~use)
        if not len(low):
            return exact, support
        use[low[np.argsort(slopes[low] @ point)[:ROWS_ADDED]]] = True
