"""Ratings of items: scores inside components, infinite differences between them, and boards.

A board is a set of items that can be compared. Its anchor is the largest component that is not on an earlier
board; the board contains the anchor and every component that precedes or follows the anchor. An item of the
anchor has a finite rating. Any other item is infinitely far ahead of the anchor, or infinitely far behind.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.gaps import MOST_BETWEEN, Gaps
from attomaton.choices.spread import Spread
from attomaton.choices.uncertainty import BoardErrors


@dataclass(frozen=True, eq=False)
class Ratings:
    """The scores of the items in log odds, relative to the mean of their component, and their errors.

    The arrays have one entry for each of ``items``: ``component`` (larger than the numbers of the components
    that precede it), ``score``, ``wins``, ``losses``. ``covariance`` of the scores is NaN between components
    and for items alone; if choices have clusters, ``errors`` replaces its errors. ``gaps`` are the infinite
    gaps. ``tie`` is the log odds of a tie against a win between equal items (Davidson), −inf without ties.
    """

    items: tuple[Any, ...]
    component: Int64  # (n_items,)
    score: Float64  # (n_items,)
    covariance: Float64 | None  # (n_items, n_items)
    wins: Any  # (n_items,)
    losses: Any  # (n_items,)
    gaps: Gaps
    tie: float = -np.inf
    errors: BoardErrors | None = None

    @property
    def games(self) -> Any:
        """The number of choices with each item, shape (n_items,)."""
        return self.wins + self.losses

    @cached_property
    def members(self) -> list[Int64]:
        """The items of each component, best first."""
        best_first = np.lexsort((-self.score, self.component))
        sizes = np.bincount(self.component, minlength=self.gaps.n_components)
        return np.split(best_first, np.cumsum(sizes)[:-1])

    @cached_property
    def anchors(self) -> Int64:
        """The component that is the anchor of each board."""
        n_components = self.gaps.n_components
        sizes = np.bincount(self.component, minlength=n_components)
        games = np.bincount(self.component, self.games, n_components)
        comparable = self._comparable.astype(np.float32)  # multiplies faster than integers
        anchors: list[int] = []
        unassigned = np.ones(n_components, bool)
        while unassigned.any():
            n_comparable = comparable @ (sizes * unassigned).astype(np.float32)  # items, by component
            candidates = np.flatnonzero(unassigned)
            # The largest component; of several, the one comparable to most items, with most games, the first.
            # lexsort sorts by the last key first.
            keys = -candidates, games[candidates], n_comparable[candidates], sizes[candidates]
            anchors.append(int(candidates[np.lexsort(keys)[-1]]))
            unassigned &= ~self._comparable[anchors[-1]]
        return np.array(anchors, np.int64)

    @cached_property
    def board_of_component(self) -> Int64:
        """The board of each component, numbered from 0: the first whose anchor is comparable to it."""
        if not len(self.anchors):
            return np.zeros(0, np.int64)
        return self._comparable[self.anchors].argmax(axis=0)

    @property
    def board(self) -> Int64:
        """The board of each item, shape (n_items,)."""
        return self.board_of_component[self.component]

    # Which components are equal, or one precedes the other, shape (n_components, n_components).
    @cached_property
    def _comparable(self) -> Bool:
        precedes = self.gaps.precedes
        return precedes | precedes.T | np.eye(len(precedes), dtype=bool)

    @cached_property
    def side(self) -> Int64:
        """1 for items infinitely far ahead of the anchor of their board, −1 for those behind it, else 0."""
        precedes = self.gaps.precedes
        anchor = self.anchors[self.board]  # of each item
        return precedes[self.component, anchor].astype(int) - precedes[anchor, self.component].astype(int)

    @cached_property
    def spread(self) -> Spread:
        """The standard error of each score; NaN where there is none."""
        if self.errors is not None:
            return self.errors.rating
        unknown = np.full(len(self.items), np.nan)
        error = unknown if self.covariance is None else np.sqrt(np.diag(self.covariance))
        return Spread(error, np.full(len(self.items), np.inf))

    def intervals(self, level: float) -> tuple[Float64, Float64]:
        """The ends of the interval of each rating; outside of the anchor of a board, one end is infinite."""
        half_width = self.spread.half_width(0.5 - level / 2)
        low, high = self.score - half_width, self.score + half_width
        for component in np.unique(self.component[self.side != 0]).tolist():
            members = self.component == component
            anchor = int(self.anchors[self.board_of_component[component]])
            # the score relative to its own component, plus the least gap between the means of both
            if self.gaps.precedes[component, anchor]:
                low[members] = self.score[members] + self.gaps.bound(component, anchor, level)
                high[members] = np.inf
            else:
                low[members] = -np.inf
                high[members] = self.score[members] - self.gaps.bound(anchor, component, level)
        return low, high

    @property
    def has_summed_bounds(self) -> bool:
        """Whether the bound of a rating is a sum, because many components are between item and anchor."""
        ends = enumerate(self.anchors[self.board_of_component].tolist())
        return any(int(self.gaps.between(*sorted(pair)).sum()) > MOST_BETWEEN for pair in ends)

    def differences(self, first: Int64, second: Int64) -> Float64:
        """Scores of the first items less those of the second; NaN where two cannot be compared."""
        a, b = self.component[first], self.component[second]
        precedes = self.gaps.precedes
        infinite = np.where(precedes[a, b], np.inf, np.where(precedes[b, a], -np.inf, np.nan))
        return np.where(a == b, self.score[first] - self.score[second], infinite)


def outcome_probabilities(gap: Float64, tie: float) -> tuple[Float64, Float64]:
    """The probabilities that the first item of a pair wins, and that the second does."""
    # `gap` is the score of the first less the score of the second, and `tie` the log odds of a tie against a
    # win between equal items; −inf is the Bradley–Terry model.
    # Davidson: weights 1 for a win of the favourite, e^(tie − |gap| / 2) for a tie, e^(−|gap|) for an upset.
    odds = np.exp(tie - np.abs(gap) / 2) + np.exp(-np.abs(gap))
    favourite = 1 / (1 + odds)
    upset = np.exp(-np.abs(gap)) / (1 + odds)
    return np.where(gap >= 0, favourite, upset), np.where(gap >= 0, upset, favourite)
