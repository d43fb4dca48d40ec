"""Gradient flow of embedded tokens: all queries coupled, few coordinates, dense.

Coordinates are those of :class:`~attomaton.trajectory.basis.Basis`. Only differences to the label enter, and
the difference of two tokens of one component is exactly zero outside the cyclic subspace, so gradients that
must vanish there do so exactly.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.borders import check_floats
from attomaton.base.native import descend_embedded, expand_embedded
from attomaton.base.ragged import largest_of, offsets_of, rows_of
from attomaton.base.tables import Float64, Int64
from attomaton.trajectory.basis import Basis
from attomaton.trajectory.loss import TrainingLoss

MAX_NEWTON_STEPS = 50  # maximum number of Newton steps for one minimum
SOFTEST = 1e-12  # stiffness, relative to the curvature, that matters only where the loss is flat
LEAST_STIFFNESS = 1e-300  # where there is no curvature at all
SETTLED_STEP = 1e-9  # Newton's method for the minimum without stiffness ends with a step this small
SMALL_CHANGE = 1e-6  # Newton steps along which logits differ by at most this are taken in full

_linalg: Any = np.linalg


class Losers(NamedTuple):
    """The tokens x of each choice that are not the label y, concatenated over choices."""

    directions: Float64  # (n_losers, n_coordinates): times coordinates, the score of x minus that of y
    log_odds: Float64  # (n_losers,), ln m_x − ln m_y for the multiplicities m
    offsets: Int64  # (n_choices + 1,), where the losers of each choice begin and end
    weight: Float64  # (n_choices,), the count of the choice divided by the number of samples


class LossExpansion:
    """Slope and curvature of the loss at one point after another, in two work arrays."""

    def __init__(self, losers: Losers) -> None:
        self._losers = losers
        self._rooted = np.empty_like(losers.directions)  # √(weight p) a of each loser
        self._means = np.empty((len(losers.weight), losers.directions.shape[1]))  # √weight Σ p a

    def at(self, point: Float64) -> tuple[Float64, Float64]:
        """The slope, shape (n_coordinates,), and the curvature, shape (n_coordinates, n_coordinates)."""
        slope = np.empty_like(point)
        expand_embedded(self._losers, point, slope, self._rooted, self._means)  # writes into the arrays
        return slope, self._rooted.T @ self._rooted - self._means.T @ self._means


@dataclass(frozen=True, eq=False)
class EmbeddedFlow:
    """The training loss as a function of the coordinates of W; one block."""

    losers: Losers

    def descend(self, point: Float64, step_size: float, n_steps: int) -> Float64:
        """The point that plain gradient descent reaches in ``n_steps`` steps."""
        end = self._check(point).copy()
        descend_embedded(self.losers, end, step_size, n_steps)
        return end

    @np.errstate(all="ignore")
    def minimise(self, anchor: Float64, stiffness: float, start: Float64, atol: float) -> Float64:
        """The minimum of L(x) + ½ stiffness ‖x − anchor‖²; NaN if Newton's method does not converge."""
        anchor, start = self._check(anchor), self._check(start)
        if not (np.isfinite(anchor).all() and np.isfinite(start).all()):
            return np.full_like(start, np.nan)
        expansion, point = LossExpansion(self.losers), start.copy()
        for _ in range(MAX_NEWTON_STEPS):
            slope, curvature = expansion.at(point)
            curvature.flat[:: len(point) + 1] += stiffness
            step = _linalg.solve(curvature, stiffness * (anchor - point) - slope)
            # A step along which logits differ by at most d changes curvature by the factor e^d at most.
            change = 2.0 * float(np.abs(self.losers.directions @ step).max(initial=0.0))
            point += step * (math.log1p(change) / change if change > SMALL_CHANGE else 1.0)
            if np.abs(step).max(initial=0.0) <= atol:
                return point
        return np.full_like(start, np.nan)

    @np.errstate(all="ignore")
    def damp(self, point: Float64, stiffness: float, move: Float64) -> Float64:
        """(1 + H / stiffness)⁻¹ move."""
        point, move = self._check(point), self._check(move)
        if not (np.isfinite(point).all() and np.isfinite(move).all()):
            return np.full_like(move, np.nan)
        _, curvature = LossExpansion(self.losers).at(point)
        return _linalg.solve(np.eye(len(point)) + curvature / stiffness, move)

    def bound_sharpness(self) -> float:
        """A bound on the curvature at any point, from the longest direction of a loser."""
        squares = np.sum(self.losers.directions**2, axis=1)
        choice, n_choices = rows_of(self.losers.offsets), len(self.losers.weight)
        return float(self.losers.weight @ largest_of(choice, squares, n_choices, least=0.0))

    def settle(self) -> Float64:
        """The approximate minimiser of the loss, if it has one; NaN if it is not found."""
        origin = np.zeros(self.losers.directions.shape[1])
        stiffness = SOFTEST * max(self.bound_sharpness(), LEAST_STIFFNESS)
        return self.minimise(origin, stiffness, origin, SETTLED_STEP)

    @np.errstate(all="ignore")
    def sharpness(self, point: Float64, enough: float = 0.0) -> Float64:
        """A bound on the largest eigenvalue of the curvature, shape (1,); rough if at most ``enough``."""
        curvature = LossExpansion(self.losers).at(self._check(point))[1]
        if not np.isfinite(curvature).all():
            return np.array([np.inf])
        bound = float(np.abs(curvature).sum(axis=1).max(initial=0.0))
        if bound > enough and len(curvature):
            bound = min(bound, float(np.linalg.eigvalsh(curvature)[-1]))
        return np.array([max(bound, 0.0)])

    def _check(self, values: Float64) -> Float64:
        size = self.losers.directions.shape[1]
        return np.ascontiguousarray(check_floats(values, (size,), "the state of a flow", finite=False))

    def lengths(self, move: Float64) -> Float64:
        """The length of a change of the coordinates, as the only block, shape (1,)."""
        return np.array([np.linalg.norm(move)], np.float64)

    def spread(self, values: Float64) -> Float64:
        """The single value, repeated for every coordinate."""
        return np.broadcast_to(values, self.losers.directions.shape[1:])


def embedded_flow(loss: TrainingLoss, basis: Basis, *, inside: bool = False) -> EmbeddedFlow:
    """The flow of the training loss in the coordinates of the basis.

    With ``inside`` the loss is that of reduced contexts, without losers of other components.
    """
    problem, component = loss.problem, loss.component
    lengths = np.diff(problem.offsets)
    winner = np.repeat(problem.winner, lengths)  # of the choice of each alternative
    is_loser = problem.alternative != winner
    odds = problem.log_multiplicity - np.repeat(problem.log_multiplicity[~is_loser], lengths)
    loser, winner = problem.alternative[is_loser], winner[is_loser]
    directions = basis.nodes[loss.nodes[loser]] - basis.nodes[loss.nodes[winner]]
    is_tie = component[loser] == component[winner]
    directions[is_tie, basis.n_cyclic :] = 0.0  # zero up to rounding: ties lie in the cyclic subspace
    weight = problem.count / loss.n_samples
    log_odds = np.where(is_tie, odds[is_loser], -np.inf) if inside else odds[is_loser]
    return EmbeddedFlow(Losers(np.ascontiguousarray(directions), log_odds, offsets_of(lengths - 1), weight))
