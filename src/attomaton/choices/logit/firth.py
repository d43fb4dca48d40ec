"""Firth's penalised likelihood: finite estimates where the maximum is infinite, with profile intervals.

ℓ*(β) = ℓ(β) + ½ log det I(β), with the information I on the span of what is identified (Firth 1993; Jeffreys'
prior). Its gradient is that of ℓ with the residual n_j − N p_j of each row raised by ½ N p_j (h_j − h̄), where
h_j = (x_j − x̄)ᵀ I⁻¹ (x_j − x̄) and h̄ is the mean of h_j in its situation.
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

FIRTH_STEPS, MOST_MOVED = 500, 4.0
"""Steps, and the largest change of a utility in one of them."""

MEMORY = 8
"""Earlier steps that say how the penalty bends ℓ*: by the information alone, convergence may be slow."""

LOST = "the information is lost in rounding; scale features to a common size"

FIRTH_SETTLED, LEVEL = 1e-18, 1e-9
"""The decrement at which it stops, and the largest at which what it found is a maximum."""

MOST_AT_ONCE = 1 << 24
"""Entries of rows times columns of the root of the inverse information in memory at once."""


class PenalisedPoint(NamedTuple):
    """ℓ* and what a step needs, at one point in coordinates of the span."""

    position: Float64
    probability: Float64
    log_likelihood: float
    value: float
    gradient: Float64
    factor: Any  # of the information, by Cholesky


class FirthClimb:
    """The maximum of ℓ*, on all of the identified span or where one contrast has a given value."""

    def __init__(self, problem: ChoiceProblem, basis: Float64) -> None:
        self.problem, self.basis = problem, basis

    def run(self, start: Float64, fixed: Float64 | None = None) -> PenalisedPoint:
        """Climb from ``start``, along directions in which the contrast ``fixed`` is level."""
        here = self.look(start)
        if here is None:
            raise UncertifiedSolution(LOST)
        before, n_level, secants = np.inf, 0, list[tuple[Float64, Float64]]()
        for _ in range(FIRTH_STEPS):
            step = self._step(here, fixed, secants)
            decrement = float(here.gradient @ step)
            if decrement <= 0:  # what earlier steps said is no longer true
                secants.clear()
                step = self._step(here, fixed, secants)
                decrement = float(here.gradient @ step)
            n_level = n_level + 1 if decrement < LEVEL and decrement > 0.9 * before else 0
            if decrement <= FIRTH_SETTLED or n_level > MEMORY:
                return here
            before = decrement
            moved = float(np.abs(self.problem.utilities(self.basis @ step)).max(initial=0.0))
            length = min(1.0, MOST_MOVED / max(moved, 1e-300))
            while (candidate := self.look(here.position + length * step)) is None or (
                candidate.value < here.value - 1e-12 * abs(here.value)
            ):
                length /= 2
                if length < 1e-10:
                    break
            if candidate is None or length < 1e-10:
                break
            secants.append((np.asarray(length * step), here.gradient - candidate.gradient))
            del secants[:-MEMORY]
            here = candidate
        if before > LEVEL:
            raise UncertifiedSolution(
                f"Firth's estimate was not found (a step of {before**0.5:.1g} standard errors is left); "
                "scale features to a common size, or drop those that hardly differ"
            )
        return here

    def _step(
        self, here: PenalisedPoint, fixed: Float64 | None, secants: list[tuple[Float64, Float64]]
    ) -> Float64:
        """A step of the quasi-Newton method (L-BFGS) that begins with the information without the penalty."""
        slope, shares, bent = (
            here.gradient,
            list[float](),
            [pair for pair in secants if pair[0] @ pair[1] > 0],
        )
        response = None if fixed is None else linalg.cho_solve(here.factor, fixed)
        if fixed is not None and response is not None:
            slope = slope - float(response @ slope) / float(response @ fixed) * fixed
        for moved, fallen in reversed(bent):
            shares.append(float(moved @ slope) / float(moved @ fallen))
            slope = slope - shares[-1] * fallen
        step = linalg.cho_solve(here.factor, slope)
        if fixed is not None and response is not None:
            step = step - float(fixed @ step) / float(fixed @ response) * response
        for (moved, fallen), share in zip(bent, reversed(shares), strict=True):
            step = step + (share - float(fallen @ step) / float(moved @ fallen)) * moved
        return step

    def look(self, position: Float64) -> PenalisedPoint | None:
        """ℓ* and its gradient; None where the information is lost in rounding."""
        problem, basis = self.problem, self.basis
        utilities = problem.with_offsets(problem.utilities(basis @ position))
        probability, value = problem.probabilities(utilities, None)
        information = basis.T @ problem.information(probability) @ basis
        try:
            factor = linalg.cho_factor(information, lower=True)
        except linalg.LinAlgError:
            return None
        half = float(np.log(np.diag(factor[0])).sum())
        raised = self.leverages(probability, factor)
        mean = problem.situations.spread(problem.situations.sum(probability * raised))
        times = problem.situations.spread(problem.totals)
        weight = problem.residuals(probability) + 0.5 * times * probability * (raised - mean)
        gradient = basis.T @ problem.gradient(weight)
        return PenalisedPoint(position, probability, value, value + half, gradient, factor)

    def leverages(self, probability: Float64, factor: Any) -> Float64:
        """(x − x̄)ᵀ I⁻¹ (x − x̄) of each row."""
        problem = self.problem
        root = self.basis @ linalg.solve_triangular(factor[0], np.eye(len(factor[0])), lower=True).T
        total = np.zeros(len(probability))
        for columns in np.array_split(root, 1 + root.shape[1] * len(total) // MOST_AT_ONCE, axis=1):
            inside = problem.utilities(columns)
            mean = problem.situations.sum(probability[:, None] * inside)
            total += np.square(inside - problem.situations.spread(mean)).sum(axis=1)
        return total


class Profile:
    """The profile of ℓ* along a contrast: its interval and its p-value."""

    def __init__(self, climb: FirthClimb, top: PenalisedPoint, contrast: Float64) -> None:
        self._climb, self._top, self._contrast = climb, top, contrast
        self._response = linalg.cho_solve(top.factor, contrast)
        self.error = float(contrast @ self._response) ** 0.5

    def drop(self, distance: float) -> float:
        """Twice the fall of ℓ* where the contrast is this many standard errors from its estimate."""
        start = self._top.position + distance / self.error * self._response
        return max(2.0 * (self._top.value - self._climb.run(start, self._contrast).value), 0.0)

    def interval(self, level: float) -> tuple[float, float]:
        """Where ℓ* falls by less than half the quantile of the chi-square distribution."""
        from scipy.optimize import brentq
        from scipy.special import ndtri

        level = real_number(level, "level", above=0, below=1)
        reach, ends = float(ndtri(0.5 + level / 2)), list[float]()
        for sign in (-1.0, 1.0):
            near, far = 0.0, sign * reach
            while self.drop(far) < reach**2:
                near, far = far, 2.0 * far
            root: Any = brentq(lambda distance: self.drop(distance) ** 0.5 - reach, near, far, xtol=1e-9)
            ends.append(self.estimate + self.error * float(root))
        return ends[0], ends[1]

    @property
    def estimate(self) -> float:
        """The contrast at the maximum of ℓ*."""
        return float(self._contrast @ self._top.position)

    def p_value(self) -> float:
        """The p-value of a contrast of 0, by the chi-square distribution of the fall of ℓ*."""
        from scipy.special import chdtrc

        return float(chdtrc(1, self.drop(-self.estimate / self.error))) if self.error else 1.0


@dataclass(frozen=True, eq=False)
class FirthContrast:
    """A contrast by Firth's penalised likelihood, beside what the likelihood alone says.

    Attributes
    ----------
    label : str
        The contrast in words.
    value, standard_error : float
        The estimate, and its standard error by the information there; NaN where it is not identified.
    maximum : Contrast
        The estimate by the likelihood alone, which may be infinite, with its proof.
    profile : object or None
        Where interval and p-value come from; None where it is not identified; private.
    unit : float
        The factor by which estimate, error and interval are multiplied.
    """

    label: str
    value: float
    standard_error: float
    maximum: Contrast
    profile: Any
    unit: float = 1.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of profile penalised likelihood, which is not symmetric about the estimate."""
        if self.profile is None:
            return -np.inf, np.inf
        low, high = self.profile.interval(level)
        return self.unit * low, self.unit * high

    @cached_property
    def p_value(self) -> float:
        """The p-value of 0, by the ratio of penalised likelihoods."""
        return np.nan if self.profile is None else self.profile.p_value()


