"""Choices as users supply them: a frame with named columns, a file of one, or sequences."""

import re
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from typing import Any, NamedTuple, TypedDict, cast

import numpy as np

from attomaton.base.errors import InvalidSamples, SkippedDocuments, UnreadableSource, UnsupportedOption
from attomaton.base.options import check_path, real_number, show
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.columns import (
    as_arrow,
    as_list,
    columns_of,
    find_column,
    is_frame,
    look_up,
    number_columns,
    number_values,
    read_numbers,
)
from attomaton.choices.numbering import (
    BadRows,
    SetChoices,
    check_items,
    check_unrolled,
    counts_of,
    is_missing,
    number_choices,
)
from attomaton.choices.outcomes import FIRST, TIES, read_amounts, read_outcomes, read_score_columns
from attomaton.choices.sequences import (
    NO_ROWS,
    Alternatives,
    ChoiceData,
    PairChoices,
    ParsedChoices,
    holds_items,
    pair_rows,
    read_movers,
    read_sequences,
)
from attomaton.choices.shapes import (
    ARENA_STYLE,
    list_alternatives,
    pair_scores,
    read_games,
    read_matrix,
    relative,
    total_of,
)
from attomaton.corpora.budgets import STANDARD_INPUT
from attomaton.corpora.readers.batches import Reading
from attomaton.corpora.readers.files import File, keep_standard_input, naming, suffix_of
from attomaton.corpora.readers.sources import TABLE_READERS
from attomaton.graphs.grouping import pack_pairs


class FileColumns(dict[Any, Any]):
    """The columns of a file by name, the name of each row in it, and whether to skip what cannot be read."""

    def __init__(self, columns: Mapping[Any, Any], locate: Callable[[int], str], skip_bad: bool) -> None:
        super().__init__(columns)
        self.locate, self.skip_bad = locate, skip_bad


def read_columns(path: str | PathLike[str], reading: Reading | None = None) -> FileColumns:
    """The columns of a file by name; ``"-"`` is standard input. Cells of CSV and TSV stay text (007)."""
    source = check_path(fspath(path), "the file of choices")
    reading = reading or Reading()
    file = keep_standard_input() if source == STANDARD_INPUT else File(source, source)
    suffix = suffix_of(file, reading) or (".csv" if source == STANDARD_INPUT else "")
    if suffix == ".pgn":
        with naming(source), file.open() as raw:
            games, starts = read_games(line.decode("utf-8", "replace") for line in raw)
        return FileColumns(games, lambda row: f"the game of line {starts[row]} of {source}", reading.skip_bad)
    if suffix not in TABLE_READERS:
        raise UnreadableSource(
            f"{source!r} is not a file of choices; give one ending in {', '.join(TABLE_READERS)} or .pgn "
            "(save a spreadsheet as .csv), or sequences of winners and losers"
        )
    reader = TABLE_READERS[suffix](file, reading)
    with naming(source):
        return FileColumns(columns_of(reader.table()), reader.locate, reading.skip_bad)


def split_column(columns: FileColumns, name: str | None, between: str) -> FileColumns:
    """The columns with one of them split into lists; whitespace around the parts is removed."""
    if name is None or not between.strip():
        raise UnsupportedOption(
            "split is for a column of choice sets or rankings; name that column and the separator"
        )
    texts = as_list(find_column(columns, name, "choice_set"))
    for row, text in enumerate(texts):
        if not isinstance(text, str) and not is_missing(text):
            where = columns.locate(row)
            raise InvalidSamples(f"{where} has no text to split in {name!r}; leave split out, or fix it")
    lists = [[] if is_missing(text) else list(map(str.strip, text.split(between))) for text in texts]
    return FileColumns({**columns, name: lists}, columns.locate, columns.skip_bad)


class Columns(TypedDict, total=False):
    """Names of the columns of a frame, or the columns themselves.

    ``winner`` with ``loser`` (or one column per loser, which holds the number of wins) or ``choice_set`` (a
    column of lists, or several columns), or ``first``, ``second`` and ``outcome`` (one column, or one for
    each side), or ``ranking`` (a column of lists, or one column per place), or ``ranks`` (one column per
    item, which holds its place), or ``best``, ``worst`` and ``choice_set``, or ``situation``,
    ``alternative`` and ``chosen`` (with a list of alternatives: one row per choice), or ``scores`` (a column
    per item, or with ``situation`` and ``alternative``); ``count`` with most of these. ``drop`` lists
    outcomes that are left out. ``moved_first``, ``features``, ``style``, ``cluster`` and ``by`` describe the
    choices further, and ``most_per_pair`` weights them.
    """

    winner: Any
    loser: Any
    choice_set: Any
    first: Any
    second: Any
    outcome: Any
    drop: Any
    most_per_pair: Any
    scores: Any
    available: Any
    ranking: Any
    ranks: Any
    best: Any
    worst: Any
    situation: Any
    alternative: Any
    chosen: Any
    count: Any
    moved_first: Any
    features: Any
    style: Any
    cluster: Any
    by: Any


