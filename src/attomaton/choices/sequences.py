"""Choices as sequences (winners with losers or choice sets, pairs, outcomes, rankings), numbered."""

from collections.abc import Iterable, Iterator, Mapping, Set, Sized
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.ragged import occurs, offsets_of, ranges_of
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.columns import (
    as_arrow,
    as_list,
    library_of,
    list_values,
    number_columns,
    number_values,
)
from attomaton.choices.numbering import (
    BadRows,
    ItemTally,
    NumberedChoices,
    SetChoices,
    arrange,
    check_items,
    counts_of,
    is_missing,
    make_item_edges,
    number_choices,
    pair_up,
)
from attomaton.choices.outcomes import FIRST, SECOND, TIE, UNREAD, find_side, is_tie, read_flags
from attomaton.choices.rankings import table_pairs, table_rankings, unroll
from attomaton.graphs.edges import EdgeTable
from attomaton.graphs.grouping import count_keys, distinct_keys, pack_pairs


def read_movers(
    values: Any, items: tuple[Any, ...], pair: tuple[Int64, Int64], names: tuple[Any, Any]
) -> Float64:
    """1 where the first of a pair moved first, −1 where its second did, 0 where nobody did."""
    number, distinct = number_values(values)
    if len(number) != len(pair[0]):
        raise InvalidSamples(
            f"moved_first has {len(number):,} entries for {len(pair[0]):,} pairs; give one each"
        )
    sides = dict(zip(names, (FIRST, SECOND), strict=True))
    ends = np.array([TIE if is_missing(value) else sides.get(value, UNREAD) for value in distinct], np.int64)
    side = find_side(number, distinct, items, pair, ends)
    bad = side == UNREAD
    if bad.any():
        raise BadRows(
            f"moved_first is {show(distinct[number[np.argmax(bad)]])} in ",
            bad,
            ", which is not one of the pair; name the one that moved or stood first, or leave the cell empty "
            "if neither did",
        )
    return np.array([1.0, -1.0, 0.0])[side]


ACCEPTED = (
    "give winners and losers (fit_choices(winners, losers=losers)), winners and choice sets, rankings=…, or "
    'a frame with the names of its columns (fit_choices(frame, winner="winner", loser="loser"))'
)

NO_ROWS = "there are no rows; give at least one choice"


