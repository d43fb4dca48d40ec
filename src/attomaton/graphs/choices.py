"""Choice sets: what each label was chosen from, inside its own component or in the whole context, counted.

Inside components this is the reduced data of the soft problem: each realisable context is restricted to the
tokens of the label's component. Whole contexts are the training loss itself. Either way a sample left with
one distinct token says nothing and is dropped; equal rows are counted.
"""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attomaton.base.borders import check_counts, check_ids, check_ids_of, check_rising, check_table, trusted
from attomaton.base.errors import MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.machine import share_out
from attomaton.base.options import check_threads
from attomaton.base.ragged import group_borders, offsets_of, ranges_of
from attomaton.base.tables import Int32, Int64, bytes_to_rows, column, make_table, ragged_column
from attomaton.corpora.samples import MAX_TOKENS, Samples
from attomaton.graphs.components import Components
from attomaton.graphs.edges import CHUNK_VALUES
from attomaton.graphs.grouping import order_pairs, pack_pairs, unpack_pairs
from attomaton.graphs.ordered import cut_shares, order_samples
from attomaton.graphs.sets import (
    Members,
    SortedContexts,
    collect_sets,
    count_sets,
    join_lists,
    members_of,
    select_sets,
)

CHOICE_SCHEMA = pa.schema(
    [
        ("query", pa.int32()),
        ("winner", pa.int32()),
        ("tokens", pa.large_list(pa.int32())),
        ("multiplicities", pa.large_list(pa.int32())),
        ("count", pa.int64()),
    ]
)
CHOICE_FILE: dict[str, Any] = {"compression": "lz4"}
"""How choices are written."""


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceTable(Tabular):
    """Counted choices.

    Attributes
    ----------
    rows : pyarrow.Table
        Columns query, winner (int32), tokens, multiplicities (lists of int32: the choice set, tokens rising,
        and how often each stood in the context) and count (int64, how many samples were equal to this row).
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
        """Refuse what compiled code must not be given."""
        check_table(self.rows, CHOICE_SCHEMA, "the choice table")
        check_ids_of(self.rows, {"query": MAX_TOKENS, "winner": MAX_TOKENS}, "the choice table")
        check_rising(self["query"], "the choice table, by query,", strictly=False)
        check_counts(self["count"], 1, "count in the choice table")
        _check_sets(self)

    def __repr__(self) -> str:
        return f"ChoiceTable({len(self):,} distinct choices, {int(self['count'].sum()):,} in all)"

    def _table(self) -> pa.Table:
        return self.rows

    def __len__(self) -> int:
        return self.rows.num_rows

    def __getitem__(self, name: str) -> NDArray[Any]:
        return column(self.rows, name)

    def __add__(self, other: "ChoiceTable") -> "ChoiceTable":
        """The choices of two corpora, both restricted to the same components or both whole."""
        return count_choices([self, other])


def extract_choices(
    samples: Samples, components: Components | None = None, *, threads: int | None = None
) -> ChoiceTable:
    """Count the choices made inside each label's component, or in whole contexts.

    Parameters
    ----------
    samples : Samples
        The corpus; samples whose label is not in the context are left out.
    components : Components, optional
        Choice sets are restricted to the label's component. None means each realisable context whole.
    threads : int, optional
        How many to use; all processors if not given.

    Examples
    --------
    >>> from attomaton.graphs.components import find_components
    >>> from attomaton.graphs.edges import extract_edges
    >>> samples = Samples.from_lists([[0, 0, 1, 2], [1, 0, 2], [0, 2]], [0, 1, 0])
    >>> choices = extract_choices(samples, find_components(extract_edges(samples)))
    >>> choices.rows.to_pylist()[0]
    {'query': 2, 'winner': 0, 'tokens': [0, 1], 'multiplicities': [2, 1], 'count': 1}
    >>> extract_choices(samples).rows.to_pylist()[1]
    {'query': 2, 'winner': 0, 'tokens': [0, 1, 2], 'multiplicities': [2, 1, 1], 'count': 1}
    """
    threads = check_threads(threads)
    members = members_inside(components, samples.n_tokens)
    count_share = partial(_count_share, members=members, whole=components is None)
    shares = cut_shares(order_samples(samples), CHUNK_VALUES, threads)
    return _join_counted(share_out(count_share, shares, threads))


def choices_by_definition(
    samples: Samples, components: Components | None = None
) -> Counter[tuple[int, int, tuple[tuple[int, int], ...]]]:
    """The definition, word for word: (query, winner, ((token, multiplicity), …)) → count."""
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


def _check_sets(choices: ChoiceTable) -> None:
    """Each choice set has two tokens or more, rising, each with a multiplicity, and the winner is one."""
    offsets, tokens = ragged_column(choices.rows, "tokens")
    other_offsets, multiplicities = ragged_column(choices.rows, "multiplicities")
    if not np.array_equal(offsets, other_offsets):
        raise MismatchedParts("a choice set has more or fewer multiplicities than tokens; give one for each")
    check_ids(tokens, MAX_TOKENS, "a token of the choice sets")
    check_counts(multiplicities, 1, "a multiplicity of the choice sets")
    lengths = np.diff(offsets)
    begins = np.zeros(len(tokens) + 1, bool)
    begins[offsets] = True
    if (lengths < 2).any() or ((tokens[1:] <= tokens[:-1]) & ~begins[1:-1]).any():
        raise MismatchedParts(
            "a choice set has fewer than two tokens, or they do not rise; use extract_choices"
        )
    chosen = np.flatnonzero(tokens == np.repeat(choices["winner"], lengths))
    if len(chosen) != len(choices):
        raise MismatchedParts("a winner is not in its choice set; use extract_choices")


def members_inside(components: Components | None, n_tokens: int) -> Members:
    """Who ties with whom inside components, for a corpus of so many tokens; None means that nobody does."""
    if components is None:
        return Members(np.zeros(n_tokens + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
    borders = group_borders(components.query_of_node, max(n_tokens, components.edges.n_tokens))
    number = components.component_of_node
    return members_of(borders, components.token_of_node, number, components.sizes[number] > 1)


def _count_share(samples: Samples, *, members: Members, whole: bool) -> ChoiceTable:
    """The counted choices of realisable samples that are sorted by query and label."""
    contexts = SortedContexts(
        np.ascontiguousarray(samples.values), samples.starts, samples.stops, samples.labels
    )
    rows, offsets, entries = collect_sets(contexts, members, whole)
    pairs = pack_pairs(samples.queries[rows], samples.labels[rows])
    return _count_pairs(pairs, offsets, entries, np.ones(len(rows), np.int64))


def _count_pairs(pairs: Int64, offsets: Int64, entries: Int64, counts: Int64) -> ChoiceTable:
    """Equal choices added up and sorted; ``pairs`` of query and winner do not fall."""
    rows, summed = count_sets(pairs, offsets, entries, counts)
    query, winner = unpack_pairs(pairs[rows])
    lists, tokens, multiplicities = select_sets(offsets, entries, rows)
    return make_choices(query.astype(np.int32), winner, lists, tokens, multiplicities, summed)


def _join_counted(parts: list[ChoiceTable]) -> ChoiceTable:
    """Sorted stretches of counted choices as one; the choices of a winner may be in several."""
    filled = [part for part in parts if len(part)]
    if len(filled) == 1:
        return filled[0]
    ends = [pack_pairs(part["query"][[0, -1]], part["winner"][[0, -1]]) for part in filled]
    if not filled or any(one[1] >= other[0] for one, other in pairwise(ends)):
        return count_choices(filled)
    return trusted(ChoiceTable, rows=pa.concat_tables([part.rows for part in filled]).combine_chunks())


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
    """Equal rows added up, sorted by query, winner and choice set."""
    nothing = np.empty(0, np.int64)
    sets = [join_lists(part.rows) for part in parts]
    lengths = np.concatenate([nothing, *(np.diff(offsets) for offsets, _ in sets)])
    entries = np.concatenate([nothing, *(entries for _, entries in sets)])
    query, winner, counts = (
        np.concatenate([nothing, *(part[name] for part in parts)]) for name in ("query", "winner", "count")
    )
    order = order_pairs(query, winner, MAX_TOKENS)
    entries = entries[ranges_of(offsets_of(lengths)[order], lengths[order])]
    pairs = pack_pairs(query[order], winner[order])
    return _count_pairs(pairs, offsets_of(lengths[order]), entries, counts[order])


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
    """The table of rows that :func:`encode_choices` wrote as lists of integers."""
    header = np.zeros(len(words), bool)
    header[starts[:-1]] = header[starts[:-1] + 1] = True
    pairs = words[~header].reshape(-1, 2)
    offsets = starts // 2 - np.arange(len(starts))
    return make_choices(words[starts[:-1]], words[starts[:-1] + 1], offsets, pairs[:, 0], pairs[:, 1], count)


def unpack_choices(keys: Any, count: Int64) -> ChoiceTable:
    """The table of encoded choices as a column of byte strings from a file, sorted: checked."""
    return ChoiceTable(unpack_in_any_order(keys, count).rows)


def unpack_in_any_order(keys: Any, count: Int64) -> ChoiceTable:
    """The same in any order, for :func:`count_choices`, whose answer is to be checked in their place."""
    rows = keys.cast(pa.large_binary())
    starts, words = bytes_to_rows(rows)
    lengths = np.diff(starts)
    whole = rows.null_count == 0 and len(lengths) == len(count) and 4 * len(words) == _n_bytes(rows)
    if not whole or (lengths % 2).any() or (lengths < 6).any():  # query, winner, two tokens with multiplicity
        raise MismatchedParts("an encoded choice was cut short or altered; count the choices again")
    return decode_choices(starts, words, count)


def _n_bytes(strings: Any) -> int:
    return sum(chunk.total_values_length for chunk in strings.chunks)
