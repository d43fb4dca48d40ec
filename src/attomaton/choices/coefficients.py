"""What is known of each coefficient of a regression: finite, infinite with the reason, or open."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import show
from attomaton.base.printing import Block, Grid, list_words, show_count
from attomaton.base.tables import Bool, Float64, table_of
from attomaton.choices.design import DUMMY, Regression, read_labels
from attomaton.choices.logit.builders import binary_logit, multinomial_logit
from attomaton.choices.logit.centring import centre_columns
from attomaton.choices.logit.certificate import LogitState
from attomaton.choices.logit.contrasts import Contrast, ContrastKind
from attomaton.choices.logit.firth import FirthFit
from attomaton.choices.logit.fit import LogitFit, fit_logit
from attomaton.choices.logit.identification import null_vectors, relate, sparse_null_vectors
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import span_of_vectors
from attomaton.choices.logit.summary import LogitSummary

INFINITE = {ContrastKind.PLUS: "+∞", ContrastKind.MINUS: "−∞"}


def check_classes(
    regression: Regression,
    matrix: Float64,
    names: list[str],
    target: str,
    times: Float64,
    reference: Any,
    note: str,
) -> "SeparationCheck":
    """A binary or multinomial logistic regression."""
    labels, outcome = read_labels(regression.y, len(matrix))
    offset = None if regression.offset is None else regression.offset[times > 0]
    if not times.all():  # what was not observed is not there
        present, outcome = np.unique(outcome[times > 0], return_inverse=True)
        matrix, times = matrix[times > 0], times[times > 0]
        labels = tuple(labels[index] for index in present.tolist())
    base = _reference(labels, reference)
    if len(labels) <= 2:
        happened = outcome != base if base is not None else np.ones(len(outcome), bool)
        problem = binary_logit(matrix, happened, names=names, counts=times)
    else:
        words = [_word(label) for label in labels]
        kinds: list[str] = [words[k] for k in outcome.tolist()]
        problem = multinomial_logit(matrix, kinds, names=names, reference=words[base or 0], counts=times)
    if offset is not None and offset.any():  # of the first of two alternatives, for the label that happened
        problem = replace(problem, offsets=np.column_stack([offset, np.zeros(len(offset))]).ravel())
    return SeparationCheck(
        fit=fit_certified(problem),
        labels=labels,
        reference=base,
        target=target,
        columns=tuple(names),
        values=matrix,
        outcome=outcome,
        counts=times,
        note=note,
    )


def fit_certified(problem: ChoiceProblem) -> LogitFit:
    """The fit of a problem, whose classes are proved, perhaps with small differences taken as none."""
    fit = fit_logit(problem)
    return fit.expect() if fit.state is LogitState.UNCERTIFIED else fit


@dataclass(frozen=True, eq=False, repr=False)
class SeparationCheck(Tabular):
    """Which coefficients of a logistic regression are finite, and why others are not.

    Attributes
    ----------
    fit : LogitFit
        The underlying fit: finite part, bounds, contrasts, certificate.
    labels : tuple
        The labels of the outcome, in order.
    reference : int or None
        The number of the label whose coefficients are 0; None if that label does not occur.
    target : str
        The name of the outcome.
    columns : tuple of str
        The names of the columns, including the intercept.
    values : float64 array, shape (n_cases, n_columns)
        The columns.
    outcome : int64 array, shape (n_cases,)
        The number of the label of each case.
    counts : float64 array, shape (n_cases,)
        How often each case was observed.
    note : str
        What was done with the columns, if anything.

    Examples
    --------
    >>> import attomaton as at
    >>> answer = at.check_separation([-2, -1, 1, 2], [0, 0, 1, 1], names=["dose"])
    >>> answer.separation, answer.kinds
    ('complete', {'intercept': 'undecided', 'dose': '+inf'})
    >>> answer.to_pandas()[["coefficient", "kind", "cases"]].values.tolist()
    [['intercept', 'undecided', 0.0], ['dose', '+inf', 4.0]]
    """

    fit: LogitFit
    labels: tuple[Any, ...]
    reference: int | None
    target: str
    columns: tuple[str, ...]
    values: Float64
    outcome: Any
    counts: Float64
    note: str = ""

    def __repr__(self) -> str:
        return str(self)

    @property
    def exists(self) -> bool:
        """Whether the likelihood has a maximum; :attr:`unique` says whether it has only one."""
        return not self.fit.dying.any()

    @property
    def unique(self) -> bool:
        """Whether the estimate exists and every coefficient is identified."""
        return self.exists and not self.aliases

    @property
    def certified(self) -> bool:
        """Whether every answer is proved; if not, some answer took differences below 1e-8 as 0."""
        return self.fit.certificate.certified and all(contrast.certified for contrast in self.coefficients)

    @property
    def separation(self) -> str:
        """The kind by Albert and Anderson (1984): "complete", "quasi-complete" or "none" (overlap)."""
        return self.fit.separation

    @cached_property
    def coefficients(self) -> tuple[Contrast, ...]:
        """A contrast for each coefficient: finite, +inf, -inf, undecided or not identified."""
        if len(self.labels) <= 2:
            return self.fit.contrasts
        words = [_word(label) for index, label in enumerate(self.labels) if index != self.reference]
        return tuple(self.fit.contrast(f"{word}: {column}") for word in words for column in self.columns)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The class of each coefficient, by name."""
        return {contrast.label: contrast.kind.value for contrast in self.coefficients}

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        """Which columns follow from others in every case; empty if all coefficients are identified."""
        if len(self.fit.problem.names) > len(self.columns):  # the same columns once for each class
            values, centring = centre_columns(self.values)
            spread = np.maximum(np.abs(values).max(axis=0, initial=0.0), 1e-300)
            span = span_of_vectors(values / spread, len(self.columns))
            vectors = centring.parameters(sparse_null_vectors(span.complement, spread).T).T
        else:
            vectors = null_vectors(self.fit.problem, self.fit.identified)
        return tuple(describe_alias(row, self.columns) for row in vectors)

    def expect(self) -> Self:
        """Return the answer itself if it is proved; raise ``UncertifiedSolution`` if not."""
        self.fit.expect()
        return self

    def reason(self, name: str) -> str:
        """Why the coefficient ``name`` is infinite, in the terms of its column; empty if it is not.

        Examples
        --------
        >>> import attomaton as at
        >>> at.check_separation([1, 2, 3, 4], [0, 0, 1, 1], names=["dose"]).reason("dose")
        'every case with dose > 2 had y = 1, every other y = 0'
        """
        named = next((contrast for contrast in self.coefficients if contrast.label == name), None)
        if named is None:
            self.fit.problem.number(name)  # which says what there is
        if named is None or named.kind not in INFINITE:
            return ""
        return self._tell(named)

    def _tell(self, contrast: Contrast) -> str:
        """Why a coefficient is infinite."""
        kind, column, is_of_class = self._locate(contrast.label)
        constant = bool(np.ptp(self.values[:, self.columns.index(column)]) == 0)
        reason = "" if constant else self._tell_column(kind, column, is_of_class, contrast.kind)
        if reason:
            return reason
        cases = f"all {show_count(contrast.comparisons)} cases" if contrast.comparisons != 1 else "the case"
        bear = "bear" if contrast.comparisons != 1 else "bears"
        alone = constant or int((np.ptp(self.values, axis=0) > 0).sum()) == 1
        return f"in {cases} that {bear} on it" + ("" if alone else ", by several columns together")

    def _locate(self, name: str) -> tuple[str, str, Bool]:
        """The class that a coefficient belongs to, its column, and which cases are in the class."""
        if len(self.labels) > 2:
            width = len(self.columns)
            number = self.fit.problem.number(name)
            kind, column = (
                name.removesuffix(f": {self.columns[number % width]}"),
                self.columns[number % width],
            )
            index = [_word(label) for label in self.labels].index(kind)
            return kind, column, np.asarray(self.outcome == index)
        return self._happening, name, np.asarray(self.outcome != self.reference)

    def _tell_column(self, kind: str, column: str, is_of_class: Bool, sign: ContrastKind) -> str:
        """Two values of which one decides, or a threshold; empty if the column alone does not decide."""
        values, counts = self.values[:, self.columns.index(column)], self.counts
        if len(self.labels) > 2:  # only cases of the class and of the reference
            use = is_of_class | (self.outcome == self.reference)
            values, is_of_class, counts = values[use], is_of_class[use], counts[use]
            other_label = _word(self.labels[self.reference or 0])
            among = f"of the cases with {self.target} = {other_label} or {kind}, "
        else:
            other_label, among = self._reference_label, ""
        if sign is ContrastKind.MINUS:
            is_of_class, kind, other_label = ~is_of_class, other_label, kind
        levels = np.unique(values)
        if len(levels) < 2 or is_of_class.all() or not is_of_class.any():
            return ""
        shifted = bool(((np.ptp(self.values, axis=0) == 0) & (self.values[0] != 0)).any())
        if not shifted and ((values[is_of_class] < 0).any() or (values[~is_of_class] > 0).any()):
            return ""  # without an intercept the threshold is 0
        low, high = levels[0], levels[-1]
        if len(levels) == 2:
            sides = [
                (values == high, is_of_class, high, kind),
                (values == low, ~is_of_class, low, other_label),
            ]
            clauses = [
                f"{count_cases(float(counts[side].sum()))} with {say_level(column, level)} had "
                f"{self.target} = {label}"
                for side, right, level, label in sides
                if right[side].all()
            ]
            return among + " and ".join(clauses) if clauses else ""
        least, most = float(values[is_of_class].min()), float(values[~is_of_class].max())
        if least < most:
            return ""
        border = shortest(_short_border(most, least) if least > most else most)
        above = f"{among}every case with {column} > {border} had {self.target} = {kind}"
        if least > most:
            return f"{above}, every other {self.target} = {other_label}"
        return f"{above}, every one with {column} < {border} had {self.target} = {other_label}"

    @property
    def _happening(self) -> str:
        """The label whose odds the coefficients of two classes are about."""
        labels = [label for index, label in enumerate(self.labels) if index != self.reference]
        return _word(labels[0]) if labels else f"other than {_word(self.labels[0])}"

    @property
    def _fault(self) -> str:
        return f"{self.separation} separation"

    @property
    def _reference_label(self) -> str:
        return "another label" if self.reference is None else _word(self.labels[self.reference])

    def explain(self) -> str:
        """The answer in words: one paragraph."""
        by = {
            kind: [contrast.label for contrast in self.coefficients if contrast.kind is kind]
            for kind in ContrastKind
        }
        sentences = list[str]()
        if self.exists:
            sentences.append(
                "The estimate exists, and every coefficient is finite."
                if self.unique
                else "The likelihood has its maximum at more than one point."
            )
        else:
            infinite = [
                f"{contrast.label} → {INFINITE[contrast.kind]} ({self.reason(contrast.label)})"
                for contrast in self.coefficients
                if contrast.kind in INFINITE
            ]
            fault = f"The estimate does not exist ({self._fault})"
            sentences.append(f"{fault}: {'; '.join(infinite)}." if infinite else f"{fault}.")
        if len(self.labels) == 1:
            sentences.append(
                f"Every case had {self.target} = {_word(self.labels[0])}, so there is nothing to compare."
            )
        if by[ContrastKind.UNDECIDED]:
            many = len(by[ContrastKind.UNDECIDED]) > 1
            which = f"{list_words(by[ContrastKind.UNDECIDED])} {'are' if many else 'is'}"
            whole = f"with {'each of them' if many else 'it'} at any value"
            sentences.append(f"{which} undecided: the likelihood comes as near to its supremum {whole}.")
        if by[ContrastKind.UNIDENTIFIED]:
            sentences.append(f"Not identified: {list_words(by[ContrastKind.UNIDENTIFIED])}, because")
            sentences[-1] += (
                f" {'; '.join(self.aliases)}." if self.aliases else " the data do not bear on them."
            )
        if by[ContrastKind.FINITE] and not self.unique:
            many = len(by[ContrastKind.FINITE]) > 1
            sentences.append(
                f"The other coefficient{'s are' if many else ' is'} finite: "
                f"{list_words(by[ContrastKind.FINITE])}."
            )
        if not self.certified:
            sentences.append(
                "Not proved: the answer depends on differences of at most 1e-8 of a column's scale, which "
                "were taken as 0."
            )
        return " ".join(sentences)

    def _table(self) -> pa.Table:
        rows = self.coefficients
        return table_of(
            {
                "coefficient": [row.label for row in rows],
                "kind": [row.kind.value for row in rows],
                "estimate": [row.value for row in rows],
                "standard_error": [row.standard_error for row in rows],
                "bound": [row.bound for row in rows],
                "cases": [row.comparisons for row in rows],
                "reason": [self.reason(row.label) for row in rows],
                "certified": [row.certified for row in rows],
            }
        )

    def summary(self, *, robust: bool = False) -> LogitSummary:
        """Each coefficient with the columns that statsmodels prints, infinite ones in words with their bound.

        Parameters
        ----------
        robust : bool
            Whether to use sandwich standard errors, statsmodels' HC0; for logistic regression only.

        Examples
        --------
        >>> import attomaton as at
        >>> summary = at.check_separation({"treated": [0, 0, 0, 1, 1]}, [0, 1, 0, 1, 1]).summary()
        >>> summary.to_pandas()[["coef", "std err", "z"]].round(3).values.tolist()
        [[-0.693, 1.225, -0.566], [inf, nan, nan]]
        >>> summary.readings[1]
        'all 2 cases with treated = 1 had y = 1; -0.552 or more (95 %)'
        """
        if robust and not self.labels:
            raise UnsupportedOption("robust errors are for logistic regression; leave robust out")
        readings = tuple(self._read_off(contrast) for contrast in self.coefficients)
        notes = (*([f"{self.note}."] if self.note else []), self.fit.certificate.verdict)
        return LogitSummary(self._head, self.coefficients, readings, robust, notes)

    def firth(self) -> FirthFit:
        """The coefficients by Firth's penalised likelihood (finite, less biased), beside those without it.

        Examples
        --------
        >>> import attomaton as at
        >>> fit = at.check_separation({"treated": [0, 0, 0, 1, 1]}, [0, 1, 0, 1, 1]).firth()
        >>> [round(end, 3) for end in fit.contrast("treated").interval()]
        [-1.117, 7.327]
        """
        return self.fit.firth()

    def _read_off(self, contrast: Contrast) -> str:
        """What is said beside a coefficient that is not finite."""
        if contrast.kind not in INFINITE:
            return contrast.reading
        return "; ".join(filter(None, [self.reason(contrast.label), contrast.bound_reading]))

    @property
    def _head(self) -> str:
        if len(self.labels) > 2:
            base = _word(self.labels[self.reference or 0])
            odds = f"log odds of {len(self.labels)} labels of {self.target} against {base}"
        else:
            odds = f"log odds of {self.target} = {self._happening} against {self._reference_label}"
        size = f"{show_count(self.counts.sum())} cases"
        return f"Logistic regression, {odds}: {size}, {len(self.coefficients):,} coefficients"

    def _blocks(self) -> list[Block]:
        rows = [_cells(contrast) for contrast in self.coefficients]
        grid = Grid("", ["coefficient", "estimate", "s.e.", "95 % interval"], rows)
        notes = [f"{self.note}."] if self.note else []
        return [self._head, self.explain(), grid, *notes, self.fit.certificate.verdict]


