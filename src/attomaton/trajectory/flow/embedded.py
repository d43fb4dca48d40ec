"""Gradient flow of embedded tokens: all queries coupled, few coordinates, dense and compiled.

Coordinates are those of :class:`~attomaton.trajectory.basis.Basis`. Only differences to the label enter, and
the difference of two tokens of one component is exactly zero outside the cyclic subspace, so gradients that
must vanish there do so exactly.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.borders import check_floats
from attomaton.base.kernels import compiled
from attomaton.base.ragged import largest_of, offsets_of, rows_of
from attomaton.base.tables import Float64
from attomaton.trajectory.basis import Basis
from attomaton.trajectory.loss import TrainingLoss

Array = Any
solve: Any = np.linalg.solve
MAX_STEPS = 50
"""Maximum number of Newton steps for one minimum."""

SOFTEST = 1e-12
"""Stiffness, relative to the curvature, that restrains only coordinates in which the loss is flat."""

SETTLED, TINY = 1e-9, 1e-300


class Losers(NamedTuple):
    """The losing tokens of each choice, concatenated over choices."""

    directions: Array  # float64 (n_losers, n_coordinates): loser's score minus the label's, as a form
    log_odds: Array  # float64 (n_losers,): ln m_x − ln m_y
    offsets: Array  # int64 (n_choices + 1,)
    weight: Array  # float64 (n_choices,): count / n


@dataclass(frozen=True, eq=False)
class EmbeddedFlow:
    """The training loss as a function of the coordinates of W; one block."""

    losers: Losers

    def descend(self, place: Float64, step_size: float, n_steps: int) -> Float64:
        """The point that plain gradient descent reaches in ``n_steps`` steps."""
        return _descend(self.losers, self._check(place), step_size, n_steps)

    def minimise(self, anchor: Float64, stiffness: float, start: Float64, atol: float) -> Float64:
        """The minimum of L(x) + ½ stiffness ‖x − anchor‖²; NaN if Newton's method does not converge."""
        anchor, start = self._check(anchor), self._check(start)
        if not (np.isfinite(anchor).all() and np.isfinite(start).all()):
            return np.full_like(start, np.nan)
        return _minimise(self.losers, anchor, stiffness, start, atol)

    def damp(self, place: Float64, stiffness: float, move: Float64) -> Float64:
        """(1 + H / stiffness)⁻¹ move."""
        place, move = self._check(place), self._check(move)
        if not (np.isfinite(place).all() and np.isfinite(move).all()):
            return np.full_like(move, np.nan)
        return _damp(self.losers, place, stiffness, move)

    def bound_sharpness(self) -> float:
        """A bound on the curvature at any point, from the longest direction of a loser."""
        squares = np.sum(self.losers.directions**2, axis=1)
        choice, n_choices = rows_of(self.losers.offsets), len(self.losers.weight)
        return float(self.losers.weight @ largest_of(choice, squares, n_choices, least=0.0))

    def settle(self) -> Float64:
        """The approximate minimiser of the loss, where it has one; NaN if it is not found."""
        nowhere = np.zeros(self.losers.directions.shape[1])
        return self.minimise(nowhere, SOFTEST * max(self.bound_sharpness(), TINY), nowhere, SETTLED)

    def sharpness(self, place: Float64, enough: float = 0.0) -> Float64:
        """A bound on the largest eigenvalue of the curvature, shape (1,); a rough bound if that is enough."""
        curvature = _bend(self.losers, self._check(place))
        if not np.isfinite(curvature).all():
            return np.array([np.inf])
        bound = float(np.abs(curvature).sum(axis=1).max(initial=0.0))
        if bound > enough and len(curvature):
            bound = min(bound, float(np.linalg.eigvalsh(curvature)[-1]))
        return np.array([max(bound, 0.0)])

    def _check(self, values: Float64) -> Float64:
        """One number for each coordinate."""
        return check_floats(values, self.losers.directions.shape[1:], "the state of a flow", finite=False)

    def lengths(self, move: Float64) -> Float64:
        """The length of a change, shape (1,)."""
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
    winner = np.repeat(problem.winner, lengths)
    loses = problem.alternative != winner
    odds = problem.log_multiplicity - np.repeat(problem.log_multiplicity[~loses], lengths)
    loser, winner = problem.alternative[loses], winner[loses]
    directions = basis.nodes[loss.nodes[loser]] - basis.nodes[loss.nodes[winner]]
    same = component[loser] == component[winner]
    directions[same, basis.n_cyclic :] = 0.0
    weight = problem.count / loss.n_samples
    log_odds = np.where(same, odds[loses], -np.inf) if inside else odds[loses]
    return EmbeddedFlow(Losers(directions, log_odds, offsets_of(lengths - 1), weight))