@dataclass(frozen=True, eq=False, repr=False)
class FirthFit(Tabular):
    """A conditional logit by Firth's penalised likelihood, beside the proof of what is infinite without it.

    Its bias is smaller than that of the maximum, and it is finite for all that the data bear on.

    Attributes
    ----------
    problem : ChoiceProblem
        The choices.
    climb, top : objects
        The span and the maximum on it; private.
    maximum : callable
        The estimate of a contrast by the likelihood alone: ``LogitFit.contrast``.
    proof : str
        The certificate of that estimate, in words.
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
        """β in scaled coordinates, in the span of what is identified."""
        return self.climb.basis @ self.top.position

    @property
    def coefficients(self) -> Float64:
        """The estimates, shape (n_parameters,); only their identified contrasts have a meaning."""
        return self.problem.parameters(self.scaled)

    @cached_property
    def covariance(self) -> Float64:
        """The inverse of the information there, shape (n_parameters, n_parameters)."""
        inside = linalg.cho_solve(self.top.factor, self.climb.basis.T)
        return self.problem.covariance(self.climb.basis @ inside)

    @property
    def log_likelihood(self) -> float:
        """Σ n ln p at the estimates, without the penalty."""
        return self.top.log_likelihood

    @property
    def penalty(self) -> float:
        """½ log det I at the estimates; it depends on the unit of the columns."""
        return self.top.value - self.top.log_likelihood

    def contrast(self, *names: Any, unit: float = 1.0) -> FirthContrast:
        """A parameter, the difference of two, or a mapping of names to weights.

        Parameters
        ----------
        *names : str, or one mapping
            One name; two names for their difference; or a mapping from names to weights.
        unit : float
            What estimate, error and interval are multiplied by, as for Elo points.
        """
        maximum = self.maximum(*names)
        scaled = self.problem.scaled(self.problem.weigh_parameters(weights_of(names)))
        inside = self.climb.basis.T @ scaled
        outside = np.linalg.norm(scaled - self.climb.basis @ inside)
        if outside > CLOSE * np.linalg.norm(scaled):
            return FirthContrast(maximum.label, np.nan, np.nan, maximum, None)
        profile = Profile(self.climb, self.top, inside)
        return FirthContrast(
            maximum.label, unit * profile.estimate, unit * profile.error, maximum, profile, unit
        )

    def predict(self, rows: Any, situations: Situations) -> Float64:
        """The probability of each row of new situations; NaN where the data do not bear on it."""
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
        """Each parameter by itself."""
        return tuple(self.contrast(name) for name in self.problem.names)

    def _table(self) -> pa.Table:
        rows = self.contrasts
        low, high = zip(*(row.interval() for row in rows), strict=True) if rows else ((), ())
        return table_of(
            {
                "parameter": [row.label for row in rows],
                "estimate": [row.value for row in rows],
                "standard_error": [row.standard_error for row in rows],
                "low": list(low),
                "high": list(high),
                "p_value": [row.p_value for row in rows],
                "maximum": [row.maximum.kind.value for row in rows],
            }
        )

    def _blocks(self) -> list[Block]:
        cells = list[list[str]]()
        for row in self.contrasts:
            low, high = row.interval()
            infinite = row.maximum.kind is not ContrastKind.FINITE
            reading = row.maximum.kind.value if infinite else f"{row.maximum.value:+z.3f}"
            identified = row.profile is not None
            numbers = [f"{row.value:+z.3f}", f"{row.standard_error:.3f}", f"{low:+z.3f} … {high:+z.3f}"]
            numbers.append(f"{row.p_value:.3g}")
            cells.append([row.label, *(numbers if identified else ["-"] * 4), reading])
        head = f"{show_count(self.problem.n_choices)} choices, "
        head += "Firth's penalty: half the log determinant of the information"
        headers = ["parameter", "estimate", "s.e.", "95 % profile", "p", "maximum"]
        return [head, Grid("", headers, cells), f"without the penalty, {self.proof}"]
