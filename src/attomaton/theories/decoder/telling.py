"""Why a decoder ends with these chances after a context."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from attomaton.base.errors import EmptyContext, TokenOutOfRange, UnknownToken, UnsupportedOption
from attomaton.base.options import check_text, show, whole_number
from attomaton.base.printing import SHOWN, Block, Grid, Printed
from attomaton.base.tables import Float64, Int64
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


HEADERS = ["next token", "chance", "log-odds", "seen"]


@dataclass(frozen=True, eq=False, repr=False)
class DecoderExplanation(Printed):
    """One context: its support, with the tokens of it by falling chance.

    Attributes
    ----------
    context : str
        Its tokens.
    tokens : tuple of str
        The support, likeliest first; empty if the context never occurs.
    chances : float64 array, shape (support,)
        Their chances in the limit.
    finite : float64 array, shape (support,)
        Their log-odds against the mean of the support: where the finite part of W ends.
    counts : int64 array, shape (support,)
        How often each was seen.
    n_tokens : int
        Size of the vocabulary.
    alike : int
        Other contexts with the same support: in the limit their columns have the same direction.

    Examples
    --------
    >>> import attomaton as at
    >>> why = at.learn_decoder(["a b a c a b a b"]).explain("a")
    >>> why, why.to_dict(shown=1)["tokens"][0]["token"]
    (DecoderExplanation('a': 2 of 3 tokens follow), 'b')
    >>> print(why)
    After 'a', seen 4 times, 2 of 3 tokens follow. Their logits grow away from all others by ln t, and inside
    the support they differ by log-odds that stay finite. No other context has this support.
    ┏━━━━━━━━━━━━┳━━━━━━━━┳━━━━━━━━━━┳━━━━━━┓
    ┃ next token ┃ chance ┃ log-odds ┃ seen ┃
    ┡━━━━━━━━━━━━╇━━━━━━━━╇━━━━━━━━━━╇━━━━━━┩
    │ b          │ 0.75   │ 0.549    │ 3    │
    │ c          │ 0.25   │ -0.549   │ 1    │
    └────────────┴────────┴──────────┴──────┘
    """

    context: str
    tokens: tuple[str, ...]
    chances: Float64
    finite: Float64
    counts: Int64
    n_tokens: int
    alike: int

    def __repr__(self) -> str:
        return f"DecoderExplanation({self.context!r}: {self.support:,} of {self.n_tokens:,} tokens follow)"

    @property
    def support(self) -> int:
        """How many tokens follow."""
        return len(self.tokens)

    @property
    def positions(self) -> int:
        """How often the context was seen with a next token."""
        return int(self.counts.sum())

    def to_dict(self, *, shown: int = SHOWN) -> dict[str, Any]:
        """The context and its likeliest next tokens as plain JSON values."""
        shown = whole_number(shown, "shown", least=1)
        columns = (self.tokens, self.chances.tolist(), self.finite.tolist(), self.counts.tolist())
        rows = list(zip(*columns, strict=True))[:shown]
        return {
            "context": self.context,
            "positions": self.positions,
            "support": self.support,
            "alike": self.alike,
            "tokens": [dict(zip(("token", "chance", "finite", "count"), row, strict=True)) for row in rows],
        }

    @property
    def sentence(self) -> str:
        """What the limit does here, in words."""
        if not self.support:
            return (
                f"{self.context!r} never stands before a token, so its weights stay 0 and all "
                f"{self.n_tokens:,} tokens keep the same chance."
            )
        times = "once" if self.positions == 1 else f"{self.positions:,} times"
        begin = f"After {self.context!r}, seen {times}, {self.support:,} of {self.n_tokens:,} tokens follow"
        if self.support == self.n_tokens:
            return f"{begin}, so that nothing grows: logits end at the log-odds of the corpus."
        others = f"{self.alike:,} other context{'s have' if self.alike > 1 else ' has'}"
        told = f"{others if self.alike else 'No other context has'} this support."
        return (
            f"{begin}. Their logits grow away from all others by ln t, and inside the support they differ by "
            f"log-odds that stay finite. {told}"
        )

    def _rows(self) -> list[tuple[str, str, str, str]]:
        columns = (self.tokens, self.chances.tolist(), self.finite.tolist(), self.counts.tolist())
        rows = zip(*(one[:SHOWN] for one in columns), strict=True)
        return [(token, f"{chance:.3g}", f"{odds:.3f}", f"{seen:,}") for token, chance, odds, seen in rows]

    def _blocks(self) -> list[Block]:
        rest = self.support - SHOWN
        blocks: list[Block] = [self.sentence]
        if self.support:
            blocks.append(Grid("", HEADERS, self._rows()))
        return blocks + ([f"and {rest:,} more"] if rest > 0 else [])


def explain_support(
    asked: DecoderRequest, supports: Supports, vocabulary: Vocabulary | None
) -> DecoderExplanation:
    """Explain one context with one-hot embedding."""
    if asked.number is None:
        nothing = np.zeros(0), np.zeros(0), np.zeros(0, np.int64)
        return DecoderExplanation(asked.name, (), *nothing, supports.n_tokens, 0)
    pairs = supports.pairs_of(asked.number)
    chances, counts = supports.chances[pairs], supports.counts[pairs]
    order = np.argsort(-counts, kind="stable")
    logs = np.log(chances)
    tokens = supports.tokens[pairs][order].tolist()
    return DecoderExplanation(
        asked.name,
        tuple(name_token(vocabulary, token) for token in tokens),
        chances[order],
        (logs - logs.mean())[order],
        counts[order],
        supports.n_tokens,
        _count_alike(supports, asked.number),
    )


def _count_alike(supports: Supports, number: int) -> int:
    """How many other contexts have the support of this one."""
    own = supports.tokens[supports.pairs_of(number)]
    same = np.flatnonzero(supports.sizes == len(own))
    held = supports.tokens[supports.offsets[same][:, None] + np.arange(len(own))]
    return int((held == own).all(axis=1).sum()) - 1
