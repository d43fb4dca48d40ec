"""Check choices between items of any kind, and number them."""

from array import array
from collections.abc import Mapping, Sequence, Sized
from itertools import chain
from typing import Any, NamedTuple, cast
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from attomaton.base.errors import InvalidSamples
from attomaton.base.ragged import group_borders, occurs, rows_of
from attomaton.base.tables import Bool, Float64, Int64, ragged_column
from attomaton.graphs.choices import count_choices, make_choices
from attomaton.graphs.edges import EdgeTable, make_edges, pack_edges
from attomaton.graphs.grouping import (
    count_keys,
    distinct_keys,
    find_keys,
    pack_pairs,
    sum_by_key,
    unpack_pairs,
)

MOST_MADE = 1 << 53
"""Maximum total count of choices: float64 cannot count beyond it."""


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, NaT, pandas' NA, or text without a visible character."""
    if isinstance(value, str):
        return not value.strip()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.generic) and bool(value != value)


class BadRows(InvalidSamples):
    """Rows of a table that cannot be read; the message names the first of them.

    ``rows`` is a mask of the rows or their numbers, and what comes ``before`` and ``after`` the first row in
    the message is text.
    """

    def __init__(self, before: str, rows: Any, after: str, noun: str = "row") -> None:
        super().__init__(before, rows, after, noun)
        numbers = np.atleast_1d(rows)
        self.before, self.after, self.noun = before, after, noun
        self.rows: Int64 = np.flatnonzero(numbers) if numbers.dtype == bool else numbers

    def __str__(self) -> str:
        return self.locate(f"{self.noun} {self.rows[0]}")

    def locate(self, row: str) -> str:
        """The message with another name of the row, such as ``line 5 of games.csv``."""
        return f"{self.before}{row}{self.after}"


class SetChoices(NamedTuple):
    """Choices from sets of items, as supplied; an option that is there m times occurs m times."""

    winner: Int64  # (n_choices,)
    lengths: Int64  # (n_choices,)
    members: Int64  # (n_entries,), one set after the other
    row: Int64  # (n_choices,), the row of the data, or the ranking, that each comes from


class NumberedChoices(NamedTuple):
    """Numbered choices, sorted by winner: the items of each choice set, with multiplicity."""

    winner: Int64  # (n_choices,)
    times: Int64  # (n_choices,), how often
    choice: Int64  # (n_entries,), ascending
    item: Int64  # (n_entries,)
    multiplicity: Int64  # (n_entries,)

    def select(self, entries: Bool, choices: Bool) -> "NumberedChoices":
        """Some entries of some choices."""
        entries = entries & choices[self.choice]
        choice = (np.cumsum(choices) - 1)[self.choice[entries]]
        return NumberedChoices(
            self.winner[choices], self.times[choices], choice, self.item[entries], self.multiplicity[entries]
        )


class ItemTally(NamedTuple):
    """For each item the choices it won and the others that included it (a tie: half); all choices; ties."""

    wins: Float64
    losses: Float64
    n_choices: float
    n_ties: float


def make_item_edges(winner: Int64, loser: Int64, support: Int64, n_items: int) -> EdgeTable:
    """Edges between items, with the query, which every item beats, so that every item is a node."""
    query, items = np.full(len(winner), n_items), np.arange(n_items)
    under = np.full(n_items, n_items)
    keys = np.concatenate([pack_edges(query, winner, loser), pack_edges(under, items, under)])
    order = np.argsort(keys)
    support = np.concatenate([support, np.ones(n_items, np.int64)])
    total = np.array([int(support.sum())])
    return make_edges(
        n_items + 1, keys[order], support[order], np.array([n_items]), total, np.zeros_like(total)
    )


def number_choices(
    winners: Sequence[Any], choice_sets: Sequence[Any], counts: object = None
) -> tuple[tuple[Any, ...], SetChoices]:
    """Check the choices; return the items and the numbered choices."""
    for name, values in (("winners", winners), ("choice_sets", choice_sets), ("counts", counts)):
        if values is not None and not isinstance(values, Sized):
            raise InvalidSamples(f"{name} is of type {type(values).__name__}, without a length; give a list")
    sized = cast("Sized | None", counts)
    if len(winners) != len(choice_sets) or (sized is not None and len(sized) != len(winners)):
        sizes = f"{len(winners)} winners, {len(choice_sets)} choice sets"
        raise InvalidSamples(f"{sizes} and their counts must have equal lengths; give one of each per choice")
    kinds: set[type[Any]] = set(map(type, choice_sets))
    fits = {kind: issubclass(kind, Sized) and not issubclass(kind, Mapping | str | bytes) for kind in kinds}
    if not all(fits.values()):
        bad = [not fits[type(members)] for members in choice_sets]
        members = choice_sets[bad.index(True)]
        fault = (
            f" is the string {members!r}; give a list of items (list({members!r}) for single characters), or "
            "use losers=… if each row has one loser"
            if isinstance(members, str | bytes)
            else f" is of type {type(members).__name__}; give a list, in which an item that is an option m "
            "times occurs m times"
        )
        raise BadRows("", bad, fault, noun="choice set")
    lengths = np.fromiter(map(len, choice_sets), np.int64, len(choice_sets))
    flat_items = [*chain.from_iterable(choice_sets), *winners]
    try:
        values = np.frombuffer(array("q", flat_items), np.int64)
    except (TypeError, OverflowError):  # not all are 64-bit integers
        items, numbers = number_hashable(flat_items)
    else:  # integers are numbered in ascending order, which is faster
        distinct = distinct_keys(values)
        items, numbers = tuple(distinct.tolist()), find_keys(distinct, values)
    flat, winner = np.split(numbers, [int(lengths.sum())])
    choice = np.repeat(np.arange(len(winners)), lengths)
    absent = ~occurs(choice[flat == winner[choice]], len(winner))
    if absent.any():
        raise BadRows(
            "",
            absent,
            f": the winner {winners[int(np.argmax(absent))]!r} is not in its choice set; add it, drop the "
            "choice, or use losers=… if these are losers",
            noun="choice",
        )
    return items, SetChoices(winner, lengths, flat, np.arange(len(winner)))


