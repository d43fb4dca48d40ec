"""Choice sets: the tokens from which each label was chosen, in its component or in the whole context.

Inside components this is the reduced data of the soft problem: each realisable context is restricted to the
tokens of the label's component. Whole contexts give the training loss itself. Either way a sample left with
one distinct token carries no information and is dropped; equal rows are counted.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.borders import check_counts, check_ids, check_ids_of, check_rising, check_table, trusted
from attomaton.base.errors import MismatchedParts
from attomaton.base.kernels import compiled, compiled_within
from attomaton.base.machine import share_out
from attomaton.base.options import check_threads
from attomaton.base.ragged import offsets_of, ranges_of, rows_of
from attomaton.base.tables import Bool, Int32, Int64, bytes_to_rows, make_table, ragged_column
from attomaton.corpora.samples import MAX_TOKENS, Samples
from attomaton.graphs.bags import cut_shares, flatten, order_samples
from attomaton.graphs.components import Components
from attomaton.graphs.edges import CHUNK_VALUES, RowTable
from attomaton.graphs.grouping import count_keys, find_rows, order_pairs, pack_pairs, unpack_pairs
from attomaton.graphs.strong import sort_between

SEARCHED = 10
"""Entries that numpy searches in the time Python takes for one."""

HALF = 32
"""Bits of a multiplicity."""

RANKED = 64
"""Sets up to this size are sorted by counting, which is quadratic but has no branches."""

Sets = tuple[Int64, Int64]
"""``(offsets, entries)``: set i is ``entries[offsets[i]:offsets[i + 1]]``."""


class SortedContexts(NamedTuple):
    """The arrays of samples sorted by query and label: the fields of ``Samples``."""

    values: Int32
    starts: Int64
    stops: Int64
    labels: Int32


class Members(NamedTuple):
    """Which tokens tie: the tokens of query k are in the rows ``borders[k] … borders[k + 1] − 1``.

    Tokens alone in their component are left out; components are numbered by query and smallest token.
    """

    borders: Int64
    token: Int32
    component: Int64


def _collect_work(contexts: SortedContexts, members: Members, _: bool) -> float:
    return (float((contexts.stops - contexts.starts).sum()) + len(members.token)) / SEARCHED


def _collect_plain(contexts: SortedContexts, members: Members, whole: bool) -> tuple[Int64, Int64, Int64]:
    values, starts, stops, labels = contexts
    sample, position = flatten(starts, stops)
    queries = values[stops - 1]
    if not whole:
        own = _components_of(members, queries, labels)
        tied = own[sample] >= 0
        sample, position = sample[tied], position[tied]
        inside = _components_of(members, queries[sample], values[position]) == own[sample]
        sample, position = sample[inside], position[inside]
    keys, times = count_keys(pack_pairs(sample, values[position]))
    sample, token = unpack_pairs(keys)
    distinct = np.bincount(sample, minlength=len(starts))
    several = distinct[sample] > 1
    rows = np.flatnonzero(distinct > 1)
    entries = (token[several].astype(np.int64) << HALF) | times[several]
    return rows, offsets_of(distinct[rows]), entries


def _components_of(members: Members, queries: Int32, tokens: Int32) -> Int64:
    keys = pack_pairs(rows_of(members.borders), members.token)
    rows, is_node = find_rows(keys, pack_pairs(queries, tokens))
    return np.where(is_node, members.component[rows] if len(keys) else -1, -1)


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
    """The choice set of each label: the samples that choose among at least two tokens, and their sets.

    Returns the numbers of these samples and their :data:`Sets` of the tokens of the label's component; with
    ``whole``, of all tokens of the context.
    """
    values, starts, stops, labels = contexts
    borders, token, component = members
    inside = np.full(len(borders) - 1, -1, np.int64)  # components, numbered by query: older ones are smaller
    times = np.zeros(len(borders) - 1, np.int64)
    rows, offsets = np.empty(len(starts), np.int64), np.zeros(len(starts) + 1, np.int64)
    entries, room = np.empty((stops - starts).sum(), np.int64), np.empty(RANKED, np.int64)
    n_rows = end = 0
    query = np.int64(-1)
    for sample in range(len(starts)):
        following = np.int64(values[stops[sample] - 1])
        if following != query and not whole:
            for row in range(np.uint64(borders[following]), np.uint64(borders[following + 1])):
                inside[np.uint64(token[row])] = component[row]
        query, own = following, inside[labels[sample]]
        alone = borders[query] == borders[query + 1] or own < component[borders[query]]
        if alone and not whole:
            continue
        first = end
        end = _count_inside(values[starts[sample] : stops[sample]], inside, own, times, entries, first)
        if end - first < 2:
            end = first
            continue
        _sort_set(entries, first, end, room)
        rows[n_rows] = sample
        n_rows += 1
        offsets[n_rows] = end
    return rows[:n_rows], offsets[: n_rows + 1], entries[:end]


@compiled_within
def _count_inside(context: Int32, inside: Int64, own: Any, times: Int64, entries: Int64, end: int) -> int:
    """Append the distinct tokens of a context in component ``own``, with counts; return where they end."""
    first = np.uint64(end)
    for position in range(np.uint64(len(context))):
        token = np.uint64(context[position])
        if inside[token] == own:
            entries[np.uint64(end)] = token  # kept if it is new
            end += times[token] == 0
            times[token] += 1
    for entry in range(first, np.uint64(end)):
        token = np.uint64(entries[entry])
        entries[entry] = (np.int64(token) << HALF) | times[token]
        times[token] = 0
    return end


@compiled_within
def _sort_set(entries: Int64, first: int, end: int, room: Int64) -> None:
    """Sort the distinct ``entries[first:end]``; if they are few, by counting the smaller ones of each."""
    if end - first > len(room):
        sort_between(entries, first, end)
        return
    size = np.uint64(end - first)
    for place in range(size):
        room[place] = entries[np.uint64(first) + place]
    for place in range(size):
        rank = first
        for other in range(size):
            rank += room[other] < room[place]
        entries[np.uint64(rank)] = room[place]


def _count_work(order: Int64, _: Int64, __: Int64, entries: Int64, ___: Int64) -> float:
    return (2.0 * len(order) + len(entries)) / 10  # Python's own sort


def _count_plain(
    order: Int64, pairs: Int64, offsets: Int64, entries: Int64, counts: Int64
) -> tuple[Int64, Int64]:
    first: dict[tuple[int, ...], int] = {}
    summed = np.zeros(len(pairs), np.int64)
    listed, borders = entries.tolist(), offsets.tolist()
    for row in order.tolist():
        key = (int(pairs[row]), *listed[borders[row] : borders[row + 1]])
        summed[first.setdefault(key, row)] += counts[row]
    rows = np.array([first[key] for key in sorted(first)], np.int64)
    return rows, summed[rows]


@compiled(work=_count_work, instead=_count_plain)
def count_sets(
    order: Int64, pairs: Int64, offsets: Int64, entries: Int64, counts: Int64
) -> tuple[Int64, Int64]:
    """The first of each group of equal choices, sorted, and the sums of their counts.

    ``pairs`` are the packed query and winner of each choice; ``order`` sorts the choices by these.
    """
    order, room = order.copy(), np.empty(len(order), np.int64)
    first = 0
    while first < len(order):
        end = first + 1
        while end < len(order) and pairs[order[end]] == pairs[order[first]]:
            end += 1
        _sort_sets(offsets, entries, order[first:end], room)
        first = end
    rows, summed = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    n_rows = 0
    for rank in range(len(order)):
        row = order[rank]
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
    """Stably sort the numbers of sets by the sets: a bottom-up merge sort."""
    width = 1
    while width < len(order):
        for start in range(0, len(order) - width, 2 * width):
            _merge_runs(offsets, entries, order[start : start + 2 * width], width, room)
        width *= 2


@compiled_within
def _merge_runs(offsets: Int64, entries: Int64, order: Int64, width: int, room: Int64) -> None:
    """Merge the sorted runs ``order[:width]`` and ``order[width:]``."""
    for rank in range(width):
        room[rank] = order[rank]
    left_run, right_run, rank = 0, width, 0
    while left_run < width and right_run < len(order):
        if compare_sets(offsets, entries, order[right_run], room[left_run]) < 0:
            order[rank] = order[right_run]
            right_run += 1
        else:
            order[rank] = room[left_run]
            left_run += 1
        rank += 1
    for rest in range(left_run, width):
        order[rank] = room[rest]
        rank += 1


@compiled_within
def compare_sets(offsets: Int64, entries: Int64, first: int, second: int) -> int:
    """Below 0 if the first set comes first, 0 if both are equal, above 0 otherwise."""
    start, length = offsets[first], offsets[first + 1] - offsets[first]
    begin, size = offsets[second], offsets[second + 1] - offsets[second]
    for entry in range(min(length, size)):
        if entries[start + entry] < entries[begin + entry]:
            return -1
        if entries[start + entry] > entries[begin + entry]:
            return 1
    return int(length - size)


CHOICE_SCHEMA = pa.schema(
    [
        ("query", pa.int32()),
        ("winner", pa.int32()),
        ("tokens", pa.large_list(pa.int32())),
        ("multiplicities", pa.large_list(pa.int32())),
        ("count", pa.int64()),
    ]
)
CHOICE_FILE: dict[str, Any] = {
    "compression": "lz4",
    "use_dictionary": ["query", "winner", "count"],
    "column_encoding": {
        "tokens.list.element": "BYTE_STREAM_SPLIT",
        "multiplicities.list.element": "DELTA_BINARY_PACKED",
    },
}
"""Parquet options of choices."""


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceTable(RowTable):
    """Counted choices.

    Attributes
    ----------
    rows : pyarrow.Table
        Columns query, winner (int32), tokens, multiplicities (lists of int32: the choice set, sorted, and how
        often each token occurs in the context) and count (int64, the number of samples equal to this row).
        Sorted by query, winner and choice set.

    Examples
    --------
    >>> samples = Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    >>> choices = extract_choices(samples)
    >>> choices, choices["winner"].tolist(), choices["count"].tolist()
    (ChoiceTable(2 distinct choices, 4 in all), [0, 1], [3, 1])
    >>> (choices + choices)["count"].tolist()
    [6, 2]
    """

    rows: pa.Table

    def __post_init__(self) -> None:
        """Check the arrays, so that compiled code can trust them."""
        check_table(self.rows, CHOICE_SCHEMA, "the choice table")
        check_ids_of(self.rows, {"query": MAX_TOKENS, "winner": MAX_TOKENS}, "the choice table")
        check_rising(self["query"], "the choice table, by query,", strictly=False)
        check_counts(self["count"], 1, "count in the choice table")
        offsets, tokens = ragged_column(self.rows, "tokens")
        other_offsets, multiplicities = ragged_column(self.rows, "multiplicities")
        if not np.array_equal(offsets, other_offsets):
            raise MismatchedParts("a choice set has more or fewer multiplicities than tokens; give one each")
        check_ids(tokens, MAX_TOKENS, "a token of the choice sets")
        check_counts(multiplicities, 1, "a multiplicity of the choice sets")
        lengths = np.diff(offsets)
        begins = np.zeros(len(tokens) + 1, bool)
        begins[offsets] = True
        if (lengths < 2).any() or ((tokens[1:] <= tokens[:-1]) & ~begins[1:-1]).any():
            raise MismatchedParts("a choice set is unsorted, or below two tokens; use extract_choices")
        chosen = np.flatnonzero(tokens == np.repeat(self["winner"], lengths))
        if len(chosen) != len(self):
            raise MismatchedParts("a winner is not in its choice set; use extract_choices")

    def __repr__(self) -> str:
        return f"ChoiceTable({len(self):,} distinct choices, {int(self['count'].sum()):,} in all)"

    def __add__(self, other: "ChoiceTable") -> "ChoiceTable":
        """The choices of two corpora, both restricted to the same components or both of whole contexts."""
        return count_choices([self, other])


def extract_choices(
    samples: Samples, components: Components | None = None, *, threads: int | None = None
) -> ChoiceTable:
    """Count the choices inside each label's component, or in whole contexts.

    Parameters
    ----------
    samples : Samples
        The corpus; samples whose label is not in the context are left out.
    components : Components, optional
        Choice sets are restricted to the label's component. None means whole realisable contexts.
    threads : int, optional
        Number of threads; by default one per processor.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = Samples.from_lists([[0, 0, 1, 2], [1, 0, 2], [0, 2]], [0, 1, 0])
    >>> choices = extract_choices(samples, at.find_components(at.extract_edges(samples)))
    >>> choices.rows.to_pylist()[0]
    {'query': 2, 'winner': 0, 'tokens': [0, 1], 'multiplicities': [2, 1], 'count': 1}
    >>> extract_choices(samples).rows.to_pylist()[1]
    {'query': 2, 'winner': 0, 'tokens': [0, 1, 2], 'multiplicities': [2, 1, 1], 'count': 1}
    """
    threads = check_threads(threads)
    members = members_inside(components, samples.n_tokens)

    def count_share(share: Samples) -> ChoiceTable:
        values = np.ascontiguousarray(share.values)
        contexts = SortedContexts(values, share.starts, share.stops, share.labels)
        rows, offsets, entries = collect_sets(contexts, members, components is None)
        pairs = pack_pairs(share.queries[rows], share.labels[rows])
        return _count_pairs(np.arange(len(rows)), pairs, offsets, entries, np.ones(len(rows), np.int64))

    shares = cut_shares(order_samples(samples), CHUNK_VALUES, threads)
    counted = [part for part in share_out(count_share, shares, threads) if len(part)]
    if len(counted) == 1:
        return counted[0]
    ends = [pack_pairs(part["query"][[0, -1]], part["winner"][[0, -1]]) for part in counted]
    if not counted or any(first[1] >= second[0] for first, second in pairwise(ends)):
        return count_choices(counted)  # the choices of a winner are in several shares
    return trusted(ChoiceTable, rows=pa.concat_tables([part.rows for part in counted]).combine_chunks())


def choices_by_definition(
    samples: Samples, components: Components | None = None
) -> Counter[tuple[int, int, tuple[tuple[int, int], ...]]]:
    """The plain definition: (query, winner, ((token, multiplicity), …)) → count."""
    rows = [] if components is None else components.nodes.to_pylist()
    component_of = {(row["query"], row["token"]): row["component"] for row in rows}
    choices: Counter[tuple[int, int, tuple[tuple[int, int], ...]]] = Counter()
    for context, label in samples:
        query = context[-1]
        if label in context and (components is None or (query, label) in component_of):
            own = component_of.get((query, label))
            inside = Counter(token for token in context if component_of.get((query, token)) == own)
            if len(inside) > 1:
                choices[query, label, tuple(sorted(inside.items()))] += 1
    return choices


def members_inside(components: Components | None, n_tokens: int) -> Members:
    """Which tokens tie inside components, for a vocabulary of ``n_tokens``; None means that none do."""
    if components is None:
        return Members(np.zeros(n_tokens + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
    borders, token, component = components.tied
    unknown = np.full(max(n_tokens - components.edges.n_tokens, 0), len(token))
    return Members(np.concatenate([borders, unknown]), token, component)


def _count_pairs(order: Int64, pairs: Int64, offsets: Int64, entries: Int64, counts: Int64) -> ChoiceTable:
    """Equal choices summed and sorted; ``order`` sorts them by ``pairs`` of query and winner."""
    rows, summed = count_sets(order, pairs, offsets, entries, counts)
    query, winner = unpack_pairs(pairs[rows])
    sets = take_sets(rows, offsets, entries)
    return make_choices(query.astype(np.int32), winner, *sets, summed)


def _take_plain(rows: Int64, offsets: Int64, entries: Int64) -> tuple[Int64, Int32, Int32]:
    lengths = np.diff(offsets)[rows]
    taken = entries[ranges_of(offsets[rows], lengths)]
    return offsets_of(lengths), (taken >> HALF).astype(np.int32), (taken & ((1 << HALF) - 1)).astype(np.int32)


def _take_work(rows: Int64, _: Int64, entries: Int64) -> float:
    return (len(rows) + len(entries)) / SEARCHED


@compiled(work=_take_work, instead=_take_plain)
def take_sets(rows: Int64, offsets: Int64, entries: Int64) -> tuple[Int64, Int32, Int32]:
    """Offsets, tokens and multiplicities of some sets, in this order."""
    ends = np.zeros(len(rows) + 1, np.int64)
    for rank in range(len(rows)):
        ends[rank + 1] = ends[rank] + offsets[rows[rank] + 1] - offsets[rows[rank]]
    tokens, times = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.int32)
    for rank in range(len(rows)):
        shift = offsets[rows[rank]] - ends[rank]
        for place in range(ends[rank], ends[rank + 1]):
            entry = entries[place + shift]
            tokens[place], times[place] = entry >> HALF, entry & ((1 << HALF) - 1)
    return ends, tokens, times


def make_choices(
    query: Int32, winner: Int32, offsets: Int64, tokens: Int32, multiplicities: Int32, count: Int64
) -> ChoiceTable:
    """A choice table from its columns; ``offsets`` are those of both lists."""
    columns = {
        "query": query,
        "winner": winner,
        "tokens": (offsets, tokens),
        "multiplicities": (offsets, multiplicities),
        "count": count,
    }
    return trusted(ChoiceTable, rows=make_table(CHOICE_SCHEMA, columns))


def count_choices(parts: list[ChoiceTable]) -> ChoiceTable:
    """Equal rows summed, sorted by query, winner and choice set."""
    nothing = np.empty(0, np.int64)
    tokens, times = (
        [ragged_column(part.rows, name) for part in parts] for name in ("tokens", "multiplicities")
    )
    lengths = np.concatenate([nothing, *(np.diff(offsets) for offsets, _ in tokens)])
    entries = np.concatenate([nothing, *(values for _, values in tokens)]) << HALF
    entries |= np.concatenate([nothing, *(values for _, values in times)])
    query, winner, counts = (
        np.concatenate([nothing, *(part[name] for part in parts)]) for name in ("query", "winner", "count")
    )
    order = order_pairs(query, winner, MAX_TOKENS)
    return _count_pairs(order, pack_pairs(query, winner), offsets_of(lengths), entries, counts)


def encode_choices(choices: ChoiceTable) -> tuple[Int64, Int32]:
    """Each row as one list of integers: query, winner, token, multiplicity, token, multiplicity and so on."""
    offsets, tokens = ragged_column(choices.rows, "tokens")
    _, multiplicities = ragged_column(choices.rows, "multiplicities")
    starts = 2 * (offsets + np.arange(len(offsets)))
    words = np.empty(2 * (len(choices) + len(tokens)), np.int32)
    words[starts[:-1]], words[starts[:-1] + 1] = choices["query"], choices["winner"]
    inside = 2 * (np.arange(len(tokens)) + np.repeat(np.arange(1, len(choices) + 1), np.diff(offsets)))
    words[inside], words[inside + 1] = tokens, multiplicities
    return starts, words


def decode_choices(starts: Int64, words: Int32, count: Int64) -> ChoiceTable:
    """The inverse of :func:`encode_choices`."""
    header = np.zeros(len(words), bool)
    header[starts[:-1]] = header[starts[:-1] + 1] = True
    pairs = words[~header].reshape(-1, 2)
    offsets = starts // 2 - np.arange(len(starts))
    return make_choices(words[starts[:-1]], words[starts[:-1] + 1], offsets, pairs[:, 0], pairs[:, 1], count)


def unpack_choices(keys: Any, count: Int64) -> ChoiceTable:
    """The table of sorted encoded choices, from a column of byte strings of a file, checked."""
    rows = keys.cast(pa.large_binary())
    starts, words = bytes_to_rows(rows)
    lengths, n_bytes = np.diff(starts), sum(chunk.total_values_length for chunk in rows.chunks)
    whole = rows.null_count == 0 and len(lengths) == len(count) and 4 * len(words) == n_bytes
    if not whole or (lengths % 2).any() or (lengths < 6).any():  # query, winner, two tokens with multiplicity
        raise MismatchedParts("an encoded choice is truncated or altered; count the choices again")
    return ChoiceTable(decode_choices(starts, words, count).rows)
