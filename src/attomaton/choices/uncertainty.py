"""Covariances of scores, and differences with their standard errors."""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array, csr_array

from attomaton.base.borders import trusted
from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.options import real_number
from attomaton.base.printing import name_item, show_count, tell_accuracy
from attomaton.base.ragged import group_borders, occurs, offsets_of, rows_of
from attomaton.base.solutions import score_table
from attomaton.base.tables import Float64, Int64, column, ragged_column
from attomaton.choices.luce_choices import NumberedChoices
from attomaton.choices.parsed import ItemTally
from attomaton.choices.rankings import choices_of_tiers, denominator_of
from attomaton.choices.spread import Spread, student_quantile, two_sided
from attomaton.graphs.choices import make_choices
from attomaton.graphs.components import Components, merge_components
from attomaton.graphs.strong import connected_nodes
from attomaton.solvers.soft.certify import SCORES_WITHIN
from attomaton.solvers.soft.curvature import LARGEST_DENSE, score_errors
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.solvers.soft.newton import sort_by_group
from attomaton.solvers.soft.solve import SoftSolution
from attomaton.solvers.soft.tied import prove_groups, solve_groups

if TYPE_CHECKING:
    from attomaton.choices.logit.contrasts import Contrast

CURVATURES_AT_ONCE = 1 << 22
"""Maximum size in memory: entries of curvatures times the items of a component."""


class RankingSlopes(NamedTuple):
    """The derivatives of the loss of some rankings with equally many items."""

    items: Int64  # (n_rankings, length)
    slope: Float64  # (n_rankings, length)
    curvature: Float64  # (n_rankings, length, length)
    often: Float64  # (n_rankings,)


class Rankings(NamedTuple):
    """The rankings of the items of one component, concatenated, each best first."""

    items: Int64  # (n_entries,)
    ranks: Int64  # (n_entries,), equal where items are tied
    lengths: Int64  # (n_rankings,)
    often: Int64  # (n_rankings,)


class SplitRankings:
    """Counted rankings restricted to each component, with the index of each item there in ``position``."""

    def __init__(self, rankings: pa.Table, components: Components, position: Int64) -> None:
        offsets, items = ragged_column(rankings, "items")
        component, ranking = components.component_of_node[items], rows_of(offsets)
        order = np.lexsort((ranking, component))
        self._items, self._ranking = position[items[order]], ranking[order]
        self._ranks = ragged_column(rankings, "places")[1][order]
        self._count = column(rankings, "count")
        self._borders = group_borders(component, len(components))

    def inside(self, component: int) -> Rankings:
        """The rankings of one component, its items numbered from 0."""
        here = slice(*self._borders[component : component + 2])
        ranking, lengths = np.unique(self._ranking[here], return_counts=True)
        return Rankings(self._items[here], self._ranks[here], lengths, self._count[ranking])


class Sandwich:
    """The sandwich covariance of the scores of one component."""

    def __init__(self, rankings: Rankings, scores: Float64, ridge: float) -> None:
        size = len(scores)
        curvature = csr_array((size, size))
        for batch in differentiate(rankings, scores):
            curvature += _gather(batch.items, batch.curvature * batch.often[:, None, None], size)
        self._information, self._ridge = Information(curvature, ridge=ridge), ridge
        root = self._information.halve(np.eye(size)).T
        self._slopes = csr_array((size, size))
        for batch in differentiate(rankings, scores):
            bent = batch.curvature @ root[batch.items]
            block = batch.slope[:, :, None] * batch.slope[:, None] + bent @ bent.transpose(0, 2, 1)
            self._slopes += _gather(batch.items, block * batch.often[:, None, None], size)

    def covariance(self, positions: Int64) -> Float64:
        """The covariance of the scores at these positions about the mean of all."""
        columns = self._information.solve(
            np.equal.outer(np.arange(self._slopes.shape[0]), positions).astype(np.float64)
        )
        covariance = columns.T @ (self._slopes @ columns + self._ridge * columns)
        return (covariance + covariance.T) / 2

    def variance(self, contrast: Float64) -> float:
        """The variance of Σ contrast · score; the contrast sums to 0."""
        moved = self._information.solve(contrast[:, None])
        return float((moved * (self._slopes @ moved + self._ridge * moved)).sum())


