"""Count choice sets: the tokens from which each label was chosen, in its component or in the whole context.

Inside components this is the reduced data of the soft problem: each realisable context is restricted to the
tokens of the label's component. Whole contexts give the training loss itself. Either way a sample left with
one distinct token carries no information and is dropped; equal rows are counted. :func:`extract_choices` is
the pass over a corpus, and :func:`count_choices` merges tables. Choices on disk are encoded as integers.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base import borders
from attomaton.base.errors import MismatchedParts
from attomaton.base.machine import divide_work
from attomaton.base.native import collect_sets, count_sets, take_sets
from attomaton.base.options import check_threads
from attomaton.base.ragged import offsets_of, rows_of
from attomaton.base.tables import Int32, Int64, bytes_to_rows, make_table, ragged_column
from attomaton.corpora.samples import MAX_TOKENS, Samples
from attomaton.graphs.bags import cut_shares, order_samples
from attomaton.graphs.components import Components, TiedTokens
from attomaton.graphs.edges import CHUNK_VALUES, RowTable
from attomaton.graphs.grouping import order_pairs, pack_pairs, unpack_pairs

# An entry of a choice set is one int64: the token in the high 32 bits, its multiplicity in the low ones. So
# entries are sorted by token, and two sets are equal if their entries are.
TIMES_BITS = 32

# Columns of the choices; `count` is the number of samples.
CHOICE_SCHEMA = pa.schema(
    [
        ("query", pa.int32()),
        ("winner", pa.int32()),
        ("tokens", pa.large_list(pa.int32())),
        ("multiplicities", pa.large_list(pa.int32())),
        ("count", pa.int64()),
    ]
)


# Parquet options of choices; the encodings suit sorted tokens and small multiplicities.
CHOICE_FILE: dict[str, Any] = {
    "compression": "lz4",
    "use_dictionary": ["query", "winner", "count"],
    "column_encoding": {
        "tokens.list.element": "BYTE_STREAM_SPLIT",
        "multiplicities.list.element": "DELTA_BINARY_PACKED",
    },
}


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceTable(RowTable):
    """The distinct choices of labels from their choice sets, with their counts.

    Attributes
    ----------
    rows : pyarrow.Table
        One row per distinct choice, sorted by query, winner and choice set. ``query`` and ``winner`` are
        int32. ``tokens`` and ``multiplicities`` are lists of int32: the sorted choice set, and the number of
        occurrences of each token in the context. ``count`` (int64) is the number of equal samples.

    Examples
    --------
    >>> choices = extract_choices(Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1]))
    >>> choices, choices["winner"].tolist(), (choices + choices)["count"].tolist()
    (ChoiceTable(2 distinct choices, 4 in all), [0, 1], [6, 2])
    """

    rows: pa.Table

    def __post_init__(self) -> None:
        borders.check_table(self.rows, CHOICE_SCHEMA, "the choice table")
        borders.check_ids_of(self.rows, {"query": MAX_TOKENS, "winner": MAX_TOKENS}, "the choice table")
        borders.check_rising(self["query"], "the choice table, by query,", strictly=False)
        borders.check_count_range(self["count"], 1, "count in the choice table")
        offsets, tokens = ragged_column(self.rows, "tokens")
        times_offsets, multiplicities = ragged_column(self.rows, "multiplicities")
        if not np.array_equal(offsets, times_offsets):
            raise MismatchedParts(
                "a choice set has more or fewer multiplicities than tokens; give one per token"
            )
        borders.check_ids(tokens, MAX_TOKENS, "a token of the choice sets")
        borders.check_count_range(multiplicities, 1, "a multiplicity of the choice sets")
        lengths = np.diff(offsets)
        # Tokens must rise inside a set, but not from the last of a set to the first of the next.
        begins_set = np.zeros(len(tokens) + 1, bool)
        begins_set[offsets] = True
        if (lengths < 2).any() or ((tokens[1:] <= tokens[:-1]) & ~begins_set[1:-1]).any():
            raise MismatchedParts(
                "a choice set is unsorted, or has fewer than two tokens; use extract_choices"
            )
        if np.count_nonzero(tokens == np.repeat(self["winner"], lengths)) != len(self):
            raise MismatchedParts("a winner is not in its choice set; use extract_choices")

    def __repr__(self) -> str:
        return f"ChoiceTable({len(self):,} distinct choices, {int(self['count'].sum()):,} in all)"

    def __add__(self, addend: "ChoiceTable") -> "ChoiceTable":
        """The choices of two corpora, both restricted to the same components or both of whole contexts."""
        return count_choices([self, addend])


def extract_choices(
    samples: Samples, components: Components | None = None, *, threads: int | None = None
) -> ChoiceTable:
    """Count the choices of labels inside their components, or in whole contexts.

    Parameters
    ----------
    samples : Samples
        The corpus; samples whose label is not in the context are left out.
    components : Components, optional
        The components to which choice sets are restricted. None means whole contexts.
    threads : int, optional
        Number of threads; by default one per processor.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = Samples.from_lists([[0, 0, 1, 2], [1, 0, 2], [0, 2]], [0, 1, 0])
    >>> choices = extract_choices(samples, at.find_components(at.extract_edges(samples)))
    >>> choices.rows.to_pylist()[0]
    {'query': 2, 'winner': 0, 'tokens': [0, 1], 'multiplicities': [2, 1], 'count': 1}
    """
    threads = check_threads(threads)
    members = members_inside(components, samples.n_tokens)

    def count_share(share: Samples) -> ChoiceTable:
        contexts = np.ascontiguousarray(share.values), share.starts, share.stops, share.labels
        rows, offsets, entries = collect_sets(contexts, members, components is None)
        pairs = pack_pairs(share.queries[rows], share.labels[rows])
        already_sorted = np.arange(len(rows))  # by order_samples, below
        return _count_pairs(already_sorted, pairs, offsets, entries, np.ones(len(rows), np.int64))

    shares = cut_shares(order_samples(samples), CHUNK_VALUES, threads)
    counted = [table for table in divide_work(count_share, shares, threads) if len(table)]
    if len(counted) == 1:
        return counted[0]
    # The first and the last (query, winner) of each share, to see if two shares have choices of one winner.
    ends = [pack_pairs(table["query"][[0, -1]], table["winner"][[0, -1]]) for table in counted]
    if not counted or any(share[1] >= later[0] for share, later in pairwise(ends)):
        return count_choices(counted)
    joined = pa.concat_tables([table.rows for table in counted]).combine_chunks()
    return borders.trusted(ChoiceTable, rows=joined)


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
            component = component_of.get((query, label))
            inside = Counter(token for token in context if component_of.get((query, token)) == component)
            if len(inside) > 1:
                choices[query, label, tuple(sorted(inside.items()))] += 1
    return choices


def members_inside(components: Components | None, n_tokens: int) -> TiedTokens:
    """Which tokens tie inside components, for a vocabulary of ``n_tokens``; None means that none do."""
    if components is None:
        return TiedTokens(np.zeros(n_tokens + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
    tied = components.tied
    # Queries beyond the vocabulary of the components have no tied tokens.
    unknown = np.full(max(n_tokens - components.edges.n_tokens, 0), len(tied.token))
    return tied._replace(borders=np.concatenate([tied.borders, unknown]))


# The table of distinct choices, with the counts of equal ones added up.
def _count_pairs(order: Int64, pairs: Int64, offsets: Int64, entries: Int64, counts: Int64) -> ChoiceTable:
    # Choice r has the packed query and winner pairs[r], the set entries[offsets[r]:offsets[r + 1]], and
    # counts[r]; `order` sorts the choices by pairs.
    rows, summed = count_sets(order, pairs, offsets, entries, counts)
    query, winner = unpack_pairs(pairs[rows])
    set_offsets, tokens, multiplicities = take_sets(rows, offsets, entries)
    return make_choices(query.astype(np.int32), winner, set_offsets, tokens, multiplicities, summed)


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
    return borders.trusted(ChoiceTable, rows=make_table(CHOICE_SCHEMA, columns))


def count_choices(tables: list[ChoiceTable]) -> ChoiceTable:
    """Equal rows summed, sorted by query, winner and choice set."""
    nothing = np.empty(0, np.int64)  # lets concatenate accept no tables, with the right type
    tokens, multiplicities = (
        [ragged_column(table.rows, name) for table in tables] for name in ("tokens", "multiplicities")
    )
    lengths = np.concatenate([nothing, *(np.diff(offsets) for offsets, _ in tokens)])
    entries = np.concatenate([nothing, *(values for _, values in tokens)]) << TIMES_BITS
    entries |= np.concatenate([nothing, *(values for _, values in multiplicities)])
    query, winner, counts = (
        np.concatenate([nothing, *(table[name] for table in tables)]) for name in ("query", "winner", "count")
    )
    order = order_pairs(query, winner, MAX_TOKENS)
    return _count_pairs(order, pack_pairs(query, winner), offsets_of(lengths), entries, counts)


def encode_choices(choices: ChoiceTable) -> tuple[Int64, Int32]:
    """Each row as one list of integers: query, winner, token, multiplicity, token, multiplicity and so on."""
    offsets, tokens = ragged_column(choices.rows, "tokens")
    _, multiplicities = ragged_column(choices.rows, "multiplicities")
    # Row r takes two words for query and winner, and two for each token: it begins at 2 (offsets[r] + r).
    starts = 2 * (offsets + np.arange(len(offsets)))
    words = np.empty(2 * (len(choices) + len(tokens)), np.int32)
    words[starts[:-1]] = choices["query"]
    words[starts[:-1] + 1] = choices["winner"]
    row = rows_of(offsets)
    members = 2 * (np.arange(len(tokens)) + row + 1)  # after the query and winner of each row so far
    words[members] = tokens
    words[members + 1] = multiplicities
    return starts, words


def decode_choices(starts: Int64, words: Int32, count: Int64) -> ChoiceTable:
    """The inverse of :func:`encode_choices`: row r is ``words[starts[r]:starts[r + 1]]``."""
    query_at = starts[:-1]
    winner_at = query_at + 1
    is_member = np.ones(len(words), bool)
    is_member[query_at] = is_member[winner_at] = False
    tokens, multiplicities = words[is_member].reshape(-1, 2).T
    offsets = starts // 2 - np.arange(len(starts))
    return make_choices(words[query_at], words[winner_at], offsets, tokens, multiplicities, count)


def unpack_choices(keys: Any, count: Int64) -> ChoiceTable:
    """The table of sorted encoded choices, from a column of byte strings of a file, checked."""
    rows = keys.cast(pa.large_binary())
    starts, words = bytes_to_rows(rows)
    lengths = np.diff(starts)
    n_bytes = sum(chunk.total_values_length for chunk in rows.chunks)
    # Each word has four bytes; leftover bytes mean a truncated row.
    is_complete = rows.null_count == 0 and len(lengths) == len(count) and 4 * len(words) == n_bytes
    is_short = lengths < 6  # query, winner, and two tokens with their multiplicities
    if not is_complete or (lengths % 2).any() or is_short.any():
        raise MismatchedParts("an encoded choice is truncated or altered; count the choices again")
    return ChoiceTable(decode_choices(starts, words, count).rows)
