"""Covariances of scores, and differences with their standard errors."""

from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import real_number
from attomaton.base.tables import Float64, Int64, column
from attomaton.choices.information import Information, curvature_of
from attomaton.choices.sandwich import Sandwich, SplitRankings
from attomaton.solvers.soft.likelihood import LuceProblem, luce_problem
from attomaton.solvers.soft.solve import SoftSolution


class ScoreDifference(NamedTuple):
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
        >>> low, high = ScoreDifference("a", "b", 1.0, 0.5).interval(0.9)
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
    """The covariances of the scores inside each component, found when they are asked for.

    They are the inverse of the observed information, and a sandwich where there are ties.
    """

    def __init__(self, soft: SoftSolution, parts: int, rankings: pa.Table | None) -> None:
        self._soft, self._ridge = soft, soft.ridge / parts
        self._component = soft.components.component_of_node
        self._score = column(soft.scores, "score")
        self._borders, self._members = soft.components.members
        self._place = np.empty_like(self._members)  # of each node in its component
        self._place[self._members] = (
            np.arange(len(self._members)) - self._borders[self._component[self._members]]
        )
        self._split = None if rankings is None else SplitRankings(rankings, soft.components, self._place)
        self._found = dict[int, Information | Sandwich]()

    def of(self, numbers: Int64) -> Float64:
        """The covariance of these items, NaN where there is none, shape (n_items, n_items)."""
        component = self._component[numbers]
        found = np.full((len(numbers), len(numbers)), np.nan)
        for number in np.unique(component).tolist():
            here = np.flatnonzero(component == number)
            places = self._place[numbers[here]]
            if self._soft.components.sizes[number] == 1:
                continue
            found[np.ix_(here, here)] = self._inside(number).covariance(places)
        return found

    def of_difference(self, first: int, second: int) -> float:
        """The variance of the difference of two scores of one component."""
        component = int(self._component[first])
        contrast = np.zeros(self._soft.components.sizes[component])
        contrast[self._place[[first, second]]] = 1.0, -1.0
        return self._inside(component).variance(contrast)

    def errors(self) -> Float64:
        """The standard error of the score of each node, shape (n_nodes,)."""
        if self._split is None:
            return self._soft.standard_errors()
        found = np.full(len(self._component), np.nan)
        for number in np.flatnonzero(self._soft.components.sizes > 1).tolist():
            nodes = self._nodes(number)
            spread = self._inside(number).covariance(np.arange(len(nodes)))
            found[nodes] = np.sqrt(np.diag(spread))
        return found

    @cached_property
    def _problem(self) -> tuple[Int64, LuceProblem]:
        return luce_problem(self._soft.choices, self._soft.components, connected=False)

    def _nodes(self, component: int) -> Int64:
        return self._members[self._borders[component] : self._borders[component + 1]]

    def _inside(self, component: int) -> Information | Sandwich:
        if component not in self._found:
            self._found[component] = self._inform(component)
        return self._found[component]

    def _inform(self, component: int) -> Information | Sandwich:
        if self._split is not None:
            scores = self._score[self._nodes(component)]
            return Sandwich(self._split.inside(component), scores, self._ridge)
        rows, problem = self._problem
        first = int(np.argmax(self._component[rows] == component))
        kept, alone = problem.restrict(np.arange(problem.n_components) == problem.component[first])
        return Information(curvature_of(alone, self._score[rows[kept]]), ridge=self._ridge)
