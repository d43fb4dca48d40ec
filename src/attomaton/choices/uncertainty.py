"""Luce scores with their standard errors, and differences of scores."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from attomaton.base.borders import trusted
from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.options import real_number
from attomaton.base.printing import name_item, show_count, tell_accuracy
from attomaton.base.ragged import group_borders, occurs
from attomaton.base.solutions import score_table
from attomaton.base.tables import Float64, Int64
from attomaton.choices.covariance import Information, Sandwich, SplitRankings
from attomaton.choices.luce_choices import NumberedChoices
from attomaton.choices.parsed import ItemTally
from attomaton.choices.spread import Spread, student_quantile, two_sided
from attomaton.graphs.choices import make_choices
from attomaton.graphs.components import Components, merge_components
from attomaton.graphs.strong import connected_nodes
from attomaton.solvers.soft.certify import SCORES_WITHIN
from attomaton.solvers.soft.curvature import score_errors
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.solvers.soft.newton import sort_by_group
from attomaton.solvers.soft.solve import SoftSolution
from attomaton.solvers.soft.tied import prove_groups, solve_groups

if TYPE_CHECKING:
    from attomaton.choices.logit.contrasts import Contrast


class BoardErrors(NamedTuple):
    """The errors of ratings and of their differences with clusters.

    ``independent`` is the covariance as if choices were independent, from which the value of one more
    comparison follows.
    """

    independent: Float64  # (n_items, n_items)
    rating: Spread  # (n_items,)
    difference: Spread  # (n_items, n_items)


class ScoreDifference(NamedTuple):
    """The difference of two scores: the log odds that the first is chosen over the second.

    ``value`` is infinite if one item is infinitely far ahead, and ``standard_error`` is None if it is, or if
    there are too few clusters. ``degrees`` are the degrees of freedom of Student's t, infinite without
    clusters. With a penalty, ``maximum`` is the estimate by the likelihood alone, which may be infinite. The
    private ``limits`` has interval and p-value if they do not follow from the standard error.
    """

    first: Any
    second: Any
    value: float
    standard_error: float | None
    degrees: float = np.inf
    maximum: float | None = None
    limits: Any = None

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The confidence interval; beyond its finite end, what happened has a probability below 1 − level."""
        level = real_number(level, "level", above=0, below=1)
        if self.limits is not None:
            return self.limits.interval(level)
        reach = float(student_quantile(0.5 + level / 2, self.degrees)) * self._error
        return self.value - reach, self.value + reach

    @property
    def p_value(self) -> float:
        """The two-sided p-value of a difference of 0; for an infinite difference, an upper bound on it."""
        if self.limits is not None:
            return float(self.limits.p_value)
        return two_sided(self.value / self._error, self.degrees) if self.value else 1.0

    @property
    def _error(self) -> float:
        if self.standard_error is not None:
            return self.standard_error
        remedy = "add choices from more clusters, or fit without cluster="
        if np.isinf(self.value):
            remedy = "add a choice that the item behind wins, or fit with prior=…"
        raise UnsupportedOption(
            f"the difference of {self.first!r} and {self.second!r} is {self.value:.6g} and has no standard "
            f"error; {remedy}"
        )

    def __str__(self) -> str:
        error = "no standard error" if self.standard_error is None else f"± {self.standard_error:.3f}"
        end = np.inf
        if np.isinf(self.value) and self.limits is not None:
            end = float(self.limits.interval(0.95)[self.value < 0])
        if np.isfinite(end):
            error = f"{'at least' if self.value > 0 else 'at most'} {end:+z.3f} with confidence 95 %"
        if self.maximum is not None:
            error += f"; without the penalty {self.maximum:+z.3f}"
        return f"{name_item(self.first)} minus {name_item(self.second)}: {self.value:+z.3f} ({error})"


def describe_half_ties(n_ties: float) -> str:
    rule = "half a win each way (a tie of more than two: the average over its orders)"
    return (
        f"ties: {show_count(n_ties)}, each counted as {rule}; scores give the expected score of a pair, not "
        "the odds of a win"
    )


def join_components(graph: Components) -> Components:
    """Merge all items into one component, above the query, which is the last node and not an item."""
    if len(graph) < 3:
        return graph
    groups = np.zeros(len(graph), np.int64)
    groups[graph.component_of_node[-1]] = 1
    return merge_components(graph, groups)


