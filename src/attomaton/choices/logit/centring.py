"""Columns of rows brought near zero without rounding, where another column is a constant beside them.

A constant is a column of 0, 1 and −1, such as an intercept. Let column m be zero wherever constant k is, and
let all its values (times the sign of the constant) be zero or within a factor of two of each other. Then
x − c is exact for each value x and each c among them other than zero (Sterbenz). With x − c in place of x,
β_k stands for β_k + c β_m: the same model, in coordinates in which far offsets cost no digits.
"""

from typing import Any, NamedTuple

import numpy as np

from attomaton.base.tables import Float64, Int64
from attomaton.choices.logit.untyped import csr_array, issparse


class Centring(NamedTuple):
    """Which columns are stored less a multiple of which constant."""

    columns: Int64
    constants: Int64  # the column of the constant of each
    centres: Float64  # c of each

    def parameters(self, values: Float64) -> Float64:
        """β of the columns as given from β of the centred ones; axis 0 runs over columns."""
        original = values.copy()
        np.subtract.at(original, self.constants, (self.centres * values[self.columns].T).T)
        return original

    def coordinates(self, original: Float64) -> Float64:
        """β of the centred columns from β of the columns as given; axis 0 runs over columns."""
        values = original.copy()
        np.add.at(values, self.constants, (self.centres * original[self.columns].T).T)
        return values

    def centre(self, rows: Float64) -> Float64:
        """Rows, or weights of a contrast, with centred columns; the last axis runs over columns."""
        centred = rows.copy()
        centred[..., self.columns] -= self.centres * rows[..., self.constants]
        return centred

    def shift(self, by: int) -> "Centring":
        """The centring where this many columns stand before these."""
        return Centring(self.columns + by, self.constants + by, self.centres)


SAMPLE = 200
"""Rows of a dense matrix that are looked at first: most columns that are not far show it there."""

AS_GIVEN = Centring(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
"""No column is centred."""


def centre_columns(matrix: Any) -> tuple[Any, Centring]:
    """A dense or sparse matrix with far columns centred, and which ones they are."""
    by_column = matrix.tocsc() if issparse(matrix) else matrix
    far = [column for column in range(matrix.shape[1]) if _is_far(by_column, column)]
    constants = [column for column in range(matrix.shape[1]) if far and _is_constant(by_column, column)]
    if not constants:
        return matrix, AS_GIVEN
    candidates, signs = by_column[:, constants], by_column[:, far]
    signs = np.sign(signs) if by_column is matrix else signs.sign()
    shared = _dense(
        signs.T @ candidates
    )  # ± the number of values if all lie beside the constant with one sign
    lengths, breadth = (_dense(abs(block).sum(axis=0)).ravel() for block in (signs, candidates))
    narrow = np.where(np.abs(shared) == lengths[:, None], breadth, np.inf)
    best = narrow.argmin(axis=1)
    use = np.flatnonzero(np.isfinite(narrow.min(axis=1)))
    if not len(use):
        return matrix, AS_GIVEN
    columns = np.array(far)[use]
    sizes = [np.sort(np.abs(_entries(by_column, column))) for column in columns.tolist()]
    centres = np.array([values[len(values) // 2] for values in sizes]) * np.sign(shared[use, best[use]])
    centring = Centring(columns, np.array(constants)[best[use]], centres)
    if by_column is matrix:
        return centring.centre(matrix), centring
    moved = csr_array((centres, (centring.constants, columns)), shape=(matrix.shape[1],) * 2)
    centred = csr_array(matrix - matrix @ moved)
    centred.eliminate_zeros()
    centred.sort_indices()
    return centred, centring


def _is_far(matrix: Any, column: int) -> bool:
    """Whether the values of a column differ, and are within a factor of two of each other."""
    for rows in (SAMPLE, None):
        size = np.abs(_entries(matrix, column, rows))
        least, most = size.min(initial=np.inf), size.max(initial=0.0)
        if most > 2 * least:
            return False
    return bool(least < most)


def _is_constant(matrix: Any, column: int) -> bool:
    values = _entries(matrix, column)
    return len(values) > 0 and bool((np.abs(values) == 1).all())


def _entries(matrix: Any, column: int, rows: int | None = None) -> Float64:
    """The entries of a column that are not zero, of the first rows only or of all."""
    values: Any = (
        matrix.data[matrix.indptr[column] : matrix.indptr[column + 1]]
        if issparse(matrix)
        else matrix[:rows, column]
    )
    return values[values != 0]


def _dense(values: Any) -> Any:
    return values.toarray() if issparse(values) else np.asarray(values)
