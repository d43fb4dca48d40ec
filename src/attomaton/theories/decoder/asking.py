"""A context as a user gives it to a decoder, and its number if it occurs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from attomaton.base.errors import EmptyContext, TokenOutOfRange, UnknownToken, UnsupportedOption
from attomaton.base.options import check_text, show, whole_number
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.theories.beginning.begin import REST
from attomaton.theories.decoder.supports import Supports


@dataclass(frozen=True)
class DecoderRequest:
    """What was asked for.

    Attributes
    ----------
    name : str
        The tokens of the context as text.
    number : int, optional
        Its number among the contexts; None if it does not occur.
    """

    name: str
    number: int | None


def ask(context: Any, supports: Supports, vocabulary: Vocabulary | None) -> DecoderRequest:
    """Find a context: the last tokens of a text, of tokens as strings, or of token ids."""
    width = supports.contexts.shape[1]
    tokens = _tokens_of(context, vocabulary)
    if len(tokens) < width:
        raise EmptyContext(
            f"the context has {len(tokens):,} token{'s' * (len(tokens) != 1)}, and this decoder looks at the "
            f"last {width:,}; give a longer one"
        )
    last = tokens[len(tokens) - width :]
    names = " ".join(one if isinstance(one, str) else name_token(vocabulary, one) for one in last)
    known = [one for one in last if not isinstance(one, str)]
    return DecoderRequest(names, supports.find(known) if len(known) == width else None)


def _tokens_of(context: Any, vocabulary: Vocabulary | None) -> list[int | str]:
    """Ids, and words that the vocabulary does not have as they are."""
    if isinstance(context, str | bytes) or not isinstance(context, Iterable):
        if not isinstance(context, str):
            raise UnsupportedOption(f"context is {show(context)}; give a text, tokens or token ids")
        ids, unknown = _need(vocabulary).encode_open(check_text(context, "the context"))
        return _mix(ids.tolist(), unknown, _need(vocabulary))
    given = list(cast("Iterable[Any]", context))
    if given and all(isinstance(one, str) for one in given):
        ids, unknown = _need(vocabulary).number_open(given)
        return _mix(ids.tolist(), unknown, _need(vocabulary))
    return [_id_of(one, vocabulary) for one in given]


def _id_of(token: Any, vocabulary: Vocabulary | None) -> int:
    if isinstance(token, str) or np.ndim(token):
        raise UnsupportedOption("a context is one text, or tokens, or token ids; ask one context at a time")
    number = whole_number(token, "a token id")
    if vocabulary is not None and number >= len(vocabulary):
        raise TokenOutOfRange(
            f"the token id {number:,} is not below {len(vocabulary):,}, the vocabulary's size"
        )
    return number


def _mix(ids: list[int], unknown: tuple[str, ...], vocabulary: Vocabulary) -> list[int | str]:
    """Ids, and unknown words; those that became one token in learning are that token."""
    size = len(vocabulary)
    rest = size - 1 if size and vocabulary.tokens[-1] == REST else None
    return [one if one < size else unknown[one - size] if rest is None else rest for one in ids]


def _need(vocabulary: Vocabulary | None) -> Vocabulary:
    if vocabulary is None:
        raise UnknownToken("the corpus has ids and no vocabulary; give the context as token ids")
    return vocabulary
