"""Logistic regression as a scikit-learn classifier with standard errors and infinite coefficients."""

# Each row of ``X`` becomes a situation of a conditional logit, whose alternatives are the classes. With
# groups, each group becomes a situation, whose alternatives are its rows.

import warnings
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from attomaton.base.errors import InvalidSamples, UndeterminedChoice, UnsupportedOption, needing
from attomaton.base.options import show
from attomaton.base.tables import Float64
from attomaton.choices.logit.builders import choose_classes, offer_classes
from attomaton.choices.logit.certificate import LogitState
from attomaton.choices.logit.contrasts import ContrastKind
from attomaton.choices.logit.firth import FirthFit
from attomaton.choices.logit.fit import LogitFit, fit_logit
from attomaton.choices.logit.prediction import predict_rows
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.rows import Situations
from attomaton.choices.logit.summary import LogitSummary

with needing("LogisticRegression"):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import multiclass, validation

_multiclass: Any = multiclass  # scikit-learn's functions are not typed
_validation: Any = validation
_sparse: Any = scipy.sparse


class LogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression for scikit-learn with standard errors and p-values.

    Binary, multinomial or conditional (with ``groups``), by maximum likelihood. Where the estimate does not
    exist (perfect separation), coefficients are infinite, and probabilities are their limits; with Firth's
    penalty they are finite.

    Parameters
    ----------
    fit_intercept : bool
        Whether to add an intercept; ignored with ``groups``, whose alternatives would share it.
    penalty : str, optional
        "firth" for Firth's penalised likelihood; None for maximum likelihood.
    undecided : str
        What ``predict`` and ``predict_proba`` do where the data leave a probability open: "refuse" raises
        ``UndeterminedChoice``; "descent" returns the limit of gradient descent from 0, which depends on the
        scale of the features.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
        The distinct labels, sorted.
    coef_ : float64 array, shape (n_classes − 1, n_features)
        Log odds of each class against the first: ±inf where the estimate is infinite, NaN where it is
        undecided or not identified.
    intercept_ : float64 array, shape (n_classes − 1,)
        The intercepts; 0 without one.
    coef_standard_errors_, intercept_standard_errors_ : float64 arrays
        The standard errors of ``coef_`` and ``intercept_``; NaN where an estimate is not finite.
    fit_ : LogitFit
        The underlying fit without a penalty: bounds, contrasts, the direction of gradient descent.
    firth_ : FirthFit
        The estimates with Firth's penalty: profile intervals, p-values.
    separation_ : str
        "none", "quasi-complete" or "complete".
    certificate_ : LogitCertificate
        The proof. If small differences count as 0, ``fit`` warns with ``ConvergenceWarning``.
    n_features_in_ : int
        The number of columns of ``X``.

    Notes
    -----
    With ``groups``, the rows of a group are the alternatives of one choice, and ``y`` is the larger of two
    labels (1, True) in exactly one of them. The last column of ``predict_proba(X, groups)`` is the
    probability that the row is chosen.

    Examples
    --------
    All rows with x = 1 are in class 1; one of the three others is.

    >>> from attomaton.choices import LogisticRegression
    >>> model = LogisticRegression().fit([[0], [0], [0], [1], [1]], [0, 1, 0, 1, 1])
    >>> model.coef_.tolist(), model.intercept_.round(4).tolist(), model.separation_
    ([[inf]], [-0.6931], 'quasi-complete')
    >>> model.intercept_standard_errors_.round(4).tolist()  # model.summary() prints all with p-values
    [1.2247]
    >>> model.predict_proba([[0], [1], [2]]).round(4).tolist()
    [[0.6667, 0.3333], [0.0, 1.0], [0.0, 1.0]]

    Three trips, each with two offers:

    >>> price, taken = [[2.0], [3.0], [5.0], [4.0], [4.0], [3.0]], [1, 0, 0, 1, 1, 0]
    >>> model = LogisticRegression().fit(price, taken, groups=[1, 1, 2, 2, 3, 3])
    >>> model.coef_.round(4).tolist()
    [[-0.6931]]
    >>> model.predict_proba([[1.0], [2.0], [3.0]], groups=[1, 1, 1])[:, 1].round(3).tolist()
    [0.571, 0.286, 0.143]
    """

    def __init__(
        self, *, fit_intercept: bool = True, penalty: str | None = None, undecided: str = "refuse"
    ) -> None:
        self.fit_intercept = fit_intercept
        self.penalty = penalty
        self.undecided = undecided

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:  # noqa: N803
        """Fit the model.

        Parameters
        ----------
        X : array or scipy sparse array, shape (n_samples, n_features)
            The features.
        y : sequence, shape (n_samples,)
            The label of each row; with ``groups``, whether the alternative was chosen.
        groups : sequence, shape (n_samples,), optional
            The choice that each row is an alternative of.
        sample_weight : sequence of float, shape (n_samples,), optional
            How often each row was observed; in a group, only the weight of the chosen row counts.
        """
        self._check_parameters()
        matrix, labels = _validation.validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        _multiclass.check_classification_targets(labels)
        group_of_row = None if groups is None else _check_groups(groups, len(labels))
        weights = None
        if sample_weight is not None:
            weights = _validation._check_sample_weight(sample_weight, matrix, dtype=np.float64)
            use = weights != 0
            if group_of_row is None and not use.all():  # in a group, the row is still an alternative
                matrix, labels, weights = matrix[use], labels[use], weights[use]
        self.classes_, class_of_row = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            only = f", {show(self.classes_[0])}" if len(labels) else ""
            raise InvalidSamples(f"every y is of one class{only}; give cases of another class, too")
        names = [str(name) for name in getattr(self, "feature_names_in_", [])] or None
        self.has_groups_ = group_of_row is not None
        if group_of_row is None:
            problem = self._compare_classes(matrix, class_of_row, weights, names)
        else:
            problem = self._choose_in_groups(matrix, class_of_row, group_of_row, weights, names)
        self.fit_: LogitFit = fit_logit(problem)
        self.certificate_, self.separation_ = self.fit_.certificate, self.fit_.separation
        if self.fit_.state is LogitState.UNCERTIFIED:
            self.fit_.expect()
        if self.fit_.state is LogitState.EQUAL:
            message = f"{self.fit_.state.value}: {self.certificate_.details}"
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        self._store_estimates()
        return self

    def _check_parameters(self) -> None:
        if self.undecided not in ("refuse", "descent"):
            raise UnsupportedOption(f"undecided is {show(self.undecided)}; give 'refuse' or 'descent'")
        if self.penalty not in (None, "firth"):
            raise UnsupportedOption(f"penalty is {show(self.penalty)}; give None or 'firth'")
        if self.penalty and self.undecided == "descent":
            raise UnsupportedOption("gradient descent has no penalty; leave out penalty or 'descent'")

    def _store_estimates(self) -> None:
        # set the estimates and errors; there is a row per class except the first, intercepts first
        if self.penalty:
            self.firth_ = self.fit_.firth()
            numbers = np.array([(row.value, row.standard_error) for row in self.firth_.contrasts]).T
        else:
            numbers = _find_limits(self.fit_)
        estimates, errors = (row.reshape(len(self.classes_) - 1, -1) for row in numbers)
        n_intercepts = int(self.fit_intercept and not self.has_groups_)  # columns before the features
        zeros = np.zeros(len(estimates))
        self.intercept_ = estimates[:, 0] if n_intercepts else zeros
        self.intercept_standard_errors_ = errors[:, 0] if n_intercepts else zeros
        self.coef_, self.coef_standard_errors_ = estimates[:, n_intercepts:], errors[:, n_intercepts:]

    def summary(self, *, robust: bool = False) -> LogitSummary | FirthFit:
        """The table that statsmodels prints; ``robust`` uses sandwich standard errors (HC0)."""
        _validation.check_is_fitted(self)
        if self.penalty and robust:
            raise UnsupportedOption("there are no robust errors under Firth's penalty; leave robust out")
        return self.firth_ if self.penalty else self.fit_.summary(robust=robust)

    def predict_proba(self, X: Any, groups: Any = None) -> Float64:  # noqa: N803
        """The probability of each class for the rows of ``X``, shape (n_samples, n_classes).

        Where coefficients are infinite, it is the limit of the probability. A model that was fitted with
        groups needs the ``groups`` of these rows.
        """
        _validation.check_is_fitted(self)
        matrix = _validation.validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        if not self.has_groups_:
            if groups is not None:
                raise InvalidSamples("the model was fitted without groups; leave groups out")
            n_classes = len(self.classes_)
            rows = offer_classes(self._with_constant(matrix), np.arange(n_classes) > 0)
            situations = Situations(n_classes * np.arange(matrix.shape[0] + 1, dtype=np.int64))
            return self._predict(rows, situations).reshape(-1, n_classes)
        if groups is None:
            raise InvalidSamples("the model was fitted with groups; give the groups of these rows, too")
        order, situations = _sort_groups(_check_groups(groups, matrix.shape[0]))
        probability = np.empty(len(order))
        probability[order] = self._predict(matrix[order], situations)
        return np.column_stack([1.0 - probability, probability])

    def predict(self, X: Any, groups: Any = None) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each row of ``X``; with ``groups``, the most probable row of each."""
        probability = self.predict_proba(X, groups)
        if not self.has_groups_:
            return self.classes_[probability.argmax(axis=1)]
        order, situations = _sort_groups(_check_groups(groups, len(probability)))
        of_chosen = probability[order, 1]
        best = np.flatnonzero(of_chosen == situations.spread(situations.top(of_chosen)))
        first_best = best[np.searchsorted(best, situations.starts[:-1])]  # of equally probable rows the first
        class_of_row = np.zeros(len(order), np.int64)
        class_of_row[order[first_best]] = 1
        return self.classes_[class_of_row]

    def _predict(self, rows: Any, situations: Situations) -> Float64:
        # the probability of each row in its situation, with or without the penalty
        if not self.penalty:
            return predict_rows(self.fit_, rows, situations, descent=self.undecided == "descent")
        probability = self.firth_.predict(rows, situations)
        if np.isnan(probability).any():
            number = int(situations.of_row[np.isnan(probability).argmax()])
            raise UndeterminedChoice(
                f"the data do not determine how alternatives of situation {number} differ; leave out that "
                "situation"
            )
        return probability

    def __sklearn_tags__(self) -> Any:
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _with_constant(self, matrix: Any) -> Any:
        if not self.fit_intercept:
            return matrix
        constant = np.ones((matrix.shape[0], 1))
        if _sparse.issparse(matrix):
            return _sparse.csr_array(_sparse.hstack([constant, matrix]))
        return np.column_stack([constant, matrix])

    def _compare_classes(
        self, matrix: Any, class_of_row: Any, weights: Float64 | None, names: list[str] | None
    ) -> ChoiceProblem:
        # each row chooses its class; every class but the first has its own coefficients
        labels = names or [f"x{number}" for number in range(1, matrix.shape[1] + 1)]
        labels = ["intercept", *labels] if self.fit_intercept else labels
        n_classes = len(self.classes_)
        if n_classes > 2:
            labels = [f"{kind}: {label}" for kind in self.classes_[1:] for label in labels]
        chosen = np.eye(n_classes)[class_of_row]
        return choose_classes(self._with_constant(matrix), np.arange(n_classes) > 0, chosen, labels, weights)

    def _choose_in_groups(
        self, matrix: Any, class_of_row: Any, groups: Any, weights: Float64 | None, names: list[str] | None
    ) -> ChoiceProblem:
        # each group chooses one of its rows, that of the second class
        if len(self.classes_) != 2:
            raise InvalidSamples(
                f"y has {len(self.classes_)} labels; with groups, mark the chosen row of each group with 1 "
                "and its other rows with 0"
            )
        order, situations = _sort_groups(groups)
        chosen = np.asarray(class_of_row == 1, np.float64)
        n_chosen = situations.sum(chosen[order])
        wrong = np.flatnonzero(n_chosen != 1)
        if len(wrong):
            group = show(groups[order[situations.starts[wrong[0]]]])
            raise InvalidSamples(
                f"group {group} has {int(n_chosen[wrong[0]])} chosen rows; mark one with "
                f"{show(self.classes_[1])}, or drop the group"
            )
        counts = chosen if weights is None else chosen * weights
        return ChoiceProblem.from_rows(matrix[order], np.diff(situations.starts), counts[order], names=names)