class LuceScores:
    """The scores of a Luce model, and the covariances within each component, computed on demand.

    ``values`` are the scores of the items, with mean 0 in each of the ``components``, which are those of the
    ``graph`` of wins, or with a prior all items together. Counts are multiplied by ``denominator``, so that
    fractions of choices (of ties, which are half wins) are whole numbers.
    """

    logit = None
    board_errors = None
    clustered = False
    penalty = None
    penalised = None

    def __init__(
        self,
        choices: NumberedChoices,
        graph: Components,
        tally: ItemTally,
        *,
        ridge: float = 0.0,
        prior: float | None = None,
        denominator: int = 1,
        rankings: pa.Table | None = None,
        scores: Float64 | None = None,
    ) -> None:
        self.choices, self.graph, self.tally, self.rankings = choices, graph, tally, rankings
        self.ridge, self.prior, self.denominator = ridge, prior, denominator
        self.ties = "" if rankings is None else "half"
        self.components = graph if prior is None else join_components(graph)
        self.joined = "" if prior is None else "the prior"  # what joins all items into one component
        self._component = self.components.component_of_node
        self._penalty = (ridge if prior is None else prior**-2) * denominator
        self._covariances = dict[int, Information | Sandwich]()
        # entries of choices in the component of the winner, and items that are not alone in theirs
        self._in_component = self._component[choices.item] == self._component[choices.winner[choices.choice]]
        self._scored = np.flatnonzero(self.components.sizes[self._component[:-1]] > 1)
        # the choices inside components, with scored items numbered from 0
        n_options = np.bincount(choices.choice[self._in_component], minlength=len(choices.winner))
        inside = choices.select(self._in_component, n_options > 1)
        number = np.zeros(len(self._component), np.int64)
        number[self._scored] = np.arange(len(self._scored))
        self._problem = trusted(
            LuceProblem,
            alternative=number[inside.item],
            offsets=group_borders(inside.choice, len(inside.winner)),
            log_multiplicity=np.log(inside.multiplicity),
            winner=number[inside.winner],
            count=inside.times.astype(np.float64),
            component=np.unique(self._component[self._scored], return_inverse=True)[1],
        )
        groups = sort_by_group(self._problem)
        if scores is None:
            self._solved = solve_groups(groups, ridge=self._penalty)
        else:
            self._solved = prove_groups(groups, scores[self._scored], ridge=self._penalty)
        self.values = np.zeros(len(self._component[:-1]))
        self.values[self._scored] = self._solved.scores

    @property
    def certified(self) -> bool:
        return self._solved.certificate.certified

    @cached_property
    def soft(self) -> SoftSolution:
        """The solution in the form of a corpus, under one query that is not an item and comes last."""
        problem = self._problem
        query = np.full(len(problem.winner), len(self.values), np.int32)
        winner, items = (self._scored[ids].astype(np.int32) for ids in (problem.winner, problem.alternative))
        times = np.rint(np.exp(problem.log_multiplicity)).astype(np.int32)
        counts = problem.count.astype(np.int64)
        return trusted(
            SoftSolution,
            scores=score_table(self.components.nodes, np.append(self.values, 0.0)),
            certificate=self._solved.certificate,
            loss=self._solved.loss,
            choices=make_choices(query, winner, problem.offsets, items, times, counts),
            components=self.components,
            ridge=self._penalty,
        )

    @property
    def proof(self) -> str:
        return str(self._solved.certificate)

    @property
    def verdict(self) -> str:
        if not self.certified:
            return f"not certified: {self.proof}"
        apart = not self.joined and len(self.components) > 2  # the query is a component, too
        return tell_accuracy("rating", f"{SCORES_WITHIN:.0e}", infinite=apart)

    def expect(self) -> None:
        if not self.certified:
            raise UncertifiedSolution(
                f"these scores are not certified: {self.proof}; fit with a ridge, which makes them easier to "
                "find, or read .soft.scores without a proof (.components and .order are exact)"
            )

    @property
    def log_likelihood(self) -> float:
        """Σ ln p, or its supremum; a tie counts as fractions of choices."""
        return -self._solved.loss / self.denominator

    @property
    def n_parameters(self) -> int:
        return int((self.components.sizes[:-1] - 1).sum())

    @property
    def n_identified(self) -> int:
        """The number of identified parameters, finite or not: items less groups joined by choices."""
        edges, size = self.graph.edges, len(self.values)
        use = edges["loser"] < size
        won, lost = (edges[name][use].astype(np.int64) for name in ("winner", "loser"))
        return size - 1 - int(connected_nodes(won, lost, size, strongly=False).max(initial=-1))

    @property
    def why_no_aic(self) -> str:
        if self._penalty:
            return "a ridge or a prior moves the fit away from it"
        return "" if self.rankings is None else "half a win has no likelihood"

    @property
    def coefficients(self) -> "dict[str, Contrast]":
        return {}

    def remarks(self) -> list[str]:
        notes = [describe_half_ties(self.tally.n_ties)] if self.tally.n_ties else []
        if self.prior is not None:
            notes.append(
                f"prior: every score is normal about 0 with standard deviation {self.prior:g}; differences "
                "between components come from the prior, not from the data"
            )
        elif self.ridge:
            notes.append(f"ridge: {self.ridge:g}, within components")
        return notes

    @cached_property
    def crossing(self) -> NumberedChoices:
        """The choices from sets that reach beyond the component of the winner."""
        beyond = occurs(self.choices.choice[~self._in_component], len(self.choices.winner))
        return self.choices.select(np.ones_like(self._in_component), beyond)

    def covariance(self, numbers: Int64) -> Float64:
        """The covariance of these items, NaN between components, shape (n_items, n_items)."""
        component = self._component[numbers]
        covariance = np.full((len(numbers), len(numbers)), np.nan)
        for number in np.unique(component).tolist():
            members = np.flatnonzero(component == number)
            if self.components.sizes[number] > 1:
                positions = self._position[numbers[members]]
                covariance[np.ix_(members, members)] = self._inside(number).covariance(positions)
        return covariance

    def difference_error(self, first: int, second: int) -> tuple[float, float]:
        """The standard error of the difference of two scores of one component, and its degrees of freedom."""
        component = int(self._component[first])
        contrast = np.zeros(self.components.sizes[component])
        contrast[self._position[[first, second]]] = 1.0, -1.0
        return self._inside(component).variance(contrast) ** 0.5, np.inf

    def errors(self) -> Float64:
        if self._split is None:
            errors = np.zeros(len(self.values))
            errors[self._scored] = score_errors(self._problem, self._solved.scores, ridge=self._penalty)
            return errors
        errors_by_node = np.full(len(self._component), np.nan)
        for number in np.flatnonzero(self.components.sizes > 1).tolist():
            positions = np.arange(int(self.components.sizes[number]))
            errors_by_node[self._nodes(number)] = np.sqrt(np.diag(self._inside(number).covariance(positions)))
        return errors_by_node[:-1]

    @cached_property
    def _split(self) -> SplitRankings | None:
        if self.rankings is None:
            return None
        return SplitRankings(self.rankings, self.components, self._position)

    def _nodes(self, component: int) -> Int64:
        borders, members = self.components.members
        return members[borders[component] : borders[component + 1]]

    @cached_property
    def _position(self) -> Int64:
        """The index of each node in its component."""
        borders, members = self.components.members
        position = np.empty_like(members)
        position[members] = np.arange(len(members)) - borders[self._component[members]]
        return position

    def _inside(self, component: int) -> Information | Sandwich:
        if component not in self._covariances:
            scores, ridge = self.values[self._nodes(component)], self._penalty / self.denominator
            if self._split is None:
                covariance = Information(self._curve(component, scores), ridge=ridge)
            else:
                covariance = Sandwich(self._split.inside(component), scores, ridge)
            self._covariances[component] = covariance
        return self._covariances[component]

    def _curve(self, component: int, scores: Float64) -> csr_array:
        """The Hessian of the summed loss of a component, except its diagonal."""
        inside = self._component[self._scored] == component
        number = self._problem.component[np.argmax(inside)]
        _, alone = self._problem.restrict(np.arange(self._problem.n_components) == number)
        probability = alone.probabilities(scores)
        weight = np.repeat(alone.count, np.diff(alone.offsets)) * probability
        shape = (len(alone.winner), alone.n_alternatives)
        shares = csr_array((probability, alone.alternative, alone.offsets), shape=shape)
        products: Any = csr_array((weight, alone.alternative, alone.offsets), shape=shape).T @ shares
        return -products
