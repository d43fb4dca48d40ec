"""What looking at a token is worth: G = Σ_B Φ̄, by next token and token looked at.

With C the counted bigrams (token × next), F the smoothed contexts (next × token), M = NT positions and the
centring P = I − 𝟙𝟙ᵀ/V: B̄ = C P/M and Φ̄ = P F/M, so G = P Cᵀ C P F/M³. Its columns have mean 0 already,
so R_i G is G looked up. It is computed a block of columns at a time, from sparse C and F.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from attomaton.base.artifacts import digest_arrays
from attomaton.base.tables import Float64, Int64, column

DENSE_TOKENS = 10_000
"""Vocabularies up to this size have dense tables of pairs; beyond it there are only the pairs that occur."""

BLOCK_ENTRIES = 1 << 22
"""Entries of a block of columns: 32 MB for each array of them."""

_sparse: Any = sparse
_arrow: Any = pa


@dataclass(frozen=True, eq=False)
class Gain:
    """G, at all pairs of a next token and a token, or at those that occur in the corpus.

    Attributes
    ----------
    pairs : int64 array, shape (n_pairs,), optional
        Keys ``next · V + token``, rising; None where ``values`` has all V² of them.
    values : float64 array, shape (n_pairs,)
        G at these pairs.
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
        """A power of two that no |Q_i[t, u]| exceeds; sums are counted in parts of it."""
        largest = float(np.abs(self.values).max(initial=0.0))
        return float(np.ldexp(1.0, int(np.frexp(largest)[1]) + 1)) if largest else 1.0

    @cached_property
    def digest(self) -> str:
        """Of all of it."""
        return digest_arrays(self.values) if self.pairs is None else digest_arrays(self.pairs, self.values)


def find_gain(bigrams: Any, contexts: Any, n_positions: int) -> Gain:
    """G from counted bigrams (token × next) and smoothed contexts (next × token), both CSR, not centred."""
    n_tokens = bigrams.shape[0]
    by_token, sums = contexts.tocsc(), contexts.sum(axis=0)
    counts, turned = bigrams.astype(np.float64), bigrams.T.tocsr().astype(np.float64)
    width = max(1, BLOCK_ENTRIES // n_tokens)
    table = np.zeros((n_tokens, n_tokens)) if n_tokens <= DENSE_TOKENS else None
    found = by_token.copy() if table is None else None
    for first in range(0, n_tokens, width):
        columns = slice(first, min(first + width, n_tokens))
        block = by_token[:, columns].toarray() - sums[columns] / n_tokens
        block = turned @ (counts @ block)
        block = (block - block.mean(axis=0)) / float(n_positions) ** 3
        if table is None:
            _take_column_entries(found, block, columns)
        else:
            table[:, columns] = block
    return _of_pairs(found) if table is None else Gain(None, table.ravel())


def _of_pairs(found: Any) -> Gain:
    """The gain at the entries of a matrix, CSC."""
    rows = found.tocsr()
    rows.sort_indices()
    n_tokens = rows.shape[0]
    next_tokens = np.repeat(np.arange(n_tokens, dtype=np.int64), np.diff(rows.indptr))
    return Gain(next_tokens * n_tokens + rows.indices, rows.data)


def _take_column_entries(found: Any, block: Float64, columns: slice) -> None:
    """Put the entries of a block of columns where ``found``, CSC, has entries."""
    start, stop = found.indptr[columns.start], found.indptr[columns.stop]
    owner = np.repeat(
        np.arange(int(block.shape[1]), dtype=np.int64),
        np.diff(found.indptr[columns.start : columns.stop + 1]),
    )
    found.data[start:stop] = block[found.indices[start:stop], owner]
