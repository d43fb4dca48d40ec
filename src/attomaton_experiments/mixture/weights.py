"""Weights of a mixture, fitted on held-out text, by the confidence of each expert.

Positions with the same confidences of all experts form a cell, and each cell has its own weights: the MAP
estimate under a Dirichlet prior around the weights of all positions, by EM. So a cell with few
positions stays close to the overall weights. A silent expert has weight 0.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.errors import MismatchedParts
from attomaton.base.tables import Bool, Float64, Int64

LEVELS = 16
"""A base above the number of confidence levels of an expert."""


@dataclass(frozen=True, eq=False)
class MixtureWeights:
    """The weight of each expert, by cell.

    Attributes
    ----------
    cells : int64 array, shape (n_cells,)
        The confidence levels of all experts packed into one number, ascending.
    table : float64 array, shape (n_cells, n_experts)
        The weights of each cell, which sum to 1.
    overall : float64 array, shape (n_experts,)
        The weights in unseen cells.

    Examples
    --------
    >>> probabilities = np.array([[0.8, 0.1], [0.8, 0.1], [0.0, 0.1], [0.0, 0.1]])
    >>> sure = np.array([[1, 1], [1, 1], [1, 1], [0, 1]])  # in the last row the first expert is silent
    >>> weights = fit_weights(probabilities, sure, pull=0.1)
    >>> weights.of(sure).round(2).tolist()
    [[0.61, 0.39], [0.61, 0.39], [0.61, 0.39], [0.0, 1.0]]
    """

    cells: Int64
    table: Float64
    overall: Float64

    def of(self, sure: Int64) -> Float64:
        """The weights at each position, shape (n, n_experts); ``sure`` has the same shape."""
        cell = _number(sure)
        rows = np.minimum(np.searchsorted(self.cells, cell), len(self.cells) - 1)
        is_known = self.cells[rows] == cell
        return np.where(is_known[:, None], self.table[rows], _mask(self.overall, sure > 0))


def fit_weights(
    probabilities: Float64, sure: Int64, *, pull: float = 50.0, rounds: int = 60
) -> MixtureWeights:
    """Fit weights to the probabilities that experts gave to the observed tokens, shape (n, n_experts) each.

    Parameters
    ----------
    probabilities : float64 array, shape (n, n_experts)
        The probability that each expert gave to each token of the held-out text.
    sure : int64 array, shape (n, n_experts)
        The confidence of each expert; 0 where it was silent.
    pull : float
        The weight of the overall weights in each cell, in positions.
    rounds : int
        EM iterations.
    """
    silent = (sure == 0) & (probabilities > 0)
    if silent.any() or not (probabilities > 0).any(1).all():
        raise MismatchedParts(
            "a silent expert gives a probability, or no expert gives a token any; add one that is "
            "never silent"
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
    """The share of each expert in the probability of each token, shape (n, n_experts).

    Examples
    --------
    >>> share_out(np.array([[0.5, 0.5]]), np.array([[0.3, 0.1]])).round(2).tolist()
    [[0.75, 0.25]]
    """
    return _normalise(weights * probabilities)


def sum_cells(values: Float64, cell: Int64, size: int) -> Float64:
    """Sums of rows by cell, shape (size, n_experts).

    Examples
    --------
    >>> sum_cells(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1, 1, 0]), 2).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    sums: list[Float64] = [
        np.bincount(cell, weights, minlength=size).astype(np.float64) for weights in values.T
    ]
    return np.stack(sums, axis=1)


def _number(sure: Int64) -> Int64:
    cell = np.zeros(len(sure), np.int64)
    for level in sure.T:
        cell = cell * LEVELS + level
    return cell


def _mask(weights: Float64, speaks: Bool) -> Float64:
    return _normalise(np.where(speaks, weights, 0.0))


def _normalise(rows: Float64) -> Float64:
    return rows / rows.sum(1, keepdims=True)
