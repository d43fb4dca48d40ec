"""Tables in other shapes, rewritten as pairs or alternatives: PGN files, wins, scores, wide surveys."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, cast

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.tables import Float64, Int64
from attomaton.choices.columns import as_arrow, as_list, as_sequence, find_column, number_values, read_numbers
from attomaton.choices.numbering import BadRows, is_missing
from attomaton.corpora.readers.tables import library_of

TAG = re.compile(r'\s*\[(\w+)\s+"((?:[^"\\]|\\.)*)"\]')
"""A tag of a game in a PGN file, such as ``[White "Polgar"]``."""

ARENA_STYLE = tuple(
    f"conv_metadata.{name}" for name in ("sum_assistant_tokens", "header_count", "list_count", "bold_count")
)
"""The style of answers as LMArena publishes and controls it."""


def read_games(lines: Iterable[str]) -> tuple[dict[str, list[str | None]], list[int]]:
    """The tags of the finished games of a PGN file by name, and the line where each game begins."""
    games, starts, tagged = list[dict[str, str]](), list[int](), False
    for number, line in enumerate(lines, 1):
        tag = TAG.match(line)
        if tag is not None:
            if not tagged:
                games.append({})
                starts.append(number)
            games[-1][tag[1]] = re.sub(r"\\(.)", r"\1", tag[2])
        # blank lines between tags belong to the game; the first line of moves ends its tags
        tagged = tag is not None or (tagged and not line.strip())
    finished = [position for position, game in enumerate(games) if game.get("Result", "*") != "*"]
    names = dict.fromkeys(name for game in games for name in game)
    return {name: [games[k].get(name) for k in finished] for name in names}, [starts[k] for k in finished]


def read_matrix(data: Any) -> tuple[dict[Any, Any], dict[str, Any]] | None:
    """A square array of wins, or a frame whose index names the winners, as a table of wins; else None."""
    table: dict[Any, Any]
    if type(data) is np.ndarray:
        wins: Any = cast("Any", data)
        if wins.ndim != 2 or wins.shape[0] != wins.shape[1] or len(wins) < 3 or wins.dtype.kind not in "iuf":
            return None
        winners, table = list(range(len(wins))), {loser: wins[:, loser] for loser in range(len(wins))}
    elif library_of(data) == "pandas" and hasattr(data, "columns"):
        winners, losers = list(data.index), list(data.columns)
        # a RangeIndex names winners only if the columns are the same numbers
        has_no_labels = type(data.index).__name__ == "RangeIndex" and (
            set(winners) != set(losers) or len(losers) < 3
        )
        if has_no_labels or not set(winners) & set(losers) or len(set(losers)) < len(losers):
            return None
        table = {loser: data[loser] for loser in losers}
    else:
        return None
    name = ("winner",)  # a tuple, so that it is not the name of an item
    return {name: winners, **table}, {"winner": name, "loser": list(table)}


class Scored(NamedTuple):
    """The score that a judge gave to an item, and the row of the data that it comes from."""

    row: int
    item: Any
    score: float


def pair_scores(
    table_columns: Mapping[Any, Any], roles: Mapping[str, Any], side: Mapping[str, Any]
) -> tuple[dict[Any, Any], dict[str, Any], dict[str, Any]]:
    """Scores that a judge gave to several items, as a comparison of each two of them.

    ``scores`` lists one column per item, with one row per judge; or it names one column, with one row per
    judge and item (``situation`` and ``alternative``). Judges are the clusters, unless others are named.
    """
    entries, n_judges = _list_scores(table_columns, roles)
    compared = [
        (judge, first, second)
        for judge, scored in enumerate(_scores_by_judge(entries, n_judges))
        for first, second in combinations(scored, 2)
    ]
    if not compared:
        raise InvalidSamples("no judge scored two items; give scores of at least two items by one judge")
    table: dict[Any, Any] = {
        "first": [first.item for _, first, _ in compared],
        "second": [second.item for _, _, second in compared],
        "outcome": [
            0.5 * (1 + (first.score > second.score) - (first.score < second.score))
            for _, first, second in compared
        ],
    }
    first_rows = np.array([first.row for _, first, _ in compared], np.int64)
    second_rows = np.array([second.row for _, _, second in compared], np.int64)
    side_of_pairs = _repeat_labels(table_columns, side, first_rows)
    side_of_pairs.setdefault("cluster", [judge for judge, _, _ in compared])
    features = side.get("features")
    if features is not None and not isinstance(features, Mapping):
        side_of_pairs["features"] = {}
        for name in as_sequence(features):
            column = find_column(table_columns, name, "features")
            values = read_numbers(column, f"the feature {name!r}", len(entries))
            side_of_pairs["features"][str(name)] = list(values[first_rows]), list(values[second_rows])
    return table, {name: name for name in table}, side_of_pairs


def list_alternatives(
    table_columns: Mapping[Any, Any], roles: Mapping[str, Any], side: Mapping[str, Any]
) -> tuple[dict[Any, Any], dict[str, Any], dict[str, Any]]:
    """A survey with one row per choice, as a table with one row per alternative.

    ``alternative`` lists the alternatives, ``chosen`` names the column with the chosen alternative or its
    number from 1, ``available`` lists columns of 1 and 0, and each feature one column per alternative.
    """
    names = list(cast("Sequence[Any]", roles["alternative"]))
    number, distinct = number_values(find_column(table_columns, roles.get("chosen", "chosen"), "chosen"))
    position_of: dict[Any, int] = {key: k for k in range(1, len(names) + 1) for key in (k, str(k))}
    position_of |= {name: k for k, name in enumerate(names, 1)}
    position: Int64 = np.array([position_of.get(value, 0) for value in distinct], np.int64)[number]
    unread = position == 0
    if unread.any():
        value = distinct[number[int(np.argmax(unread))]]
        listed = f"{show(names[0])}, …, {show(names[-1])}, or 1 to {len(names)}"
        raise BadRows(f"chosen is {show(value)} in ", unread, f"; give {listed}, or drop the row")
    n_choices, n_alternatives = len(position), len(names)
    row = np.repeat(np.arange(n_choices), n_alternatives)
    alternative = np.tile(np.arange(n_alternatives), n_choices)
    use = np.ones(len(row), bool)
    if "available" in roles:
        use = _flatten(table_columns, roles["available"], "available", names, n_choices) > 0
        gone = ~use[np.arange(n_choices) * n_alternatives + position - 1]
        if gone.any():
            raise BadRows("the chosen alternative in ", gone, " was not available; mend it, or drop the row")
    side_of_rows = _repeat_labels(table_columns, side, row[use])
    if "features" in side:
        if not isinstance(side["features"], Mapping):
            raise InvalidSamples(
                "features of a table with one row per choice have one column per alternative: "
                "features={'price': ['price_car', 'price_train']}"
            )
        titles_of = cast("Mapping[Any, Any]", side["features"])
        side_of_rows["features"] = {
            str(name): list(_flatten(table_columns, titles, f"the feature {name!r}", names, n_choices)[use])
            for name, titles in titles_of.items()
        }
    table: dict[Any, Any] = {
        "situation": row[use],
        "alternative": [names[k] for k in alternative[use].tolist()],
        "chosen": (alternative == position[row] - 1)[use].astype(np.int64),
    }
    return table, {name: name for name in table}, side_of_rows


def relative_difference(first: Float64, second: Float64) -> Float64:
    """(a − b) / (a + b), 0 where both are 0, standardised: LMArena's control of style."""
    total = first + second
    share = (first - second) / np.where(total == 0, 1.0, total)
    return (share - share.mean()) / (float(share.std()) or 1.0)


