"""A cache: the words that recently followed states like this one (Grave, Joulin and Usunier 2017).

p(w) ∝ Σ exp(θ h·hᵢ) over the last words i of the text that are w, with hᵢ the hidden state before them.
With θ = 0 every word has equal weight: the unigram cache. At the first word of a text it is empty and silent.
"""

import numpy as np
from numpy.typing import NDArray

from attomaton.base.tables import Float64, Int64

BLOCK = 512
"""Positions that are processed at once."""


def read_cache(states: NDArray[np.float32], text: Int64, flatness: float, size: int) -> tuple[Float64, Int64]:
    """The probability of each token by the cache, and 1, or 0 where it is empty; shape (n,) each.

    Parameters
    ----------
    states : float32 array, shape (n, width)
        The hidden state from which each token is predicted.
    text : int64 array, shape (n,)
        The tokens.
    flatness : float
        θ.
    size : int
        The number of words in the cache.

    Examples
    --------
    >>> text = np.array([3, 5, 3, 5])
    >>> [one.round(3).tolist() for one in read_cache(np.zeros((4, 1), np.float32), text, 0.0, 2)]
    [[0.0, 0.0, 0.5, 0.5], [0, 1, 1, 1]]
    """
    probabilities = np.zeros(len(text))
    for start in range(0, len(text), BLOCK):
        end, first = min(start + BLOCK, len(text)), max(start - size, 0)
        lag = np.arange(start, end)[:, None] - np.arange(first, end)
        scores = np.float32(flatness) * (states[start:end] @ states[first:end].T)
        scores = np.where((lag >= 1) & (lag <= size), scores, -np.inf)
        top = scores.max(1, keepdims=True)
        odds = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
        weights_of_label = np.where(text[start:end, None] == text[first:end], odds, 0.0).sum(
            1, dtype=np.float64
        )
        probabilities[start:end] = weights_of_label / np.maximum(odds.sum(1, dtype=np.float64), 1e-300)
    return probabilities, (np.arange(len(text)) > 0).astype(np.int64)


def cache_law(
    states: NDArray[np.float32], text: Int64, position: int, flatness: float, size: int, n_tokens: int
) -> Float64:
    """All probabilities at one position by the definition, shape (n_tokens,); all 0 at the first.

    Examples
    --------
    >>> cache_law(np.zeros((3, 1), np.float32), np.array([1, 0, 1]), 2, 0.0, 5, 3).tolist()
    [0.5, 0.5, 0.0]
    """
    law = np.zeros(n_tokens)
    for past in range(max(position - size, 0), position):
        law[text[past]] += np.exp(flatness * float(states[position] @ states[past]))
    return law / law.sum() if position else law
