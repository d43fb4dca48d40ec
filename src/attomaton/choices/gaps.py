"""Infinite gaps between components: their order, and the least that each gap may be.

Where all choices between two components went one way, the gap between them is infinite; with confidence 1 − α
it is at least the gap at which these choices had the probability α (Geyer 2009). For 8 wins of 8 that is
0.789 at 95 %.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.graphs.edges import EdgeTable

if TYPE_CHECKING:
    from attomaton.choices.logit.fit import LogitFit

MOST_BETWEEN = 20
"""Most components on the way from one to another of which all choices are used at once."""

FARTHEST, HALVINGS = 800.0, 64
"""Largest gap that is looked for, and how often that range is halved."""


class Gaps(Protocol):
    """Pairs of components of which the first is infinitely far ahead, with a bound for each.

    Components are numbered so that none comes before one that precedes it. All gaps are between the means of
    two components.

    Examples
    --------
    >>> import attomaton as at
    >>> gaps = at.fit_choices(["a", "b"], losers=["b", "c"], counts=[8, 8]).board().ratings.gaps
    >>> gaps.each(0.95).round(3).tolist(), round(gaps.least(0, 2, 0.95), 3)  # a over b, b over c, a over c
    ([0.789, 0.789], 3.161)
    """

    above: Int64
    below: Int64
    n_components: int

    def each(self, level: float) -> Float64:
        """With this confidence each pair's gap is at least this, shape (n_pairs,); −inf where unknown."""
        ...

    def least(self, above: int, below: int, level: float) -> float:
        """The same for any two components of which a chain of pairs leads from one to the other."""
        ...


def precedence(gaps: Gaps) -> Bool:
    """Which components precede which others, shape (n_components, n_components)."""
    reach = np.zeros((gaps.n_components, gaps.n_components), bool)
    order = np.argsort(-gaps.above, kind="stable")
    for above, below in zip(gaps.above[order].tolist(), gaps.below[order].tolist(), strict=True):
        reach[above] |= reach[below]
        reach[above, below] = True
    return reach


def add_up(gaps: Gaps, each: Float64, above: int, below: int) -> float:
    """The largest sum of the least gaps ``each`` over chains of pairs from one component to the other."""
    total = np.full(gaps.n_components, -np.inf)
    total[above] = 0.0
    for pair in np.lexsort((gaps.below, gaps.above)).tolist():  # so that the start is known
        end = gaps.below[pair]
        total[end] = max(total[end], total[gaps.above[pair]] + each[pair])
    return float(total[below])


class CountedGaps:
    """Gaps from the number of wins of items over items of other components.

    Parameters
    ----------
    component, score : arrays, shape (n_items,)
        The component of each item, and its score about the mean of that component.
    winner, loser : int64 arrays, shape (n_pairs,)
        Pairs of items of different components.
    wins : float64 array, shape (n_pairs,)
        How often the winner won. A choice from several counts in parts that add up to one.
    n_components : int
        The number of components.
    """

    def __init__(
        self,
        component: Int64,
        score: Float64,
        winner: Int64,
        loser: Int64,
        wins: Float64,
        n_components: int,
    ) -> None:
        keys = component[winner] * n_components + component[loser]
        pairs, self._pair = np.unique(keys, return_inverse=True)
        self.above, self.below = pairs // max(n_components, 1), pairs % max(n_components, 1)
        self.n_components = n_components
        self._least = dict[float, Float64]()
        self._lead, self._wins = score[winner] - score[loser], wins

    def each(self, level: float) -> Float64:
        """With this confidence each pair's gap is at least this, by the choices between the two alone."""
        if level in self._least:
            return self._least[level]
        low = np.full(len(self.above), -FARTHEST)
        high, limit = -low, np.log1p(-level)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            losses = np.logaddexp(0.0, -(middle[self._pair] + self._lead))
            enough = -np.bincount(self._pair, self._wins * losses, len(middle)) >= limit
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        self._least[level] = low
        return low

    def least(self, above: int, below: int, level: float) -> float:
        """The least gap at which all choices on the way from one component to the other are that probable.

        With many components on the way it is the sum along the chain of pairs where that is largest, which is
        never more: all choices are at most as probable as those of each pair.
        """
        itself = np.eye(self.n_components, dtype=bool)
        on_way = (self._precedes[above] | itself[above]) & (self._precedes[:, below] | itself[below])
        size, height = int(on_way.sum()), None
        if 2 < size <= MOST_BETWEEN:
            from attomaton.choices.logit.contrasts import (
                Merged,
                lowest_height,
            )  # a tenth of the start-up time

            number = np.cumsum(on_way) - 1
            rows = np.flatnonzero((on_way[self.above] & on_way[self.below])[self._pair])
            start, end = (number[side[self._pair[rows]]] for side in (self.above, self.below))
            slopes = (np.eye(size)[start] - np.eye(size)[end])[:, :-1]  # the last component stays at 0
            data = Merged(slopes, -self._lead[rows], np.arange(len(rows)), self._wins[rows])
            apart = np.arange(size - 1, 0, -1).astype(np.float64)
            height = lowest_height(np.eye(size - 1)[0], data, apart, level)
        return add_up(self, self.each(level), above, below) if height is None else height

    @cached_property
    def _precedes(self) -> Bool:
        return precedence(self)