MOST_CATEGORIES = 1000
"""Maximum number of categories, each of which is fitted in about 15 ms or more."""

RELATIVE = " (relative)"
"""What the names of coefficients of ``style=`` end in."""

SIDE = ("moved_first", "features", "style", "cluster", "by")
"""What describes choices further, in any form."""

MOST_PAIRED = 1 << 16
"""Number of pairs of best and worst beyond which sets may not be large."""

RANK_PREFIX = re.compile(r"^(rank|place|position|pos|p)[\s_.]*(?=\d)", re.IGNORECASE)
"""What comes before the number in a column named by place, such as ``rank1`` or ``Place 2``."""

CONTESTANTS = (("first", "second"), ("winner", "loser"))
"""The columns of the two items of a pair."""


class Side(NamedTuple):
    """What describes the rows of the data further: numbers, and labels as codes with their names."""

    features: Mapping[str, Float64]  # of the first less the second in pairs; of each alternative otherwise
    cluster: Int64 | None = None
    by: tuple[Int64, list[Any]] | None = None


def parse_choices(data: ChoiceData, columns: Mapping[str, Any]) -> tuple[ParsedChoices, Side]:
    """The choices, supplied in any form, and what describes them further."""
    most = columns.get("most_per_pair")
    form_columns = {name: named for name, named in columns.items() if name != "most_per_pair"}
    parsed, side = _read_form(data, form_columns)
    return (parsed if most is None else _limit_pairs(parsed, most)), side


def _limit_pairs(parsed: ParsedChoices, most: Any) -> ParsedChoices:
    """Weights with which no pair of items counts as more than ``most`` comparisons."""
    limit, choices = real_number(most, "most_per_pair", above=0), parsed.choices
    if not isinstance(choices, PairChoices):
        raise UnsupportedOption("most_per_pair= is for pairs; leave it out")
    low, high = np.minimum(choices.first, choices.second), np.maximum(choices.first, choices.second)
    pair = np.unique(pack_pairs(low, high), return_inverse=True)[1].ravel()
    totals = np.bincount(pair, parsed.counts)[pair]
    if totals.max() <= limit:
        return parsed
    return parsed._replace(counts=parsed.counts * np.minimum(1.0, limit / totals))


def _read_form(data: ChoiceData, columns: Mapping[str, Any]) -> tuple[ParsedChoices, Side]:
    unknown = [name for name in columns if name not in Columns.__annotations__]
    if unknown:
        raise UnsupportedOption(
            f"unknown option {unknown[0]!r}; columns are named by {', '.join(Columns.__annotations__)}"
        )
    side = {name: columns[name] for name in SIDE if columns.get(name) is not None}
    columns = {name: named for name, named in columns.items() if name not in SIDE and named is not None}
    framed: Any = data.winners if data.rankings is None else data.rankings
    if isinstance(framed, str | PathLike) and data.choice_sets is None and data.losers is None:
        framed = read_columns(cast("str | PathLike[str]", framed))
    framed = cast("Any", framed)
    if isinstance(framed, FileColumns):
        return _read_file(data, framed, columns, side)
    roles = [name for name in columns if name != "drop"]
    if framed is None and roles and not any(isinstance(columns[name], str) for name in roles):
        framed, columns = (
            {name: columns[name] for name in roles},
            {name: columns[name] if name == "drop" else name for name in columns},
        )
    matrix = read_matrix(framed) if framed is data.winners and not columns and data.losers is None else None
    if matrix is not None:
        framed, columns = matrix
    if is_frame(framed) and not (framed is data.rankings and isinstance(framed, list)):
        return _read_frame(data, columns_of(framed), columns, side)
    if columns:
        raise InvalidSamples(
            f"{next(iter(columns))}= names a column, but the data are not a frame; give a frame first, or "
            "sequences: fit_choices(winners, losers=losers)"
        )
    parsed = read_sequences(data)
    described = read_side(parsed, side, {}, ("winner", "loser")) if side else Side({})
    return parsed if data.counts is None else _leave_out_unmade(parsed, data.counts), described


def _leave_out_unmade(parsed: ParsedChoices, counts: Any) -> ParsedChoices:
    if counts is None or parsed.counts.all():
        return parsed
    return parsed.restrict(np.asarray(counts) > 0)


