"""Choices between items of any kind as numbered choices, once they are found sound."""

from array import array
from collections.abc import Collection, Mapping, Sequence, Sized
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from attomaton.corpora.samples import MAX_TOKENS
from attomaton.errors import InvalidSamples
from attomaton.graphs.grouping import count_keys, distinct_keys, find_keys, pack_pairs, unpack_pairs
from attomaton.ragged import occurs
from attomaton.tables import Int64

MOST_MADE = 1 << 53
"""Most choices made in all: beyond it floating point cannot count."""


class NumberedChoices(NamedTuple):
    """Numbered choices, sorted by winner: which items, how often each, stand in which choice set."""

    winner: Int64  # (n_choices,)
    made: Int64  # (n_choices,), how often
    choice: Int64  # (n_entries,), rising
    item: Int64  # (n_entries,)
    multiplicity: Int64  # (n_entries,)


def number_choices(
    winners: Sequence[Any], choice_sets: Sequence[Collection[Any]], counts: Sequence[int] | None
) -> tuple[tuple[Any, ...], NumberedChoices]:
    """The items and the numbered choices, once they are found sound."""
    given: dict[str, object] = {"winners": winners, "choice_sets": choice_sets, "counts": counts}
    for name, values in given.items():
        if values is not None and not isinstance(values, Sized):
            raise InvalidSamples(f"{name} is of type {type(values).__name__}, without a length; give a list")
    if len(winners) != len(choice_sets) or (counts is not None and len(counts) != len(winners)):
        sizes = f"{len(winners)} winners, {len(choice_sets)} choice sets"
        raise InvalidSamples(f"{sizes} and counts for them must be equally many; give one of each per choice")
    lengths = _measure_sets(choice_sets)
    items, numbers = _number_flat([*chain.from_iterable(choice_sets), *winners])
    flat, winner = np.split(numbers, [int(lengths.sum())])
    choice = np.repeat(np.arange(len(winners)), lengths)
    absent = ~occurs(choice[flat == winner[choice]], len(winner))
    if absent.any():
        first = int(np.flatnonzero(absent)[0])
        raise InvalidSamples(
            f"choice {first}: the winner {winners[first]!r} is not in its choice set; add it or drop both"
        )
    if len(items) >= MAX_TOKENS:
        raise InvalidSamples(f"{len(items):,} items; at most {MAX_TOKENS - 1:,} are supported")
    made = _check_counts(counts, len(winner))
    order = np.argsort(winner, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    keys, multiplicity = count_keys(pack_pairs(rank[choice], flat))
    choice, item = unpack_pairs(keys)
    return items, NumberedChoices(winner[order], made[order], choice, item.astype(np.int64), multiplicity)


def _number_flat(flat: list[Any]) -> tuple[tuple[Any, ...], Int64]:
    """The distinct items, and the number of each entry among them.

    Integers are numbered in rising order, which is faster; others as they first appear.
    """
    try:
        values = np.frombuffer(array("q", flat), np.int64)
    except (TypeError, OverflowError):  # not all are integers, or not of 64 bits
        number = _number_hashable(flat)
        return tuple(number), np.fromiter(map(number.__getitem__, flat), np.int64, len(flat))
    distinct = distinct_keys(values)
    return tuple(distinct.tolist()), find_keys(distinct, values)


def _number_hashable(flat: list[Any]) -> dict[Any, int]:
    """A number for each distinct item, as they first appear."""
    try:
        return {item: number for number, item in enumerate(dict.fromkeys(flat))}
    except TypeError as error:
        raise InvalidSamples(
            f"an item cannot be hashed ({error}); give items that can, such as tuples instead of lists"
        ) from error


def _measure_sets(choice_sets: Sequence[Collection[Any]]) -> Int64:
    """How many members each choice set has, repeats included, shape (n_choices,)."""
    kinds: set[type] = set(map(type, choice_sets))
    unfit: set[type] = {kind for kind in kinds if issubclass(kind, Mapping) or not issubclass(kind, Sized)}
    if unfit:
        place = next(place for place, members in enumerate(choice_sets) if type(members) in unfit)
        raise InvalidSamples(
            f"choice set {place} is of type {type(choice_sets[place]).__name__}; give a list, in "
            "which an item that is an option m times stands m times: repeat it"
        )
    return np.fromiter(map(len, choice_sets), np.int64, len(choice_sets))


def _check_counts(counts: Sequence[int] | None, n_choices: int) -> Int64:
    if counts is None:
        return np.ones(n_choices, np.int64)
    try:
        given = np.asarray(counts)
    except ValueError:  # ragged
        given = np.empty((0, 0))
    if given.ndim != 1 or (len(given) and not np.issubdtype(given.dtype, np.integer)) or (given < 1).any():
        raise InvalidSamples(
            "counts must be whole numbers from 1 on, one per choice; drop choices that were never made"
        )
    if given.sum(dtype=np.float64) > MOST_MADE:
        raise InvalidSamples(f"counts add up to more than {MOST_MADE:,}; divide all by a common factor")
    return given.astype(np.int64)
