"""Edges of sliding windows, straight from the token stream.

The contexts of neighbouring positions share all but one token, so nothing needs to be sorted or looked up per
context: a token is the last of its kind before position i exactly if it does not return before i. The plain
definition is ``extract_edges(Samples.from_windows(ids, window=window, documents=documents))``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attomaton.corpora.samples import TOKEN_BITS, Samples
from attomaton.graphs.compiled import compiled
from attomaton.tables import Bool, Int32, Int64

NEVER = 2**31 - 1
"""Where a token returns that does not."""

NOT_YET = -1
"""Where a token stood that did not: before every context."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A stretch of a tokenised corpus, whose every token but the first of a document is a label.

    Attributes
    ----------
    ids : int32 array, shape (n_values,)
        Token ids, all in 0 … n_tokens − 1.
    documents : int64 array, shape (n_documents + 1,)
        Offsets of the documents in ``ids``.
    head : int
        So many tokens at the front continue a document begun in the piece before: context, but no labels.
    n_tokens : int
        Size of the vocabulary.
    """

    ids: Int32
    documents: Int64
    head: int
    n_tokens: int

    def cut(self, size: int, window: int) -> Iterator["Piece"]:
        """Pieces of ``size`` labels, each with as much of the text before it as its contexts reach."""
        for start in range(self.head, len(self.ids), size):
            stop = min(start + size, len(self.ids))
            inside = self.documents[(self.documents > start) & (self.documents < stop)]
            begun = int(self.documents[np.searchsorted(self.documents, start, side="right") - 1])
            first = max(begun, start - window)
            borders = np.concatenate([[first], inside, [stop]])
            yield Piece(self.ids[first:stop], borders - first, start - first, self.n_tokens)

    def samples(self, window: int) -> Samples:
        """Its labels with their contexts, one by one."""
        begun = np.repeat(self.documents[:-1], np.diff(self.documents))
        position = np.arange(len(self.ids), dtype=np.int64)
        stops = position[(position > begun) & (position >= self.head)]
        starts = np.maximum(begun[stops], stops - window)
        return Samples(self.ids, starts, stops, self.ids[stops], self.n_tokens)


@dataclass(frozen=True, eq=False)
class Links:
    """Where the token at each position stood before and returns, and the samples of each query.

    Attributes
    ----------
    before, after : int32 arrays, shape (n_values,)
        The nearest position with the same token in the same document, or :data:`NOT_YET` and
        :data:`NEVER`.
    realisable, unrealisable : int64 arrays, shape (n_tokens,)
        Samples of each query, by whether the label is in the context; none of a query that is not kept.
    """

    before: Int32
    after: Int32
    realisable: Int64
    unrealisable: Int64


def link_repeats(piece: Piece, window: int, kept: Bool) -> Links:
    """Link every token to its like before and after, and count the samples of the kept queries."""
    before, after = np.empty(len(piece.ids), np.int32), np.empty(len(piece.ids), np.int32)
    last = np.full(piece.n_tokens, NOT_YET, np.int32)
    _link(piece.ids, piece.documents, last, before, after)
    realisable, unrealisable = np.zeros(piece.n_tokens, np.int64), np.zeros(piece.n_tokens, np.int64)
    _count(piece.ids, piece.documents, piece.head, window, kept, before, realisable, unrealisable)
    return Links(before, after, realisable, unrealisable)


def window_edges(
    piece: Piece, links: Links, *, window: int, kept: Bool, max_keys: int
) -> Iterator[tuple[Int64, Int32]]:
    """The edges of the kept queries, in chunks of at most ``max_keys`` before they are counted.

    Yields
    ------
    keys, support : int64 and int32 arrays
        Distinct packed edges (see :func:`~attomaton.graphs.edges.pack_edges`), rising, and the number of
        samples of this chunk that show each.

    Examples
    --------
    >>> piece = Piece(np.array([0, 1, 0, 0], np.int32), np.array([0, 4]), 0, 2)
    >>> kept = np.ones(2, bool)
    >>> links = link_repeats(piece, 3, kept)
    >>> [(keys, support)] = window_edges(piece, links, window=3, kept=kept, max_keys=100)
    >>> from attomaton.graphs.edges import unpack_edges
    >>> [part.tolist() for part in unpack_edges(keys)], support.tolist()
    ([[0, 1], [0, 0], [1, 1]], [1, 1])
    """
    place, longest = 0, min(window, len(piece.ids))
    room = max(max_keys, longest) + 1  # a context is never torn, and one place is scratch
    room = min(room, int(links.realisable.sum()) * longest + 1)
    while place < len(piece.ids):
        keys = np.empty(room, np.int64)
        borders = (piece.documents, piece.head, place)
        place, n_keys = _emit(piece.ids, *borders, longest, kept, links.before, links.after, keys)
        if n_keys:
            found = keys[:n_keys]
            found.sort()
            support = np.empty(n_keys, np.int32)
            n_distinct = _count_runs(found, support)
            yield found[:n_distinct], support[:n_distinct]


@compiled
def _link(ids: Int32, documents: Int64, last: Int32, before: Int32, after: Int32) -> None:
    for document in range(len(documents) - 1):
        start = documents[document]
        for position in range(start, documents[document + 1]):
            token = ids[position]
            previous = last[token]
            if previous >= start:
                after[previous] = position
                before[position] = previous
            else:
                before[position] = NOT_YET
            after[position] = NEVER
            last[token] = position


@compiled
def _count(
    ids: Int32,
    documents: Int64,
    head: int,
    window: int,
    kept: Bool,
    before: Int32,
    realisable: Int64,
    unrealisable: Int64,
) -> None:
    for document in range(len(documents) - 1):
        for position in range(max(documents[document] + 1, head), documents[document + 1]):
            query = ids[position - 1]
            if kept[query]:
                if before[position] >= max(documents[document], position - window):
                    realisable[query] += 1
                else:
                    unrealisable[query] += 1


@compiled
def _emit(
    ids: Int32,
    documents: Int64,
    head: int,
    place: int,
    window: int,
    kept: Bool,
    before: Int32,
    after: Int32,
    keys: Int64,
) -> tuple[int, int]:
    """Pack the edges of the labels from ``place`` on until ``keys`` is full; the next place, and how many."""
    n_keys = 0
    for document in range(len(documents) - 1):
        begun = documents[document]
        for position in range(max(begun + 1, head, place), documents[document + 1]):
            start = max(begun, position - window)
            if before[position] < start or not kept[ids[position - 1]]:
                continue
            if n_keys + position - start >= len(keys):
                return position, n_keys
            pair = (np.int64(ids[position - 1]) << 2 * TOKEN_BITS) | (np.int64(ids[position]) << TOKEN_BITS)
            for other in range(start, position):  # no branch: each key is written, few are overwritten
                keys[n_keys] = pair | np.int64(ids[other])
                n_keys += after[other] > position  # the last of its kind, and not the label
    return len(ids), n_keys


@compiled
def _count_runs(keys: Int64, support: Int32) -> int:
    """Move the distinct ones of sorted keys to the front, with the length of each run; their number."""
    n_distinct = 0
    support[0] = 1
    for row in range(1, len(keys)):
        if keys[row] == keys[n_distinct]:
            support[n_distinct] += 1
        else:
            n_distinct += 1
            keys[n_distinct] = keys[row]
            support[n_distinct] = 1
    return n_distinct + 1
