"""Read choices from sequences: winners with losers or choice sets, lists of pairs, or rankings.

:func:`read_sequences` calls a function for each form of :class:`ChoiceData`, which numbers the items.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.ragged import occurs
from attomaton.base.tables import Int64
from attomaton.choices.columns import as_arrow, as_list, library_of, list_values, number_columns
from attomaton.choices.numbering import BadRows, check_items, counts_of, number_hashable
from attomaton.choices.outcomes import FIRST, TIE, is_tie, read_flags
from attomaton.choices.parsed import NO_ROWS, PairChoices, ParsedChoices, Ranked, SetChoices, pair_rows
from attomaton.choices.rankings import unroll
from attomaton.graphs.grouping import distinct_keys, find_keys

ACCEPTED = (
    "give winners and losers (fit_choices(winners, losers=losers)), winners and choice sets, rankings=…, or "
    'a frame and the names of its columns (fit_choices(frame, winner="winner", loser="loser"))'
)


class ChoiceData(NamedTuple):
    """The data of choices as supplied, in one of five forms; ``counts`` is allowed with each."""

    # 1. winners and losers, which may be one column of items each, and then also tied
    # 2. winners and losers, where an entry of losers is a list of all items that the winner was chosen over
    # 3. winners and choice_sets: each set contains the winner; sets that are items are losers, as in 1
    # 4. winners alone, as a list of pairs (winner, loser), and then also tied
    # 5. rankings alone: lists of items, the best first, where an inner list is a tie
    # In inputs.py, winners or rankings may also be a file or a frame, which read_sequences never sees.
    winners: Any = None
    choice_sets: Any = None
    losers: Any = None
    rankings: Any = None
    tied: Any = None
    counts: Any = None  # how often each choice or ranking occurred


def read_sequences(data: ChoiceData) -> ParsedChoices:
    """Read the choices of any form of :class:`ChoiceData`; other combinations of fields are refused."""
    if data.rankings is not None:
        return _read_rankings(data)
    if data.winners is None:
        raise InvalidSamples(f"no choices given; {ACCEPTED}")
    if data.losers is not None:
        if data.choice_sets is not None:
            raise InvalidSamples("losers= cannot be combined with choice_sets=; leave one of them out")
        return _read_losers(data)
    if data.choice_sets is None:
        return _read_losers(_split_pairs(data))
    if holds_items(data.choice_sets):
        _refuse_characters(data)
        return _read_losers(data._replace(losers=data.choice_sets))
    if data.tied is not None:
        raise InvalidSamples("tied= needs pairs; give winners and losers, or lists of tied items in rankings")
    return _read_choice_sets(data)


# Read winners and choice sets, as Arrow columns if both are columns, otherwise as Python objects.
def _read_choice_sets(data: ChoiceData) -> ParsedChoices:
    _check_columns(winners=data.winners, choice_sets=data.choice_sets, counts=data.counts)
    lists = list_values(data.choice_sets)
    if lists is not None and as_arrow(data.winners) is not None:  # no Python object for each entry
        lengths, entries = lists
        items, (members, winner) = number_columns({"choice set": entries, "winner": data.winners})
        choices = _make_sets(items, winner, lengths, members)
    else:
        sets = _to_builtin(data.choice_sets)
        if hasattr(sets, "__len__") and any(hasattr(kind, "tolist") for kind in set(map(type, sets))):
            sets = [_list_if_array(members) for members in sets]
        items, choices = number_sets(_to_builtin(data.winners), sets, data.counts)
    return ParsedChoices(items, choices, counts_of(data.counts, len(choices.winner)))


def number_sets(
    winners: Sequence[Any], choice_sets: Sequence[Any], counts: object = None
) -> tuple[tuple[Any, ...], SetChoices]:
    """Number the items of winners and choice sets that are Python objects: the items, and the choices."""
    _check_columns(winners=winners, choice_sets=choice_sets, counts=counts)
    _check_sets(choice_sets)
    lengths = np.fromiter(map(len, choice_sets), np.int64, len(choice_sets))
    # The members of all sets and the winners are numbered together, and then split again.
    entries = [*chain.from_iterable(choice_sets), *winners]
    try:
        values = np.frombuffer(array("q", entries), np.int64)  # "q": signed 64-bit integers
    except (TypeError, OverflowError):  # not all are 64-bit integers
        items, numbers = number_hashable(entries)
    else:  # integers are numbered in ascending order, which is faster
        distinct = distinct_keys(values)
        items, numbers = tuple(distinct.tolist()), find_keys(distinct, values)
    members, winner = np.split(numbers, [int(lengths.sum())])
    return items, _make_sets(items, winner, lengths, members)


# Reject choice sets that are strings, mappings, or no collections.
def _check_sets(choice_sets: Sequence[Any]) -> None:
    kinds: set[type[Any]] = set(map(type, choice_sets))
    unfit: set[type[Any]] = {
        kind for kind in kinds if issubclass(kind, Mapping | str | bytes) or not issubclass(kind, Sized)
    }
    if not unfit:
        return
    bad = [type(members) in unfit for members in choice_sets]
    members = choice_sets[bad.index(True)]
    fault = f" is of type {type(members).__name__}; give a list of items"
    if isinstance(members, str | bytes):
        fault = (
            f" is the string {members!r}; give a list of items (list({members!r}) for single characters), or "
            "use losers= if each row has one loser"
        )
    raise BadRows("", bad, fault, noun="choice set")


# The choices of numbered winners from numbered sets, after a check that each winner is in its set.
def _make_sets(items: tuple[Any, ...], winner: Int64, lengths: Int64, members: Int64) -> SetChoices:
    choice = np.repeat(np.arange(len(lengths)), lengths)  # of each member
    absent = ~occurs(choice[members == winner[choice]], len(winner))
    if absent.any():
        item = items[winner[np.argmax(absent)]]
        raise BadRows(
            "",
            absent,
            f": the winner {item!r} is not in the choice set; add the winner to the set, or use losers= if "
            "the sets contain losers",
            noun="choice",
        )
    return SetChoices(winner, lengths, members, np.arange(len(winner)))


# The data with a list of pairs (winner, loser), given as ``winners``, split into winners and losers.
def _split_pairs(data: ChoiceData) -> ChoiceData:
    pairs = _to_builtin(data.winners)
    if isinstance(pairs, Iterator | Set):
        kind = type(cast("Any", pairs)).__name__
        raise InvalidSamples(
            f"winners is of type {kind}, which has no length or no order; give a list of winners, or a list "
            "of pairs (winner, loser)"
        )
    rows = cast("list[Any]", pairs) if isinstance(pairs, list | tuple) else []
    if not rows or not all(type(row) in (list, tuple) and len(row) == 2 for row in rows):
        raise InvalidSamples(f"there are winners but no losers or choice sets; {ACCEPTED}")
    winners, losers = ([row[position] for row in rows] for position in (0, 1))
    if any(isinstance(entry, list | set) for entry in [*winners, *losers]):
        raise InvalidSamples(
            "a pair contains a list; give winners and choice sets: fit_choices([w for w, _ in pairs], "
            "[[w, *others] for w, others in pairs])"
        )
    return data._replace(winners=winners, losers=losers)


# Read winners and losers; an entry of losers may be a list.
def _read_losers(data: ChoiceData) -> ParsedChoices:
    for name, values in (("winners", data.winners), ("losers", data.losers)):
        if isinstance(values, str | bytes):
            raise InvalidSamples(f"{name} is the string {values!r}; give a list, such as [{values!r}]")
    _check_columns(winners=data.winners, losers=data.losers, counts=data.counts, tied=data.tied)
    if not len(data.losers):
        raise InvalidSamples(NO_ROWS)
    winners: Any = data.winners
    kinds: set[type] = set(map(type, _to_builtin(winners))) if isinstance(winners, list | tuple) else set()
    # If winners are tuples, tuples are items, so losers that are tuples are not lists of losers.
    items_are_tuples = any(issubclass(kind, tuple) for kind in kinds)
    if not holds_items(data.losers) and not items_are_tuples:
        if data.tied is not None:
            raise InvalidSamples(
                "tied= needs pairs; give one loser in each row, or rankings with lists of tied items"
            )
        return _read_lists_of_losers(data)
    items, (winner, loser) = number_columns({"winner": data.winners, "loser": data.losers})
    tie = next((item for item in items if isinstance(item, str) and is_tie(item)), None)
    if tie is not None:
        raise InvalidSamples(
            f"a winner or loser is {tie!r}; if the row is a tie, use first=, second= and outcome= (on the "
            "command line: --first, --second, --outcome), and if it is an item, rename the item"
        )
    outcome = np.full(len(winner), FIRST)
    if data.tied is not None:
        outcome[read_flags(data.tied)] = TIE
    return pair_rows(items, PairChoices(winner, loser, outcome), data.counts)


# Read rows with several losers each, as choices from the set of the winner and the losers.
def _read_lists_of_losers(data: ChoiceData) -> ParsedChoices:
    winners = as_list(data.winners)
    rows = [_as_losers(entry) for entry in as_list(data.losers)]
    bad = [
        any(winner is loser or winner == loser for loser in losers)
        for winner, losers in zip(winners, rows, strict=True)
    ]
    if any(bad):
        raise BadRows(
            "",
            bad,
            f": the winner {winners[bad.index(True)]!r} is also among the losers; remove the winner from the "
            "losers, or use choice_sets=",
        )
    sets = [[winner, *losers] for winner, losers in zip(winners, rows, strict=True)]
    items, choices = number_sets(winners, sets, data.counts)
    check_items(items)
    return ParsedChoices(items, choices, counts_of(data.counts, len(rows)))


# The losers of one row, which are given as a collection, or as one item.
def _as_losers(entry: Any) -> list[Any]:
    if isinstance(entry, Iterable) and not isinstance(entry, str | bytes | Mapping):
        return as_list(cast("Any", entry))
    return [entry]


# Read rankings, each as several choices; ``row`` of a choice is the number of its ranking.
def _read_rankings(data: ChoiceData) -> ParsedChoices:
    for name, values in (("winners", data.winners), ("choice_sets", data.choice_sets)):
        if values is not None:
            raise InvalidSamples(f"rankings= cannot be combined with {name}=; give only one of them")
    if data.losers is not None or data.tied is not None:
        raise InvalidSamples("rankings= cannot be combined with losers= or tied=; put tied items in a list")
    rankings = _to_builtin(data.rankings)
    if not rankings:
        raise InvalidSamples("there are no rankings; give at least one ranking")
    rankings = [_list_if_array(ranking) for ranking in rankings]
    _check_columns(rankings=rankings, counts=data.counts)
    times = counts_of(data.counts, len(rankings))
    unrolled = unroll(rankings)
    row = np.array(unrolled.ranking, np.int64)
    # in units of 1 / denominator, since a tie makes fractions of choices
    counts = counts_of(np.array(unrolled.weights, np.int64) * times[row], len(row))
    items, choices = number_sets(unrolled.winners, unrolled.choice_sets)
    check_items(items)
    # the denominator is 1 without ties
    ranked = Ranked(unrolled.tiers, times, np.arange(len(times))) if unrolled.denominator > 1 else None
    return ParsedChoices(items, choices._replace(row=row), counts, unrolled.denominator, ranked)


def holds_items(values: Any) -> bool:
    """Whether each entry of a column is an item, not a collection of items."""
    if list_values(values) is not None or getattr(values, "ndim", 1) > 1 or not hasattr(values, "__len__"):
        return False
    if not isinstance(values, list | tuple) and as_arrow(values) is not None:
        return len(values) > 0
    kinds: set[type] = set(map(type, _to_builtin(values)))
    return bool(kinds) and all(
        issubclass(kind, str | bytes) or not issubclass(kind, Iterable) for kind in kinds
    )


# An array, Series or Arrow column as a list of Python objects; any other value unchanged.
def _to_builtin(values: Any) -> Any:
    # Strings, sets, mappings and iterators pass too: the checks reject them later, and name their type.
    if not hasattr(values, "__len__") or isinstance(values, list | tuple | str | range):
        return cast("Any", values)
    return values if library_of(values) == "builtins" else as_list(values)


# An entry of a column that is itself an array or Series, as a list; any other entry unchanged.
def _list_if_array(values: Any) -> Any:
    return as_list(values) if hasattr(values, "tolist") else values


# Reject strings that contain the one-letter winner; they may be losers or sets of letters.
def _refuse_characters(data: ChoiceData) -> None:
    winners = as_list(data.winners)
    texts = as_list(data.choice_sets)
    rows = list(zip(winners, texts, strict=False))
    all_contain_winner = all(
        isinstance(won, str) and len(won) == 1 and isinstance(text, str) and won in text for won, text in rows
    )
    if all_contain_winner and any(len(text) > 1 for _, text in rows):
        raise InvalidSamples(
            f"{show(texts[0])} may be a loser or a set of letters; use losers=, or give lists: "
            "[list(text) for text in choice_sets]"
        )


# Reject columns without length or order, or with different lengths or pandas indexes.
def _check_columns(**columns: Any) -> None:
    present = {name: values for name, values in columns.items() if values is not None}
    for name, values in present.items():
        if not hasattr(values, "__len__"):
            raise InvalidSamples(f"the type {type(values).__name__} of {name} has no length; give a list")
        kind: type = type(values)  # pyright: ignore[reportUnknownVariableType]
        if issubclass(kind, set | frozenset | Mapping):
            raise InvalidSamples(f"{name} is of type {kind.__name__}, which has no order; give a list")
    indexes = [
        values.index
        for values in present.values()
        if library_of(values) == "pandas" and hasattr(values, "index")
    ]
    if any(not index.equals(indexes[0]) for index in indexes):
        raise InvalidSamples(
            "the Series have different indexes, so their rows may not belong together; use columns of one "
            "frame, or call .reset_index(drop=True) on each Series"
        )
    lengths = {name: len(values) for name, values in present.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise InvalidSamples(f"the lengths differ ({sizes}); give one entry of each for every choice")
