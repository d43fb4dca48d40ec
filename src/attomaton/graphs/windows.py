"""Edges of sliding windows, straight from the token stream.

The contexts of neighbouring positions share all but one token, so nothing needs to be sorted or looked up per
context: a token is the last of its kind before position i exactly if it does not return before i. The plain
definition is ``extract_edges(Samples.from_windows(ids, window=window, documents=documents))``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attomaton.base.borders import check_int32, check_int64, check_lengths
from attomaton.base.errors import MismatchedParts
from attomaton.base.tables import Bool, Int32, Int64
from attomaton.corpora.pieces import Piece


@dataclass(frozen=True, eq=False)
class Links:
    """Where the token at each position stood before and returns, and the samples of each query.

    Attributes
    ----------
    before, after : int32 arrays, shape (n_values,)
        The nearest position with the same token in the same document, or −1 and 2^31 − 1: outside every
        context.
    realisable, unrealisable : int64 arrays, shape (n_tokens,)
        Samples of each query, by whether the label is in the context; none of a query that is not kept.
    """

    before: Int32
    after: Int32
    realisable: Int64
    unrealisable: Int64


def link_repeats(piece: Piece, window: int, kept: Bool) -> Links:
    """Link every token to its like before and after, and count the samples of the kept queries."""
    from attomaton.graphs.sliding import NOT_YET, count_samples, link_tokens

    kept = _check_kept(kept, piece.n_tokens)
    before, after = np.empty(len(piece.ids), np.int32), np.empty(len(piece.ids), np.int32)
    last = np.full(piece.n_tokens, NOT_YET, np.int32)
    link_tokens(piece.ids, piece.documents, last, before, after)
    realisable, unrealisable = np.zeros(piece.n_tokens, np.int64), np.zeros(piece.n_tokens, np.int64)
    count_samples(piece.ids, piece.documents, piece.head, window, kept, before, realisable, unrealisable)
    return Links(before, after, realisable, unrealisable)


def window_edges(
    piece: Piece, links: Links, *, window: int, kept: Bool, max_keys: int
) -> Iterator[tuple[Int64, Int32]]:
    """The edges of the kept queries, in chunks of at most ``max_keys`` before they are counted."""
    from attomaton.graphs.sliding import count_runs, pack_windows

    kept = _check_kept(kept, piece.n_tokens)
    before, after = check_int32(links.before, "before"), check_int32(links.after, "after")
    check_lengths("tokens and their links", ids=piece.ids, before=before, after=after)
    place, longest = 0, max(0, min(window, len(piece.ids)))
    room = max(max_keys, longest) + 1  # a context is never torn, and one place is scratch
    realisable = int(check_int64(links.realisable, "realisable").sum())
    room = min(room, max(realisable, 1) * longest + 1)
    while place < len(piece.ids):
        keys = np.empty(room, np.int64)
        borders = (piece.documents, piece.head, place)
        place, n_keys = pack_windows(piece.ids, *borders, longest, kept, (before, after), keys)
        if n_keys:
            found = keys[:n_keys]
            found.sort()
            support = np.empty(n_keys, np.int32)
            n_distinct = count_runs(found, support)
            yield found[:n_distinct], support[:n_distinct]


def _check_kept(kept: object, n_tokens: int) -> Bool:
    """One truth value for each token."""
    mask = np.asarray(kept)
    if mask.dtype != np.bool_ or mask.shape != (n_tokens,):
        raise MismatchedParts(
            f"kept is {mask.dtype} of shape {mask.shape}; give one truth value for each of {n_tokens} tokens"
        )
    return mask
