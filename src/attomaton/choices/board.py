"""The board: ratings, intervals and ranks of items that can be compared, and what to compare next.

A board has an anchor, the largest component that is not on an earlier board, and every component that
precedes or follows it. The mean rating of the anchor is the centre of the board. An item of the anchor has a
rating with a standard error; any other is infinitely far ahead of the anchor, or behind, and has a bound.

Rank intervals hold jointly. Let P be the number of pairs of items on a board that can be compared, and 1 − α
the confidence. The differences inside components have simultaneous intervals of confidence 1 − α · (their
share of P): the critical value is the quantile of the largest |z_a − z_b| / s.e. over all of them, z drawn
from the covariance of the scores. With clusters it is the quantile of Student's t at 1 − α / (2P) for each
difference. An infinite gap, which could have gone either way, has a bound of confidence 1 − α / (2P), lowered
by as many standard errors of both items. Where such an interval excludes 0, one item is surely ahead of
another, and also of those that the other is surely ahead of. The rank of an item lies between 1 plus the
items surely ahead of it and the number of items less those surely behind it (Klein, Wright and Wieczorek
2020; Mogstad, Romano, Shaikh and Wilhelm 2024).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from itertools import groupby
from math import floor, isfinite, log10
from operator import attrgetter, itemgetter
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.drawing import TWO_COLUMNS, drawable, house_axes
from attomaton.base.errors import InvalidSamples, UndeterminedChoice, UnknownToken, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import show, whole_number
from attomaton.base.printing import BLUE, Block, Listing, list_words, name_item, shorten, show_count
from attomaton.base.tables import Bool, Float64, Int64, column_of, text_column
from attomaton.choices.gaps import MOST_BETWEEN, Gaps
from attomaton.choices.order import SCALES
from attomaton.choices.spread import Spread
from attomaton.choices.uncertainty import BoardErrors
from attomaton.solvers.soft.certify import SCORES_WITHIN

if TYPE_CHECKING:
    from attomaton.choices.logit.contrasts import Contrast

_arrow: Any = pa

MOST_RATED = 2_048
"""Most items with standard errors, and most components; each needs a dense matrix of that size."""

SCORE_DRAWS, MOST_DRAWN, LEAST_BEYOND = 10_000, 400, 50
"""Draws of the scores, the largest component they are made for, and the fewest expected beyond the critical
value; Bonferroni's takes over elsewhere."""

SHOWN_ROWS, SHOWN_BOARDS = 20, 12
"""Items of each board, and boards, that are printed."""

MOST_ROWS_DRAWN, MOST_LINES = 40, 14
"""Items of each board that are drawn, and lines."""

LINE_STYLES, LINES_HEIGHT, MOST_TICKS = ("-", "--", ":"), 2.6, 12
"""Styles of lines after the last colour; the height of a figure of lines in inches; named categories."""

ROW_HEIGHT, MARGIN_HEIGHT, NAME_WIDTH = 0.17, 0.75, 28
"""Height of a line and of the margins in inches, and characters of a name in a figure."""

LEAST_BATCH = 10
"""Fewest comparisons of a pair that are proposed at once, if nobody says how many."""

COLOUR, GREY = BLUE, "0.45"

HEADERS = ("rank", "ranks", "item", "rating", "s.e.", "interval", "games")
"""Columns of a printed board."""


@dataclass(frozen=True, eq=False)
class Ratings:
    """What a board is computed from, for any fit of choices.

    Attributes
    ----------
    items : tuple
        The items.
    component : int64 array, shape (n_items,)
        The component of each item; a component has a larger number than those that precede it.
    score : float64 array, shape (n_items,)
        Log odds relative to the mean of the component; 0 for an item alone.
    covariance : float64 array, shape (n_items, n_items), or None
        The covariance of the scores; NaN between components and for items alone. None above 2,048 items, and
        where it is lost in rounding: the board then has no standard errors and no rank intervals.
    wins, losses : arrays, shape (n_items,)
        The choices that each item won, and the other choices in which it was on offer.
    gaps : Gaps
        Which components precede others, and by how much at least.
    tie : float
        The log odds of a tie against a win between equal items (Davidson); −inf without ties.
    errors : BoardErrors or None
        Errors with degrees of freedom if choices come in clusters; None means the errors of the covariance.
    """

    items: tuple[Any, ...]
    component: Int64
    score: Float64
    covariance: Float64 | None
    wins: Any
    losses: Any
    gaps: Gaps
    tie: float = -np.inf
    errors: BoardErrors | None = None


class NextComparison(NamedTuple):
    r"""A comparison that is worth making, with how often and why.

    ``gain`` is the probability that ``times`` comparisons of the two decide which of them is ahead; None
    where the comparison connects boards, or can make a rating finite.
    """

    first: Any
    second: Any
    times: int
    gain: float | None
    reason: str

    def __str__(self) -> str:
        often = f", {self.times:,} times" * (self.times > 1)
        return f"{name_item(self.first)} with {name_item(self.second)}{often}: {self.reason}"


