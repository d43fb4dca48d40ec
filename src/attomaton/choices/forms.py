"""Read tables of choices: pairs, wins, choice sets, rankings, or one row per alternative."""

# ``find_form`` chooses the form of a table, of those that are listed above it; the reader of the form
# makes ``ParsedChoices`` of the table. A *role* is what a column contains, such as ``winner``.

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple, cast

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.ragged import offsets_of
from attomaton.choices.columns import as_list, as_number, as_sequence, find_column, number_columns
from attomaton.choices.covariates import number_labels
from attomaton.choices.numbering import BadRows, check_items, check_unrolled, counts_of, is_missing
from attomaton.choices.outcomes import FIRST, read_amounts, read_outcomes, read_score_columns
from attomaton.choices.parsed import NO_ROWS, Alternatives, PairChoices, ParsedChoices, pair_rows
from attomaton.choices.sequences import ChoiceData, holds_items, number_sets, read_sequences

MOST_PAIRED = 1 << 16  # pairs of best and worst that are always allowed

# The text before the number in the name of a column of positions, such as `rank1`.
RANK_PREFIX = re.compile(r"^(rank|place|position|pos|p)[\s_.]*(?=\d)", re.IGNORECASE)


class NamedColumns(NamedTuple):
    """A table, with the options that name its columns."""

    table: Mapping[Any, Any]  # name → column
    roles: Mapping[str, Any]  # role → name, names or values
    covariates: Mapping[str, Any]  # option such as ``features`` → name, names or values
    counts: Any = None
    tied: Any = None

    def name(self, role: str) -> Any:
        """The name of the column with this role (the role itself by default)."""
        return self.roles.get(role, role)

    def take(self, role: str) -> Any:
        return find_column(self.table, self.name(role), role)

    def cells(self, names: Sequence[Any], role: str) -> list[list[Any]]:
        return [as_list(find_column(self.table, name, role)) for name in names]

    def read(self, **sequences: Any) -> ParsedChoices:
        return read_sequences(ChoiceData(counts=self.counts, tied=self.tied, **sequences))


class Form(NamedTuple):
    """A form of table: its reader, and the roles of columns that it needs or allows."""

    read: Callable[[NamedColumns], ParsedChoices]
    needs: Set[str]
    takes: Set[str] = frozenset({"count"})


def _read_pairs(frame: NamedColumns) -> ParsedChoices:
    return frame.read(winners=frame.take("winner"), losers=frame.take("loser"))


# A table of wins: one row per winner, one column per loser; the diagonal is ignored.
def _read_crosstab(frame: NamedColumns) -> ParsedChoices:
    _refuse_counts(frame, "a table of wins already contains counts")
    losers = list(cast("Sequence[Any]", frame.roles["loser"]))
    if not losers:
        raise InvalidSamples("loser= is an empty list; name one column for each loser")
    items, (winner, loser) = number_columns({"winner": frame.take("winner"), "loser": losers})
    wins = np.zeros((len(winner), len(loser)))
    for column, (title, cells) in enumerate(zip(losers, frame.cells(losers, "loser"), strict=True)):
        is_other = (winner != loser[column]).tolist()
        wins[:, column] = _read_wins(title, cells, is_other)

    # a row of totals is half the sum of all rows, and its name is no loser
    totals = (2 * wins == wins.sum(axis=0)).all(axis=1) & wins.any(axis=1) & ~np.isin(winner, loser)
    if totals.any() and len(winner) > 2:
        raise BadRows("", totals, " is the sum of the other rows; remove rows and columns of totals")
    row, column = np.nonzero(wins)
    if not len(row):
        raise InvalidSamples("the table contains no wins; check its numbers")
    times = wins[row, column]
    pairs = PairChoices(winner[row], loser[column], np.full(len(row), FIRST))
    games = np.bincount(pairs.number_pairs(), times)
    # shares and per cents add up to 1 and 100, but so may wins, and halves may be ties
    total = next((total for total in (1, 100) if np.allclose(games, total, rtol=0.01)), None)
    if total and (2 * times % 1).any():
        raise InvalidSamples(
            f"the wins of each pair add up to {total}, so they look like shares; give numbers of wins instead"
        )
    # all rows: drops items that have no wins and no losses
    return pair_rows(items, pairs, times).restrict(np.ones(len(row), bool))


# The wins of each row's item against the item ``title``; an empty cell is 0, and so is the diagonal.
def _read_wins(title: Any, cells: list[Any], is_other: list[bool]) -> list[float]:
    rows = _rows_of([cells, is_other])
    wins = [as_number(cell) if other and not is_missing(cell) else 0.0 for cell, other in rows]
    bad = [not 0 <= number < np.inf for number in wins]
    if any(bad):
        cell = cells[bad.index(True)]
        fault = f"the number of wins against {show(title)} is {show(cell)} in "
        raise BadRows(fault, bad, "; write a number of at least 0")
    return wins


