"""Covariances of the scores of one component: the inverse of the information, or a sandwich for half wins."""

# ``Information`` is for choices without ties. With ties, ``SplitRankings`` restricts the rankings to
# a component, and ``Sandwich`` computes A⁺ (Σ g gᵀ) A⁺ from their gradients g and their information A.

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array, csr_array

from attomaton.base.errors import UnsupportedOption
from attomaton.base.ragged import group_borders, offsets_of, rows_of
from attomaton.base.tables import Float64, Int64, column, ragged_column
from attomaton.choices.rankings import choices_of_tiers, denominator_of
from attomaton.graphs.components import Components
from attomaton.solvers.soft.curvature import LARGEST_DENSE

CURVATURES_AT_ONCE = 1 << 22  # maximum size in memory: entries of curvatures times the items of a component


class Information:
    """The information of the scores of one component, factored: A = Σ count (diag p − p pᵀ) + ridge."""

    def __init__(self, curvature: csr_array, *, ridge: float = 0.0) -> None:
        size = curvature.shape[0]
        if size > LARGEST_DENSE:
            raise UnsupportedOption(
                f"a component has {size:,} items, and its covariance needs a dense matrix of that size; at "
                f"most {LARGEST_DENSE:,} items are supported"
            )
        hessian: Float64 = curvature.toarray()
        np.fill_diagonal(hessian, 0.0)
        np.fill_diagonal(hessian, -hessian.sum(axis=1))  # so that no digits are lost
        # The information is singular along the constant. With lift / size added to all entries, the constant
        # has the eigenvalue lift + ridge, and the inverse has 1 / ((lift + ridge) size) too much in each.
        lift = float(np.trace(hessian)) / size or 1.0
        self._excess = 1.0 / ((lift + ridge) * size)
        try:
            self._factor = _linalg().cho_factor(hessian + ridge * np.eye(size) + lift / size, lower=True)
        except np.linalg.LinAlgError as error:
            raise UnsupportedOption(
                "the choices hardly connect some items of a component, so their standard errors are lost "
                "in rounding; add choices between them, or fit with a ridge"
            ) from error

    def solve(self, columns: Float64) -> Float64:
        """The pseudo-inverse times these columns, shape (size, n_columns)."""
        return _linalg().cho_solve(self._factor, columns) - self._excess * columns.sum(axis=0)

    def whiten(self, columns: Float64) -> Float64:
        """U with UᵀU = CᵀA⁺C for the information A and ``columns`` C that sum to 0."""
        return _linalg().solve_triangular(self._factor[0], columns, lower=True)

    def covariance(self, positions: Int64) -> Float64:
        """The covariance of the scores at these positions about the mean of all."""
        covariance = self.solve(_unit_columns(len(self._factor[0]), positions))[positions]
        return (covariance + covariance.T) / 2

    def variance(self, contrast: Float64) -> float:
        """The variance of Σ contrast · score, whose contrast sums to 0, without cancellation."""
        return float((self.whiten(contrast[:, None]) ** 2).sum())


class Rankings(NamedTuple):
    """The counted rankings of the items of one component, concatenated, each best first."""

    items: Int64  # (n_entries,)
    ranks: Int64  # (n_entries,), equal where items are tied
    lengths: Int64  # (n_rankings,)
    counts: Int64  # (n_rankings,)


class SplitRankings:
    """Counted rankings restricted to each component, where ``position`` is the index of each item."""

    def __init__(self, rankings: pa.Table, components: Components, position: Int64) -> None:
        offsets, items = ragged_column(rankings, "items")
        component, ranking = components.component_of_node[items], rows_of(offsets)
        # the entries of all rankings, by component, then by ranking
        order = np.lexsort((ranking, component))
        self._position, self._ranking = position[items[order]], ranking[order]
        self._ranks = ragged_column(rankings, "places")[1][order]
        self._count = column(rankings, "count")
        self._borders = group_borders(component, len(components))

    def inside(self, component: int) -> Rankings:
        """The rankings restricted to one component, without those that have no item in it."""
        entries = slice(*self._borders[component : component + 2])
        ranking, lengths = np.unique(self._ranking[entries], return_counts=True)
        return Rankings(self._position[entries], self._ranks[entries], lengths, self._count[ranking])


