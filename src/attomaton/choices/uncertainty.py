"""Covariances of scores, and differences with their standard errors, from the observed information.

The plain form of :mod:`attomaton.soft.information`, which finds the diagonal alone, for all components at
once and compiled; a law in ``tests/choices`` ties the two.
"""

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from attomaton.errors import UnsupportedOption
from attomaton.options import real_number
from attomaton.soft.information import LARGEST
from attomaton.soft.likelihood import LuceProblem, luce_problem
from attomaton.soft.solve import SoftSolution
from attomaton.tables import Float64, Int64, column


class Difference(NamedTuple):
    """The difference of two scores: the log odds that the first is chosen over the second.

    ``value`` is infinite where the component of one precedes that of the other; then there is no standard
    error, and it is None.

    Examples
    --------
    >>> import attomaton as at
    >>> fit = at.fit_choices(["a", "b", "a", "a"], losers=["b", "a", "b", "c"])
    >>> gap = fit.difference("a", "b")  # ln 2, from two wins and one
    >>> round(gap.value, 4), round(gap.standard_error, 4), [round(end, 2) for end in gap.interval()]
    (0.6931, 1.2247, [-1.71, 3.09])
    >>> fit.difference("c", "b").value, fit.difference("c", "b").standard_error
    (-inf, None)
    """

    first: Any
    second: Any
    value: float
    standard_error: float | None

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Where the true difference lies with this confidence, if the estimate is about normal.

        Examples
        --------
        >>> low, high = Difference("a", "b", 1.0, 0.5).interval(0.9)
        >>> round(low, 3), round(high, 3)
        (0.178, 1.822)
        """
        level = real_number(level, "level", above=0, below=1)
        if self.standard_error is None:
            raise UnsupportedOption(
                f"the difference of {self.first!r} and {self.second!r} is {self.value}, without a standard "
                "error; add a choice that the other one wins, or fit with prior=…"
            )
        reach = NormalDist().inv_cdf(0.5 + level / 2) * self.standard_error
        return self.value - reach, self.value + reach

    def __str__(self) -> str:
        error = "no standard error" if self.standard_error is None else f"± {self.standard_error:.3f}"
        return f"{self.first!r} minus {self.second!r}: {self.value:+.3f} ({error})"


class Covariances:
    """The covariances of the scores inside each component, found when they are asked for."""

    def __init__(self, soft: SoftSolution, parts: int) -> None:
        self._soft, self._parts = soft, parts
        self._rows, self._problem = luce_problem(soft.choices, soft.components, connected=False)
        component = soft.components.component_of_node
        order = np.argsort(component, kind="stable")
        self._place = np.empty_like(order)  # of each node in its component
        self._place[order] = np.arange(len(order)) - soft.components.members[0][component[order]]
        self._found: dict[int, Information] = {}

    def of(self, numbers: Int64) -> Float64:
        """The covariance of these items, NaN between components, shape (n_items, n_items)."""
        component = self._soft.components.component_of_node[numbers]
        found = np.where(component[:, None] == component, 0.0, np.nan)
        for number in np.unique(component).tolist():
            here = np.flatnonzero(component == number)
            if self._soft.components.sizes[number] > 1:
                found[np.ix_(here, here)] = (
                    self._inside(number).invert(self._place[numbers[here]]) * self._parts
                )
        return found

    def _inside(self, number: int) -> "Information":
        if number not in self._found:
            soft, rows, problem = self._soft, self._rows, self._problem
            first = int(np.argmax(soft.components.component_of_node[rows] == number))
            kept, alone = problem.restrict(np.arange(problem.n_components) == problem.component[first])
            scores = column(soft.scores, "score")[rows[kept]]
            self._found[number] = Information(alone, scores, ridge=soft.ridge)
        return self._found[number]


class Information:
    """The observed information of the scores of one component, factored: Σ count (diag p − p pᵀ) + ridge.

    It is flat along the constant; a lift there makes it invertible and is taken off again.

    Examples
    --------
    >>> entries = np.array([0, 1, 0, 1]), np.array([0, 2, 4]), np.zeros(4)
    >>> problem = LuceProblem(*entries, np.array([0, 1]), np.array([3.0, 1.0]), np.array([0, 0]))  # 3 to 1
    >>> Information(problem, np.log([3.0, 1.0])).invert(np.arange(2)).round(6).tolist()
    [[0.333333, -0.333333], [-0.333333, 0.333333]]
    """

    def __init__(self, problem: LuceProblem, scores: Float64, *, ridge: float = 0.0) -> None:
        size = problem.n_alternatives
        if size > LARGEST:
            raise UnsupportedOption(
                f"a component has {size:,} items, and their covariance needs a dense matrix of that size; at "
                f"most {LARGEST:,} are supported"
            )
        hessian = _fill_hessian(problem, scores)
        lift = float(np.trace(hessian)) / size or 1.0
        self._size, self._shift = size, 1.0 / ((lift + ridge) * size)
        linalg = _linear_algebra()
        try:
            self._factor = linalg.cho_factor(hessian + ridge * np.eye(size) + lift / size, lower=True)
        except linalg.LinAlgError as error:
            raise UnsupportedOption(
                "the choices hardly connect some items of a component, so that standard errors are lost "
                "in rounding; add choices between them, or fit with a ridge"
            ) from error

    def invert(self, places: Int64) -> Float64:
        """The covariance of the scores at these places about the mean of all, shape (n_places,) twice."""
        linalg = _linear_algebra()
        columns = np.zeros((self._size, len(places)))
        columns[places, np.arange(len(places))] = 1.0
        solved: Float64 = linalg.cho_solve(self._factor, columns)[places]
        return (solved + solved.T) / 2 - self._shift


def _linear_algebra() -> Any:
    """Scipy's, loaded when it is used: it is a tenth of the start-up time."""
    import scipy.linalg

    return scipy.linalg


def _fill_hessian(problem: LuceProblem, scores: Float64) -> Float64:
    """The Hessian of the summed loss, its diagonal from the other entries, so that no digits are lost."""
    chance = problem.probabilities(scores)
    weight = np.repeat(problem.count, np.diff(problem.offsets)) * chance
    shape = (len(problem.winner), problem.n_alternatives)
    rows = csr_array((chance, problem.alternative, problem.offsets), shape=shape)
    weighted = csr_array((weight, problem.alternative, problem.offsets), shape=shape)
    products: Any = weighted.T @ rows
    hessian: Float64 = -products.toarray()
    np.fill_diagonal(hessian, 0.0)
    np.fill_diagonal(hessian, -hessian.sum(axis=1))
    return hessian