def _rows_of(columns: Sequence[list[Any]]) -> Iterator[tuple[Any, ...]]:
    # the rows of columns, which must have one length
    if len(set(map(len, columns))) > 1:
        lengths = ", ".join(str(len(column)) for column in columns)
        raise InvalidSamples(f"the columns have different lengths ({lengths}); give columns of equal length")
    return zip(*columns, strict=True)


def _read_choice_sets(frame: NamedColumns) -> ParsedChoices:
    return frame.read(winners=frame.take("winner"), choice_sets=_read_sets(frame))


def _read_sets(frame: NamedColumns) -> Any:
    # the choice sets: one column of lists, or the cells of several columns that are not empty
    named = frame.name("choice_set")
    if isinstance(named, list | tuple):
        cells = frame.cells(cast("Sequence[Any]", named), "choice_set")
        return [[cell for cell in row if not is_missing(cell)] for row in _rows_of(cells)]
    sets = frame.take("choice_set")
    _refuse_texts(sets, named, "; if it contains one loser per row, name it with loser=")
    return sets


# Read each best and worst choice as one choice among all ordered pairs of items.
def _read_best_worst(frame: NamedColumns) -> ParsedChoices:
    shown = [as_list(cells) for cells in as_list(_read_sets(frame))]
    best, worst = as_list(frame.take("best")), as_list(frame.take("worst"))
    items, sets = number_sets(best, shown, frame.counts)
    check_items(items)
    missing = [row for row, item in enumerate(worst) if is_missing(item)]
    if missing:
        raise BadRows("the worst item in ", missing, " is missing; write the item, or drop the row")
    worst_item = number_sets(worst, shown)[1].winner

    # a set of m items has m (m − 1) ordered pairs: in pair k the best item is at position k // (m − 1) of the
    # set, and the worst is at position k % (m − 1) among the other items
    n_pairs = sets.lengths * (sets.lengths - 1)
    check_unrolled(int(n_pairs.sum()), len(sets.members), MOST_PAIRED)
    row = np.repeat(np.arange(len(best)), n_pairs)
    pair = np.arange(len(row)) - offsets_of(n_pairs)[row]  # k
    best_position, worst_position = np.divmod(pair, sets.lengths[row] - 1)
    worst_position += worst_position >= best_position  # position in the whole set
    start = offsets_of(sets.lengths)[row]
    members, against = sets.members[start + best_position], sets.members[start + worst_position]
    if (members == against).any():
        rows = np.unique(row[members == against])
        raise BadRows("the set in ", rows, " contains an item twice; list each item once")
    counts = counts_of(frame.counts, len(best))
    if (sets.winner == worst_item).any():
        raise BadRows("best and worst are the same item in ", sets.winner == worst_item, "; drop such rows")
    chosen = ((members == sets.winner[row]) & (against == worst_item[row])) * counts[row]
    choices = Alternatives(n_pairs, np.arange(len(best)), chosen.astype(np.float64), row, members, against)
    return ParsedChoices(items, choices, counts)


def _refuse_counts(frame: NamedColumns, reason: str) -> None:
    if frame.counts is not None or frame.tied is not None:
        raise InvalidSamples(f"{reason}; leave counts and tied out")


# Read one row per alternative, in any order.
def _read_long(frame: NamedColumns) -> ParsedChoices:
    _refuse_counts(frame, "the column of chosen= already contains counts")
    situation, _ = number_labels(frame.take("situation"), "situation")
    if not len(situation):
        raise InvalidSamples(NO_ROWS)
    chosen = read_amounts(frame.take("chosen"), "chosen", len(situation))
    if (chosen < 0).any():
        fault = f"chosen is negative ({chosen[np.argmax(chosen < 0)]:g}) in "
        raise BadRows(fault, chosen < 0, "; write 1, 0 or a count")
    if not chosen.any():
        raise InvalidSamples("chosen is 0 in every row; write 1 for the alternative that was chosen")
    items, (members,) = number_columns({"alternative": frame.take("alternative")})
    if len(members) != len(situation):
        raise InvalidSamples(
            f"there are {len(members)} alternatives but {len(situation)} rows; give one alternative per row"
        )
    entry = np.argsort(situation, kind="stable")  # rows by situation
    lengths = np.bincount(situation)
    first_rows = entry[offsets_of(lengths)[:-1]]
    choices = Alternatives(lengths, first_rows, chosen[entry], entry, members[entry])
    return ParsedChoices(items, choices, np.bincount(situation[entry], chosen[entry]).astype(np.float64))