def differentiate(rankings: Rankings, scores: Float64) -> Iterator[RankingSlopes]:
    """Gradients and curvatures of rankings with the same pattern of ties, in batches that fit in memory."""
    starts = offsets_of(rankings.lengths)[:-1]
    for length in np.unique(rankings.lengths[rankings.lengths > 1]).tolist():
        rows = np.flatnonzero(rankings.lengths == length)
        entries = np.add.outer(starts[rows], np.arange(length, dtype=np.int64))
        patterns, pattern_of = np.unique(np.diff(rankings.ranks[entries]) != 0, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            tiers = np.split(np.arange(length, dtype=np.int64), np.flatnonzero(pattern) + 1)
            chosen = np.flatnonzero(pattern_of.ravel() == number)
            for few in np.array_split(chosen, 1 + len(chosen) * length * len(scores) // CURVATURES_AT_ONCE):
                items = rankings.items[entries[few]]
                derivatives = _differentiate_alike(scores[items], [tier.tolist() for tier in tiers])
                yield RankingSlopes(items, *derivatives, rankings.often[rows[few]].astype(np.float64))


def _differentiate_alike(scores: Float64, tiers: list[list[int]]) -> tuple[Float64, Float64]:
    slope, curvature = np.zeros_like(scores), np.zeros((*scores.shape, scores.shape[1]))
    denominator = denominator_of(map(len, tiers))
    for winner, members, weight in choices_of_tiers(tiers, denominator):
        gaps = scores[:, members] - scores[:, members].max(axis=1, keepdims=True)
        probability = np.exp(gaps) / np.exp(gaps).sum(axis=1, keepdims=True)
        slope[:, members] += weight / denominator * probability
        slope[:, winner] -= weight / denominator
        rows, columns = np.ix_(members, members)
        curvature[:, rows, columns] -= weight / denominator * probability[:, :, None] * probability[:, None]
        curvature[:, members, members] += weight / denominator * probability
    return slope, curvature


def _gather(items: Int64, blocks: Float64, size: int) -> csr_array:
    """The sum of blocks, each placed at the rows and columns of its items."""
    rows = np.broadcast_to(items[:, :, None], blocks.shape).ravel()
    columns = np.broadcast_to(items[:, None], blocks.shape).ravel()
    return csr_array(coo_array((blocks.ravel(), (rows, columns)), shape=(size, size)))


def _linalg() -> Any:
    import scipy.linalg  # a tenth of the start-up time

    return scipy.linalg


class Information:
    """The observed information of the scores of one component, factored: Σ count (diag p − p pᵀ) + ridge.

    It is singular along the constant; a shift there makes it invertible and is removed afterwards.
    """

    def __init__(self, curvature: csr_array, *, ridge: float = 0.0) -> None:
        size = curvature.shape[0]
        if size > LARGEST_DENSE:
            raise UnsupportedOption(
                f"a component has {size:,} items, and its covariance needs a dense matrix of that size; at "
                f"most {LARGEST_DENSE:,} are supported"
            )
        hessian: Float64 = curvature.toarray()
        np.fill_diagonal(hessian, 0.0)  # the diagonal from the other entries, so that no digits are lost
        np.fill_diagonal(hessian, -hessian.sum(axis=1))
        lift = float(np.trace(hessian)) / size or 1.0
        self._shift = 1.0 / ((lift + ridge) * size)
        try:
            self._factor = _linalg().cho_factor(hessian + ridge * np.eye(size) + lift / size, lower=True)
        except np.linalg.LinAlgError as error:
            raise UnsupportedOption(
                "the choices hardly connect some items of a component, so their standard errors are lost "
                "in rounding; add choices between them, or fit with a ridge"
            ) from error

    def solve(self, columns: Float64) -> Float64:
        """The pseudo-inverse times these columns, shape (size, n_columns)."""
        return _linalg().cho_solve(self._factor, columns) - self._shift * columns.sum(axis=0)

    def halve(self, columns: Float64) -> Float64:
        """Columns U with UᵀU = CᵀA⁺C for the ``columns`` C, if these sum to 0."""
        return _linalg().solve_triangular(self._factor[0], columns, lower=True)

    def covariance(self, positions: Int64) -> Float64:
        """The covariance of the scores at these positions about the mean of all."""
        covariance = self.solve(
            np.equal.outer(np.arange(len(self._factor[0])), positions).astype(np.float64)
        )[positions]
        return (covariance + covariance.T) / 2

    def variance(self, contrast: Float64) -> float:
        """The variance of Σ contrast · score, whose contrast sums to 0, without cancellation."""
        return float((self.halve(contrast[:, None]) ** 2).sum())


class BoardErrors(NamedTuple):
    """The errors of a board with clusters.

    ``independent`` is the covariance as if choices were independent, which tells what one more comparison is
    worth; ``rating`` has the errors of ratings and ``difference`` those of all differences.
    """

    independent: Float64
    rating: Spread
    difference: Spread


class ScoreDifference(NamedTuple):
    """The difference of two scores: the log odds that the first is chosen over the second.

    Attributes
    ----------
    first, second : items
        The two items.
    value : float
        The estimate; infinite where the component of one precedes that of the other.
    standard_error : float or None
        None where the value is infinite, and where clusters are too few to tell.
    degrees : float
        The degrees of freedom of Student's t for the interval: infinite (the normal distribution) without
        clusters.
    maximum : float, optional
        With a penalty: the estimate by the likelihood alone, which may be infinite.
    limits : object, optional
        Has ``interval(level)`` and ``p_value`` if these do not follow from the standard error, as for an
        infinite difference or with a penalty; private.
    """

    first: Any
    second: Any
    value: float
    standard_error: float | None
    degrees: float = np.inf
    maximum: float | None = None
    limits: Any = None

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The confidence interval of the difference, if the estimate is approximately normal.

        Where the difference is infinite, one end is, too. The other is the bound: at any gap beyond it, what
        happened has a probability of less than 1 − level.
        """
        level = real_number(level, "level", above=0, below=1)
        if self.limits is not None:
            return self.limits.interval(level)
        reach = float(student_quantile(0.5 + level / 2, self.degrees)) * self._error
        return self.value - reach, self.value + reach

    @property
    def p_value(self) -> float:
        """The two-sided p-value of a difference of 0: Wald's test, by Student's t with clusters.

        Where the difference is infinite, it is a number that the p-value does not exceed: twice the
        likelihood ratio of what happened, between a difference of 0 and the infinite one.
        """
        if self.limits is not None:
            return float(self.limits.p_value)
        return two_sided(self.value / self._error, self.degrees) if self.value else 1.0

    @property
    def _error(self) -> float:
        """The standard error, if there is one."""
        if self.standard_error is not None:
            return self.standard_error
        remedy = "add choices from more clusters, or fit without cluster="
        if np.isinf(self.value):
            remedy = "add a choice that the other one wins, or fit with prior=…"
        raise UnsupportedOption(
            f"the difference of {self.first!r} and {self.second!r} is {self.value:.6g}, without a "
            f"standard error; {remedy}"
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
    """What half wins mean."""
    rule = "half a win each way (a tie of more than two: the average over its orders)"
    return (
        f"ties: {show_count(n_ties)}, each counted as {rule}; scores give the expected score of a pair, not "
        "the odds of a win"
    )


def join_components(graph: Components) -> Components:
    """All items as one component, above the query, which is the last node and not an item."""
    if len(graph) < 3:
        return graph
    groups = np.zeros(len(graph), np.int64)
    groups[graph.component_of_node[-1]] = 1
    return merge_components(graph, groups)


class LuceScores:
    """The scores of a Luce model, with their covariances within each component, computed on demand.

    Choices count inside the component of the winner. The covariances are the inverse of the observed
    information, or a sandwich estimator with ties, which are half wins.
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
        self._component = self.components.component_of_node
        self._pull = (ridge if prior is None else prior**-2) * denominator
        self._covariances = dict[int, Information | Sandwich]()
        self._level = self._component[choices.item] == self._component[choices.winner[choices.choice]]
        n_level = np.bincount(choices.choice[self._level], minlength=len(choices.winner))
        inside = choices.select(self._level, n_level > 1)
        self._tied = np.flatnonzero(self.components.sizes[self._component[:-1]] > 1)
        number = np.zeros(len(self._component), np.int64)
        number[self._tied] = np.arange(len(self._tied))
        self._problem = trusted(
            LuceProblem,
            alternative=number[inside.item],
            offsets=group_borders(inside.choice, len(inside.winner)),
            log_multiplicity=np.log(inside.multiplicity),
            winner=number[inside.winner],
            count=inside.times.astype(np.float64),
            component=np.unique(self._component[self._tied], return_inverse=True)[1],
        )
        groups = sort_by_group(self._problem)
        if scores is None:
            self._solved = solve_groups(groups, ridge=self._pull)
        else:
            self._solved = prove_groups(groups, scores[self._tied], ridge=self._pull)
        self._proof = self._solved.certificate
        self.values = np.zeros(len(self._component[:-1]))
        self.values[self._tied] = self._solved.scores

    @property
    def joined(self) -> str:
        """What joins all items; empty if nothing does."""
        return "" if self.prior is None else "the prior"

    @property
    def certified(self) -> bool:
        """Whether the scores are proved to be near the best fit."""
        return self._proof.certified

    @cached_property
    def soft(self) -> SoftSolution:
        """The solution as of a corpus under one query, which is not an item and comes last."""
        problem = self._problem
        query = np.full(len(problem.winner), len(self.values), np.int32)
        winner, items = (self._tied[ids].astype(np.int32) for ids in (problem.winner, problem.alternative))
        times = np.rint(np.exp(problem.log_multiplicity)).astype(np.int32)
        counts = problem.count.astype(np.int64)
        return trusted(
            SoftSolution,
            scores=score_table(self.components.nodes, np.append(self.values, 0.0)),
            certificate=self._proof,
            loss=self._solved.loss,
            choices=make_choices(query, winner, problem.offsets, items, times, counts),
            components=self.components,
            ridge=self._pull,
        )

    @property
    def proof(self) -> str:
        return str(self._proof)

    @property
    def verdict(self) -> str:
        """What is proved, in one sentence."""
        if not self.certified:
            return f"not certified: {self.proof}"
        apart = not self.joined and len(self.components) > 2  # the query is a component, too
        return tell_accuracy("rating", f"{SCORES_WITHIN:.0e}", infinite=apart)

    def expect(self) -> None:
        """Raise ``UncertifiedSolution`` if the scores are not certified."""
        if not self.certified:
            raise UncertifiedSolution(
                f"these scores are not certified: {self._proof}; .components and .order are still "
                "exact; fit with a ridge to make the scores easier to find, or read .soft.scores uncertified"
            )

    @property
    def log_likelihood(self) -> float:
        """Σ ln p, or its supremum; a tie counts as parts of choices."""
        return -self._solved.loss / self.denominator

    @property
    def n_parameters(self) -> int:
        """Σ (items − 1) over the components."""
        return int((self.components.sizes[:-1] - 1).sum())

    @property
    def n_identified(self) -> int:
        """How many numbers the choices bear on, finite or not: items less groups that were never compared."""
        edges, size = self.graph.edges, len(self.values)
        use = edges["loser"] < size
        won, lost = (edges[name][use].astype(np.int64) for name in ("winner", "loser"))
        return size - 1 - int(connected_nodes(won, lost, size, strongly=False).max(initial=-1))

    @property
    def why_no_aic(self) -> str:
        """Why there is no likelihood at its maximum, or at its supremum; empty if there is one."""
        if self._pull:
            return "a ridge or a prior moves the fit away from it"
        return "" if self.rankings is None else "half a win has no likelihood"

    @property
    def coefficients(self) -> "dict[str, Contrast]":
        """There are no features."""
        return {}

    def remarks(self) -> list[str]:
        """Notes on ties, the prior and the ridge."""
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
        beyond = occurs(self.choices.choice[~self._level], len(self.choices.winner))
        return self.choices.select(np.ones_like(self._level), beyond)

    def covariance(self, numbers: Int64) -> Float64:
        """The covariance of these items, NaN where there is none, shape (n_items, n_items)."""
        component = self._component[numbers]
        covariance = np.full((len(numbers), len(numbers)), np.nan)
        for number in np.unique(component).tolist():
            here = np.flatnonzero(component == number)
            if self.components.sizes[number] > 1:
                positions = self._position[numbers[here]]
                covariance[np.ix_(here, here)] = self._inside(number).covariance(positions)
        return covariance

    def difference_error(self, first: int, second: int) -> tuple[float, float]:
        """The standard error of the difference of two scores of one component, and its degrees of freedom."""
        component = int(self._component[first])
        contrast = np.zeros(self.components.sizes[component])
        contrast[self._position[[first, second]]] = 1.0, -1.0
        return self._inside(component).variance(contrast) ** 0.5, np.inf

    def errors(self) -> Float64:
        """The standard error of the score of each item, shape (n_items,)."""
        if self._split is None:
            errors = np.zeros(len(self.values))
            errors[self._tied] = score_errors(self._problem, self._solved.scores, ridge=self._pull)
            return errors
        errors_by_node = np.full(len(self._component), np.nan)
        for number in np.flatnonzero(self.components.sizes > 1).tolist():
            positions = np.arange(int(self.components.sizes[number]))
            errors_by_node[self._nodes(number)] = np.sqrt(np.diag(self._inside(number).covariance(positions)))
        return errors_by_node[:-1]

    @cached_property
    def _split(self) -> SplitRankings | None:
        return (
            None if self.rankings is None else SplitRankings(self.rankings, self.components, self._position)
        )

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
            scores = self.values[self._nodes(component)]
            if self._split is None:
                self._covariances[component] = Information(
                    self._curve(component, scores), ridge=self._pull / self.denominator
                )
            else:
                self._covariances[component] = Sandwich(
                    self._split.inside(component), scores, self._pull / self.denominator
                )
        return self._covariances[component]

    def _curve(self, component: int, scores: Float64) -> csr_array:
        """The Hessian of the summed loss of a component, without its diagonal."""
        inside = self._component[self._tied] == component
        number = self._problem.component[np.argmax(inside)]
        _, alone = self._problem.restrict(np.arange(self._problem.n_components) == number)
        probability = alone.probabilities(scores)
        weight = np.repeat(alone.count, np.diff(alone.offsets)) * probability
        shape = (len(alone.winner), alone.n_alternatives)
        shares = csr_array((probability, alone.alternative, alone.offsets), shape=shape)
        products: Any = csr_array((weight, alone.alternative, alone.offsets), shape=shape).T @ shares
        return -products
