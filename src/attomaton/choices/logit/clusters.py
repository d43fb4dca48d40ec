"""Errors of estimates from choices in clusters, also from few: CR2 with Student's t.

Let H = Σ_g H_g be the information and s_g the score of cluster g, both at the estimate. The plain sandwich
H⁻¹ (Σ_g s_g s_gᵀ) H⁻¹ is too small, because the estimate was fitted to the same scores. CR2 (Bell and
McCaffrey 2002) replaces s_g by (I − H_g H⁻¹)^(−½) s_g, which makes the variance unbiased where choices are
independent. The variance of a contrast f is then a sum of squares with covariance matrix Ω, and
Satterthwaite's degrees of freedom are (tr Ω)² / tr Ω².

In coordinates where H is the identity, f becomes a vector c and H_g a matrix M_g with eigenvalues λ ≤ 1 and
eigenvectors v. Then tr Ω = |c|², Ω_gg = Σ λ (v·c)², and Ω = D − BBᵀ with D_g = Σ λ/(1 − λ) (v·c)² and rows
b_g = Σ λ/√(1 − λ) (v·c) v of B. With very many clusters and contrasts tr Ω² is replaced by Σ_g D_g Ω_gg,
which is never less, since Ω ≤ D.

A contrast that depends on one cluster alone (v·c ≠ 0 at λ = 1) has no error. No error of clusters is less
than that of independent choices, because the scores of few clusters may cancel. Where counts are parts of
choices or weights, that is the sandwich of single choices.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.rows import BattleRows
from attomaton.choices.logit.untyped import linalg
from attomaton.choices.spread import Spread

FEWEST_CLUSTERS = 3
"""Fewest clusters with errors."""

LIGHT = 0.01
"""Clusters with tr M_g up to this are taken as they are: CR2 would change their scores by 0.5 % at most."""

ALONE = 1e-7
"""A direction with 1 − λ below this depends on one cluster alone."""

MOST_ALONE = 0.01
"""Share of the variance of a contrast that may come from such directions."""

NO_RESIDUAL = 1e-12
"""A variance below this share of the independent one is rounding: the fit leaves no residuals."""

MOST_PRODUCTS = 10**10
"""Products of numbers up to which tr Ω² is computed; beyond that, a bound takes its place."""

CLUSTER_ENTRIES = 1 << 20
"""Entries of dense rows in memory at once."""


class HeavyCluster(NamedTuple):
    """A cluster that weighs on the estimate: eigenvalues and eigenvectors of M_g, and its score after CR2."""

    eigenvalues: Float64
    directions: Float64
    score: Float64


class SingleResiduals(NamedTuple):
    """The residuals of each row as of one choice, and the ranking that a situation is a step of, if any."""

    residuals: Float64
    rankings: Int64 | None = None


class ClusterErrors:
    """The errors of a conditional logit with clusters of choices, for contrasts in the span of ``basis``.

    ``single`` is given where counts are parts of choices or weights: the information is then no floor of the
    variance.
    """

    def __init__(
        self,
        problem: ChoiceProblem,
        probability: Float64,
        basis: Float64,
        clusters: Int64,
        single: SingleResiduals | None = None,
    ) -> None:
        self.n_clusters = int(clusters.max(initial=-1)) + 1
        self._problem, self._probability, self._clusters = problem, probability, clusters
        self._single = single
        factor = linalg.cholesky(basis.T @ problem.information(probability) @ basis, lower=True)
        self._root: Float64 = linalg.solve_triangular(
            factor, basis.T, lower=True
        ).T  # H is the identity there
        self._residuals: Float64 = problem.residuals(probability)

    def of(self, contrasts: Float64) -> Spread:
        """The error of each contrast, shape (n,), from contrasts of shape (n, n_parameters)."""
        return self._measure(contrasts, _products, _cross_squares)

    def between(self, contrasts: Float64) -> Spread:
        """The error of the difference of each two contrasts, shape (n, n)."""
        return self._measure(contrasts, _products_between, _cross_squares_between)

    @cached_property
    def covariance(self) -> Float64:
        """CR2, shape (n_parameters, n_parameters); for contrasts with an error."""
        return self._problem.covariance(self._root @ self._meat @ self._root.T)

    def _measure(
        self,
        contrasts: Float64,
        product: Callable[[Float64, Float64], Float64],
        cross_squares: Callable[[Float64], Float64],
    ) -> Spread:
        """The errors of contrasts, or of their differences: ``product`` has c·c' for each of them."""
        white = self._problem.scaled(contrasts) @ self._root
        independent = product(white, white)
        if self.n_clusters < FEWEST_CLUSTERS:
            return Spread(np.full_like(independent, np.nan), np.full_like(independent, np.nan))
        least = independent if self._single_meat is None else _quadratic(white, self._single_meat, product)
        variance = np.maximum(_quadratic(white, self._meat, product), least)
        diagonal, upper, squares, bound, alone = (np.zeros_like(independent) for _ in range(5))
        rows_of_b = list[Float64]()
        least_side = min(len(self._heavy), white.shape[1])
        is_exact = len(self._heavy) * white.shape[1] * least_side * independent.size <= MOST_PRODUCTS
        for eigenvalues, directions, _ in self._heavy:
            projected, excess = white @ directions, 1.0 - eigenvalues
            shared = excess > ALONE
            inverse = np.where(shared, 1.0 / np.where(shared, excess, 1.0), 0.0)
            weighted = projected * eigenvalues
            omega, d = product(weighted, projected), product(weighted * inverse, projected)
            diagonal, upper = diagonal + omega, upper + d
            squares, bound = squares + omega**2, bound + omega * d
            alone += product(projected * ~shared, projected)
            if is_exact:
                rows_of_b.append(weighted * np.sqrt(inverse) @ directions.T)
        if is_exact and rows_of_b:
            bound = squares + cross_squares(np.stack(rows_of_b, axis=1))
        light = LIGHT / (1.0 - LIGHT) * np.maximum(independent - diagonal, 0.0)
        bound += light * (independent + 2.0 * (upper - diagonal))
        with np.errstate(invalid="ignore", divide="ignore"):
            degrees = independent**2 / bound
        variance = np.where(variance > NO_RESIDUAL * independent, variance, np.nan)
        unknown = (alone > MOST_ALONE * independent) | (independent <= 0.0)
        return Spread(np.where(unknown, np.nan, np.sqrt(variance)), np.where(unknown, np.nan, degrees))

    @cached_property
    def _leverage(self) -> Float64:
        """Tr M_g of each cluster, shape (n_clusters,)."""
        problem, rows = self._problem, self._problem.rows
        if isinstance(rows, BattleRows):
            root = self._root / problem.scale[:, None]
            total = rows.leverage(root @ root.T, self._probability, problem.totals)
        else:
            total = np.zeros(len(self._clusters))
            for column in np.ascontiguousarray(self._root.T):
                value = problem.utilities(column)
                mean = problem.situations.sum(self._probability * value)
                total += problem.totals * (problem.situations.sum(self._probability * value**2) - mean**2)
        traces: Any = np.bincount(self._clusters, total, self.n_clusters)
        return traces

    @cached_property
    def _is_heavy(self) -> Bool:
        return self._leverage > LIGHT

    @cached_property
    def _heavy(self) -> "list[HeavyCluster]":
        """Every cluster that is not light."""
        problem, rank, result = self._problem, self._root.shape[1], list[HeavyCluster]()
        sizes = np.diff(problem.situations.starts)
        order = np.argsort(self._clusters, kind="stable")
        borders = np.searchsorted(self._clusters[order], np.arange(self.n_clusters + 1))
        for number in np.flatnonzero(self._is_heavy).tolist():
            situations = order[borders[number] : borders[number + 1]]
            if sizes[situations].sum() <= rank:
                block, score = self._differentiate(situations)
                singular, right = np.linalg.svd(block, full_matrices=False)[1:]
                values, vectors = singular**2, right.T
            else:
                gram, score = np.zeros((rank, rank)), np.zeros(rank)
                n_blocks = 1 + len(situations) * problem.rows.n_parameters // CLUSTER_ENTRIES
                for few in np.array_split(situations, n_blocks):
                    block, slope = self._differentiate(few)
                    gram += block.T @ block
                    score += slope
                values, vectors = np.linalg.eigh(gram)
            positive = values > 1e-12
            values, vectors = np.minimum(values[positive], 1.0), vectors[:, positive]
            excess = 1.0 - values
            scaling = np.where(excess > ALONE, 1.0 / np.sqrt(np.maximum(excess, ALONE)) - 1.0, -1.0)
            result.append(HeavyCluster(values, vectors, score + vectors @ (scaling * (vectors.T @ score))))
        return result

    def _differentiate(self, situations: Int64) -> tuple[Float64, Float64]:
        """√(N p) (x − x̄) of the rows of some situations, and their score, where H is the identity."""
        problem = self._problem
        starts, ends = problem.situations.starts[situations], problem.situations.starts[situations + 1]
        sizes = ends - starts
        rows, first = ranges_of(starts, sizes), offsets_of(sizes)[:-1]
        values = (problem.rows.take(rows) / problem.scale) @ self._root
        probability = self._probability[rows, None]
        means = np.add.reduceat(values * probability, first, axis=0)
        totals = np.repeat(problem.totals[situations], sizes)[:, None]
        block = np.sqrt(totals * probability) * (values - np.repeat(means, sizes, axis=0))
        return block, self._residuals[rows] @ values

    @cached_property
    def _meat(self) -> Float64:
        """Σ_g of the squares of the scores, where H is the identity."""
        heavy = [cluster.score for cluster in self._heavy]
        is_heavy = self._problem.situations.spread(self._is_heavy[self._clusters])
        meat = self._square(np.where(is_heavy, 0.0, self._residuals), self._clusters)
        scores = np.array(heavy).reshape(len(heavy), len(meat))
        return meat + scores.T @ scores

    @cached_property
    def _single_meat(self) -> Float64 | None:
        """The meat with each row as its own cluster; None where that is the information."""
        return None if self._single is None else self._square(*self._single)

    def _square(self, residuals: Float64, clusters: Int64 | None) -> Float64:
        """Σ_g of the squares of the scores of these residuals, without CR2, where H is the identity."""
        scale = self._problem.scale
        plain = self._problem.rows.scores(residuals, clusters) / np.outer(scale, scale)
        return self._root.T @ plain @ self._root


