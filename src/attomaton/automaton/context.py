"""A context as a user gives it, as token ids."""

from collections.abc import Sequence

import numpy as np

from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import EmptyContext, TokenOutOfRange, UnknownToken
from attomaton.tables import Int32

Context = str | Sequence[str] | Sequence[int]
"""A text or tokens as strings (with a vocabulary), or token ids."""


def name_token(vocabulary: Vocabulary | None, token: int) -> str:
    """The token as text, or its id where there is no vocabulary."""
    return str(token) if vocabulary is None else vocabulary.tokens[token]


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
