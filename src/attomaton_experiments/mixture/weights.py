"""Weights of a mixture, fitted on text that was held back, by how sure each part is.

Positions at which all parts are equally sure are one cell, and each cell has weights of its own: the most
probable ones under a Dirichlet law around the weights of all positions, by expectation and maximisation. So a
cell with few positions keeps to the overall weights. A part that is silent has weight 0.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base import Bool, Float64, Int64, MismatchedParts

LEVELS = 16
"""More than the levels of confidence that a part has."""


@dataclass(frozen=True, eq=False)
class MixtureWeights:
    """What each part weighs, by cell.

    Attributes
    ----------
    cells : int64 array, shape (n_cells,)
        The levels of confidence of all parts as one number, rising.
    table : float64 array, shape (n_cells, n_parts)
        The weights of each cell, which sum to 1.
    overall : float64 array, shape (n_parts,)
        The weights in cells that were not seen.

    Examples
    --------
    >>> probabilities = np.array([[0.8, 0.1], [0.8, 0.1], [0.0, 0.1], [0.0, 0.1]])
    >>> sure = np.array([[1, 1], [1, 1], [1, 1], [0, 1]])  # in the last row the first part is silent
    >>> weights = fit_weights(probabilities, sure, pull=0.1)
    >>> weights.of(sure).round(2).tolist()
    [[0.61, 0.39], [0.61, 0.39], [0.61, 0.39], [0.0, 1.0]]
    """

    cells: Int64
    table: Float64
    overall: Float64

    def of(self, sure: Int64) -> Float64:
        """The weights at each position, shape (n, n_parts); ``sure`` has the same shape."""
        cell = _number(sure)
        place = np.minimum(np.searchsorted(self.cells, cell), len(self.cells) - 1)
        known = self.cells[place] == cell
        return np.where(known[:, None], self.table[place], _mask(self.overall, sure > 0))


def fit_weights(
    probabilities: Float64, sure: Int64, *, pull: float = 50.0, rounds: int = 60
) -> MixtureWeights:
    """Fit weights to what the parts gave to the tokens that came, shape (n, n_parts) each.

    Parameters
    ----------
    probabilities : float64 array, shape (n, n_parts)
        The probability that each part gave to each token of the text that was held back.
    sure : int64 array, shape (n, n_parts)
        How sure each part was; 0 where it was silent.
    pull : float
        How many positions the overall weights count for in each cell.
    rounds : int
        Rounds of expectation and maximisation.
    """
    silent = (sure == 0) & (probabilities > 0)
    if silent.any() or not (probabilities > 0).any(1).all():
        raise MismatchedParts(
            "a silent part gives a probability, or no part gives a token any; add a part that is never silent"
        )
    speaks = sure > 0
    overall = np.full(probabilities.shape[1], 1 / probabilities.shape[1])
    for _ in range(rounds):
        overall = share_out(_mask(overall, speaks), probabilities).mean(0)
    cells, first, cell = np.unique(_number(sure), return_index=True, return_inverse=True)
    prior = pull * _mask(overall, speaks[first])
    table = _mask(overall, speaks[first])
    for _ in range(rounds):
        table = _normalise(prior + sum_cells(share_out(table[cell], probabilities), cell, len(cells)))
    return MixtureWeights(cells, table, overall)


def share_out(weights: Float64, probabilities: Float64) -> Float64:
    """Which share of the probability of each token each part carries, shape (n, n_parts).

    Examples
    --------
    >>> share_out(np.array([[0.5, 0.5]]), np.array([[0.3, 0.1]])).round(2).tolist()
    [[0.75, 0.25]]
    """
    return _normalise(weights * probabilities)


def sum_cells(values: Float64, cell: Int64, size: int) -> Float64:
    """Sums of rows by cell, shape (size, n_parts).

    Examples
    --------
    >>> sum_cells(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1, 1, 0]), 2).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    sums: list[Float64] = [np.bincount(cell, one, minlength=size).astype(np.float64) for one in values.T]
    return np.stack(sums, axis=1)


def _number(sure: Int64) -> Int64:
    cell = np.zeros(len(sure), np.int64)
    for one in sure.T:
        cell = cell * LEVELS + one
    return cell


def _mask(weights: Float64, speaks: Bool) -> Float64:
    return _normalise(np.where(speaks, weights, 0.0))


def _normalise(rows: Float64) -> Float64:
    return rows / rows.sum(1, keepdims=True)
