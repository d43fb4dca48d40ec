"""The least that an infinite contrast may be, with confidence 1 − α: how near all that happened allows.

At a point β* + w a choice of situation i falls on the face, where no alternative dies, with probability
P_i(w) = 1 / (1 + Σ_r exp(start_r − slope_r·w)), the sum being over the alternatives r that die. The bound is
the least f·w at which all that happened is probable enough: Σ N_i log P_i(w) ≥ log α =: limit, for the N_i
choices of each situation. With a *price* κ for this constraint, the dual problem is to maximise over κ the
minimum over w of f·w − κ (Σ N_i log P_i(w) − limit). Its value is never above the bound.

:func:`bound_below` reduces a fit to the dying rows that matter, and :func:`lowest_height` solves the dual.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.cone import Cone
from attomaton.choices.logit.curvature import solve_information
from attomaton.choices.logit.spans import span_of_vectors

DOUBLINGS = 64  # how often a point is doubled until all that happened is probable enough there
BOUND_STEPS = 200  # Newton steps, and changes of the price, in the search for a bound

LARGEST_RISE = 4.0  # the most that a step raises the log odds of a row
FAR_BEHIND = -10.0  # unless they stay below this: then the probability of the row hardly changes


class FaceProbabilities(NamedTuple):
    """The probabilities of faces and dying rows at a point w."""

    log_probability: float  # Σ N log P
    rows: Float64  # (n_rows,), of each dying row
    faces: Float64  # (n_situations,), P


class DyingSituations(NamedTuple):
    """The dying rows of situations, whose log odds against the face are ``start`` − ``slopes`` w."""

    slopes: Float64  # (n_rows, n_directions)
    start: Float64  # (n_rows,)
    situation: Int64  # (n_rows,), ascending
    totals: Float64  # (n_situations,), N

    def measure(self, point: Float64) -> FaceProbabilities:
        """The probabilities at w = ``point``."""
        height = self.start - self.slopes @ point
        top = np.zeros(len(self.totals))  # the log odds of the face itself are 0
        np.maximum.at(top, self.situation, height)
        odds = np.exp(height - top[self.situation])
        sums: Any = np.exp(-top) + np.bincount(self.situation, odds, len(self.totals))
        value = -float(self.totals @ (top + np.log(sums)))
        return FaceProbabilities(value, odds / sums[self.situation], np.exp(-top) / sums)


def bound_below(
    cone: Cone, contrast: Float64, binding: Bool, log_odds: Float64, level: float, clusters: Int64 | None
) -> float | None:
    """The least f·w for w ⟂ S where what happened has probability 1 − ``level``; None if it is not found.

    Only the ``binding`` dying rows count: those that can be raised at no cost are gone in the limit.
    ``log_odds`` are those of each dying row against the face of its situation, at β*.
    """
    problem = cone.problem
    situations, situation = np.unique(problem.situation_of(cone.rows[binding]), return_inverse=True)
    basis = span_of_vectors(cone.slopes[binding], cone.slopes.shape[1]).basis
    slopes = cone.slopes[binding] @ basis
    target = basis.T @ (cone.complement.T @ contrast)
    unit = float(np.linalg.norm(target))
    target = target / unit
    totals = count_once(problem.totals[situations], None if clusters is None else clusters[situations])
    dying = merge(slopes, log_odds[binding], situation, totals)
    point = basis.T @ cone.direction
    height = lowest_height(target, dying, point / max(float((slopes @ point).min()), 1e-12), level)
    return None if height is None else unit * height


def count_once(totals: Float64, clusters: Int64 | None) -> Float64:
    """How often each situation counts if all choices of a cluster count as one."""
    if clusters is None:
        return totals
    _, number = np.unique(clusters, return_inverse=True)
    return totals / np.bincount(number, totals)[number]


def merge(slopes: Float64, start: Float64, situation: Int64, totals: Float64) -> DyingSituations:
    """Add up situations with a single dying row that agree in slope and start."""
    is_single = np.bincount(situation)[situation] == 1
    if not is_single.all() or len(start) < 2:
        return DyingSituations(slopes, start, situation, totals)
    key = np.round(np.column_stack([slopes, start]), 12) + 0.0
    _, first, number = np.unique(key, axis=0, return_index=True, return_inverse=True)
    summed: Any = np.bincount(number.ravel(), totals[situation])
    return DyingSituations(slopes[first], start[first], np.arange(len(first)), summed)


def lowest_height(target: Float64, dying: DyingSituations, point: Float64, level: float) -> float | None:
    """The least target·w for which Σ N log P ≥ log(1 − level), from below; None if it is not found.

    ``point`` raises every row by 1 or more.
    """
    limit = float(np.log1p(-level))
    start = _find_start(dying, point, limit)
    if start is None:
        return None
    best = -np.inf
    bracket = PriceBracket()
    log_price = float(np.log(np.linalg.norm(target) / max(-limit, 1e-3)))
    for step in range(BOUND_STEPS):
        price = float(np.exp(log_price))
        minimum = _minimise(target, price, dying, start, 4.0 * limit - 20.0)  # far below the limit: give up
        excess = minimum.log_probability - limit
        if minimum.error is not None:
            start = minimum.point if excess >= 0 else start
            best = max(best, float(target @ minimum.point) - price * excess - minimum.error)
            if abs(excess) < 1e-6 * abs(limit):  # the error of the dual value is quadratic in it
                return best
        bracket.narrow(log_price, excess)
        if bracket.high - bracket.low < 1e-12:
            return best if np.isfinite(best) else None
        log_price = bracket.propose(log_price, step)
    return None


# A multiple of the point where Σ N log P reaches the limit, within a factor of two of the nearest.
def _find_start(dying: DyingSituations, point: Float64, limit: float) -> Float64 | None:
    for _ in range(DOUBLINGS):
        if dying.measure(point).log_probability >= limit:
            break
        point = 2.0 * point
    else:  # up to rounding it raises no row
        return None
    while dying.measure(0.5 * point).log_probability >= limit and np.linalg.norm(point) > 1e-12:
        point = 0.5 * point  # nearer, where few rows have probabilities without digits
    return point


@dataclass
class PriceBracket:
    """The logarithms of a price that is too low and of one that is too high."""

    low: float = -np.inf
    high: float = np.inf
    low_excess: float = np.nan  # Σ N log P less the limit, at the low price
    high_excess: float = np.nan  # at the high price

    def narrow(self, log_price: float, excess: float) -> None:
        """Replace the end on whose side this price is."""
        if excess < 0:
            self.low, self.low_excess = log_price, excess
        else:
            self.high, self.high_excess = log_price, excess

    def propose(self, log_price: float, step: int) -> float:
        """The price where a straight line between the ends meets the limit; half-way every third time."""
        if np.isinf(self.high - self.low):
            return log_price + 3.0 if self.high == np.inf else log_price - 3.0  # 20 times the price, or 1/20
        line = self.low_excess / (self.low_excess - self.high_excess)
        share = 0.5 if step % 3 == 2 else min(max(line, 0.02), 0.98)
        return self.low + share * (self.high - self.low)


class PricedMinimum(NamedTuple):
    """The minimum of target·w − price · Σ N log P(w), with Σ N log P there."""

    point: Float64
    log_probability: float
    error: float | None  # how far the value may be above the minimum; None if it was not reached


# Minimise target·w − price · Σ N log P(w) by Newton's method.
#
# The minimum counts as not reached if Σ N log P falls below ``least`` and stays there: the price is too
# low, and nothing bounds the contrast from below.
def _minimise(
    target: Float64, price: float, dying: DyingSituations, point: Float64, least: float
) -> PricedMinimum:
    here = dying.measure(point)
    n_low = 0  # steps in a row below ``least``
    for _ in range(BOUND_STEPS):
        step, decrement, is_exact = _find_newton_step(target, price, dying, here)
        if is_exact and decrement < 1e-13 * max(1.0, abs(float(target @ point))):
            return PricedMinimum(point, here.log_probability, max(decrement, 0.0))
        value = float(target @ point) - price * here.log_probability
        length = _limit_length(dying, point, step)
        while length > 1e-18:  # halve it until the value falls enough (Armijo)
            ahead = dying.measure(point + length * step)
            reached = float(target @ (point + length * step)) - price * ahead.log_probability
            if reached <= value - 1e-4 * length * decrement + 1e-13 * abs(value):
                point, here = point + length * step, ahead
                break
            length /= 2
        else:
            break
        n_low = n_low + 1 if here.log_probability < least else 0
        if n_low > 10:
            break
    return PricedMinimum(point, here.log_probability, None)


# The step, what the quadratic model gains by it (twice), and whether it solves the model.
def _find_newton_step(
    target: Float64, price: float, dying: DyingSituations, here: FaceProbabilities
) -> tuple[Float64, float, bool]:
    weight = dying.totals[dying.situation] * here.rows
    gradient = target - price * (dying.slopes.T @ weight)
    first_rows = np.flatnonzero(np.diff(dying.situation, prepend=-1))
    means = np.add.reduceat(dying.slopes * here.rows[:, None], first_rows)
    away = dying.slopes - means[dying.situation]
    # the face itself has slope 0 and the other probability, of which no digits may be lost
    curvature = price * ((away.T * weight) @ away + (means.T * (dying.totals * here.faces)) @ means)
    step = -solve_information(curvature, gradient)
    is_exact = float(np.abs(curvature @ step + gradient).max()) <= 1e-6 * float(np.abs(gradient).max())
    if not is_exact:  # nearly flat along some direction: go down there, but do not call it solved
        lift = 1e-8 * float(np.trace(curvature)) * np.eye(len(gradient))
        step = -solve_information(curvature + lift, gradient)
    return step, float(-gradient @ step), is_exact


# The length of the step, at most 1, at which no row rises too far.
def _limit_length(dying: DyingSituations, point: Float64, step: Float64) -> float:
    rise = -(dying.slopes @ step)
    room = LARGEST_RISE + np.maximum(FAR_BEHIND - (dying.start - dying.slopes @ point), 0.0)
    return min(1.0, float((room / np.maximum(rise, 1e-300)).min()))
