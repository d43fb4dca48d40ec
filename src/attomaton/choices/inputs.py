"""Read choices from a file, a frame with named columns, or sequences, by :func:`parse_choices`."""

# A role is what a column is used for, such as "winner"; `roles` maps each role to a column or its name.

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
from attomaton.choices.covariates import CONTESTANTS, COVARIATES, Covariates, read_covariates
from attomaton.choices.forms import ARENAS, CROSSTAB, PAIRS, RANK_ENTRIES, Form, NamedColumns, find_form
from attomaton.choices.numbering import BadRows, is_missing
from attomaton.choices.outcomes import TIES
from attomaton.choices.parsed import PairChoices, ParsedChoices
from attomaton.choices.sequences import ChoiceData, read_sequences
from attomaton.choices.shapes import list_alternatives, pair_scores, read_games, read_matrix
from attomaton.corpora.budgets import STANDARD_INPUT
from attomaton.corpora.readers.batches import Reading
from attomaton.corpora.readers.files import File, keep_standard_input, naming, suffix_of
from attomaton.corpora.readers.sources import TABLE_READERS


class FileColumns(dict[Any, Any]):
    """The columns of a file by name; ``locate(row)`` says where a row is, such as ``line 5 of a.csv``."""

    def __init__(self, columns: Mapping[Any, Any], locate: Callable[[int], str], skip_bad: bool) -> None:
        super().__init__(columns)
        self.locate = locate
        self.skip_bad = skip_bad  # whether to leave out rows that cannot be read


def read_columns(path: str | PathLike[str], reading: Reading | None = None) -> FileColumns:
    """Read a file, or standard input (``"-"``); cells of CSV and TSV files stay text."""
    source = check_path(fspath(path), "the file of choices")
    reading = reading or Reading()
    file = keep_standard_input() if source == STANDARD_INPUT else File(source, source)
    suffix = suffix_of(file, reading) or (".csv" if source == STANDARD_INPUT else "")
    if suffix == ".pgn":
        with naming(source), file.open() as raw:
            games, starts = read_games(map(_decode_line, raw))
        return FileColumns(
            games, lambda row: f"the game that begins in line {starts[row]} of {source}", reading.skip_bad
        )
    if suffix not in TABLE_READERS:
        raise UnreadableSource(
            f"the format of {source!r} is not supported; give a file whose name ends in "
            f"{', '.join(TABLE_READERS)} or .pgn (save a spreadsheet as .csv)"
        )
    reader = TABLE_READERS[suffix](file, reading)
    with naming(source):
        return FileColumns(columns_of(reader.table()), reader.locate, reading.skip_bad)


