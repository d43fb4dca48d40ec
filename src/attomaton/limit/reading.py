"""A context as a user gives it, as token ids."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import EmptyContext, TokenOutOfRange, UnknownToken
from attomaton.tables import Bool, Float64, Int32, Int64

Context = str | Sequence[str] | Sequence[int]
"""A text or tokens as strings (with a vocabulary), or token ids."""


@dataclass(frozen=True, eq=False)
class Reading:
    """A context with a chance for each of its distinct tokens.

    Attributes
    ----------
    ids : int32 array, shape (length,)
        The context.
    tokens, multiplicity : int32 and int64 arrays, shape (n_distinct,)
        Its distinct tokens, rising, and how often each occurs.
    seen : bool array, shape (n_distinct,)
        Which of them samples show under this query.
    probabilities : float64 array, shape (n_distinct,)
        The chance of each to be the next token.
    """

    ids: Int32
    tokens: Int32
    multiplicity: Int64
    seen: Bool
    probabilities: Float64

    def chances(self, n_tokens: int) -> Float64:
        """The chance of every token of the vocabulary, shape (n_tokens,)."""
        chances = np.zeros(n_tokens)
        chances[self.tokens] = self.probabilities
        return chances

    def attention(self) -> Float64:
        """The attention weight of every position, shape (length,)."""
        return (self.probabilities / self.multiplicity)[np.searchsorted(self.tokens, self.ids)]


def read_context(context: Context, n_tokens: int, vocabulary: Vocabulary | None) -> Int32:
    """The token ids of a context, shape (length,), checked."""
    if isinstance(context, str) or any(isinstance(token, str) for token in context):
        if vocabulary is None:
            raise UnknownToken("there is no vocabulary; give the context as token ids")
        text = isinstance(context, str)
        ids = vocabulary.encode(context) if text else vocabulary.lookup(list(map(str, context)))
    else:
        ids = np.asarray(context)
    if not len(ids):
        raise EmptyContext("the context is empty; the query is its last token, so give at least one")
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise TokenOutOfRange(
            f"a context is one list of token ids, this is {ids.dtype} of shape {ids.shape}; give integers"
        )
    outside = np.flatnonzero((ids < 0) | (ids >= n_tokens))
    if len(outside):
        raise TokenOutOfRange(
            f"token {ids[outside[0]]} at position {outside[0]} of the context is not in "
            f"0 … {n_tokens - 1}; give ids of this vocabulary"
        )
    return ids.astype(np.int32)
