"""The first movement of attention scores in any corpus, exactly: the pull on each token.

At Y = Z = 0 every prediction is uniform, so the decoder begins with Ẏ = η_Y Σ_n π_n f_n (x_n − 1/M)ᵀ, and
the scores of query m with

    z_m(t) = ½ η_Y η_Z t² p_m + O(t³),     p_m = Σ_{n: ψ(n) = m} π_n f_n ∘ (g_n − f_n (f_n·g_n)),
    g_{nl} = Σ_{n': next token of n' = next token of n} π_{n'} f_{n'l} − (1/M) Σ_{n'} π_{n'} f_{n'l}.

So a token is raised under a query if it precedes the label of that query's classes, anywhere in the corpus,
more often than the other tokens of those classes do. This needs no assumption: no token need be distinct, no
class orthogonal to another.

For a token of a single class n of the whole corpus it is

    p_l = π_n f_{nl}² ((1/M) Σ_{n' ≠ n} π_{n'} f_n·f_{n'} − Σ_{n' ≠ n, same next token} π_{n'} f_n·f_{n'}).

If each next token has one query, as the paper assumes, the second sum is empty: distinct tokens are raised in
the order of f², and only because classes overlap. If a next token follows several queries, as in text, the
second sum is far larger, and distinct tokens are *lowered* at first.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from attomaton.base.errors import UnknownToken
from attomaton.base.ragged import sum_at
from attomaton.base.tables import Float64, Int64
from attomaton.graphs.grouping import distinct_keys, find_keys
from attomaton.theories.scansnap.classes import CorpusClasses

_sparse: Any = sparse
VALUES_AT_ONCE = 1 << 23
"""Number of values gathered at a time."""

PULL_NOISE = 1e-12
"""A pull smaller than this, relative to the terms of its difference, counts as zero."""


def find_pulls(classes: CorpusClasses, queries: Sequence[int] | Int64) -> list[tuple[Int64, Float64]]:
    """The tokens before each of these queries, ascending, with the initial pull p_m on them.

    The score is ½ η_Y η_Z t² times the pull.
    """
    labels = distinct_keys(classes.labels.astype(np.int64))
    label_of = find_keys(labels, classes.labels.astype(np.int64))
    entries = (classes.features, classes.tokens, classes.offsets)
    features = _sparse.csr_array(entries, shape=(len(classes), classes.n_tokens))
    owners = (classes.shares, (label_of, np.arange(len(classes))))
    predicts = _sparse.csr_array(owners, shape=(len(labels), len(classes))) @ features  # Σ π_n f_n by label
    predicts.sort_indices()
    overall = np.asarray(predicts.sum(axis=0)).ravel() / classes.n_tokens
    return [_pull_of_query(classes, query, label_of, predicts, overall) for query in queries]


def _pull_of_query(
    classes: CorpusClasses, query: int, label_of: Int64, predicts: Any, overall: Float64
) -> tuple[Int64, Float64]:
    """The tokens of a query's classes, with p_m summed over the classes; rounding noise is set to 0.

    ``label_of`` is the row of each class's next token in ``predicts``, Σ π_n f_n by next token; ``overall``
    is the sum of its rows over M.
    """
    numbers = np.flatnonzero(classes.queries == query)
    if not len(numbers):
        raise UnknownToken(f"token {query} is not the query of a class; see .queries")
    tokens: list[Int64] = []
    pulls: list[Float64] = []
    sizes: list[Float64] = []
    lengths = np.diff(predicts.indptr)[label_of[numbers]]
    cuts = np.searchsorted(
        np.cumsum(lengths), np.arange(VALUES_AT_ONCE, int(lengths.sum()), VALUES_AT_ONCE), side="right"
    )
    for start, stop in pairwise(distinct_keys(np.concatenate([[0], cuts, [len(numbers)]])).tolist()):
        batch = numbers[start:stop]
        chosen = classes.take(batch)
        entries = (chosen.features, chosen.tokens, chosen.offsets)
        features = _sparse.csr_array(entries, shape=(len(batch), classes.n_tokens))
        gain = features.multiply(predicts[label_of[batch]]).tocsr()  # f ∘ g, on the same entries
        gain.sort_indices()
        lifts = gain.data - chosen.features * overall[chosen.tokens]
        rows = chosen.rows
        total = sum_at(rows, lifts, len(batch))
        back = chosen.features**2 * total[rows]
        pulls.append(chosen.shares[rows] * (lifts - back))
        sizes.append(chosen.shares[rows] * (np.abs(lifts) + np.abs(back)))
        tokens.append(chosen.tokens.astype(np.int64))
    every = np.concatenate(tokens)
    distinct = distinct_keys(every)
    index = find_keys(distinct, every)
    pull, size = (sum_at(index, np.concatenate(terms), len(distinct)) for terms in (pulls, sizes))
    return distinct, np.where(np.abs(pull) > PULL_NOISE * size, pull, 0.0)
