"""Read the data of a regression from arrays, frames, formulas or fits of other libraries."""

# ``Regression.read`` resolves a formula or a fit. ``read_regressors`` then makes a matrix with named
# columns, ``read_column`` reads one column of numbers, and ``read_labels`` the labels of the cases.

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, cast

import numpy as np

from attomaton.base.errors import InvalidSamples, UnsupportedOption, needing
from attomaton.base.options import show
from attomaton.base.tables import Float64
from attomaton.choices.columns import as_list, columns_of, find_column, is_frame
from attomaton.choices.numbering import is_missing
from attomaton.corpora.readers.tables import library_of

EXACT = 2**53  # up to this size every integer is a float64

MOST_CLASSES = 100  # more labels than this are a measurement, not classes

# The name of a dummy column, as formulaic and patsy write it.
DUMMY = re.compile(r"(.+)\[(?:T\.)?([^\]]+)\]")

# Class of a statsmodels model, with family and link → our model.
STATSMODELS = {
    "Logit": "logit",
    "MNLogit": "logit",
    "Poisson": "poisson",
    "PHReg": "cox",
    "GLM Binomial Logit": "logit",
    "GLM Poisson Log": "poisson",
}


class Regression(NamedTuple):
    """The data of a regression as supplied; ``X`` is a matrix, a frame, a formula or a fit of statsmodels.

    ``y`` is the outcome, or the frame of a formula; ``target`` is the name of the outcome. ``model`` is
    "logit", "poisson", "cox" or a fitted estimator of scikit-learn.
    """

    X: Any
    y: Any = None
    names: Sequence[str] | None = None
    model: Any = "logit"
    intercept: bool = True
    counts: Any = None
    event: Any = None
    strata: Any = None
    entry: Any = None
    offset: Any = None
    target: str = ""

    def read(self) -> "Regression":
        """Replace a formula or a fit by its matrix and outcome."""
        if isinstance(self.X, str):
            return self._read_formula()
        if library_of(self.X) == "statsmodels":
            return self._read_statsmodels()
        if hasattr(self.X, "predict"):
            raise UnsupportedOption(
                "the first argument is a fitted estimator, which does not store its data; call "
                "check_separation(X, y, model=estimator)"
            )
        return self if self.model in ("logit", "poisson", "cox") else self._read_sklearn()

    def _read_formula(self) -> "Regression":
        # evaluate a formula such as "y ~ a + b" on the frame ``y``
        with needing("a formula"):
            build: Any = import_module("formulaic").model_matrix
        target, _, right = (side.strip() for side in cast("str", self.X).partition("~"))
        if not (target and right) or not is_frame(self.y):
            raise InvalidSamples('a formula needs a frame; call check_separation("y ~ a + b", frame)')
        outcome = find_column(columns_of(self.y), target, "outcome of the formula")
        frame: Any = self.y  # formulaic itself needs pandas
        frame = import_module("pandas").DataFrame(frame) if isinstance(frame, dict) else frame
        try:
            matrix = build(right, frame, na_action="raise")
        except Exception as error:  # of formulaic, and of the Python that the formula contains
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InvalidSamples(
                f"the formula {self.X!r} cannot be read: {reason}; check its syntax and columns"
            ) from error
        names = list(map(str, matrix.columns))
        intercept = "Intercept" in names
        return self._replace(X=matrix.to_numpy(), y=outcome, names=names, intercept=intercept, target=target)

    def _read_statsmodels(self) -> "Regression":
        # take the data from a model of statsmodels or from its fit
        source: Any = getattr(self.X, "model", self.X)
        family: Any = getattr(source, "family", None)
        name = type(source).__name__
        kind = f"GLM {type(family).__name__} {type(family.link).__name__}" if name == "GLM" else name
        if kind not in STATSMODELS:
            raise UnsupportedOption(
                f"the model {kind} of statsmodels is not supported; fit a Logit, MNLogit, Poisson or PHReg, "
                "or a GLM with the family Binomial or Poisson and its default link"
            )
        model = STATSMODELS[kind]
        matrix, y = np.asarray(source.exog), np.asarray(source.endog)
        # statsmodels has the logarithm of an exposure in ``exposure``: both shift the linear predictor
        shifts = [getattr(source, attribute, None) for attribute in ("offset", "exposure")]
        shifts = [np.asarray(shift) for shift in shifts if shift is not None]
        offset = sum(shifts[1:], shifts[0]) if shifts else None
        counts = None
        if name == "GLM":
            counts = np.asarray(source.freq_weights * source.var_weights, np.float64)
            if model == "logit":  # y are shares of n_trials: each case becomes its successes and its failures
                trials = counts * source.n_trials
                counts = np.concatenate([trials * y, trials * (1 - y)])
                matrix = np.tile(matrix, (2, 1))
                offset = None if offset is None else np.tile(offset, 2)
                y = np.repeat([1, 0], len(y))
        regression = Regression(
            X=matrix,
            y=y,
            names=list(source.exog_names),
            model=model,
            intercept=False,
            counts=counts,
            offset=offset,
            target=str(source.endog_names),
        )
        if model != "cox":
            return regression
        return regression._replace(event=source.status, strata=source.strata, entry=source.entry)

    def _read_sklearn(self) -> "Regression":
        # transform ``X`` by a fitted pipeline, if ``model`` is one; the last step decides other options
        last = self.model[-1] if hasattr(self.model, "steps") else self.model
        kind = "poisson" if type(last).__name__ == "PoissonRegressor" else "logit"
        if kind == "logit" and not (hasattr(last, "classes_") and hasattr(last, "coef_")):
            raise UnsupportedOption(
                f"model is {show(self.model)}; give 'logit', 'poisson' or 'cox', or a fitted "
                "LogisticRegression or PoissonRegressor of scikit-learn (or a pipeline that ends with it)"
            )
        regression = self
        if last is not self.model:
            before = self.model[:-1]
            regression = self._replace(X=before.transform(self.X), names=list(before.get_feature_names_out()))
        target = str(getattr(self.y, "name", None) or "")
        return regression._replace(model=kind, intercept=last.fit_intercept, target=target)


