"""Infinite gaps between components: their order, and the least that each gap may be.

Where all choices between two components went one way, the gap between them is infinite; with confidence 1 − α
it is at least the gap at which these choices had the probability α (Geyer 2009). For 8 wins of 8 that is
0.789 at 95 %.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.numbering import NumberedChoices

if TYPE_CHECKING:
    from attomaton.choices.logit.fit import LogitFit

MOST_BETWEEN = 20
"""Most components on the way from one to another of which all choices are used at once."""

LEAST_SLOPE = 0.25
"""Slopes of rows are 0 or at least ½, but for rounding."""

FARTHEST, GAP_HALVINGS = 800.0, 64
"""Largest gap that is looked for, and how often that range is halved."""


class LostRows(NamedTuple):
    """Alternatives that were never chosen and are infinitely far behind what was chosen.

    With component means t, the log odds of row r against the alternatives of its situation that are not lost
    are ``start[r] − slopes[r]·t``. A situation that occurred N times adds −N ln(1 + Σ_r odds) to the
    log-likelihood.
    """

    slopes: Any  # CSR, (n_rows, n_components); each row sums to 0
    start: Float64  # (n_rows,)
    situation: Int64  # (n_rows,), ascending
    totals: Float64  # (n_situations,)
    clusters: Int64 | None = None  # (n_situations,)

    def weights(self, situations: Int64, group: Int64 | None = None) -> Float64:
        """How often each of these situations counts: N times, or its share of the one choice of its cluster.

        ``group`` separates sets of situations that are used apart from each other.
        """
        clusters = None if self.clusters is None else self.clusters[situations]
        if clusters is not None and group is not None:
            clusters = clusters + group * (int(clusters.max(initial=-1)) + 1)
        from attomaton.choices.logit.bounds import count_once  # a tenth of the start-up time

        return count_once(self.totals[situations], clusters)


class Gaps:
    """Pairs of components of which the first is infinitely far ahead, with a bound for each.

    A component has a larger number than those that precede it. All gaps are between the means of
    two components.

    Parameters
    ----------
    rows : LostRows
        The alternatives from which the gaps follow.
    above, below : int64 arrays, shape (n_pairs,)
        Pairs of components of which the first precedes the second, sorted.
    n_components : int
        The number of components.
    """

    def __init__(self, rows: LostRows, above: Int64, below: Int64, n_components: int) -> None:
        self.above, self.below, self.n_components = above, below, n_components
        self._rows, self._least = rows, dict[float, Float64]()

    @cached_property
    def precedes(self) -> Bool:
        """Which components precede which others, shape (n_components, n_components)."""
        reach = np.zeros((self.n_components, self.n_components), bool)
        order = np.argsort(-self.above, kind="stable")
        for above, below in zip(self.above[order].tolist(), self.below[order].tolist(), strict=True):
            reach[above] |= reach[below]
            reach[above, below] = True
        return reach

    def between(self, above: int, below: int) -> Bool:
        """The components on the way from one to the other, both included, shape (n_components,)."""
        itself = np.eye(self.n_components, dtype=bool)
        return (self.precedes[above] | itself[above]) & (self.precedes[:, below] | itself[below])

    def each(self, level: float) -> Float64:
        """With this confidence each pair's gap is at least this, by the choices between the two alone.

        The shape is (n_pairs,).
        """
        if level not in self._least:
            rows, (cells, pair, weight, slope, start) = self._rows, self._pairwise
            low, limit = np.full(len(self.above), -FARTHEST), np.log1p(-level)
            high = -low
            for _ in range(GAP_HALVINGS if len(rows.start) else 0):
                middle = (low + high) / 2
                odds = np.logaddexp.reduceat(
                    start - slope * np.repeat(middle[pair], np.diff(cells)), cells[:-1]
                )
                value = -np.bincount(pair, weight * np.logaddexp(0.0, odds), len(middle))
                low, high = np.where(value >= limit, low, middle), np.where(value >= limit, middle, high)
            self._least[level] = low
        return self._least[level]

    @cached_property
    def _pairwise(self) -> tuple[Int64, Int64, Float64, Float64, Float64]:
        """Rows that move with one pair of components only, in cells of one situation and pair.

        Where each cell starts, its pair and its weight; the slope and the start of each row.
        """
        slopes, start = self._rows.slopes, self._rows.start
        chosen = np.flatnonzero(np.diff(slopes.indptr) == 2)
        at = slopes.indptr[chosen]
        ends = slopes.indices[at], slopes.indices[at + 1]
        above, below = (
            np.asarray(np.where(slopes.data[at] > 0, *sides), np.int64) for sides in (ends, ends[::-1])
        )
        keys = self.above * self.n_components + self.below
        pair = np.searchsorted(keys, above * self.n_components + below)
        order = np.lexsort((pair, self._rows.situation[chosen]))
        chosen, pair = chosen[order], pair[order]
        situation = self._rows.situation[chosen]
        new = (np.diff(situation, prepend=-1) != 0) | (np.diff(pair, prepend=-1) != 0)
        cells = np.flatnonzero(new)
        weight = self._rows.weights(situation[cells], pair[cells])
        slope = np.abs(slopes.data[slopes.indptr[chosen]])
        return np.append(cells, len(chosen)), pair[cells], weight, slope, start[chosen]

    def least(self, above: int, below: int, level: float) -> float:
        """The least gap at which the choices on the way from one component to the other are probable enough.

        With many components on the way it is the sum along the chain of pairs where that is largest, which is
        never more: all choices are at most as probable as those of each pair.
        """
        among = self.between(above, below)
        size, height = int(among.sum()), None
        if 2 < size <= MOST_BETWEEN:
            from attomaton.choices.logit.bounds import lowest_height, merge  # a tenth of the start-up time

            slopes, start, situation, _, _ = self._rows
            use = np.asarray(abs(slopes) @ ~among).ravel() == 0
            inside = slopes[use][:, among].toarray()[:, :-1]  # the last component stays at 0
            owners, number = np.unique(situation[use], return_inverse=True)
            data = merge(inside, start[use], number, self._rows.weights(owners))
            apart = np.arange(size - 1, 0, -1).astype(np.float64)
            height = lowest_height(np.eye(size - 1)[0], data, apart / (inside @ apart).min(), level)
        return self._add_up(above, below, level) if height is None else height

    def _add_up(self, above: int, below: int, level: float) -> float:
        """The largest sum of the least gaps over chains of pairs from one component to the other."""
        total, each = np.full(self.n_components, -np.inf), self.each(level)
        total[above] = 0.0
        for pair in np.lexsort((self.below, self.above)).tolist():  # so that the start is known
            end = self.below[pair]
            total[end] = max(total[end], total[self.above[pair]] + each[pair])
        return float(total[below])


class OpenGaps(Gaps):
    """Gaps where a coefficient of a feature is infinite too, so that not only components move apart."""

    def __init__(
        self, bound: Callable[[int, int, float], float | None], above: Int64, below: Int64, n_components: int
    ) -> None:
        nothing = LostRows(csr_array((0, n_components)), np.zeros(0), np.zeros(0, np.int64), np.zeros(0))
        super().__init__(nothing, above, below, n_components)
        self._bound = bound

    def each(self, level: float) -> Float64:
        """With this confidence each pair's gap is at least this; −inf where unknown."""
        if level not in self._least:
            pairs = zip(self.above.tolist(), self.below.tolist(), strict=True)
            self._least[level] = np.array([self.least(*pair, level) for pair in pairs], np.float64)
        return self._least[level]

    def least(self, above: int, below: int, level: float) -> float:
        """With this confidence the gap of two components is at least this; −inf where unknown."""
        bound = self._bound(above, below, level) if self.n_components <= MOST_BETWEEN else None
        return -np.inf if bound is None else bound


