"""Contexts as they are: every distinct context with its label is a class of its own.

The paper lets contexts grow without end, so that all contexts of a class show the class's law. Contexts of
a corpus are short, and differ. But the gradient of one context, with the keys X, is that of a class whose
law is the shares of the tokens in X; so the flow on these classes (:func:`.flow.solve_flow`) is training on
the samples themselves, and nothing is left to assume but small steps. Distinct and common mean nothing here.
"""

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.ragged import group_borders, offsets_of, ranges_of, rows_of
from attomaton.base.tables import Int32, Int64, sum_equal_rows
from attomaton.corpora.samples import Samples
from attomaton.graphs.grouping import count_keys, pack_pairs, unpack_pairs
from attomaton.theories.scansnap.classes import CorpusClasses


def classes_of_contexts(samples: Samples, *, query_is_key: bool = False) -> CorpusClasses:
    """One class for each distinct triple of query, label and bag of keys.

    Parameters
    ----------
    samples : Samples
        Samples without a key are left out.
    query_is_key : bool
        Whether the token at the last position is among the keys, as in the first paper. In the second it is
        masked; earlier occurrences of the same token always count.

    Returns
    -------
    CorpusClasses
        With the share of each context among all, its length, and P(l | n) the share of l among its keys.

    Examples
    --------
    >>> samples = Samples.from_lists([[0, 1, 2], [1, 0, 2], [0, 0, 2], [1, 2]], [0, 0, 1, 1])
    >>> classes = classes_of_contexts(samples)
    >>> classes.shares.tolist(), classes.dense.tolist()
    ([0.5, 0.25, 0.25], [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    """
    masked = 0 if query_is_key else 1
    kept = samples.take(samples.lengths > masked)
    if not len(kept):
        raise InvalidSamples("no sample has a token before its query; give longer contexts")
    lengths = kept.lengths - masked
    begins = offsets_of(lengths)
    row = rows_of(begins)
    token = unpack_pairs(np.sort(pack_pairs(row, kept.values[ranges_of(kept.starts, lengths)])))[1]
    heads = np.stack([kept.queries, kept.labels], axis=1)
    words = np.insert(token, np.repeat(begins[:-1], 2), heads.ravel())
    offsets, found, count = sum_equal_rows(
        begins + 2 * np.arange(len(begins)), words, np.ones(len(kept), np.int64)
    )
    return _classes(offsets, found, count, kept.n_tokens)


def _classes(offsets: Int64, words: Int32, count: Int64, n_tokens: int) -> CorpusClasses:
    lengths = np.diff(offsets) - 2
    inside = np.ones(len(words), bool)
    inside[offsets[:-1]] = inside[offsets[:-1] + 1] = False
    row = np.repeat(np.arange(len(count)), lengths)
    keys, seen = count_keys(pack_pairs(row, words[inside]))
    rows, tokens = unpack_pairs(keys)
    return CorpusClasses(
        words[offsets[:-1]],
        words[offsets[:-1] + 1],
        count / count.sum(),
        group_borders(rows, len(count)),
        tokens,
        seen / lengths[rows],
        n_tokens,
        lengths.astype(np.float64),
    )