def _refuse_texts(lists: Any, name: Any, otherwise: str = "") -> None:
    # reject texts in place of lists; ``otherwise`` ends the message
    if holds_items(lists):
        raise InvalidSamples(
            f"the column {name!r} contains no lists; split its strings (in pandas: "
            f"frame[{name!r}].str.split('|'); on the command line: --split '|'){otherwise}"
        )


def _read_outcome_rows(frame: NamedColumns) -> ParsedChoices:
    # read pairs with an outcome in one column, or with scores in several
    if frame.tied is not None:
        raise InvalidSamples("the outcome already marks ties; leave tied out")
    items, (first, second) = number_columns({"first": frame.take("first"), "second": frame.take("second")})
    names = frame.name("first"), frame.name("second")
    dropped = as_sequence(frame.roles.get("drop", []))
    column: Any = frame.name("outcome")
    if isinstance(column, list | tuple):
        titles = list(cast("Sequence[Any]", column))
        if dropped:
            raise InvalidSamples("drop= needs an outcome in one column; leave drop out")
        cells = [find_column(frame.table, title, "outcome") for title in titles]
        outcome, reading = read_score_columns(cells, titles, names, len(first))
    else:
        values = frame.take("outcome")
        outcome, reading = read_outcomes(values, items, (first, second), names, dropped, column)
    return pair_rows(items, PairChoices(first, second, outcome), frame.counts)._replace(reading=reading)


def _read_ranking_rows(frame: NamedColumns) -> ParsedChoices:
    # read rankings, best item first, from a column of lists or from a column for each position
    named = frame.name("ranking")
    if not isinstance(named, list | tuple):
        listed = frame.take("ranking")
        _refuse_texts(listed, named)
        return frame.read(rankings=listed)
    names = list(cast("Sequence[Any]", named))
    cells = frame.cells(names, "ranking")
    _refuse_ranks(names, cells)
    rankings: list[list[Any]] = []
    interrupted = list[int]()
    for number, row in enumerate(_rows_of(cells)):
        is_filled = [not is_missing(cell) for cell in row]
        length = sum(is_filled)
        if not all(is_filled[:length]):
            interrupted.append(number)
        # pandas turns whole numbers into floats if cells are empty
        is_whole = [isinstance(item, float) and item.is_integer() for item in row[:length]]
        rankings.append([int(item) if whole else item for item, whole in zip(row, is_whole, strict=False)])
    if interrupted:
        fault = " has an empty cell before an item; fill the cell in, or drop the row"
        raise BadRows("", interrupted, fault, noun="ranking")
    return frame.read(rankings=rankings)


# Reject numbers, which may be ranks, unless the names of the columns are positions.
def _refuse_ranks(names: list[Any], cells: list[list[Any]]) -> None:
    texts = [RANK_PREFIX.sub("", str(name)) for name in names]
    if any(texts == [str(first + k) for k in range(len(texts))] for first in (0, 1)):
        return
    if all(is_missing(cell) or not np.isnan(as_number(cell)) for column in cells for cell in column):
        columns = ", ".join(map(show, names[:3])) + ", …" * (len(names) > 3)
        raise InvalidSamples(
            f"the columns of ranking= contain numbers; if these are the ranks of {columns}, use ranks= "
            "instead (on the command line: --ranks), and if they are items, the best first, use "
            "rankings=frame[columns].to_numpy().tolist()"
        )


class ItemCell(NamedTuple):
    """A cell with the rank of an item in a ranking, or its score by a judge."""

    row: int  # of the data
    group: int  # the ranking or the judge
    item: Any
    cell: Any  # not yet read


def _read_rank_columns(frame: NamedColumns) -> ParsedChoices:
    names: Any = frame.roles["ranks"]
    if not isinstance(names, list | tuple) or len(cast("Sequence[Any]", names)) < 2:
        raise InvalidSamples(
            f"ranks={show(frame.roles['ranks'])} names fewer than two columns; name one column per item, or, "
            "if the table has one row per item of a ranking, add situation= and alternative="
        )
    items = list(cast("Sequence[Any]", names))
    entries = [
        ItemCell(row, row, item, cell)
        for row, cells in enumerate(_rows_of(frame.cells(items, "ranks")))
        for item, cell in zip(items, cells, strict=True)
    ]
    return frame.read(rankings=_sort_entries(entries))


