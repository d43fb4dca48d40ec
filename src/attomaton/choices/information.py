"""The observed information of the scores of one component, factored.

The plain form of :mod:`attomaton.solvers.soft.information`, which finds the diagonal alone, for all
components at once and compiled; a law in ``tests/choices`` ties the two.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from attomaton.base.errors import UnsupportedOption
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.soft.information import LARGEST
from attomaton.solvers.soft.likelihood import LuceProblem


class Information:
    """The observed information of the scores of one component, factored: Σ count (diag p − p pᵀ) + ridge.

    It is flat along the constant; a lift there makes it invertible and is taken off again.
    """

    def __init__(self, curvature: csr_array, *, ridge: float = 0.0) -> None:
        size = curvature.shape[0]
        if size > LARGEST:
            raise UnsupportedOption(
                f"a component has {size:,} items, and their covariance needs a dense matrix of that size; at "
                f"most {LARGEST:,} are supported"
            )
        hessian: Float64 = curvature.toarray()
        np.fill_diagonal(hessian, 0.0)  # the diagonal from the other entries, so that no digits are lost
        np.fill_diagonal(hessian, -hessian.sum(axis=1))
        lift = float(np.trace(hessian)) / size or 1.0
        self._size, self._shift = size, 1.0 / ((lift + ridge) * size)
        linalg = _linear_algebra()
        try:
            self._factor = linalg.cho_factor(hessian + ridge * np.eye(size) + lift / size, lower=True)
        except linalg.LinAlgError as error:
            raise UnsupportedOption(
                "the choices hardly connect some items of a component, so that standard errors are lost "
                "in rounding; add choices between them, or fit with a ridge"
            ) from error

    def solve(self, columns: Float64) -> Float64:
        """The pseudo-inverse times these columns, shape (size, n_columns)."""
        return _linear_algebra().cho_solve(self._factor, columns) - self._shift * columns.sum(axis=0)

    def halve(self, columns: Float64) -> Float64:
        """Columns whose products are those of ``columns`` about the pseudo-inverse, if these sum to 0."""
        return _linear_algebra().solve_triangular(self._factor[0], columns, lower=True)

    def covariance(self, places: Int64) -> Float64:
        """The covariance of the scores at these places about the mean of all, shape (n_places, n_places)."""
        found = self.solve(unit_columns(self._size, places))[places]
        return (found + found.T) / 2

    def variance(self, contrast: Float64) -> float:
        """The variance of Σ contrast · score, whose contrast sums to 0: no digits are lost to larger ones."""
        return float((self.halve(contrast[:, None]) ** 2).sum())


def unit_columns(size: int, places: Int64) -> Float64:
    """A column for each of these places, 1 there and 0 elsewhere."""
    columns = np.zeros((size, len(places)))
    columns[places, np.arange(len(places))] = 1.0
    return columns


def _linear_algebra() -> Any:
    """Scipy's, loaded when it is used: it is a tenth of the start-up time."""
    import scipy.linalg

    return scipy.linalg


def curvature_of(problem: LuceProblem, scores: Float64) -> csr_array:
    """The Hessian of the summed loss but for its diagonal."""
    chance = problem.probabilities(scores)
    weight = np.repeat(problem.count, np.diff(problem.offsets)) * chance
    shape = (len(problem.winner), problem.n_alternatives)
    rows = csr_array((chance, problem.alternative, problem.offsets), shape=shape)
    weighted = csr_array((weight, problem.alternative, problem.offsets), shape=shape)
    products: Any = weighted.T @ rows
    return -products
