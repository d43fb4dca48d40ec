"""The rows of a board, one per item: as an Arrow table, as JSON, and as text."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.printing import shorten, show_count
from attomaton.base.tables import Float64, Int64, column_of, table_of, text_column
from attomaton.choices.ranks import Ranks
from attomaton.choices.ratings import Ratings

BoardRow = dict[str, Any]

RANK_FIELDS = ("board", "rank", "rank_low", "rank_high")
RATING_FIELDS = ("rating", "standard_error", "low", "high", "ahead")
COUNT_FIELDS = ("wins", "losses", "games", "component")


def rank_rows(ratings: Ratings, ranks: Ranks, level: float, unit: float, centre: float) -> pa.Table:
    """The rows of all boards, best first; ``unit`` and ``centre`` turn log odds into ratings."""
    order = np.lexsort((-ratings.score, ratings.component, ranks.rank, ratings.board))
    low, high = ratings.intervals(level)
    infinite = np.array([0.0, np.inf, -np.inf])[ratings.side]  # side is 0, 1 or −1
    # the difference to the next row; none for the last row of a board (of no items, the slice drops the NaN)
    ahead = unit * np.append(ratings.differences(order[:-1], order[1:]), np.nan)[: len(order)]
    ahead[np.flatnonzero(np.diff(ratings.board[order]))] = np.nan
    of_items = {
        "board": ratings.board + 1,
        "rank": ranks.rank,
        "rank_low": ranks.low,
        "rank_high": ranks.high,
        "rating": centre + unit * (ratings.score + infinite),
        "standard_error": np.where(ratings.side == 0, unit * ratings.spread.error, np.nan),
        "low": centre + unit * low,
        "high": centre + unit * high,
        "wins": ratings.wins,
        "losses": ratings.losses,
        "games": ratings.games,
        "component": ratings.component + 1,
    }
    return _make_rows(ratings.items, order, of_items, ahead)


def rows_without_board(
    items: Sequence[Any], component: Int64, rating: Float64, wins: Any, losses: Any
) -> pa.Table:
    """The rows component by component, without ranks and intervals."""
    order = np.lexsort((-rating, component))
    ahead = np.where(np.diff(component[order]) == 0, -np.diff(rating[order]), np.nan)
    of_items = {
        **dict.fromkeys(RANK_FIELDS, np.zeros(len(items), np.int64)),
        **dict.fromkeys(RATING_FIELDS, np.full(len(items), np.nan)),
        "rating": rating,
        "wins": wins,
        "losses": losses,
        "games": wins + losses,
        "component": component + 1,
    }
    return _make_rows(items, order, of_items, np.append(ahead, np.nan)[: len(items)])


# The table of columns given by item, and of ``ahead``, given by row; ranks of 0 and NaN are null.
def _make_rows(items: Sequence[Any], order: Int64, of_items: Mapping[str, Any], ahead: Float64) -> pa.Table:
    rows = {name: values[order] for name, values in of_items.items()} | {"ahead": ahead}
    columns = {name: column_of(rows[name], rows[name] == 0) for name in RANK_FIELDS}
    columns["item"] = item_column([items[number] for number in order.tolist()])
    columns |= {name: column_of(rows[name], np.isnan(rows[name])) for name in RATING_FIELDS}
    return table_of(columns | {name: column_of(rows[name]) for name in COUNT_FIELDS})


def item_column(items: Sequence[Any]) -> Any:
    """Items as one Arrow column: strings and numbers unchanged, dates as text, anything else as its repr."""
    with suppress(OverflowError, UnicodeEncodeError):
        if all(type(item) is str for item in items):
            return text_column(items)
        for kind, dtype in ((int, np.int64), (float, np.float64)):
            if all(type(item) is kind for item in items):
                return column_of(np.array(items, dtype))
    return text_column([str(item) if isinstance(item, date) else ascii(item) for item in items])


def as_records(rows: pa.Table) -> list[BoardRow]:
    # for JSON, which has no infinite numbers
    records: list[BoardRow] = rows.to_pylist()
    for row in records:
        for name in ("rating", "low", "high", "ahead"):
            if row[name] is not None and not isfinite(row[name]):
                row[name] = "infinite" if row[name] > 0 else "-infinite"
    return records


def rank_interval(row: BoardRow) -> str:
    low, high = row["rank_low"], row["rank_high"]
    if low is None:
        return "-"
    return f"{low}–{high}" if high > low else f"{low}"


def show_row_item(row: BoardRow) -> str:
    return shorten(row["item"]) if isinstance(row["item"], str) else str(row["item"])


def rating_format(scale: str) -> str:
    return "+z.3f" if scale == "log-odds" else "z.0f"


def row_cells(row: BoardRow, scale: str) -> list[str]:
    """A row as printed; an infinite rating by its bound if there is one."""
    digits = rating_format(scale)
    low, high = row["low"], row["high"]
    if row["rating"] == np.inf:
        rating, interval = f"≥ {low:{digits}}" if isfinite(low) else "+inf", "-"
    elif row["rating"] == -np.inf:
        rating, interval = f"≤ {high:{digits}}" if isfinite(high) else "-inf", "-"
    else:
        rating = f"{row['rating']:{digits}}"
        interval = "-" if low is None else f"{low:{digits}} to {high:{digits}}"
    error = row["standard_error"]
    return [
        str(row["rank"]),
        rank_interval(row),
        show_row_item(row),
        rating,
        "-" if error is None else f"{error:{digits.lstrip('+')}}",
        interval,
        show_count(row["games"]),
    ]


def plain_cells(row: BoardRow, scale: str) -> list[str]:
    # for rows without a board: item, component, rating, number of games
    rating = "-" if row["rating"] is None else format(row["rating"], rating_format(scale))
    return [show_row_item(row), str(row["component"]), rating, show_count(row["games"])]