def lost_in_sets(
    crossing: NumberedChoices, component: Int64, score: Float64, denominator: int, n_components: int
) -> LostRows:
    """The lost alternatives of choices from sets: all items outside the component of the winner.

    ``crossing`` has the choices with such items, counted in units of 1 / ``denominator``, and ``score`` the
    score of each item about the mean of its component. Items of one set and component make one row.
    """
    utility = np.log(crossing.multiplicity) + score[crossing.item]
    key = crossing.choice * n_components + component[crossing.item]
    order = np.argsort(key, kind="stable")
    key, first = np.unique(key[order], return_index=True)
    total = np.logaddexp.reduceat(utility[order], first) if len(first) else np.zeros(0)
    choice, number = key // max(n_components, 1), key % max(n_components, 1)
    ahead = component[crossing.winner][choice]
    face = total[number == ahead]  # of each choice
    lost = number != ahead
    choice, start = choice[lost], total[lost] - face[choice[lost]]
    ends = np.column_stack([ahead[lost], number[lost]])
    signs = np.tile([1.0, -1.0], len(ends))
    slopes = csr_array((signs, ends.ravel(), 2 * np.arange(len(ends) + 1)), shape=(len(ends), n_components))
    return LostRows(slopes, start, choice, crossing.times / denominator)


def lost_in_logit(
    fit: "LogitFit", component: Int64, score: Float64, n_components: int, clusters: Int64 | None
) -> LostRows:
    """The lost alternatives of a conditional logit whose coefficients other than the items' are finite.

    ``component`` and ``score`` belong to the items, which are the first parameters.
    """
    problem, rows = fit.problem, np.flatnonzero(fit.dying)
    reference = problem.reference[problem.situation_of(rows)]
    differences = (problem.rows.pick(reference) - problem.rows.pick(rows))[:, : len(component)]
    moved = (np.ones(len(component)), component, np.arange(len(component) + 1))
    slopes = csr_array(differences @ csr_array(moved, shape=(len(component), n_components)))
    slopes.data[np.abs(slopes.data) <= LEAST_SLOPE] = 0.0
    slopes.eliminate_zeros()
    slopes.sort_indices()
    leader = np.unique(component, return_index=True)[1]
    mean = problem.parameters(fit.evidence.beta)[leader] - score[leader]
    start = fit.dying_log_odds + slopes @ mean
    return LostRows(slopes, start, problem.situation_of(rows), problem.totals, clusters)
