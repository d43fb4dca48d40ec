"""Luce scores with their standard errors (:class:`LuceScores`), and differences of scores."""

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
    """The errors of ratings and of their differences with clusters."""

    # (n_items, n_items), the covariance if choices were independent: what one more comparison would change
    independent: Float64
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
        half_width = float(student_quantile(0.5 + level / 2, self.degrees)) * self._error
        return self.value - half_width, self.value + half_width

    @property
    def p_value(self) -> float:
        """The two-sided p-value of a difference of 0; for an infinite difference, an upper bound on it."""
        if self.limits is not None:
            return float(self.limits.p_value)
        return two_sided(self.value / self._error, self.degrees) if self.value else 1.0

    # The standard error; raises an error with a remedy if there is none.
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
        bound = np.inf
        if np.isinf(self.value) and self.limits is not None:
            low, high = self.limits.interval(0.95)
            bound = float(low if self.value > 0 else high)  # the finite end
        if np.isfinite(bound):
            error = f"{'at least' if self.value > 0 else 'at most'} {bound:+z.3f} with confidence 95 %"
        if self.maximum is not None:
            error += f"; without the penalty {self.maximum:+z.3f}"
        return f"{name_item(self.first)} minus {name_item(self.second)}: {self.value:+z.3f} ({error})"


def describe_half_ties(n_ties: float) -> str:
    """The remark on ties that count as half wins."""
    rule = "half a win each way (a tie of more than two: the average over its orders)"
    return (
        f"ties: {show_count(n_ties)}, each counted as {rule}; scores give the expected score of a pair, not "
        "the odds of a win"
    )


def join_components(graph: Components) -> Components:
    """Merge all items into one component, above the query, which is the last node and not an item."""
    if len(graph) < 3:  # at most one component besides the query
        return graph
    groups = np.zeros(len(graph), np.int64)
    groups[graph.component_of_node[-1]] = 1
    return merge_components(graph, groups)


