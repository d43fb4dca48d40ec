"""Compare two corpora: under which queries they relate two tokens differently.

Two tokens are related in one of five ways. One precedes the other, or follows it, by a path in one direction
only. They tie: they are in one component. They are unordered: no path leads between them. Or one of them is
unseen: it is not a node. :func:`diff` compares all pairs with an edge in either corpus.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.automaton.automaton import Automaton, StoredAutomaton
from attomaton.automaton.learning import Source, learn
from attomaton.automaton.ov_maps.automaton import WritingAutomaton
from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.native import find_paths
from attomaton.base.options import whole_number
from attomaton.base.printing import Block, Grid
from attomaton.base.tables import Int32, Int64, Integers, column, keep_rows, make_table, number_strings
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers import read_corpus
from attomaton.corpora.readers.corpus import path_of
from attomaton.corpora.readers.sources import is_run_folder
from attomaton.corpora.samples import MAX_TOKENS, Samples
from attomaton.graphs.components import Components
from attomaton.graphs.edges import pack_edges, unpack_edges
from attomaton.graphs.grouping import distinct_keys
from attomaton.graphs.partitions import cut_queries

DIFFERENCE_SCHEMA = pa.schema(
    [
        *((name, pa.int32()) for name in ("query", "token", "rival")),
        *((name, pa.string()) for name in ("change", "in_a", "in_b")),
        *((name, pa.int64()) for name in ("wins_a", "losses_a", "wins_b", "losses_b")),
    ]
)

MOST_EDGES = 1 << 22  # edges in memory at a time, of a run that is read on demand
EXAMPLES_SHOWN = 3  # rows printed of each change
# The relation of a token to its rival, as a number and as text.
UNSEEN, UNORDERED, PRECEDES, FOLLOWS, TIED_RELATION = range(5)
RELATIONS = np.array(["unseen", "unordered", "precedes", "follows", "ties"], object)


class Change(Enum):
    """A difference between two corpora, a and b, in the relation of two tokens; the value describes it.

    Examples
    --------
    >>> Change.REVERSED.value
    'each corpus puts the other token first'
    """

    REVERSED = "each corpus puts the other token first"
    SPLIT = "tied in a, ordered in b"
    MERGED = "ordered in a, tied in b"
    LOST = "ordered or tied in a, not related in b"
    GAINED = "ordered or tied in b, not related in a"


@dataclass(frozen=True, eq=False, repr=False)
class Difference(Tabular):
    """The pairs of tokens that two corpora relate differently, out of ``n_pairs`` that were compared.

    ``rows`` has a row for each such pair, sorted by query, token and rival. Its columns are query, token,
    rival (token < rival); change (the name of a :class:`Change`, in lower case); in_a and in_b (the relation
    of ``token`` to ``rival`` in each corpus: precedes, follows, ties, unordered or unseen); wins_a, losses_a,
    wins_b and losses_b (the support of the edges token → rival and rival → token). ``tokens`` are the tokens
    by id, as text if there is a vocabulary.
    """

    rows: pa.Table
    n_pairs: int
    tokens: tuple[str, ...]

    def __len__(self) -> int:
        return self.rows.num_rows

    def __repr__(self) -> str:
        return f"Difference({len(self):,} of {self.n_pairs:,} pairs)"

    def _table(self) -> pa.Table:
        return self.rows

    def _words(self) -> "Difference":
        return self

    def _blocks(self) -> list[Block]:
        return describe_difference(self, EXAMPLES_SHOWN)

    @property
    def counts(self) -> dict[Change, int]:
        """The number of pairs with each change."""
        changes = column(self.rows, "change")
        return {change: int(np.count_nonzero(changes == change.name.lower())) for change in Change}

    def strongest(self, change: Change, limit: int) -> pa.Table:
        """The ``limit`` rows of one change that have the most support, in descending order.

        The support of a row is the smaller one of the two corpora; if lost or gained, the larger one.
        """
        limit = whole_number(limit, "limit")
        rows = keep_rows(self.rows, column(self.rows, "change") == change.name.lower())
        in_a = column(rows, "wins_a") + column(rows, "losses_a")
        in_b = column(rows, "wins_b") + column(rows, "losses_b")
        one_sided = change in (Change.LOST, Change.GAINED)
        support = np.maximum(in_a, in_b) if one_sided else np.minimum(in_a, in_b)
        return rows.take(np.argsort(-support, kind="stable")[:limit])

    def describe(self, change: Change, limit: int) -> list[tuple[str, str, str]]:
        """The strongest rows of one change as text: the query, and the relation in each corpus."""
        tokens = self.tokens
        rows: list[dict[str, Any]] = self.strongest(change, limit).to_pylist()
        relations = ([_describe_relation(row, corpus, tokens) for corpus in ("a", "b")] for row in rows)
        return [(tokens[row["query"]], in_a, in_b) for row, (in_a, in_b) in zip(rows, relations, strict=True)]


def diff(a: Source, b: Source, **options: Any) -> Difference:
    """Compare how two corpora relate each pair of tokens that has an edge in at least one of them.

    Parameters
    ----------
    a, b : Automaton, run folder, or any source of :func:`learn`
        A corpus is learned first, with the window and the tokenizer of the other argument if that is an
        automaton or a run. If both have a vocabulary, tokens are matched by their text; if neither has one,
        by their ids.
    **options
        Options of :func:`learn`, for a corpus.

    Examples
    --------
    >>> diff(["a b a", "b a b"], ["a b b", "b b a b"])
    Difference(1 of 2 pairs)
    """
    if "out" in options or "overwrite" in options:
        raise UnsupportedOption("diff does not write a run; learn each corpus with out= first, then compare")
    if isinstance(a, WritingAutomaton) or isinstance(b, WritingAutomaton):
        raise UnsupportedOption(
            "diff compares the tokens that heads read; for an automaton of learn_writing, pass its .reads"
        )
    loaded_a, loaded_b = (source if isinstance(source, Automaton) else _load_run(source) for source in (a, b))
    automaton_a = _learn_like(loaded_b, a, options) if loaded_a is None else loaded_a
    automaton_b = _learn_like(loaded_a, b, options) if loaded_b is None else loaded_b
    match = _match_tokens(automaton_a, automaton_b)
    corpora = (automaton_a, match.shared_a), (automaton_b, match.shared_b)
    tables: list[pa.Table] = []
    n_pairs = 0
    for first, stop in _cut_shared(*corpora, n_tokens=len(match.tokens)):
        range_a, range_b = (_QueryRange(*corpus, first, stop) for corpus in corpora)
        table, n_compared = _compare_ranges(range_a, range_b, len(match.tokens))
        tables.append(table)
        n_pairs += n_compared
    return Difference(pa.concat_tables(tables).combine_chunks(), n_pairs, match.tokens)


# The automaton of a run folder; None for any other source.
def _load_run(source: Source) -> Automaton | None:
    folder = path_of(source) if isinstance(source, str | PathLike) else None
    return Automaton.load(folder) if folder is not None and is_run_folder(folder) else None


# Learn a source, by default with the window and the tokenizer of the reference.
def _learn_like(reference: Automaton | None, source: Source, options: dict[str, Any]) -> Automaton:
    options = {name: value for name, value in options.items() if value is not None}
    if reference is None:
        return learn(source, **options)
    keep = options.get("keep")
    if reference.window is not None and (keep is None or keep.window is None):
        options.setdefault("window", reference.window)
    has_ids = isinstance(source, Samples | Documents)
    if reference.vocabulary is not None and "tokenizer" not in options and not has_ids:
        source = read_corpus(source, tokenizer=reference.vocabulary, reading=options.pop("reading", None))
    return learn(source, **options)


# Ranges first, stop of shared query ids whose edges fit into memory; one if all edges are in memory.
def _cut_shared(*corpora: tuple[Automaton, Int32], n_tokens: int) -> Iterator[tuple[int, int]]:
    if not any(isinstance(automaton, StoredAutomaton) for automaton, _ in corpora):
        return iter([(0, n_tokens)])
    n_edges = np.zeros(n_tokens, np.int64)
    for automaton, shared in corpora:
        np.add.at(n_edges, shared[column(automaton.index, "query")], column(automaton.index, "edges"))
    return pairwise(cut_queries(n_edges, MOST_EDGES).tolist())


# The rows of :class:`Difference` in a range of queries, and the number of pairs compared there.
def _compare_ranges(a: "_QueryRange", b: "_QueryRange", n_tokens: int) -> tuple[pa.Table, int]:
    pairs = distinct_keys(np.concatenate([a.pairs, b.pairs]))
    in_a, in_b = (side.relate(*unpack_edges(pairs), n_tokens) for side in (a, b))
    differ = in_a != in_b
    query, token, rival = unpack_edges(pairs[differ])
    columns: dict[str, Any] = {"query": query, "token": token, "rival": rival}
    columns["change"] = _name_changes(in_a[differ], in_b[differ])
    for name, side, relation in (("a", a, in_a[differ]), ("b", b, in_b[differ])):
        columns[f"in_{name}"] = RELATIONS[relation]
        columns[f"wins_{name}"] = side.support(query, token, rival)
        columns[f"losses_{name}"] = side.support(query, rival, token)
    return make_table(DIFFERENCE_SCHEMA, columns), len(pairs)


def describe_difference(difference: Difference, most: int) -> list[Block]:
    rows = [(change.name.lower(), f"{n:,}", change.value) for change, n in difference.counts.items()]
    blocks: list[Block] = [
        f"{len(difference):,} of {difference.n_pairs:,} pairs of tokens are related differently in a and b.",
        Grid("Changes", ["change", "pairs", "meaning"], rows),
    ]
    for change in difference.counts:
        described = difference.describe(change, most)
        if described:
            blocks.append(Grid(f"Strongest {change.name.lower()}", ["query", "in a", "in b"], described))
    return blocks


class _QueryRange:
    """The queries ``first … stop − 1`` of one corpus, in the token ids that both corpora share."""

    # `shared` is the shared id of each token of the automaton. `pairs` are the pairs of tokens with an edge,
    # each packed with its query into one key.

    def __init__(self, automaton: Automaton, shared: Int32, first: int, stop: int) -> None:
        queries = np.flatnonzero((shared >= first) & (shared < stop))
        self._components = automaton.of_queries(queries).components  # in the ids of the automaton
        self._shared = shared
        edges = self._components.edges
        shared_query = shared[edges["query"]]
        in_range = (shared_query >= first) & (shared_query < stop)
        rows = slice(None) if in_range.all() else in_range  # a slice copies nothing
        query, winner, loser = (shared[edges[name][rows]] for name in ("query", "winner", "loser"))
        self.pairs = pack_edges(query, np.minimum(winner, loser), np.maximum(winner, loser))
        keys = pack_edges(query, winner, loser)
        order = np.argsort(keys)
        self._keys = keys[order]
        self._support = edges["support"][rows][order]

    def support(self, query: Int32, winner: Int32, loser: Int32) -> Int64:
        """The support of each edge winner → loser, 0 if there is no such edge; all of shape (n_pairs,)."""
        if not len(self._keys):
            return np.zeros(len(query), np.int64)
        keys = pack_edges(query, winner, loser)
        row = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return np.where(self._keys[row] == keys, self._support[row], 0)

    def relate(self, query: Int32, first: Int32, second: Int32, n_shared: int) -> Int64:
        """The relation of each first token to the second one, shape (n_pairs,)."""
        # from shared ids to the ids of the automaton; n_tokens is beyond its vocabulary, so it is no node
        ids = np.full(n_shared, self._components.edges.n_tokens)
        ids[self._shared] = np.arange(len(self._shared))
        first_row, is_first = self._components.rows(ids[query], ids[first])
        second_row, is_second = self._components.rows(ids[query], ids[second])
        relation = np.full(len(query), UNSEEN)
        both = np.flatnonzero(is_first & is_second)
        component = self._components.component_of_node
        relation[both] = _relate_components(
            self._components, component[first_row[both]], component[second_row[both]]
        )
        return relation


# The relation of each first component to the second one, shape (n_pairs,).
# A path leads from a higher component to a lower one, so components of equal height have none.
def _relate_components(components: Components, first: Int64, second: Int64) -> Int64:
    relation = np.where(first == second, TIED_RELATION, UNORDERED)
    heights = components.heights
    apart = np.flatnonzero(heights[first] != heights[second])
    first_higher = heights[first[apart]] > heights[second[apart]]
    top = np.where(first_higher, first[apart], second[apart])
    bottom = np.where(first_higher, second[apart], first[apart])
    by_top = np.argsort(top, kind="stable")  # `find_paths` searches once from each top
    has_path = find_paths(*components.below, heights, top[by_top], bottom[by_top])
    direction = np.where(first_higher, PRECEDES, FOLLOWS)[by_top]
    relation[apart[by_top[has_path]]] = direction[has_path]
    return relation


# The name of each :class:`Change`, from different relations in the two corpora.
def _name_changes(in_a: Int64, in_b: Int64) -> Integers:
    conditions = {  # the first that is true applies
        Change.LOST: in_b <= UNORDERED,
        Change.GAINED: in_a <= UNORDERED,
        Change.SPLIT: in_a == TIED_RELATION,
        Change.MERGED: in_b == TIED_RELATION,
    }
    names = [np.array(change.name.lower(), object) for change in (*conditions, Change.REVERSED)]
    return np.select(list(conditions.values()), names[:-1], names[-1])


class _Match(NamedTuple):
    """The tokens of two corpora by shared id, as text, and the shared id of each token of each corpus."""

    tokens: tuple[str, ...]
    shared_a: Int32
    shared_b: Int32


# Number the tokens of both vocabularies together; without vocabularies, ids stay as they are.
def _match_tokens(a: Automaton, b: Automaton) -> _Match:
    if (a.vocabulary is None) != (b.vocabulary is None):
        raise MismatchedParts(
            "only one of the two automata has a vocabulary, so tokens cannot be matched; learn both from "
            "text, or both from token ids"
        )
    if a.vocabulary is None or b.vocabulary is None:
        size = max(a.n_tokens, b.n_tokens)
        ids = np.arange(size, dtype=np.int32)
        return _Match(tuple(map(str, range(size))), ids[: a.n_tokens], ids[: b.n_tokens])
    tokens, ids = number_strings((*a.vocabulary.tokens, *b.vocabulary.tokens))
    if len(tokens) > MAX_TOKENS:
        raise UnsupportedOption(
            f"together, the two vocabularies have {len(tokens):,} tokens, more than the limit of "
            f"{MAX_TOKENS:,}; use a tokenizer with a smaller vocabulary"
        )
    return _Match(tokens, ids[: len(a.vocabulary)], ids[len(a.vocabulary) :])


# The relation of token and rival in corpus `"a"` or `"b"`, from a row of :class:`Difference`.
def _describe_relation(row: Mapping[str, Any], corpus: str, tokens: Sequence[str]) -> str:
    relation, wins, losses = (row[f"{name}_{corpus}"] for name in ("in", "wins", "losses"))
    first, second = (tokens[row[name]] for name in ("token", "rival"))
    if relation == "precedes":
        return f"{first} before {second} " + (f"×{wins}" if wins else "by a path")
    if relation == "follows":
        return f"{second} before {first} " + (f"×{losses}" if losses else "by a path")
    if relation == "ties":
        return f"{first} and {second} tie, {wins} to {losses}"
    if relation == "unordered":
        return f"no path between {first} and {second}"
    return f"no evidence about {first} or {second}"
