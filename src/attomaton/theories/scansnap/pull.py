"""Where attention moves first, in any corpus: the leading term of the scores, exactly.

At Y = Z = 0 every prediction is uniform, so the decoder begins with Ẏ = η_Y Σ_n π_n f_n (x_n − 1/M)ᵀ, and
the scores of query m with

    z_m(t) = ½ η_Y η_Z t² p_m + O(t³),     p_m = Σ_{n: ψ(n) = m} π_n f_n ∘ (g_n − f_n (f_n·g_n)),
    g_{nl} = Σ_{n': next token of n' = next token of n} π_{n'} f_{n'l} − (1/M) Σ_{n'} π_{n'} f_{n'l}.

So a token is pulled up under a query if it stands before the label of that query's classes, anywhere in the
corpus, more than the other tokens of those classes do. Nothing is assumed: no token need be distinct, no
class orthogonal to another.

For a token of one class n of the whole corpus it comes to

    p_l = π_n f_{nl}² ((1/M) Σ_{n' ≠ n} π_{n'} f_n·f_{n'} − Σ_{n' ≠ n, same next token} π_{n'} f_n·f_{n'}).

Where each next token has one query, as the paper assumes, the second sum is empty: distinct tokens are pulled
up in the order of f², and only because classes overlap. Where a next token follows several queries, as in
text, the second sum is larger by far, and distinct tokens are pulled *down* at first.
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
AT_ONCE = 1 << 23
"""How many numbers are gathered at a time."""

NOISE = 1e-12
"""A pull that is smaller than this, relative to what it is the difference of, is none."""


def find_pulls(classes: CorpusClasses, queries: Sequence[int] | Int64) -> list[tuple[Int64, Float64]]:
    """The initial pull p_m on every token that stands before these queries.

    Returns
    -------
    list of (int64 array, float64 array)
        For each query its tokens, rising, and the pull on each; times ½ η_Y η_Z t² it is the score.

    Examples
    --------
    >>> from attomaton.theories.scansnap.classes import draw_linear_classes
    >>> [(tokens, pull)] = find_pulls(draw_linear_classes(2), [30])
    >>> bool(pull[tokens < 10].max() < 0 < pull[tokens == 19].item())
    True
    """
    labels = distinct_keys(classes.labels.astype(np.int64))
    label_of = find_keys(labels, classes.labels.astype(np.int64))
    predicts = _by_label(classes, label_of, len(labels))
    overall = np.asarray(predicts.sum(axis=0)).ravel() / classes.n_tokens
    return [_pull(classes, query, label_of, predicts, overall) for query in queries]


def define_pull(classes: CorpusClasses, query: int) -> Float64:
    """The definition of p_m, class by class and dense, shape (n_tokens,)."""
    features = classes.dense / np.linalg.norm(classes.dense, axis=1, keepdims=True)
    pull = np.zeros(classes.n_tokens)
    for n in range(len(classes)):
        if classes.queries[n] != query:
            continue
        gain = np.zeros(classes.n_tokens)
        for other in range(len(classes)):
            same = float(classes.labels[other] == classes.labels[n])
            gain += (same - 1 / classes.n_tokens) * classes.shares[other] * features[other]
        pull += classes.shares[n] * features[n] * (gain - features[n] * (features[n] @ gain))
    return pull


def _by_label(classes: CorpusClasses, label_of: Int64, n_labels: int) -> Any:
    """Σ π_n f_n over the classes of each label, sparse, shape (n_labels, n_tokens)."""
    entries = (classes.features, classes.tokens, classes.offsets)
    features = _sparse.csr_array(entries, shape=(len(classes), classes.n_tokens))
    place = (classes.shares, (label_of, np.arange(len(classes))))
    summed = _sparse.csr_array(place, shape=(n_labels, len(classes))) @ features
    summed.sort_indices()
    return summed


def _pull(
    classes: CorpusClasses, query: int, label_of: Int64, predicts: Any, overall: Float64
) -> tuple[Int64, Float64]:
    own = np.flatnonzero(classes.queries == query)
    if not len(own):
        raise UnknownToken(f"token {query} is the query of no class; see .queries")
    tokens: list[Int64] = []
    pulls: list[Float64] = []
    sizes: list[Float64] = []
    lengths = np.diff(predicts.indptr)[label_of[own]]
    cuts = np.searchsorted(np.cumsum(lengths), np.arange(AT_ONCE, int(lengths.sum()), AT_ONCE), side="right")
    for start, stop in pairwise(distinct_keys(np.concatenate([[0], cuts, [len(own)]])).tolist()):
        some = own[start:stop]
        part = classes.take(some)
        entries = (part.features, part.tokens, part.offsets)
        features = _sparse.csr_array(entries, shape=(len(some), classes.n_tokens))
        gain = features.multiply(predicts[label_of[some]]).tocsr()  # f ∘ g, on the same entries
        gain.sort_indices()
        along = gain.data - part.features * overall[part.tokens]
        rows = part.rows
        total = sum_at(rows, along, len(some))
        back = part.features**2 * total[rows]
        pulls.append(part.shares[rows] * (along - back))
        sizes.append(part.shares[rows] * (np.abs(along) + np.abs(back)))
        tokens.append(part.tokens.astype(np.int64))
    every = np.concatenate(tokens)
    found = distinct_keys(every)
    place = find_keys(found, every)
    pull, size = (sum_at(place, np.concatenate(parts), len(found)) for parts in (pulls, sizes))
    return found, np.where(np.abs(pull) > NOISE * size, pull, 0.0)
