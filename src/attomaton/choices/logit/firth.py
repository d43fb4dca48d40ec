"""Firth's penalised likelihood: finite estimates where the maximum is infinite, with profile intervals.

:class:`FirthClimb` maximises it, :class:`Profile` measures intervals, and :class:`FirthFit` is the result.
ℓ*(β) = ℓ(β) + ½ log det I(β) for the log-likelihood ℓ and the information I on the span of the identified
contrasts (Firth 1993; Jeffreys' prior). Its gradient is that of ℓ with ½ N p_j (h_j − h̄) added to the
residual n_j − N p_j of each row. Here h_j = (x_j − x̄)ᵀ I⁻¹ (x_j − x̄) is the *leverage*, and h̄ its mean, with
probabilities p_j, in the situation. All vectors are in coordinates of an orthonormal basis of the span.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.frames import Tabular
from attomaton.base.options import real_number
from attomaton.base.printing import Block, Grid, show_count
from attomaton.base.tables import Float64, table_of
from attomaton.choices.logit.cone import CLOSE
from attomaton.choices.logit.contrasts import Contrast, ContrastKind, weights_of
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.rows import Situations
from attomaton.choices.logit.untyped import linalg

FIRTH_STEPS = 500  # steps of a climb
MOST_MOVED = 4.0  # the largest change of a utility in one step

# Earlier steps from which the curvature of the penalty is estimated: without it, convergence may be slow.
MEMORY = 8

FIRTH_SETTLED = 1e-18  # the decrement at which a climb stops
LEVEL = 1e-9  # the largest decrement at which the end of a climb counts as a maximum

# Entries of rows times columns of the root of the inverse information in memory at once.
MOST_AT_ONCE = 1 << 24


class PenalisedPoint(NamedTuple):
    """A point of a climb, with what is known of ℓ* there."""

    position: Float64  # (rank,), in coordinates of the basis
    probability: Float64  # (n_rows,)
    log_likelihood: float  # ℓ
    value: float  # ℓ*
    gradient: Float64  # of ℓ*, (rank,)
    factor: Any  # SciPy's Cholesky factor of the information


class Secant(NamedTuple):
    """A step, and the fall of the gradient along it."""

    step: Float64
    fall: Float64


@dataclass(frozen=True, eq=False)
class FirthClimb:
    """Maximise ℓ* on the span of ``basis``, or where one contrast has a given value."""

    problem: ChoiceProblem
    basis: Float64

    def run(self, start: Float64, fixed: Float64 | None = None) -> PenalisedPoint:
        """Climb from ``start``, without a change of the contrast ``fixed``."""
        here = self.look(start)
        if here is None:
            raise UncertifiedSolution(
                "Firth's estimate is lost in rounding; scale features to a common size, or drop those that "
                "hardly differ"
            )
        previous = np.inf  # the decrement before
        n_level = 0  # steps in a row that hardly lowered a small decrement: rounding
        secants = list[Secant]()
        for _ in range(FIRTH_STEPS):
            step = self._step(here, fixed, secants)
            decrement = float(here.gradient @ step)
            if decrement <= 0:  # the curvature has changed since the earlier steps
                secants.clear()
                step = self._step(here, fixed, secants)
                decrement = float(here.gradient @ step)
            n_level = n_level + 1 if decrement < LEVEL and decrement > 0.9 * previous else 0
            if decrement <= FIRTH_SETTLED or n_level > MEMORY:
                return here
            previous = decrement
            length, ahead = self._advance(here, step)
            if ahead is None:
                break
            secants.append(Secant(np.asarray(length * step), here.gradient - ahead.gradient))
            del secants[:-MEMORY]
            here = ahead
        if previous > LEVEL:
            raise UncertifiedSolution(
                f"Firth's estimate was not found (a step of {previous**0.5:.1g} standard errors remains); "
                "scale features to a common size, or drop features that hardly differ"
            )
        return here

    # The length of the step at which ℓ* does not fall, and the point there; None if there is none.
    def _advance(self, here: PenalisedPoint, step: Float64) -> tuple[float, PenalisedPoint | None]:
        largest = float(np.abs(self.problem.utilities(self.basis @ step)).max(initial=0.0))
        length = min(1.0, MOST_MOVED / max(largest, 1e-300))
        while length >= 1e-10:
            ahead = self.look(here.position + length * step)
            if ahead is not None and ahead.value >= here.value - 1e-12 * abs(here.value):
                return length, ahead
            length /= 2
        return length, None

    # A step of the quasi-Newton method (L-BFGS) that starts from the information without the penalty.
    def _step(self, here: PenalisedPoint, fixed: Float64 | None, secants: list[Secant]) -> Float64:
        # the two-loop recursion of L-BFGS; along a fixed contrast the gradient and the step are projected out
        slope = here.gradient
        shares = list[float]()
        convex = [secant for secant in secants if secant.step @ secant.fall > 0]
        response = None if fixed is None else linalg.cho_solve(here.factor, fixed)
        if fixed is not None and response is not None:
            slope = slope - float(response @ slope) / float(response @ fixed) * fixed
        for earlier, fall in reversed(convex):
            shares.append(float(earlier @ slope) / float(earlier @ fall))
            slope = slope - shares[-1] * fall
        step = linalg.cho_solve(here.factor, slope)
        if fixed is not None and response is not None:
            step = step - float(fixed @ step) / float(fixed @ response) * response
        for (earlier, fall), share in zip(convex, reversed(shares), strict=True):
            step = step + (share - float(fall @ step) / float(earlier @ fall)) * earlier
        return step

    def look(self, position: Float64) -> PenalisedPoint | None:
        """ℓ* and its gradient at a point; None where the information is lost in rounding."""
        problem, basis = self.problem, self.basis
        utilities = problem.with_offsets(problem.utilities(basis @ position))
        probability, log_likelihood = problem.probabilities(utilities, None)
        information = basis.T @ problem.information(probability) @ basis
        try:
            factor = linalg.cho_factor(information, lower=True)
        except linalg.LinAlgError:
            return None
        value = log_likelihood + float(np.log(np.diag(factor[0])).sum())
        leverage = self._leverages(probability, factor)
        expected = problem.situations.spread(problem.totals)
        away = problem.situations.centre(leverage, probability)
        weight = problem.residuals(probability) + 0.5 * expected * probability * away
        gradient = basis.T @ problem.gradient(weight)
        return PenalisedPoint(position, probability, log_likelihood, value, gradient, factor)

    # h_j = ‖Rᵀ(x_j − x̄)‖² of each row, with R Rᵀ = I⁻¹.
    def _leverages(self, probability: Float64, factor: Any) -> Float64:
        problem = self.problem
        root = self.basis @ linalg.solve_triangular(factor[0], np.eye(len(factor[0])), lower=True).T
        total = np.zeros(len(probability))
        for columns in np.array_split(root, 1 + root.shape[1] * len(total) // MOST_AT_ONCE, axis=1):
            away = problem.situations.centre(problem.utilities(columns), probability[:, None])
            total += np.square(away).sum(axis=1)
        return total


class Profile:
    """The profile of ℓ* along a contrast: the largest ℓ* where the contrast has a given value."""

    def __init__(self, climb: FirthClimb, top: PenalisedPoint, contrast: Float64) -> None:
        self._climb, self._top, self._contrast = climb, top, contrast
        self._response = linalg.cho_solve(top.factor, contrast)
        self.error = float(contrast @ self._response) ** 0.5

    def drop(self, distance: float) -> float:
        """Twice the fall of ℓ* where the contrast is this many standard errors from its estimate."""
        start = self._top.position + distance / self.error * self._response
        return max(2.0 * (self._top.value - self._climb.run(start, self._contrast).value), 0.0)

    def interval(self, level: float) -> tuple[float, float]:
        """The values at which twice the fall of ℓ* is below the quantile of the chi-square distribution."""
        from scipy.optimize import brentq  # take long to import
        from scipy.special import ndtri

        level = real_number(level, "level", above=0, below=1)
        quantile = float(ndtri(0.5 + level / 2))  # its square is the quantile of chi-square with 1 degree
        ends = list[float]()
        for sign in (-1.0, 1.0):
            near, far = 0.0, sign * quantile  # in standard errors from the estimate
            while self.drop(far) < quantile**2:
                near, far = far, 2.0 * far
            root: Any = brentq(lambda distance: self.drop(distance) ** 0.5 - quantile, near, far, xtol=1e-9)
            ends.append(self.estimate + self.error * float(root))
        return ends[0], ends[1]

    @property
    def estimate(self) -> float:
        """The contrast at the maximum of ℓ*."""
        return float(self._contrast @ self._top.position)

    def p_value(self) -> float:
        """The p-value of the penalised likelihood ratio test of the contrast being 0."""
        from scipy.special import chdtrc  # takes long to import

        return float(chdtrc(1, self.drop(-self.estimate / self.error))) if self.error else 1.0


@dataclass(frozen=True, eq=False)
class FirthContrast:
    """A contrast by Firth's penalised likelihood, and its estimate without the penalty.

    ``label`` is the contrast in words, ``value`` the estimate and ``standard_error`` its error by the
    information there; both are NaN if the contrast is not identified. ``maximum`` is the estimate by the
    likelihood alone, which may be infinite. ``unit`` is the factor of estimate, error and interval. The
    private ``profile`` computes interval and p-value.
    """

    label: str
    value: float
    standard_error: float
    maximum: Contrast
    profile: Any
    unit: float = 1.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval by profile penalised likelihood, which need not be symmetric about the estimate."""
        if self.profile is None:
            return -np.inf, np.inf
        low, high = self.profile.interval(level)
        return self.unit * low, self.unit * high

    @cached_property
    def p_value(self) -> float:
        return np.nan if self.profile is None else self.profile.p_value()


