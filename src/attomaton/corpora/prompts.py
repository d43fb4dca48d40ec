"""Convert the contexts of users to token ids, and name the tokens in results."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from attomaton.base.borders import trusted
from attomaton.base.errors import EmptyContext, TokenOutOfRange, UnknownToken
from attomaton.base.options import check_text
from attomaton.base.printing import count_noun
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int32
from attomaton.corpora.budgets import brief
from attomaton.corpora.samples import MAX_TOKENS, Samples, check_range
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token

# A text or tokens as strings (with a vocabulary), or token ids.
Context = str | Sequence[str] | Sequence[int]


@dataclass(frozen=True)
class Names:
    """The names of the tokens of one context: texts, or ids if there is no ``vocabulary``.

    The ``unknown`` words of the context have the ids after those of the vocabulary.
    """

    vocabulary: Vocabulary | None = None
    unknown: tuple[str, ...] = ()

    def __call__(self, token: int) -> str:  # the name of a token
        size = 0 if self.vocabulary is None else len(self.vocabulary)
        if self.unknown and token >= size:
            return self.unknown[token - size]
        return name_token(self.vocabulary, token)

    @property
    def tokens(self) -> tuple[str, ...]:
        return () if self.vocabulary is None else (*self.vocabulary.tokens, *self.unknown)

    def key(self, token: int) -> str | int:
        """The token as text, or the id itself if there is no vocabulary."""
        return token if self.vocabulary is None else self(token)

    def join(self, tokens: Iterable[int]) -> str:
        """The text of consecutive tokens, or their ids separated by spaces if there is no vocabulary."""
        if self.vocabulary is None:
            return " ".join(map(str, tokens))
        return self.vocabulary.join(tokens, self.unknown)


def read_context(context: Context, n_tokens: int, vocabulary: Vocabulary | None) -> tuple[Int32, Names]:
    """The token ids of a context, with unknown words from ``n_tokens`` on, and the names of its tokens."""
    if isinstance(context, Iterator):
        context = cast("Sequence[int]", list(context))
    if isinstance(context, str):
        ids, unknown = _with_vocabulary(vocabulary).encode_open(check_text(context, "the context"))
    elif any(isinstance(token, str) for token in _as_list(context)):
        ids, unknown = _number_tokens(_as_list(context), _with_vocabulary(vocabulary))
    else:
        ids, unknown = _check_ids(context, n_tokens), ()
    if not len(ids):
        raise EmptyContext("the context is empty; give at least one token, which is the query")
    if n_tokens + len(unknown) > MAX_TOKENS:
        raise UnknownToken(
            f"the vocabulary and the unknown words of the context have more than {MAX_TOKENS:,} tokens "
            f"together; leave out the {count_noun(len(unknown), 'unknown word')}"
        )
    return ids, Names(vocabulary, unknown)


def as_samples(contexts: Sequence[Int32], n_tokens: int) -> Samples:
    """Contexts as samples with meaningless labels; unknown words have ids from ``n_tokens`` on."""
    values = np.concatenate([np.empty(0, np.int32), *contexts])
    offsets = offsets_of(np.array([len(ids) for ids in contexts], np.int64))
    borders = {"starts": offsets[:-1], "stops": offsets[1:]}
    size = max(n_tokens, int(values.max(initial=-1)) + 1)
    # any token could be the label; it is the last one of the context
    return trusted(Samples, values=values, labels=values[offsets[1:] - 1], n_tokens=size, **borders)


# The vocabulary that a context in words needs; an error if there is none.
def _with_vocabulary(vocabulary: Vocabulary | None) -> Vocabulary:
    if vocabulary is None:
        raise UnknownToken("the automaton has no vocabulary, so a context cannot be text; give token ids")
    return vocabulary


def _as_list(context: Any) -> list[Any]:
    try:
        return list(context)
    except TypeError as error:
        raise TokenOutOfRange(
            f"a context is of type {type(context).__name__}; give a text, a list of tokens, or a list of ids"
        ) from error


# The ids of tokens, and the tokens outside the vocabulary. A text of several tokens is an error: the list is
# perhaps a list of contexts.
def _number_tokens(tokens: list[Any], vocabulary: Vocabulary) -> tuple[Int32, tuple[str, ...]]:
    if not all(isinstance(token, str) for token in tokens):
        raise UnknownToken("the context mixes texts and ids; give tokens as texts only, or as ids only")
    words = [check_text(str(token), "a token of the context") for token in tokens]
    for word in dict.fromkeys(words):
        if word not in vocabulary.ids and len(vocabulary.encode_open(word)[0]) != 1:
            raise UnknownToken(
                f"{brief(word)!r} in the context is not a single token; give a list of tokens, or pass a "
                "list of texts to predict_batch"
            )
    return vocabulary.number_open(words)


# A context of ids as an array, shape (length,); an id outside 0 … n_tokens − 1 is an error.
def _check_ids(context: Any, n_tokens: int) -> Int32:
    try:
        ids: Any = np.asarray(context)
    except ValueError as error:  # rows of unequal length
        raise TokenOutOfRange("a context is one list of ids; pass several to predict_batch") from error
    if not ids.size:
        return np.empty(0, np.int32)
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise TokenOutOfRange(
            f"the context is an array of {ids.dtype} of shape {ids.shape}; give one list of integers, or "
            "pass several contexts to predict_batch"
        )
    cure = "give ids of this vocabulary"
    check_range(ids, n_tokens, lambda index: f"position {index} of the context", cure)
    return cast("Int32", ids.astype(np.int32))
