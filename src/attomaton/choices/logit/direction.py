"""The direction of gradient descent: the shortest v with d·v ≥ 1 on dying pairs and d·v = 0 on the others.

Here d is the difference of a pair. Gradient descent from 0 with small steps has β_t / ln t → v. Lawson and
Hanson's least distance programming finds v by non-negative least squares; violated rows are added.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import Span

ROWS_ADDED = 200  # rows by which the program grows


@dataclass(frozen=True, eq=False)
class HardDirection:
    """The direction v of gradient descent for the features as given, with its certificate.

    ``vector`` is v, shape (n_parameters,), or zeros if no pair dies. ``margin`` is min d·v over dying pairs,
    1 up to rounding, and ``leak`` is max |d·v| over the others. ``gap`` is ‖v‖² less the value of the dual
    problem, as a share of ‖v‖²: 0 up to rounding.
    """

    vector: Float64
    margin: float
    leak: float
    gap: float

    @property
    def certified(self) -> bool:
        return self.margin > 1 - 1e-7 and self.leak < 1e-7 and abs(self.gap) < 1e-6


def find_direction(problem: ChoiceProblem, dying: Bool, finite: Span) -> HardDirection:
    """Find the direction for a face whose surviving pairs have the span ``finite``."""
    if not dying.any():
        return HardDirection(np.zeros(problem.rows.n_parameters), np.inf, 0.0, 0.0)
    # the length of v is measured in the coordinates of the features as given
    complement = raw_complement(problem, finite)
    slopes = problem.slopes(problem.coordinates(complement), np.flatnonzero(dying))
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
    """An orthonormal basis of the complement of a span, in coordinates of the features as given."""
    return np.linalg.qr(problem.parameters(span.complement))[0]


# Multipliers λ ≥ 0 and rows A with v = Aᵀ λ, the shortest v with d·v ≥ 1 for each row d of slopes.
def _least_distance(slopes: Float64) -> tuple[Float64, Float64]:
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
        support = active[weight > 1e-12 * weight.max(initial=0.0)]
        # equalities on the support: A Aᵀ λ = 1
        exact: Any = np.linalg.lstsq(support @ support.T, np.ones(len(support)), rcond=1e-13)[0]
        point = support.T @ exact
        violated = np.flatnonzero((slopes @ point < 1 - 1e-9) & ~use)
        if not len(violated):
            return exact, support
        use[violated[np.argsort(slopes[violated] @ point)[:ROWS_ADDED]]] = True
