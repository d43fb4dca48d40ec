"""Check whether the maximum-likelihood estimate of a regression exists, and what of it is infinite."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.choices.coefficients import SeparationCheck, check_classes
from attomaton.choices.design import Regression, check_index, read_column, read_regressors
from attomaton.choices.hazards import check_hazards, check_poisson

INTERCEPT = "intercept"  # the name of the column of ones that is added


def check_separation(
    X: Any,  # noqa: N803  the name that statsmodels and scikit-learn give it
    y: Any = None,
    names: Sequence[str] | None = None,
    *,
    model: Any = "logit",
    intercept: bool = True,
    reference: Any = None,
    counts: Any = None,
    event: Any = None,
    strata: Any = None,
) -> SeparationCheck:
    """Decide whether the estimate of a regression exists (perfect separation), and what is infinite.

    The maximum-likelihood estimate of a logistic, Poisson or Cox regression does not exist if the data are
    separated (in Cox regression: if the likelihood is monotone), because some coefficients grow without
    bound. ``check_separation`` decides, with proof, which coefficients do.

    Parameters
    ----------
    X : array, list of rows, or frame of pandas, Polars or Arrow; shape (n_cases, n_columns)
        The explanatory variables: numbers, truth values, or text and categories, which become a column of 0
        and 1 for each level except the first. A single column is allowed. Or a formula such as
        ``"y ~ a + b"`` (needs formulaic), with the frame as ``y``. Or, without ``y``, a model or fit of
        statsmodels: Logit, MNLogit, Poisson, PHReg, or GLM with the family Binomial or Poisson.
    y : sequence
        The outcome of each case: any two or more labels; counts for Poisson; times for Cox.
    names : sequence of str, optional
        The column names; by default those of the frame, or "x1", "x2", ….
    model : str, or fitted estimator of scikit-learn
        "logit" (binary or multinomial), "poisson" or "cox"; or a fitted LogisticRegression or
        PoissonRegressor, alone or last in a pipeline, which then also prepares ``X``. The answer is about the
        model without its penalty.
    intercept : bool
        Whether to add a column of ones, unless ``X`` has one; ignored for Cox.
    reference : label, optional
        The label whose coefficients are 0; by default the first in order, such as 0 before 1. A
        pandas categorical has the order of its categories.
    counts : sequence of float, optional
        How often each case was observed, as in a table of counts; 0 if it was not.
    event : sequence of bool, optional
        For Cox: whether the event happened at the time, or the case was censored then. By default the event
        happened in all cases.
    strata : sequence, optional
        For Cox: the stratum of each case. Cases of different strata are not compared.

    Returns
    -------
    SeparationCheck

    Examples
    --------
    All who were treated recovered; of the others, one of three did.

    >>> import attomaton as at
    >>> answer = at.check_separation({"treated": ["no", "no", "no", "yes", "yes"]}, [0, 1, 0, 1, 1])
    >>> answer.exists, answer.certified
    (False, True)
    >>> print(answer.explain())
    The estimate does not exist (quasi-complete separation): treated[T.yes] → +∞ (all 2 cases with treated =
    yes had y = 1). The other coefficient is finite: intercept.
    """
    regression = Regression(X, y, names, model, intercept, counts, event, strata).read()
    matrix, columns = read_regressors(regression.X, regression.names)
    check_index(regression.X, regression.y)
    size = len(matrix)
    note = ""  # what the answer says about the intercept
    times = np.ones(size) if regression.counts is None else read_column(regression.counts, "counts")
    if len(times) != size or (times < 0).any() or (size and not times.any()):
        raise InvalidSamples(
            f"counts must be one number for each of {size:,} cases, 0 or more and not all 0; correct them"
        )
    target = regression.target or str(getattr(regression.y, "name", None) or "y")
    constants = np.flatnonzero((matrix == 1).all(axis=0)).tolist() if size else []  # columns of ones
    if regression.intercept and regression.model != "cox":
        if constants and not isinstance(X, str):
            note = f"{columns[constants[0]]} is 1 in every case and serves as the intercept"
        elif not constants:
            matrix = np.column_stack([np.ones(size), matrix])
            columns, constants = [INTERCEPT, *columns], [0]
    if len(set(columns)) < len(columns):
        repeated = next(name for name in columns if columns.count(name) > 1)
        raise InvalidSamples(f"two columns are called {repeated!r}; give each its own name with names=")
    if not columns:
        raise InvalidSamples("there are no columns; give at least one, or intercept=True")
    if regression.model == "cox":
        return check_hazards(regression, matrix, columns, target)
    if regression.model == "poisson":
        return check_poisson(regression, matrix, columns, target, times, constants)
    return check_classes(regression, matrix, columns, target, times, reference, note)
