"""The compiled loops of :mod:`attomaton.graphs.choices`, with the same in numpy or Python for small corpora.

A choice set is a rising list of numbers, one for each distinct token: the token, then in the lower half how
often it stands in the context. So lists compare as choice sets do.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.kernels import compiled, compiled_within
from attomaton.base.ragged import offsets_of, ranges_of, rows_of
from attomaton.base.tables import Bool, Int32, Int64, ragged_column
from attomaton.graphs.grouping import count_keys, find_rows, pack_pairs, unpack_pairs
from attomaton.graphs.scanning import flatten
from attomaton.graphs.strong import sort_between

SEARCHED = 10
"""Entries that numpy searches for while Python looks at one."""

HALF = 32
"""Bits of a multiplicity."""

Sets = tuple[Int64, Int64]
"""``(offsets, entries)``: set i is ``entries[offsets[i]:offsets[i + 1]]``."""


class SortedContexts(NamedTuple):
    """The arrays of samples that are sorted by query and label: the fields of ``Samples``."""

    values: Int32
    starts: Int64
    stops: Int64
    labels: Int32


class Members(NamedTuple):
    """Who ties with whom: the tokens of query k are those in the rows ``borders[k] … borders[k + 1] − 1``.

    Tokens that are alone in their component are left out.
    """

    borders: Int64
    token: Int32
    component: Int64


def _collect_work(contexts: SortedContexts, members: Members, _: bool) -> float:
    return (float((contexts.stops - contexts.starts).sum()) + len(members.token)) / SEARCHED


def _collect_plain(contexts: SortedContexts, members: Members, whole: bool) -> tuple[Int64, Int64, Int64]:
    values, starts, stops, labels = contexts
    sample, place = flatten(starts, stops)
    queries = values[stops - 1]
    if not whole:
        own = _components_of(members, queries, labels)
        asked = own[sample] >= 0
        sample, place = sample[asked], place[asked]
        inside = _components_of(members, queries[sample], values[place]) == own[sample]
        sample, place = sample[inside], place[inside]
    keys, times = count_keys(pack_pairs(sample, values[place]))
    sample, token = unpack_pairs(keys)
    distinct = np.bincount(sample, minlength=len(starts))
    kept = distinct[sample] > 1
    rows = np.flatnonzero(distinct > 1)
    entries = (token[kept].astype(np.int64) << HALF) | times[kept]
    return rows, offsets_of(distinct[rows]), entries


def _components_of(members: Members, queries: Int32, tokens: Int32) -> Int64:
    keys = pack_pairs(rows_of(members.borders), members.token)
    rows, found = find_rows(keys, pack_pairs(queries, tokens))
    return np.where(found, members.component[rows] if len(keys) else -1, -1)


def _tied_work(_: Members, queries: Int32, __: Int32) -> float:
    return len(queries) / SEARCHED


def _tied_plain(members: Members, queries: Int32, labels: Int32) -> Bool:
    return _components_of(members, queries, labels) >= 0


@compiled(work=_tied_work, instead=_tied_plain)
def find_tied(members: Members, queries: Int32, labels: Int32) -> Bool:
    """Whether each label ties with another token under its query, shape (n_samples,)."""
    borders, token, _ = members
    tied = np.zeros(len(queries), np.bool_)
    for sample in range(len(queries)):
        label = labels[sample]
        low, high = borders[queries[sample]], borders[queries[sample] + 1]
        while low < high:
            middle = (low + high) // 2
            if token[middle] < label:
                low = middle + 1
            else:
                high = middle
        tied[sample] = low < borders[queries[sample] + 1] and token[low] == label
    return tied


@compiled(work=_collect_work, instead=_collect_plain)
def collect_sets(contexts: SortedContexts, members: Members, whole: bool) -> tuple[Int64, Int64, Int64]:
    """What each label was chosen from: the samples that chose from two tokens or more, and their sets.

    Returns the numbers of these samples and, as two arrays, their :data:`Sets`. Sets hold the tokens of the
    label's component; with ``whole``, all tokens of the context.
    """
    values, starts, stops, labels = contexts
    inside = np.full(len(members.borders) - 1, -1, np.int64)  # the component of each token under the query
    times = np.zeros(len(members.borders) - 1, np.int64)
    rows, offsets = np.empty(len(starts), np.int64), np.zeros(len(starts) + 1, np.int64)
    entries = np.empty((stops - starts).sum(), np.int64)
    n_rows = end = 0
    query = np.int64(-1)
    for sample in range(len(starts)):
        asked = np.int64(values[stops[sample] - 1])
        if asked != query and not whole:
            _turn_to(members, inside, query, asked)
        query, own = asked, inside[labels[sample]]
        if own < 0 and not whole:
            continue
        first = end
        end = _count_inside(values[starts[sample] : stops[sample]], inside, own, times, entries, first)
        if end - first < 2:
            end = first
            continue
        sort_between(entries, first, end)
        rows[n_rows] = sample
        n_rows += 1
        offsets[n_rows] = end
    return rows[:n_rows], offsets[: n_rows + 1], entries[:end]


@compiled_within
def _turn_to(members: Members, inside: Int64, query: Any, asked: Any) -> None:
    """Put the components of the tokens of ``asked`` into ``inside`` in place of those of ``query``."""
    borders, token, component = members
    if query >= 0:
        for row in range(borders[query], borders[query + 1]):
            inside[token[row]] = -1
    for row in range(borders[asked], borders[asked + 1]):
        inside[token[row]] = component[row]


@compiled_within
def _count_inside(context: Int32, inside: Int64, own: Any, times: Int64, entries: Int64, end: int) -> int:
    """Append the distinct tokens of a context that are in component ``own``, counted; where they end."""
    first = end
    for place in range(len(context)):
        token = context[place]
        if inside[token] == own:
            if times[token] == 0:
                entries[end] = token
                end += 1
            times[token] += 1
    for entry in range(first, end):
        one = entries[entry]
        entries[entry] = (one << HALF) | times[one]
        times[one] = 0
    return end


def _count_work(pairs: Int64, _: Int64, entries: Int64, __: Int64) -> float:
    return (2.0 * len(pairs) + len(entries)) / 10  # Python's own sort


def _count_plain(pairs: Int64, offsets: Int64, entries: Int64, counts: Int64) -> tuple[Int64, Int64]:
    first: dict[tuple[int, ...], int] = {}
    summed = np.zeros(len(pairs), np.int64)
    listed, borders = entries.tolist(), offsets.tolist()
    for row, pair in enumerate(pairs.tolist()):
        summed[first.setdefault((pair, *listed[borders[row] : borders[row + 1]]), row)] += counts[row]
    rows = np.array([first[key] for key in sorted(first)], np.int64)
    return rows, summed[rows]


@compiled(work=_count_work, instead=_count_plain)
def count_sets(pairs: Int64, offsets: Int64, entries: Int64, counts: Int64) -> tuple[Int64, Int64]:
    """The first of all equal choices, sorted, and the sum of their counts.

    ``pairs`` are the query and the winner of each choice, packed; they do not fall.
    """
    order, room = np.arange(len(pairs)), np.empty(len(pairs), np.int64)
    first = 0
    while first < len(pairs):
        end = first + 1
        while end < len(pairs) and pairs[end] == pairs[first]:
            end += 1
        _sort_sets(offsets, entries, order[first:end], room)
        first = end
    rows, summed = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    n_rows = 0
    for place in range(len(order)):
        row = order[place]
        if n_rows > 0:
            last = rows[n_rows - 1]
            if pairs[last] == pairs[row] and compare_sets(offsets, entries, last, row) == 0:
                summed[n_rows - 1] += counts[row]
                continue
        rows[n_rows], summed[n_rows] = row, counts[row]
        n_rows += 1
    return rows[:n_rows], summed[:n_rows]


@compiled_within
def _sort_sets(offsets: Int64, entries: Int64, order: Int64, room: Int64) -> None:
    """Sort the numbers of sets by the sets, equal ones in their order: runs are merged, pair by pair."""
    width = 1
    while width < len(order):
        for start in range(0, len(order) - width, 2 * width):
            _merge_runs(offsets, entries, order[start : start + 2 * width], width, room)
        width *= 2


@compiled_within
def _merge_runs(offsets: Int64, entries: Int64, order: Int64, width: int, room: Int64) -> None:
    """Merge the sorted runs ``order[:width]`` and ``order[width:]``."""
    for place in range(width):
        room[place] = order[place]
    one, other, place = 0, width, 0
    while one < width and other < len(order):
        if compare_sets(offsets, entries, order[other], room[one]) < 0:
            order[place] = order[other]
            other += 1
        else:
            order[place] = room[one]
            one += 1
        place += 1
    for left in range(one, width):
        order[place] = room[left]
        place += 1


@compiled_within
def compare_sets(offsets: Int64, entries: Int64, one: int, other: int) -> int:
    """Below 0 if the first set comes first, 0 if both are equal, above 0 otherwise."""
    start, length = offsets[one], offsets[one + 1] - offsets[one]
    begin, size = offsets[other], offsets[other + 1] - offsets[other]
    for place in range(min(length, size)):
        if entries[start + place] < entries[begin + place]:
            return -1
        if entries[start + place] > entries[begin + place]:
            return 1
    return int(length - size)


def members_of(borders: Int64, token: Int32, component: Int64, tied: Bool) -> Members:
    """The tokens that are not alone, of nodes sorted by query and token."""
    before = offsets_of(tied.astype(np.int64))
    return Members(before[borders], token[tied], component[tied])


def select_sets(offsets: Int64, entries: Int64, rows: Int64) -> tuple[Int64, Int32, Int32]:
    """The sets of these numbers, one after the other: offsets, tokens and multiplicities."""
    lengths = np.diff(offsets)[rows]
    chosen = entries[ranges_of(offsets[rows], lengths)]
    times = (chosen & ((1 << HALF) - 1)).astype(np.int32)
    return offsets_of(lengths), (chosen >> HALF).astype(np.int32), times


def join_lists(table: pa.Table) -> Sets:
    """The sets of a table with the columns ``tokens`` and ``multiplicities``."""
    offsets, tokens = ragged_column(table, "tokens")
    _, multiplicities = ragged_column(table, "multiplicities")
    return offsets, (tokens.astype(np.int64) << HALF) | multiplicities
