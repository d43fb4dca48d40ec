"""Rewrite PGN files, matrices of wins, scores and wide surveys as tables of pairs or alternatives."""

# One function for each shape: read_games, read_matrix, pair_scores and list_alternatives. The forms of
# choices/forms.py then read the tables.

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, cast

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.tables import Float64, Int64
from attomaton.choices.columns import as_list, as_sequence, find_column, number_values, read_numbers
from attomaton.choices.forms import ItemCell, NamedColumns
from attomaton.choices.numbering import BadRows, is_missing
from attomaton.corpora.readers.tables import library_of

# A tag in a PGN file, such as `[White "Polgar"]`.
TAG = re.compile(r'\s*\[(\w+)\s+"((?:[^"\\]|\\.)*)"\]')


def read_games(lines: Iterable[str]) -> tuple[dict[str, list[str | None]], list[int]]:
    """The tags of the finished games of a PGN file as columns, and the line where each game begins."""
    games: list[tuple[int, dict[str, str]]] = []  # the first line and the tags of each game
    in_tags = False
    for number, line in enumerate(lines, 1):
        tag = TAG.match(line)
        if tag is not None:
            if not in_tags:
                games.append((number, {}))
            games[-1][1][tag[1]] = re.sub(r"\\(.)", r"\1", tag[2])  # without the backslashes of \" and \\
        # blank lines between tags belong to the game; the first line of moves ends its tags
        in_tags = tag is not None or (in_tags and not line.strip())
    names = dict.fromkeys(name for _, tags in games for name in tags)
    finished = [(start, tags) for start, tags in games if tags.get("Result", "*") != "*"]
    columns = {name: [tags.get(name) for _, tags in finished] for name in names}
    return columns, [start for start, _ in finished]


def read_matrix(data: Any) -> tuple[dict[Any, Any], dict[str, Any]] | None:
    """A square array, or a frame with winners as its index, as a table of wins and roles; else None."""
    if type(data) is np.ndarray:
        wins: Any = cast("Any", data)
        if wins.ndim != 2 or wins.shape[0] != wins.shape[1] or len(wins) < 3 or wins.dtype.kind not in "iuf":
            return None
        winners = losers = list(range(len(wins)))
        columns: dict[Any, Any] = {loser: wins[:, loser] for loser in losers}
    elif library_of(data) == "pandas" and hasattr(data, "columns"):
        winners, losers = list(data.index), list(data.columns)
        # a RangeIndex names winners only if the columns are the same numbers
        is_range = type(data.index).__name__ == "RangeIndex"
        unlabelled = is_range and (set(winners) != set(losers) or len(losers) < 3)
        if unlabelled or not set(winners) & set(losers) or len(set(losers)) < len(losers):
            return None
        columns = {loser: data[loser] for loser in losers}
    else:
        return None
    name = ("winner",)  # a tuple, so that it is not the name of an item
    return {name: winners, **columns}, {"winner": name, "loser": losers}


def pair_scores(named: NamedColumns) -> NamedColumns:
    """Compare any two items that one judge scored; judges are the clusters unless ``cluster`` is given."""
    # A row contains either all scores of a judge, or one score, with the roles situation and alternative.
    scores, n_judges = _list_scores(named)
    pairs = [pair for scored in _scores_by_judge(scores, n_judges) for pair in combinations(scored, 2)]
    if not pairs:
        raise InvalidSamples("no judge scored two items; give at least two scores of one judge")
    table: dict[Any, Any] = {
        "first": [first.item for first, _ in pairs],
        "second": [second.item for _, second in pairs],
        "outcome": [0.5 * (1 + (a.cell > b.cell) - (a.cell < b.cell)) for a, b in pairs],
    }
    first_rows = np.array([first.row for first, _ in pairs], np.int64)
    second_rows = np.array([second.row for _, second in pairs], np.int64)
    # A pair takes the cluster of its first row, and the features of both rows.
    covariates = _repeat_labels(named, first_rows)
    covariates.setdefault("cluster", [first.group for first, _ in pairs])
    features = named.covariates.get("features")
    if features is not None and not isinstance(features, Mapping):
        covariates["features"] = {}
        for name in as_sequence(features):
            column = find_column(named.table, name, "features")
            values = read_numbers(column, f"the feature {name!r}", len(scores))
            covariates["features"][str(name)] = list(values[first_rows]), list(values[second_rows])
    return named._replace(table=table, roles={name: name for name in table}, covariates=covariates)


