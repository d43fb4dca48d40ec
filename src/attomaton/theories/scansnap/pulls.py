"""Compute the pull on each token exactly: the first movement of its attention score, in any corpus.

Class n has the query ψ(n), a next token, a share π_n and the features f_n = P(· | n)/‖P(· | n)‖; there are M
tokens. At Y = Z = 0 every prediction is uniform, so the decoder begins with Ẏ = η_Y Σ_n π_n f_n (x_n − 1/M)ᵀ,
x_n the one-hot next token, and the scores of query m with

    z_m(t) = ½ η_Y η_Z t² p_m + O(t³),     p_m = Σ_{n: ψ(n) = m} π_n f_n ∘ (g_n − f_n (f_n·g_n)),
    g_{nl} = Σ_{n': next token of n' = next token of n} π_{n'} f_{n'l} − (1/M) Σ_{n'} π_{n'} f_{n'l}.

So a token is raised under a query if it precedes the next token of that query's classes, anywhere in the
corpus, more often than the other tokens of those classes do. This needs no assumption. For a token of a
single class n of the whole corpus the pull is

    p_l = π_n f_{nl}² ((1/M) Σ_{n' ≠ n} π_{n'} f_n·f_{n'} − Σ_{n' ≠ n, same next token} π_{n'} f_n·f_{n'}).

If each next token has one query, as the paper assumes, the second sum is empty: distinct tokens are raised in
the order of f², and only because classes overlap. If a next token follows several queries, as in text, the
second sum is far larger, and distinct tokens are *lowered* at first.
"""

from collections.abc import Iterator, Sequence
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

# Number of values gathered at a time.
VALUES_AT_ONCE = 1 << 23

# A pull smaller than this, relative to the terms of its difference, counts as zero.
PULL_NOISE = 1e-12


def find_pulls(classes: CorpusClasses, queries: Sequence[int] | Int64) -> list[tuple[Int64, Float64]]:
    """The tokens before each of these queries, ascending, with the initial pull p_m on each of them."""
    # rows of label_features: Σ_{n: next token of n = label} π_n f_n, sparse, shape (n_labels, n_tokens)
    labels = distinct_keys(classes.labels.astype(np.int64))
    label_of = find_keys(labels, classes.labels.astype(np.int64))
    weights = (classes.shares, (label_of, np.arange(len(classes))))
    label_features = _sparse.csr_array(weights, shape=(len(labels), len(classes))) @ features_of(classes)
    label_features.sort_indices()
    mean_features = np.asarray(label_features.sum(axis=0)).ravel() / classes.n_tokens
    return [_find_pull(classes, query, label_of, label_features, mean_features) for query in queries]


def features_of(classes: CorpusClasses) -> Any:
    """f_n of each class as a sparse array, shape (n_classes, n_tokens)."""
    entries = (classes.features, classes.tokens, classes.offsets)
    return _sparse.csr_array(entries, shape=(len(classes), classes.n_tokens))


# The tokens of a query's classes, and p_m at each of these tokens; rounding noise is set to 0.
def _find_pull(
    classes: CorpusClasses, query: int, label_of: Int64, label_features: Any, mean_features: Float64
) -> tuple[Int64, Float64]:
    rows = np.flatnonzero(classes.queries == query)
    if not len(rows):
        raise UnknownToken(f"token {query} is not the query of a class; use one of .queries")
    tokens: list[Int64] = []
    pulls: list[Float64] = []
    sizes: list[Float64] = []  # |terms| of each pull: a pull far smaller than these is rounding noise
    for batch in _split_batches(rows, np.diff(label_features.indptr)[label_of[rows]]):
        chosen = classes.take(batch)
        # f_n times the features of its label: these include π_n f_n > 0, so its entries are those of f_n
        products = features_of(chosen).multiply(label_features[label_of[batch]]).tocsr()
        products.sort_indices()
        direct = products.data - chosen.features * mean_features[chosen.tokens]  # f_n ∘ g_n
        # f_n ∘ f_n (f_n·g_n), with f_n·g_n summed over the entries of class n
        radial = chosen.features**2 * sum_at(chosen.rows, direct, len(batch))[chosen.rows]
        share = chosen.shares[chosen.rows]
        pulls.append(share * (direct - radial))
        sizes.append(share * (np.abs(direct) + np.abs(radial)))
        tokens.append(chosen.tokens.astype(np.int64))
    all_tokens = np.concatenate(tokens)
    distinct = distinct_keys(all_tokens)
    index = find_keys(distinct, all_tokens)
    pull, size = (sum_at(index, np.concatenate(terms), len(distinct)) for terms in (pulls, sizes))
    return distinct, np.where(np.abs(pull) > PULL_NOISE * size, pull, 0.0)


# The rows in batches with about VALUES_AT_ONCE values each; ``n_values`` counts those of each row.
def _split_batches(rows: Int64, n_values: Int64) -> Iterator[Int64]:
    limits = np.arange(VALUES_AT_ONCE, int(n_values.sum()), VALUES_AT_ONCE)
    borders = np.searchsorted(np.cumsum(n_values), limits, side="right")
    for start, stop in pairwise(distinct_keys(np.concatenate([[0], borders, [len(rows)]])).tolist()):
        yield rows[start:stop]
