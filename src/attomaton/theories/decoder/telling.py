"""Explain a decoder's limit probabilities after a context."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.errors import EmptyContext
from attomaton.base.options import whole_number
from attomaton.base.printing import PRINTED_ROWS, Block, Grid, Printed, count_noun
from attomaton.base.tables import Float64, Int64
from attomaton.corpora.prompts import read_context
from attomaton.corpora.samples import MAX_TOKENS
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.theories.beginning.begin import RARE
from attomaton.theories.decoder.supports import Supports


def find_context(context: Any, supports: Supports, vocabulary: Vocabulary | None) -> tuple[str, int | None]:
    """The text of the last tokens of a given context, and the context's index; None if it never occurs."""
    width = supports.contexts.shape[1]
    if not width:
        return "", 0
    size = MAX_TOKENS if vocabulary is None else len(vocabulary)
    ids, names = read_context(context, size, vocabulary)
    if len(ids) < width:
        raise EmptyContext(
            f"the context has {count_noun(len(ids), 'token')}, but this decoder reads the last "
            f"{width:,}; use a longer context"
        )
    last = ids[-width:]
    if vocabulary is not None and vocabulary.tokens[-1] == RARE:
        last = np.minimum(last, size - 1)  # words that learning merged into one token, the last
    return " ".join(map(names, last.tolist())), supports.find(last)


@dataclass(frozen=True, eq=False, repr=False)
class DecoderExplanation(Printed):
    """One context, and the tokens that follow it, most probable first.

    ``context`` is the text of its tokens. For each token of its support, ``tokens`` has the name,
    ``probabilities`` the limit and ``counts`` the count. ``finite`` has the log-odds relative to the mean of
    the support, which are the limit of the finite part of W. ``n_tokens`` is the size of the vocabulary.
    ``alike`` is the number of other contexts with an equal support, whose columns of W have an equal
    direction in the limit.
    """

    context: str
    tokens: tuple[str, ...]
    probabilities: Float64
    finite: Float64
    counts: Int64
    n_tokens: int
    alike: int

    def __repr__(self) -> str:
        return f"DecoderExplanation({self.context!r}: {self.support:,} of {self.n_tokens:,} tokens follow)"

    @property
    def support(self) -> int:
        """The number of tokens that follow."""
        return len(self.tokens)

    @property
    def positions(self) -> int:
        """The number of positions with this context and a next token."""
        return int(self.counts.sum())

    def to_dict(self, *, shown: int = PRINTED_ROWS) -> dict[str, Any]:
        """The context and its most probable next tokens as JSON values."""
        shown = whole_number(shown, "shown", least=1)
        names = ("token", "probability", "finite", "count")
        return {
            "context": self.context,
            "positions": self.positions,
            "support": self.support,
            "alike": self.alike,
            "tokens": [dict(zip(names, row, strict=True)) for row in self._rows(shown)],
        }

    @property
    def sentence(self) -> str:
        """How often the context occurs, and what this means for its logits."""
        if not self.support:
            return (
                f"{self.context!r} never precedes a token, so its weights stay 0 and all "
                f"{self.n_tokens:,} tokens keep the same probability."
            )
        times = "once" if self.positions == 1 else f"{self.positions:,} times"
        begin = f"After {self.context!r}, seen {times}, {self.support:,} of {self.n_tokens:,} tokens follow"
        if self.support == self.n_tokens:
            return f"{begin}, so no logit diverges: logits converge to the log-odds of the corpus."
        others = count_noun(self.alike, "other context has", "other contexts have")
        return (
            f"{begin}. Their logits exceed all others by an amount that grows like ln t; inside the support, "
            "differences converge to log-odds. "
            f"{others if self.alike else 'No other context has'} this support."
        )

    def _rows(self, shown: int) -> list[tuple[Any, ...]]:
        columns = (self.tokens, self.probabilities.tolist(), self.finite.tolist(), self.counts.tolist())
        return list(zip(*columns, strict=True))[:shown]

    def _blocks(self) -> list[Block]:
        rows = [
            (token, f"{probability:.3g}", f"{odds:.3f}", f"{count:,}")
            for token, probability, odds, count in self._rows(PRINTED_ROWS)
        ]
        remaining = self.support - PRINTED_ROWS
        grid = Grid("", ["next token", "probability", "log-odds", "seen"], rows)
        return [self.sentence, *([grid] * bool(rows)), *([f"and {remaining:,} more"] * (remaining > 0))]


def explain_support(
    name: str, number: int | None, supports: Supports, vocabulary: Vocabulary | None
) -> DecoderExplanation:
    """Explain the context with this name and index; None if it never occurs."""
    if number is None:
        none = np.zeros(0)
        return DecoderExplanation(name, (), none, none, none.astype(np.int64), supports.n_tokens, alike=0)
    pairs = supports.pairs_of(number)
    tokens = supports.tokens[pairs]
    counts = supports.counts[pairs]
    probabilities = supports.probabilities[pairs]
    order = np.argsort(-counts, kind="stable")
    logs = np.log(probabilities)
    # supports of equal size as a table, one row for each: where do they begin, and which equal this one
    same_size = supports.offsets[:-1][supports.sizes == len(tokens)]
    is_alike = (supports.tokens[same_size[:, None] + np.arange(len(tokens))] == tokens).all(axis=1)
    return DecoderExplanation(
        context=name,
        tokens=tuple(name_token(vocabulary, token) for token in tokens[order].tolist()),
        probabilities=probabilities[order],
        finite=(logs - logs.mean())[order],
        counts=counts[order],
        n_tokens=supports.n_tokens,
        alike=int(is_alike.sum()) - 1,  # without this context
    )
