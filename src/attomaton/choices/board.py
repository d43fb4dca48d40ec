"""The board: ratings, intervals and ranks of items that can be compared, and what to compare next."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from attomaton.base.errors import InvalidSamples, UndeterminedChoice, UnknownToken, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import show, whole_number
from attomaton.base.printing import Block, Listing, list_words, shorten
from attomaton.choices.board_figure import MOST_ROWS_DRAWN, draw_boards, height_of_boards
from attomaton.choices.board_rows import BoardRow, as_records, item_column, rank_rows, row_cells
from attomaton.choices.coefficient_list import list_coefficients, record_coefficient
from attomaton.choices.gaps import MOST_BETWEEN
from attomaton.choices.order import SCALES
from attomaton.choices.proposals import NextComparison, propose_comparisons
from attomaton.choices.ranks import SureOrder, order_boards, rank_items
from attomaton.choices.ratings import Ratings, outcome_probabilities

if TYPE_CHECKING:
    from attomaton.choices.logit.contrasts import Contrast

MOST_RATED = 2_048
"""Most items with standard errors, and most components; each needs a dense matrix of that size."""

SHOWN_ROWS, SHOWN_BOARDS = 20, 12  # items of each board, and boards, that are printed

HEADERS = ("rank", "ranks", "item", "rating", "s.e.", "interval", "games")  # columns of a printed board


@dataclass(frozen=True, eq=False, repr=False)
class Board(Tabular):
    r"""Items with ratings, intervals and ranks, best first, on one board for each set that can be compared.

    Attributes
    ----------
    ratings : Ratings
        The scores in log odds, from which everything else follows.
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
    >>> winners, losers, counts = ["a", "b", "c", "b", "x"], ["b", "a", "b", "c", "a"], [40, 9, 9, 30, 12]
    >>> board = at.fit_choices(winners, losers=losers, counts=counts).board(scale="elo")
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
        ``rank_high`` (the rank interval; null without standard errors), ``item``, ``rating`` (infinite if it
        is infinitely far from the anchor of the board), ``standard_error`` (null where there is none),
        ``low`` and ``high`` (the interval; one end is infinite if the rating is), ``ahead`` (the rating less
        that of the next row; null where they cannot be compared), ``wins``, ``losses``, ``games`` and
        ``component``.
        """
        ranks = rank_items(self.ratings, self._orders)
        return rank_rows(self.ratings, ranks, self.level, SCALES[self.scale][0], self.centre)

    @cached_property
    def _orders(self) -> list[SureOrder]:
        return order_boards(self.ratings, self.level)

    @cached_property
    def _number_of(self) -> dict[Any, int]:
        return {item: number for number, item in enumerate(self.ratings.items)}

    def _find(self, item: Any) -> int:
        try:
            return self._number_of[item]
        except (KeyError, TypeError):  # or it cannot be hashed
            raise UnknownToken(f"{item!r} is not on the board; give one of its items") from None

    def probability(self, first: Any, second: Any) -> float:
        """The probability that the first wins a comparison with the second: 1 or 0 for an infinite gap.

        With ties as outcomes, the probabilities of both wins and of a tie add up to 1. Items that cannot be
        compared raise ``UndeterminedChoice``.
        """
        a, b = self._find(first), self._find(second)
        if a == b:
            raise InvalidSamples(f"{first!r} against itself has no probability; give another item")
        difference = float(self.ratings.differences(np.array([a]), np.array([b]))[0])
        if np.isnan(difference):
            raise UndeterminedChoice(
                f"no chain of choices leads from {first!r} to {second!r} or back, so neither is preferred; "
                "add comparisons that connect them (see .next_comparisons())"
            )
        return float(outcome_probabilities(np.array(difference), self.ratings.tie)[0])

    def next_comparisons(self, limit: int = 3, *, batch: int | None = None) -> tuple[NextComparison, ...]:
        """Comparisons that would settle what is open, at most ``limit`` of each of three kinds.

        The first kind puts an item of another board on the first board. The second compares an item without a
        finite rating with the nearest item of the anchor, if either may be ahead. The third is the pairs
        whose order ``batch`` more comparisons are most likely to decide, after those listed before.

        Parameters
        ----------
        limit : int
            The largest number of comparisons of each kind.
        batch : int, optional
            How often a pair is compared; by default as often as pairs of the board have met on average, but
            at least 10 times.
        """
        limit = whole_number(limit, "limit", least=1)
        batch = None if batch is None else whole_number(batch, "batch", least=1)
        return propose_comparisons(self.ratings, self._orders, limit, batch)

    def plot(self, ax: Any = None, *, limit: int = MOST_ROWS_DRAWN) -> Any:
        """Draw at most ``limit`` items of each board, best on top, on ``ax`` or on new axes; return the axes.

        A triangle at a bound points to an infinite rating. Rank intervals are on the right.
        """
        limit = whole_number(limit, "limit", least=1)
        if ax is not None and not hasattr(ax, "errorbar"):
            raise UnsupportedOption(f"ax is of type {type(ax).__name__}; give matplotlib axes, or none")
        boards = [rows[:limit] for rows in self.by_board()]
        n_drawn = sum(map(len, boards))
        shown = f", the first {n_drawn:,} of {len(self):,}" * (n_drawn < len(self))
        title = f"ratings with {100 * self.level:g} % intervals{shown}"
        return draw_boards(boards, self.scale, title, ax)

    def figure_height(self, limit: int = MOST_ROWS_DRAWN) -> float:
        """The height, in inches, of a figure with at most ``limit`` items of each board."""
        return height_of_boards([rows[:limit] for rows in self.by_board()])

    def by_board(self) -> list[list[BoardRow]]:
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
        blocks: list[Block] = [self.headline(), *self.listings(), *self.remarks()]
        if self.coefficients:
            blocks.append(list_coefficients(self.coefficients, self.scale))
        blocks += self.notes
        comparisons = self.next_comparisons()
        return [*blocks, *["compare next:"] * bool(comparisons), *(f"  {pair}" for pair in comparisons)]

    def listings(self, limit: int = SHOWN_ROWS, pointer: str = ".table() has all") -> list[Block]:
        """The first boards, at most ``limit`` items of each; ``pointer`` says where the others are."""
        boards, blocks = self.by_board(), list[Block]()
        for number, rows in enumerate(boards[:SHOWN_BOARDS], 1):
            if len(boards) > 1:
                blocks.append(f"board {number}: {len(rows):,} item{'s' * (len(rows) != 1)}")
            blocks.append(Listing(HEADERS, [row_cells(row, self.scale) for row in rows[:limit]]))
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
        condition = f", at equal {list_words(equal)}" if equal else ""
        return f"{len(self):,} item{'s' * (len(self) != 1)} {self.explain_scale()}{condition}"

    def explain_scale(self) -> str:
        """What ratings are relative to."""
        n_boards, bounds = len(self.ratings.anchors), bool(self.ratings.side.any())
        anchor = " in the largest component" * (bounds or n_boards > 1) + " of each board" * (n_boards > 1)
        return f"on the scale {self.scale}, with mean {self.centre:g}{anchor}"

    def remarks(self) -> list[str]:
        """What the columns mean."""
        ratings, percent = self.ratings, f"{100 * self.level:g} %"
        lines = [f"ranks: intervals that contain all true ranks of a board jointly with confidence {percent}"]
        if ratings.covariance is None:
            why = (
                f"of all items, of which there are more than {MOST_RATED:,}"
                if len(self) > MOST_RATED
                else "of the scores, which is lost in rounding"
            )
            lines = [f"no standard errors, intervals or joint rank intervals: they need the covariance {why}"]
        if ratings.side.any():
            lines.append(
                "≥, ≤: infinitely far ahead of the largest component, or behind it; with confidence "
                f"{percent} at least this, or at most"
            )
            if ratings.has_summed_bounds:
                lines.append(
                    f"bounds across more than {MOST_BETWEEN} components are sums of smaller bounds, and "
                    "weaker than they could be"
                )
        if len(ratings.anchors) > 1:
            lines.append("nothing compares items of different boards")
        return lines