class LuceScores:
    """The scores of a Luce model, and the covariances within each component, computed on demand."""

    # `values` are the scores of the items, with mean 0 in each of the `components`, which are those of the
    # graph of wins, or with a prior all items together. Counts are multiplied by `denominator`, so that
    # fractions of choices (of ties, which are half wins) are whole numbers.

    # Index spaces: items; nodes, with the query as the last; *scored* items, which are not alone in their
    # component, numbered from 0; and *positions* in one component.

    # What only the conditional logit has.
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
        self.choices = choices
        self.graph = graph
        self.tally = tally
        self.rankings = rankings
        self.ridge = ridge
        self.prior = prior
        self.denominator = denominator
        self.ties = "" if rankings is None else "half"
        self.components = graph if prior is None else join_components(graph)
        self.joined = "" if prior is None else "the prior"  # what joins all items into one component
        self._component = self.components.component_of_node  # by node
        # A normal prior with standard deviation σ is a ridge of 1 / σ²; the loss has `denominator` times it.
        self._penalty = (ridge if prior is None else prior**-2) * denominator
        self._covariances = dict[int, Information | Sandwich]()
        # Which options are in the component of the winner of their choice.
        self._in_component = self._component[choices.item] == self._component[choices.winner[choices.choice]]
        self._scored = np.flatnonzero(self.components.sizes[self._component[:-1]] > 1)
        self._problem = self._restrict_to_components()
        groups = sort_by_group(self._problem)
        if scores is None:
            self._solved = solve_groups(groups, ridge=self._penalty)
        else:  # from a file
            self._solved = prove_groups(groups, scores[self._scored], ridge=self._penalty)
        self.values = np.zeros(len(self._component[:-1]))
        self.values[self._scored] = self._solved.scores

    # The choices among options of the winner's component, with scored items numbered from 0.
    def _restrict_to_components(self) -> LuceProblem:
        choices = self.choices
        n_options = np.bincount(choices.choice[self._in_component], minlength=len(choices.winner))
        inside = choices.select(self._in_component, n_options > 1)  # one option is no choice
        scored_number = np.zeros(len(self._component), np.int64)
        scored_number[self._scored] = np.arange(len(self._scored))
        return trusted(
            LuceProblem,
            alternative=scored_number[inside.item],
            offsets=group_borders(inside.choice, len(inside.winner)),
            log_multiplicity=np.log(inside.multiplicity),
            winner=scored_number[inside.winner],
            count=inside.times.astype(np.float64),
            component=np.unique(self._component[self._scored], return_inverse=True)[1],
        )

    @property
    def certified(self) -> bool:
        """Whether the scores are proved to be the best fit."""
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
        """The certificate in words."""
        return str(self._solved.certificate)

    @property
    def verdict(self) -> str:
        """The sentence that a summary prints about the certificate."""
        if not self.certified:
            return f"not certified: {self.proof}"
        apart = not self.joined and len(self.components) > 2  # the query is a component, too
        return tell_accuracy("rating", f"{SCORES_WITHIN:.0e}", infinite=apart)

    def expect(self) -> None:
        """Raise ``UncertifiedSolution`` if the scores are not certified."""
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
        """The number of finite parameters: the items of each component less one."""
        return int((self.components.sizes[:-1] - 1).sum())

    @property
    def n_identified(self) -> int:
        """The number of identified parameters, finite or not: items less groups joined by choices."""
        edges = self.graph.edges
        n_items = len(self.values)
        between_items = edges["loser"] < n_items  # the others lead to the query
        winner, loser = (edges[name][between_items].astype(np.int64) for name in ("winner", "loser"))
        last_group = int(connected_nodes(winner, loser, n_items, strongly=False).max(initial=-1))
        return n_items - (last_group + 1)

    @property
    def why_no_aic(self) -> str:
        """Why the fit has no likelihood for AIC and BIC; empty if it has."""
        if self._penalty:
            return "a ridge or a prior moves the fit away from it"
        return "" if self.rankings is None else "half a win has no likelihood"

    @property
    def coefficients(self) -> "dict[str, Contrast]":
        return {}

    def remarks(self) -> list[str]:
        """What a summary says about ties, prior and ridge."""
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
        """The covariance of the items with these numbers, NaN between components, shape (n, n)."""
        component_of = self._component[numbers]
        covariance = np.full((len(numbers), len(numbers)), np.nan)
        for component in np.unique(component_of).tolist():
            if self.components.sizes[component] > 1:
                members = np.flatnonzero(component_of == component)
                positions = self._position[numbers[members]]
                covariance[np.ix_(members, members)] = self._inside(component).covariance(positions)
        return covariance

    def difference_error(self, first: int, second: int) -> tuple[float, float]:
        """The standard error of the difference of two scores of one component, and its degrees of freedom."""
        component = int(self._component[first])
        contrast = np.zeros(self.components.sizes[component])
        contrast[self._position[[first, second]]] = 1.0, -1.0
        return self._inside(component).variance(contrast) ** 0.5, np.inf

    def errors(self) -> Float64:
        """The standard error of each score, shape (n_items,); 0 or NaN for an item alone."""
        if self._split is None:
            errors = np.zeros(len(self.values))
            errors[self._scored] = score_errors(self._problem, self._solved.scores, ridge=self._penalty)
            return errors
        errors_by_node = np.full(len(self._component), np.nan)
        for component in np.flatnonzero(self.components.sizes > 1).tolist():
            positions = np.arange(int(self.components.sizes[component]))
            variances = np.diag(self._inside(component).covariance(positions))
            errors_by_node[self._nodes(component)] = np.sqrt(variances)
        return errors_by_node[:-1]  # without the query

    # The rankings with ties, split by component; None without ties.
    @cached_property
    def _split(self) -> SplitRankings | None:
        if self.rankings is None:
            return None
        return SplitRankings(self.rankings, self.components, self._position)

    # The nodes of a component, ascending.
    def _nodes(self, component: int) -> Int64:
        borders, members = self.components.members
        return members[borders[component] : borders[component + 1]]

    # The index of each node among the nodes of its component.
    @cached_property
    def _position(self) -> Int64:
        borders, members = self.components.members
        position = np.empty_like(members)
        position[members] = np.arange(len(members)) - borders[self._component[members]]
        return position

    # The estimator of covariances inside a component, by position: a sandwich if rankings have ties.
    def _inside(self, component: int) -> Information | Sandwich:
        if component not in self._covariances:
            scores = self.values[self._nodes(component)]
            ridge = self._penalty / self.denominator
            if self._split is None:
                covariance = Information(self._find_hessian(component, scores), ridge=ridge)
            else:
                covariance = Sandwich(self._split.inside(component), scores, ridge)
            self._covariances[component] = covariance
        return self._covariances[component]

    # The Hessian of the summed loss of a component by position, right except on the diagonal.
    def _find_hessian(self, component: int, scores: Float64) -> csr_array:
        # H_ab = −Σ_c n_c p_ca p_cb for a ≠ b, where choice c occurred n_c times and gave a probability p_ca.
        first_scored = np.argmax(self._component[self._scored] == component)
        number = self._problem.component[first_scored]  # of the component in the problem
        _, problem = self._problem.restrict(np.arange(self._problem.n_components) == number)
        probability = problem.probabilities(scores)
        weight = np.repeat(problem.count, np.diff(problem.offsets)) * probability
        shape = (len(problem.winner), problem.n_alternatives)
        rows = problem.alternative, problem.offsets  # one row for each choice
        weights = csr_array((weight, *rows), shape=shape)
        products: Any = weights.T @ csr_array((probability, *rows), shape=shape)
        return -products