def count_gaps(
    edges: EdgeTable, component: Int64, score: Float64, parts: int, n_components: int
) -> CountedGaps:
    """The gaps between components from the edges of a graph of wins, whose counts are ``parts`` per choice.

    The query, the last node, is beaten once in each choice, so that it is known how many choices an item won.
    A choice from more than two items counts as one win, divided between the items that it beat.
    """
    size = len(component)
    winner, loser = edges["winner"].astype(np.int64), edges["loser"].astype(np.int64)
    support, item = edges["support"] / parts, edges["loser"] < size
    choices = np.bincount(winner[~item], support[~item], size + 1)
    beaten = np.bincount(winner[item], support[item], size + 1)
    share = np.minimum(choices / np.maximum(beaten, 1.0 / parts), 1.0)[winner]
    rows = np.flatnonzero(item)
    rows = rows[component[winner[rows]] != component[loser[rows]]]
    return CountedGaps(component, score, winner[rows], loser[rows], (support * share)[rows], n_components)


class ContrastGaps:
    """Gaps from the contrasts of a conditional logit, with or without ties and features.

    Where all coefficients are finite, only components move apart, and the choices on the way from one to the
    other are enough for a bound. Otherwise :meth:`LogitFit.contrast` has it, which takes much longer.

    Parameters
    ----------
    fit : LogitFit
        The fit.
    component : int64 array, shape (n_items,)
        The component of each item; items are the first parameters.
    score : float64 array, shape (n_items,)
        The score of each item about the mean of its component.
    above, below : int64 arrays, shape (n_pairs,)
        Pairs of components of which the first precedes the second.
    finite : bool
        Whether all coefficients but the scores are finite.
    """

    def __init__(
        self, fit: "LogitFit", component: Int64, score: Float64, above: Int64, below: Int64, *, finite: bool
    ) -> None:
        self._fit, self._component, self._finite = fit, component, finite
        self._head: Int64 = np.unique(component, return_index=True)[1]  # one item of each component
        self._score, self._least = score[self._head], dict[tuple[float, bool], Float64]()
        self.n_components, self.above, self.below = len(self._head), above, below

    def each(self, level: float) -> Float64:
        """With this confidence each pair's gap is at least this."""
        return self._pairwise(level, True)

    def least(self, above: int, below: int, level: float) -> float:
        """With this confidence the gap of two components is at least this.

        With many components on the way it is the sum along the chain of pairs where that is largest, or
        unknown if a coefficient is infinite.
        """
        itself = np.eye(self.n_components, dtype=bool)
        on_way = (self._precedes[above] | itself[above]) & (self._precedes[:, below] | itself[below])
        if not self._finite:
            names = [self._fit.problem.names[int(self._head[number])] for number in (above, below)]
            few = self.n_components <= MOST_BETWEEN
            bound = self._fit.contrast(*names, level=level).bound if few else None
            return -np.inf if bound is None else bound - float(self._score[above] - self._score[below])
        gap = self._bound(above, below, on_way, level) if on_way.sum() <= MOST_BETWEEN else None
        return add_up(self, self._pairwise(level, False), above, below) if gap is None else gap

    def _pairwise(self, level: float, whole: bool) -> Float64:
        """The least gap of each pair, by all choices on the way or by those between the two alone."""
        if (level, whole) not in self._least:
            least, pairs = list[float](), zip(self.above.tolist(), self.below.tolist(), strict=True)
            for above, below in pairs:
                if whole:
                    least.append(self.least(above, below, level))
                else:
                    ends = np.isin(np.arange(self.n_components), (above, below))
                    gap = self._bound(above, below, ends, level)
                    least.append(-np.inf if gap is None else gap)
            self._least[level, whole] = np.array(least, np.float64)
        return self._least[level, whole]

    def _bound(self, above: int, below: int, among: Bool, level: float) -> float | None:
        """The least gap at which the choices among these components are that probable."""
        from attomaton.choices.logit.contrasts import lowest_height, merge  # a tenth of the start-up time

        start, end, weight, situation = self._moves
        use = among[start] & among[end]
        number, size = np.cumsum(among) - 1, int(among.sum())
        slopes = weight[use, None] * (np.eye(size)[number[start[use]]] - np.eye(size)[number[end[use]]])
        owners, place = np.unique(situation[use], return_inverse=True)
        data = merge(slopes[:, :-1], self._fit.behind[use], place, self._fit.problem.totals[owners])
        if size == 2:
            height, limit, top = -FARTHEST, float(np.log1p(-level)), FARTHEST
            for _ in range(HALVINGS):
                middle = (height + top) / 2
                enough = data.measure(np.array([middle]))[0] >= limit
                height, top = (height, middle) if enough else (middle, top)
        else:
            apart = np.arange(size - 1, 0, -1) / float(weight[use].min(initial=1.0))  # raises every row by 1
            height = lowest_height(np.eye(size - 1)[0], data, apart, level)
        offset = (self._fit.evidence.beta / self._fit.problem.scale)[self._head] - self._score
        return None if height is None else float(offset[above] - offset[below]) + height

    @cached_property
    def _moves(self) -> tuple[Int64, Int64, Float64, Int64]:
        """The components that each dying row moves apart, by how much of their gap, and its situation."""
        problem, rows = self._fit.problem, np.flatnonzero(self._fit.dying)
        start, end, weight = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64), np.zeros(len(rows))
        for number in range(self.n_components):
            column, members = np.zeros(problem.rows.n_parameters), np.flatnonzero(self._component == number)
            column[members] = problem.scale[members]
            gap = problem.gaps(column)[rows]
            start[gap > 0.25], end[gap < -0.25] = number, number
            weight = np.maximum(weight, gap)
        return start, end, weight, problem.situation_of(rows)

    @cached_property
    def _precedes(self) -> Bool:
        return precedence(self)