def arrange(sets: SetChoices, counts: Int64) -> NumberedChoices:
    """Choices from sets, sorted by winner, with the multiplicity of each option and equal ones added up."""
    choice = np.repeat(np.arange(len(sets.winner)), sets.lengths)
    keys, multiplicity = count_keys(pack_pairs(choice, sets.members))
    choice, item = unpack_pairs(keys)
    offsets, nobody = group_borders(choice, len(sets.winner)), np.zeros(len(sets.winner), np.int32)
    winner, times = sets.winner.astype(np.int32), multiplicity.astype(np.int32)
    table = count_choices([make_choices(nobody, winner, offsets, item, times, counts)])
    (offsets, item), (_, times) = (ragged_column(table.rows, name) for name in ("tokens", "multiplicities"))
    columns = table["winner"], table["count"], rows_of(offsets), item, times
    return NumberedChoices(*(column.astype(np.int64) for column in columns))


def pair_up(winner: Int64, loser: Int64, times: Int64) -> NumberedChoices:
    """Numbered choices from pairs of different items, with equal pairs added up."""
    keys, times = sum_by_key(pack_pairs(winner, loser), times)
    winner, low_loser = unpack_pairs(keys)
    loser = low_loser.astype(np.int64)
    members = np.column_stack([np.minimum(winner, loser), np.maximum(winner, loser)]).ravel()
    choice = np.repeat(np.arange(len(winner)), 2)
    return NumberedChoices(winner, times, choice, members, np.ones_like(members))


def check_items(items: Sequence[Any]) -> None:
    """Reject missing items, and items that differ only in spelling."""
    missing = [item for item in items if is_missing(item)]
    if missing:
        raise InvalidSamples(f"an item is missing ({missing[0]!r}); drop its choices, or name it")
    number = next(
        (item for item in items if isinstance(item, int | float) and not isinstance(item, bool)), None
    )
    text = next((item for item in items if isinstance(item, str | bytes | bool)), None)
    if number is not None and text is not None:
        raise InvalidSamples(
            f"items are of different types, such as {text!r} and {number!r}; convert all to text, or all "
            "to numbers"
        )
    names: dict[str, str] = {}
    for item in items:
        if not isinstance(item, str):
            continue
        plain = " ".join((item if item.isascii() else normalize("NFC", item)).split())
        if names.setdefault(plain, item) != item:
            raise InvalidSamples(
                f"the items {names[plain]!r} and {item!r} look alike but differ in whitespace or in "
                "Unicode normalization; write them the same way (in pandas: .str.strip(), "
                ".str.normalize('NFC'))"
            )


def check_unrolled(n_entries: int, n_items: int, usual: int) -> None:
    """Reject large sets, whose choices have the square of their size as entries: more than is usual."""
    most = max(usual, 32 * n_items)
    if n_entries > most:
        raise InvalidSamples(
            f"the choices have {n_entries:,} alternatives in all, as every item is compared with every "
            f"other; {most:,} are supported: give the first items of each ranking, or smaller sets"
        )


def counts_of(counts: object, n_choices: int) -> NDArray[Any]:
    """The count of each choice, shape (n_choices,): int64 if all are whole, else float64; None means 1.

    A choice that was never made has the count 0.
    """
    if counts is None:
        return np.ones(n_choices, np.int64)
    try:
        values = np.asarray(counts)
    except ValueError:  # ragged
        values = np.empty((0, 0))
    numbers = values.ndim == 1 and (not len(values) or values.dtype.kind in "iuf")
    with np.errstate(invalid="ignore"):
        wrong: Any = ~((values >= 0) & (values < np.inf)) if numbers and len(values) else np.zeros(0, bool)
    if not numbers:
        raise InvalidSamples("counts must be numbers, at least 0, one per choice; give one for each")
    if wrong.any():
        value = values[np.argmax(wrong)]
        shown = "missing" if np.isnan(value) else f"{value:g}"
        raise BadRows("the count in ", wrong, f" is {shown}; give a finite number, at least 0")
    if len(values) and not values.any():
        raise InvalidSamples("all counts are 0, so no choice was made; give at least one count above 0")
    if values.sum(dtype=np.float64) > MOST_MADE:
        raise InvalidSamples(f"counts add up to more than {MOST_MADE:,}; divide all by a common factor")
    return values.astype(np.int64 if (values % 1 == 0).all() else np.float64)


def number_hashable(flat: Sequence[Any]) -> tuple[tuple[Any, ...], Int64]:
    """The distinct items in order of first appearance, and the item number of each entry."""
    try:
        number = {item: number for number, item in enumerate(dict.fromkeys(flat))}
    except TypeError as error:
        raise InvalidSamples(
            f"an item cannot be hashed ({error}); give items that can, such as tuples instead of lists"
        ) from error
    odd = [item for item in number if not isinstance(item, str | None) and is_missing(item)]
    if odd:
        raise InvalidSamples(
            f"an item is {odd[0]!r}, which does not equal itself; drop its choices, or name it"
        )
    return tuple(number), np.fromiter(map(number.__getitem__, flat), np.int64, len(flat))
