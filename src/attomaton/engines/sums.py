"""Sum numbers by key over a whole corpus exactly: a :class:`Counting` in, :class:`Sums` out.

A number is two integers, ``high`` · 2⁻³⁰ + ``low`` · 2⁻⁶⁰, so that a sum does not depend on the order of its
terms: every engine, partition and number of threads gives identical digits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from attomaton.base.tables import Float64, Int64, column
from attomaton.corpora.documents import Chunk
from attomaton.graphs.grouping import merge_as_they_come, sum_by_key

BITS = 30  # fractional bits of ``high``, and further bits of ``low``
LARGEST_DENSE_SUMS = 1 << 27  # most keys of a dense table of sums: all pairs of 11,585 tokens
DOCUMENT_CHUNK_TOKENS = 1 << 19  # tokens read at once, but at least one document
MOST_BATCH_SUMS = 1 << 22  # most sums of one kind per batch: 100 MB
SUM_COLUMNS = ("key", "high", "low")
_arrow: Any = pa


@dataclass(frozen=True, eq=False)
class Sums:
    """Distinct sorted keys, and the exact sum of each, except sums of 0.

    The sum of a key in ``keys`` is ``high`` · 2⁻³⁰ + ``low`` · 2⁻⁶⁰, with ``low`` in 0 … 2³⁰ − 1; the three
    arrays have shape (n_keys,). For counts, ``high`` is the sum.
    """

    keys: Int64
    high: Int64
    low: Int64

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def numbers(self) -> Float64:
        """The sums, each rounded once or twice, shape (n_keys,)."""
        high, low = self.high.astype(np.float64), self.low.astype(np.float64)
        return np.ldexp(high, -BITS) + np.ldexp(low, -2 * BITS)

    @property
    def counts(self) -> Int64:
        """The sums of counts, shape (n_keys,)."""
        return self.high

    def to_table(self) -> pa.Table:
        """The columns key, high and low."""
        return _arrow.table({"key": self.keys, "high": self.high, "low": self.low})


class Counting(Protocol):
    """A function that lists numbers for each chunk; it can be sent to other machines."""

    @property
    def name(self) -> str:
        """The prefix of its file names."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that its result depends on besides the corpus, as plain values."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """The kinds of keys, and the number of possible keys of each: 0 … size − 1."""
        ...

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """Large lookup tables; an engine with several machines shares them as files."""
        ...

    def with_tables(self, tables: Mapping[str, pa.Table], /) -> Self:
        """The pass with these tables."""
        ...

    def __call__(self, chunk: Chunk, /) -> Iterator[tuple[str, Int64, Int64, Int64 | None]]:
        """The kind, keys, high and low of some numbers at a time; ``low`` is None for counts."""
        ...


# A function of an engine that computes sums over the whole corpus.
AddUp = Callable[[Counting], dict[str, Sums]]


def split_numbers(numbers: Float64) -> tuple[Int64, Int64]:
    """Numbers of absolute value at most 1 as ``high`` and ``low``, rounded to multiples of 2⁻⁶⁰."""
    scaled = np.ldexp(numbers, BITS)
    high = np.floor(scaled)
    low = np.rint(np.ldexp(scaled - high, BITS))
    return high.astype(np.int64), low.astype(np.int64)


def add_rows(keys: Int64, high: Int64, low: Int64 | None) -> Sums:
    """Add up the rows of each key."""
    if low is None:
        keys, high = sum_by_key(keys, high)
        return _carry(keys, high, np.zeros(len(keys), np.int64))
    return _carry(*sum_by_key(keys, high, low))


# The sums in canonical form: low is in 0 … 2³⁰ − 1, and zero sums are left out.
def _carry(keys: Int64, high: Int64, low: Int64) -> Sums:
    # `>>` rounds down and `&` is the remainder, so high · 2³⁰ + low stays equal, also if low is negative
    high = high + (low >> BITS)
    low = low & ((1 << BITS) - 1)
    selected = (high != 0) | (low != 0)
    return Sums(keys[selected], high[selected], low[selected])


def merge_sums(sums: Iterable[Sums]) -> Sums:
    """Add up sums over several chunks, by key."""
    empty = np.empty(0, np.int64)
    columns = [(empty, empty, empty), *((table.keys, table.high, table.low) for table in sums)]
    return add_rows(*map(np.concatenate, zip(*columns, strict=True)))


def sums_of(table: pa.Table) -> Sums:
    """The sums in a table with the columns key, high and low, in any order."""
    return add_rows(*(column(table, name) for name in SUM_COLUMNS))


def sum_chunks(chunks: Iterable[Chunk], count: Counting) -> dict[str, Sums]:
    """Sum the counts of each chunk in this process; return the sums of each kind."""
    sizes = count.sizes.items()
    tables = {kind: _DenseSums(size) if size <= LARGEST_DENSE_SUMS else _SortedSums() for kind, size in sizes}
    for chunk in chunks:
        for kind, keys, high, low in count(chunk):
            tables[kind].add(keys, high, low)
    return {kind: table.sums() for kind, table in tables.items()}


def sum_in_batches(chunk: Chunk, count: Counting, most: int) -> Iterator[tuple[str, Sums]]:
    """Sum the counts of a chunk; a kind with more than ``most`` keys comes in several batches."""
    tables = {kind: _SortedSums() for kind in count.sizes}
    for kind, keys, high, low in count(chunk):
        tables[kind].add(keys, high, low)
        if len(tables[kind]) > most:
            yield kind, tables.pop(kind).sums()
            tables[kind] = _SortedSums()
    for kind, table in tables.items():
        if len(table):
            yield kind, table.sums()


class _DenseSums:
    """Sums with an entry for every possible key."""

    def __init__(self, size: int) -> None:
        # the system provides zero pages when they are written, so keys that never occur cost nothing
        self._high = np.zeros(size, np.int64)
        self._low = np.zeros(size, np.int64)

    def add(self, keys: Int64, high: Int64, low: Int64 | None) -> None:
        np.add.at(self._high, keys, high)
        if low is not None:
            np.add.at(self._low, keys, low)

    def sums(self) -> Sums:
        keys = np.flatnonzero((self._high != 0) | (self._low != 0))
        return _carry(keys, self._high[keys], self._low[keys])


class _SortedSums:
    """Sums of the keys that occur."""

    def __init__(self) -> None:
        self._merged: list[Sums] = []

    def add(self, keys: Int64, high: Int64, low: Int64 | None) -> None:
        self._merged = merge_as_they_come([*self._merged, add_rows(keys, high, low)], merge_sums)

    def __len__(self) -> int:
        return sum(map(len, self._merged))

    def sums(self) -> Sums:
        return merge_sums(self._merged)