# The estimate of each parameter (finite, ±inf, or NaN if it is open) and its standard error.
def _find_limits(fit: LogitFit) -> tuple[Float64, Float64]:
    kinds = fit.classify(np.eye(len(fit.problem.names)))
    finite = np.array([kind is ContrastKind.FINITE for kind in kinds], bool)
    infinite = {ContrastKind.PLUS: np.inf, ContrastKind.MINUS: -np.inf}
    limits = [infinite.get(kind, np.nan) for kind in kinds]
    values = np.where(finite, fit.problem.parameters(fit.evidence.beta), limits)
    scaled = fit.problem.scaled(np.eye(len(finite))[finite])
    errors = np.full(len(finite), np.nan)
    errors[finite] = [np.sqrt(max(row @ fit.deviate(row), 0.0)) for row in scaled]
    return values, errors


def _check_groups(groups: Any, size: int) -> Any:
    labels = np.asarray(groups)
    if labels.shape != (size,):
        raise InvalidSamples(
            f"X has {size:,} rows, and groups has shape {labels.shape}; give one group for each row"
        )
    return labels


# The order of rows in which those of each group follow each other, and the groups as situations.
def _sort_groups(groups: Any) -> tuple[Any, Situations]:
    number = np.unique(groups, return_inverse=True)[1]
    return np.argsort(number, kind="stable"), Situations.from_sizes(np.bincount(number))