def read_regressors(source: Any, names: Sequence[str] | None) -> tuple[Float64, list[str]]:
    """The regressors as a matrix, and their names; text becomes dummy columns."""
    columns = columns_of(source) if is_frame(source) else _columns_of_array(source)
    labels = list(map(str, columns if names is None else names))
    if len(labels) != len(columns):
        raise InvalidSamples(
            f"there are {len(columns)} columns but {len(labels)} names; give one name for each column"
        )
    regressors = list[tuple[str, Float64]]()
    for column, name in zip(columns.values(), labels, strict=True):
        regressors += _spread_levels(column, name) or [(name, read_column(column, name))]
    if len({len(numbers) for _, numbers in regressors}) > 1:
        raise InvalidSamples("the columns have different lengths; give one value for each case")
    matrix = np.column_stack([numbers for _, numbers in regressors] or [np.zeros((len(source), 0))])
    return matrix, [name for name, _ in regressors]


# Name → column of an array, a sparse matrix or a series; x1, x2 and so on without names.
def _columns_of_array(source: Any) -> dict[Any, Any]:
    _check_mask(source, "X")
    try:
        matrix: Any = np.asarray(source.toarray() if hasattr(source, "toarray") else source)
    except ValueError:  # rows of different lengths
        matrix = np.zeros(())
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise InvalidSamples("X must be a matrix with one row for each case; give rows of equal length")
    series_name = getattr(source, "name", None)
    if series_name is not None and matrix.shape[1] == 1:
        return {str(series_name): matrix[:, 0]}
    return {f"x{number}": column for number, column in enumerate(matrix.T, 1)}


# Dummy columns for all levels of text or categories except the first; empty for numbers.
def _spread_levels(column: Any, name: str) -> list[tuple[str, Float64]]:
    levels = _list_categories(column)
    if column is None or (not levels and np.asarray(column).dtype.kind in "biuf"):
        return []
    values = as_list(column)
    if not levels:
        levels = sorted({value for value in values if isinstance(value, str) and not is_missing(value)})
        if not levels or not all(isinstance(value, str) or is_missing(value) for value in values):
            return []
        if len(levels) == len(values) > 2:
            raise InvalidSamples(
                f"column {show(name)} has a different text in every row; leave the column out"
            )
    missing = [row for row, value in enumerate(values) if is_missing(value)]
    if missing:
        raise _missing_value(name, values[missing[0]], missing[0])
    levels = [level for level in levels if level in values]
    if len(levels) < 2:
        raise InvalidSamples(f"column {show(name)} is {show(levels[0])} in every row; leave the column out")
    return [
        (f"{name}[T.{level}]", np.array([value == level for value in values], np.float64))
        for level in levels[1:]
    ]


def _list_categories(column: Any) -> list[Any]:
    # the categories of a pandas column, in their order; empty for any other column
    dtype = getattr(column, "dtype", None) if library_of(column) == "pandas" else None
    return list(getattr(dtype, "categories", ()))


def _missing_value(name: str, value: Any, row: int) -> InvalidSamples:
    return InvalidSamples(
        f"column {show(name)} is missing ({value!r}) in row {row}; drop such rows (in pandas: "
        "frame.dropna()) or fill them in"
    )