@dataclass(frozen=True, eq=False, repr=False)
class FirthFit(Tabular):
    """A conditional logit by Firth's penalised likelihood, and the proof of what is infinite without it.

    Estimates are less biased than those of the likelihood alone, and finite wherever they are identified.
    ``problem`` has the choices, ``maximum`` is ``LogitFit.contrast``, the estimate without the penalty, and
    ``proof`` its certificate in words. ``climb`` and ``top``, the span and the maximum on it, are private.
    """

    problem: ChoiceProblem
    climb: Any
    top: Any
    maximum: Callable[..., Contrast]
    proof: str

    def __repr__(self) -> str:
        return str(self)

    @property
    def scaled(self) -> Float64:
        """β in scaled coordinates, in the identified span."""
        return self.climb.basis @ self.top.position

    @property
    def coefficients(self) -> Float64:
        """The estimates, shape (n_parameters,); only their identified contrasts have a meaning."""
        return self.problem.parameters(self.scaled)

    @cached_property
    def covariance(self) -> Float64:
        """The inverse of the information at the estimates, shape (n_parameters, n_parameters)."""
        inside = linalg.cho_solve(self.top.factor, self.climb.basis.T)
        return self.problem.covariance(self.climb.basis @ inside)

    @property
    def log_likelihood(self) -> float:
        return self.top.log_likelihood

    @property
    def penalty(self) -> float:
        """½ log det I at the estimates; it depends on the unit of the columns."""
        return self.top.value - self.top.log_likelihood

    def contrast(self, *names: Any, unit: float = 1.0) -> FirthContrast:
        """The estimate of one parameter, of the difference of two, or of a mapping from names to weights.

        Estimate, error and interval are multiplied by ``unit``, as for Elo points.
        """
        maximum = self.maximum(*names)
        scaled = self.problem.scaled(self.problem.weigh_parameters(weights_of(names)))
        inside = self.climb.basis.T @ scaled
        outside = np.linalg.norm(scaled - self.climb.basis @ inside)
        if outside > CLOSE * np.linalg.norm(scaled):
            return FirthContrast(maximum.label, np.nan, np.nan, maximum, None)
        profile = Profile(self.climb, self.top, inside)
        value, error = unit * profile.estimate, unit * profile.error
        return FirthContrast(maximum.label, value, error, maximum, profile, unit)

    def predict(self, rows: Any, situations: Situations) -> Float64:
        """The probability of each row of new situations; NaN where the data do not determine it."""
        dense: Any = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows, np.float64)
        scaled = self.problem.scaled(dense)
        gaps = scaled - situations.spread(scaled[situations.starts[:-1]])
        inside = gaps @ self.climb.basis
        outside = np.linalg.norm(gaps - inside @ self.climb.basis.T, axis=1)
        identified = outside <= CLOSE * np.linalg.norm(gaps, axis=1)
        height = np.where(identified, inside @ self.top.position, np.nan)
        odds = np.exp(height - situations.spread(situations.top(height)))
        return odds / situations.spread(situations.sum(odds))

    @cached_property
    def contrasts(self) -> tuple[FirthContrast, ...]:
        return tuple(self.contrast(name) for name in self.problem.names)

    def _table(self) -> pa.Table:
        rows = self.contrasts
        low, high = zip(*(row.interval() for row in rows), strict=True) if rows else ((), ())
        columns: dict[str, Any] = {
            "parameter": [row.label for row in rows],
            "estimate": [row.value for row in rows],
            "standard_error": [row.standard_error for row in rows],
            "low": list(low),
            "high": list(high),
            "p_value": [row.p_value for row in rows],
            "maximum": [row.maximum.kind.value for row in rows],
        }
        return table_of(columns)

    def _blocks(self) -> list[Block]:
        cells = list[list[str]]()
        for row in self.contrasts:
            numbers = ["-"] * 4
            if row.profile is not None:
                low, high = row.interval()
                estimate, error = f"{row.value:+z.3f}", f"{row.standard_error:.3f}"
                numbers = [estimate, error, f"{low:+z.3f} … {high:+z.3f}", f"{row.p_value:.3g}"]
            is_finite = row.maximum.kind is ContrastKind.FINITE
            maximum = f"{row.maximum.value:+z.3f}" if is_finite else row.maximum.kind.value
            cells.append([row.label, *numbers, maximum])
        head = f"{show_count(self.problem.n_choices)} choices, fitted with Firth's penalty (half the log "
        head += "determinant of the information)"
        headers = ["parameter", "estimate", "s.e.", "95 % profile", "p", "maximum"]
        return [head, Grid("", headers, cells), f"without the penalty, {self.proof}"]
