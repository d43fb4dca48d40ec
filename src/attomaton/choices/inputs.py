"""Choices as users supply them: a frame with named columns, a file of one, or sequences."""

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike, fspath
from typing import Any, TypedDict, cast

import numpy as np

from attomaton.base.errors import InvalidSamples, SkippedDocuments, UnreadableSource, UnsupportedOption
from attomaton.base.options import check_path, real_number
from attomaton.base.tables import Bool
from attomaton.choices.columns import (
    as_arrow,
    as_list,
    as_sequence,
    columns_of,
    find_column,
    is_frame,
    number_values,
    read_numbers,
)
from attomaton.choices.forms import ARENAS, CROSSTAB, PAIRS, RANK_ENTRIES, Form, NamedColumns, find_form
from attomaton.choices.numbering import BadRows, is_missing
from attomaton.choices.outcomes import TIES
from attomaton.choices.sequences import ChoiceData, PairChoices, ParsedChoices, read_sequences
from attomaton.choices.shapes import list_alternatives, pair_scores, read_games, read_matrix
from attomaton.choices.side import CONTESTANTS, ROLES_OF_SIDE, Side, read_side
from attomaton.corpora.budgets import STANDARD_INPUT
from attomaton.corpora.readers.batches import Reading
from attomaton.corpora.readers.files import File, keep_standard_input, naming, suffix_of
from attomaton.corpora.readers.sources import TABLE_READERS


class FileColumns(dict[Any, Any]):
    """The columns of a file by name, the name of each row in it, and whether to skip what cannot be read."""

    def __init__(self, columns: Mapping[Any, Any], locate: Callable[[int], str], skip_bad: bool) -> None:
        super().__init__(columns)
        self.locate, self.skip_bad = locate, skip_bad


def read_columns(path: str | PathLike[str], reading: Reading | None = None) -> FileColumns:
    """The columns of a file by name; ``"-"`` is standard input. Cells of CSV and TSV stay text: ``"007"``."""
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


def parse_choices(data: ChoiceData, columns: Mapping[str, Any]) -> tuple[ParsedChoices, Side]:
    """The choices, supplied in any form, and what describes them further."""
    unknown = [role for role in columns if role not in Columns.__annotations__]
    if unknown:
        raise UnsupportedOption(
            f"unknown option {unknown[0]!r}; columns are named by {', '.join(Columns.__annotations__)}"
        )
    roles = {role: named for role, named in columns.items() if named is not None}
    most = roles.pop("most_per_pair", None)
    side = {role: roles.pop(role) for role in ROLES_OF_SIDE if role in roles}
    parsed, side_of_rows = _parse_source(data, roles, side)
    return (parsed if most is None else _limit_pairs(parsed, most)), side_of_rows


def _limit_pairs(parsed: ParsedChoices, most: Any) -> ParsedChoices:
    """Weights with which no pair of items counts as more than ``most`` comparisons."""
    most = real_number(most, "most_per_pair", above=0)
    if not isinstance(parsed.choices, PairChoices):
        raise UnsupportedOption("most_per_pair= is for pairs; leave it out")
    pair = parsed.choices.number_pairs()
    times = np.bincount(pair, parsed.counts)[pair]
    if times.max() <= most:
        return parsed
    return parsed._replace(counts=parsed.counts * np.minimum(1.0, most / times))


def _parse_source(
    data: ChoiceData, roles: Mapping[str, Any], side: Mapping[str, Any]
) -> tuple[ParsedChoices, Side]:
    """The choices of a file, of a frame, or of sequences, and what describes them further."""
    source: Any = data.winners if data.rankings is None else data.rankings
    if isinstance(source, str | PathLike) and data.choice_sets is None and data.losers is None:
        source = read_columns(cast("str | PathLike[str]", source))
    if isinstance(source, FileColumns):
        return _read_file(data, source, roles, side)

    columns = {role: named for role, named in roles.items() if role != "drop"}
    matrix = read_matrix(source) if source is data.winners and not roles and data.losers is None else None
    if source is None and columns and not any(isinstance(column, str) for column in columns.values()):
        source, roles = columns, {role: roles[role] if role == "drop" else role for role in roles}
    elif matrix is not None:
        source, roles = matrix
    if is_frame(cast("Any", source)) and not (source is data.rankings and isinstance(source, list)):
        return _read_frame(data, columns_of(source), roles, side)

    if roles:
        raise InvalidSamples(
            f"{next(iter(roles))}= names a column, but the data are not a frame; give a frame first, or "
            "sequences: fit_choices(winners, losers=losers)"
        )
    parsed = read_sequences(data)
    side_of_rows = read_side(parsed, side, {}, ("winner", "loser")) if side else Side({})
    return _leave_out_unmade(parsed, data.counts), side_of_rows