def _descent_work(losers: Losers, _: Array, __: float, n_steps: int) -> float:
    """Estimated cost: numpy multiplies about ten entries in the time Python takes for one."""
    return n_steps * (50 + losers.directions.size / 10)


def _newton_work(losers: Losers, *_: Any) -> float:
    """Estimated cost: Newton's method reads all directions about ten times."""
    return 10.0 * losers.directions.size


@compiled
def weigh(losers: Losers, place: Array) -> Array:
    """The probability of every loser, shape (n_losers,); the label's is the rest, and not needed."""
    probability = losers.directions @ place + losers.log_odds
    for choice in range(len(losers.weight)):
        highest, total = 0.0, 0.0
        for loser in range(losers.offsets[choice], losers.offsets[choice + 1]):
            highest = max(highest, probability[loser])
        for loser in range(losers.offsets[choice], losers.offsets[choice + 1]):
            probability[loser] = math.exp(probability[loser] - highest)
            total += probability[loser]
        total += math.exp(-highest)
        for loser in range(losers.offsets[choice], losers.offsets[choice + 1]):
            probability[loser] /= total
    return probability


@compiled
def find_gradient(losers: Losers, probability: Array) -> Array:
    """Σ weight · probability · direction, shape (n_coordinates,)."""
    pressed = np.empty(len(probability))
    for choice in range(len(losers.weight)):
        for loser in range(losers.offsets[choice], losers.offsets[choice + 1]):
            pressed[loser] = losers.weight[choice] * probability[loser]
    return pressed @ losers.directions


@compiled
def find_curvature(losers: Losers, probability: Array) -> Array:
    """Σ weight (Σ p D Dᵀ − (Σ p D)(Σ p D)ᵀ), shape (n_coordinates, n_coordinates)."""
    rooted, means = (
        np.empty_like(losers.directions),
        np.zeros((len(losers.weight), losers.directions.shape[1])),
    )
    for choice in range(len(losers.weight)):
        root = np.sqrt(losers.weight[choice])
        for loser in range(losers.offsets[choice], losers.offsets[choice + 1]):
            share = np.sqrt(probability[loser])
            for at in range(losers.directions.shape[1]):
                along = root * share * losers.directions[loser, at]
                rooted[loser, at] = along
                means[choice, at] += share * along
    return rooted.T @ rooted - means.T @ means


@compiled
def _bend(losers: Losers, place: Array) -> Array:
    """The curvature at a point."""
    return find_curvature(losers, weigh(losers, place))


@compiled(work=_descent_work)
def _descend(losers: Losers, point: Array, step_size: float, n_steps: int) -> Array:
    """Plain gradient descent."""
    point = point.copy()
    for _ in range(n_steps):
        point -= step_size * find_gradient(losers, weigh(losers, point))
    return point


@compiled(work=_newton_work)
def _minimise(losers: Losers, anchor: Array, stiffness: float, start: Array, atol: float) -> Array:
    """Newton's method for L(x) + ½ stiffness ‖x − anchor‖²; a step of range d changes curvature by e^d."""
    point = start.copy()
    for _ in range(MAX_STEPS):
        probability = weigh(losers, point)
        slope = find_gradient(losers, probability) + stiffness * (point - anchor)
        curvature = find_curvature(losers, probability)
        for at in range(len(point)):
            curvature[at, at] += stiffness
        step = solve(curvature, -slope)
        reach = 2.0 * np.abs(losers.directions @ step).max()
        point += step * (math.log1p(reach) / reach if reach > 1e-6 else 1.0)
        if np.abs(step).max() <= atol:
            return point
    return np.full(len(point), np.nan)


@compiled
def _damp(losers: Losers, place: Array, stiffness: float, move: Array) -> Array:
    """(1 + H/stiffness)⁻¹ move."""
    curvature = find_curvature(losers, weigh(losers, place)) / stiffness
    for at in range(len(place)):
        curvature[at, at] += 1.0
    return solve(curvature, move)
