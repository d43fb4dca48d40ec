"""Decide which coefficients of Poisson and Cox regressions are infinite, by fitting conditional logits.

:func:`check_poisson` and :func:`check_hazards` turn the cases into choices, fit them, and return an answer.
"""

# Cox: each event is a choice of its case among the cases at risk (of several at once: Breslow's rule).
# Poisson with an intercept: given Σ y of the counts y, each count is a choice of its case among all cases,
# with the same slopes, information and penalty; the intercept makes the means add up to Σ y.

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.printing import show_count
from attomaton.base.tables import Float64, Int64
from attomaton.choices.coefficients import SeparationCheck, describe_alias, fit_certified
from attomaton.choices.columns import as_list
from attomaton.choices.design import Regression, read_column
from attomaton.choices.logit.contrasts import Contrast, ContrastKind
from attomaton.choices.logit.identification import null_vectors
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.outcomes import read_flags
from attomaton.choices.reasons import count_cases, say_level, shortest

MOST_AT_RISK = 10**8  # most numbers in the rows of all cases at risk at all events: 0.8 GB


def check_poisson(
    regression: Regression,
    matrix: Float64,
    names: list[str],
    target: str,
    times: Float64,
    constants: list[int],
) -> "CountCheck":
    """Check a Poisson regression, whose intercept is the first of the columns ``constants``."""
    if len(names) == len(constants):
        raise InvalidSamples("X has no column besides the intercept; give at least one")
    if not constants:
        raise UnsupportedOption("a Poisson regression needs an intercept; leave intercept=False out")
    y = read_column(regression.y, target)
    if len(y) != len(matrix) or (y < 0).any() or not (y * times).any():
        raise InvalidSamples(
            f"{target} must be one count for each of {len(matrix):,} cases, 0 or more and not all 0; "
            "correct it"
        )
    observed = times > 0
    matrix, y, times = matrix[observed], y[observed], times[observed]
    # A case that was observed several times has as many times the mean.
    offset = np.log(times) + (0.0 if regression.offset is None else regression.offset[observed])
    slopes = [column for column in range(len(names)) if column != constants[0]]
    labels = [names[column] for column in slopes]
    # one situation, in which all cases are the alternatives
    problem = ChoiceProblem.from_rows(matrix[:, slopes], [len(y)], y * times, names=labels, offsets=offset)
    return CountCheck(
        fit=fit_certified(problem),
        target=target,
        columns=tuple(names),
        values=matrix,
        outcome=y,
        counts=times,
        constant=names[constants[0]],
        offset=offset,
    )


@dataclass(frozen=True, eq=False, repr=False)
class CountCheck(SeparationCheck):
    """The answer for a Poisson regression; ``outcome`` has its counts, ``constant`` names the intercept."""

    constant: str = field(kw_only=True)
    offset: Float64 = field(kw_only=True)  # (n_cases,), of the log mean

    @cached_property
    def coefficients(self) -> tuple[Contrast, ...]:
        """The coefficients in the order of the columns, with the intercept among them."""
        slopes = {contrast.label: replace(contrast, robust_error=None) for contrast in self.fit.contrasts}
        return tuple(slopes.get(name) or self._intercept for name in self.columns)

    # The intercept, from the mean of a case with a positive count, which is finite, less x β.
    @property
    def _intercept(self) -> Contrast:
        # intercept = ln(Σ y · p_case) − offset − x_case β, where p_case is the probability of the case
        case = int(np.argmax(self.outcome > 0))
        total = float(self.outcome @ self.counts)
        names = self.fit.problem.names
        rows = self.values[:, [name != self.constant for name in self.columns]]
        contrast = self.fit.contrast(dict(zip(names, -rows[case], strict=True)))
        if contrast.kind is not ContrastKind.FINITE:
            return replace(contrast, label=self.constant, robust_error=None, bound=None, settle="")
        probability = self.fit.probabilities
        value = float(np.log(total * probability[case]) - self.offset[case] + contrast.value)
        # Var = 1 / Σ y + the variance of x̄ β, with the mean x̄ weighted by probability
        mean_row = self.fit.contrast(dict(zip(names, probability @ rows, strict=True)))
        error = float(np.hypot(total**-0.5, mean_row.standard_error or 0.0))
        return replace(contrast, label=self.constant, value=value, standard_error=error, robust_error=None)

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        """A sentence for each combination of columns that is constant, and so not identified."""
        vectors = null_vectors(self.fit.problem, self.fit.identified)
        is_slope = np.array([name != self.constant for name in self.columns])
        with_intercept = np.zeros((len(vectors), len(is_slope)))
        with_intercept[:, is_slope] = vectors
        # The combination has one value in all cases, which the intercept takes away; 8 digits hide rounding.
        with_intercept[:, ~is_slope] = -np.round(vectors @ self.values[0, is_slope], 8)[:, None]
        return tuple(describe_alias(row, self.columns) for row in with_intercept)

    # Why a coefficient is infinite: its column is extreme in all cases with a positive count.
    def _tell(self, contrast: Contrast) -> str:
        if contrast.label == self.constant:
            return f"other coefficients are infinite, and means must stay finite where {self.target} > 0"
        name = contrast.label
        rises = contrast.kind is ContrastKind.PLUS
        column = self.values[:, self.columns.index(name)]
        in_positive = column[self.outcome > 0]
        extreme = float(in_positive[0])
        beyond = (column < extreme) if rises else (column > extreme)
        if not ((in_positive == extreme).all() and (beyond | (column == extreme)).all()):
            return f"only with {self.target} = 0, by several columns together"
        levels = np.unique(column)
        if len(levels) > 2:
            sign = "<" if rises else ">"
            return f"every case with {name} {sign} {shortest(extreme)} had {self.target} = 0"
        level = say_level(name, float(levels[0 if rises else 1]))
        return f"{count_cases(float(self.counts[beyond].sum()))} with {level} had {self.target} = 0"

    @property
    def _head(self) -> str:
        size = f"{show_count(self.counts.sum())} cases"
        return f"Poisson regression, log mean of {self.target}: {size}, {len(self.columns):,} coefficients"