# Read rankings from one row per item of a ranking, which ``situation`` names.
def _read_rank_entries(frame: NamedColumns) -> ParsedChoices:
    _refuse_counts(frame, "each ranking counts once, and equal ranks are ties")
    ranking, _ = number_labels(frame.take("situation"), "situation")
    items, ranks = as_list(frame.take("alternative")), as_list(frame.take("ranks"))
    missing = [is_missing(item) for item in items]
    if any(missing):
        raise BadRows("the alternative in ", missing, " is missing; fill it in, or drop the row")
    rows = enumerate(_rows_of([ranking.tolist(), items, ranks]))
    rankings = _sort_entries([ItemCell(row, *cells) for row, cells in rows])
    ranked = [number for number, tiers in enumerate(rankings) if tiers]
    try:
        return frame.read(rankings=[rankings[number] for number in ranked])
    except BadRows as error:  # its rows are indices into ``ranked``; name each ranking by its first row
        first_row = np.unique(ranking, return_index=True)[1]
        raise BadRows("the ranking of ", first_row[np.array(ranked)[error.rows]], error.after) from error


# Each ranking as tiers, best first; a tier is the items with one rank.
def _sort_entries(entries: Sequence[ItemCell]) -> list[list[list[Any]]]:
    n_rankings = 1 + max((entry.group for entry in entries), default=-1)
    items_by_rank: list[dict[float, list[Any]]] = [{} for _ in range(n_rankings)]
    faults = dict[int, str]()
    for row, ranking, item, cell in entries:
        if is_missing(cell):
            continue
        rank = as_number(cell)
        if rank >= 1:
            items_by_rank[ranking].setdefault(rank, []).append(item)
        else:
            faults.setdefault(row, f"{show(item)} the rank {show(cell)}")
    if faults:
        raise BadRows(
            "",
            list(faults),
            f" gives {next(iter(faults.values()))}; write a number of at least 1 (1 is best), the last rank "
            "if the item is behind all others, or nothing if the item should not be compared",
        )
    return [[tiers[rank] for rank in sorted(tiers)] for tiers in items_by_rank]


PAIRS = Form(_read_pairs, {"winner", "loser"})
CROSSTAB = Form(_read_crosstab, {"winner", "loser"}, set())
SETS = Form(_read_choice_sets, {"winner", "choice_set"})
OUTCOMES = Form(_read_outcome_rows, {"first", "second", "outcome"}, {"drop", "count"})
RANKINGS = Form(_read_ranking_rows, {"ranking"})
RANK_COLUMNS = Form(_read_rank_columns, {"ranks"})
BEST_WORST = Form(_read_best_worst, {"best", "worst", "choice_set"})
LONG = Form(_read_long, {"situation", "alternative", "chosen"}, set())
RANK_ENTRIES = Form(_read_rank_entries, {"situation", "alternative", "ranks"}, set())

# The forms that are tried if columns are named, in this order.
FORMS = (RANKINGS, RANK_COLUMNS, OUTCOMES, PAIRS, SETS, BEST_WORST, LONG, RANK_ENTRIES)

# The forms that are tried if no columns are named, in this order.
USUAL = (BEST_WORST, LONG, PAIRS, SETS, OUTCOMES, RANKINGS)

# The usual columns of arenas and of chess games, which need not be named.
ARENAS: list[dict[str, Any]] = [
    {"first": "model_a", "second": "model_b", "outcome": "winner"},
    {"first": "model_a", "second": "model_b", "outcome": ["winner_model_a", "winner_model_b", "winner_tie"]},
    {"first": "White", "second": "Black", "outcome": "Result"},
]


def find_form(roles: Mapping[str, Any], table: Mapping[Any, Any]) -> Form:
    """The form that fits most named columns, or else the first whose roles are all names of columns."""
    named = roles.keys()
    # of equally good forms, prefer one whose other roles are names of columns
    form = max(FORMS, key=lambda form: (len(form.needs & named), form.needs <= named | table.keys()))
    if form is PAIRS and isinstance(roles.get("loser"), list | tuple):
        form = CROSSTAB
    if form.needs & named:
        surplus = [role for role in roles if role not in form.needs | form.takes]
        if surplus:
            needed = " and ".join(f"{role}=" for role in sorted(form.needs))
            raise InvalidSamples(f"{surplus[0]}= cannot be combined with {needed}; leave {surplus[0]} out")
        return form
    usual = next((form for form in USUAL if table.keys() >= form.needs), None)
    if usual is not None:
        return usual
    names = ", ".join(map(show, list(table)[:12]))  # as many as are read
    raise InvalidSamples(
        f"it is unclear which of the columns {names or '(none)'} contains the winner; name the columns with "
        "winner= and loser=, with first=, second= and outcome=, with ranking= (items, the best first), with "
        "ranks= (one column of ranks for each item), or with situation=, alternative= and chosen="
    )
