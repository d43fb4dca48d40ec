"""The covariance of scores where ties count as parts of choices, which no likelihood explains.

A tie of two is half a win for each, so the scores solve Σ ψ_r = 0, where ψ_r is the slope of the loss of one
ranking (a pair is a ranking of two), averaged over the orders of those tied. With curvatures W_r and their
sum H the estimate moves by −H⁺ Σ ψ_r, and its covariance is H⁺ B H⁺ with B the covariance of Σ ψ_r: a
sandwich. H⁺ alone, which is right without ties, takes each tie for a win of one side that was not seen.

B is estimated by Σ (ψ_r ψ_rᵀ + W_r H⁺ W_r). The first term is taken at the fitted scores, which bends each
ψ_r towards 0 by W_r H⁺ Σ ψ; if W_r is its covariance, that makes E ψ_r ψ_rᵀ = W_r − W_r H⁺ W_r, and the
second term puts back what is lost. So a link of ties only, of which the first term says 0 ± 0, has an error.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array, csr_array

from attomaton.base.ragged import group_borders, offsets_of, rows_of
from attomaton.base.tables import Float64, Int64, column, ragged_column
from attomaton.choices.information import Information, unit_columns
from attomaton.choices.rankings import parts_of, steps_of
from attomaton.graphs.components import Components

AT_ONCE = 1 << 22
"""Entries of curvatures, times the items of a component, that are held at once."""


class RankingSlopes(NamedTuple):
    """The loss of some rankings of equally many items, differentiated."""

    items: Int64  # (n_rankings, length)
    slope: Float64  # (n_rankings, length)
    curvature: Float64  # (n_rankings, length, length)
    often: Float64  # (n_rankings,)


class Rankings(NamedTuple):
    """The rankings of the items of one component, one after the other, each best first."""

    items: Int64  # (n_entries,)
    places: Int64  # (n_entries,), equal where items are tied
    lengths: Int64  # (n_rankings,)
    often: Int64  # (n_rankings,)


class SplitRankings:
    """Counted rankings, cut down to the items of each component, of which ``place`` says the places there."""

    def __init__(self, rankings: pa.Table, components: Components, place: Int64) -> None:
        offsets, items = ragged_column(rankings, "items")
        component, ranking = components.component_of_node[items], rows_of(offsets)
        order = np.lexsort((ranking, component))
        self._items, self._ranking = place[items[order]], ranking[order]
        self._places = ragged_column(rankings, "places")[1][order]
        self._count = column(rankings, "count")
        self._borders = group_borders(component, len(components))

    def inside(self, component: int) -> Rankings:
        """The rankings of one component, its items numbered from 0."""
        here = slice(*self._borders[component : component + 2])
        ranking, lengths = np.unique(self._ranking[here], return_counts=True)
        return Rankings(self._items[here], self._places[here], lengths, self._count[ranking])


class Sandwich:
    """The sandwich of the scores of one component."""

    def __init__(self, rankings: Rankings, scores: Float64, ridge: float) -> None:
        size = len(scores)
        curvature = csr_array((size, size))
        for part in differentiate(rankings, scores):
            curvature += _gather(part.items, part.curvature * part.often[:, None, None], size)
        self._information, self._ridge = Information(curvature, ridge=ridge), ridge
        root = self._information.halve(np.eye(size)).T
        self._slopes = csr_array((size, size))
        for part in differentiate(rankings, scores):
            bent = part.curvature @ root[part.items]
            block = part.slope[:, :, None] * part.slope[:, None] + bent @ bent.transpose(0, 2, 1)
            self._slopes += _gather(part.items, block * part.often[:, None, None], size)

    def covariance(self, places: Int64) -> Float64:
        """The covariance of the scores at these places about the mean of all, shape (n_places, n_places)."""
        columns = self._information.solve(unit_columns(self._slopes.shape[0], places))
        found = columns.T @ (self._slopes @ columns + self._ridge * columns)
        return (found + found.T) / 2

    def variance(self, contrast: Float64) -> float:
        """The variance of Σ contrast · score, whose contrast sums to 0."""
        moved = self._information.solve(contrast[:, None])
        return float((moved * (self._slopes @ moved + self._ridge * moved)).sum())


def differentiate(rankings: Rankings, scores: Float64) -> Iterator[RankingSlopes]:
    """Slopes and curvatures of rankings whose items share places in the same way, as many as fit at once."""
    starts = offsets_of(rankings.lengths)[:-1]
    for length in np.unique(rankings.lengths[rankings.lengths > 1]).tolist():
        rows = np.flatnonzero(rankings.lengths == length)
        entries = np.add.outer(starts[rows], np.arange(length, dtype=np.int64))
        patterns, which = np.unique(np.diff(rankings.places[entries]) != 0, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            places = np.split(np.arange(length, dtype=np.int64), np.flatnonzero(pattern) + 1)
            chosen = np.flatnonzero(which.ravel() == number)
            for few in np.array_split(chosen, 1 + len(chosen) * length * len(scores) // AT_ONCE):
                items = rankings.items[entries[few]]
                found = _differentiate_alike(scores[items], [place.tolist() for place in places])
                yield RankingSlopes(items, *found, rankings.often[rows[few]].astype(np.float64))


def _differentiate_alike(scores: Float64, places: list[list[int]]) -> tuple[Float64, Float64]:
    slope, curvature = np.zeros_like(scores), np.zeros((*scores.shape, scores.shape[1]))
    parts = parts_of(map(len, places))
    for winner, members, weight in steps_of(places, parts):
        gaps = scores[:, members] - scores[:, members].max(axis=1, keepdims=True)
        chance = np.exp(gaps) / np.exp(gaps).sum(axis=1, keepdims=True)
        slope[:, members] += weight / parts * chance
        slope[:, winner] -= weight / parts
        rows, columns = np.ix_(members, members)
        curvature[:, rows, columns] -= weight / parts * chance[:, :, None] * chance[:, None]
        curvature[:, members, members] += weight / parts * chance
    return slope, curvature


def _gather(items: Int64, blocks: Float64, size: int) -> csr_array:
    """The sum of blocks, each at the rows and columns of its items."""
    rows = np.broadcast_to(items[:, :, None], blocks.shape).ravel()
    columns = np.broadcast_to(items[:, None], blocks.shape).ravel()
    return csr_array(coo_array((blocks.ravel(), (rows, columns)), shape=(size, size)))