class Sandwich:
    """The sandwich covariance of the scores of one component, whose rankings have ties."""

    def __init__(self, rankings: Rankings, scores: Float64, ridge: float) -> None:
        size = len(scores)
        curvature = csr_array((size, size))
        for batch in _differentiate(rankings, scores):
            curvature += batch.add_up(batch.curvature, size)
        self._ridge = ridge
        self._information = Information(curvature, ridge=ridge)
        # Σ g gᵀ + H A⁺ H over rankings with gradient g and curvature H: the second term is what the fit to
        # the ranking takes from g gᵀ. With A⁺ = R Rᵀ it is (H R) (H R)ᵀ.
        root = self._information.whiten(np.eye(size)).T
        self._meat = csr_array((size, size))
        for batch in _differentiate(rankings, scores):
            fitted = batch.curvature @ root[batch.items]
            squares = batch.gradient[:, :, None] * batch.gradient[:, None] + fitted @ fitted.mT
            self._meat += batch.add_up(squares, size)

    def covariance(self, positions: Int64) -> Float64:
        """The covariance of the scores at these positions about the mean of all."""
        columns = self._information.solve(_unit_columns(self._meat.shape[0], positions))
        covariance = columns.T @ (self._meat @ columns + self._ridge * columns)
        return (covariance + covariance.T) / 2

    def variance(self, contrast: Float64) -> float:
        deviation = self._information.solve(contrast[:, None])
        return float((deviation * (self._meat @ deviation + self._ridge * deviation)).sum())


class RankingDerivatives(NamedTuple):
    """The derivatives of the loss of rankings of equal length by the scores of their items."""

    items: Int64  # (n_rankings, length), as positions in the component
    gradient: Float64  # (n_rankings, length)
    curvature: Float64  # (n_rankings, length, length)
    counts: Float64  # (n_rankings,)

    def add_up(self, blocks: Float64, size: int) -> csr_array:
        """The sum of a block of each ranking, at the rows and columns of its items."""
        rows = np.broadcast_to(self.items[:, :, None], blocks.shape).ravel()
        columns = np.broadcast_to(self.items[:, None], blocks.shape).ravel()
        values = (blocks * self.counts[:, None, None]).ravel()
        return csr_array(coo_array((values, (rows, columns)), shape=(size, size)))


# The derivatives of rankings with one pattern of ties, in batches that fit in memory.
def _differentiate(rankings: Rankings, scores: Float64) -> Iterator[RankingDerivatives]:
    starts = offsets_of(rankings.lengths)[:-1]
    for length in np.unique(rankings.lengths[rankings.lengths > 1]).tolist():
        rows = np.flatnonzero(rankings.lengths == length)
        entries = np.add.outer(starts[rows], np.arange(length, dtype=np.int64))
        # a pattern says after which positions a new tier begins
        patterns, pattern_of = np.unique(np.diff(rankings.ranks[entries]) != 0, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            tiers = np.split(np.arange(length, dtype=np.int64), np.flatnonzero(pattern) + 1)
            alike = np.flatnonzero(pattern_of.ravel() == number)
            n_batches = 1 + len(alike) * length * len(scores) // CURVATURES_AT_ONCE
            for batch in np.array_split(alike, n_batches):
                items = rankings.items[entries[batch]]
                derivatives = _differentiate_alike(scores[items], [tier.tolist() for tier in tiers])
                yield RankingDerivatives(items, *derivatives, rankings.counts[rows[batch]].astype(np.float64))


# Gradients and curvatures of rankings with these ``tiers`` of positions and these scores of items.
def _differentiate_alike(scores: Float64, tiers: list[list[int]]) -> tuple[Float64, Float64]:
    gradient, curvature = np.zeros_like(scores), np.zeros((*scores.shape, scores.shape[1]))
    denominator = denominator_of(map(len, tiers))
    # the choice of w, with probabilities p, has the loss −ln p_w: gradient p − e_w, curvature diag p − p pᵀ
    for winner, members, weight in choices_of_tiers(tiers, denominator):
        gaps = scores[:, members] - scores[:, members].max(axis=1, keepdims=True)
        probability = np.exp(gaps) / np.exp(gaps).sum(axis=1, keepdims=True)
        gradient[:, members] += weight / denominator * probability
        gradient[:, winner] -= weight / denominator
        rows, columns = np.ix_(members, members)
        curvature[:, rows, columns] -= weight / denominator * probability[:, :, None] * probability[:, None]
        curvature[:, members, members] += weight / denominator * probability
    return gradient, curvature


def _unit_columns(size: int, positions: Int64) -> Float64:
    return np.equal.outer(np.arange(size), positions).astype(np.float64)


def _linalg() -> Any:
    import scipy.linalg  # a tenth of the start-up time

    return scipy.linalg