def _quadratic(white: Float64, matrix: Float64, product: Callable[[Float64, Float64], Float64]) -> Float64:
    """The quadratic form of a matrix at each contrast, or difference of contrasts."""
    values, vectors = np.linalg.eigh(matrix)
    rotated = white @ vectors
    return product(rotated * np.maximum(values, 0.0), rotated)


def _products(left: Float64, right: Float64) -> Float64:
    return (left * right).sum(axis=1)


def _cross_squares(rows: Float64) -> Float64:
    """Σ (b_g·b_h)² over g ≠ h for each contrast, from b of shape (n_contrasts, n_clusters, rank)."""
    transposed = rows.transpose(0, 2, 1)
    gram = transposed @ rows if rows.shape[1] > rows.shape[2] else rows @ transposed
    squares = np.square(rows).sum(axis=2)
    return np.maximum(np.square(gram).sum(axis=(1, 2)) - np.square(squares).sum(axis=1), 0.0)


def _cross_squares_between(rows: Float64) -> Float64:
    """The sums of :func:`_cross_squares` for the difference of each two contrasts."""
    return np.stack([_cross_squares(rows - row) for row in rows])


def _products_between(left: Float64, right: Float64) -> Float64:
    products = left @ right.T
    squares = np.diag(products)
    return squares[:, None] + squares - products - products.T
