"""Infinite gaps between components: their order, and a lower bound of each gap.

Where all choices between two components went one way, the gap between their mean scores is infinite. With
confidence 1 − α it is at least the gap at which these choices had the probability α (Geyer 2009). For 8 wins
of 8 that is 0.789 at 95 %. :class:`Gaps` finds the bounds from the :class:`LostRows` of either model.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.luce_choices import NumberedChoices

if TYPE_CHECKING:
    from attomaton.choices.logit.fit import LogitFit

MOST_BETWEEN = 20  # most components on the way from one to another of which all choices are used at once

LEAST_SLOPE = 0.25  # slopes of rows are 0 or at least ½, except for rounding

FARTHEST = 800.0  # gaps are searched for between this number and its negative
GAP_HALVINGS = 64  # of that range

LEAST_TAIL = 1e-15  # the least probability for which a bound is computed


class LostRows(NamedTuple):
    """Alternatives that were never chosen and are infinitely far behind what was chosen.

    With component means t, the log odds of row r against the alternatives of its situation that are not lost
    are ``start[r] − slopes[r]·t``. A situation that occurred N times adds −N ln(1 + Σ_r odds) to the
    log-likelihood.
    """

    slopes: Any  # CSR, (n_rows, n_components); each row sums to 0
    start: Float64  # (n_rows,)
    situation: Int64  # (n_rows,), ascending
    totals: Float64  # (n_situations,), N
    clusters: Int64 | None = None  # (n_situations,)

    def weights(self, situations: Int64, group: Int64 | None = None) -> Float64:
        """How often each situation counts: N times, or its share if a cluster (in a group) counts once."""
        clusters = None if self.clusters is None else self.clusters[situations]
        if clusters is not None and group is not None:
            clusters = clusters + group * (int(clusters.max(initial=-1)) + 1)
        from attomaton.choices.logit.bounds import count_once  # a tenth of the start-up time

        return count_once(self.totals[situations], clusters)


class PairRows(NamedTuple):
    """Lost rows with log odds start − slope · gap of one pair; rows of one situation and pair form a cell."""

    borders: Int64  # (n_cells + 1,), where the rows of each cell begin and end
    pair: Int64  # (n_cells,), the pair, as an index into ``Gaps.above``
    weight: Float64  # (n_cells,), how often the situation counts
    slope: Float64  # (n_rows,)
    start: Float64  # (n_rows,)


class Gaps:
    """Pairs of components of which the first is infinitely far ahead, with a lower bound of each gap.

    The arrays ``above`` and ``below``, shape (n_pairs,), are the pairs, sorted; a component has a larger
    number than those that precede it. A gap is the difference of the mean scores of two components.
    """

    def __init__(self, rows: LostRows, above: Int64, below: Int64, n_components: int) -> None:
        self.above, self.below = above, below
        self.n_components = n_components
        self._rows = rows
        self._bounds = dict[float, Float64]()  # level → bounds of the pairs

    @cached_property
    def precedes(self) -> Bool:
        """Whether the component of the row is ahead of that of the column, directly or through others."""
        precedes = np.zeros((self.n_components, self.n_components), bool)
        order = np.argsort(-self.above, kind="stable")  # the last component first: its row is then complete
        for above, below in zip(self.above[order].tolist(), self.below[order].tolist(), strict=True):
            precedes[above] |= precedes[below]
            precedes[above, below] = True
        return precedes

    def between(self, above: int, below: int) -> Bool:
        """The components on the way from one to the other, both included, shape (n_components,)."""
        number = np.arange(self.n_components)
        return (self.precedes[above] | (number == above)) & (self.precedes[:, below] | (number == below))

    def pair_bounds(self, level: float) -> Float64:
        """The bound of each pair's gap with this confidence by its own choices, shape (n_pairs,)."""
        if level not in self._bounds:
            rows = self._pair_rows
            limit = np.log1p(-level)  # ln α
            low = np.full(len(self.above), -FARTHEST)
            high = -low
            # bisect all pairs at once: the likelihood −Σ weight · ln(1 + Σ odds) rises with the gap
            for _ in range(GAP_HALVINGS if len(self._rows.start) else 0):
                middle = (low + high) / 2
                gap = np.repeat(middle[rows.pair], np.diff(rows.borders))
                log_odds = np.logaddexp.reduceat(rows.start - rows.slope * gap, rows.borders[:-1])
                losses = rows.weight * np.logaddexp(0.0, log_odds)  # by cell
                probable = -np.bincount(rows.pair, losses, len(middle)) >= limit
                low, high = np.where(probable, low, middle), np.where(probable, middle, high)
            self._bounds[level] = low
        return self._bounds[level]

    @cached_property
    def _pair_rows(self) -> PairRows:
        # the lost rows that lie between two components, sorted by situation, then by pair
        slopes = self._rows.slopes
        rows = np.flatnonzero(np.diff(slopes.indptr) == 2)
        # the two entries of a row of CSR have opposite signs, and the positive one is of the component above
        entry = slopes.indptr[rows]
        left, right = slopes.indices[entry], slopes.indices[entry + 1]
        is_left_above = slopes.data[entry] > 0
        above = np.asarray(np.where(is_left_above, left, right), np.int64)
        below = np.asarray(np.where(is_left_above, right, left), np.int64)
        pair = np.searchsorted(self.above * self.n_components + self.below, above * self.n_components + below)
        order = np.lexsort((pair, self._rows.situation[rows]))
        rows, pair = rows[order], pair[order]
        situation = self._rows.situation[rows]
        # where each cell begins
        cells = np.flatnonzero((np.diff(situation, prepend=-1) != 0) | (np.diff(pair, prepend=-1) != 0))
        weight = self._rows.weights(situation[cells], pair[cells])
        slope = np.abs(slopes.data[slopes.indptr[rows]])
        return PairRows(np.append(cells, len(rows)), pair[cells], weight, slope, self._rows.start[rows])

    def bound(self, above: int, below: int, level: float) -> float:
        """The least gap at which all choices on the way between the two components are probable enough."""
        on_way = self.between(above, below)
        size = int(on_way.sum())
        if not 2 < size <= MOST_BETWEEN:
            return self._sum_of_bounds(above, below, level)  # never larger
        from attomaton.choices.logit.bounds import lowest_height, merge  # a tenth of the start-up time

        rows = self._rows
        use = np.asarray(abs(rows.slopes) @ ~on_way).ravel() == 0
        inside = rows.slopes[use][:, on_way].toarray()[:, :-1]  # the last component stays at 0
        situations, number = np.unique(rows.situation[use], return_inverse=True)
        data = merge(inside, rows.start[use], number, rows.weights(situations))
        # components that are this far from each other, scaled so that slope · t is at least 1 in every row
        apart = np.arange(size - 1, 0, -1).astype(np.float64)
        height = lowest_height(np.eye(size - 1)[0], data, apart / (inside @ apart).min(), level)
        return self._sum_of_bounds(above, below, level) if height is None else height

    def _sum_of_bounds(self, above: int, below: int, level: float) -> float:
        # the largest sum of bounds of pairs along a chain from ``above`` to ``below``
        bounds = self.pair_bounds(level)
        total = np.full(self.n_components, -np.inf)
        total[above] = 0.0
        for pair in np.lexsort((self.below, self.above)).tolist():  # by ``above``, whose total is then final
            end = self.below[pair]
            total[end] = max(total[end], total[self.above[pair]] + bounds[pair])
        return float(total[below])


