"""Convert the contexts of users to token ids, and name their tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from attomaton.base.borders import trusted
from attomaton.base.errors import EmptyContext, TokenOutOfRange, UnknownToken
from attomaton.base.options import check_text
from attomaton.base.tables import Int32
from attomaton.corpora.budgets import brief
from attomaton.corpora.samples import MAX_TOKENS, Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token

Context = str | Sequence[str] | Sequence[int]
"""A text or tokens as strings (with a vocabulary), or token ids."""


@dataclass(frozen=True)
class Names:
    """The names of the tokens of one context.

    Without a ``vocabulary`` tokens are named by their ids. The ``unknown`` words of the context have the ids
    after those of the vocabulary.
    """

    vocabulary: Vocabulary | None = None
    unknown: tuple[str, ...] = ()

    def __call__(self, token: int) -> str:
        """The token as text, or its id if there is no vocabulary."""
        size = 0 if self.vocabulary is None else len(self.vocabulary)
        if self.unknown and token >= size:
            return self.unknown[token - size]
        return name_token(self.vocabulary, token)

    @property
    def tokens(self) -> tuple[str, ...]:
        return () if self.vocabulary is None else (*self.vocabulary.tokens, *self.unknown)

    def key(self, token: int) -> str | int:
        """The token as text; the id itself if there is no vocabulary."""
        return token if self.vocabulary is None else self(token)

    def join(self, tokens: Iterable[int]) -> str:
        """Consecutive tokens as text; ids separated by spaces if there is no vocabulary."""
        if self.vocabulary is None:
            return " ".join(map(str, tokens))
        return self.vocabulary.join(tokens, self.unknown)


def read_context(context: Context, n_tokens: int, vocabulary: Vocabulary | None) -> tuple[Int32, Names]:
    """The token ids of a context, with unknown words from ``n_tokens`` on, and the names of the tokens."""
    if isinstance(context, Iterator):
        context = cast("Sequence[int]", list(context))
    if isinstance(context, str):
        ids, unknown = _with_vocabulary(vocabulary).encode_open(check_text(context, "the context"))
    elif any(isinstance(token, str) for token in _as_list(context)):
        ids, unknown = _number_tokens(_as_list(context), _with_vocabulary(vocabulary))
    else:
        ids, unknown = _check_ids(context, n_tokens), ()
    if not len(ids):
        raise EmptyContext("the context is empty; the query is its last token, so give at least one")
    if n_tokens + len(unknown) > MAX_TOKENS:
        raise UnknownToken(
            f"the vocabulary and the context have more than {MAX_TOKENS:,} tokens; leave out the "
            f"{len(unknown):,} unknown words"
        )
    return ids, Names(vocabulary, unknown)


def as_samples(contexts: Sequence[Int32], n_tokens: int) -> Samples:
    """Contexts of ids as samples with meaningless labels; unknown words have ids from ``n_tokens`` on."""
    values = np.concatenate([np.empty(0, np.int32), *contexts])
    stops = np.cumsum([len(ids) for ids in contexts], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), stops])[:-1]
    size = max(n_tokens, int(values.max(initial=-1)) + 1)
    ends = {"starts": starts, "stops": stops}
    return trusted(Samples, values=values, labels=values[stops - 1], n_tokens=size, **ends)


def _with_vocabulary(vocabulary: Vocabulary | None) -> Vocabulary:
    if vocabulary is None:
        raise UnknownToken("the automaton has no vocabulary; give the context as token ids")
    return vocabulary


def _as_list(context: Any) -> list[Any]:
    try:
        return list(context)
    except TypeError as error:
        raise TokenOutOfRange(
            f"a context is of type {type(context).__name__}; give a text, or a list of tokens or ids"
        ) from error


def _number_tokens(tokens: list[Any], vocabulary: Vocabulary) -> tuple[Int32, tuple[str, ...]]:
    """The ids of tokens given as strings; a string that is not a single token is refused."""
    if not all(isinstance(token, str) for token in tokens):
        raise UnknownToken("the context mixes text and ids; give either tokens as text or ids")
    words = [check_text(str(token), "a token of the context") for token in tokens]
    for word in dict.fromkeys(words):
        if word not in vocabulary.ids and len(vocabulary.encode_open(word)[0]) != 1:
            raise UnknownToken(
                f"{brief(word)!r} in the list is not a single token; give one text or a list of tokens, or "
                "pass many texts to predict_batch"
            )
    return vocabulary.number_open(words)


def _check_ids(context: Any, n_tokens: int) -> Int32:
    try:
        ids: Any = np.asarray(context)
    except ValueError as error:  # rows of unequal length
        raise TokenOutOfRange("a context must be one list of ids; pass many to predict_batch") from error
    if not ids.size:
        return np.empty(0, np.int32)
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise TokenOutOfRange(
            f"a context must be one list of ids, not {ids.dtype} of shape {ids.shape}; give integers, and "
            "pass many contexts to predict_batch"
        )
    outside = np.flatnonzero((ids < 0) | (ids >= n_tokens))
    if len(outside):
        raise TokenOutOfRange(
            f"token {ids[outside[0]]} at position {outside[0]} of the context is not in "
            f"0 … {n_tokens - 1}; give ids of this vocabulary"
        )
    return cast("Int32", ids.astype(np.int32))
