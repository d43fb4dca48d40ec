"""Centre columns whose values are far from zero, without rounding, where a constant column allows it.

A *constant* is a column of 0, 1 and −1, such as an intercept. Let column m be zero wherever constant k is,
and let all its other values (times the sign of the constant) be within a factor of two of each other: the
column is *far*. Then x − c is exact for all values x and any c among them (Sterbenz). With x − c in place of
x, β_k becomes β_k + c β_m: the same model, in coordinates in which far offsets cost no digits.
"""

from typing import Any, NamedTuple

import numpy as np

from attomaton.base.tables import Float64, Int64
from attomaton.choices.logit.untyped import csr_array, issparse, to_dense


class Centring(NamedTuple):
    """The centred columns, the constant column of each, and the c of each."""

    columns: Int64
    constants: Int64
    centres: Float64

    def parameters(self, values: Float64) -> Float64:
        """Convert β of the centred columns to β of the columns as given; axis 0 runs over columns."""
        original = values.copy()
        np.subtract.at(original, self.constants, (self.centres * values[self.columns].T).T)
        return original

    def coordinates(self, original: Float64) -> Float64:
        """Convert β of the columns as given to β of the centred columns; axis 0 runs over columns."""
        values = original.copy()
        np.add.at(values, self.constants, (self.centres * original[self.columns].T).T)
        return values

    def centre(self, rows: Float64) -> Float64:
        """Centre rows, or weights of a contrast; the last axis runs over columns."""
        centred = rows.copy()
        centred[..., self.columns] -= self.centres * rows[..., self.constants]
        return centred

    def shift(self, n_columns: int) -> "Centring":
        """The centring after this many columns were added before the others."""
        return Centring(self.columns + n_columns, self.constants + n_columns, self.centres)


# Rows of a dense matrix that are examined first: they tell for most columns that these are not far.
SAMPLE = 200

AS_GIVEN = Centring(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))  # no column is centred


def centre_columns(matrix: Any) -> tuple[Any, Centring]:
    """Centre the far columns of a dense or sparse matrix, and say which they are."""
    by_column = matrix.tocsc() if issparse(matrix) else matrix
    centring = _find_centring(by_column)
    if not len(centring.columns):
        return matrix, AS_GIVEN
    if by_column is matrix:
        return centring.centre(matrix), centring
    entries = (centring.centres, (centring.constants, centring.columns))
    centred = csr_array(matrix - matrix @ csr_array(entries, shape=(matrix.shape[1],) * 2))
    centred.eliminate_zeros()
    centred.sort_indices()
    return centred, centring


# The far columns with a constant that is nowhere zero where they are not; the smallest such constant.
def _find_centring(matrix: Any) -> Centring:
    far = [column for column in range(matrix.shape[1]) if _is_far(matrix, column)]
    constants = [column for column in range(matrix.shape[1]) if far and _is_constant(matrix, column)]
    if not constants:
        return AS_GIVEN
    candidates, signs = matrix[:, constants], matrix[:, far]
    signs = signs.sign() if issparse(matrix) else np.sign(signs)
    n_shared = to_dense(signs.T @ candidates)  # ± the number of values, if their signs are ± the constant's
    n_values, n_constant = (to_dense(abs(block).sum(axis=0)).ravel() for block in (signs, candidates))
    size_if_shared = np.where(np.abs(n_shared) == n_values[:, None], n_constant, np.inf)
    best = size_if_shared.argmin(axis=1)
    use = np.flatnonzero(np.isfinite(size_if_shared.min(axis=1)))
    columns = np.array(far)[use]
    sizes = [np.sort(np.abs(_entries(matrix, column))) for column in columns.tolist()]
    medians = np.array([values[len(values) // 2] for values in sizes])
    centres = medians * np.sign(n_shared[use, best[use]])
    return Centring(columns, np.array(constants)[best[use]], centres)


# Whether the values of a column differ, but are within a factor of two of each other.
def _is_far(matrix: Any, column: int) -> bool:
    for n_rows in (SAMPLE, None):
        size = np.abs(_entries(matrix, column, n_rows))
        least, most = size.min(initial=np.inf), size.max(initial=0.0)
        if most > 2 * least:
            return False
    return bool(least < most)


def _is_constant(matrix: Any, column: int) -> bool:
    values = _entries(matrix, column)
    return len(values) > 0 and bool((np.abs(values) == 1).all())


# The entries of a column that are not zero; of a dense matrix, those of the first ``n_rows`` rows.
def _entries(matrix: Any, column: int, n_rows: int | None = None) -> Float64:
    if issparse(matrix):
        values: Any = matrix.data[matrix.indptr[column] : matrix.indptr[column + 1]]
    else:
        values = matrix[:n_rows, column]
    return values[values != 0]