def _read_file(
    data: ChoiceData, file: FileColumns, columns: Mapping[str, Any], side: Mapping[str, Any]
) -> tuple[ParsedChoices, Side]:
    """The choices of a file: rows that cannot be read are named as in the file, or skipped and counted."""
    rows, first_fault = np.arange(max(map(_length, file.values()), default=0)), ""
    remaining: Mapping[Any, Any] = file
    while True:
        try:
            parsed = _read_frame(data, remaining, dict(columns), side)
        except BadRows as error:
            message = error.locate(file.locate(int(rows[error.rows[0]])))
            good = np.ones(len(rows), bool)
            good[error.rows] = False
            if not file.skip_bad or not good.any():
                raise InvalidSamples(message) from error
            rows, first_fault = rows[good], first_fault or message.partition("; ")[0]
            remaining = {name: select_rows(column, good) for name, column in remaining.items()}
        else:
            break
    skipped = max(map(_length, file.values()), default=0) - len(rows)
    if skipped:
        warnings.warn(SkippedDocuments(skipped, first_fault, "row"), stacklevel=2)
    return parsed


def _length(column: Any) -> int:
    return 0 if column is None else len(column)


def select_rows(column: Any, rows: Bool) -> Any:
    """Some rows of a column of a file; None is a name that occurs twice."""
    if column is None:
        return None
    if isinstance(column, list):
        return [cell for cell, taken in zip(cast("list[Any]", column), rows.tolist(), strict=True) if taken]
    return column.take(np.flatnonzero(rows))


def _read_frame(
    data: ChoiceData, table: Mapping[Any, Any], columns: dict[str, Any], side: Mapping[str, Any]
) -> tuple[ParsedChoices, Side]:
    """The choices of a frame, and what describes them further."""
    if data.choice_sets is not None or data.losers is not None:
        raise InvalidSamples(
            'give a frame alone, with the names of its columns: fit_choices(frame, winner="…", loser="…")'
        )
    if data.rankings is not None and not columns:
        columns["ranking"] = list(table)
    if columns.keys() <= {"drop", "count"} and "loser" not in table:
        for arena in ARENAS:
            if table.keys() >= {name for names in arena.values() for name in _as_sequence(names)}:
                columns.update(arena)
                break
    if "scores" in columns:
        table, columns, side = pair_scores(table, columns, side)
    elif isinstance(columns.get("alternative"), list | tuple):
        table, columns, side = list_alternatives(table, columns, side)
    form = _find_form(columns, table)

    counts, tied = data.counts, data.tied
    named = {**columns, **side}
    if isinstance(counts, str):
        columns.setdefault("count", counts)
    elif (
        counts is None
        and "count" in OPTIONAL.get(form, {"count"})
        and "count" in table
        and not _names(named, "count")
    ):
        columns["count"] = "count"
    if "count" in columns:
        counts = _read_counts(find_column(table, columns["count"], "count"))
    if tied is None and form is _frame_pairs:
        tied = next((name for name in TIES if name in table and not _names(named, name)), None)
    if isinstance(tied, str):
        tied = find_column(table, tied, "tied")
    contestants = next((pair for pair in CONTESTANTS if FORMS[form] >= set(pair)), ("", ""))
    names = columns.get(contestants[0], contestants[0]), columns.get(contestants[1], contestants[1])
    parsed = form(NamedColumns(table, columns, counts, tied))
    if side and form in (_frame_crosstab, _frame_entries):
        needed = "pair" if form is _frame_crosstab else "ranking"
        raise UnsupportedOption(
            f"{next(iter(side))}= needs a table with one row for each {needed}; leave it out, or give such a "
            "table"
        )
    described = read_side(parsed, side, table, names)
    parsed = _leave_out_unmade(parsed, counts)
    if "drop" in columns:
        number, distinct = number_values(find_column(table, columns.get("outcome", "outcome"), "outcome"))
        dropped = _as_sequence(columns["drop"])
        parsed = parsed.restrict(np.array([value not in dropped for value in distinct], bool)[number])
    return parsed, described


