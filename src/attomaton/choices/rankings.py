"""Rankings as choices, by :func:`unroll`: the first item is chosen from all, the second from the others.

A ranking is a list of *tiers*, best first; a tier is the items with one rank.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, combinations
from math import comb, lcm
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Bool, Int64, make_table
from attomaton.choices.numbering import BadRows, check_unrolled, is_missing
from attomaton.graphs.grouping import pack_pairs, sum_by_key, unpack_pairs

# Counted rankings: the numbers of the items, best first, and their ranks from 0; tied items share one.
RANKING_SCHEMA = pa.schema(
    [("items", pa.large_list(pa.int32())), ("places", pa.large_list(pa.int32())), ("count", pa.int64())]
)

MOST_UNROLLED = 3_000_000  # entries of choice sets that are always allowed; they need 0.8 GB

LARGEST_TIE = 6  # most items that can tie: every subset of them becomes a choice set


class Unrolled(NamedTuple):
    """The choices of rankings, and the rankings as tiers."""

    winners: list[Any]
    choice_sets: list[list[Any]]
    weights: list[int]  # how often each choice counts, in units of 1 / denominator
    ranking: list[int]  # the ranking that each choice comes from
    denominator: int
    tiers: list[list[list[Any]]]


def unroll(rankings: Sequence[Any]) -> Unrolled:
    """The choices of rankings; tied items count as the average over all their orders."""
    tiered = list[list[list[Any]]]()
    faults = dict[int, str]()
    for number, ranking in enumerate(rankings):
        fault = _find_fault(ranking)
        if fault:
            faults[number] = fault
        else:
            tiered.append(_tiers(ranking))
    if faults:
        raise BadRows("", list(faults), f" {next(iter(faults.values()))}", noun="ranking")
    sizes = [[len(tier) for tier in reversed(tiers)] for tiers in tiered]  # the last tier first
    # At most: each winner of a tier, with each subset of the items tied with it, and all items below.
    n_entries = sum(
        size * 2 ** (size - 1) * n_from_here
        for of_ranking in sizes
        for size, n_from_here in zip(of_ranking, accumulate(of_ranking), strict=True)
    )
    check_unrolled(n_entries, sum(map(sum, sizes)), MOST_UNROLLED)
    denominator = denominator_of(size for of_ranking in sizes for size in of_ranking)
    choices = Unrolled([], [], [], [], denominator, tiered)
    for number, tiers in enumerate(tiered):
        for winner, members, weight in choices_of_tiers(tiers, denominator):
            choices.winners.append(winner)
            choices.choice_sets.append(members)
            choices.weights.append(weight)
            choices.ranking.append(number)
    return choices


def denominator_of(sizes: Iterable[int]) -> int:
    """The common denominator of the weights of choices, from the sizes of tiers; 1 without ties."""
    # A weight is 1 / (size · C(size − 1, k)), where k of the tied items are still in the set.
    return lcm(*(size * comb(size - 1, chosen) for size in set(sizes) for chosen in range(size)))


def choices_of_tiers(tiers: list[list[Any]], denominator: int) -> Iterator[tuple[Any, list[Any], int]]:
    """The choices of one ranking: winner, choice set, and weight times the denominator."""
    # In a random order of n tied items, exactly k given items come after a winner with a probability of
    # 1 / (n C(n − 1, k)): this is the weight of its choice from these k items and all lower tiers.
    remaining = [item for tier in tiers for item in tier]
    if len(remaining) == 1:
        yield remaining[0], remaining, denominator  # no preference, but an item
    for tier in tiers:
        remaining = remaining[len(tier) :]  # the items of lower tiers
        for winner in tier:
            tied = [item for item in tier if item != winner]
            for n_with in range(len(tier)):  # number of tied items that are still in the set
                weight = denominator // (len(tier) * comb(len(tied), n_with))
                for subset in combinations(tied, n_with):
                    if subset or remaining:
                        yield winner, [winner, *subset, *remaining], weight


# The tiers of a ranking as given, in which only ties are lists or sets.
def _tiers(ranking: Collection[Any]) -> list[list[Any]]:
    return [list(cast("list[Any]", tier)) if isinstance(tier, list | set) else [tier] for tier in ranking]


# What is wrong with a ranking, as the end of a sentence; empty if nothing is.
def _find_fault(ranking: Any) -> str:
    if isinstance(ranking, str | bytes | Mapping) or not isinstance(ranking, Collection):
        kind = "the text " + repr(cast("object", ranking)) if isinstance(ranking, str) else "not a list"
        return f"is {kind}; give a list of items, the best first"
    if isinstance(ranking, set | frozenset):
        return "is a set, which has no order; give a list of items, the best first"
    tiers = _tiers(cast("Collection[Any]", ranking))
    if len({isinstance(item, tuple) for tier in tiers for item in tier}) > 1:
        return "contains a tuple and other items; if the tuple is a tie, replace it by a list"
    largest = max(map(len, tiers), default=0)
    if largest > LARGEST_TIE:
        return f"has a tie of {largest} items; split ties of more than {LARGEST_TIE} items"
    if not tiers or not all(tiers):
        return "ranks no item or contains an empty tie; drop the row (on the command line: --skip-bad)"
    items = [item for tier in tiers for item in tier]
    missing = [item for item in items if is_missing(item)]
    if missing:
        return f"contains a missing item ({missing[0]!r}); remove it, or give it a name"
    try:
        distinct = set(items)
    except TypeError as error:
        return f"contains an item that is not hashable ({error}); give tuples instead of lists"
    if len(distinct) < len(items):
        twice = next(item for item, times in Counter(items).items() if times > 1)
        return f"contains {twice!r} more than once; list each item once"
    return ""


def table_rankings(tiered: Sequence[list[list[Any]]], items: Sequence[Any], count: Int64) -> pa.Table:
    """Counted rankings as a table with ``RANKING_SCHEMA``."""
    number = {item: index for index, item in enumerate(items)}
    flat = [(number[item], rank) for tiers in tiered for rank, tier in enumerate(tiers) for item in tier]
    offsets = offsets_of(np.array([sum(map(len, tiers)) for tiers in tiered]))
    columns = [(offsets, np.array(values, np.int32)) for values in zip(*flat, strict=True)]
    return make_table(RANKING_SCHEMA, {"items": columns[0], "places": columns[1], "count": count})


def table_pairs(winner: Int64, loser: Int64, tied: Bool, count: Int64) -> pa.Table:
    """Pairs as rankings of two items, with the counts of equal pairs added up."""
    wins, win_counts = sum_by_key(pack_pairs(winner[~tied], loser[~tied]), count[~tied])
    low, high = np.minimum(winner[tied], loser[tied]), np.maximum(winner[tied], loser[tied])
    ties, tie_counts = sum_by_key(pack_pairs(low, high), count[tied])
    pairs = np.concatenate([wins, ties])  # packed: the first item is the winner, or has the lower number
    items = np.column_stack(unpack_pairs(pairs)).ravel().astype(np.int32)
    second_place = (np.arange(len(pairs)) < len(wins)).astype(np.int32)  # 1 after a win, 0 in a tie
    places = np.column_stack([np.zeros_like(second_place), second_place]).ravel()
    offsets = 2 * np.arange(len(pairs) + 1)
    columns = {"items": (offsets, items), "places": (offsets, places)}
    return make_table(RANKING_SCHEMA, {**columns, "count": np.concatenate([win_counts, tie_counts])})