def _check_mask(source: Any, name: str) -> None:
    if np.ma.is_masked(source):
        row = int(np.argwhere(np.ma.getmaskarray(source))[0][0])
        raise InvalidSamples(f"{name} has a masked value in row {row}; drop such rows or fill in the values")


def read_column(column: Any, name: str) -> Float64:
    """Read finite numbers and bools as float64; reject numbers that float64 would round, and text."""
    if column is None:
        raise InvalidSamples(f"there are two columns {name!r}; rename one of them")
    plain: Any = np.asarray(column)
    if plain.dtype.kind in "biuf" and plain.ndim == 1 and np.isfinite(plain).all():
        if plain.dtype.kind in "iu" and plain.dtype.itemsize > 4:  # 64 bits: larger than float64 can hold
            for row in np.flatnonzero((plain > EXACT) | (plain < -EXACT)).tolist():
                _check_integer(int(plain[row]), row, name)
        return plain.astype(np.float64)
    values = as_list(column)  # one by one, to name the first that is no number
    for row, value in enumerate(values):
        if isinstance(value, str):
            raise InvalidSamples(
                f"column {show(name)} contains both text ({show(value)} in row {row}) and numbers; convert "
                "all values to text or to numbers"
            )
        if is_missing(value):
            raise _missing_value(name, value, row)
        if isinstance(value, int):
            _check_integer(value, row, name)
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros((0, 0))  # refused as lists are
    if numbers.ndim != 1:
        raise InvalidSamples(
            f"column {show(name)} contains values that are not numbers; convert them to numbers"
        )
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InvalidSamples(f"column {show(name)} is infinite in row {row}; drop the row, or correct it")
    return numbers


def _check_integer(value: int, row: int, name: str) -> None:
    if abs(value) > EXACT and int(float(value)) != value:
        raise InvalidSamples(
            f"column {show(name)} is {value} in row {row}, which float64 cannot represent; subtract the "
            "smallest value of the column from all values"
        )


def read_labels(source: Any, size: int) -> tuple[tuple[Any, ...], Any]:
    """The sorted labels, and the label number of each case."""
    if is_frame(source):
        columns = list(columns_of(source).values())
        if len(columns) != 1:
            raise InvalidSamples(
                "y must be one column with the label of each case; select the column from the frame"
            )
        source = columns[0]
    _check_mask(source, "y")
    categories, values = _list_categories(source), as_list(source)
    if values and all(isinstance(value, list) and len(cast("list[Any]", value)) == 1 for value in values):
        values = [value[0] for value in values]  # a column of a matrix
    if len(values) != size:
        raise InvalidSamples(
            f"X has {size:,} cases, but y has {len(values):,} labels; give one label for each case"
        )
    if not values:
        raise InvalidSamples("there are no cases; give at least one case")
    labels = _sort_labels(values, categories)
    number_of = {label: number for number, label in enumerate(labels)}
    return tuple(labels), np.array([number_of[value] for value in values], np.int64)


# The distinct labels, in the order of the categories or sorted; rejects measurements.
def _sort_labels(values: list[Any], categories: list[Any]) -> list[Any]:
    try:
        distinct = set(values)
    except TypeError:
        raise InvalidSamples(
            "y contains a value that is not a label; give a number, a text or a bool for each case"
        ) from None
    if any(map(is_missing, distinct)):
        row, value = next((row, value) for row, value in enumerate(values) if is_missing(value))
        raise InvalidSamples(
            f"y is missing ({value!r}) in row {row}; drop such rows (in pandas: frame.dropna())"
        )
    try:
        labels = [level for level in categories if level in distinct] or sorted(distinct)
    except TypeError:
        raise InvalidSamples(
            "y has labels of different types; convert all labels to numbers or to text"
        ) from None
    if len(labels) > MOST_CLASSES:
        raise InvalidSamples(
            f"y has {len(labels):,} different values, so it looks like a measurement; give at most "
            f"{MOST_CLASSES} classes"
        )
    share = next((label for label in labels if isinstance(label, float) and not label.is_integer()), None)
    if share is not None:
        raise InvalidSamples(
            f"y is {share} in row {values.index(share)}, which is not a class; give one class for each case, "
            "and use counts= for repeated cases"
        )
    return labels


def check_index(matrix: Any, outcome: Any) -> None:
    """Reject pandas objects whose rows have different names."""
    indexed = all(library_of(data) == "pandas" and hasattr(data, "index") for data in (matrix, outcome))
    if indexed and not matrix.index.equals(outcome.index):
        raise InvalidSamples(
            "X and y have different indexes, so it is unclear which rows belong together; align the indexes, "
            "or give y.to_numpy()"
        )
