"""Compute the gain of attending to a token, G = Σ_B Φ̄, for each next token and attended token.

B̄ are the centred bigrams, Σ_B = B̄ᵀB̄, and Φ̄ the centred next tokens by smoothed context. With C the
counted bigrams (token × next), F the smoothed contexts (next × token), M = NT positions, V tokens, and the
centring P = I − 𝟙𝟙ᵀ/V, they are B̄ = C P/M and Φ̄ = P F/M, so G = P Cᵀ C P F/M³. The columns of G already
have mean 0, so the residuals of a sequence times G are a lookup in G.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import digest_arrays
from attomaton.base.tables import Float64, Int64, column

# Vocabularies up to this size have dense tables of pairs; larger ones only the pairs that occur.
DENSE_TOKENS = 10_000

# Entries of a block of columns: 32 MB for each array of them.
PASS_ENTRIES = 1 << 22

_arrow: Any = pa


@dataclass(frozen=True, eq=False)
class Gain:
    """G for pairs of a next token and an attended token, numbered by keys next token · V + token."""

    pairs: Int64 | None  # the ascending keys of the pairs; None for all pairs
    values: Float64  # G at each pair

    def to_table(self) -> pa.Table:
        # engines send this table to their workers
        columns = {} if self.pairs is None else {"pair": self.pairs}
        return _arrow.table({**columns, "value": self.values})

    @classmethod
    def from_table(cls, table: pa.Table) -> "Gain":
        pairs = column(table, "pair") if "pair" in table.column_names else None
        return cls(pairs, column(table, "value"))

    def look_up(self, keys: Int64) -> Float64:
        # all keys must be present
        return self.values[keys if self.pairs is None else np.searchsorted(self.pairs, keys)]

    @cached_property
    def unit(self) -> float:
        """A power of two that no |Q_i[t, u]| exceeds; sums are counted in this unit."""
        largest = float(np.abs(self.values).max(initial=0.0))
        # a gain minus a mean of gains is at most 2 · largest, and largest is at most 2 to its exponent
        return float(np.ldexp(1.0, int(np.frexp(largest)[1]) + 1)) if largest else 1.0

    @cached_property
    def digest(self) -> str:
        # by this digest an engine recognises a pass that it has begun
        return digest_arrays(self.values) if self.pairs is None else digest_arrays(self.pairs, self.values)


def find_gain(bigrams: Any, contexts: Any, n_positions: int) -> Gain:
    """G from counted bigrams C and smoothed contexts F, CSR arrays; at the pairs in F if V is large."""
    n_tokens = bigrams.shape[0]
    by_token = contexts.tocsc()  # F by columns
    sums = contexts.sum(axis=0)
    counts = bigrams.astype(np.float64)
    transposed = bigrams.T.tocsr().astype(np.float64)
    # G = P Cᵀ C P F/M³, a block of columns at a time
    dense = np.zeros((n_tokens, n_tokens)) if n_tokens <= DENSE_TOKENS else None
    at_pairs: Any = by_token.copy() if dense is None else None
    width = max(1, PASS_ENTRIES // n_tokens)
    for first in range(0, n_tokens, width):
        columns = slice(first, min(first + width, n_tokens))
        block = by_token[:, columns].toarray() - sums[columns] / n_tokens  # P F
        block = transposed @ (counts @ block)  # Cᵀ C P F
        block = (block - block.mean(axis=0)) / float(n_positions) ** 3
        if dense is not None:
            dense[:, columns] = block
            continue
        # of this block, the values at the row (index) and column of each entry of F
        borders = at_pairs.indptr[columns.start : columns.stop + 1]
        block_column = np.repeat(np.arange(len(borders) - 1), np.diff(borders))
        entries = slice(borders[0], borders[-1])
        at_pairs.data[entries] = block[at_pairs.indices[entries], block_column]
    if dense is not None:
        return Gain(None, dense.ravel())
    rows = at_pairs.tocsr()  # by next token, so that keys ascend
    rows.sort_indices()
    next_tokens = np.repeat(np.arange(n_tokens, dtype=np.int64), np.diff(rows.indptr))
    return Gain(next_tokens * n_tokens + rows.indices, rows.data)