def _leave_out_unmade(parsed: ParsedChoices, counts: Any) -> ParsedChoices:
    if counts is None or parsed.counts.all():
        return parsed
    return parsed.restrict(np.asarray(counts) > 0)


def _read_file(
    data: ChoiceData, file: FileColumns, roles: Mapping[str, Any], side: Mapping[str, Any]
) -> tuple[ParsedChoices, Side]:
    """The choices of a file: rows that cannot be read are named as in the file, or skipped and counted."""
    n_rows = max(map(_length, file.values()), default=0)
    rows, first_fault = np.arange(n_rows), ""
    remaining: Mapping[Any, Any] = file
    while True:
        try:
            result = _read_frame(data, remaining, roles, side)
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
    if len(rows) < n_rows:
        warnings.warn(SkippedDocuments(n_rows - len(rows), first_fault, "row"), stacklevel=2)
    return result


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
    data: ChoiceData, table: Mapping[Any, Any], roles: Mapping[str, Any], side: Mapping[str, Any]
) -> tuple[ParsedChoices, Side]:
    """The choices of a frame, and what describes them further."""
    if data.choice_sets is not None or data.losers is not None:
        raise InvalidSamples(
            'give a frame alone, with the names of its columns: fit_choices(frame, winner="…", loser="…")'
        )
    if data.rankings is not None and not roles:
        roles = {"ranking": list(table)}
    table, roles, side = _rewrite(table, roles, side)
    form = find_form(roles, table)
    counts, tied = _find_counts_and_ties(data, form, table, roles, side)
    parsed = form.read(NamedColumns(table, roles, counts, tied))

    if side and form in (CROSSTAB, RANK_ENTRIES):
        needed = "pair" if form is CROSSTAB else "ranking"
        raise UnsupportedOption(
            f"{next(iter(side))}= needs a table with one row for each {needed}; leave it out, or give such a "
            "table"
        )
    contestants = next((pair for pair in CONTESTANTS if form.needs >= set(pair)), ("", ""))
    names = roles.get(contestants[0], contestants[0]), roles.get(contestants[1], contestants[1])
    side_of_rows = read_side(parsed, side, table, names)
    parsed = _leave_out_unmade(parsed, counts)
    if "drop" in roles:
        number, distinct = number_values(find_column(table, roles.get("outcome", "outcome"), "outcome"))
        dropped = as_sequence(roles["drop"])
        parsed = parsed.restrict(np.array([value not in dropped for value in distinct], bool)[number])
    return parsed, side_of_rows


def _rewrite(
    table: Mapping[Any, Any], roles: Mapping[str, Any], side: Mapping[str, Any]
) -> tuple[Mapping[Any, Any], Mapping[str, Any], Mapping[str, Any]]:
    """The columns of arenas named, and scores and wide surveys as pairs and alternatives."""
    if roles.keys() <= {"drop", "count"} and "loser" not in table:
        for arena in ARENAS:
            if table.keys() >= {name for names in arena.values() for name in as_sequence(names)}:
                roles = {**roles, **arena}
                break
    if "scores" in roles:
        return pair_scores(table, roles, side)
    if isinstance(roles.get("alternative"), list | tuple):
        return list_alternatives(table, roles, side)
    return table, roles, side


def _find_counts_and_ties(
    data: ChoiceData, form: Form, table: Mapping[Any, Any], roles: Mapping[str, Any], side: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Counts and ties as given, or from a column: a named column, or one of the usual name without a role."""
    used = {**roles, **side}
    counts, tied = data.counts, data.tied
    named = roles.get("count", counts if isinstance(counts, str) else None)
    if named is None and counts is None and "count" in form.takes and "count" in table:
        named = None if _has_role(used, "count") else "count"
    if named is not None:
        counts = _read_counts(find_column(table, named, "count"))
    if tied is None and form is PAIRS:
        tied = next((name for name in TIES if name in table and not _has_role(used, name)), None)
    if isinstance(tied, str):
        tied = find_column(table, tied, "tied")
    return counts, tied


def _has_role(roles: Mapping[str, Any], name: str) -> bool:
    """Whether a column already has a role."""
    return any(
        name in named if isinstance(named, list | tuple) else name == named for named in roles.values()
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
