"""Contexts of a corpus and what follows them, counted by any engine."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import digest_arrays
from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.base.options import show, whole_number
from attomaton.base.ragged import rows_of
from attomaton.base.tables import Int64
from attomaton.corpora.documents import Piece
from attomaton.engines.sums import AddUp
from attomaton.theories.beginning.sequences import Frequent
from attomaton.theories.decoder.supports import Supports, pack_contexts, supports_of

NAMED = {"unigram": 1, "bigram": 2, "trigram": 3}
MOST_KEYS = 1 << 62
AT_ONCE = 1 << 21
"""Positions that are listed at once."""


def read_width(context: object) -> int:
    """How many tokens a context has: one less than the n of its n-grams."""
    if isinstance(context, str):
        if context in NAMED:
            return NAMED[context] - 1
        name, _, number = context.partition(":")
        if name == "ngram" and number.isascii() and number.isdigit():
            return whole_number(int(number), "the n of context", least=1, most=64) - 1
    raise UnsupportedOption(
        f"context is {show(context)}; give 'bigram', 'ngram:3' or another number, or an array of features "
        "with a row for each label"
    )


@dataclass(frozen=True, eq=False)
class CountNext:
    """The pass over a corpus: key ``context · V + next token`` of ``pairs``, contexts of ``width`` tokens.

    ``read`` counts documents, tokens, and tokens with another before them in their document.
    """

    width: int
    n_tokens: int
    frequent: Frequent | None = None
    name: str = field(default="next", init=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that the answer depends on."""
        told = None if self.frequent is None else digest_arrays(self.frequent.kept)
        return {"width": self.width, "n_tokens": self.n_tokens, "frequent": told}

    @property
    def sizes(self) -> Mapping[str, int]:
        """The kinds of keys."""
        return {"read": 3, "pairs": self.n_tokens ** (self.width + 1)}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """None."""
        return {}

    def with_tables(self, tables: Mapping[str, pa.Table], /) -> Self:  # noqa: ARG002
        """The same."""
        return self

    def __call__(self, piece: Piece, /) -> Iterator[tuple[str, Int64, Int64, Int64 | None]]:
        """The counts of a piece."""
        sizes = np.diff(piece.documents)
        read = np.array([len(sizes), len(piece.ids), np.maximum(sizes - 1, 0).sum()])
        yield "read", np.arange(3), read, None
        place = np.arange(len(piece.ids)) - piece.documents[rows_of(piece.documents)]
        labels = np.flatnonzero(place >= self.width)
        reach = np.arange(-self.width, 1)
        ids = piece.ids if self.frequent is None else self.frequent.ids[piece.ids]
        for first in range(0, len(labels), AT_ONCE):
            grams = ids[labels[first : first + AT_ONCE, None] + reach].astype(np.int64)
            yield "pairs", pack_contexts(grams, self.n_tokens), np.ones(len(grams), np.int64), None


@dataclass(frozen=True)
class Read:
    """What was read of a corpus.

    Attributes
    ----------
    n_documents, n_tokens, n_labels : int
        Documents, their tokens, and tokens with another before them in their document.

    Examples
    --------
    >>> import attomaton as at
    >>> at.learn_decoder(["a b a c", "b a"]).read
    Read(n_documents=2, n_tokens=6, n_labels=4)
    """

    n_documents: int
    n_tokens: int
    n_labels: int


def add_supports(
    width: int, n_tokens: int, add_up: AddUp, frequent: Frequent | None = None
) -> tuple[Supports, Read]:
    """The supports of a corpus that an engine reads, and what was read."""
    if n_tokens ** (width + 1) > MOST_KEYS:
        most = max(n for n in range(1, 65) if n_tokens**n <= MOST_KEYS)
        raise UnsupportedOption(
            f"{width + 1}-grams of {n_tokens:,} tokens have no number of 64 bits; give at most "
            f"'ngram:{most}', or fewer tokens (most_frequent)"
        )
    sums = add_up(CountNext(width, n_tokens, frequent))
    counted = dict(zip(sums["read"].keys.tolist(), sums["read"].counts.tolist(), strict=True))
    if not len(sums["pairs"]):
        raise UnreadableSource(
            f"no document has {width + 1:,} tokens, which a context and its next token take; give longer "
            "documents, or shorter contexts"
        )
    read = Read(*(counted.get(key, 0) for key in range(3)))
    return supports_of(sums["pairs"].keys, sums["pairs"].counts, width, n_tokens), read
