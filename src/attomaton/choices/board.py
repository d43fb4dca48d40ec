"""The board: ratings, intervals and ranks of items that can be compared, and what to compare next."""

# The numbers are made elsewhere: order in ``ranks``, rows in ``board_rows``, proposals in ``proposals``, the
# figure in ``board_figure``. This file has the class that users see, and what it prints.

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

# Most items with standard errors, and most components; each needs a dense matrix of that size.
MOST_RATED = 2_048

SHOWN_ROWS = 20  # items of each board that are printed
SHOWN_BOARDS = 12  # boards that are printed
HEADERS = ("rank", "ranks", "item", "rating", "s.e.", "interval", "games")  # columns of a printed board


@dataclass(frozen=True, eq=False, repr=False)
class Board(Tabular):
    r"""Items with ratings, intervals and ranks; items that cannot be compared are on separate boards.

    Attributes
    ----------
    ratings : Ratings
        The scores of the items in log odds, their errors, and the order of the components.
    scale : str
        ``log-odds`` or ``elo``.
    centre : float
        The mean rating of the largest component of each board.
    level : float
        The confidence level of each interval and bound, and of all rank intervals of a board jointly.
    coefficients : mapping from names to Contrast
        The coefficients of position, features and ties, in the unit of the ratings.
    notes : tuple of str
        Remarks on how outcomes were read, and on how ties, clusters and priors affect the ratings.

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
        """The table of all boards, one row per item.

        Boards and components are numbered from 1. ``rank`` is 1 plus the number of items on the board that
        are ahead. An item that is infinitely far from the largest component of its board has an infinite
        ``rating``; one end of its interval, from ``low`` to ``high``, is a bound. ``ahead`` is the rating
        minus the rating of the next row. A cell without a value is null.
        """
        ranks = rank_items(self.ratings, self._orders)
        return rank_rows(self.ratings, ranks, self.level, SCALES[self.scale][0], self.centre)

    @cached_property
    def _orders(self) -> list[SureOrder]:
        # the order of the items of each board that is certain at this level
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
        """Return the probability that ``first`` wins against ``second``; 1 or 0 if their gap is infinite.

        If ties are outcomes, the probability of a tie is not included. Items that cannot be compared raise
        ``UndeterminedChoice``.
        """
        number, opponent = self._find(first), self._find(second)
        if number == opponent:
            raise InvalidSamples(f"{first!r} cannot be compared with itself; give another item")
        (difference,) = self.ratings.differences(np.array([number]), np.array([opponent])).tolist()
        if np.isnan(difference):
            raise UndeterminedChoice(
                f"no chain of choices leads from {first!r} to {second!r} or back, so neither is preferred; "
                "add comparisons that connect them (see .next_comparisons())"
            )
        return float(outcome_probabilities(np.array(difference), self.ratings.tie)[0])

    def next_comparisons(self, limit: int = 3, *, batch: int | None = None) -> tuple[NextComparison, ...]:
        """Suggest up to ``limit`` comparisons of each of three kinds.

        Comparisons of the first kind connect another board to the first board. Comparisons of the second kind
        can make an infinite rating finite. Comparisons of the third kind are most likely to decide which of
        two items is ahead.

        Parameters
        ----------
        limit : int
            The largest number of suggestions of each kind.
        batch : int, optional
            How often each pair of the third kind would be compared. The default is the average number of
            games per pair on the board, but at least 10.
        """
        limit = whole_number(limit, "limit", least=1)
        batch = None if batch is None else whole_number(batch, "batch", least=1)
        return propose_comparisons(self.ratings, self._orders, limit, batch)

    def plot(self, ax: Any = None, *, limit: int = MOST_ROWS_DRAWN) -> Any:
        """Draw the first ``limit`` items of each board on ``ax``, or on new axes, and return the axes.

        A triangle marks the bound of an infinite rating. Rank intervals are on the right.
        """
        limit = whole_number(limit, "limit", least=1)
        if ax is not None and not hasattr(ax, "errorbar"):
            raise UnsupportedOption(
                f"ax is of type {type(ax).__name__}; give matplotlib axes, or leave ax out"
            )
        boards = [rows[:limit] for rows in self.by_board()]
        n_drawn = sum(map(len, boards))
        shown = f", the first {n_drawn:,} of {len(self):,}" * (n_drawn < len(self))
        return draw_boards(boards, self.scale, f"ratings with {100 * self.level:g} % intervals{shown}", ax)

    def figure_height(self, limit: int = MOST_ROWS_DRAWN) -> float:
        """Return the height, in inches, of a figure with the first ``limit`` items of each board."""
        return height_of_boards([rows[:limit] for rows in self.by_board()])

    def by_board(self) -> list[list[BoardRow]]:
        """Return the rows of each board as dicts, best item first."""
        rows: Any = self.rows.to_pylist()
        return [list(board) for _, board in groupby(rows, key=itemgetter("board"))]

    def to_dict(self) -> dict[str, Any]:
        """Return the board as values for JSON, with the text ``infinite`` for an infinite number."""
        comparisons = self.next_comparisons()
        first = item_column([comparison.first for comparison in comparisons]).to_pylist()
        second = item_column([comparison.second for comparison in comparisons]).to_pylist()
        return {
            "scale": self.scale,
            "centre": self.centre,
            "level": self.level,
            "rows": as_records(self.rows),
            "coefficients": [record_coefficient(contrast) for contrast in self.coefficients.values()],
            "remarks": list(self.notes),
            "next_comparisons": [
                {**comparison._asdict(), "first": a, "second": b}
                for comparison, a, b in zip(comparisons, first, second, strict=True)
            ],
        }

    def _blocks(self) -> list[Block]:
        blocks: list[Block] = [self.headline(), *self.listings(), *self.remarks()]
        if self.coefficients:
            blocks.append(list_coefficients(self.coefficients, self.scale))
        blocks += self.notes
        comparisons = self.next_comparisons()
        return [*blocks, *["compare next:"] * bool(comparisons), *(f"  {pair}" for pair in comparisons)]

    def listings(self, limit: int = SHOWN_ROWS, pointer: str = ".table() lists all") -> list[Block]:
        """Return the printed boards, with ``limit`` items each; ``pointer`` says where to find the others."""
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
                f"and {len(boards) - SHOWN_BOARDS:,} more boards, with {n_items:,} items; .table() lists all"
            )
        return blocks

    def headline(self) -> str:
        """Return the first printed line: the number of items, and the scale of their ratings."""
        equal = [
            "position" if name == "moved_first" else shorten(name)
            for name, contrast in self.coefficients.items()
            if name != "tie" and contrast.kind.value != "not identified"
        ]
        condition = f", at equal {list_words(equal)}" if equal else ""
        return f"{len(self):,} item{'s' * (len(self) != 1)} {self.explain_scale()}{condition}"

    def explain_scale(self) -> str:
        """Return the name of the scale, and the mean rating."""
        several = len(self.ratings.anchors) > 1  # boards
        has_bounds = bool(self.ratings.side.any())
        anchor = " in the largest component" * (has_bounds or several) + " of each board" * several
        return f"on the scale {self.scale}, with mean {self.centre:g}{anchor}"

    def remarks(self) -> list[str]:
        """Return the printed lines that explain the columns."""
        ratings, percent = self.ratings, f"{100 * self.level:g} %"
        lines = [f"ranks: with confidence {percent}, these intervals contain the true ranks of a whole board"]
        if ratings.covariance is None:
            why = (
                f"of all items, and there are more than {MOST_RATED:,} items"
                if len(self) > MOST_RATED
                else "of the scores, which rounding errors make unusable"
            )
            lines = [f"no standard errors, intervals or rank intervals: they need the covariance {why}"]
        if ratings.side.any():
            lines.append(
                "≥ marks items infinitely far ahead of the largest component, ≤ items infinitely far behind "
                f"it; the number is a bound with confidence {percent}"
            )
            if ratings.has_summed_bounds:
                lines.append(
                    f"a bound across more than {MOST_BETWEEN} components is a sum of bounds between "
                    "components, which is weaker than the best bound"
                )
        if len(ratings.anchors) > 1:
            lines.append("items on different boards cannot be compared")
        return lines
