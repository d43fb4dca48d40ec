"""Which coefficients of a logistic regression are finite, infinite with the reason, or open."""

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
from attomaton.base.tables import Float64, table_of
from attomaton.choices.design import Regression, read_labels
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
from attomaton.choices.reasons import LabelledCases

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
    labels, outcome = read_labels(regression.y, len(matrix))
    offset = None if regression.offset is None else regression.offset[times > 0]
    if not times.all():  # leave out cases that were not observed
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
    if offset is not None and offset.any():  # of the first of two alternatives: the label is not the base
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
    """Fit a problem; raise ``UncertifiedSolution`` without a proof, unless small differences count as 0."""
    fit = fit_logit(problem)
    return fit.expect() if fit.state is LogitState.UNCERTIFIED else fit


@dataclass(frozen=True, eq=False, repr=False)
class SeparationCheck(Tabular):
    """Which coefficients of a logistic regression are finite, and why others are not.

    Attributes
    ----------
    fit : LogitFit
        The underlying fit: estimates, bounds, contrasts, certificate.
    target : str
        The name of the outcome.
    columns : tuple of str
        The names of the columns, including the intercept.
    values : float64 array, shape (n_cases, n_columns)
        The columns.
    outcome : int64 array, shape (n_cases,)
        The index of the label of each case.
    counts : float64 array, shape (n_cases,)
        How often each case was observed.
    labels : tuple
        The labels of the outcome, in order.
    reference : int or None
        The index of the label whose coefficients are 0; None if that label does not occur.
    note : str
        A printed remark about the columns.

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
    target: str
    columns: tuple[str, ...]
    values: Float64
    outcome: Any
    counts: Float64
    labels: tuple[Any, ...] = ()
    reference: int | None = None
    note: str = ""

    def __repr__(self) -> str:
        return str(self)

    @property
    def exists(self) -> bool:
        """Whether the likelihood has a maximum."""
        return not self.fit.dying.any()

    @property
    def unique(self) -> bool:
        """Whether the estimate exists and every coefficient is identified."""
        return self.exists and not self.aliases

    @property
    def certified(self) -> bool:
        """Whether every answer is proved; if not, differences below 1e-8 counted as 0 in some answer."""
        return self.fit.certificate.certified and all(contrast.certified for contrast in self.coefficients)

    @property
    def separation(self) -> str:
        """The kind of separation (Albert and Anderson 1984): "complete", "quasi-complete" or "none"."""
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
        """Why the coefficient ``name`` is infinite, in terms of its column; empty if it is not."""
        contrast = next((contrast for contrast in self.coefficients if contrast.label == name), None)
        if contrast is None:
            self.fit.problem.number(name)  # raises an error that lists the names
        return "" if contrast is None or contrast.kind not in INFINITE else self._tell(contrast)

    def _tell(self, contrast: Contrast) -> str:
        column, among, cases = self._cases_of(contrast.label)
        if contrast.kind is ContrastKind.MINUS:
            cases = cases.swapped
        is_constant = bool(np.ptp(self.values[:, self.columns.index(column)]) == 0)
        reason = "" if is_constant else self._describe_column(cases)
        if reason:
            return among + reason
        single = contrast.comparisons == 1
        evidence = (
            "the case that bears" if single else f"all {show_count(contrast.comparisons)} cases that bear"
        )
        alone = is_constant or int((np.ptp(self.values, axis=0) > 0).sum()) == 1
        return f"in {evidence} on it" + ("" if alone else ", by several columns together")

    def _cases_of(self, name: str) -> tuple[str, str, LabelledCases]:
        """The column of a coefficient, words for the cases that it is about, and these cases."""
        if len(self.labels) <= 2:
            labels, has_label = (self._happening, self._reference_label), self.outcome != self.reference
            values = self.values[:, self.columns.index(name)]
            return name, "", LabelledCases(name, values, self.counts, has_label, self.target, labels)
        column = self.columns[self.fit.problem.number(name) % len(self.columns)]
        label, reference = name.removesuffix(f": {column}"), _word(self.labels[self.reference or 0])
        has_label = self.outcome == [_word(label) for label in self.labels].index(label)
        use = has_label | (self.outcome == self.reference)
        values = self.values[use, self.columns.index(column)]
        among = f"of the cases with {self.target} = {reference} or {label}, "
        counts, labels = self.counts[use], (label, reference)
        return column, among, LabelledCases(column, values, counts, has_label[use], self.target, labels)

    def _describe_column(self, cases: LabelledCases) -> str:
        """How the column alone decides the label; empty if it does not."""
        values, has_first = cases.values, cases.has_first
        n_levels = len(np.unique(values))
        if n_levels < 2 or has_first.all() or not has_first.any():
            return ""
        has_constant = bool(((np.ptp(self.values, axis=0) == 0) & (self.values[0] != 0)).any())
        if not has_constant and ((values[has_first] < 0).any() or (values[~has_first] > 0).any()):
            return ""  # without an intercept the threshold is 0
        return cases.describe_levels() if n_levels == 2 else cases.describe_threshold()

    @property
    def _happening(self) -> str:
        """The label whose log odds the coefficients add up to, of two labels."""
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
        sentences = [self._say_existence()]
        if len(self.labels) == 1:
            only = _word(self.labels[0])
            sentences.append(f"Every case had {self.target} = {only}, so there is nothing to compare.")
        undecided = self._names_of(ContrastKind.UNDECIDED)
        if undecided:
            are, it = ("are", "each of them") if len(undecided) > 1 else ("is", "it")
            sentences.append(
                f"{list_words(undecided)} {are} undecided: the likelihood comes as near to its supremum with "
                f"{it} at any value."
            )
        unidentified = self._names_of(ContrastKind.UNIDENTIFIED)
        if unidentified:
            reason = "; ".join(self.aliases) or "the data do not bear on them"
            sentences.append(f"Not identified: {list_words(unidentified)}, because {reason}.")
        finite = self._names_of(ContrastKind.FINITE)
        if finite and not self.unique:
            verb = "s are" if len(finite) > 1 else " is"
            sentences.append(f"The other coefficient{verb} finite: {list_words(finite)}.")
        if not self.certified:
            sentences.append(
                "Not proved: the answer depends on differences of at most 1e-8 of a column's scale, which "
                "were taken as 0."
            )
        return " ".join(sentences)

    def _say_existence(self) -> str:
        if self.unique:
            return "The estimate exists, and every coefficient is finite."
        if self.exists:
            return "The likelihood has its maximum at more than one point."
        infinite = [
            f"{contrast.label} → {INFINITE[contrast.kind]} ({self.reason(contrast.label)})"
            for contrast in self.coefficients
            if contrast.kind in INFINITE
        ]
        fault = f"The estimate does not exist ({self._fault})"
        return f"{fault}: {'; '.join(infinite)}." if infinite else f"{fault}."

    def _names_of(self, kind: ContrastKind) -> list[str]:
        return [contrast.label for contrast in self.coefficients if contrast.kind is kind]

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
        """The table that statsmodels prints, with reasons and bounds of infinite coefficients in words.

        ``robust`` uses sandwich standard errors (HC0), for logistic regression only.
        """
        if robust and not self.labels:
            raise UnsupportedOption("robust errors are for logistic regression only; leave robust out")
        readings = tuple(self._read_off(contrast) for contrast in self.coefficients)
        notes = (*([f"{self.note}."] if self.note else []), self.fit.certificate.verdict)
        return LogitSummary(self._head, self.coefficients, readings, robust, notes)

    def firth(self) -> FirthFit:
        """The coefficients by Firth's penalised likelihood, which are finite and less biased."""
        return self.fit.firth()

    def _read_off(self, contrast: Contrast) -> str:
        """The words in place of the numbers of a coefficient that is not finite."""
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


def describe_alias(row: Float64, names: Sequence[str]) -> str:
    members = np.flatnonzero(row).tolist()
    if len(members) == 1:
        return f"{names[members[0]]} is 0 in every case"
    return f"{relate(row, names)} in every case"


def _reference(labels: tuple[Any, ...], label: Any) -> int | None:
    if label is not None:
        if label not in labels:
            raise InvalidSamples(f"no case has the reference label {show(label)}; give another label")
        return labels.index(label)
    if len(labels) == 1 and labels[0] and labels[0] != "0":
        return None  # every case had the label whose log odds the coefficients add up to
    return 0
