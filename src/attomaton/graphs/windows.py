"""Count the edges of sliding windows directly from the token stream.

The contexts of neighbouring positions share all but one token: a token is the last of its kind before
position i exactly if it does not recur before i. The plain definition is
``extract_edges(Samples.from_windows(ids, window=window, documents=documents))``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attomaton.base.borders import check_int32, check_int64, check_lengths
from attomaton.base.errors import MismatchedParts
from attomaton.base.native import count_runs, link_tokens, pack_windows
from attomaton.base.tables import Bool, Int32, Int64
from attomaton.corpora.documents import Chunk


@dataclass(frozen=True, eq=False)
class Links:
    """The previous and next position of the token at each position, and the samples of each query."""

    before: Int32  # (n_values,): the nearest earlier position of the token in the document, or −1
    after: Int32  # (n_values,): the nearest later one, or 2^31 − 1
    realisable: Int64  # (n_tokens,): samples of each selected query with the label in the context
    unrealisable: Int64  # (n_tokens,): those without


def link_repeats(chunk: Chunk, window: int, selected: Bool) -> Links:
    """Link every token to its previous and next occurrence, and count the samples of the selected queries."""
    selected = _check_selected(selected, chunk.n_tokens)
    return Links(*link_tokens(chunk.ids, chunk.documents, chunk.head, window, selected))


def window_edges(
    chunk: Chunk, links: Links, *, window: int, selected: Bool, max_keys: int
) -> Iterator[tuple[Int64, Int32]]:
    """The edges of the selected queries and their support, from at most ``max_keys`` uncounted edges each."""
    selected = _check_selected(selected, chunk.n_tokens)
    arrays = check_int32(links.before, "before"), check_int32(links.after, "after")
    before, after = map(np.ascontiguousarray, arrays)
    check_lengths("tokens and their links", ids=chunk.ids, before=before, after=after)
    position, longest = 0, max(0, min(window, len(chunk.ids)))
    room = max(max_keys, longest) + 1  # a context is never split, and one entry is scratch
    realisable = int(check_int64(links.realisable, "realisable").sum())
    room = min(room, max(realisable, 1) * longest + 1)
    while position < len(chunk.ids):
        keys = np.empty(room, np.int64)
        borders = (chunk.documents, chunk.head, position)
        position, n_keys = pack_windows(chunk.ids, *borders, longest, selected, before, after, keys)
        if n_keys:
            edges = keys[:n_keys]
            edges.sort()
            support = count_runs(edges)
            yield edges[: len(support)], support


def _check_selected(selected: object, n_tokens: int) -> Bool:
    """Check that there is one boolean for each token."""
    mask = np.asarray(selected)
    if mask.dtype != np.bool_ or mask.shape != (n_tokens,):
        raise MismatchedParts(
            f"selected is {mask.dtype} of shape {mask.shape}; give a boolean for each of {n_tokens} tokens"
        )
    return np.ascontiguousarray(mask)
