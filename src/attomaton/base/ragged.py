"""Ragged arrays: rows of unequal length, with all entries in one array, one row after the other.

Rows are delimited in one of two ways. *Offsets* say where rows begin and end: row i has the entries
``offsets[i]`` to ``offsets[i + 1] − 1``, and ``starts`` are the offsets without the last. An *index* has the
row number of each entry; then rows may be empty, and entries may be in any order.

NumPy sums in two orders. :func:`sum_at`, :func:`shares_of` and :func:`softmax` add entries one by one;
:func:`softmax_runs` and :func:`log_sums` add as ``np.add.reduceat`` does. The last digit may differ, and
saved runs contain numbers of both kinds, so both remain.
"""

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64, Integers


def offsets_of(lengths: Integers) -> Int64:
    """Where consecutive rows of these lengths begin and end, shape (n_rows + 1,)."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def rows_of(offsets: Int64) -> Int64:
    """The row number of each entry, shape (n_entries,): the index of these offsets."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def ranges_of(starts: Int64, lengths: Integers) -> Int64:
    """The numbers start … start + length − 1 of each range, one range after the other, shape (Σ lengths,)."""
    # the k-th number of all is start + (k − the sum of the lengths of earlier ranges)
    return np.arange(int(lengths.sum())) + np.repeat(starts - offsets_of(lengths)[:-1], lengths)


def group_borders(index: Integers, size: int) -> Int64:
    """The offsets of the rows 0 … size − 1 after sorting the entries by index, shape (size + 1,)."""
    return offsets_of(np.bincount(index, minlength=size))


def sorted_borders(index: Integers, size: int) -> Int64:
    """The offsets of :func:`group_borders` if the index is sorted and has many more entries than rows."""
    return np.searchsorted(index, np.arange(size + 1, dtype=index.dtype))


def run_starts(ordered: Integers) -> Int64:
    """Where a new value begins in a sorted, non-empty array, shape (n_distinct,)."""
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


def occurs(index: Integers, size: int) -> Bool:
    """Which of the numbers 0 … size − 1 occur in an index, shape (size,)."""
    present = np.zeros(size, bool)
    present[index] = True
    return present


def sum_at(index: Integers, values: Float64, size: int) -> Float64:
    """The sum of ``values`` in each row 0 … size − 1, shape (size,)."""
    return np.bincount(index, values, size).astype(np.float64, copy=False)


def largest_of(index: Integers, values: Float64, size: int, *, least: float = -np.inf) -> Float64:
    """The largest of ``values`` in each row 0 … size − 1, but at least ``least``, shape (size,)."""
    largest = np.full(size, least)
    np.maximum.at(largest, index, values)
    return largest


def means_at(index: Integers, values: Float64) -> Float64:
    """The mean of ``values`` in each row, 0 for an empty one: (n_entries, …) → (n_rows, …)."""
    counts = np.maximum(np.bincount(index), 1)
    sums = np.zeros((len(counts), *values.shape[1:]))
    np.add.at(sums, index, values)
    return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


def centre(index: Integers, values: Float64) -> Float64:
    """Values minus the mean of their row, shape (n_entries,) or (n_entries, n_columns)."""
    return values - means_at(index, values)[index]


def odds_of(index: Integers, logits: Float64, size: int) -> Float64:
    """e^{logit} of each entry divided by the largest of its row, which must be finite, shape (n_entries,)."""
    return np.exp(logits - largest_of(index, logits, size)[index])


def shares_of(index: Integers, values: Float64, size: int) -> Float64:
    """Each entry divided by the sum of its row, shape (n_entries,)."""
    return values / sum_at(index, values, size)[index]


def softmax(index: Integers, logits: Float64, size: int) -> Float64:
    """e^{logit} / Σ e^{logit} over the entries of each row, shape (n_entries,)."""
    return shares_of(index, odds_of(index, logits, size), size)


def softmax_runs(logits: Float64, starts: Int64) -> Float64:
    """e^{logit} / Σ e^{logit} over each row of the last axis, shape (…, n_entries); no row is empty."""
    row = np.repeat(np.arange(len(starts)), np.diff(starts, append=logits.shape[-1]))
    odds = np.exp(logits - np.maximum.reduceat(logits, starts, axis=-1)[..., row])
    return odds / np.add.reduceat(odds, starts, axis=-1)[..., row]


def log_sums(logits: Float64, offsets: Int64) -> Float64:
    """Ln Σ e^{logit} over each row, shape (n_rows,); no row is empty."""
    starts = offsets[:-1]
    lengths = np.diff(offsets)
    # ln Σ e^x = m + ln Σ e^(x − m), with the largest logit m of the row, so that no power overflows
    highest = np.maximum.reduceat(logits, starts)
    return highest + np.log(np.add.reduceat(np.exp(logits - np.repeat(highest, lengths)), starts))
