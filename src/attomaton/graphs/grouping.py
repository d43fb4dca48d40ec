"""Sort and count integer keys, the primitive behind every table of this package."""

from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import pairwise
from typing import TypeVar, cast

import numpy as np

from attomaton.base.ragged import run_starts
from attomaton.base.tables import Bool, Int32, Int64, Integers
from attomaton.corpora.samples import MAX_TOKENS, TOKEN_BITS

SizedTable = TypeVar("SizedTable", bound=Sized)


def pack_pairs(owner: Integers, token: Integers) -> Int64:
    """One sortable key for each pair of an owner (a query, a sample) and a token."""
    return (owner.astype(np.int64) << TOKEN_BITS) | token


def unpack_pairs(keys: Int64) -> tuple[Int64, Int32]:
    """Owner and token of each key."""
    return keys >> TOKEN_BITS, (keys & (MAX_TOKENS - 1)).astype(np.int32)


def distinct_keys(keys: Int64) -> Int64:
    """The distinct keys, sorted (numpy's ``unique`` hashes and is ten times slower)."""
    if not len(keys):
        return keys
    first = int(keys.min())
    if int(keys.max()) - first < len(keys):  # close together: a table is faster still
        return np.flatnonzero(np.bincount(keys - first)) + first
    ordered = np.sort(keys)
    return ordered[run_starts(ordered)]


def count_keys(keys: Int64) -> tuple[Int64, Int64]:
    """The distinct keys, sorted, and the number of occurrences of each."""
    if not len(keys):
        return keys, keys
    ordered = np.sort(keys)
    first = run_starts(ordered)
    return ordered[first], np.diff(first, append=len(keys))


def stable_order(keys: Integers, size: int) -> Int64:
    """The stable ``np.argsort`` of keys in 0 … size − 1; key and index are sorted as one number."""
    bits = max(len(keys) - 1, 1).bit_length()  # of an index
    if max(size - 1, 1).bit_length() + bits > 63:  # bit 63 is the sign
        return np.argsort(keys, kind="stable")
    # The key in the high bits and the index in the low ones: equal keys are sorted by index.
    packed = keys.astype(np.int64) << bits
    packed |= np.arange(len(keys))
    packed.sort()
    packed &= (1 << bits) - 1  # the indices, in the new order
    return packed


def order_pairs(owner: Integers, token: Integers, size: int) -> Int64:
    """The order that stably sorts pairs of numbers in 0 … size − 1."""
    order = stable_order(token, size)  # by the second number first: the sort by owner preserves it
    return order[stable_order(owner[order], size)]


def sum_by_key(keys: Int64, *counts: Int64) -> tuple[Int64, ...]:
    """The distinct keys, sorted, then for each array of counts its sums over equal keys."""
    if not len(keys):
        return (keys, *counts)
    position = np.argsort(keys, kind="stable")  # merges the sorted runs that the callers concatenate
    ordered = keys[position]
    first = run_starts(ordered)
    return (ordered[first], *(np.add.reduceat(count[position], first) for count in counts))


def join_counted(shares: Sequence[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    """Concatenate shares of distinct sorted keys with counts; neighbouring shares may have equal keys."""
    filled = [(keys, counts) for keys, counts in shares if len(keys)]
    keys = np.concatenate([np.empty(0, np.int64), *(share[0] for share in filled)])
    counts = np.concatenate([np.empty(0, np.int64), *(share[1] for share in filled)])
    apart = all(first[-1] < second[0] for (first, _), (second, _) in pairwise(filled))
    return (keys, counts) if apart else cast("tuple[Int64, Int64]", sum_by_key(keys, counts))


def find_keys(ordered: Int64, keys: Int64) -> Int64:
    """``np.searchsorted(ordered, keys)`` for distinct ``ordered``; if they are dense, by a table (faster)."""
    first = int(ordered[0]) if len(ordered) else 0
    span = int(ordered[-1]) - first + 1 if len(ordered) else 0
    if not 0 < span <= len(keys):  # sparse, or empty
        return np.searchsorted(ordered, keys)
    follows_key = np.zeros(span + 1, np.int64)
    follows_key[ordered - first + 1] = 1
    n_smaller = np.cumsum(follows_key)  # n_smaller[x]: the number of ordered keys below first + x
    return n_smaller[np.clip(keys - first, 0, span)]


def find_rows(ordered: Int64, keys: Int64) -> tuple[Int64, Bool]:
    """The index of each of ``keys`` in the distinct, sorted ``ordered``, and which are present."""
    if not len(ordered):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
    rows = np.minimum(find_keys(ordered, keys), len(ordered) - 1)
    return rows, ordered[rows] == keys


def merge_as_they_come(
    tables: Iterable[SizedTable], merge: Callable[[list[SizedTable]], SizedTable]
) -> list[SizedTable]:
    """Merge tables as they arrive, neighbours of similar size, as in a merge sort; a few remain."""
    waiting: list[SizedTable] = []
    for table in tables:
        waiting.append(table)
        while len(waiting) > 1 and len(waiting[-2]) <= 2 * len(waiting[-1]):
            waiting[-2:] = [merge(waiting[-2:])]
    return waiting
