"""Whether the maximum-likelihood estimate of a logistic regression exists, and which coefficients do not."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

import numpy as np
import pyarrow as pa

from attomaton.base.errors import InvalidSamples
from attomaton.base.frames import Tabular
from attomaton.base.options import show
from attomaton.base.printing import Block, Grid, list_words
from attomaton.base.tables import Bool, Float64, table_of
from attomaton.choices.columns import as_list, columns_of, is_frame
from attomaton.choices.logit.builders import binary_logit, multinomial_logit
from attomaton.choices.logit.centring import centre_columns
from attomaton.choices.logit.certificate import LogitState
from attomaton.choices.logit.contrasts import Contrast, ContrastKind
from attomaton.choices.logit.firth import FirthFit
from attomaton.choices.logit.fit import LogitFit, fit_logit
from attomaton.choices.logit.identification import null_vectors, relate, sparse_null_vectors
from attomaton.choices.logit.spans import span_of_vectors
from attomaton.choices.logit.summary import LogitSummary
from attomaton.choices.numbering import is_missing
from attomaton.corpora.readers.tables import library_of

INTERCEPT = "intercept"
"""What the column of ones that is added is called."""

INFINITE = {ContrastKind.PLUS: "+∞", ContrastKind.MINUS: "−∞"}

EXACT = 2**53
"""Up to this size every integer is a float64."""

MOST_CLASSES = 100
"""More labels than this are a measurement and no classes."""


def check_separation(
    X: Any,  # noqa: N803  the name that statsmodels and scikit-learn give it
    y: Any,
    names: Sequence[str] | None = None,
    *,
    intercept: bool = True,
    reference: Any = None,
    counts: Any = None,
) -> "SeparationCheck":
    """Whether the estimate of a logistic regression exists, and which of its coefficients are infinite.

    The maximum-likelihood estimate of a binary or multinomial logistic regression does not exist where the
    data are separated: some coefficients grow without bound. This decides it, with proof, for each
    coefficient.

    Parameters
    ----------
    X : array, list of rows, or frame of pandas, Polars or Arrow; shape (n_cases, n_columns)
        The explanatory variables, as numbers or truth values. A single column may stand alone.
    y : sequence
        The outcome of each case: any two or more labels.
    names : sequence of str, optional
        What the columns are called; those of the frame, or "x1", "x2", … if not given.
    intercept : bool
        Whether to add a column of ones. A column of ones in ``X`` takes its place.
    reference : label, optional
        The label whose coefficients are 0: the first in order if not given, as 0 before 1. The order of a
        pandas category is its own.
    counts : sequence of float, optional
        How often each case was observed, as in a table of counts. A case with 0 was not.

    Returns
    -------
    SeparationCheck
        Print it for an answer in words; ``.exists`` is the answer in short.

    Examples
    --------
    Whoever was treated recovered; of the others, one of three.

    >>> import attomaton as at
    >>> answer = at.check_separation({"treated": [0, 0, 0, 1, 1]}, [0, 1, 0, 1, 1])
    >>> answer.exists, answer.certified
    (False, True)
    >>> print(answer.explain())
    The estimate does not exist (quasi-complete separation): treated → +∞ (all 2 cases with treated = 1 had
    y = 1). The other coefficient is finite: intercept.
    """
    matrix, columns = _read_columns(X, names)
    labels, outcome = _read_labels(y, len(matrix))
    _check_index(X, y)
    times = np.ones(len(matrix)) if counts is None else _numbers(counts, "counts")
    if len(times) != len(matrix) or (times < 0).any() or not times.any():
        raise InvalidSamples(
            f"counts are one number for each of {len(matrix):,} cases, 0 or more and not all 0; mend them"
        )
    if not times.all():  # what was not observed is not there
        present, outcome = np.unique(outcome[times > 0], return_inverse=True)
        matrix, times = matrix[times > 0], times[times > 0]
        labels = tuple(labels[place] for place in present.tolist())
    target = str(getattr(y, "name", None) or "y")
    names_used, note = list(columns), ""
    if intercept:
        ones = np.flatnonzero((matrix == 1).all(axis=0)).tolist() if len(matrix) else []
        if ones:
            note = f"{columns[ones[0]]} is 1 in every case and serves as the intercept"
        else:
            matrix, names_used = np.column_stack([np.ones(len(matrix)), matrix]), [INTERCEPT, *columns]
    if len(set(names_used)) < len(names_used):
        twice = next(name for name in names_used if names_used.count(name) > 1)
        raise InvalidSamples(f"two columns are called {twice!r}; give each its own name with names=")
    if not names_used:
        raise InvalidSamples("there are no columns; give at least one, or intercept=True")
    base = _reference(labels, reference)
    if len(labels) <= 2:
        happened = outcome != base if base is not None else np.ones(len(outcome), bool)
        problem = binary_logit(matrix, happened, names=names_used, counts=times)
    else:
        words = [_word(label) for label in labels]
        kinds: list[str] = [words[k] for k in outcome.tolist()]
        problem = multinomial_logit(matrix, kinds, names=names_used, reference=words[base or 0], counts=times)
    fit = fit_logit(problem)
    if fit.state is LogitState.UNCERTIFIED:
        fit.expect()
    return SeparationCheck(
        fit=fit,
        labels=labels,
        reference=base,
        target=target,
        columns=tuple(names_used),
        values=matrix,
        outcome=outcome,
        counts=times,
        note=note,
    )


@dataclass(frozen=True, eq=False, repr=False)
class SeparationCheck(Tabular):
    """Which coefficients of a logistic regression are finite, and why others are not.

    Attributes
    ----------
    fit : LogitFit
        The fit behind it: finite part, bounds, contrasts, certificate.
    labels : tuple
        The labels of the outcome, in order.
    reference : int or None
        The number of the label whose coefficients are 0; None where the only label is another.
    target : str
        What the outcome is called.
    columns : tuple of str
        What the columns are called, the intercept included.
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
        """Whether the likelihood has a maximum; :attr:`unique` says whether it has one only."""
        return not self.fit.dying.any()

    @property
    def unique(self) -> bool:
        """Whether the estimate exists and every coefficient is identified."""
        return self.exists and not self.aliases

    @property
    def certified(self) -> bool:
        """Whether every answer is proved; else differences below 1e-8 decide, and were taken as none."""
        return self.fit.certificate.certified and all(one.certified for one in self.coefficients)

    @property
    def separation(self) -> str:
        """In the words of Albert and Anderson (1984): "complete", "quasi-complete" or "none" (overlap)."""
        return self.fit.separation

    @cached_property
    def coefficients(self) -> tuple[Contrast, ...]:
        """Each coefficient: finite, +inf, -inf, undecided or not identified."""
        if len(self.labels) <= 2:
            return self.fit.contrasts
        words = [_word(label) for place, label in enumerate(self.labels) if place != self.reference]
        return tuple(self.fit.contrast(f"{word}: {column}") for word in words for column in self.columns)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The class of each coefficient, by name."""
        return {one.label: one.kind.value for one in self.coefficients}

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
        return tuple(_alias(row, self.columns) for row in vectors)

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
        self.fit.problem.number(name)
        found = next(one for one in self.coefficients if one.label == name)
        if found.kind not in INFINITE:
            return ""
        kind, column, one = self._place(name)
        constant = bool(np.ptp(self.values[:, self.columns.index(column)]) == 0)
        told = "" if constant else self._tell_column(kind, column, one, found.kind)
        if told:
            return told
        cases = f"all {found.comparisons:,.12g} cases" if found.comparisons != 1 else "the case"
        bear = "bear" if found.comparisons != 1 else "bears"
        alone = constant or int((np.ptp(self.values, axis=0) > 0).sum()) == 1
        return f"in {cases} that {bear} on it" + ("" if alone else ", by several columns together")

    def _place(self, name: str) -> tuple[str, str, Bool]:
        """The class that a coefficient belongs to, its column, and which cases are in the class."""
        if len(self.labels) > 2:
            width = len(self.columns)
            number = self.fit.problem.number(name)
            kind, column = (
                name.removesuffix(f": {self.columns[number % width]}"),
                self.columns[number % width],
            )
            place = [_word(label) for label in self.labels].index(kind)
            return kind, column, np.asarray(self.outcome == place)
        return self._happening, name, np.asarray(self.outcome != self.reference)

    def _tell_column(self, kind: str, column: str, one: Bool, found: ContrastKind) -> str:
        """Two values of which one decides, or a threshold; empty if the column alone does not decide."""
        values, counts = self.values[:, self.columns.index(column)], self.counts
        if len(self.labels) > 2:  # only cases of the class and of the reference
            use = one | (self.outcome == self.reference)
            values, one, counts = values[use], one[use], counts[use]
            other = _word(self.labels[self.reference or 0])
            among = f"of the cases with {self.target} = {other} or {kind}, "
        else:
            other, among = self._other, ""
        if found is ContrastKind.MINUS:
            one, kind, other = ~one, other, kind
        levels = np.unique(values)
        if len(levels) < 2 or one.all() or not one.any():
            return ""
        shifted = bool(((np.ptp(self.values, axis=0) == 0) & (self.values[0] != 0)).any())
        if not shifted and ((values[one] < 0).any() or (values[~one] > 0).any()):
            return ""  # without an intercept the threshold is 0
        low, high = levels[0], levels[-1]
        if len(levels) == 2:
            sides = [(values == high, one, high, kind), (values == low, ~one, low, other)]
            told = [
                f"{_all(float(counts[side].sum()))} with {column} = {_shortest(level)} had "
                f"{self.target} = {label}"
                for side, right, level, label in sides
                if right[side].all()
            ]
            return among + " and ".join(told) if told else ""
        least, most = float(values[one].min()), float(values[~one].max())
        if least < most:
            return ""
        above = f"{among}every case with {column} > {_shortest(most)} had {self.target} = {kind}"
        if least > most:
            return f"{above}, every other {self.target} = {other}"
        return f"{above}, every one with {column} < {_shortest(most)} had {self.target} = {other}"

    @property
    def _happening(self) -> str:
        """The label whose odds the coefficients of two classes are about."""
        others = [label for place, label in enumerate(self.labels) if place != self.reference]
        return _word(others[0]) if others else f"other than {_word(self.labels[0])}"

    @property
    def _other(self) -> str:
        return "another label" if self.reference is None else _word(self.labels[self.reference])

    def explain(self) -> str:
        """The answer in words: one paragraph."""
        by = {kind: [one.label for one in self.coefficients if one.kind is kind] for kind in ContrastKind}
        parts = list[str]()
        if self.exists:
            parts.append(
                "The estimate exists, and every coefficient is finite."
                if self.unique
                else "The likelihood has a maximum, but not at one point only."
            )
        else:
            infinite = [
                f"{one.label} → {INFINITE[one.kind]} ({self.reason(one.label)})"
                for one in self.coefficients
                if one.kind in INFINITE
            ]
            said = f"The estimate does not exist ({self.separation} separation)"
            parts.append(f"{said}: {'; '.join(infinite)}." if infinite else f"{said}.")
        if len(self.labels) == 1:
            parts.append(f"Every case had {self.target} = {_word(self.labels[0])}: nothing is compared.")
        if by[ContrastKind.UNDECIDED]:
            many = len(by[ContrastKind.UNDECIDED]) > 1
            which = f"{list_words(by[ContrastKind.UNDECIDED])} {'are' if many else 'is'}"
            whole = f"with {'each of them' if many else 'it'} at any value"
            parts.append(f"{which} undecided: the likelihood comes as near to its supremum {whole}.")
        if by[ContrastKind.UNIDENTIFIED]:
            parts.append(f"Not identified: {list_words(by[ContrastKind.UNIDENTIFIED])}, because")
            parts[-1] += f" {'; '.join(self.aliases)}." if self.aliases else " the data do not bear on them."
        if by[ContrastKind.FINITE] and not self.unique:
            many = len(by[ContrastKind.FINITE]) > 1
            parts.append(
                f"The other coefficient{'s are' if many else ' is'} finite: "
                f"{list_words(by[ContrastKind.FINITE])}."
            )
        if not self.certified:
            parts.append(
                "Not proved: tiny differences (1e-8 of a column's scale and below) decide; taken as none."
            )
        return " ".join(parts)

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
            Whether to use the errors of the sandwich, statsmodels' HC0.

        Examples
        --------
        >>> import attomaton as at
        >>> summary = at.check_separation({"treated": [0, 0, 0, 1, 1]}, [0, 1, 0, 1, 1]).summary()
        >>> summary.to_pandas()[["coef", "std err", "z"]].round(3).values.tolist()
        [[-0.693, 1.225, -0.566], [inf, nan, nan]]
        >>> summary.readings[1]
        'all 2 cases with treated = 1 had y = 1; -0.552 or more (95 %)'
        """
        readings = tuple(self._read_off(one) for one in self.coefficients)
        notes = (*([f"{self.note}."] if self.note else []), self.fit.certificate.verdict)
        return LogitSummary(self._head, self.coefficients, readings, robust, notes)

    def firth(self) -> FirthFit:
        """The coefficients by Firth's penalised likelihood, finite and less biased, beside the maxima.

        Examples
        --------
        >>> import attomaton as at
        >>> fit = at.check_separation({"treated": [0, 0, 0, 1, 1]}, [0, 1, 0, 1, 1]).firth()
        >>> [round(end, 3) for end in fit.contrast("treated").interval()]
        [-1.117, 7.327]
        """
        return self.fit.firth()

    def _read_off(self, one: Contrast) -> str:
        """What is said beside a coefficient that is not finite."""
        if one.kind not in INFINITE:
            return one.reading
        return "; ".join(filter(None, [self.reason(one.label), one.bound_reading]))

    @property
    def _head(self) -> str:
        if len(self.labels) > 2:
            base = _word(self.labels[self.reference or 0])
            odds = f"log odds of {len(self.labels)} labels of {self.target} against {base}"
        else:
            odds = f"log odds of {self.target} = {self._happening} against {self._other}"
        size = f"{self.counts.sum():,.12g} cases"
        return f"Logistic regression, {odds}: {size}, {len(self.coefficients):,} coefficients"

    def _blocks(self) -> list[Block]:
        rows = [_cells(one) for one in self.coefficients]
        grid = Grid("", ["coefficient", "estimate", "s.e.", "95 % interval"], rows)
        notes = [f"{self.note}."] if self.note else []
        return [self._head, self.explain(), grid, *notes, self.fit.certificate.verdict]