def read_totals(column: Any, role: str, n_rows: int) -> Float64:
    """A column of numbers, or the sum over the fields of a column of structs or dicts."""
    if as_arrow(column) is not None:
        return read_numbers(column, role, n_rows)
    cells = as_list(column)
    odd = [not isinstance(cell, dict) for cell in cells]
    if any(odd):
        raise BadRows(
            f"{role} is {show(cells[odd.index(True)])} in ", odd, "; give a number or a struct of numbers"
        )
    return np.array([sum(value or 0 for value in cell.values()) for cell in cells], np.float64)


def _list_scores(
    table_columns: Mapping[Any, Any], roles: Mapping[str, Any]
) -> tuple[list[tuple[int, int, Any, Any]], int]:
    """Each score as (row, judge, item, cell), and how many judges there are."""
    named = roles["scores"]
    if isinstance(named, list | tuple):
        titles = list(cast("Sequence[Any]", named))
        scores = [as_list(find_column(table_columns, title, "scores")) for title in titles]
        return [
            (row, row, title, cell)
            for title, cells in zip(titles, scores, strict=True)
            for row, cell in enumerate(cells)
        ], max(map(len, scores), default=0)
    situations = find_column(table_columns, roles.get("situation", "situation"), "situation")
    judge, judges = number_values(situations)
    items = as_list(find_column(table_columns, roles.get("alternative", "alternative"), "alternative"))
    cells = as_list(find_column(table_columns, named, "scores"))
    return list(zip(range(len(cells)), judge.tolist(), items, cells, strict=True)), len(judges)


def _scores_by_judge(entries: Sequence[tuple[int, int, Any, Any]], n_judges: int) -> list[list[Scored]]:
    """The scores that each judge gave; empty cells are none."""
    by_judge: list[list[Scored]] = [[] for _ in range(n_judges)]
    bad = list[int]()
    for row, judge, item, cell in entries:
        if not is_missing(cell):
            try:
                by_judge[judge].append(Scored(row, item, float(cell)))
            except (TypeError, ValueError):
                bad.append(row)
    if bad:
        raise BadRows("the score in ", bad, " is not a number; mend it, or leave the cell empty")
    return by_judge


def _repeat_labels(table_columns: Mapping[Any, Any], side: Mapping[str, Any], rows: Int64) -> dict[str, Any]:
    """What describes the rows of a table, with the clusters and categories of these rows."""
    repeated = dict(side)
    for name in ("cluster", "by"):
        if name in side:
            named = isinstance(side[name], str)
            values = as_list(find_column(table_columns, side[name], name) if named else side[name])
            repeated[name] = [values[row] for row in rows.tolist()]
    return repeated


def _flatten(
    table_columns: Mapping[Any, Any], titles: Any, role: str, names: Sequence[Any], n_choices: int
) -> Float64:
    """One column per alternative as one column, row by row."""
    listed = as_sequence(titles)
    if len(listed) != len(names):
        raise InvalidSamples(
            f"{role} has {len(listed)} columns for {len(names)} alternatives; give one for each"
        )
    return np.column_stack(
        [read_numbers(find_column(table_columns, title, role), role, n_choices) for title in listed]
    ).ravel()