class RiskSets(NamedTuple):
    """The cases at risk at each time with an event, one set after the other."""

    case: Int64  # (n_entries,)
    lengths: Int64  # (n_sets,)
    events: Float64  # (n_entries,), 1 for a case that had the event at this time

    @property
    def starts(self) -> Int64:
        """The first entry of each set, shape (n_sets,)."""
        return np.cumsum(self.lengths) - self.lengths


def check_hazards(regression: Regression, matrix: Float64, names: list[str], target: str) -> "HazardCheck":
    """Check a Cox regression; ``matrix`` has a row for each case, with its columns ``names``."""
    if regression.counts is not None:
        raise UnsupportedOption("counts= is not supported for Cox regression; give one row for each case")
    size = len(matrix)
    time = read_column(regression.y, target)
    event = np.ones(size, bool) if regression.event is None else read_flags(regression.event)
    entry = None if regression.entry is None else read_column(regression.entry, "entry")
    strata = np.zeros(size, np.int64)
    if regression.strata is not None:
        strata = np.unique(as_list(regression.strata), return_inverse=True)[1].ravel()
    lengths = {len(column) for column in (time, event, strata, time if entry is None else entry)}
    if lengths != {size} or not event.any():
        raise InvalidSamples(
            f"a Cox regression needs a time, an event and a stratum for each of {size:,} cases, and at least "
            "one event; correct these columns"
        )
    risk = _find_risk_sets(time, event, strata, entry, matrix.shape[1])
    offset = None if regression.offset is None else np.asarray(regression.offset, np.float64)[risk.case]
    logit = ChoiceProblem.from_rows(matrix[risk.case], risk.lengths, risk.events, names=names, offsets=offset)
    has_ties = np.add.reduceat(risk.events, risk.starts) > 1
    ties = "events at one time count by Breslow's rule, which does not change which coefficients are infinite"
    return HazardCheck(
        fit=fit_certified(logit),
        target=target,
        columns=tuple(names),
        values=matrix,
        outcome=event,
        counts=np.ones(size),
        note=ties if has_ties.any() else "",
        risk=risk,
    )


# The risk sets of all events; ``width`` is the number of columns.
def _find_risk_sets(time: Float64, event: Any, strata: Int64, entry: Float64 | None, width: int) -> RiskSets:
    cases: list[Int64] = []
    events: list[Float64] = []
    n_numbers = 0  # in the rows of all sets
    for stratum in np.unique(strata[event]):
        latest_first = np.flatnonzero(strata == stratum)
        latest_first = latest_first[np.argsort(-time[latest_first], kind="stable")]
        for moment in np.unique(time[latest_first][event[latest_first]]):
            # at risk: whose time is not before the moment, and who has entered, by <= as in statsmodels
            case = latest_first[: np.searchsorted(-time[latest_first], -moment, side="right")]
            case = case if entry is None else case[entry[case] <= moment]
            n_numbers += len(case) * width
            if n_numbers > MOST_AT_RISK:
                raise InvalidSamples(
                    f"the risk sets of all events need more than {MOST_AT_RISK:,} numbers in memory; give "
                    "fewer columns or cases, or, if the model allows it, divide the cases with strata="
                )
            cases.append(case)
            events.append((event[case] & (time[case] == moment)).astype(np.float64))
    return RiskSets(np.concatenate(cases), np.array(list(map(len, cases))), np.concatenate(events))


@dataclass(frozen=True, eq=False, repr=False)
class HazardCheck(SeparationCheck):
    """The answer for a Cox regression; ``outcome`` says which cases had the event."""

    risk: RiskSets = field(kw_only=True)

    @cached_property
    def coefficients(self) -> tuple[Contrast, ...]:
        return tuple(replace(contrast, robust_error=None) for contrast in self.fit.contrasts)

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        several: list[str] = []
        single: list[str] = []
        for row in null_vectors(self.fit.problem, self.fit.identified):
            if np.count_nonzero(row) > 1:
                alias = describe_alias(row, self.columns)
                several.append(alias.replace("in every case", "up to a constant at each event"))
            else:
                name = self.columns[int(np.argmax(row != 0))]
                single.append(f"{name} does not vary between the cases at risk at any event")
        return (*several, *single)

    # Why a coefficient is infinite: at each event, the case had the extreme value at risk.
    def _tell(self, contrast: Contrast) -> str:
        column = self.values[:, self.columns.index(contrast.label)]
        sign = 1.0 if contrast.kind is ContrastKind.PLUS else -1.0
        at_risk = sign * column[self.risk.case]
        largest = np.repeat(np.maximum.reduceat(at_risk, self.risk.starts), self.risk.lengths)
        if (at_risk != largest)[self.risk.events > 0].any():
            return f"at {show_count(contrast.comparisons)} events, by several columns together"
        levels = np.unique(column)
        if len(levels) == 2:
            level = say_level(contrast.label, float(levels[1 if sign > 0 else 0]))
            return f"at each event with cases of both kinds at risk, it was a case with {level}"
        extreme = "largest" if sign > 0 else "smallest"
        return f"at each event, the case had the {extreme} {contrast.label} at risk"

    @property
    def _fault(self) -> str:
        return "monotone likelihood"

    @property
    def _head(self) -> str:
        size = f"{len(self.values):,} cases, {int(self.outcome.sum()):,} events"
        return f"Cox regression, log hazard of {self.target}: {size}, {len(self.columns):,} coefficients"
