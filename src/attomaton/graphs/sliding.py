"""The compiled loops of :mod:`attomaton.graphs.windows`: walks over the token stream."""

from typing import Any

import numpy as np

from attomaton.base.kernels import compiled, compiled_within
from attomaton.base.tables import Bool, Int32, Int64, Integers
from attomaton.corpora.samples import MAX_TOKENS, TOKEN_BITS

NEVER = 2**31 - 1
"""Where a token returns that does not."""

NOT_YET = -1
"""Where a token stood that did not: before every context."""


@compiled
def link_tokens(ids: Int32, documents: Int64, last: Int32, before: Int32, after: Int32) -> None:
    """Fill in where each token stood before and returns, inside its document."""
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
def count_samples(
    ids: Int32,
    documents: Int64,
    head: int,
    window: int,
    kept: Bool,
    before: Int32,
    realisable: Int64,
    unrealisable: Int64,
) -> None:
    """Count the samples of each kept query, by whether the label is in the context."""
    for document in range(len(documents) - 1):
        for position in range(max(documents[document] + 1, head), documents[document + 1]):
            query = ids[position - 1]
            if kept[query]:
                if before[position] >= max(documents[document], position - window):
                    realisable[query] += 1
                else:
                    unrealisable[query] += 1


@compiled_within
def pack_context(
    ids: Int32, after: Integers, borders: tuple[Any, Any], pair: Any, keys: Int64, n_keys: int
) -> int:
    """Pack the edges of the context between these borders, from ``keys[n_keys]`` on; how many there are then.

    ``pair`` holds its query and its label. One place of ``keys`` more than the context is long must be free.
    """
    start, stop = borders
    label = pair & (MAX_TOKENS - 1)
    for place in range(start, stop):  # no branch: each key is written, few are overwritten
        keys[n_keys] = (pair << TOKEN_BITS) | np.int64(ids[place])
        n_keys += (after[place] >= stop) & (ids[place] != label)  # the last of its kind, and not the label
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
    """Pack the edges of the labels from ``place`` on until ``keys`` is full; the next place, and how many.

    ``links`` say where each token stood before and returns.
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