# A line of a PGN file: UTF-8 as most programs write it, or ISO 8859-1 as the standard says.
def _decode_line(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("iso-8859-1")


def split_column(columns: FileColumns, name: str | None, separator: str) -> FileColumns:
    """Split the texts of a column into lists, without whitespace around the entries."""
    if name is None or not separator.strip():
        raise UnsupportedOption(
            "split needs a column of choice sets or rankings; name the column and the separator"
        )
    texts = as_list(find_column(columns, name, "choice_set"))
    for row, text in enumerate(texts):
        if not isinstance(text, str) and not is_missing(text):
            line = columns.locate(row)
            raise InvalidSamples(
                f"{line}: the cell in {name!r} is not text; leave split out, or correct the cell"
            )
    lists = [[] if is_missing(text) else list(map(str.strip, text.split(separator))) for text in texts]
    return FileColumns({**columns, name: lists}, columns.locate, columns.skip_bad)


class Columns(TypedDict, total=False):
    """Names of the columns of a frame, or the columns themselves; :func:`fit_choices` describes each."""

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


def parse_choices(data: ChoiceData, columns: Mapping[str, Any]) -> tuple[ParsedChoices, Covariates]:
    """Read the choices of any input, and their features and clusters; ``columns`` are :class:`Columns`."""
    unknown = [role for role in columns if role not in Columns.__annotations__]
    if unknown:
        known = ", ".join(Columns.__annotations__)
        raise UnsupportedOption(f"unknown option {unknown[0]!r}; use one of {known}")
    roles = {role: named for role, named in columns.items() if named is not None}
    most_per_pair = roles.pop("most_per_pair", None)
    covariates = {role: roles.pop(role) for role in COVARIATES if role in roles}
    parsed, described = _parse_source(data, roles, covariates)
    return (parsed if most_per_pair is None else _limit_pairs(parsed, most_per_pair)), described


# Lower the counts of pairs that were compared more often than ``most_per_pair``.
def _limit_pairs(parsed: ParsedChoices, most_per_pair: Any) -> ParsedChoices:
    most = real_number(most_per_pair, "most_per_pair", above=0)
    if not isinstance(parsed.choices, PairChoices):
        raise UnsupportedOption("most_per_pair= needs pairs; leave most_per_pair out")
    pair = parsed.choices.number_pairs()
    times = np.bincount(pair, parsed.counts)[pair]  # the count of the pair of each row
    if times.max() <= most:
        return parsed
    return parsed._replace(counts=parsed.counts * np.minimum(1.0, most / times))


# Read choices from a file, a frame, a matrix of wins, separate columns, or other sequences.
def _parse_source(
    data: ChoiceData, roles: Mapping[str, Any], covariates: Mapping[str, Any]
) -> tuple[ParsedChoices, Covariates]:
    # The first argument may be a file, a frame, a matrix or a sequence: `source` is whatever it is.
    source: Any = data.winners if data.rankings is None else data.rankings
    if isinstance(source, str | PathLike) and data.choice_sets is None and data.losers is None:
        source = read_columns(cast("str | PathLike[str]", source))
    if isinstance(source, FileColumns):
        return _read_file(data, source, roles, covariates)

    columns = {role: named for role, named in roles.items() if role != "drop"}
    may_be_matrix = source is data.winners and not roles and data.losers is None
    matrix = read_matrix(source) if may_be_matrix else None
    if source is None and columns and not any(isinstance(column, str) for column in columns.values()):
        # Separate columns become a table, in which each column is named after its role.
        source = columns
        roles = {role: roles[role] if role == "drop" else role for role in roles}
    elif matrix is not None:
        source, roles = matrix
    if is_frame(cast("Any", source)) and not (source is data.rankings and isinstance(source, list)):
        return _read_frame(data, columns_of(source), roles, covariates)

    if roles:
        raise InvalidSamples(
            f"{next(iter(roles))}= names a column, but the data are not a frame; give a frame, or give "
            "sequences without names of columns: fit_choices(winners, losers=losers)"
        )
    parsed = read_sequences(data)
    described = read_covariates(parsed, covariates, {}, ("winner", "loser")) if covariates else Covariates({})
    return _drop_uncounted(parsed, data.counts), described


# The choices with a count above 0, and their items; ``counts`` has one count for each row.
def _drop_uncounted(parsed: ParsedChoices, counts: Any) -> ParsedChoices:
    if counts is None or parsed.counts.all():
        return parsed
    return parsed.restrict(np.asarray(counts) > 0)


# Read the choices of a file; a bad row raises an error with its place, or is skipped.
def _read_file(
    data: ChoiceData, file: FileColumns, roles: Mapping[str, Any], covariates: Mapping[str, Any]
) -> tuple[ParsedChoices, Covariates]:
    n_rows = max((len(column) for column in file.values() if column is not None), default=0)
    rows = np.arange(n_rows)  # the rows of the file that are left
    first_fault = ""
    table: Mapping[Any, Any] = file
    while True:  # each round leaves out the rows with one fault, until none is left
        try:
            result = _read_frame(data, table, roles, covariates)
            break
        except BadRows as error:
            message = error.locate(file.locate(int(rows[error.rows[0]])))
            good = np.ones(len(rows), bool)
            good[error.rows] = False
            if not file.skip_bad or not good.any():
                raise InvalidSamples(message) from error
            rows = rows[good]
            first_fault = first_fault or message.partition("; ")[0]  # without the remedy
            table = {name: select_rows(column, good) for name, column in table.items()}
    if len(rows) < n_rows:
        warnings.warn(SkippedDocuments(n_rows - len(rows), first_fault, "row"), stacklevel=2)
    return result


def select_rows(column: Any, rows: Bool) -> Any:
    """Select rows of a column by a mask; a column is None if two columns of the file have this name."""
    if column is None:
        return None
    if isinstance(column, list):
        return [cell for cell, taken in zip(cast("list[Any]", column), rows.tolist(), strict=True) if taken]
    return column.take(np.flatnonzero(rows))


# Read a table with named columns: find its form, then the choices, then what describes them.
def _read_frame(
    data: ChoiceData, table: Mapping[Any, Any], roles: Mapping[str, Any], covariates: Mapping[str, Any]
) -> tuple[ParsedChoices, Covariates]:
    if data.choice_sets is not None or data.losers is not None:
        raise InvalidSamples(
            "choice_sets= and losers= cannot be combined with a frame; name the columns of the frame: "
            'fit_choices(frame, winner="…", loser="…")'
        )
    if data.rankings is not None and not roles:
        roles = {"ranking": list(table)}
    named = _rewrite(NamedColumns(table, roles, covariates, data.counts, data.tied))
    form = find_form(named.roles, named.table)
    named = _find_counts_and_ties(named, form)
    parsed = form.read(named)

    if covariates and form in (CROSSTAB, RANK_ENTRIES):
        needed = "pair" if form is CROSSTAB else "ranking"
        raise UnsupportedOption(
            f"{next(iter(covariates))}= needs a table with one row for each {needed}; give such a table, or "
            f"leave {next(iter(covariates))} out"
        )
    first, second = next((pair for pair in CONTESTANTS if form.needs >= set(pair)), ("", ""))
    contestants = named.name(first), named.name(second)
    described = read_covariates(parsed, named.covariates, named.table, contestants)
    parsed = _drop_uncounted(parsed, named.counts)
    if "drop" in named.roles:
        number, distinct = number_values(named.take("outcome"))
        dropped = as_sequence(named.roles["drop"])
        parsed = parsed.restrict(np.array([value not in dropped for value in distinct], bool)[number])
    return parsed, described


# Name the columns of an arena; rewrite scores as pairs, and wide surveys as alternatives.
def _rewrite(named: NamedColumns) -> NamedColumns:
    table, roles = named.table, named.roles
    if roles.keys() <= {"drop", "count"} and "loser" not in table:
        for arena in ARENAS:
            if table.keys() >= {name for names in arena.values() for name in as_sequence(names)}:
                return named._replace(roles={**roles, **arena})
    if "scores" in roles:
        return pair_scores(named)
    return list_alternatives(named) if isinstance(roles.get("alternative"), list | tuple) else named


# Find the columns of counts and ties, by their options or by their usual names.
def _find_counts_and_ties(named: NamedColumns, form: Form) -> NamedColumns:
    used = {**named.roles, **named.covariates}
    counts, tied = named.counts, named.tied
    count_name = named.roles.get("count", counts if isinstance(counts, str) else None)
    if count_name is None and counts is None and "count" in form.takes and "count" in named.table:
        count_name = None if _has_role(used, "count") else "count"
    if count_name is not None:
        counts = _read_counts(find_column(named.table, count_name, "count"))
    if tied is None and form is PAIRS:
        tied = next((name for name in TIES if name in named.table and not _has_role(used, name)), None)
    if isinstance(tied, str):
        tied = find_column(named.table, tied, "tied")
    return named._replace(counts=counts, tied=tied)


# Whether the column with this name has a role.
def _has_role(roles: Mapping[str, Any], name: str) -> bool:
    return any(name in as_sequence(named) for named in roles.values())


# A column of counts as numbers, unchecked; text of numbers counts as numbers.
def _read_counts(values: Any) -> Any:
    array = as_arrow(values)
    if array is None:
        return as_list(values)
    if str(array.type) not in ("string", "large_string"):
        return array.to_numpy(zero_copy_only=False)
    with suppress(InvalidSamples):
        return read_numbers(array, "count", len(array))
    return np.array(array.to_pylist(), object)  # not numbers: `counts_of` rejects them