FindBound = Callable[[int, int, float], float | None]  # above, below, level → bound of the gap


class OpenGaps(Gaps):
    """Gaps where a coefficient of a feature is infinite too, so that not only components move apart."""

    def __init__(self, find_bound: FindBound, above: Int64, below: Int64, n_components: int) -> None:
        nothing = LostRows(csr_array((0, n_components)), np.zeros(0), np.zeros(0, np.int64), np.zeros(0))
        super().__init__(nothing, above, below, n_components)
        self._find_bound = find_bound

    def pair_bounds(self, level: float) -> Float64:
        if level not in self._bounds:
            pairs = zip(self.above.tolist(), self.below.tolist(), strict=True)
            self._bounds[level] = np.array([self.bound(*pair, level) for pair in pairs], np.float64)
        return self._bounds[level]

    def bound(self, above: int, below: int, level: float) -> float:
        """The bound of the gap with this confidence; −inf where it is unknown."""
        bound = self._find_bound(above, below, level) if self.n_components <= MOST_BETWEEN else None
        return -np.inf if bound is None else bound


class GapLimits(NamedTuple):
    """The interval and the p-value of an infinite difference of two items: unit · (gap + apart), signed."""

    gaps: Gaps
    above: int  # the component of the item that is ahead
    below: int  # the component of the other item
    apart: float  # difference of the scores of the items, each less the mean of its component
    unit: float  # ratings per log odds
    sign: float  # 1 if the first item is ahead, otherwise −1

    def interval(self, level: float) -> tuple[float, float]:
        """One end is infinite; the other is the bound, the least size that the difference may have."""
        bound = self._bound(1.0 - level)
        return (bound, np.inf) if self.sign > 0 else (-np.inf, -bound)

    @property
    def p_value(self) -> float:
        """Twice the probability of what happened at a difference of 0: the tail whose bound is 0."""
        from scipy.optimize import brentq  # a tenth of the start-up time

        if self._bound(0.5) < 0:
            return 1.0
        if self._bound(LEAST_TAIL) > 0:
            return 2.0 * LEAST_TAIL
        ends = np.log([LEAST_TAIL, 0.5])
        root: Any = brentq(lambda log_tail: self._bound(float(np.exp(log_tail))), *ends, xtol=1e-6)
        return 2.0 * float(np.exp(root))

    def _bound(self, tail: float) -> float:
        return self.unit * (self.apart + self.gaps.bound(self.above, self.below, 1.0 - tail))


