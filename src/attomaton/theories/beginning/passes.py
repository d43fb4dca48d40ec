"""List the keys and values of each chunk of a corpus, which an engine sums.

A sequence needs ``window + 1`` tokens of a document, and the next sequence begins with the last of them: no
token is predicted twice. A remainder of fewer tokens is left out. An engine calls a pass, such as
:class:`CountContexts`, with each chunk, and adds up the values that it yields under each name and key.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import digest_arrays
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Float64, Int32, Int64
from attomaton.corpora.documents import Chunk
from attomaton.engines.sums import split_numbers
from attomaton.theories.beginning.gain import Gain


def cut_sequences(documents: Int64, window: int) -> Int64:
    """The position at which each sequence starts, from the offsets of the documents."""
    # a document of n tokens has n − 1 next tokens
    n_sequences = np.maximum(np.diff(documents) - 1, 0) // window
    # the number of earlier sequences of the document, for each sequence
    earlier = np.arange(int(n_sequences.sum())) - np.repeat(offsets_of(n_sequences)[:-1], n_sequences)
    return np.repeat(documents[:-1], n_sequences) + window * earlier


@dataclass(frozen=True, eq=False)
class Frequent:
    """The tokens that keep an id of their own, and one id for all others."""

    tokens: Int64  # the old id for each new id, most frequent first
    ids: Int32  # the new id for each old id; len(tokens) for all other tokens

    @classmethod
    def among(cls, counts: Int64, n_kept: int) -> "Frequent":
        """The ``n_kept`` most frequent tokens; ties go to the smaller id."""
        tokens = np.argsort(-counts, kind="stable")[:n_kept]
        ids = np.full(len(counts), len(tokens), np.int32)
        ids[tokens] = np.arange(len(tokens), dtype=np.int32)
        return cls(tokens, ids)

    @property
    def n_tokens(self) -> int:
        return len(self.tokens) + 1


def context_pairs(window: int, most: int) -> Iterator[tuple[Int64, Int64]]:
    """The pairs of positions t and u ≤ t, about ``most`` at a time; all u of a position t come together."""
    start = 0
    while start < window:
        stop = n_pairs = start + 1  # position t has t + 1 pairs
        while stop < window and n_pairs + stop + 1 <= most:
            n_pairs += stop + 1
            stop += 1
        counts = np.arange(start + 1, stop + 1)  # of pairs, for each t from start to stop − 1
        t = np.repeat(counts - 1, counts)
        yield t, np.arange(n_pairs) - np.repeat(np.cumsum(counts) - counts, counts)
        start = stop


# Pairs of positions listed at once: 16 MB for each array of them.
PAIRS_AT_ONCE = 1 << 21

# The counts of the reading itself.
CORPUS_COUNTS = ("documents", "tokens", "labels", "sequences")

# The name of a sum, keys, and values to add at these keys: integers, or the high and low parts of numbers.
Listed = tuple[str, Int64, Int64, Int64 | None]


def count_read(chunk: Chunk) -> tuple[int, int, int]:
    """The number of documents, tokens, and labels (tokens with another before them in their document)."""
    sizes = np.diff(chunk.documents)
    return len(sizes), len(chunk.ids), int(np.maximum(sizes - 1, 0).sum())


class PlainPass:
    """A pass without lookup tables."""

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return {}

    def with_tables(self, tables: Mapping[str, pa.Table], /) -> Self:  # noqa: ARG002
        return self


@dataclass(frozen=True)
class CountTokens(PlainPass):
    """Count each token of the corpus."""

    n_tokens: int
    name: str = field(default="tokens", init=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"n_tokens": self.n_tokens}

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"tokens": self.n_tokens}

    def __call__(self, chunk: Chunk, /) -> Iterator[Listed]:
        yield "tokens", np.arange(self.n_tokens), np.bincount(chunk.ids, minlength=self.n_tokens), None


@dataclass(frozen=True, eq=False)
class Cutting:
    """How a corpus becomes sequences of ``window`` tokens, from a vocabulary of ``n_tokens``."""

    window: int
    n_tokens: int
    frequent: Frequent | None = None

    @property
    def settings(self) -> dict[str, Any]:
        digest = None if self.frequent is None else digest_arrays(self.frequent.tokens)
        return {"window": self.window, "n_tokens": self.n_tokens, "frequent": digest}

    def sequences(self, chunk: Chunk) -> Iterator[Int64]:
        """The sequences of a chunk in batches, shape (n, window + 1); the last token is only a next token."""
        at_once = max(1, 2 * PAIRS_AT_ONCE // (self.window * (self.window + 1)))
        starts = cut_sequences(chunk.documents, self.window)
        for first in range(0, len(starts), at_once):
            batch = chunk.ids[starts[first : first + at_once, None] + np.arange(self.window + 1)]
            yield (batch if self.frequent is None else self.frequent.ids[batch]).astype(np.int64)

    def pairs(self, chunk: Chunk) -> Iterator[tuple[Int64, Int64, Int64]]:
        """Some sequences of a chunk with some positions t and u ≤ t; all u of a position t come together."""
        for sequences in self.sequences(chunk):
            for t, u in context_pairs(self.window, PAIRS_AT_ONCE):
                yield sequences, t, u

    def pack(self, first: Int64, second: Int64) -> Int64:
        """The keys first · V + second of pairs of tokens, flattened."""
        return (first * self.n_tokens + second).ravel()


@dataclass(frozen=True, eq=False)
class CountContexts(PlainPass):
    """First pass: count bigrams, and next tokens with the tokens of their smoothed contexts."""

    # Key x · V + y of `bigrams` counts next tokens y of x. Key y · V + x of `contexts` sums 1/t over the
    # occurrences of x up to the t-th position, whose next token is y.

    cutting: Cutting
    name: str = field(default="contexts", init=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.cutting.settings

    @property
    def sizes(self) -> Mapping[str, int]:
        pairs = self.cutting.n_tokens**2
        return {"read": len(CORPUS_COUNTS), "bigrams": pairs, "contexts": pairs}

    def __call__(self, chunk: Chunk, /) -> Iterator[Listed]:
        cut = self.cutting
        read = [*count_read(chunk), len(cut_sequences(chunk.documents, cut.window))]
        yield "read", np.arange(len(CORPUS_COUNTS)), np.array(read), None
        for sequences in cut.sequences(chunk):
            keys = cut.pack(sequences[:, :-1], sequences[:, 1:])
            yield "bigrams", keys, np.ones(len(keys), np.int64), None
        for sequences, t, u in cut.pairs(chunk):
            keys = cut.pack(sequences[:, t + 1], sequences[:, u])
            high, low = split_numbers(1 / (t + 1))  # t counts from 0; equal for all sequences
            yield "contexts", keys, np.tile(high, len(sequences)), np.tile(low, len(sequences))


@dataclass(frozen=True, eq=False)
class CountLooks:
    """Second pass: sum the gain of attention, by query and key, and by lag."""

    # Key q · V + k of `looks` and key m of `lags` sum Q_i[t, u], divided by `gain.unit`.

    cutting: Cutting
    gain: Gain
    name: str = field(default="looks", init=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        return {**self.cutting.settings, "gain": self.gain.digest}

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"looks": self.cutting.n_tokens**2, "lags": self.cutting.window}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return {"gain": self.gain.to_table()}

    def with_tables(self, tables: Mapping[str, pa.Table], /) -> Self:
        return replace(self, gain=Gain.from_table(tables["gain"]))

    def __call__(self, chunk: Chunk, /) -> Iterator[Listed]:
        cut = self.cutting
        for sequences, t, u in cut.pairs(chunk):
            gains = self.gain.look_up(cut.pack(sequences[:, t + 1], sequences[:, u]))
            centred = _centre_gains(gains.reshape(len(sequences), -1), t)
            high, low = split_numbers(centred / self.gain.unit)
            yield "looks", cut.pack(sequences[:, t], sequences[:, u]), high.ravel(), low.ravel()
            yield "lags", t - u, high.sum(axis=0), low.sum(axis=0)


# Q_i[t, u] = (c_i[t, u] − mean of c_i[t, ·])/t, with t counted from 1 only in this formula; rows are
# sequences, columns are pairs (t, u).
def _centre_gains(gains: Float64, t: Int64) -> Float64:
    starts = np.flatnonzero(np.diff(t, prepend=-1))  # the first pair of each t, which has t + 1 pairs
    means = np.add.reduceat(gains, starts, axis=1) / (t[starts] + 1)
    return (gains - means[:, t - t[0]]) / (t + 1)
