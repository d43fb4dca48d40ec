"""Which coefficients of a logistic regression are finite, infinite with the reason, or open."""

# ``check_classes`` fits the regression; the ``SeparationCheck`` that it returns is the answer. A
# *case* is a row of the data, and a *label* a value of the outcome. The coefficients of the *reference* label
# are 0: those of each other label are log odds against it.

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
    """Fit a regression of labels; row i of ``matrix`` is a case that was observed ``times[i]`` times."""
    labels, outcome = read_labels(regression.y, len(matrix))
    observed = times > 0
    offset = None if regression.offset is None else regression.offset[observed]
    if not observed.all():
        present, outcome = np.unique(outcome[observed], return_inverse=True)
        labels = tuple(labels[index] for index in present.tolist())
        matrix, times = matrix[observed], times[observed]
    base = _find_reference(labels, reference)
    if len(labels) <= 2:
        happened = outcome != base if base is not None else np.ones(len(outcome), bool)
        problem = binary_logit(matrix, happened, names=names, counts=times)
    else:
        words = [_word(label) for label in labels]
        kinds: list[str] = [words[index] for index in outcome.tolist()]
        problem = multinomial_logit(matrix, kinds, names=names, reference=words[base or 0], counts=times)
    if offset is not None and offset.any():
        # a case has two alternatives, the other label and the reference; the offset is that of the first
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


def _find_reference(labels: tuple[Any, ...], label: Any) -> int | None:
    # the index of the reference label; the first by default, None if the only label is another one
    if label is not None:
        if label not in labels:
            raise InvalidSamples(f"no case has the reference label {show(label)}; give another label")
        return labels.index(label)
    if len(labels) == 1 and labels[0] and labels[0] != "0":
        return None  # every case had the label whose log odds the coefficients add up to
    return 0


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
        if not self._is_multinomial:
            return self.fit.contrasts
        words = [_word(label) for index, label in enumerate(self.labels) if index != self.reference]
        return tuple(self.fit.contrast(f"{word}: {column}") for word in words for column in self.columns)

    @property
    def _is_multinomial(self) -> bool:
        return len(self.labels) > 2  # there are no labels in regressions of counts and times

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each coefficient as text, by its name."""
        return {contrast.label: contrast.kind.value for contrast in self.coefficients}

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        """Which columns follow from others in every case; empty if all coefficients are identified."""
        if self._is_multinomial:  # the problem has every column once for each label: use the columns here
            values, centring = centre_columns(self.values)
            # 1e-300: a column of zeros is not divided by 0
            spread = np.maximum(np.abs(values).max(axis=0, initial=0.0), 1e-300)
            span = span_of_vectors(values / spread, len(self.columns))
            vectors = centring.parameters(sparse_null_vectors(span.complement, spread).T).T
        else:
            vectors = null_vectors(self.fit.problem, self.fit.identified)
        return tuple(describe_alias(vector, self.columns) for vector in vectors)

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
        # why a coefficient is infinite: what its column alone decides, or how many cases bear on it
        cases = self._compared_cases(contrast.label)
        label, reference = cases.labels
        if contrast.kind is ContrastKind.MINUS:
            cases = cases.swapped
        varies = np.ptp(self.values, axis=0) > 0
        is_constant = not varies[self.columns.index(cases.column)]
        reason = "" if is_constant else self._describe_column(cases)
        if reason:
            among = f"of the cases with {self.target} = {reference} or {label}, "
            return among * self._is_multinomial + reason
        single = contrast.comparisons == 1
        evidence = (
            "the case that bears" if single else f"all {show_count(contrast.comparisons)} cases that bear"
        )
        alone = is_constant or int(varies.sum()) == 1
        return f"in {evidence} on it" + ("" if alone else ", by several columns together")

    # The column of a coefficient in the cases that it compares, first those with its own label.
    def _compared_cases(self, name: str) -> LabelledCases:
        if not self._is_multinomial:
            column, labels = name, (self._happening, self._reference_label)
            has_label, use = self.outcome != self.reference, slice(None)
        else:  # the name is "label: column", and the columns are in one order for each label
            column = self.columns[self.fit.problem.number(name) % len(self.columns)]
            labels = name.removesuffix(f": {column}"), self._reference_label
            has_label = self.outcome == [_word(label) for label in self.labels].index(labels[0])
            use = has_label | (self.outcome == self.reference)
        values = self.values[use, self.columns.index(column)]
        return LabelledCases(column, values, self.counts[use], has_label[use], self.target, labels)

    # How the column alone decides the label; empty if it does not.
    def _describe_column(self, cases: LabelledCases) -> str:
        values, has_first = cases.values, cases.has_first
        n_levels = len(np.unique(values))
        if n_levels < 2 or has_first.all() or not has_first.any():
            return ""
        has_constant = bool(((np.ptp(self.values, axis=0) == 0) & (self.values[0] != 0)).any())
        if not has_constant and ((values[has_first] < 0).any() or (values[~has_first] > 0).any()):
            return ""  # without an intercept the threshold is 0
        return cases.describe_levels() if n_levels == 2 else cases.describe_threshold()

    # The label whose log odds the coefficients add up to, of two labels.
    @property
    def _happening(self) -> str:
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
        columns = {
            "coefficient": [row.label for row in rows],
            "kind": [row.kind.value for row in rows],
            "estimate": [row.value for row in rows],
            "standard_error": [row.standard_error for row in rows],
            "bound": [row.bound for row in rows],
            "cases": [row.comparisons for row in rows],
            "reason": [self.reason(row.label) for row in rows],
            "certified": [row.certified for row in rows],
        }
        return table_of(columns)

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

    # The words in place of the numbers of a coefficient that is not finite.
    def _read_off(self, contrast: Contrast) -> str:
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
        rows = [_cells_of_contrast(contrast) for contrast in self.coefficients]
        grid = Grid("", ["coefficient", "estimate", "s.e.", "95 % interval"], rows)
        notes = [f"{self.note}."] if self.note else []
        return [self._head, self.explain(), grid, *notes, self.fit.certificate.verdict]


def _cells_of_contrast(contrast: Contrast) -> list[str]:
    # a coefficient as printed: name, estimate, standard error, and interval, bound or kind
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


# A label as text; whole numbers without a point.
def _word(label: Any) -> str:
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def describe_alias(vector: Float64, names: Sequence[str]) -> str:
    """The equation between columns whose sum with these weights is 0 in every case."""
    members = np.flatnonzero(vector).tolist()
    if len(members) == 1:
        return f"{names[members[0]]} is 0 in every case"
    return f"{relate(vector, names)} in every case"