class PairChoices(NamedTuple):
    """Pairs of items and how each ended."""

    first: Int64  # (n_rows,)
    second: Int64  # (n_rows,)
    outcome: Int64  # (n_rows,): FIRST, SECOND or TIE
    row: Int64 | None = None  # (n_rows,), the row of the data that each comes from; None if all are there

    def number_pairs(self) -> Int64:
        """The number of each row's pair of items, whichever of them is the first."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        return np.unique(pack_pairs(low, high), return_inverse=True)[1].ravel()


class Alternatives(NamedTuple):
    """The alternatives of situations, one after the other, and how often each was chosen."""

    lengths: Int64  # (n_situations,)
    row: Int64  # (n_situations,), the first row of the data that each comes from
    chosen: Float64  # (n_alternatives,)
    entry: Int64  # (n_alternatives,), the row of the data that each comes from
    members: Int64  # (n_alternatives,), the item of each
    against: Int64 | None = None  # (n_alternatives,), the item called worst, in a choice of best and worst


class Ranked(NamedTuple):
    """Rankings with ties: the items at each place, how often each was made, and its row in the data."""

    tiers: list[list[list[Any]]]
    times: NDArray[Any]
    row: Int64


class ParsedChoices(NamedTuple):
    """Items and numbered choices, as supplied.

    Where rankings have ties, counts are over ``denominator``, and ``ranked`` has the originals. ``reading``
    says how numbers among outcomes were read.
    """

    items: tuple[Any, ...]
    choices: PairChoices | SetChoices | Alternatives
    counts: NDArray[Any]  # of each pair, set or situation
    denominator: int = 1
    ranked: Ranked | None = None
    reading: str = ""

    def edges(self) -> EdgeTable | None:
        """Who was chosen over whom; items that tie beat each other. None for choices of best and worst."""
        choices, size = self.choices, len(self.items)
        if isinstance(choices, PairChoices):
            first, second, outcome, _ = choices
            winner = np.concatenate([np.where(outcome == SECOND, second, first), second[outcome == TIE]])
            loser = np.concatenate([np.where(outcome == SECOND, first, second), first[outcome == TIE]])
        elif isinstance(choices, SetChoices):
            winner, loser = np.repeat(choices.winner, choices.lengths), choices.members
        elif choices.against is not None:
            return None
        else:
            chosen = np.flatnonzero(choices.chosen > 0)
            situation = np.repeat(np.arange(len(choices.lengths)), choices.lengths)[chosen]
            lengths = choices.lengths[situation]
            winner = np.repeat(choices.members[chosen], lengths)
            loser = choices.members[ranges_of(offsets_of(choices.lengths)[situation], lengths)]
        keys, support = count_keys((winner * size + loser)[winner != loser])
        return make_item_edges(keys // size, keys % size, support, size)

    def tally(self) -> ItemTally:
        """What each item won, and other choices that included it; an item twice in a set counts once."""
        choices, size = self.choices, len(self.items)
        n_ties, counts = 0.0, self.counts / self.denominator
        if isinstance(choices, PairChoices):
            won = np.array([1.0, 0.0, 0.5])[choices.outcome] * counts
            wins = np.bincount(choices.first, won, size) + np.bincount(choices.second, counts - won, size)
            members, lengths = np.stack([choices.first, choices.second], axis=1).ravel(), 2
            n_ties = float(counts[choices.outcome == TIE].sum())
        elif isinstance(choices, SetChoices):
            members, lengths = choices.members, choices.lengths
            wins = np.bincount(choices.winner, counts, size)
        else:
            members, lengths = choices.members, choices.lengths
            wins = np.bincount(members, choices.chosen, size)
        if self.ranked is not None:
            shared = [sum(len(tier) > 1 for tier in tiers) for tiers in self.ranked.tiers]
            n_ties = float(np.array(shared) @ self.ranked.times)
        keys = distinct_keys(np.repeat(np.arange(len(counts)), lengths) * size + members)
        losses = np.bincount(keys % size, counts[keys // size], size) - wins
        return ItemTally(wins.astype(np.float64), losses.astype(np.float64), float(counts.sum()), n_ties)

    def restrict(self, rows: Bool) -> "ParsedChoices":
        """The choices of some rows of the data, with the items that occur in them."""
        choices, counts, ranked = self.choices, self.counts, self.ranked
        if isinstance(choices, PairChoices):
            rows = rows if choices.row is None else rows[choices.row]
            used, (first, second) = _renumber(choices.first[rows], choices.second[rows])
            source = np.flatnonzero(rows) if choices.row is None else choices.row[rows]
            choices, counts = PairChoices(first, second, choices.outcome[rows], source), counts[rows]
        elif isinstance(choices, SetChoices):
            use = rows[choices.row]
            used, (winner, members) = _renumber(
                choices.winner[use], choices.members[np.repeat(use, choices.lengths)]
            )
            choices = SetChoices(winner, choices.lengths[use], members, choices.row[use])
            counts = counts[use]
        else:
            use = rows[choices.row]
            inside = np.repeat(use, choices.lengths)
            columns = [choices.members] if choices.against is None else [choices.members, choices.against]
            used, numbered = _renumber(*(column[inside] for column in columns))
            sizes, row = choices.lengths[use], choices.row[use]
            choices = Alternatives(sizes, row, choices.chosen[inside], choices.entry[inside], *numbered)
            counts = counts[use]
        if ranked is not None:
            tiers = [ranking for ranking, wanted in zip(ranked.tiers, rows.tolist(), strict=True) if wanted]
            ranked = Ranked(tiers, ranked.times[rows], ranked.row[rows])
        items = tuple(self.items[k] for k in used.tolist())
        return self._replace(items=items, choices=choices, counts=counts, ranked=ranked)

    def tabulate(self) -> tuple[NumberedChoices, int, pa.Table | None]:
        """The choices as the Luce model takes them, the denominator of counts, and the rankings if any tie.

        In a tie of two each has half a win, so every count is doubled if there are ties.
        """
        choices, counts = self.choices, self.counts
        if isinstance(choices, SetChoices):
            ranked = self.ranked
            rankings = None if ranked is None else table_rankings(ranked.tiers, self.items, ranked.times)
            return arrange(choices, counts), self.denominator, rankings
        assert isinstance(choices, PairChoices)  # noqa: S101  alternatives have no such form
        first, second, outcome, _ = choices
        winner, loser = np.where(outcome == SECOND, second, first), np.where(outcome == SECOND, first, second)
        tied = outcome == TIE
        if not tied.any():
            return pair_up(winner, loser, counts), 1, None
        both = np.concatenate([np.where(tied, 1, 2) * counts, counts[tied]])
        counts_of(both, len(both))
        rankings = table_pairs(winner, loser, tied, counts)
        winner, loser = np.concatenate([winner, loser[tied]]), np.concatenate([loser, winner[tied]])
        return pair_up(winner, loser, both), 2, rankings


def _renumber(*columns: Int64) -> tuple[Int64, list[Int64]]:
    """The numbers that occur, ascending, and the columns numbered by them."""
    used, number = np.unique(np.concatenate(columns), return_inverse=True)
    return used, np.split(number.ravel(), np.cumsum([len(column) for column in columns])[:-1])


class ChoiceData(NamedTuple):
    """The data as supplied."""

    winners: Any = None
    choice_sets: Any = None
    losers: Any = None
    rankings: Any = None
    tied: Any = None
    counts: Any = None


def read_sequences(data: ChoiceData) -> ParsedChoices:
    """The choices from sequences in any form."""
    if data.rankings is not None:
        return _read_rankings(data)
    if data.winners is None:
        raise InvalidSamples(f"no choices given; {ACCEPTED}")
    if data.losers is not None:
        if data.choice_sets is not None:
            raise InvalidSamples("losers and choice_sets say the same thing twice; give one of them")
        return _read_losers(data)
    if data.choice_sets is None:
        return _read_losers(_split_pairs(data))
    if holds_items(data.choice_sets):
        _refuse_characters(data)
        return _read_losers(data._replace(losers=data.choice_sets))
    if data.tied is not None:
        raise InvalidSamples("tied is for pairs; give winners and losers, or rankings with lists of ties")
    _check_index(data.winners, data.choice_sets, data.counts)
    lists = list_values(data.choice_sets)
    if lists is not None and as_arrow(data.winners) is not None:
        return _number_lists(data, *lists)
    winners, sets = _plain(data.winners), _plain(data.choice_sets)
    if hasattr(sets, "__len__") and any(hasattr(kind, "tolist") for kind in set(map(type, sets))):
        # entries as Python objects
        sets = [as_list(members) if hasattr(members, "tolist") else members for members in sets]
    items, choices = number_choices(winners, sets, data.counts)
    return ParsedChoices(items, choices, counts_of(data.counts, len(choices.winner)))


def _number_lists(data: ChoiceData, lengths: Int64, flat: Any) -> ParsedChoices:
    """Choice sets that Arrow holds as lists, numbered without a Python object for each entry."""
    _check_lengths(winners=data.winners, choice_sets=lengths, counts=data.counts)
    items, (members, winner) = number_columns({"choice set": flat, "winner": data.winners})
    choice = np.repeat(np.arange(len(lengths)), lengths)
    absent = ~occurs(choice[members == winner[choice]], len(winner))
    if absent.any():
        item = items[winner[np.argmax(absent)]]
        raise BadRows(
            "", absent, f": the winner {item!r} is not in its choice set; add it or drop both", noun="choice"
        )
    choices = SetChoices(winner, lengths, members, np.arange(len(winner)))
    return ParsedChoices(items, choices, counts_of(data.counts, len(winner)))


def _read_losers(data: ChoiceData) -> ParsedChoices:
    """Winners and losers, one for each row; losers may also be lists."""
    for name, values in (("winners", data.winners), ("losers", data.losers)):
        if isinstance(values, str | bytes):
            raise InvalidSamples(f"{name} is the string {values!r}; give a list, [{values!r}] for one item")
    _check_index(data.winners, data.losers, data.counts, data.tied)
    _check_lengths(winners=data.winners, losers=data.losers, counts=data.counts, tied=data.tied)
    if not len(data.losers):
        raise InvalidSamples(NO_ROWS)
    winners: Any = data.winners
    kinds: set[type] = set(map(type, _plain(winners))) if isinstance(winners, list | tuple) else set()
    winners_are_tuples = any(issubclass(kind, tuple) for kind in kinds)
    if not holds_items(data.losers) and not winners_are_tuples:
        if data.tied is not None:
            raise InvalidSamples("tied is for pairs; give one loser in each row, or rankings")
        return _read_lists_of_losers(data)
    items, (winner, loser) = number_columns({"winner": data.winners, "loser": data.losers})
    tie = next((item for item in items if isinstance(item, str) and is_tie(item)), None)
    if tie is not None:
        raise InvalidSamples(
            f"a winner or loser is {tie!r}; if such a row is a tie, name both contestants and the outcome: "
            "first=, second= and outcome= (on the command line: --first, --second, --outcome), or tied=; if "
            "it is an item, rename it"
        )
    outcome = np.full(len(winner), FIRST)
    if data.tied is not None:
        outcome[read_flags(data.tied)] = TIE
    return pair_rows(items, PairChoices(winner, loser, outcome), data.counts)


def _read_lists_of_losers(data: ChoiceData) -> ParsedChoices:
    """Rows with several losers; an entry that is not a collection is one loser."""
    winners = as_list(data.winners)
    rows = [_members(entry) for entry in as_list(data.losers)]
    bad = [
        any(winner is loser or winner == loser for loser in losers)
        for winner, losers in zip(winners, rows, strict=True)
    ]
    if any(bad):
        raise BadRows(
            "",
            bad,
            f": the winner {winners[bad.index(True)]!r} is also among the losers; remove it, or give "
            "choice_sets, which include the winner",
        )
    sets = [[winner, *losers] for winner, losers in zip(winners, rows, strict=True)]
    items, choices = number_choices(winners, sets, data.counts)
    check_items(items)
    return ParsedChoices(items, choices, counts_of(data.counts, len(rows)))


def _members(entry: Any) -> list[Any]:
    if isinstance(entry, Iterable) and not isinstance(entry, str | bytes | Mapping):
        return as_list(cast("Any", entry))
    return [entry]


def pair_rows(items: tuple[Any, ...], pairs: PairChoices, counts: Any) -> ParsedChoices:
    """Pairs of different items."""
    if not len(pairs.first):
        raise InvalidSamples(NO_ROWS)
    alone = pairs.first == pairs.second
    if alone.any():
        item = items[pairs.first[np.argmax(alone)]]
        raise BadRows("", alone, f" compares {item!r} with itself; drop such rows")
    return ParsedChoices(items, pairs, counts_of(counts, len(pairs.first)))


def _read_rankings(data: ChoiceData) -> ParsedChoices:
    for name, values in (("winners", data.winners), ("choice_sets", data.choice_sets)):
        if values is not None:
            raise InvalidSamples(f"rankings already contain {name}; give only one of them")
    if data.losers is not None or data.tied is not None:
        raise InvalidSamples("rankings need no losers; put tied items in a list of their own")
    rankings = _plain(data.rankings)
    if not rankings:
        raise InvalidSamples("there are no rankings; give at least one")
    rankings = [as_list(ranking) if hasattr(ranking, "tolist") else ranking for ranking in rankings]
    counts = data.counts
    if counts is not None and not (isinstance(counts, Sized) and len(counts) == len(rankings)):
        raise InvalidSamples(f"{len(rankings)} rankings and their counts must have equal lengths")
    times = counts_of(counts, len(rankings))
    unrolled = unroll(rankings)
    row = np.array(unrolled.ranking, np.int64)
    totals = counts_of(np.array(unrolled.weights, np.int64) * times[row], len(row))
    items, choices = number_choices(unrolled.winners, unrolled.choice_sets)
    check_items(items)
    ranked = None if unrolled.denominator == 1 else Ranked(unrolled.tiers, times, np.arange(len(times)))
    return ParsedChoices(items, choices._replace(row=row), totals, unrolled.denominator, ranked)


def holds_items(values: Any) -> bool:
    """Whether each entry of a column is one item, not a collection."""
    if list_values(values) is not None or getattr(values, "ndim", 1) > 1 or not hasattr(values, "__len__"):
        return False
    if not isinstance(values, list | tuple) and as_arrow(values) is not None:
        return len(values) > 0
    kinds: set[type] = set(map(type, _plain(values)))
    return bool(kinds) and all(
        issubclass(kind, str | bytes) or not issubclass(kind, Iterable) for kind in kinds
    )


def _plain(values: Any) -> Any:
    """A column as a list, with lists in place of arrays; a list unchanged."""
    if isinstance(values, list | tuple | range) or not hasattr(values, "__len__"):
        return cast("Any", values)
    if isinstance(values, str) or (library_of(values) == "builtins"):
        return cast("Any", values)
    return as_list(values)


def _split_pairs(data: ChoiceData) -> ChoiceData:
    """A list of pairs (winner, loser) as two lists."""
    plain = _plain(data.winners)
    if isinstance(plain, Iterator | Set):
        kind = type(cast("Any", plain)).__name__
        raise InvalidSamples(
            f"winners is of type {kind}, without a length or an order; give list(…) of it, alone "
            "if it holds pairs (winner, loser)"
        )
    rows = cast("list[Any]", plain) if isinstance(plain, list | tuple) else []
    if not rows or not all(type(row) in (list, tuple) and len(row) == 2 for row in rows):
        raise InvalidSamples(f"only winners are given, without the sets they were chosen from; {ACCEPTED}")
    won, lost = [row[0] for row in rows], [row[1] for row in rows]
    if any(isinstance(entry, list | set) for entry in [*won, *lost]):
        raise InvalidSamples(
            "a pair holds a list; give winners and choice sets: fit_choices([w for w, _ in pairs], "
            "[[w, *others] for w, others in pairs])"
        )
    return data._replace(winners=won, losers=lost)


def _refuse_characters(data: ChoiceData) -> None:
    """Reject strings that contain their one-letter winner: they may be sets of letters or losers."""
    winners, texts = as_list(data.winners), as_list(data.choice_sets)
    rows = list(zip(winners, texts, strict=False))
    letters = all(
        isinstance(won, str) and len(won) == 1 and isinstance(text, str) and won in text for won, text in rows
    )
    if letters and any(len(text) > 1 for _, text in rows):
        raise InvalidSamples(
            f"{show(texts[0])} may be a loser or a set of letters; use losers=…, or give lists: "
            "[list(text) for text in choice_sets]"
        )


def _check_lengths(**columns: Any) -> None:
    """Reject columns of different lengths."""
    present = {name: values for name, values in columns.items() if values is not None}
    for name, values in present.items():
        if not hasattr(values, "__len__"):
            raise InvalidSamples(f"{name} is of type {type(values).__name__}, without a length; give a list")
        kind: type = type(values)  # pyright: ignore[reportUnknownVariableType]
        if issubclass(kind, set | frozenset | Mapping):
            raise InvalidSamples(f"{name} is of type {kind.__name__}, without an order; give a list")
    lengths = {name: len(values) for name, values in present.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise InvalidSamples(f"there are {sizes}; give one of each per choice")


def _check_index(*columns: Any) -> None:
    """Reject pandas Series with different indexes: rows are matched by position."""
    indexes = [
        column.index for column in columns if library_of(column) == "pandas" and hasattr(column, "index")
    ]
    if any(not index.equals(indexes[0]) for index in indexes):
        raise InvalidSamples(
            "the Series given have different indexes, so their rows may not belong together; give columns of "
            "one frame, or .reset_index(drop=True) of each"
        )