def lost_in_sets(
    crossing: NumberedChoices, component: Int64, score: Float64, denominator: int, n_components: int
) -> LostRows:
    """The items of choice sets outside the component of the winner: one row per set and component."""
    # ``crossing`` has the choices with such items, counted in units of 1 / ``denominator``; scores are
    # relative to the mean of the component
    # a row is (choice, component); its total is the log of Σ multiplicity · e^score over items of both
    utility = np.log(crossing.multiplicity) + score[crossing.item]
    keys = crossing.choice * n_components + component[crossing.item]
    order = np.argsort(keys, kind="stable")
    keys, begins = np.unique(keys[order], return_index=True)
    total = np.logaddexp.reduceat(utility[order], begins) if len(begins) else np.zeros(0)
    choice, row_component = np.divmod(keys, max(n_components, 1))
    ahead = component[crossing.winner][choice]  # the component of the winner
    is_lost = row_component != ahead
    total_of_winners = total[~is_lost]  # (n_choices,), since one row of each choice is not lost
    choice = choice[is_lost]
    start = total[is_lost] - total_of_winners[choice]
    # slope 1 at the component of the winner, −1 at that of the row
    ends = np.column_stack([ahead[is_lost], row_component[is_lost]])
    signs = np.tile([1.0, -1.0], len(ends))
    slopes = csr_array((signs, ends.ravel(), 2 * np.arange(len(ends) + 1)), shape=(len(ends), n_components))
    return LostRows(slopes, start, choice, crossing.times / denominator)


def lost_in_logit(
    fit: "LogitFit", component: Int64, score: Float64, n_components: int, clusters: Int64 | None
) -> LostRows:
    """The lost alternatives of a conditional logit with finite features, whose first parameters are items."""
    problem = fit.problem
    rows = np.flatnonzero(fit.dying)
    n_items = len(component)
    situation = problem.situation_of(rows)
    # what was chosen less what was lost, by item, then summed over the items of each component
    reference = problem.reference[situation]
    by_item = (problem.rows.pick(reference) - problem.rows.pick(rows))[:, :n_items]
    membership = (np.ones(n_items), component, np.arange(n_items + 1))
    slopes = csr_array(by_item @ csr_array(membership, shape=(n_items, n_components)))
    slopes.data[np.abs(slopes.data) <= LEAST_SLOPE] = 0.0
    slopes.eliminate_zeros()
    slopes.sort_indices()
    # the log odds are those at the means t of the fit, and start is without them: at t = 0
    leader = np.unique(component, return_index=True)[1]
    mean = problem.parameters(fit.evidence.beta)[leader] - score[leader]
    start = fit.dying_log_odds + slopes @ mean
    return LostRows(slopes, start, situation, problem.totals, clusters)