def _cells(one: Contrast) -> list[str]:
    if one.kind is ContrastKind.FINITE:
        low, high = one.interval()
        return [one.label, f"{one.value:+.4f}", f"{one.standard_error:.4f}", f"{low:+.3f} … {high:+.3f}"]
    if one.kind in INFINITE:
        return [one.label, INFINITE[one.kind], "-", one.bound_reading.removesuffix(" (95 %)")]
    return [one.label, one.kind.value, "-", "-"]


def _word(label: Any) -> str:
    """A label as text; whole numbers without a point."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _all(count: float) -> str:
    return f"all {count:,.12g} cases" if count != 1 else "the one case"


def _shortest(value: float) -> str:
    """The shortest decimal number that is this float64 and no other."""
    if value == 0 or 1e-5 <= abs(value) < 1e17:
        return np.format_float_positional(value, trim="-")
    return repr(float(value))


def _alias(row: Float64, names: Sequence[str]) -> str:
    members = np.flatnonzero(row).tolist()
    if len(members) == 1:
        return f"{names[members[0]]} is 0 in every case"
    return f"{relate(row, names)} in every case"


class _Labels(NamedTuple):
    labels: tuple[Any, ...]
    outcome: Any


def _read_columns(given: Any, names: Sequence[str] | None) -> tuple[Float64, list[str]]:
    """The columns as numbers, and their names."""
    if is_frame(given):
        columns = columns_of(given)
    else:
        own = getattr(given, "name", None)
        _check_mask(given, "X")
        table: Any = given.toarray() if hasattr(given, "toarray") else given
        try:
            matrix: Any = np.asarray(table)
        except ValueError:
            matrix = np.zeros(())
        if matrix.ndim == 1:
            matrix = matrix[:, None]
        if matrix.ndim != 2:
            raise InvalidSamples("X is one row of numbers for each case, all of one length; mend it")
        labels = [str(own)] if own is not None and matrix.shape[1] == 1 else None
        labels = labels or [f"x{k + 1}" for k in range(matrix.shape[1])]
        columns = dict(zip(labels, matrix.T, strict=True))
    keys = [str(name) for name in columns]
    labels = keys if names is None else [str(name) for name in names]
    if len(labels) != len(keys):
        raise InvalidSamples(f"there are {len(keys)} columns and {len(labels)} names; name each column once")
    parts = [_numbers(column, name) for column, name in zip(columns.values(), labels, strict=True)]
    if len({len(part) for part in parts}) > 1:
        raise InvalidSamples("the columns are of different lengths; give one value for each case")
    return np.column_stack(parts) if parts else np.zeros((len(given), 0)), labels


def _check_mask(given: Any, name: str) -> None:
    """Refuse a numpy masked array with something masked: reading it would take what lies under the mask."""
    if np.ma.is_masked(given):
        row = int(np.argwhere(np.ma.getmaskarray(given))[0][0])
        raise InvalidSamples(f"{name} is masked in row {row}; drop such rows or fill them in")


def _numbers(column: Any, name: str) -> Float64:
    """A column as finite numbers."""
    if column is None:
        raise InvalidSamples(f"there are two columns {name!r}; rename one of them")
    plain: Any = np.asarray(column)
    if plain.dtype.kind in "biuf" and plain.ndim == 1 and np.isfinite(plain).all():
        if plain.dtype.kind in "iu" and plain.dtype.itemsize > 4:
            for row in np.flatnonzero((plain > EXACT) | (plain < -EXACT)).tolist():
                _check_integer(int(plain[row]), row, name)
        return plain.astype(np.float64)
    values = as_list(column)
    for row, value in enumerate(values):
        if isinstance(value, str):
            raise InvalidSamples(
                f"column {show(name)} holds text ({show(value)} in row {row}); make it numbers, such as a "
                "column of 0 and 1 for each level but one (in pandas: get_dummies(frame, drop_first=True))"
            )
        if is_missing(value):
            raise InvalidSamples(
                f"column {show(name)} is missing ({value!r}) in row {row}; drop such rows (in pandas: "
                "frame.dropna()) or fill them in"
            )
        if isinstance(value, int):
            _check_integer(value, row, name)
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros((0, 0))
    if numbers.ndim != 1:
        raise InvalidSamples(f"column {show(name)} holds something else than numbers; make it numbers")
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InvalidSamples(f"column {show(name)} is infinite in row {row}; drop the row or mend it")
    return numbers


def _check_integer(value: int, row: int, name: str) -> None:
    """Refuse an integer that float64 would round to another."""
    if abs(value) > EXACT and int(float(value)) != value:
        raise InvalidSamples(
            f"column {show(name)} is {value} in row {row}, more digits than float64 has; subtract the "
            "column's smallest value from all rows"
        )


def _read_labels(given: Any, size: int) -> _Labels:
    """The labels in order, and the number of each case's."""
    if is_frame(given):
        columns = list(columns_of(given).values())
        if len(columns) != 1:
            raise InvalidSamples("y is one column, the label of each case; pick it from the frame")
        given = columns[0]
    _check_mask(given, "y")
    dtype = getattr(given, "dtype", None) if library_of(given) == "pandas" else None
    levels: list[Any] = list(getattr(dtype, "categories", ()))  # the order of a pandas category
    values = as_list(given)
    if values and all(isinstance(value, list) and len(cast("list[Any]", value)) == 1 for value in values):
        values = [value[0] for value in values]  # a column of a matrix
    if len(values) != size:
        raise InvalidSamples(f"X has {size:,} cases and y {len(values):,}; give one label for each case")
    if not values:
        raise InvalidSamples("there are no cases; give at least one")
    try:
        distinct = set(values)
    except TypeError:
        raise InvalidSamples("y is one label for each case: a number, a text or a truth value") from None
    if any(map(is_missing, distinct)):
        row, value = next((row, value) for row, value in enumerate(values) if is_missing(value))
        raise InvalidSamples(
            f"y is missing ({value!r}) in row {row}; drop such rows (in pandas: frame.dropna())"
        )
    try:
        labels = [level for level in levels if level in distinct] or sorted(distinct)
    except TypeError:
        raise InvalidSamples("y has labels of different kinds; give all as numbers, or all as text") from None
    if len(labels) > MOST_CLASSES:
        raise InvalidSamples(
            f"y has {len(labels):,} different labels, which look like a measurement; give classes (at most "
            f"{MOST_CLASSES})"
        )
    share = next((label for label in labels if isinstance(label, float) and not label.is_integer()), None)
    if share is not None:
        raise InvalidSamples(
            f"y is {share} in row {values.index(share)}, a measurement or a share and not a class; give one "
            "class for each case, and repeat cases with counts="
        )
    number = {label: place for place, label in enumerate(labels)}
    return _Labels(tuple(labels), np.array([number[value] for value in values], np.int64))


def _check_index(given: Any, outcome: Any) -> None:
    """Refuse frames of pandas whose rows do not go together."""
    pair: list[Any] = [
        getattr(one, "index", None) if library_of(one) == "pandas" else None for one in (given, outcome)
    ]
    if pair[0] is not None and pair[1] is not None and not pair[0].equals(pair[1]):
        raise InvalidSamples(
            "X and y have different indexes, so it is not clear which rows go together; align them, or give "
            "y.to_numpy()"
        )


def _reference(labels: tuple[Any, ...], given: Any) -> int | None:
    """The number of the label whose coefficients are 0."""
    if given is not None:
        if given not in labels:
            raise InvalidSamples(f"no case has the label {show(given)}; the reference is one that occurs")
        return labels.index(given)
    if len(labels) == 1 and labels[0] and labels[0] != "0":
        return None  # every case had what the coefficients are about
    return 0
