"""Represent the token-priority graph G^(k) of every query k as one table of edges.

Each realisable sample with query k and label y gives an edge y → x for every other token x of the context:
the winner y was chosen where the loser x could have been. :func:`extract_edges` counts them.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attomaton.base import borders
from attomaton.base.errors import MismatchedParts, TokenOutOfRange
from attomaton.base.frames import Tabular
from attomaton.base.machine import divide_work
from attomaton.base.native import link_ahead, pack_contexts
from attomaton.base.options import check_threads, settle, whole_number
from attomaton.base.printing import count_noun
from attomaton.base.tables import Int32, Int64, Integers, column, keep_rows, make_table
from attomaton.corpora.samples import MAX_TOKENS, TOKEN_BITS, Samples
from attomaton.graphs.bags import cut_shares, order_samples
from attomaton.graphs.grouping import count_keys, join_counted, sum_by_key

# Columns of the edges; `support` counts samples.
EDGE_SCHEMA = pa.schema(
    [("query", pa.int32()), ("winner", pa.int32()), ("loser", pa.int32()), ("support", pa.int64())]
)

# Parquet options of edges: half the time and four fifths of the bytes of plain zstd.
EDGE_FILE: dict[str, Any] = {
    "compression": "lz4",
    "use_dictionary": False,
    "column_encoding": {"loser": "DELTA_BINARY_PACKED", "support": "DELTA_BINARY_PACKED"},
}

# Columns of the queries: how many of their samples have the label in the context, and how many do not.
QUERY_SCHEMA = pa.schema([("query", pa.int32()), ("realisable", pa.int64()), ("unrealisable", pa.int64())])

# Context tokens processed at once; bounds the memory of a pass over a corpus.
CHUNK_VALUES = 1 << 22


class RowTable(Tabular):
    """A value whose table is its ``rows``; ``value[name]`` is a column as a numpy array."""

    rows: pa.Table

    def _table(self) -> pa.Table:
        return self.rows

    def __len__(self) -> int:
        return self.rows.num_rows

    def __getitem__(self, name: str) -> NDArray[Any]:
        return column(self.rows, name)


@dataclass(frozen=True, eq=False, repr=False)
class EdgeTable(RowTable):
    """Every edge winner → loser under every query, with its support.

    Attributes
    ----------
    rows : pyarrow.Table
        Columns query, winner, loser (int32) and support (int64, the number of samples that show the edge),
        sorted by query, winner, loser. ``edges["winner"]`` is a column as a numpy array.
    queries : pyarrow.Table
        Columns query (int32), realisable, unrealisable (int64): the number of samples read, by query.
    n_tokens : int
        Size of the vocabulary.

    Examples
    --------
    >>> edges = extract_edges(Samples.from_lists([[1, 0, 2], [0, 1, 2], [1, 2]], [0, 0, 1]))
    >>> edges.filter(min_support=2), (edges + edges)["support"].tolist()
    (EdgeTable(2 edges, 1 query, 3 samples), [4, 4, 2])
    """

    rows: pa.Table
    queries: pa.Table
    n_tokens: int

    def __post_init__(self) -> None:
        size = borders.check_size(self.n_tokens, MAX_TOKENS, "n_tokens")
        borders.check_table(self.rows, EDGE_SCHEMA, "the edge table")
        borders.check_ids_of(self.rows, dict.fromkeys(("query", "winner", "loser"), size), "the edge table")
        if (self["winner"] == self["loser"]).any():
            row = int(np.argmax(self["winner"] == self["loser"]))
            raise MismatchedParts(f"in row {row} of the edge table a token beats itself; drop that row")
        keys = pack_edges(self["query"], self["winner"], self["loser"])
        borders.check_rising(keys, "the edge table, by query, winner and loser,")
        borders.check_count_range(self["support"], 1, "support in the edge table")
        check_queries(self.queries, size)
        settle(self, n_tokens=size)

    def __repr__(self) -> str:
        n_edges = count_noun(len(self), "edge")
        n_queries = count_noun(self.queries.num_rows, "query", "queries")
        return f"EdgeTable({n_edges}, {n_queries}, {count_noun(self.n_samples, 'sample')})"

    def __add__(self, addend: "EdgeTable") -> "EdgeTable":
        """The edges of both corpora, with summed supports; token ids must mean the same in both."""
        return merge_edges([self, addend])

    @property
    def n_samples(self) -> int:
        """The number of realisable samples, the n of the training loss."""
        return int(column(self.queries, "realisable").sum())

    @property
    def n_unrealisable(self) -> int:
        """The number of samples that were left out because their label is not in their context."""
        return int(column(self.queries, "unrealisable").sum())

    def filter(self, *, min_support: int = 1, queries: Iterable[int] | None = None) -> "EdgeTable":
        """Keep the edges with a support of at least ``min_support``, under these queries only if given."""
        min_support = whole_number(min_support, "min_support", least=1)
        if min_support == 1 and queries is None:
            return self
        edge_mask = np.asarray(self["support"] >= min_support)
        query_mask = np.ones(self.queries.num_rows, bool)  # a query stays even if it loses all edges
        if queries is not None:
            wanted = {whole_number(query, "a query") for query in queries}
            outside = sorted(query for query in wanted if not 0 <= query < self.n_tokens)
            if outside:
                raise TokenOutOfRange(
                    f"query {outside[0]} is not in 0 … {self.n_tokens - 1}; give ids of this vocabulary"
                )
            ids = np.array(sorted(wanted), np.int32)
            edge_mask &= np.isin(self["query"], ids)
            query_mask = np.isin(column(self.queries, "query"), ids)
        tables = {"rows": keep_rows(self.rows, edge_mask), "queries": keep_rows(self.queries, query_mask)}
        return borders.trusted(EdgeTable, n_tokens=self.n_tokens, **tables)


def check_queries(queries: pa.Table, n_tokens: int) -> None:
    """Check a table of the number of samples by query, so that kernels can trust it."""
    borders.check_table(queries, QUERY_SCHEMA, "the table of queries")
    borders.check_ids_of(queries, {"query": n_tokens}, "the table of queries")
    borders.check_rising(column(queries, "query"), "the table of queries")
    for name in ("realisable", "unrealisable"):
        borders.check_count_range(column(queries, name), 0, f"{name} in the table of queries")


def extract_edges(samples: Samples, *, threads: int | None = None) -> EdgeTable:
    """Count every edge of every query's token-priority graph; see :func:`edges_by_definition`.

    Contexts may have different lengths and repeat tokens. A sample whose label is not in its context has no
    edges, but is counted. ``threads`` is the number of threads, by default one per processor.

    Examples
    --------
    >>> edges = extract_edges(Samples.from_lists([[1, 0, 2], [0, 1, 2], [3, 2]], [0, 0, 1]))
    >>> edges.rows.to_pylist()[0], edges.n_unrealisable
    ({'query': 2, 'winner': 0, 'loser': 1, 'support': 2}, 1)
    """
    threads = check_threads(threads)
    ordered = order_samples(samples)  # by query and label: an edge is in one share, or in neighbours
    shares = cut_shares(ordered, CHUNK_VALUES, threads)
    # The next position of the token at each position, so that the kernel counts a repeated token once.
    next_same_token = link_ahead(np.ascontiguousarray(samples.values), samples.n_tokens)

    def count_share(share: Samples) -> tuple[Int64, Int64]:
        """The packed edges of a share, and the support of each."""
        values = np.ascontiguousarray(share.values)
        return count_keys(pack_contexts(values, share.starts, share.stops, share.labels, next_same_token))

    keys, support = join_counted(divide_work(count_share, shares, threads))
    n_read = np.bincount(samples.queries, minlength=samples.n_tokens)
    n_realisable = np.bincount(ordered.queries, minlength=samples.n_tokens)
    queries = np.flatnonzero(n_read)
    realisable = n_realisable[queries]
    return make_edges(samples.n_tokens, keys, support, queries, realisable, n_read[queries] - realisable)


def edges_by_definition(samples: Samples) -> Counter[tuple[int, int, int]]:
    """The plain definition: (query, winner, loser) → support."""
    edges: Counter[tuple[int, int, int]] = Counter()
    for context, label in samples:
        if label in context:
            for token in set(context) - {label}:
                edges[context[-1], label, token] += 1
    return edges


def merge_edges(tables: list[EdgeTable]) -> EdgeTable:
    """One table from the tables of several corpora whose token ids mean the same."""
    if len(tables) == 1:
        return tables[0]
    keys = [pack_edges(table["query"], table["winner"], table["loser"]) for table in tables]
    supports = [table["support"] for table in tables]
    distinct, support = sum_by_key(np.concatenate(keys), np.concatenate(supports))
    queries, realisable, unrealisable = sum_queries([table.queries for table in tables])
    n_tokens = max(table.n_tokens for table in tables)
    return make_edges(n_tokens, distinct, support, queries, realisable, unrealisable)


def sum_queries(tables: list[pa.Table]) -> tuple[Int64, ...]:
    """The distinct queries of several tables of queries, and the sums of their two counts."""
    counted = pa.concat_tables(tables)
    query, realisable, unrealisable = (column(counted, name) for name in QUERY_SCHEMA.names)
    return sum_by_key(query.astype(np.int64), realisable, unrealisable)


def pack_edges(query: Integers, winner: Integers, loser: Integers) -> Int64:
    """One sortable 63-bit key per edge: 21 bits each of query, winner and loser."""
    return (query.astype(np.int64) << 2 * TOKEN_BITS) | (winner.astype(np.int64) << TOKEN_BITS) | loser


def unpack_edges(keys: Int64) -> tuple[Int32, Int32, Int32]:
    """Query, winner and loser of each key."""
    mask = MAX_TOKENS - 1  # the lowest 21 bits
    query = keys >> 2 * TOKEN_BITS
    winner = (keys >> TOKEN_BITS) & mask
    loser = keys & mask
    return query.astype(np.int32), winner.astype(np.int32), loser.astype(np.int32)


_NO_ROWS: Int64 = np.empty(0, np.int64)


def make_edges(
    n_tokens: int,
    keys: Int64 = _NO_ROWS,
    support: Int64 = _NO_ROWS,
    queries: Int64 = _NO_ROWS,
    realisable: Int64 = _NO_ROWS,
    unrealisable: Int64 = _NO_ROWS,
) -> EdgeTable:
    """An edge table from distinct packed edges with their support, and the number of samples by query."""
    query, winner, loser = unpack_edges(keys)
    edges = {"query": query, "winner": winner, "loser": loser, "support": support}
    counts = {"query": queries.astype(np.int32), "realisable": realisable, "unrealisable": unrealisable}
    return borders.trusted(
        EdgeTable,
        rows=make_table(EDGE_SCHEMA, edges),
        queries=make_table(QUERY_SCHEMA, counts),
        n_tokens=n_tokens,
    )
