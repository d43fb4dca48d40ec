"""Edges of sliding windows, directly from the token stream.

The contexts of neighbouring positions share all but one token, so nothing needs to be sorted or looked up per
context: a token is the last of its kind before position i exactly if it does not recur before i. The plain
definition is ``extract_edges(Samples.from_windows(ids, window=window, documents=documents))``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.borders import check_int32, check_int64, check_lengths
from attomaton.base.errors import MismatchedParts
from attomaton.base.kernels import compiled, compiled_within
from attomaton.base.tables import Bool, Int32, Int64, Integers
from attomaton.corpora.documents import Piece
from attomaton.corpora.samples import MAX_TOKENS, TOKEN_BITS


@dataclass(frozen=True, eq=False)
class Links:
    """The previous and next position of the token at each position, and the samples of each query."""

    before: Int32  # (n_values,): the nearest earlier position of the token in the document, or −1
    after: Int32  # (n_values,): the nearest later one, or 2^31 − 1
    realisable: Int64  # (n_tokens,): samples of each kept query with the label in the context
    unrealisable: Int64  # (n_tokens,): those without


def link_repeats(piece: Piece, window: int, kept: Bool) -> Links:
    """Link every token to its previous and next occurrence, and count the samples of the kept queries."""
    kept = _check_kept(kept, piece.n_tokens)
    before, after = np.empty(len(piece.ids), np.int32), np.empty(len(piece.ids), np.int32)
    counts = np.zeros(piece.n_tokens, np.int64), np.zeros(piece.n_tokens, np.int64)
    _link_tokens(piece.ids, (piece.documents, piece.head), window, kept, (before, after), counts)
    return Links(before, after, *counts)


def window_edges(
    piece: Piece, links: Links, *, window: int, kept: Bool, max_keys: int
) -> Iterator[tuple[Int64, Int32]]:
    """The edges of the kept queries, in chunks of at most ``max_keys`` before counting."""
    kept = _check_kept(kept, piece.n_tokens)
    before, after = check_int32(links.before, "before"), check_int32(links.after, "after")
    check_lengths("tokens and their links", ids=piece.ids, before=before, after=after)
    position, longest = 0, max(0, min(window, len(piece.ids)))
    room = max(max_keys, longest) + 1  # a context is never split, and one entry is scratch
    realisable = int(check_int64(links.realisable, "realisable").sum())
    room = min(room, max(realisable, 1) * longest + 1)
    while position < len(piece.ids):
        keys = np.empty(room, np.int64)
        borders = (piece.documents, piece.head, position)
        position, n_keys = pack_windows(piece.ids, *borders, longest, kept, (before, after), keys)
        if n_keys:
            chunk = keys[:n_keys]
            chunk.sort()
            support = np.empty(n_keys, np.int32)
            n_distinct = count_runs(chunk, support)
            yield chunk[:n_distinct], support[:n_distinct]


def _check_kept(kept: object, n_tokens: int) -> Bool:
    """Check that there is one boolean for each token."""
    mask = np.asarray(kept)
    if mask.dtype != np.bool_ or mask.shape != (n_tokens,):
        raise MismatchedParts(
            f"kept is {mask.dtype} of shape {mask.shape}; give one boolean for each of the {n_tokens} tokens"
        )
    return mask


NEVER = 2**31 - 1
"""The next position of a token that does not recur."""

NOT_YET = -1
"""The previous position of a token that did not occur before: before every context."""


@compiled
def _link_tokens(
    ids: Int32, borders: Any, window: int, kept: Bool, links: tuple[Int32, Int32], counts: tuple[Int64, Int64]
) -> None:
    """Fill in the previous and next position of each token, inside its document; count samples by query.

    ``borders`` are those of the documents, and the first position that is a label. ``counts`` are the numbers
    of samples with the label in the context, and without.
    """
    (documents, head), (before, after), (realisable, unrealisable) = borders, links, counts
    last = np.full(len(kept), NOT_YET, np.int32)
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
            if position > start and position >= head and kept[ids[position - 1]]:
                if before[position] >= max(start, position - window):
                    realisable[ids[position - 1]] += 1
                else:
                    unrealisable[ids[position - 1]] += 1


@compiled_within
def pack_context(
    ids: Int32, after: Integers, borders: tuple[Any, Any], pair: Any, keys: Int64, n_keys: int
) -> int:
    """Pack the edges of the context between these borders, from ``keys[n_keys]`` on; return the new number.

    ``pair`` holds its query and its label. ``keys`` needs one free entry more than the length of the context.
    """
    start, stop = borders
    label = pair & (MAX_TOKENS - 1)
    for position in range(start, stop):  # no branch: each key is written, few are overwritten
        keys[n_keys] = (pair << TOKEN_BITS) | np.int64(ids[position])
        n_keys += (after[position] >= stop) & (
            ids[position] != label
        )  # the last of its kind, and not the label
    return n_keys


@compiled
def pack_windows(
    ids: Int32,
    documents: Int64,
    head: int,
    place: int,
    window: int,
    kept: Bool,
    links: tuple[Int32, Int32],
    keys: Int64,
) -> tuple[int, int]:
    """Pack the edges of the labels from ``place`` on until ``keys`` is full; return the next place and count.

    ``links`` are the previous and next position of each token.
    """
    before, after = links
    n_keys = 0
    for document in range(len(documents) - 1):
        begun = documents[document]
        for position in range(max(begun + 1, head, place), documents[document + 1]):
            start = max(begun, position - window)
            if before[position] < start or not kept[ids[position - 1]]:
                continue
            if n_keys + position - start >= len(keys):
                return position, n_keys
            pair = (np.int64(ids[position - 1]) << TOKEN_BITS) | np.int64(ids[position])
            n_keys = pack_context(ids, after, (start, position), pair, keys, n_keys)
    return len(ids), n_keys


@compiled
def count_runs(keys: Int64, support: Int32) -> int:
    """Move the distinct values of sorted keys to the front, with their counts; return how many there are."""
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