def read_side(
    parsed: ParsedChoices, side: Mapping[str, Any], table: Mapping[Any, Any], contestants: tuple[Any, Any]
) -> Side:
    """Position, features, clusters and categories; ``table`` has the columns of the frame, if it is one."""
    choices = parsed.choices
    described = [name for name in ("features", "moved_first", "style") if name in side]
    if isinstance(choices, SetChoices) and described:
        option = described[0]
        raise UnsupportedOption(
            f"{option}= is for pairs, and for tables with one row per alternative; give it in that form: "
            "situation=, alternative=, chosen= and features="
        )
    n_rows = _count_rows(parsed)
    features = dict[str, Float64]()
    if "moved_first" in side:
        if not isinstance(choices, PairChoices):
            raise UnsupportedOption(
                "moved_first= is for pairs; give a column that is 1 for the alternative that stood first and "
                "name it in features="
            )
        values, pair = _take(table, side["moved_first"], "moved_first"), (choices.first, choices.second)
        features["moved_first"] = read_movers(values, parsed.items, pair, contestants)
    for name, source in _name_features(side.get("features")).items():
        if name in ("moved_first", "tie") or name in features:
            raise InvalidSamples(f"two coefficients would be called {name!r}; rename the feature")
        features[name] = _read_feature(parsed, name, source, table, contestants, n_rows)
    style = side.get("style")
    for name, source in _name_features(ARENA_STYLE if style == "arena" else style).items():
        features[name.rpartition(".")[2] + RELATIVE] = _read_style(
            choices, name, source, table, contestants, n_rows
        )
    labels = {
        name: _read_labels(
            _take(table, side[name], name),
            f"{show(side[name])} ({name})" if isinstance(side[name], str) else name,
            n_rows,
        )
        for name in ("cluster", "by")
        if name in side
    }
    if "by" in labels and len(labels["by"][1]) > MOST_CATEGORIES:
        raise UnsupportedOption(
            f"{show(side['by'])} (by) has {len(labels['by'][1]):,} categories, each of which "
            f"would be fitted; give a column with at most {MOST_CATEGORIES:,}"
        )
    if isinstance(choices, Alternatives) and choices.against is None:
        for name, (number, _) in labels.items():
            differs = number[choices.entry] != np.repeat(number[choices.row], choices.lengths)
            if differs.any():
                rows = np.unique(choices.entry[differs])
                raise BadRows(
                    f"{name} differs inside the situation of ", rows, "; give each situation one value"
                )
    return Side(features, labels["cluster"][0] if "cluster" in labels else None, labels.get("by"))


def _take(table: Mapping[Any, Any], source: Any, role: str) -> Any:
    """A column by its name, or the values themselves."""
    by_name = isinstance(source, Hashable) and not isinstance(source, tuple)
    return find_column(table, source, role) if by_name else cast("Any", source)


def _as_sequence(names: Any) -> Sequence[Any]:
    return list(cast("Sequence[Any]", names)) if isinstance(names, list | tuple) else [names]


def _count_rows(parsed: ParsedChoices) -> int:
    choices = parsed.choices
    if isinstance(choices, PairChoices):
        return len(choices.first)
    if isinstance(choices, SetChoices):
        return int(choices.row.max(initial=-1)) + 1
    return len(choices.entry) if choices.against is None else len(choices.lengths)


def _name_features(features: Any) -> dict[str, Any]:
    if features is None:
        return {}
    if isinstance(features, Mapping):
        return {str(name): source for name, source in cast("Mapping[Any, Any]", features).items()}
    names = _as_sequence(features)
    if not all(isinstance(name, Hashable) for name in names):
        raise InvalidSamples(
            "features are columns with names; give a list of column names, or a mapping from names to columns"
        )
    return {str(name): name for name in names}


def _read_feature(
    parsed: ParsedChoices,
    name: str,
    source: Any,
    table: Mapping[Any, Any],
    contestants: tuple[Any, Any],
    n_rows: int,
) -> Float64:
    """One feature: of each alternative, or of the first of a pair less that of the second.

    A pair has it in one column (the difference), in two columns, or by item.
    """
    choices, role = parsed.choices, f"the feature {name!r}"
    if isinstance(source, Mapping):
        of_item = cast("Mapping[Any, Any]", source)
        absent = next((item for item in parsed.items if item not in of_item), None)
        if absent is not None:
            raise InvalidSamples(f"{role} has no value for the item {absent!r}; give one for every item")
        values = read_numbers([of_item[item] for item in parsed.items], role, len(parsed.items))
        if isinstance(choices, PairChoices):
            return values[choices.first] - values[choices.second]
        if isinstance(choices, Alternatives) and choices.against is None:
            column = np.empty(n_rows)
            column[choices.entry] = values[choices.members]
            return column
    if not isinstance(choices, PairChoices):
        if isinstance(choices, Alternatives) and choices.against is not None:
            raise UnsupportedOption("best and worst take no features; leave features out")
        return read_numbers(_take(table, source, "features"), role, n_rows)
    if isinstance(source, str) and look_up(table, source) is None:
        source = _sides_of(source, table, contestants)
    if isinstance(source, tuple) and len(cast("tuple[Any, ...]", source)) == 2:
        first, second = (
            read_numbers(_take(table, title, "features"), role, n_rows)
            for title in cast("tuple[Any, Any]", source)
        )
        return first - second
    return read_numbers(_take(table, source, "features"), role, n_rows)


def _read_style(
    choices: Any, name: str, source: Any, table: Mapping[Any, Any], contestants: tuple[Any, Any], n_rows: int
) -> Float64:
    """The relative difference of an amount between the first and the second of each pair."""
    if not isinstance(choices, PairChoices):
        raise UnsupportedOption("style= is for pairs; leave it out")
    if not isinstance(source, tuple):
        source = _sides_of(source, table, contestants)
    first, second = (
        total_of(_take(table, title, "style"), f"the style {name!r}", n_rows) for title in cast("Any", source)
    )
    return relative(first, second)


