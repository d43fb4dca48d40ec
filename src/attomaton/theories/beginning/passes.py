"""The passes over a corpus: what is listed of each piece, for an engine to add up."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import digest_arrays
from attomaton.base.tables import Float64, Int32, Int64
from attomaton.corpora.documents import Piece
from attomaton.engines.sums import split_numbers
from attomaton.theories.beginning.gain import Gain
from attomaton.theories.beginning.sequences import Frequent, context_pairs, cut_documents, list_sequences

PAIRS_AT_ONCE = 1 << 21
"""Pairs of positions that are listed at once: 16 MB for each array of them."""

READ = ("documents", "tokens", "labels", "sequences")
"""What is counted of the reading itself."""

Listed = tuple[str, Int64, Int64, Int64 | None]


class _NoLookup:
    """A pass that looks nothing up."""

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """None."""
        return {}

    def with_tables(self, tables: Mapping[str, pa.Table], /) -> Self:  # noqa: ARG002
        """The same."""
        return self


@dataclass(frozen=True)
class CountTokens(_NoLookup):
    """How often each token occurs in the corpus."""

    n_tokens: int
    name: str = field(default="tokens", init=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that the answer depends on."""
        return {"n_tokens": self.n_tokens}

    @property
    def sizes(self) -> Mapping[str, int]:
        """One kind of keys: tokens."""
        return {"tokens": self.n_tokens}

    def __call__(self, piece: Piece, /) -> Iterator[Listed]:
        """The counts of a piece."""
        yield "tokens", np.arange(self.n_tokens), np.bincount(piece.ids, minlength=self.n_tokens), None


@dataclass(frozen=True, eq=False)
class Cutting:
    """How a corpus becomes sequences: tokens of a sequence, size of the vocabulary, tokens that are one.

    Attributes
    ----------
    window : int
        Tokens of a sequence.
    n_tokens : int
        Size of the vocabulary, after tokens were made one.
    frequent : Frequent, optional
        Which tokens keep their own id.
    """

    window: int
    n_tokens: int
    frequent: Frequent | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """All that it does, as plain values."""
        told = None if self.frequent is None else digest_arrays(self.frequent.kept)
        return {"window": self.window, "n_tokens": self.n_tokens, "frequent": told}

    def sequences(self, piece: Piece) -> Iterator[Int64]:
        """The sequences of a piece with their last next token, shape (n, window + 1), some at a time."""
        at_once = max(1, 2 * PAIRS_AT_ONCE // (self.window * (self.window + 1)))
        for part in list_sequences(piece, self.window, at_once):
            yield self._renamed(part).astype(np.int64)

    def pairs(self, piece: Piece) -> Iterator[tuple[Int64, Int64, Int64]]:
        """Some sequences of a piece with some positions t and u ≤ t, all u of a t together."""
        for sequences in self.sequences(piece):
            for t, u in context_pairs(self.window, PAIRS_AT_ONCE):
                yield sequences, t, u

    def pack(self, first: Int64, second: Int64) -> Int64:
        """Two tokens as one key."""
        return (first * self.n_tokens + second).ravel()

    def _renamed(self, ids: Int32) -> Int32:
        return ids if self.frequent is None else self.frequent.ids[ids]


@dataclass(frozen=True, eq=False)
class CountContexts(_NoLookup):
    """First pass: bigrams, and next tokens with the tokens of their smoothed context.

    Key ``x · V + y`` of ``bigrams`` counts next tokens y of x; key ``y · V + x`` of ``contexts`` sums up 1/t
    over the places of x before the t-th position, whose next token is y.
    """

    cutting: Cutting
    name: str = field(default="contexts", init=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that the answer depends on."""
        return self.cutting.settings

    @property
    def sizes(self) -> Mapping[str, int]:
        """The kinds of keys."""
        pairs = self.cutting.n_tokens**2
        return {"read": len(READ), "bigrams": pairs, "contexts": pairs}

    def __call__(self, piece: Piece, /) -> Iterator[Listed]:
        """The counts of a piece."""
        cut = self.cutting
        yield "read", np.arange(len(READ)), count_read(piece, cut.window), None
        for sequences in cut.sequences(piece):
            keys = cut.pack(sequences[:, :-1], sequences[:, 1:])
            yield "bigrams", keys, np.ones(len(keys), np.int64), None
        for sequences, t, u in cut.pairs(piece):
            keys = cut.pack(sequences[:, t + 1], sequences[:, u])
            high, low = split_numbers(1 / (t + 1))
            yield "contexts", keys, np.tile(high, len(sequences)), np.tile(low, len(sequences))


def count_read(piece: Piece, window: int) -> Int64:
    """Counts of what ``READ`` names; a label is a token with another before it in its document."""
    sizes = np.diff(piece.documents)
    n_labels = int(np.maximum(sizes - 1, 0).sum())
    return np.array([len(sizes), len(piece.ids), n_labels, len(cut_documents(piece.documents, window))])


@dataclass(frozen=True, eq=False)
class CountLooks:
    """Second pass: where the gain of looking pulls attention, by query and key, and by lag.

    Key ``q · V + k`` of ``looks`` and key ``m`` of ``lags`` sum up Q_i[t, u], divided by ``gain.unit``.
    """

    cutting: Cutting
    gain: Gain
    name: str = field(default="looks", init=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that the answer depends on."""
        return {**self.cutting.settings, "gain": self.gain.digest}

    @property
    def sizes(self) -> Mapping[str, int]:
        """The kinds of keys."""
        return {"looks": self.cutting.n_tokens**2, "lags": self.cutting.window}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The gain of looking."""
        return {"gain": self.gain.to_table()}

    def with_tables(self, tables: Mapping[str, pa.Table], /) -> Self:
        """The same with this gain."""
        return replace(self, gain=Gain.from_table(tables["gain"]))

    def __call__(self, piece: Piece, /) -> Iterator[Listed]:
        """The sums of a piece."""
        cut = self.cutting
        for sequences, t, u in cut.pairs(piece):
            gains = self.gain.look_up(cut.pack(sequences[:, t + 1], sequences[:, u]))
            high, low = split_numbers(_pull(gains.reshape(len(sequences), -1), t) / self.gain.unit)
            yield "looks", cut.pack(sequences[:, t], sequences[:, u]), high.ravel(), low.ravel()
            yield "lags", t - u, high.sum(axis=0), low.sum(axis=0)


def _pull(gains: Float64, t: Int64) -> Float64:
    """Q_i of the gains c_i, both as rows of pairs (t, u): each less the mean of its t, divided by t."""
    starts = np.flatnonzero(np.diff(t, prepend=-1))
    means = np.add.reduceat(gains, starts, axis=1) / (t[starts] + 1)
    return (gains - means[:, t - t[0]]) / (t + 1)
