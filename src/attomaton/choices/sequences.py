"""Choices as sequences (winners with losers or choice sets, pairs, outcomes, rankings), numbered."""

from collections.abc import Iterable, Iterator, Mapping, Set, Sized
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.ragged import occurs
from attomaton.base.tables import Bool, Int64
from attomaton.choices.columns import as_arrow, as_list, check_items, library_of, list_values, number_columns
from attomaton.choices.numbering import NumberedChoices, arrange, check_counts, number_choices, pair_up
from attomaton.choices.rankings import table_pairs, table_rankings, unroll

TIES = ("tie", "draw", "tied")
"""Words for a tie; ``tie (…)`` also counts."""

NUMBERS = {"1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0, "0.5": 0.5}
"""Strings for the share of the win that the first of a pair has."""

FLAGS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
"""Strings that mark a row as a tie or not."""


def read_flags(values: Any) -> Bool:
    """Truth values as tables spell them, shape (n_rows,)."""
    flags: list[bool] = []
    for row, value in enumerate(as_list(values)):
        flag = FLAGS.get(str(value).strip().lower(), FLAGS.get(str(value).removesuffix(".0")))
        if flag is None:
            raise InvalidSamples(f"tied is {show(value)} in row {row}; give True or False")
        flags.append(flag)
    return np.array(flags, bool)


def read_outcomes(
    values: Any, items: tuple[Any, ...], pair: tuple[Int64, Int64], names: tuple[Any, Any]
) -> tuple[Bool, Bool]:
    """Where the first of each pair lost, and where it was a tie, shape (n_rows,) each."""
    array = as_arrow(values)
    outcomes: list[Any] = [] if array is None else array.to_pylist()
    if array is None or len(outcomes) != len(pair[0]):
        raise InvalidSamples("the outcome is not a column of strings or numbers with one entry per row")
    special, distinct = {*names, *TIES, 0, 0.5, 1, *NUMBERS}, set(outcomes)
    both = next((item for item in items if item in special and item in distinct), None)
    if both is not None:
        raise InvalidSamples(
            f"the outcome {show(both)} is also the name of an item; give columns of winner and loser"
        )
    number = {item: place for place, item in enumerate(items)}
    first, second = (column.tolist() for column in pair)
    pairs = zip(outcomes, zip(first, second, strict=True), strict=True)
    ends = [_end(value, number, both, names, row) for row, (value, both) in enumerate(pairs)]
    wins = np.array(ends, np.float64)
    return wins == 0.0, wins == 0.5


def _end(
    value: Any, number: dict[Any, int], pair: tuple[int, int], names: tuple[Any, Any], row: int
) -> float:
    """The share of the win that the first of a pair has: 1, ½ or 0."""
    if value in number and number[value] in pair and not isinstance(value, bool):
        return float(number[value] == pair[0])
    if isinstance(value, str):
        word = value.strip().lower()
        if value in names:
            return float(value == names[0])
        if word in TIES or word.startswith(("tie ", "tie(")):
            return 0.5
        value = NUMBERS.get(word)
    if value in (0, 0.5, 1):
        return float(value)
    raise InvalidSamples(
        f"the outcome in row {row} cannot be read; give 1 if {show(names[0])} won, 0 if {show(names[1])} "
        "won, 0.5 or 'tie' if neither did, or the name of the winner or of its column"
    )


HOW = (
    "give winners and losers (fit_choices(winners, losers=losers)), winners and choice sets, rankings=…, or "
    'a frame with the names of its columns (fit_choices(frame, winner="winner", loser="loser"))'
)


NO_ROWS = "there are no rows; give at least one choice"


class ParsedChoices(NamedTuple):
    """Items and numbered choices.

    Where ties are parts of choices, ``parts`` counts make one choice, and ``rankings`` has the originals.
    """

    items: tuple[Any, ...]
    choices: NumberedChoices
    parts: int = 1
    rankings: pa.Table | None = None


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
        raise InvalidSamples(f"no choices given; {HOW}")
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
        sets = [as_list(one) if hasattr(one, "tolist") else one for one in sets]  # entries as Python objects
    return ParsedChoices(*number_choices(winners, sets, data.counts))


def _number_lists(data: ChoiceData, lengths: Int64, flat: Any) -> ParsedChoices:
    """Choice sets that Arrow holds as lists, numbered without a Python object for each entry."""
    _check_lengths(winners=data.winners, choice_sets=lengths, counts=data.counts)
    items, (members, winner) = number_columns({"choice set": flat, "winner": data.winners})
    choice = np.repeat(np.arange(len(lengths)), lengths)
    absent = ~occurs(choice[members == winner[choice]], len(winner))
    if absent.any():
        row = int(np.argmax(absent))
        raise InvalidSamples(
            f"choice {row}: the winner {items[winner[row]]!r} is not in its choice set; add it or drop both"
        )
    return ParsedChoices(items, arrange(winner, lengths, members, check_counts(data.counts, len(winner))))


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
    pairs = any(issubclass(kind, tuple) for kind in kinds)
    lists = not holds_items(data.losers) and not pairs
    data = data._replace(winners=_arrow_or_same(data.winners), losers=_arrow_or_same(data.losers))
    if lists:
        if data.tied is not None:
            raise InvalidSamples("tied is for pairs; give one loser in each row, or rankings")
        return _read_lists_of_losers(data)
    items, (winner, loser) = number_columns({"winner": data.winners, "loser": data.losers})
    tie = next((one for one in items if isinstance(one, str) and one.strip().lower() in TIES), None)
    if tie is not None:
        raise InvalidSamples(
            f"a winner or loser is {tie!r}; if such a row is a tie, name both contestants and the outcome: "
            "first=, second= and outcome= (on the command line: --first, --second, --outcome), or tied=; if "
            "it is an item, rename it"
        )
    tied = None if data.tied is None else read_flags(data.tied)
    return pair_rows(items, winner, loser, tied, check_counts(data.counts, len(winner)))


def _read_lists_of_losers(data: ChoiceData) -> ParsedChoices:
    """Rows with several losers; an entry that is not a collection is one loser."""
    winners = as_list(data.winners)
    rows = [_members(one) for one in as_list(data.losers)]
    for row, (winner, losers) in enumerate(zip(winners, rows, strict=True)):
        if any(winner is one or winner == one for one in losers):
            raise InvalidSamples(
                f"row {row}: the winner {winner!r} is also among the losers; remove it, or give "
                "choice_sets, which include the winner"
            )
    sets = [[winner, *losers] for winner, losers in zip(winners, rows, strict=True)]
    items, choices = number_choices(winners, sets, data.counts)
    check_items(items)
    return ParsedChoices(items, choices)


def _members(entry: Any) -> list[Any]:
    if isinstance(entry, Iterable) and not isinstance(entry, str | bytes | Mapping):
        return as_list(cast("Any", entry))
    return [entry]


def pair_rows(
    items: tuple[Any, ...], winner: Int64, loser: Int64, tied: Bool | None, made: Int64
) -> ParsedChoices:
    """Pairs; in a tie each has half a win, so every count is doubled if there are ties."""
    if not len(winner):
        raise InvalidSamples(NO_ROWS)
    alone = winner == loser
    if alone.any():
        row = int(np.argmax(alone))
        raise InvalidSamples(f"row {row} compares {items[winner[row]]!r} with itself; drop such rows")
    if tied is None or not tied.any():
        return ParsedChoices(items, pair_up(winner, loser, made))
    both = np.concatenate([np.where(tied, 1, 2) * made, made[tied]])
    check_counts(both, len(both))
    rankings = table_pairs(winner, loser, tied, made)
    winner, loser = np.concatenate([winner, loser[tied]]), np.concatenate([loser, winner[tied]])
    return ParsedChoices(items, pair_up(winner, loser, both), 2, rankings)


def _read_rankings(data: ChoiceData) -> ParsedChoices:
    for name, values in (("winners", data.winners), ("choice_sets", data.choice_sets)):
        if values is not None:
            raise InvalidSamples(f"rankings already contain {name}; give only one of them")
    if data.losers is not None or data.tied is not None:
        raise InvalidSamples("rankings need no losers; put tied items in a list of their own")
    rankings = _plain(data.rankings)
    if not rankings:
        raise InvalidSamples("there are no rankings; give at least one")
    rankings = [as_list(one) if hasattr(one, "tolist") else one for one in rankings]
    counts = data.counts
    if counts is not None and not (isinstance(counts, Sized) and len(counts) == len(rankings)):
        raise InvalidSamples(f"{len(rankings)} rankings and their counts must have equal lengths")
    times = check_counts(counts, len(rankings))
    unrolled = unroll(rankings)
    counts = np.array(unrolled.weights, np.int64) * times[unrolled.ranking]
    items, choices = number_choices(unrolled.winners, unrolled.choice_sets, counts)
    check_items(items)
    ranked = None if unrolled.parts == 1 else table_rankings(unrolled.places, items, times)
    return ParsedChoices(items, choices, unrolled.parts, ranked)


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


def _arrow_or_same(values: Any) -> Any:
    """A column converted to Arrow once; unchanged where Arrow cannot represent it."""
    array = as_arrow(values)
    return values if array is None else array


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
        raise InvalidSamples(f"only winners are given, without the sets they were chosen from; {HOW}")
    won, lost = [row[0] for row in rows], [row[1] for row in rows]
    if any(isinstance(one, list | set) for one in [*won, *lost]):
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
    indexes = [one.index for one in columns if library_of(one) == "pandas" and hasattr(one, "index")]
    if any(not index.equals(indexes[0]) for index in indexes):
        raise InvalidSamples(
            "the Series given have different indexes, so their rows may not belong together; give columns of "
            "one frame, or .reset_index(drop=True) of each"
        )
