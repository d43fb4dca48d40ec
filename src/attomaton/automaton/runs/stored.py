"""An open run folder, read on demand, query by query."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.runs import storage
from attomaton.automaton.runs.checks import check_batch, check_rows
from attomaton.automaton.runs.coverage import Coverage
from attomaton.automaton.runs.layout import RUN_TABLES
from attomaton.automaton.runs.nodes import Nodes, NodeScores, Outline, RecentNodes
from attomaton.automaton.runs.numbering import number_overall, restore_components
from attomaton.automaton.runs.query_index import check_query_index
from attomaton.base.artifacts import Run, explained_run, read_run
from attomaton.base.artifacts.parted import PartedTable, partition_name
from attomaton.base.borders import check_floats, check_ids, check_rising
from attomaton.base.errors import CorruptRun, MismatchedParts
from attomaton.base.options import whole_number
from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.remote import AnyPath
from attomaton.base.tables import Int64, Integers, column, make_table
from attomaton.corpora.samples import MAX_TOKENS
from attomaton.corpora.tokenizers import Vocabulary, read_vocabulary
from attomaton.graphs.components import Components, check_acyclic
from attomaton.graphs.edges import QUERY_SCHEMA
from attomaton.graphs.grouping import pack_pairs
from attomaton.graphs.partitions import cut_queries, of_nodes
from attomaton.graphs.paths import Edges, QueryGraph
from attomaton.solvers.hard.solve import HardSolution
from attomaton.solvers.soft.solve import SoftSolution
from attomaton.solvers.solved import Solved, show_size

SMALL_RUN_BYTES = 8_000_000  # a run up to this size is read completely when opened
MOST_BLOCK_ROWS = 1 << 22  # rows of a larger run in memory at a time, about


@dataclass(frozen=True, eq=False, repr=False)
class StoredRun:
    """An open run folder: its tables are read on demand, query by query, and everything else is in memory.

    ``counts`` is the index by token: the numbers of samples of each query and of its rows in each table.
    """

    run: Run
    vocabulary: Vocabulary | None
    counts: dict[str, Int64]
    tables: dict[str, PartedTable]
    _recent: RecentNodes = field(default_factory=RecentNodes, init=False)

    @property
    def n_tokens(self) -> int:
        return int(self.run.manifest["n_tokens"])

    @property
    def window(self) -> int | None:
        """The longest context of the samples, if the run says it."""
        return storage.read_window(self.run.manifest)

    @property
    def is_small(self) -> bool:
        """Whether to load the whole run: it is small, or it was learned with embeddings."""
        # With embeddings one matrix of weights (in `arrays`) scores all queries, so none can be read alone.
        size = sum(int(entry["bytes"]) for entry in self.run.partitions.values())
        return size <= SMALL_RUN_BYTES or bool(self.run.arrays)

    def __repr__(self) -> str:
        n_queries = int((self.counts["components"] > 0).sum())
        return show_size("Automaton", n_queries, int(self._first[-1]), self.n_tokens)

    @property
    def index(self) -> pa.Table:
        return self.run.tables[storage.INDEX_TABLE]

    @cached_property
    def coverage(self) -> Coverage:
        """How much of the corpus the theory covers, as measured when the run was written."""
        with self._explained():
            return Coverage.from_dict(self.run.records["coverage"])

    def look_up(self, queries: Integers, tokens: Integers) -> NodeScores:
        n_pairs = len(queries)
        component = np.zeros(n_pairs, np.int64)
        scores = NodeScores(np.zeros(n_pairs, bool), component, np.zeros(n_pairs), np.zeros(n_pairs))
        for block, pairs in self._blocks_of_pairs(queries):
            scores_of_block = self._nodes_of(block).find(queries[pairs], tokens[pairs])
            for values, block_values in zip(scores, scores_of_block, strict=True):
                values[pairs] = block_values
        return scores

    # Blocks of the distinct queries, ascending, each with the indices of the pairs that have them.
    def _blocks_of_pairs(self, queries: Integers) -> Iterator[tuple[Int64, Int64]]:
        # `queries` has the query of each pair; pairs with a query outside the vocabulary are left out.
        in_vocabulary = np.flatnonzero((queries >= 0) & (queries < self.n_tokens))
        by_query = in_vocabulary[np.argsort(queries[in_vocabulary], kind="stable")]
        distinct, starts = np.unique(queries[by_query], return_index=True)
        borders = np.append(starts, len(by_query))  # where the pairs of each distinct query are in by_query
        # the nodes of a block are read together, so the rows of a block bound memory: a query is in block i
        # if its first node is among the rows i * MOST_BLOCK_ROWS … (i + 1) * MOST_BLOCK_ROWS - 1 of them all
        first_row = offsets_of(self.counts["nodes"][distinct])[:-1]
        block_of_query = first_row // MOST_BLOCK_ROWS  # ascending
        for block in np.unique(block_of_query):
            low, high = np.searchsorted(block_of_query, [block, block + 1])
            yield distinct[low:high].astype(np.int64), by_query[borders[low] : borders[high]]

    def graph_of(self, query: int) -> QueryGraph:
        """The graph of one query, with components numbered over all queries; edges are read when needed."""
        query = whole_number(query, "query", most=max(self.n_tokens - 1, 0))
        nodes = self._nodes_of(np.array([query]))
        with self._explained():
            order = self.tables["order"].read(np.array([query]))
            check_rows({"order": order}, np.array([query]), self.counts)
            first = int(self._first[query])
            n_components = int(self._first[query + 1]) - first
            above, below = (column(order, name).astype(np.int64) for name in ("above", "below"))
            for numbers in (above, below):
                check_ids(numbers, n_components, "a component of the order")
            pair = above * max(n_components, 1) + below  # one number, which rises as (above, below) does
            check_rising(pair, "the order, sorted by above and below,")
            check_acyclic(above, below, n_components)
        edges = partial(self._edges_of, query)
        return QueryGraph(first, nodes.token, nodes.component, above + first, below + first, edges)

    def outline(self, queries: Integers) -> Outline:
        """The nodes, the order and the scores of these queries, in ascending order, each query once."""
        rising = self._ascending(queries)
        with self._explained():
            tables = {name: self.tables[name].read(rising) for name in ("nodes", "order")}
            check_rows(tables, rising, self.counts)
            nodes, order = restore_components(tables)
            components = Components(of_nodes(nodes, self.n_tokens).edges, nodes, order)
            hard, soft = (
                check_floats(column(tables["nodes"], name), (None,), name) for name in ("hard", "soft")
            )
        number = ranges_of(self._first[rising], self.counts["components"][rising])  # over all queries
        return Outline(components, hard, soft, number)

    def outlines(self, queries: Integers) -> Iterator[tuple[Int64, Outline]]:
        for block in self.blocks(np.asarray(queries, np.int64), "nodes", "order"):
            yield block, self.outline(block)

    def blocks(self, queries: Int64, *names: str) -> Iterator[Int64]:
        """Consecutive queries, in the given order, whose rows in the tables ``names`` fit into memory."""
        # Together they have at most `MOST_BLOCK_ROWS` rows; a query with more is a block alone.
        n_rows = sum((self.counts[name][queries] for name in names), np.zeros(len(queries), np.int64))
        for first, stop in pairwise(cut_queries(n_rows, MOST_BLOCK_ROWS).tolist()):
            yield queries[first:stop]

    def scan(self, table: str, queries: Integers) -> Iterator[pa.Table]:
        """The rows of ascending queries in a stored table, block by block and sorted as in the file."""
        # Components are numbered over all queries.
        stored = self.tables[table]
        for block in self.blocks(np.asarray(queries, np.int64), table):
            # a block is at most MOST_BLOCK_ROWS rows, unless it is one query: that is read piece by piece
            is_too_large = len(block) == 1 and self.counts[table][block[0]] > MOST_BLOCK_ROWS
            for rows in stored.scan(int(block[0])) if is_too_large else [stored.read(block)]:
                with self._explained():
                    check_batch(table, rows, block, self.counts)
                    yield number_overall(table, rows, self._first)

    @property
    def components(self) -> Components:
        return self.solved.components

    @property
    def hard(self) -> HardSolution:
        return self.solved.hard

    @property
    def soft(self) -> SoftSolution:
        return self.solved.soft

    def read_solved(self, queries: Integers) -> Solved:
        """Everything that was stored about these queries, in ascending order, each query once."""
        rising = self._ascending(queries)
        with self._explained():
            tables = {name: table.read(rising) for name, table in self.tables.items()}
            check_rows(tables, rising, self.counts)
            n_samples = self.counts["realisable"] + self.counts["unrealisable"]
            rising = rising[n_samples[rising] > 0]
            counted = {name: self.counts[name][rising] for name in ("realisable", "unrealisable")}
            samples = make_table(QUERY_SCHEMA, {"query": rising.astype(np.int32), **counted})
            return storage.assemble(tables, samples, self.run)

    def _ascending(self, queries: Integers) -> Int64:
        rising = np.unique(np.asarray(queries, np.int64))
        return rising[(rising >= 0) & (rising < self.n_tokens)]

    def read_partitions(self) -> Iterator[Solved]:
        for first, stop in pairwise(self.tables["nodes"].borders.tolist()):
            yield self.read_solved(np.arange(first, stop, dtype=np.int64))

    @cached_property
    def solved(self) -> Solved:
        """The whole run, read into memory once."""
        return self.read_solved(np.arange(self.n_tokens))

    # Winners, losers and supports of the edges of one query, a few row groups at a time.
    def _edges_of(self, query: int) -> Iterator[Edges]:
        for table in self.tables["edges"].scan(query):
            with self._explained():
                check_batch("edges", table, np.array([query]), self.counts)
            yield column(table, "winner"), column(table, "loser"), column(table, "support")

    # The nodes of ascending queries; those of a single query are cached.
    def _nodes_of(self, queries: Int64) -> Nodes:
        if len(queries) != 1:
            return self._read_nodes(queries)
        return self._recent.find(int(queries[0]), lambda: self._read_nodes(queries))

    def _read_nodes(self, queries: Int64) -> Nodes:
        with self._explained():
            table = self.tables["nodes"].read(queries)
            check_rows({"nodes": table}, queries, self.counts)
            query, token, number = (column(table, name) for name in ("query", "token", "component"))
            hard, soft = (check_floats(column(table, name), (None,), name) for name in ("hard", "soft"))
            check_ids(token, self.n_tokens, "a token of the nodes")
            check_rising(pack_pairs(query, token), "the nodes, sorted by query and token,")
        return Nodes(query, token, number + self._first[query], hard, soft, self.n_tokens)

    # The number of the first component of each query over all queries, shape (n_tokens + 1,).
    @cached_property
    def _first(self) -> Int64:
        return offsets_of(self.counts["components"])

    def _explained(self) -> AbstractContextManager[None]:
        return explained_run(self.run.folder)


def open_run(path: str | AnyPath) -> StoredRun:
    """Open a run folder: check its manifest and its index, and leave its tables on disk."""
    run = read_run(path)
    with explained_run(run.folder):
        if "n_tokens" not in run.manifest:  # a folder with a training only
            raise CorruptRun(f"{run.folder} has no automaton; run `attomaton learn … --out {run.folder}`")
        n_tokens = run.manifest["n_tokens"]
        if not isinstance(n_tokens, int) or not 0 <= n_tokens <= MAX_TOKENS:
            raise MismatchedParts(f"n_tokens in manifest.json is not a whole number from 0 to {MAX_TOKENS:,}")
        vocabulary = read_vocabulary(run.records, n_tokens)
        storage.read_proofs(run.manifest)
        counts = check_query_index(run.tables[storage.INDEX_TABLE], n_tokens)
        return StoredRun(run, vocabulary, counts, _open_tables(run, counts))


# The tables of the run by name, after a check that the partitions divide all queries among them.
def _open_tables(run: Run, counts: dict[str, Int64]) -> dict[str, PartedTable]:
    borders = np.array(run.manifest["borders"], np.int64)
    n_tokens = len(counts["nodes"])
    rises = len(borders) > 1 and borders[0] == 0 and borders[-1] == n_tokens
    if not rises or (n_tokens and (np.diff(borders) <= 0).any()):
        raise MismatchedParts("the query ranges in manifest.json overlap, or do not cover all queries")
    folder = run.folder or Path()

    def entries(name: str) -> list[dict[str, Any]]:
        names = [partition_name(name, number) for number in range(len(borders) - 1)]
        return [{**run.partitions[file], "name": file} for file in names]

    return {
        name: PartedTable(folder, entries(name), borders, counts[name], table.schema)
        for name, table in RUN_TABLES.items()
    }
