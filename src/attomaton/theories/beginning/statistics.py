"""Compute B̄, Φ̄, Q̄ and Δ of a corpus, which determine the first steps, in two passes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.base.options import whole_number
from attomaton.base.progress import silent
from attomaton.base.tables import Float64, Int64
from attomaton.corpora.documents import Chunk
from attomaton.engines.sums import AddUp, sum_chunks
from attomaton.theories.beginning.gain import DENSE_TOKENS, find_gain
from attomaton.theories.beginning.passes import CORPUS_COUNTS, CountContexts, CountLooks, Cutting

_sparse: Any = sparse


@dataclass(frozen=True, eq=False)
class Statistics:
    """The statistics of a corpus that determine the first steps of training.

    All matrices are (n_tokens × n_tokens). Three are sparse CSR arrays: ``counts`` has the number of each
    next token (column) after each token (row). ``smoothed`` has the sum of 1/t over the occurrences of a
    token (column) in the context of position t, whose next token is the row. ``looks`` is Q̄, the initial
    gain of a query (row) from attending to a key (column). ``lags`` is Δ, shape (window,), the initial gain
    from attending at each lag, from 0 (the query itself) on. ``n_documents`` documents with ``n_read`` tokens
    were read. ``n_labels`` of the tokens have another before them in their document. ``n_sequences``
    sequences are counted.

    The centred tables B̄ and Φ̄ are computed on demand, for vocabularies of at most 10,000 tokens.
    """

    counts: Any
    smoothed: Any
    looks: Any
    lags: Float64
    n_sequences: int
    n_documents: int
    n_read: int
    n_labels: int

    def __repr__(self) -> str:
        return (
            f"Statistics({self.n_sequences:,} sequences of {self.window:,} tokens, "
            f"vocabulary of {self.n_tokens:,})"
        )

    @property
    def n_tokens(self) -> int:
        return int(self.counts.shape[0])

    @property
    def window(self) -> int:
        return len(self.lags)

    @property
    def n_positions(self) -> int:
        """The number of positions in all sequences, NT."""
        return self.n_sequences * self.window

    @property
    def left_out(self) -> int:
        """Labels that no sequence predicts, at ends of documents and in documents that are too short."""
        return self.n_labels - self.n_positions

    @cached_property
    def bigrams(self) -> Float64:
        """B̄ = (1/NT) Σ_i X_iᵀ R_i, token × next token, centred."""
        table = self._dense(self.counts) / self.n_positions
        return table - table.mean(axis=1, keepdims=True)

    @cached_property
    def contexts(self) -> Float64:
        """Φ̄ = (1/NT) Σ_i R_iᵀ A₀ X_i, next token × token of the smoothed context, centred."""
        table = self._dense(self.smoothed) / self.n_positions
        return table - table.mean(axis=0)

    @cached_property
    def carried(self) -> Float64:
        """Φ̄ᵀ B̄ᵀ, token read × token written: the first term that the values of every layer learn."""
        # = (C Φ̄)ᵀ/NT with the counts C, since Φ̄ is centred already
        return (self.counts.astype(np.float64) @ self.contexts).T / self.n_positions

    @cached_property
    def look_table(self) -> Float64:
        """Q̄ as a dense table, query × key."""
        return self._dense(self.looks)

    def _dense(self, table: Any) -> Float64:
        if self.n_tokens > DENSE_TOKENS:
            raise UnsupportedOption(
                f"a table of all pairs of {self.n_tokens:,} tokens is too large; read the sparse .counts, "
                f".smoothed and .looks, or call begin(…, most_frequent={DENSE_TOKENS - 1})"
            )
        return np.asarray(table.toarray(), np.float64)


def find_statistics(corpus: Any, *, window: int, n_tokens: int | None = None) -> Statistics:
    """B̄, Φ̄, Q̄ and Δ of documents in memory; ``n_tokens`` is by default the largest id plus one."""
    window = whole_number(window, "window", least=1)
    if not isinstance(corpus, Chunk):
        lists = [np.asarray(document, np.int64) for document in corpus]
        ids = np.concatenate([np.empty(0, np.int64), *lists])
        largest = int(ids.max(initial=-1))
        size = largest + 1 if n_tokens is None else whole_number(n_tokens, "n_tokens", least=1)
        corpus = Chunk(ids.astype(np.int32), np.cumsum([0, *map(len, lists)]), 0, size)
    return add_statistics(Cutting(window, corpus.n_tokens), lambda count: sum_chunks([corpus], count))


def add_statistics(cutting: Cutting, add_up: AddUp, announce: Callable[[str], object] = silent) -> Statistics:
    """The statistics of a corpus that ``add_up`` reads, in two passes."""
    announce("counting bigrams and contexts")
    first_pass = add_up(CountContexts(cutting))
    read = dict(zip(first_pass["read"].keys.tolist(), first_pass["read"].counts.tolist(), strict=True))
    # keys are indices into CORPUS_COUNTS; a count of 0 may have no key
    n_documents, n_read, n_labels, n_sequences = (read.get(key, 0) for key in range(len(CORPUS_COUNTS)))
    if not n_sequences:
        raise UnreadableSource(
            f"no document has the {cutting.window + 1:,} tokens that window={cutting.window} needs "
            "together with a next token; use a smaller window, or longer documents"
        )
    counts = _matrix(first_pass["bigrams"].keys, first_pass["bigrams"].counts, cutting.n_tokens)
    smoothed = _matrix(first_pass["contexts"].keys, first_pass["contexts"].numbers, cutting.n_tokens)
    del first_pass
    n_positions = n_sequences * cutting.window
    announce("finding the gain of looking")
    gain = find_gain(counts, smoothed, n_positions)
    announce("counting first looks")
    second_pass = add_up(CountLooks(cutting, gain))
    scale = gain.unit / n_positions
    looks = _matrix(second_pass["looks"].keys, scale * second_pass["looks"].numbers, cutting.n_tokens)
    lags = np.zeros(cutting.window)
    lags[second_pass["lags"].keys] = scale * second_pass["lags"].numbers
    return Statistics(counts, smoothed, looks, lags, n_sequences, n_documents, n_read, n_labels)


def _matrix(keys: Int64, values: Any, n_tokens: int) -> Any:
    # ascending keys row · V + column and their values as a CSR array
    borders = np.searchsorted(keys, np.arange(n_tokens + 1, dtype=np.int64) * n_tokens)
    return _sparse.csr_array((values, keys % n_tokens, borders), shape=(n_tokens, n_tokens))
