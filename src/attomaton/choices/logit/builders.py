"""Build the choices of a conditional logit from long tables and from logistic regressions."""

from collections.abc import Hashable, Sequence
from itertools import compress
from typing import Any

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.tables import Bool, Float64
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.untyped import csr_array, issparse


def long_table(
    situation: Sequence[Hashable], chosen: Any, features: Any, *, names: Sequence[str] | None = None
) -> ChoiceProblem:
    """Build choices from a table with a row for each alternative of each situation (the long format).

    Parameters
    ----------
    situation : sequence
        The situation of each row; its rows need not follow each other.
    chosen : sequence of float
        1 where the alternative was chosen, or how often it was chosen.
    features : array, shape (n_rows, n_features)
        The features of each alternative.
    names : sequence of str, optional
        The names of the features.

    Examples
    --------
    >>> from attomaton.choices.logit import fit_logit
    >>> fit = fit_logit(long_table([1, 2, 1, 2], [1, 0, 0, 1], [[2.0], [3.0], [1.0], [4.0]], names=["price"]))
    >>> fit.contrast("price").kind.value
    '+inf'
    """
    labels = list(situation)
    number_of = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    situation_of_row = np.array([number_of[label] for label in labels], np.int64)
    order = np.argsort(situation_of_row, kind="stable")
    matrix = np.asarray(features, np.float64)
    sizes = np.bincount(situation_of_row, minlength=len(number_of))
    return ChoiceProblem.from_rows(matrix[order], sizes, np.asarray(chosen, np.float64)[order], names=names)


def binary_logit(
    features: Any, outcome: Any, *, names: Sequence[str] | None = None, counts: Any = None
) -> ChoiceProblem:
    """Build a logistic regression: each outcome is a choice between the row x and the row 0.

    Parameters
    ----------
    features : array or scipy sparse array, shape (n, n_features)
        The features; include a column of ones for a constant.
    outcome : sequence of bool
        Whether the event happened.
    names : sequence of str, optional
        The column names.
    counts : sequence of float, optional
        How often each observation was made.

    Examples
    --------
    >>> from attomaton.choices.logit import fit_logit
    >>> rows = [[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]  # quasi-complete separation
    >>> fit = fit_logit(binary_logit(rows, [0, 1, 1, 1], names=["constant", "x"]))
    >>> [contrast.kind.value for contrast in fit.contrasts]
    ['finite', '+inf']
    """
    matrix, happened = _read_matrix(features), np.asarray(outcome, np.float64)
    if matrix.ndim != 2 or happened.shape != matrix.shape[:1] or not np.isin(happened, (0.0, 1.0)).all():
        raise InvalidSamples("outcomes must be 0 or 1, one for each row of features; correct them")
    chosen = np.stack([happened, 1 - happened], axis=1)
    return choose_classes(matrix, np.array([True, False]), chosen, names, counts)


def multinomial_logit(
    features: Any,
    outcome: Sequence[Hashable],
    *,
    names: Sequence[str] | None = None,
    reference: Hashable | None = None,
    counts: Any = None,
) -> ChoiceProblem:
    """Build a multinomial regression: each outcome is a choice between classes k with rows x ⊗ e_k.

    Parameters
    ----------
    features : array or scipy sparse array, shape (n, n_features)
        The features; include a column of ones for a constant.
    outcome : sequence
        The class of each observation.
    names : sequence of str, optional
        The column names.
    reference : hashable, optional
        The class whose coefficients are 0. With None, only differences between classes are identified.
    counts : sequence of float, optional
        How often each observation was made.

    Examples
    --------
    >>> from attomaton.choices.logit import fit_logit
    >>> ones, classes = [[1.0]] * 6, ["a", "b", "a", "c", "a", "b"]
    >>> fit = fit_logit(multinomial_logit(ones, classes, names=["constant"], reference="c"))
    >>> round(fit.contrast("a: constant").value, 4)
    1.0986
    """
    matrix = _read_matrix(features)
    if matrix.ndim != 2 or matrix.shape[0] != len(outcome):
        raise InvalidSamples("features and outcomes differ in length; give one outcome for each row")
    number_of = {label: number for number, label in enumerate(dict.fromkeys(outcome))}
    classes = list(map(str, number_of))
    if len(set(classes)) < len(classes):
        raise InvalidSamples("two classes are equal as text; give all outcomes as text, or all as numbers")
    if reference is not None and str(reference) not in classes:
        raise InvalidSamples(f"no outcome is the reference {reference!r}; give a class that occurs")
    labels = [f"x{k + 1}" for k in range(matrix.shape[1])] if names is None else list(names)
    has_columns = np.array([reference is None or name != str(reference) for name in classes])
    columns = [f"{name}: {label}" for name in compress(classes, has_columns) for label in labels]
    chosen = np.eye(len(classes))[[number_of[label] for label in outcome]]
    return choose_classes(matrix, has_columns, chosen, columns, counts)


def _read_matrix(features: Any) -> Any:
    return csr_array(features, dtype=np.float64) if issparse(features) else np.asarray(features, np.float64)


def choose_classes(
    matrix: Any, has_columns: Bool, chosen: Float64, names: Sequence[str] | None, counts: Any
) -> ChoiceProblem:
    """Build a choice between classes for each observation, whose row of ``chosen`` is 1 at its class."""
    if counts is not None:
        times = np.asarray(counts, np.float64)
        if times.shape != chosen.shape[:1]:
            raise InvalidSamples(
                f"there are {len(chosen):,} observations and {times.size:,} counts; give one for each"
            )
        chosen = chosen * times[:, None]
    sizes = np.full(len(chosen), len(has_columns))
    return ChoiceProblem.from_rows(offer_classes(matrix, has_columns), sizes, chosen.ravel(), names=names)


def offer_classes(matrix: Any, has_columns: Bool) -> Any:
    """The rows x ⊗ e_k of each observation x and class k, by observation; 0 for classes without columns."""
    n_rows, width = int(matrix.shape[0]), int(matrix.shape[1])
    n_classes, n_with_columns = len(has_columns), int(has_columns.sum())
    if n_with_columns == 1 and not issparse(matrix):
        rows = np.zeros((n_rows * n_classes, width))
        rows[int(has_columns.argmax()) :: n_classes] = matrix
        return rows
    copies: Any = csr_array(matrix)[np.repeat(np.arange(n_rows), n_with_columns)]
    lengths: Any = np.diff(copies.indptr)
    shift = np.repeat(np.tile(width * np.arange(n_with_columns), n_rows), lengths)
    n_entries = np.zeros(n_rows * n_classes, np.int64)
    n_entries[np.tile(has_columns, n_rows)] = lengths
    starts = np.concatenate([[0], np.cumsum(n_entries)])
    shape = (n_rows * n_classes, n_with_columns * width)
    return csr_array((copies.data, copies.indices + shift, starts), shape=shape)