def _cells(contrast: Contrast) -> list[str]:
    if contrast.kind is ContrastKind.FINITE:
        low, high = contrast.interval()
        return [
            contrast.label,
            f"{contrast.value:+z.4f}",
            f"{contrast.standard_error:.4f}",
            f"{low:+z.3f} … {high:+z.3f}",
        ]
    if contrast.kind in INFINITE:
        return [contrast.label, INFINITE[contrast.kind], "-", contrast.bound_reading.removesuffix(" (95 %)")]
    return [contrast.label, contrast.kind.value, "-", "-"]


def _word(label: Any) -> str:
    """A label as text; whole numbers without a point."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def count_cases(count: float) -> str:
    """How many cases there are, in words."""
    return f"all {show_count(count)} cases" if count != 1 else "the one case"


def say_level(column: str, level: float) -> str:
    """A column with its value, or the level that a column of 0 and 1 stands for."""
    dummy = DUMMY.fullmatch(column)
    if dummy is None:
        return f"{column} = {shortest(level)}"
    return f"{dummy[1]} = {dummy[2]}" if level == 1 else f"{dummy[1]} other than {dummy[2]}"


def _short_border(low: float, high: float) -> float:
    """A number with few digits, at least ``low`` and below ``high``."""
    rounded = (float(f"{value:.{digits}g}") for digits in range(1, 18) for value in (low, (low + high) / 2))
    return next(value for value in rounded if low <= value < high)


def shortest(value: float) -> str:
    """The shortest decimal number that is this float64 and no other."""
    if value == 0 or 1e-5 <= abs(value) < 1e17:
        return np.format_float_positional(value, trim="-")
    return repr(float(value))


def describe_alias(row: Float64, names: Sequence[str]) -> str:
    """A null vector as a sentence about columns."""
    members = np.flatnonzero(row).tolist()
    if len(members) == 1:
        return f"{names[members[0]]} is 0 in every case"
    return f"{relate(row, names)} in every case"


def _reference(labels: tuple[Any, ...], label: Any) -> int | None:
    """The number of the label whose coefficients are 0."""
    if label is not None:
        if label not in labels:
            raise InvalidSamples(
                f"no case has the label {show(label)}; as the reference, give a label that some case has"
            )
        return labels.index(label)
    if len(labels) == 1 and labels[0] and labels[0] != "0":
        return None  # every case had what the coefficients are about
    return 0
