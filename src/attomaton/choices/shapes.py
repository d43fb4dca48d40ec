"""Tables in other shapes, rewritten as pairs or alternatives: PGN files, wins, scores, wide surveys."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, cast

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.tables import Float64, Int64
from attomaton.choices.columns import as_arrow, as_list, find_column, number_values, read_numbers
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
        numbered = type(data.index).__name__ == "RangeIndex" and (
            set(winners) != set(losers) or len(losers) < 3
        )
        if numbered or not set(winners) & set(losers) or len(set(losers)) < len(losers):
            return None
        table = {loser: data[loser] for loser in losers}
    else:
        return None
    return {("winner",): winners, **table}, {"winner": ("winner",), "loser": list(table)}


def pair_scores(
    table_columns: Mapping[Any, Any], columns: Mapping[str, Any], side: Mapping[str, Any]
) -> tuple[dict[Any, Any], dict[str, Any], dict[str, Any]]:
    """Scores that a judge gave to several items, as a comparison of each two of them.

    ``scores`` lists one column per item, with one row per judge; or it names one column, with one row per
    judge and item (``situation`` and ``alternative``). Judges are the clusters, unless others are named.
    """
    named = columns["scores"]
    if isinstance(named, list | tuple):
        titles = list(cast("Sequence[Any]", named))
        cells = [as_list(find_column(table_columns, title, "scores")) for title in titles]
        judges: Any = list(range(len(cells[0]) if cells else 0))
        columns_of_items = zip(titles, cells, strict=True)
        entries = [
            (row, row, title, cell) for title, column in columns_of_items for row, cell in enumerate(column)
        ]
    else:
        judge, judges = number_values(
            find_column(table_columns, columns.get("situation", "situation"), "situation")
        )
        items = as_list(find_column(table_columns, columns.get("alternative", "alternative"), "alternative"))
        cells = as_list(find_column(table_columns, named, "scores"))
        entries = list(zip(range(len(cells)), judge.tolist(), items, cells, strict=True))
    scored: list[list[tuple[int, Any, float]]] = [[] for _ in cast("list[Any]", judges)]
    bad = list[int]()
    for row, number, item, cell in entries:
        if not is_missing(cell):
            try:
                scored[number].append((row, item, float(cell)))
            except (TypeError, ValueError):
                bad.append(row)
    if bad:
        raise BadRows("the score in ", bad, " is not a number; mend it, or leave the cell empty")
    pairs: list[tuple[Any, Any, Any]] = [
        (number, *pair) for number, row in enumerate(scored) for pair in combinations(row, 2)
    ]
    if not pairs:
        raise InvalidSamples("no judge scored two items; give scores of at least two items by one judge")
    table: dict[Any, Any] = {
        "first": [winner_entry[1] for _, winner_entry, _ in pairs],
        "second": [two[1] for _, _, two in pairs],
        "outcome": [
            0.5 * (1 + (winner_entry[2] > two[2]) - (winner_entry[2] < two[2]))
            for _, winner_entry, two in pairs
        ],
    }
    rows = [np.array([pair[side_of][0] for pair in pairs], np.int64) for side_of in (1, 2)]
    described = _repeat_labels(table_columns, side, rows[0])
    described.setdefault("cluster", [number for number, _, _ in pairs])
    features = side.get("features")
    if features is not None and not isinstance(features, Mapping):
        names = cast("Sequence[Any]", features if isinstance(features, list | tuple) else [features])
        described["features"] = {}
        for name in names:
            values = read_numbers(
                find_column(table_columns, name, "features"), f"the feature {name!r}", len(entries)
            )
            described["features"][str(name)] = tuple(list(values[row]) for row in rows)
    return table, {"first": "first", "second": "second", "outcome": "outcome"}, described


def list_alternatives(
    table_columns: Mapping[Any, Any], columns: Mapping[str, Any], side: Mapping[str, Any]
) -> tuple[dict[Any, Any], dict[str, Any], dict[str, Any]]:
    """A survey with one row per choice, as a table with one row per alternative.

    ``alternative`` lists the alternatives, ``chosen`` names the column with the chosen alternative or its
    number from 1, ``available`` lists columns of 1 and 0, and each feature one column per alternative.
    """
    names = list(cast("Sequence[Any]", columns["alternative"]))
    number, distinct = number_values(find_column(table_columns, columns.get("chosen", "chosen"), "chosen"))
    position_of: dict[Any, int] = {key: k for k in range(1, len(names) + 1) for key in (k, str(k))}
    position_of |= {name: k for k, name in enumerate(names, 1)}
    position: Int64 = np.array([position_of.get(value, 0) for value in distinct], np.int64)[number]
    if (position == 0).any():
        value = distinct[number[int(np.argmax(position == 0))]]
        listed = f"{show(names[0])}, …, {show(names[-1])}, or 1 to {len(names)}"
        raise BadRows(f"chosen is {show(value)} in ", position == 0, f"; give {listed}, or drop the row")
    size, wide = len(position), len(names)
    row, alternative = np.repeat(np.arange(size), wide), np.tile(np.arange(wide), size)
    use = np.ones(len(row), bool)
    if "available" in columns:
        use = _flatten(table_columns, columns["available"], "available", names, size) > 0
        if not use[np.arange(size) * wide + position - 1].all():
            gone = ~use[np.arange(size) * wide + position - 1]
            raise BadRows("the chosen alternative in ", gone, " was not available; mend it, or drop the row")
    described = _repeat_labels(table_columns, side, row[use])
    if "features" in side:
        if not isinstance(side["features"], Mapping):
            raise InvalidSamples(
                "features of a table with one row per choice have one column per alternative: "
                "features={'price': ['price_car', 'price_train']}"
            )
        titles_of = cast("Mapping[Any, Any]", side["features"])
        described["features"] = {
            str(name): list(_flatten(table_columns, titles, f"the feature {name!r}", names, size)[use])
            for name, titles in titles_of.items()
        }
    table: dict[Any, Any] = {
        "situation": row[use],
        "alternative": [names[k] for k in alternative[use].tolist()],
        "chosen": (alternative == position[row] - 1)[use].astype(np.int64),
    }
    return table, {name: name for name in table}, described


def _repeat_labels(table_columns: Mapping[Any, Any], side: Mapping[str, Any], rows: Int64) -> dict[str, Any]:
    """What describes the rows of a table, with the clusters and categories of these rows."""
    described = dict(side)
    for name in ("cluster", "by"):
        if name in side:
            values = as_list(
                find_column(table_columns, side[name], name) if isinstance(side[name], str) else side[name]
            )
            described[name] = [values[row] for row in rows.tolist()]
    return described


def _flatten(
    table_columns: Mapping[Any, Any], titles: Any, role: str, names: Sequence[Any], size: int
) -> Float64:
    """One column per alternative as one column, row by row."""
    listed = list(cast("Sequence[Any]", titles)) if isinstance(titles, list | tuple) else [titles]
    if len(listed) != len(names):
        raise InvalidSamples(
            f"{role} has {len(listed)} columns for {len(names)} alternatives; give one for each"
        )
    return np.column_stack(
        [read_numbers(find_column(table_columns, title, role), role, size) for title in listed]
    ).ravel()


def relative(first: Float64, second: Float64) -> Float64:
    """(a − b) / (a + b), 0 where both are 0, standardised: LMArena's control of style."""
    total = first + second
    share = (first - second) / np.where(total == 0, 1.0, total)
    return (share - share.mean()) / (float(share.std()) or 1.0)


def total_of(column: Any, role: str, n_rows: int) -> Float64:
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