def draw_lines(boards: "Mapping[Any, Board]", items: Sequence[Any], ax: Any = None) -> Any:
    """Draw the ratings of items on several boards, such as one per month, as a line with intervals for each.

    Boards come in the order of their names. Only finite ratings on the first board of a category are drawn.
    """
    with suppress(TypeError):  # names that cannot be compared stay in the order of first appearance
        boards = {name: boards[name] for name in sorted(boards)}
    first = {name: {row["item"]: row for row in board.by_board()[0]} for name, board in boards.items()}
    with house_axes(ax, height=LINES_HEIGHT, width=TWO_COLUMNS / 1.5) as axes:
        labels, scale, level = item_column(items).to_pylist(), "log-odds", 0.95
        for number, item in enumerate(labels):
            rated = [(position, rows[item]) for position, rows in enumerate(first.values()) if item in rows]
            drawn = [(position, row) for position, row in rated if isfinite(row["rating"])]
            if not drawn:
                continue
            x = [position + 0.04 * (number - len(labels) / 2) / len(labels) for position, _ in drawn]
            y = [row["rating"] for _, row in drawn]
            style = {
                "linestyle": LINE_STYLES[number // 7 % len(LINE_STYLES)],
                "label": drawable(str(item), NAME_WIDTH),
            }
            (line,) = axes.plot(x, y, marker="o", markersize=2.5, **style)
            ends = [
                (position, row) for position, (_, row) in zip(x, drawn, strict=True) if row["low"] is not None
            ]
            sides = ([row[side] for _, row in ends] for side in ("low", "high"))
            axes.vlines([position for position, _ in ends], *sides, color=line.get_color(), linewidth=0.5)
        for board in boards.values():
            scale, level = board.scale, board.level
        names, every = [drawable(str(name), NAME_WIDTH) for name in boards], 1 + len(boards) // MOST_TICKS
        axes.set_xticks(range(0, len(names), every), names[::every], parse_math=False)
        axes.set_ylabel("Elo rating" if scale == "elo" else "rating (log odds)")
        axes.set_title(f"ratings with {100 * level:g} % intervals")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return axes


@dataclass(frozen=True, eq=False, repr=False)
class Board(Tabular):
    r"""Items with ratings, intervals and ranks, best first, on one board for each set that can be compared.

    Attributes
    ----------
    ratings : Ratings
        The scores, their covariances, and the order of components.
    scale : str
        ``log-odds`` or ``elo``.
    centre : float
        The mean rating of the anchor (the largest component) of each board.
    level : float
        The confidence of intervals, bounds and, jointly, of the rank intervals of a board.
    coefficients : mapping from names to Contrast
        What position, features and ties are worth, in the unit of the ratings; empty without them.
    notes : tuple of str
        How outcomes were read, and what ties, clusters and priors mean for the ratings.

    Examples
    --------
    >>> import attomaton as at
    >>> games = ["a", "b", "c", "b", "x"], ["b", "a", "b", "c", "a"], [40, 9, 9, 30, 12]
    >>> board = at.fit_choices(games[0], losers=games[1], counts=games[2]).board(scale="elo")
    >>> print("\n".join(str(board).splitlines()[1:6]))  # x never lost
    rank  ranks  item  rating  s.e.      interval  games
       1    1–2  x     ≥ 1461     -             -     12
       2    1–2  a       1242    48  1148 to 1337     61
       3      3  b        983    31   923 to 1043     88
       4      4  c        774    49    678 to 870     39
    >>> round(board.probability("a", "b"), 3), board.probability("x", "a")
    (0.816, 1.0)
    """

    ratings: Ratings
    scale: str = "log-odds"
    centre: float = 0.0
    level: float = 0.95
    coefficients: "Mapping[str, Contrast]" = field(default_factory=dict[str, "Contrast"])
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return str(self)

    def __len__(self) -> int:
        return len(self.ratings.items)

    def __getitem__(self, name: str) -> list[Any]:
        """One column as a list."""
        if name not in self.rows.column_names:
            raise UnknownToken(f"no column {show(name)}; the columns are {', '.join(self.rows.column_names)}")
        columns: Any = self.rows
        return columns.column(name).to_pylist()

    def _table(self) -> pa.Table:
        return self.rows

    @cached_property
    def rows(self) -> pa.Table:
        """One row per item.

        ``board`` (from 1), ``rank`` (1 plus the items of the board that are ahead), ``rank_low`` and
        ``rank_high`` (the rank interval; null without standard errors), ``item``, ``rating`` (infinite where
        the item is infinitely far ahead of the anchor of the board, or behind it), ``standard_error`` (null
        where there is none), ``low`` and ``high`` (the interval, one end of which is infinite where the
        rating is), ``ahead`` (the rating less that of the next row; null where the two cannot be compared),
        ``wins``, ``losses``, ``games`` and ``component``.
        """
        ranks, source, row = self._ranks, self.ratings, self.best_first
        unit = SCALES[self.scale][0]
        low, high = (self.centre + unit * side[row] for side in self._intervals)
        infinite = np.array([0.0, np.inf, -np.inf])[self._side]
        rating = self.centre + unit * (source.score + infinite)[row]
        error = unit * self._errors.error[row]
        ahead = unit * np.append(self._gaps(row[:-1], row[1:]), np.nan)[: len(row)]
        ahead[np.flatnonzero(np.diff(ranks.board[row]))] = np.nan
        columns = {
            "board": column_of(ranks.board[row] + 1),
            "rank": column_of(ranks.rank[row]),
            "rank_low": column_of(ranks.low[row], ranks.low[row] == 0),
            "rank_high": column_of(ranks.high[row], ranks.high[row] == 0),
            "item": item_column([source.items[number] for number in row.tolist()]),
            "rating": column_of(rating),
            "standard_error": _nullable(np.where(self._side[row] == 0, error, np.nan)),
            "low": _nullable(low),
            "high": _nullable(high),
            "ahead": _nullable(ahead),
            "wins": column_of(source.wins[row]),
            "losses": column_of(source.losses[row]),
            "games": column_of((source.wins + source.losses)[row]),
            "component": column_of(source.component[row] + 1),
        }
        return _arrow.table(columns)

    @cached_property
    def best_first(self) -> Int64:
        """The numbers of the items, board by board, best first."""
        ranks, source = self._ranks, self.ratings
        return np.lexsort((-source.score, source.component, ranks.rank, ranks.board))

    @property
    def _precedes(self) -> Bool:
        return self.ratings.gaps.precedes

    @cached_property
    def _anchors(self) -> tuple[Int64, Int64]:
        """The anchor of each board, and the board of each component."""
        source = self.ratings
        count = source.gaps.n_components
        sizes = np.bincount(source.component, minlength=count)
        games = np.bincount(source.component, source.wins + source.losses, count)
        comparable = self._precedes | self._precedes.T | np.eye(count, dtype=bool)
        among = comparable.astype(np.float32)
        board, anchors = np.full(count, -1), list[int]()
        free = np.ones(count, bool)
        while free.any():
            # the largest component; in a tie that comparable to most items, with most games, the first
            near = among @ (sizes * free).astype(np.float32)
            left = np.flatnonzero(free)
            anchor = int(left[np.lexsort((-left, games[left], near[left], sizes[left]))[-1]])
            board[free & comparable[anchor]] = len(anchors)
            free &= ~comparable[anchor]
            anchors.append(anchor)
        return np.array(anchors, np.int64), board

    @cached_property
    def _side(self) -> Int64:
        """1 for items that are infinitely far ahead of the anchor, −1 for those behind, else 0."""
        anchors, board = self._anchors
        component = self.ratings.component
        anchor = anchors[board[component]]
        return self._precedes[component, anchor].astype(int) - self._precedes[anchor, component].astype(int)

    @cached_property
    def _errors(self) -> Spread:
        """The errors of ratings; NaN where there are none."""
        source = self.ratings
        if source.errors is not None:
            return source.errors.rating
        unknown = np.full(len(self), np.nan)
        error = unknown if source.covariance is None else np.sqrt(np.diag(source.covariance))
        return Spread(error, np.full(len(self), np.inf))

    @cached_property
    def _intervals(self) -> tuple[Float64, Float64]:
        """The ends of the interval of each score about the mean of the anchor."""
        source, (anchors, board) = self.ratings, self._anchors
        reach = self._errors.reach(0.5 - self.level / 2)
        low, high = source.score - reach, source.score + reach
        for component in np.unique(source.component[self._side != 0]).tolist():
            here, anchor = source.component == component, int(anchors[board[component]])
            if self._precedes[component, anchor]:
                low[here] = source.score[here] + source.gaps.least(component, anchor, self.level)
                high[here] = np.inf
            else:
                low[here] = -np.inf
                high[here] = source.score[here] - source.gaps.least(anchor, component, self.level)
        return low, high

    def _gaps(self, first: Int64, second: Int64) -> Float64:
        """Scores of the first less those of the second; NaN where they cannot be compared."""
        source = self.ratings
        a, b = source.component[first], source.component[second]
        gaps = np.where(self._precedes[a, b], np.inf, np.where(self._precedes[b, a], -np.inf, np.nan))
        return np.where(a == b, source.score[first] - source.score[second], gaps)

    @cached_property
    def _ranks(self) -> "RankIntervals":
        source, on_board = self.ratings, self._anchors[1]
        ahead = self._precedes & (on_board[:, None] == on_board)
        sizes = np.bincount(source.component, minlength=len(on_board))
        board, rank = on_board[source.component], 1 + (sizes @ ahead)[source.component]
        for component in np.flatnonzero(sizes > 1).tolist():
            here = np.flatnonzero(source.component == component)
            score = np.sort(source.score[here])
            rank[here] += len(here) - np.searchsorted(score, source.score[here] + 2 * SCORES_WITHIN, "right")
        low, high = (np.zeros(len(self), np.int64) for _ in range(2))
        for here, sure, _ in self._decided:
            low[here], high[here] = 1 + sure.sum(axis=0), len(here) - sure.sum(axis=1)
        return RankIntervals(board, rank, low, high)

    @cached_property
    def _decided(self) -> list[tuple[Int64, Bool, Float64]]:
        """The items of each board, which are surely ahead of which others, jointly with confidence ``level``.

        Last come the gaps inside components above which an item is surely ahead. Empty without covariances.
        """
        board = self._anchors[1][self.ratings.component]
        if self.ratings.covariance is None:
            return []
        return [self._decide(np.flatnonzero(board == number)) for number in range(len(self._anchors[0]))]

    def _decide(self, here: Int64) -> tuple[Int64, Bool, Float64]:
        source, component = self.ratings, self.ratings.component[here]
        gaps = self._gaps(np.repeat(here, len(here)), np.tile(here, len(here))).reshape(len(here), -1)
        inside = component[:, None] == component
        n_pairs = float((~np.isnan(gaps)).sum() - len(here)) / 2
        n_inside = float(inside.sum() - len(here)) / 2
        alpha = 1.0 - self.level
        if source.errors is None:
            of_all: Any = source.covariance
            covariance = np.where(inside, np.nan_to_num(of_all[np.ix_(here, here)]), 0.0)
            critical = critical_value(covariance, component, alpha * n_inside / max(n_pairs, 1.0))
            reach, apart = critical * np.sqrt(np.diag(covariance)), critical * difference_errors(covariance)
        else:
            tail = alpha / (2.0 * max(n_pairs, 1.0))
            between = Spread(*(side[np.ix_(here, here)] for side in source.errors.difference))
            reach, apart = self._errors.reach(tail)[here], between.reach(tail)
            reach[inside.sum(axis=1) == 1] = 0.0
        sure = inside & (np.nan_to_num(gaps, nan=0.0) > apart)
        np.fill_diagonal(sure, False)
        if n_pairs > n_inside:  # between components: the bound of the gap, less the reach of both ratings
            components, position = np.unique(component, return_inverse=True)
            above, below = source.gaps.above, source.gaps.below
            near = np.isin(above, components) & np.isin(below, components)
            least = np.full((len(components), len(components)), -np.inf)
            least[np.searchsorted(components, above[near]), np.searchsorted(components, below[near])] = (
                source.gaps.each(1.0 - alpha / (2.0 * n_pairs))[near]
            )
            score = source.score[here]
            bound = least[np.ix_(position, position)] + (score - reach)[:, None] - (score + reach)
            sure |= bound > 0
        return here, close(sure), apart

    def probability(self, first: Any, second: Any) -> float:
        """The probability that the first wins a comparison with the second: 1 or 0 where the gap is infinite.

        Where ties are an outcome of their own, the probabilities of the two and of a tie add up to 1. Items
        that cannot be compared raise ``UndeterminedChoice``.
        """
        a, b = (self._number(item) for item in (first, second))
        if a == b:
            raise InvalidSamples(f"{first!r} against itself has no probability; give another item")
        gap = float(self._gaps(np.array([a]), np.array([b]))[0])
        if np.isnan(gap):
            raise UndeterminedChoice(
                f"no chain of choices leads from {first!r} to {second!r} or back, so neither is preferred; "
                "add comparisons that connect them (see .next_comparisons())"
            )
        return float(outcome_probabilities(np.array(gap), self.ratings.tie)[0])

    def _number(self, item: Any) -> int:
        try:
            return self._number_of[item]
        except (KeyError, TypeError):  # or it cannot be hashed
            raise UnknownToken(f"{item!r} is not on the board; give one of its items") from None

    @cached_property
    def _number_of(self) -> dict[Any, int]:
        return {item: number for number, item in enumerate(self.ratings.items)}

    def next_comparisons(self, limit: int = 3, *, batch: int | None = None) -> tuple[NextComparison, ...]:
        """Comparisons that would settle what is open, at most ``limit`` of each of three kinds.

        The first kind compares an item of another board with one of the first board, so that both are on one.
        The second compares an item without a finite rating with the nearest item of the anchor, if it is open
        which of the two is ahead. The third is the pairs whose order ``batch`` more comparisons of the pair
        are most likely to decide, after all comparisons listed before.

        If ratings are normal about their estimates, b comparisons with information w each lower the variance
        v of a difference to v' = v / (1 + b w v), and the estimate moves by √(v − v'). The order is decided
        once the difference divided by √v' exceeds the critical value of the joint rank intervals.

        Parameters
        ----------
        limit : int
            The largest number of comparisons of each kind.
        batch : int, optional
            How often a pair is compared; None means as often as a pair of the board has met on average, and
            at least 10 times.
        """
        limit = whole_number(limit, "limit", least=1)
        batch = None if batch is None else whole_number(batch, "batch", least=1)
        source, (anchors, board) = self.ratings, self._anchors
        rows: list[Int64] = list(map(self._best_first, range(source.gaps.n_components)))
        of_anchors: list[Int64] = [rows[anchor] for anchor in anchors.tolist()]
        middles = [source.items[best_first[len(best_first) // 2]] for best_first in of_anchors]

        # items of other boards with the first board
        connecting = [
            NextComparison(item, middles[0], 1, None, f"puts {name_item(item)} on board 1")
            for item in middles[1:]
        ]

        # infinite ratings: the last of the higher component against the first of the lower
        bounding = list[NextComparison]()
        for component in range(source.gaps.n_components):
            anchor = int(anchors[board[component]])
            if self._precedes[component, anchor]:
                pair = leading, trailing = int(rows[component][-1]), int(rows[anchor][0])
            elif self._precedes[anchor, component]:
                pair = trailing, leading = int(rows[component][0]), int(rows[anchor][-1])
            else:
                continue
            if self._decided:
                here, sure, _ = self._decided[int(board[component])]
                if sure[np.searchsorted(here, leading), np.searchsorted(here, trailing)]:
                    continue
            first, second = (source.items[row] for row in pair)
            winner, unbounded = name_item(source.items[trailing]), name_item(first)
            reason = f"which is ahead is open; a win of {winner} makes the rating of {unbounded} finite"
            bounding.append(NextComparison(first, second, 1, None, reason))

        # pairs whose order is open
        deciding = [
            pair for number in range(len(self._decided)) for pair in self._decide_next(number, limit, batch)
        ]
        deciding.sort(key=attrgetter("gain"), reverse=True)
        return (*connecting[:limit], *bounding[:limit], *deciding[:limit])

    def _best_first(self, component: int) -> Int64:
        rows = np.flatnonzero(self.ratings.component == component)
        return rows[np.argsort(-self.ratings.score[rows], kind="stable")]

    def _decide_next(self, number: int, limit: int, batch: int | None) -> list[NextComparison]:
        """The pairs of a board whose order a batch is most likely to decide, one after the other."""
        from scipy.special import ndtr  # a tenth of the start-up time

        source, (here, sure, apart) = self.ratings, self._decided[number]
        component, score, errors = source.component[here], source.score[here], source.errors
        covariance: Any = source.covariance if errors is None else errors.independent
        current: Float64 = np.nan_to_num(covariance[np.ix_(here, here)])
        before = difference_errors(current)
        error = before if errors is None else errors.difference.error[np.ix_(here, here)]
        is_open = (component[:, None] == component) & ~sure & ~sure.T & (error > 0)
        low, high = np.nonzero(np.triu(is_open, 1))
        games = float((source.wins + source.losses)[here].sum()) / max(len(here) * (len(here) - 1), 1)
        times = batch or max(round(games), LEAST_BATCH)
        gap = np.abs(score[low] - score[high])
        weight = times * information(gap, source.tie)
        chosen = list[NextComparison]()
        left = np.ones(len(low), bool)
        while len(chosen) < limit and left.any():
            now = difference_errors(current)[low, high]
            narrowed = now / before[low, high]  # by the comparisons listed before
            shrink = 1.0 / np.sqrt(1.0 + weight * now**2)  # by a batch of the pair
            least = narrowed * shrink * apart[low, high]
            step = narrowed * np.sqrt(1.0 - shrink**2) * error[low, high]
            gain = np.where(left, ndtr((gap - least) / step) + ndtr((-gap - least) / step), -1.0)
            best = int(gain.argmax())
            a, b = sorted((int(low[best]), int(high[best])), key=lambda item: -score[item])
            first, second = source.items[here[a]], source.items[here[b]]
            percent = f"{100 * gain[best]:.2g} %" if gain[best] >= 1e-4 else "less than 0.01 %"
            reason = f"decides which is ahead with probability {percent}"
            chosen.append(NextComparison(first, second, times, float(gain[best]), reason))
            left[best] = False
            current = add_comparison(current, score, source.tie, a, b, times)
        return chosen

    def plot(self, ax: Any = None, *, limit: int = MOST_ROWS_DRAWN) -> Any:
        """Draw the ratings with their intervals, best on top, in the house style; return the axes.

        An infinite rating is a triangle at its bound, which points to where the rating is. The rank interval
        is on the right. At most ``limit`` items of each board are drawn, on ``ax`` or on new axes.

        Examples
        --------
        >>> import attomaton as at
        >>> ax = at.fit_choices(["a", "b", "a"], losers=["b", "a", "c"]).board().plot()
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['a', 'b', 'c']
        """
        limit = whole_number(limit, "limit", least=1)
        if ax is not None and not hasattr(ax, "errorbar"):
            raise UnsupportedOption(f"ax is of type {type(ax).__name__}; give matplotlib axes, or none")
        drawn: Any = [row for rows in self.by_board() for row in rows[:limit]]
        n_boards = max(self["board"], default=0)
        with house_axes(ax, height=self.figure_height(limit)) as axes:
            level, ticks, names = 0.0, list[float](), list[str]()
            ends = [end for row in drawn for end in (row["rating"], row["low"], row["high"])]
            ends = [end for end in ends if end is not None and isfinite(end)]
            length = 0.06 * (max(ends, default=1.0) - min(ends, default=0.0)) or 1.0
            side = axes.get_yaxis_transform()
            axes.text(1.02, 1.0, "ranks", transform=axes.transAxes, ha="left", va="bottom", color=GREY)
            for number, row in enumerate(drawn):
                if n_boards > 1 and (number == 0 or drawn[number - 1]["board"] != row["board"]):
                    level -= 0.75 * bool(number)
                    style = {"ha": "left", "va": "center", "color": GREY, "fontsize": 6}
                    axes.text(0.01, level, f"board {row['board']}", transform=side, **style)
                    level -= 1.0
                _draw_row(axes, row, level, length)
                ticks.append(level)
                names.append(drawable(str(row["item"]), NAME_WIDTH))
                axes.text(1.02, level, rank_interval(row), transform=side, ha="left", va="center")
                level -= 1.0
            axes.set_yticks(ticks, names, parse_math=False)
            axes.set_ylim(level + 0.25, 0.75)
            axes.tick_params(axis="y", length=0)
            axes.set_xlabel("Elo rating" if self.scale == "elo" else "rating (log odds)")
            shown = f", the first {len(drawn):,} of {len(self):,}" * (len(drawn) < len(self))
            axes.set_title(f"ratings with {100 * self.level:g} % intervals{shown}")
            return axes

    def figure_height(self, limit: int = MOST_ROWS_DRAWN) -> float:
        """The height, in inches, of a figure with at most ``limit`` items of each board."""
        boards = self.by_board()
        n_rows = sum(min(len(rows), limit) for rows in boards) + 1.75 * len(boards) * (len(boards) > 1)
        return MARGIN_HEIGHT + ROW_HEIGHT * (n_rows + 1)

    def by_board(self) -> list[list[dict[str, Any]]]:
        """The rows of each board, best first."""
        rows: Any = self.rows.to_pylist()
        return [list(board) for _, board in groupby(rows, key=itemgetter("board"))]

    def to_dict(self) -> dict[str, Any]:
        """The board as values that JSON can represent; an infinite number is the text ``infinite``."""
        comparisons = self.next_comparisons()
        sides = (item_column([pair[side] for pair in comparisons]).to_pylist() for side in (0, 1))
        return {
            "scale": self.scale,
            "centre": self.centre,
            "level": self.level,
            "rows": as_records(self.rows),
            "coefficients": [record_coefficient(contrast) for contrast in self.coefficients.values()],
            "remarks": list(self.notes),
            "next_comparisons": [
                {**comparison._asdict(), "first": first, "second": second}
                for first, second, comparison in zip(*sides, comparisons, strict=True)
            ],
        }

    def _blocks(self) -> list[Block]:
        comparisons = self.next_comparisons()
        blocks: list[Block] = [self.headline(), *self.listings(), *self.remarks()]
        if self.coefficients:
            blocks.append(list_coefficients(self.coefficients, self.scale))
        blocks += self.notes
        return [
            *blocks,
            *["compare next:"] * bool(comparisons),
            *(f"  {comparison}" for comparison in comparisons),
        ]

    def listings(self, limit: int = SHOWN_ROWS, pointer: str = ".table() has all") -> list[Block]:
        """The first boards, at most ``limit`` items of each; ``pointer`` says where the others are."""
        boards, blocks = self.by_board(), list[Block]()
        for number, rows in enumerate(boards[:SHOWN_BOARDS], 1):
            if len(boards) > 1:
                blocks.append(f"board {number}: {len(rows):,} item{'s' * (len(rows) != 1)}")
            blocks.append(Listing(HEADERS, [self.cells(row) for row in rows[:limit]]))
            if len(rows) > limit:
                blocks.append(f"and {len(rows) - limit:,} more; {pointer}")
        if len(boards) > SHOWN_BOARDS:
            n_items = sum(map(len, boards[SHOWN_BOARDS:]))
            blocks.append(
                f"and {len(boards) - SHOWN_BOARDS:,} more boards, with {n_items:,} items; .table() has all"
            )
        return blocks

    def headline(self) -> str:
        """How many items there are, and what their ratings are relative to."""
        equal = [
            "position" if name == "moved_first" else shorten(name)
            for name, contrast in self.coefficients.items()
            if name != "tie" and contrast.kind.value != "not identified"
        ]
        where = f", at equal {list_words(equal)}" if equal else ""
        return f"{len(self):,} item{'s' * (len(self) != 1)} {self.explain_scale()}{where}"

    def explain_scale(self) -> str:
        """What ratings are relative to."""
        n_boards, bounds = len(self._anchors[0]), bool((self._side != 0).any())
        where = " in the largest component" * (bounds or n_boards > 1) + " of each board" * (n_boards > 1)
        return f"on the scale {self.scale}, with mean {self.centre:g}{where}"

    def cells(self, row: dict[str, Any]) -> list[str]:
        """A row as text: rank, rank interval, item, rating, standard error, interval, games."""
        form = "+z.3f" if self.scale == "log-odds" else "z.0f"
        low, high = row["low"], row["high"]
        if row["rating"] == np.inf:
            rating, interval = f"≥ {low:{form}}" if isfinite(low) else "+inf", "-"
        elif row["rating"] == -np.inf:
            rating, interval = f"≤ {high:{form}}" if isfinite(high) else "-inf", "-"
        else:
            rating = f"{row['rating']:{form}}"
            interval = "-" if low is None else f"{low:{form}} to {high:{form}}"
        error = row["standard_error"]
        return [
            str(row["rank"]),
            rank_interval(row),
            shorten(row["item"]) if isinstance(row["item"], str) else str(row["item"]),
            rating,
            "-" if error is None else f"{error:{form.lstrip('+')}}",
            interval,
            show_count(row["games"]),
        ]

    def remarks(self) -> list[str]:
        """What the columns mean."""
        percent = f"{100 * self.level:g} %"
        lines = [f"ranks: intervals that contain all true ranks of a board jointly with confidence {percent}"]
        if self.ratings.covariance is None:
            why = (
                f"of all items, of which there are more than {MOST_RATED:,}"
                if len(self) > MOST_RATED
                else "of the scores, which is lost in rounding"
            )
            lines = [f"no standard errors, intervals or joint rank intervals: they need the covariance {why}"]
        if (self._side != 0).any():
            lines.append(
                "≥, ≤: infinitely far ahead of the largest component, or behind it; with confidence "
                f"{percent} at least this, or at most"
            )
            if self._far_apart:
                lines.append(
                    f"bounds across more than {MOST_BETWEEN} components are sums of smaller bounds, and "
                    "weaker than they could be"
                )
        if max(self["board"], default=0) > 1:
            lines.append("nothing compares items of different boards")
        return lines

    @property
    def _far_apart(self) -> bool:
        """Whether a bound is a sum, because too many components are between an item and the anchor."""
        gaps, (anchors, board) = self.ratings.gaps, self._anchors
        between = (
            gaps.between(*sorted((number, int(anchors[board[number]])))) for number in range(len(board))
        )
        return any(int(among.sum()) > MOST_BETWEEN for among in between)


def rows_without_board(
    items: Sequence[Any], component: Int64, rating: Float64, wins: Any, losses: Any
) -> pa.Table:
    """The columns of a board, component by component, without ranks and intervals.

    ``rating`` is relative to the mean of the component, NaN where there is none.
    """
    row = np.lexsort((-rating, component))
    ahead = np.append(np.where(np.diff(component[row]) == 0, -np.diff(rating[row]), np.nan), np.nan)
    empty = np.full(len(row), np.nan)
    columns = {
        **{
            name: _arrow.nulls(len(row), _arrow.int64())
            for name in ("board", "rank", "rank_low", "rank_high")
        },
        "item": item_column([items[number] for number in row.tolist()]),
        "rating": _nullable(rating[row]),
        **dict.fromkeys(("standard_error", "low", "high"), _nullable(empty)),
        "ahead": _nullable(ahead[: len(row)]),
        "wins": column_of(wins[row]),
        "losses": column_of(losses[row]),
        "games": column_of((wins + losses)[row]),
        "component": column_of(component[row] + 1),
    }
    return _arrow.table(columns)


def as_records(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows as JSON represents them; an infinite number is the text ``infinite``."""
    records: Any = rows.to_pylist()
    for row in records:
        for name in ("rating", "low", "high", "ahead"):
            if row[name] is not None and not isfinite(row[name]):
                row[name] = "infinite" if row[name] > 0 else "-infinite"
    return records


def rescale(coefficients: "Mapping[str, Contrast]", unit: float) -> "dict[str, Contrast]":
    """Coefficients in this unit instead of log odds."""
    return {
        name: replace(
            contrast,
            value=unit * contrast.value,
            standard_error=None if contrast.standard_error is None else unit * contrast.standard_error,
            bound=None if contrast.bound is None else unit * contrast.bound,
        )
        for name, contrast in coefficients.items()
    }


def record_coefficient(contrast: "Contrast") -> dict[str, Any]:
    """A coefficient as JSON represents it."""
    return {
        "name": contrast.label,
        "kind": contrast.kind.value,
        "estimate": contrast.value if isfinite(contrast.value) else None,
        "standard_error": contrast.standard_error,
        "degrees": contrast.degrees if isfinite(contrast.degrees) else None,
        "bound": contrast.bound,
        "comparisons": contrast.comparisons,
        "reading": contrast.settle,
    }


def list_coefficients(coefficients: "Mapping[str, Contrast]", scale: str) -> Listing:
    """The coefficients: estimate, standard error, and what an infinite or open one means."""
    cells = list[list[str]]()
    for name, contrast in coefficients.items():
        error = contrast.standard_error or 1.0  # of which two digits are shown, at least
        digits = f".{max(3 if scale == 'log-odds' else 1, min(1 - floor(log10(error)), 9))}f"
        reading = contrast.settle if contrast.kind.value == "not identified" else ""
        if contrast.bound is not None:
            many = f"{show_count(contrast.comparisons)} comparison{'s' * (contrast.comparisons != 1)}"
            side = "or more" if contrast.value > 0 else "or less"
            reading = f"{many}: {contrast.bound:+{digits}} {side} ({100 * contrast.level:g} %)"
        estimate = f"{contrast.value:+{digits}}" if isfinite(contrast.value) else contrast.kind.value
        spread = "-" if contrast.standard_error is None else f"{contrast.standard_error:{digits}}"
        cells.append([shorten(name), estimate, spread, reading])
    return Listing(["coefficient", "estimate", "s.e.", ""], cells)


def item_column(items: Sequence[Any]) -> Any:
    """Items as one Arrow column: strings and numbers unchanged, dates as text, anything else as its repr."""
    with suppress(OverflowError, UnicodeEncodeError):
        if all(type(item) is str for item in items):
            return text_column(items)
        for kind, number in ((int, np.int64), (float, np.float64)):
            if all(type(item) is kind for item in items):
                return column_of(np.array(items, number))
    return text_column([str(item) if isinstance(item, date) else ascii(item) for item in items])


def rank_interval(row: dict[str, Any]) -> str:
    """The rank interval of a row as text, such as 2–5."""
    if row["rank_low"] is None:
        return "-"
    return f"{row['rank_low']}" + f"–{row['rank_high']}" * (row["rank_high"] > row["rank_low"])


def _draw_row(axes: Any, row: dict[str, Any], level: float, length: float) -> None:
    """One item: a point with its interval, or a bound with a triangle that points to the rating."""
    if not isfinite(row["rating"]):
        sign = 1.0 if row["rating"] > 0 else -1.0
        start = row["low"] if sign > 0 else row["high"]
        if isfinite(start):
            axes.plot([start, start + sign * length], [level, level], ":", color=COLOUR, linewidth=1)
            axes.plot(start, level, ">" if sign > 0 else "<", color=COLOUR, markersize=4)
    elif row["low"] is None:
        axes.plot(row["rating"], level, "o", color="white", markeredgecolor=GREY, markersize=4)
    else:
        axes.plot([row["low"], row["high"]], [level, level], "-", color=COLOUR, linewidth=1)
        axes.plot(row["rating"], level, "o", color=COLOUR, markersize=4)


class RankIntervals(NamedTuple):
    """The board of each item, its rank there, and the ends of its rank interval; 0 where there is none."""

    board: Int64
    rank: Int64
    low: Int64
    high: Int64


def difference_errors(covariance: Float64) -> Float64:
    """The standard errors of all differences, shape (n_items, n_items)."""
    spread = np.diag(covariance)
    return np.sqrt(np.maximum(spread[:, None] + spread - 2.0 * covariance, 0.0))


def critical_value(covariance: Float64, component: Int64, alpha: float) -> float:
    """How many standard errors no difference inside a component exceeds with probability 1 − alpha.

    It is the quantile of the largest |z_a − z_b| / s.e., with z drawn from the covariance; or it is
    Bonferroni's value, which, apart from the error of the draws, is never smaller.
    """
    sizes = np.unique(component, return_counts=True)[1]
    n_pairs = float((sizes * (sizes - 1)).sum()) / 2
    if not n_pairs:
        return NormalDist().inv_cdf(1.0 - alpha / 2) if alpha > 0 else 0.0
    bonferroni = NormalDist().inv_cdf(1.0 - alpha / (2 * n_pairs))
    if sizes.max() > MOST_DRAWN or alpha * SCORE_DRAWS < LEAST_BEYOND:
        return bonferroni
    rng, largest = np.random.default_rng(0), np.zeros(SCORE_DRAWS)
    for number in np.flatnonzero(np.bincount(component) > 1).tolist():
        here = component == number
        inside = covariance[np.ix_(here, here)]
        values, vectors = np.linalg.eigh(inside)
        root, error = vectors * np.sqrt(np.maximum(values, 0.0)), difference_errors(inside)
        drawn = root @ rng.standard_normal((len(inside), SCORE_DRAWS))
        for item in range(len(inside) - 1):
            spread = error[item, item + 1 :, None]
            away = np.abs(drawn[item + 1 :] - drawn[item]) * (spread > SCORES_WITHIN)
            np.maximum(largest, (away / np.maximum(spread, SCORES_WITHIN)).max(axis=0), out=largest)
    return min(float(np.quantile(largest, 1.0 - alpha)), bonferroni)


def outcome_probabilities(gap: Float64, tie: float) -> tuple[Float64, Float64]:
    """The probabilities that the first and the second win, by the gap between them."""
    odds = np.exp(tie - np.abs(gap) / 2) + np.exp(-np.abs(gap))  # of a tie and of an upset, to the favourite
    favourite, upset = 1 / (1 + odds), np.exp(-np.abs(gap)) / (1 + odds)
    return np.where(gap >= 0, favourite, upset), np.where(gap >= 0, upset, favourite)


def information(gap: Float64, tie: float) -> Float64:
    """The information of one comparison about the gap: p(1 − p) without ties."""
    first, second = outcome_probabilities(gap, tie)
    return (first + second) / 4 - ((first - second) / 2) ** 2


def add_comparison(covariance: Float64, score: Float64, tie: float, a: int, b: int, times: int) -> Float64:
    """The covariance after more comparisons of two items: Σ − w Σd dᵀΣ / (1 + w dᵀΣd) with d = e_a − e_b."""
    weight = times * float(information(score[a] - score[b], tie))
    moved = covariance[:, a] - covariance[:, b]
    return covariance - np.outer(moved, moved) * weight / (1.0 + weight * float(moved[a] - moved[b]))


def close(relation: Bool) -> Bool:
    """The transitive closure."""
    while True:
        steps = relation.astype(np.float32)
        further = relation | (steps @ steps > 0)
        if (further == relation).all():
            return relation
        relation = further


def _nullable(values: Float64) -> Any:
    return column_of(values, np.isnan(values))