def list_alternatives(named: NamedColumns) -> NamedColumns:
    """Turn a survey with one row per choice into a table with one row per alternative."""
    names = list(cast("Sequence[Any]", named.roles["alternative"]))
    position = _chosen_position(named.take("chosen"), names)
    n_choices = len(position)
    n_alternatives = len(names)
    # Row r of the survey becomes the rows r · n_alternatives … of the table, less those not available.
    row = np.repeat(np.arange(n_choices), n_alternatives)
    alternative = np.tile(np.arange(n_alternatives), n_choices)
    available = np.ones(len(row), bool)
    if "available" in named.roles:
        available = _flatten(named, named.roles["available"], "available", names, n_choices) > 0
        gone = ~available[np.arange(n_choices) * n_alternatives + position]
        if gone.any():
            raise BadRows(
                "the chosen alternative in ", gone, " was not available; correct the row, or drop it"
            )
    covariates = _repeat_labels(named, row[available])
    if "features" in covariates:
        features = covariates["features"]
        if not isinstance(features, Mapping):
            raise InvalidSamples(
                "features= must name one column per alternative if the table has one row per choice; write "
                "features={'price': ['price_car', 'price_train']}"
            )
        covariates["features"] = {
            str(name): list(_flatten(named, titles, f"the feature {name!r}", names, n_choices)[available])
            for name, titles in cast("Mapping[Any, Any]", features).items()
        }
    table: dict[Any, Any] = {
        "situation": row[available],
        "alternative": [names[number] for number in alternative[available].tolist()],
        "chosen": (alternative == position[row])[available].astype(np.int64),
    }
    return named._replace(table=table, roles={name: name for name in table}, covariates=covariates)


# The position of the chosen alternative in ``names``, from its name or its number from 1.
def _chosen_position(values: Any, names: Sequence[Any]) -> Int64:
    number, distinct = number_values(values)
    position_of: dict[Any, int] = {key: n - 1 for n in range(1, len(names) + 1) for key in (n, str(n))}
    position_of |= {name: position for position, name in enumerate(names)}  # a name goes before a number
    position: Int64 = np.array([position_of.get(value, -1) for value in distinct], np.int64)[number]
    unread = position < 0
    if unread.any():
        value = distinct[number[int(np.argmax(unread))]]
        listed = f"{show(names[0])}, …, {show(names[-1])}, or 1 to {len(names)}"
        raise BadRows(f"chosen is {show(value)} in ", unread, f"; write {listed}, or drop the row")
    return position


# All scores, and the number of judges; with one column for each item, each row is a judge.
def _list_scores(named: NamedColumns) -> tuple[list[ItemCell], int]:
    source = named.roles["scores"]
    if isinstance(source, list | tuple):
        scores = [
            ItemCell(row, row, title, cell)
            for title in cast("Sequence[Any]", source)
            for row, cell in enumerate(as_list(find_column(named.table, title, "scores")))
        ]
        return scores, 1 + max((score.group for score in scores), default=-1)
    judge, judges = number_values(named.take("situation"))
    items = as_list(named.take("alternative"))
    cells = as_list(named.take("scores"))
    rows = zip(range(len(cells)), judge.tolist(), items, cells, strict=True)
    return [ItemCell(*row) for row in rows], len(judges)


# The scores of each judge as numbers, without empty cells.
def _scores_by_judge(scores: Sequence[ItemCell], n_judges: int) -> list[list[ItemCell]]:
    by_judge: list[list[ItemCell]] = [[] for _ in range(n_judges)]
    bad = list[int]()
    for score in scores:
        if not is_missing(score.cell):
            try:
                by_judge[score.group].append(score._replace(cell=float(score.cell)))
            except (TypeError, ValueError):
                bad.append(score.row)
    if bad:
        raise BadRows("the score in ", bad, " is not a number; write a number, or leave the cell empty")
    return by_judge


# The covariates, with clusters and categories for these rows.
def _repeat_labels(named: NamedColumns, rows: Int64) -> dict[str, Any]:
    repeated = dict(named.covariates)
    for name in ("cluster", "by"):
        if name in repeated:
            source = repeated[name]
            values = as_list(find_column(named.table, source, name) if isinstance(source, str) else source)
            repeated[name] = [values[row] for row in rows.tolist()]
    return repeated


# Join the columns of the alternatives, row by row, shape (n_choices · n_alternatives,).
def _flatten(named: NamedColumns, titles: Any, role: str, names: Sequence[Any], n_choices: int) -> Float64:
    listed = as_sequence(titles)
    if len(listed) != len(names):
        raise InvalidSamples(
            f"{role} has {len(listed)} columns for {len(names)} alternatives; name one column for each"
        )
    columns = [read_numbers(find_column(named.table, title, role), role, n_choices) for title in listed]
    return np.column_stack(columns).ravel()
