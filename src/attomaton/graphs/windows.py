"""Count the edges of sliding windows directly from the token stream.

:func:`link_repeats` links the positions of each token in a chunk, and :func:`window_edges` then counts. A
token counts once in a context, at the last position, whose link leads beyond the context. The plain
definition is ``extract_edges(Samples.from_windows(ids, window=window, documents=documents))``.
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
    """Distinct packed edges of the selected queries and their support, in batches that may repeat an edge."""
    # A batch counts at most max_keys edges, or the edges of one longer context.
    selected = _check_selected(selected, chunk.n_tokens)
    before = np.ascontiguousarray(check_int32(links.before, "before"))
    after = np.ascontiguousarray(check_int32(links.after, "after"))
    check_lengths("tokens and their links", ids=chunk.ids, before=before, after=after)
    longest = max(0, min(window, len(chunk.ids)))  # a longer context has no more tokens
    n_realisable = int(check_int64(links.realisable, "realisable").sum())
    # A context is never split, and the kernel uses one more entry as scratch. No more edges can occur than
    # one for each token of each realisable context.
    room = min(max(max_keys, longest), max(n_realisable, 1) * longest) + 1
    position = 0
    while position < len(chunk.ids):
        keys = np.empty(room, np.int64)
        borders = (chunk.documents, chunk.head, position)
        # writes edges into keys until they are full; returns where to go on, and how many it wrote
        position, n_keys = pack_windows(chunk.ids, *borders, longest, selected, before, after, keys)
        if n_keys:
            edges = keys[:n_keys]
            edges.sort()
            support = count_runs(edges)  # moves the distinct edges to the front
            yield edges[: len(support)], support


# Check that there is one boolean for each token.
def _check_selected(selected: object, n_tokens: int) -> Bool:
    mask = np.asarray(selected)
    if mask.dtype != np.bool_ or mask.shape != (n_tokens,):
        raise MismatchedParts(
            f"selected is {mask.dtype} of shape {mask.shape}; give a boolean for each of {n_tokens} tokens"
        )
    return np.ascontiguousarray(mask)