def _sides_of(name: Any, table: Mapping[Any, Any], contestants: tuple[Any, Any]) -> Any:
    """The two columns of a feature: ``length_a`` and ``length_b`` beside ``model_a`` and ``model_b``.

    The sides may also be inside: ``conv_length`` means ``conv_a_length`` and ``conv_b_length``, and
    ``meta.length.mean`` the fields ``length_a.mean`` and ``length_b.mean`` of the column ``meta``.
    """
    first, second = map(str, contestants)
    shared = next((k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
    sides, text = (first[shared:], second[shared:]), str(name)
    ends = [len(text), *(end for end in range(len(text) - 1, 0, -1) if text[end] in "_.")]
    pairs = [tuple(f"{text[:end]}_{side}{text[end:]}" for side in sides) for end in ends]
    pairs += [tuple(f"{side}_{text}" for side in sides), tuple(f"{text}{side}" for side in sides)]
    for pair in pairs:
        if all(look_up(table, title) is not None for title in pair):
            return pair
    ends = " and ".join(show(f"{name}_{side}") for side in sides)
    raise InvalidSamples(
        f"there is no column {show(name)} for the feature, and no columns {ends}; name its two columns: "
        f"features={{{show(name)}: ('…', '…')}} (on the command line: --features {name}=…:…)"
    )


def _read_labels(values: Any, role: str, n_rows: int | None = None) -> tuple[Int64, list[Any]]:
    """The number of each row's label, and the labels."""
    number, distinct = number_values(values)
    if n_rows is not None and len(number) != n_rows:
        raise InvalidSamples(f"{role} has {len(number):,} entries for {n_rows:,} rows; give one per row")
    missing = np.array([is_missing(label) for label in distinct], bool)[number]
    if missing.any():
        raise BadRows(f"{role} is missing in ", missing, "; fill it in, or drop the row")
    return number, distinct


class NamedColumns(NamedTuple):
    """The columns of a frame by name, the names of those with a role, and counts and ties if given apart."""

    table: Mapping[Any, Any]
    names: Mapping[str, Any]
    counts: Any
    tied: Any

    def name(self, role: str) -> Any:
        """The name of the column with this role, or the names; the role itself by default."""
        return self.names.get(role, role)

    def take(self, role: str) -> Any:
        """The column with this role."""
        return find_column(self.table, self.name(role), role)

    def cells(self, names: Sequence[Any], role: str) -> list[list[Any]]:
        """Several columns that have a role together, as lists."""
        return [as_list(find_column(self.table, name, role)) for name in names]

    def read(self, **values: Any) -> ParsedChoices:
        """The choices from these sequences."""
        return read_sequences(ChoiceData(counts=self.counts, tied=self.tied, **values))


def _names(columns: Mapping[str, Any], name: str) -> bool:
    """Whether a column already has a role."""
    return any(
        name in named if isinstance(named, list | tuple) else name == named for named in columns.values()
    )


def _read_counts(values: Any) -> Any:
    """A column of counts as numbers, even if a file stores them as text."""
    array = as_arrow(values)
    if array is None:
        return as_list(values)
    if str(array.type) not in ("string", "large_string"):
        return array.to_numpy(zero_copy_only=False)
    with suppress(InvalidSamples):
        return read_numbers(array, "count", len(array))  # pandas writes 3.0 beside gaps
    return np.array(array.to_pylist(), object)  # not counts; the check of counts rejects them


def _frame_pairs(frame: NamedColumns) -> ParsedChoices:
    return frame.read(winners=frame.take("winner"), losers=frame.take("loser"))


def _frame_crosstab(frame: NamedColumns) -> ParsedChoices:
    """A table of wins: one row per winner, one column per loser; the diagonal is ignored."""
    _refuse_counts(frame, "the columns of losers say how often each pair was decided")
    losers = list(cast("Sequence[Any]", frame.names["loser"]))
    if not losers:
        raise InvalidSamples("loser= lists no columns; name the column of each loser")
    items, (winner, loser) = number_columns({"winner": frame.take("winner"), "loser": losers})
    wins = np.zeros((len(winner), len(loser)))
    for column, (title, cells) in enumerate(zip(losers, frame.cells(losers, "loser"), strict=True)):
        against = [
            0.0 if is_missing(cell) or not played else _number(cell)
            for cell, played in _rows_of([cells, (winner != loser[column]).tolist()])
        ]
        bad = [wins_of is None or not 0 <= wins_of < np.inf for wins_of in against]
        if any(bad):
            fault = f"the number of wins against {show(title)} is {show(cells[bad.index(True)])} in "
            raise BadRows(fault, bad, "; give a number, at least 0")
        wins[:, column] = against
    totals = (2 * wins == wins.sum(axis=0)).all(axis=1) & wins.any(axis=1) & ~np.isin(winner, loser)
    if totals.any() and len(winner) > 2:
        raise BadRows("", totals, " is the sum of the other rows; leave out rows and columns of totals")
    row, column = np.nonzero(wins)
    if not len(row):
        raise InvalidSamples("the table has no wins; give at least one")
    pairs, times = PairChoices(winner[row], loser[column], np.full(len(row), FIRST)), wins[row, column]
    low, high = np.minimum(pairs.first, pairs.second), np.maximum(pairs.first, pairs.second)
    games = np.bincount(np.unique(pack_pairs(low, high), return_inverse=True)[1], times)
    total = next((total for total in (1, 100) if np.allclose(games, total, rtol=0.01)), None)
    if total and (2 * times % 1).any():
        raise InvalidSamples(
            f"the wins of any two items add up to {total}, so they are shares of games; give numbers of wins"
        )
    return pair_rows(items, pairs, times).restrict(np.ones(len(row), bool))


def _rows_of(columns: Sequence[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """The rows of columns of equal lengths."""
    if len(set(map(len, columns))) > 1:
        lengths = ", ".join(str(len(column)) for column in columns)
        raise InvalidSamples(f"the columns have different lengths ({lengths}); give one cell per row")
    return zip(*columns, strict=True)


def _frame_sets(frame: NamedColumns) -> ParsedChoices:
    return frame.read(winners=frame.take("winner"), choice_sets=_read_sets(frame))


def _read_sets(frame: NamedColumns) -> Any:
    """A column of lists, or one column per option, in which empty cells are no options."""
    named = frame.name("choice_set")
    if isinstance(named, list | tuple):
        cells = frame.cells(cast("Sequence[Any]", named), "choice_set")
        return [[cell for cell in row if not is_missing(cell)] for row in _rows_of(cells)]
    _refuse_texts(sets := frame.take("choice_set"), named, ", or name it as the loser if it is one")
    return sets


def _frame_best_worst(frame: NamedColumns) -> ParsedChoices:
    """The best and the worst of each set: a choice among all ordered pairs of its items."""
    shown = [as_list(cells) for cells in as_list(_read_sets(frame))]
    best, worst = as_list(frame.take("best")), as_list(frame.take("worst"))
    items, sets = number_choices(best, shown, frame.counts)
    check_items(items)
    worst_item = number_choices(worst, shown)[1].winner
    n_pairs = sets.lengths * (sets.lengths - 1)
    check_unrolled(int(n_pairs.sum()), len(sets.members), MOST_PAIRED)
    row = np.repeat(np.arange(len(best)), n_pairs)
    pair = np.arange(len(row)) - offsets_of(n_pairs)[row]  # within the set: by best item, then by worst
    best_index, worst_index = np.divmod(pair, sets.lengths[row] - 1)
    worst_index += worst_index >= best_index  # an item has no pair with itself
    start = offsets_of(sets.lengths)[row]
    members, against = sets.members[start + best_index], sets.members[start + worst_index]
    if (members == against).any():
        twice = np.unique(row[members == against])
        raise BadRows("the set in ", twice, " names an item twice; name each item once")
    counts = counts_of(frame.counts, len(best))
    if (sets.winner == worst_item).any():
        raise BadRows("best and worst are the same item in ", sets.winner == worst_item, "; drop such rows")
    chosen = ((members == sets.winner[row]) & (against == worst_item[row])) * counts[row]
    choices = Alternatives(n_pairs, np.arange(len(best)), chosen.astype(np.float64), row, members, against)
    return ParsedChoices(items, choices, counts)


def _refuse_counts(frame: NamedColumns, reason: str) -> None:
    if frame.counts is not None or frame.tied is not None:
        raise InvalidSamples(f"{reason}; leave counts and tied out")


def _frame_long(frame: NamedColumns) -> ParsedChoices:
    """One row for each alternative of a situation, in any order."""
    _refuse_counts(frame, "chosen says how often each alternative was chosen")
    number, _ = _read_labels(frame.take("situation"), "situation")
    if not len(number):
        raise InvalidSamples(NO_ROWS)
    chosen = _read_chosen(frame.take("chosen"), len(number))
    if not chosen.any():
        raise InvalidSamples("chosen is 0 in every row; mark the alternative that was chosen with 1")
    items, (members,) = number_columns({"alternative": frame.take("alternative")})
    if len(members) != len(number):
        raise InvalidSamples(f"{len(members)} alternatives for {len(number)} rows; give one per row")
    entry = np.argsort(number, kind="stable")
    lengths = np.bincount(number)
    chosen = chosen[entry]
    choices = Alternatives(lengths, entry[offsets_of(lengths)[:-1]], chosen, entry, members[entry])
    counts = np.bincount(np.repeat(np.arange(len(lengths)), lengths), chosen)
    return ParsedChoices(items, choices, counts.astype(np.float64))


def _read_chosen(values: Any, n_rows: int) -> Float64:
    """How often each alternative was chosen; yes and no count as 1 and 0."""
    chosen = read_amounts(values, "chosen", n_rows)
    bad = chosen < 0
    if bad.any():
        value = f"{chosen[np.argmax(bad)]:g}"
        raise BadRows(f"chosen is {value} in ", bad, "; give 1 or 0, or how often it was chosen")
    return chosen


def _refuse_texts(lists: Any, name: Any, otherwise: str = "") -> None:
    if holds_items(lists):
        raise InvalidSamples(
            f"the column {name!r} does not hold lists; split its strings first (in pandas: "
            f"frame[{name!r}].str.split('|'); on the command line: --split '|'){otherwise}"
        )


def _frame_outcomes(frame: NamedColumns) -> ParsedChoices:
    if frame.tied is not None:
        raise InvalidSamples("the outcome says which rows are tied; leave tied out")
    items, pair = number_columns({"first": frame.take("first"), "second": frame.take("second")})
    names = frame.name("first"), frame.name("second")
    dropped = _as_sequence(frame.names.get("drop", []))
    column: Any = frame.name("outcome")
    if isinstance(column, list | tuple):
        titles = list(cast("Sequence[Any]", column))
        if dropped:
            raise InvalidSamples("drop= is for an outcome in one column; leave drop out")
        cells = [find_column(frame.table, title, "outcome") for title in titles]
        outcome, reading = read_score_columns(cells, titles, names, len(pair[0]))
    else:
        outcome, reading = read_outcomes(
            frame.take("outcome"), items, (pair[0], pair[1]), names, dropped, column
        )
    return pair_rows(items, PairChoices(pair[0], pair[1], outcome), frame.counts)._replace(reading=reading)


def _frame_rankings(frame: NamedColumns) -> ParsedChoices:
    named = frame.name("ranking")
    if not isinstance(named, list | tuple):
        _refuse_texts(rankings := frame.take("ranking"), named)
        return frame.read(rankings=rankings)
    names = list(cast("Sequence[Any]", named))
    cells = frame.cells(names, "ranking")
    _refuse_ranks(names, cells)
    rankings: list[list[Any]] = []
    gaps = list[int]()
    for number, row in enumerate(_rows_of(cells)):
        filled = [not is_missing(cell) for cell in row]
        if not all(filled[: sum(filled)]):
            gaps.append(number)
        items = row[: sum(filled)]  # pandas turns whole numbers into floats if a column has gaps
        rankings.append(
            [int(item) if isinstance(item, float) and item.is_integer() else item for item in items]
        )
    if gaps:
        raise BadRows("", gaps, " has a gap before its end; close it, or drop the row", noun="ranking")
    return frame.read(rankings=rankings)


def _refuse_ranks(names: list[Any], cells: list[list[Any]]) -> None:
    """Reject numbers in named columns, which may be ranks; in columns named by place they are items."""
    texts = [RANK_PREFIX.sub("", str(name)) for name in names]
    if any(texts == [str(first + k) for k in range(len(texts))] for first in (0, 1)):
        return
    if all(is_missing(cell) or _number(cell) is not None for column in cells for cell in column):
        columns = ", ".join(map(show, names[:3])) + ", …" * (len(names) > 3)
        raise InvalidSamples(
            f"the columns of ranking= hold numbers: if these are the ranks of {columns}, use ranks= instead "
            "of ranking= (on the command line: --ranks); if they are items, the best first, give lists: "
            "rankings=frame[columns].to_numpy().tolist()"
        )


def _frame_ranks(frame: NamedColumns) -> ParsedChoices:
    """Rankings from columns of ranks, one per item: 1 is best, equal ranks are ties, empty cells unranked."""
    names: Any = frame.names["ranks"]
    if not isinstance(names, list | tuple) or len(cast("Sequence[Any]", names)) < 2:
        raise InvalidSamples(
            f"ranks={show(frame.names['ranks'])} names fewer than two items; give the columns of all, or, if "
            "the table has one row per item of a ranking, also situation= and alternative="
        )
    items = list(cast("Sequence[Any]", names))
    cells = _rows_of(frame.cells(items, "ranks"))
    entries = [
        (number, item, cell)
        for number, row in enumerate(cells)
        for item, cell in zip(items, row, strict=True)
    ]
    rankings = _rank_entries(entries, [number for number, _, _ in entries])
    return frame.read(rankings=rankings)


def _frame_entries(frame: NamedColumns) -> ParsedChoices:
    """Rankings from one row per item of a ranking: ``situation`` says which, and ``ranks`` has the rank."""
    _refuse_counts(frame, "each ranking was made once, and equal ranks are ties")
    number, _ = _read_labels(frame.take("situation"), "situation")
    items, ranks = as_list(frame.take("alternative")), as_list(frame.take("ranks"))
    missing = [is_missing(item) for item in items]
    if any(missing):
        raise BadRows("the alternative in ", missing, " is missing; fill it in, or drop the row")
    entries = list(_rows_of([number.tolist(), items, ranks]))
    rankings = _rank_entries(entries, range(len(entries)))
    ranked = [index for index, ranking in enumerate(rankings) if ranking]
    first_row = np.unique(number, return_index=True)[1]
    try:
        return frame.read(rankings=[rankings[index] for index in ranked])
    except BadRows as error:  # of rankings, which are named by their first row
        rows = first_row[np.array(ranked)[error.rows]]
        raise BadRows("the ranking of ", rows, error.after) from error


def _rank_entries(entries: Sequence[tuple[int, Any, Any]], rows: Sequence[int]) -> list[list[list[Any]]]:
    """Rankings from entries (number of the ranking, item, rank), which come from these ``rows``."""
    ranks: list[dict[float, list[Any]]] = [
        {} for _ in range(1 + max((entry[0] for entry in entries), default=-1))
    ]
    faults = dict[int, str]()
    for row, (number, item, cell) in zip(rows, entries, strict=True):
        rank = None if is_missing(cell) else _number(cell)
        if rank is not None and rank >= 1:
            ranks[number].setdefault(rank, []).append(item)
        elif not is_missing(cell):
            faults.setdefault(row, f"{show(item)} the rank {show(cell)}")
    if faults:
        raise BadRows(
            "",
            list(faults),
            f" gives {next(iter(faults.values()))}; a rank is a number, at least 1 (1 is best): "
            "leave the cell empty for an item that was not ranked, which compares it with none, or number it "
            "behind the others",
        )
    return [[ranked[rank] for rank in sorted(ranked)] for ranked in ranks]


def _number(cell: Any) -> float | None:
    try:
        return None if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError):
        return None


FORMS = {
    _frame_rankings: {"ranking"},
    _frame_ranks: {"ranks"},
    _frame_outcomes: {"first", "second", "outcome"},
    _frame_pairs: {"winner", "loser"},
    _frame_crosstab: {"winner", "loser"},
    _frame_sets: {"winner", "choice_set"},
    _frame_best_worst: {"best", "worst", "choice_set"},
    _frame_long: {"situation", "alternative", "chosen"},
    _frame_entries: {"situation", "alternative", "ranks"},
}
"""The reader of a frame → the columns that it needs."""

ARENAS: list[dict[str, Any]] = [
    {"first": "model_a", "second": "model_b", "outcome": "winner"},
    {"first": "model_a", "second": "model_b", "outcome": ["winner_model_a", "winner_model_b", "winner_tie"]},
    {"first": "White", "second": "Black", "outcome": "Result"},
]
"""The columns that arenas of language models publish, and those of chess games; they need not be named."""

OPTIONAL: dict[Any, set[str]] = {
    _frame_outcomes: {"drop", "count"},
    _frame_long: set(),
    _frame_entries: set(),
    _frame_crosstab: set(),
}
"""The reader of a frame → what else it takes; a count, where nothing is said here."""


def _find_form(columns: Mapping[str, Any], table: Mapping[Any, Any]) -> Callable[..., ParsedChoices]:
    """The form that fits most of the named columns, otherwise the form of the usual names."""
    form = max(
        FORMS,
        key=lambda form: (len(FORMS[form] & columns.keys()), FORMS[form] <= columns.keys() | table.keys()),
    )
    if form is _frame_pairs and isinstance(columns.get("loser"), list | tuple):
        form = _frame_crosstab
    if FORMS[form] & columns.keys():
        surplus = [name for name in columns if name not in FORMS[form] | OPTIONAL.get(form, {"count"})]
        if surplus:
            needed = " and ".join(f"{name}=" for name in sorted(FORMS[form]))
            raise InvalidSamples(f"{surplus[0]}= cannot be combined with {needed}; leave one out")
        return form
    for form in (_frame_best_worst, _frame_long, _frame_pairs, _frame_sets, _frame_outcomes, _frame_rankings):
        if table.keys() >= FORMS[form]:
            return form
    names = ", ".join(show(name) for name in list(table)[:12])
    raise InvalidSamples(
        f"the columns {names or '(none)'} do not say which one is the winner; name the columns by winner= "
        "and loser=, by first=, second= and outcome=, by ranking= (items, the best first), by ranks= (one "
        "column of ranks for each item), or by situation=, alternative= and chosen="
    )
