"""The passes over a corpus: the keys and values listed for each chunk, which an engine adds up.

The gain of attending to a token: G = Σ_B Φ̄, by next token and attended token.

With C the counted bigrams (token × next), F the smoothed contexts (next × token), M = NT positions and the
centring P = I − 𝟙𝟙ᵀ/V: B̄ = C P/M and Φ̄ = P F/M, so G = P Cᵀ C P F/M³. Its columns already have mean 0,
so R_i G is a lookup in G. It is computed in blocks of columns, from sparse C and F.

How documents are cut into the sequences of the theory of the beginning.

A sequence has ``window`` tokens, and the next token is predicted at each of its positions, so it takes
``window + 1`` tokens of a document. The next sequence begins with the last of them: no token is predicted
twice. The remainder of a document, fewer than ``window + 1`` tokens, is left out, because the mean of the
theory is over sequences of one length; so is a document shorter than that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
from scipy import sparse

from attomaton.base.artifacts import digest_arrays
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Float64, Int32, Int64, column
from attomaton.corpora.documents import Chunk
from attomaton.engines.sums import split_numbers


def cut_sequences(documents: Int64, window: int) -> Int64:
    """The start of each sequence.

    ``documents`` are their offsets, shape (n_documents + 1,); a sequence has ``window`` tokens, and its next
    tokens end one position later.

    Examples
    --------
    >>> cut_sequences(np.array([0, 7, 9, 13]), window=3).tolist()  # documents of 7, 2 and 4 tokens
    [0, 3, 9]
    """
    whole = np.maximum(np.diff(documents) - 1, 0) // window
    number = np.arange(int(whole.sum())) - np.repeat(offsets_of(whole)[:-1], whole)
    return np.repeat(documents[:-1], whole) + window * number


@dataclass(frozen=True, eq=False)
class Frequent:
    """The tokens that keep their own id, and one id for all others.

    Attributes
    ----------
    tokens : int64 array, shape (n_kept,)
        Old ids, most frequent first; the index of each is its new id.
    ids : int32 array, shape (n_old,)
        Old id → new id; ``n_kept`` for all others.
    """

    tokens: Int64
    ids: Int32

    @classmethod
    def among(cls, counts: Int64, n_kept: int) -> "Frequent":
        """The ``n_kept`` most frequent tokens; the smaller ids in a tie."""
        tokens = np.argsort(-counts, kind="stable")[:n_kept]
        ids = np.full(len(counts), len(tokens), np.int32)
        ids[tokens] = np.arange(len(tokens), dtype=np.int32)
        return cls(tokens, ids)

    @property
    def n_tokens(self) -> int:
        """The number of new ids, including the one for all others."""
        return len(self.tokens) + 1


def context_pairs(window: int, most: int) -> Iterator[tuple[Int64, Int64]]:
    """The pairs of a position t and a position u ≤ t, both from 0, about ``most`` at a time.

    All pairs of one t come together.
    """
    first = 0
    while first < window:
        last, size = first + 1, first + 1
        while last < window and size + last + 1 <= most:
            size += last + 1
            last += 1
        counts = np.arange(first + 1, last + 1)
        t = np.repeat(counts - 1, counts)
        yield t, np.arange(size) - np.repeat(np.cumsum(counts) - counts, counts)
        first = last


DENSE_TOKENS = 10_000
"""Vocabularies up to this size have dense tables of pairs; larger ones only the pairs that occur."""

PASS_ENTRIES = 1 << 22
"""Entries of a block of columns: 32 MB for each array of them."""

_sparse: Any = sparse
_arrow: Any = pa


@dataclass(frozen=True, eq=False)
class Gain:
    """G at all pairs of a next token and a token, or at those that occur in the corpus.

    ``pairs`` are ascending keys ``next · V + token``; None if ``values`` has all V² of them.
    """

    pairs: Int64 | None
    values: Float64

    def to_table(self) -> pa.Table:
        """The columns pair, where there are pairs, and value."""
        columns = {} if self.pairs is None else {"pair": self.pairs}
        return _arrow.table({**columns, "value": self.values})

    @classmethod
    def from_table(cls, table: pa.Table) -> "Gain":
        """The gain that :meth:`to_table` described."""
        pairs = column(table, "pair") if "pair" in table.column_names else None
        return cls(pairs, column(table, "value"))

    def look_up(self, keys: Int64) -> Float64:
        """G at these pairs, each of which occurs."""
        return self.values[keys if self.pairs is None else np.searchsorted(self.pairs, keys)]

    @cached_property
    def unit(self) -> float:
        """A power of two that no |Q_i[t, u]| exceeds; sums are counted in units of it."""
        largest = float(np.abs(self.values).max(initial=0.0))
        return float(np.ldexp(1.0, int(np.frexp(largest)[1]) + 1)) if largest else 1.0

    @cached_property
    def digest(self) -> str:
        return digest_arrays(self.values) if self.pairs is None else digest_arrays(self.pairs, self.values)


def find_gain(bigrams: Any, contexts: Any, n_positions: int) -> Gain:
    """G from counted bigrams (token × next) and smoothed contexts (next × token), both CSR, not centred."""
    n_tokens = bigrams.shape[0]
    by_token, sums = contexts.tocsc(), contexts.sum(axis=0)
    counts, transposed = bigrams.astype(np.float64), bigrams.T.tocsr().astype(np.float64)
    width = max(1, PASS_ENTRIES // n_tokens)
    table = np.zeros((n_tokens, n_tokens)) if n_tokens <= DENSE_TOKENS else None
    sparse_gain: Any = by_token.copy() if table is None else None
    for first in range(0, n_tokens, width):
        columns = slice(first, min(first + width, n_tokens))
        block = by_token[:, columns].toarray() - sums[columns] / n_tokens
        block = transposed @ (counts @ block)
        block = (block - block.mean(axis=0)) / float(n_positions) ** 3
        if table is not None:
            table[:, columns] = block
            continue
        borders = sparse_gain.indptr[columns.start : columns.stop + 1]
        owner = np.repeat(np.arange(len(borders) - 1), np.diff(borders))
        inside = slice(borders[0], borders[-1])
        sparse_gain.data[inside] = block[sparse_gain.indices[inside], owner]
    if table is not None:
        return Gain(None, table.ravel())
    rows = sparse_gain.tocsr()
    rows.sort_indices()
    next_tokens = np.repeat(np.arange(n_tokens, dtype=np.int64), np.diff(rows.indptr))
    return Gain(next_tokens * n_tokens + rows.indices, rows.data)


PAIRS_AT_ONCE = 1 << 21
"""Pairs of positions listed at once: 16 MB for each array of them."""

CORPUS_COUNTS = ("documents", "tokens", "labels", "sequences")
"""The counts of the reading itself."""

Listed = tuple[str, Int64, Int64, Int64 | None]


class PlainPass:
    """A pass without lookups."""

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """None."""
        return {}

    def with_tables(self, tables: Mapping[str, pa.Table], /) -> Self:  # noqa: ARG002
        """The pass itself, which has no tables."""
        return self


@dataclass(frozen=True)
class CountTokens(PlainPass):
    """The count of each token in the corpus."""

    n_tokens: int
    name: str = field(default="tokens", init=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"n_tokens": self.n_tokens}

    @property
    def sizes(self) -> Mapping[str, int]:
        """One kind of keys: tokens."""
        return {"tokens": self.n_tokens}

    def __call__(self, chunk: Chunk, /) -> Iterator[Listed]:
        yield "tokens", np.arange(self.n_tokens), np.bincount(chunk.ids, minlength=self.n_tokens), None


@dataclass(frozen=True, eq=False)
class Cutting:
    """How a corpus becomes sequences: tokens of one, size of the vocabulary, tokens that keep their id."""

    window: int
    n_tokens: int
    frequent: Frequent | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings as plain values."""
        digest = None if self.frequent is None else digest_arrays(self.frequent.tokens)
        return {"window": self.window, "n_tokens": self.n_tokens, "frequent": digest}

    def sequences(self, chunk: Chunk) -> Iterator[Int64]:
        """The sequences of a chunk with their last next token, shape (n, window + 1), in batches."""
        at_once = max(1, 2 * PAIRS_AT_ONCE // (self.window * (self.window + 1)))
        starts = cut_sequences(chunk.documents, self.window)
        for first in range(0, len(starts), at_once):
            batch = chunk.ids[starts[first : first + at_once, None] + np.arange(self.window + 1)]
            yield (batch if self.frequent is None else self.frequent.ids[batch]).astype(np.int64)

    def pairs(self, chunk: Chunk) -> Iterator[tuple[Int64, Int64, Int64]]:
        """Some sequences of a chunk with some positions t and u ≤ t, all u of a t together."""
        for sequences in self.sequences(chunk):
            for t, u in context_pairs(self.window, PAIRS_AT_ONCE):
                yield sequences, t, u

    def pack(self, first: Int64, second: Int64) -> Int64:
        """Two tokens as one key."""
        return (first * self.n_tokens + second).ravel()


@dataclass(frozen=True, eq=False)
class CountContexts(PlainPass):
    """First pass: bigrams, and next tokens with the tokens of their smoothed context.

    Key ``x · V + y`` of ``bigrams`` counts next tokens y of x; key ``y · V + x`` of ``contexts`` sums 1/t
    over the occurrences of x up to the t-th position, whose next token is y.
    """

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
        sizes = np.diff(chunk.documents)
        n_labels = int(np.maximum(sizes - 1, 0).sum())  # tokens with another before them in their document
        n_sequences = len(cut_sequences(chunk.documents, cut.window))
        read = np.array([len(sizes), len(chunk.ids), n_labels, n_sequences])
        yield "read", np.arange(len(CORPUS_COUNTS)), read, None
        for sequences in cut.sequences(chunk):
            keys = cut.pack(sequences[:, :-1], sequences[:, 1:])
            yield "bigrams", keys, np.ones(len(keys), np.int64), None
        for sequences, t, u in cut.pairs(chunk):
            keys = cut.pack(sequences[:, t + 1], sequences[:, u])
            high, low = split_numbers(1 / (t + 1))
            yield "contexts", keys, np.tile(high, len(sequences)), np.tile(low, len(sequences))


@dataclass(frozen=True, eq=False)
class CountLooks:
    """Second pass: the pull of the gain on attention, by query and key, and by lag.

    Key ``q · V + k`` of ``looks`` and key ``m`` of ``lags`` sum up Q_i[t, u], divided by ``gain.unit``.
    """

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
        """The pass with the gain from its table."""
        return replace(self, gain=Gain.from_table(tables["gain"]))

    def __call__(self, chunk: Chunk, /) -> Iterator[Listed]:
        cut = self.cutting
        for sequences, t, u in cut.pairs(chunk):
            gains = self.gain.look_up(cut.pack(sequences[:, t + 1], sequences[:, u]))
            high, low = split_numbers(_centre_gains(gains.reshape(len(sequences), -1), t) / self.gain.unit)
            yield "looks", cut.pack(sequences[:, t], sequences[:, u]), high.ravel(), low.ravel()
            yield "lags", t - u, high.sum(axis=0), low.sum(axis=0)


def _centre_gains(gains: Float64, t: Int64) -> Float64:
    """Q_i of the gains c_i, both as rows of pairs (t, u): each minus the mean of its t, divided by t."""
    starts = np.flatnonzero(np.diff(t, prepend=-1))
    means = np.add.reduceat(gains, starts, axis=1) / (t[starts] + 1)
    return (gains - means[:, t - t[0]]) / (t + 1)
