"""Clustered standard errors of a conditional logit, also from few clusters: CR2 with Student's t.

Let H = Σ_g H_g be the information and s_g the score of cluster g, both at the estimate. The plain sandwich
H⁻¹ (Σ_g s_g s_gᵀ) H⁻¹ is too small, because the estimate was fitted to the same scores. CR2 (Bell and
McCaffrey 2002) replaces s_g by (I − H_g H⁻¹)^(−½) s_g, which makes the variance unbiased where choices are
independent. The variance of a contrast f is then a sum of squares with covariance matrix Ω, and
Satterthwaite's degrees of freedom are (tr Ω)² / tr Ω².

In *white coordinates*, where H is the identity, f becomes a vector c and H_g a matrix M_g with eigenvalues
λ ≤ 1 and eigenvectors v. Then tr Ω = |c|², Ω_gg = Σ λ (v·c)², and Ω = D − BBᵀ, where D is diagonal with
D_g = Σ λ/(1 − λ) (v·c)² and row g of B is b_g = Σ λ/√(1 − λ) (v·c) v. With very many clusters and contrasts
tr Ω² is replaced by Σ_g D_g Ω_gg, which is never less, since Ω ≤ D.

A contrast that depends on one cluster alone (v·c ≠ 0 at λ = 1) has no error. No clustered error is less than
the error of independent choices, because the scores of few clusters may cancel. Where counts are weights or
fractions of choices, the error of independent choices is a sandwich too. The errors are computed by
:meth:`ClusterErrors.of_contrasts` and :meth:`ClusterErrors.of_differences`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.rows import BattleRows
from attomaton.choices.logit.untyped import linalg
from attomaton.choices.spread import Spread

FEWEST_CLUSTERS = 3  # fewest clusters with errors

# Clusters with tr M_g up to this are *light*: CR2 would change their scores by 0.5 % at most, and is left
# out. The other clusters are *heavy*.
LIGHT = 0.01

ALONE = 1e-7  # a direction with 1 − λ below this depends on one cluster alone
MOST_ALONE = 0.01  # share of the variance of a contrast that may come from such directions
LEAST_EIGENVALUE = 1e-12  # eigenvalues of M_g up to this are rounding

# A variance below this share of the independent one is rounding: the fit leaves no residuals.
NO_RESIDUAL = 1e-12

# Products of numbers up to which tr Ω² is computed; beyond that, a bound takes its place.
MOST_PRODUCTS = 10**10

CLUSTER_ENTRIES = 1 << 20  # entries of dense rows in memory at once


class SingleResiduals(NamedTuple):
    """Residuals of independent choices, where counts are weights or fractions of choices."""

    residuals: Float64  # (n_rows,), each row as of one choice
    rankings: Int64 | None = None  # (n_situations,), the ranking that each situation is a step of


class HeavyCluster(NamedTuple):
    """The spectrum of M_g of a heavy cluster g, and its score after CR2, in white coordinates."""

    eigenvalues: Float64  # λ, shape (rank,)
    eigenvectors: Float64  # v, shape (n_coordinates, rank)
    score: Float64  # (n_coordinates,)

    @property
    def shared(self) -> Bool:
        """Which eigenvectors other clusters bear on, too: λ < 1."""
        return 1.0 - self.eigenvalues > ALONE

    @property
    def inverse_excess(self) -> Float64:
        """1 / (1 − λ), and 0 where no other cluster bears on the eigenvector."""
        return np.where(self.shared, 1.0 / np.where(self.shared, 1.0 - self.eigenvalues, 1.0), 0.0)

    def rows_of_b(self, white: Float64) -> Float64:
        """The row b_g of each contrast, shape (n_contrasts, n_coordinates)."""
        weighted = white @ self.eigenvectors * self.eigenvalues
        return weighted * np.sqrt(self.inverse_excess) @ self.eigenvectors.T


class ContrastForm(NamedTuple):
    """What errors are computed for: n contrasts, shape (n,), or the difference of each two, shape (n, n)."""

    products: Callable[[Float64, Float64], Float64]  # from rows c and c' to c·c'
    # from b, (n, n_clusters, n_coordinates), to Σ (b_g·b_h)² over g ≠ h
    cross_squares: Callable[[Float64], Float64]


class ClusterSums(NamedTuple):
    """Sums over heavy clusters, with one entry for each contrast or difference."""

    omega: Float64  # Ω_gg
    diagonal: Float64  # D_g
    squares: Float64  # Ω_gg², or D_g Ω_gg where the entries off the diagonal of Ω are not computed
    alone: Float64  # (v·c)² at λ = 1


@dataclass(frozen=True, eq=False)
class ClusterErrors:
    """Clustered errors of contrasts in the span of a basis."""

    problem: ChoiceProblem
    probability: Float64  # (n_rows,), at the estimate
    basis: Float64  # (n_parameters, n_coordinates), in scaled coordinates
    clusters: Int64  # (n_situations,), the number of the cluster of each situation
    single: SingleResiduals | None = None  # None if counts are whole: the information is the least variance

    def of_contrasts(self, contrasts: Float64) -> Spread:
        """The error of each contrast, shape (n,), from contrasts of shape (n, n_parameters)."""
        return self._spread(contrasts, ContrastForm(_products, cross_squares))

    def of_differences(self, contrasts: Float64) -> Spread:
        """The error of the difference of each two contrasts, shape (n, n)."""
        return self._spread(contrasts, ContrastForm(_difference_products, difference_cross_squares))

    @cached_property
    def covariance(self) -> Float64:
        """CR2, shape (n_parameters, n_parameters); for contrasts with an error."""
        return self.problem.covariance(self._root @ self._meat @ self._root.T)

    @cached_property
    def n_clusters(self) -> int:
        return int(self.clusters.max(initial=-1)) + 1

    # Standard errors and degrees of freedom; NaN where there is none.
    def _spread(self, contrasts: Float64, form: ContrastForm) -> Spread:
        white = self.problem.scaled(contrasts) @ self._root
        independent = form.products(white, white)
        if self.n_clusters < FEWEST_CLUSTERS:
            return Spread(np.full_like(independent, np.nan), np.full_like(independent, np.nan))
        least = independent if self._single_meat is None else _quadratic(white, self._single_meat, form)
        variance = np.maximum(_quadratic(white, self._meat, form), least)
        variance = np.where(variance > NO_RESIDUAL * independent, variance, np.nan)
        square_trace, alone = self._measure_omega(white, independent, form)
        with np.errstate(invalid="ignore", divide="ignore"):
            degrees = independent**2 / square_trace
        unknown = (alone > MOST_ALONE * independent) | (independent <= 0.0)
        return Spread(np.where(unknown, np.nan, np.sqrt(variance)), np.where(unknown, np.nan, degrees))

    # Tr Ω² (or a bound), and the share of |c|² that depends on one cluster alone.
    def _measure_omega(
        self, white: Float64, independent: Float64, form: ContrastForm
    ) -> tuple[Float64, Float64]:
        n_heavy, n_coordinates = len(self._heavy), white.shape[1]
        n_products = n_heavy * n_coordinates * min(n_heavy, n_coordinates) * independent.size
        is_exact = n_products <= MOST_PRODUCTS
        sums = ClusterSums(*(np.zeros_like(independent) for _ in range(4)))
        for cluster in self._heavy:
            sums = ClusterSums(*map(np.add, sums, _cluster_terms(cluster, white, form, is_exact=is_exact)))
        square_trace = sums.squares
        if is_exact and self._heavy:
            rows_of_b = [cluster.rows_of_b(white) for cluster in self._heavy]
            square_trace = square_trace + form.cross_squares(np.stack(rows_of_b, axis=1))
        # the share of light clusters in tr Ω² is bounded, by λ ≤ LIGHT
        light = LIGHT / (1.0 - LIGHT) * np.maximum(independent - sums.omega, 0.0)
        return square_trace + light * (independent + 2.0 * (sums.diagonal - sums.omega)), sums.alone

    # R with R Rᵀ = H⁻¹ on the span, shape (n_parameters, n_coordinates): c = Rᵀ f.
    @cached_property
    def _root(self) -> Float64:
        information = self.basis.T @ self.problem.information(self.probability) @ self.basis
        factor = linalg.cholesky(information, lower=True)
        return linalg.solve_triangular(factor, self.basis.T, lower=True).T

    @cached_property
    def _residuals(self) -> Float64:
        return self.problem.residuals(self.probability)

    @cached_property
    def _is_heavy(self) -> Bool:  # of each cluster, by tr M_g: the sum of the traces of its situations
        problem, rows = self.problem, self.problem.rows
        if isinstance(rows, BattleRows):
            root = self._root / problem.scale[:, None]
            traces = rows.leverage(root @ root.T, self.probability, problem.totals)
        else:
            traces = np.zeros(len(self.clusters))
            for column in np.ascontiguousarray(self._root.T):
                value = problem.utilities(column)
                mean = problem.situations.sum(self.probability * value)
                traces += problem.totals * (problem.situations.sum(self.probability * value**2) - mean**2)
        leverage: Any = np.bincount(self.clusters, traces, self.n_clusters)
        return leverage > LIGHT

    # The heavy clusters in the order of their numbers.
    @cached_property
    def _heavy(self) -> list[HeavyCluster]:
        by_cluster = np.argsort(self.clusters, kind="stable")
        borders = np.searchsorted(self.clusters[by_cluster], np.arange(self.n_clusters + 1))
        return [
            self._correct_score(by_cluster[borders[number] : borders[number + 1]])
            for number in np.flatnonzero(self._is_heavy).tolist()
        ]

    # The cluster of these situations, whose score CR2 multiplies by 1/√(1 − λ) along v.
    def _correct_score(self, situations: Int64) -> HeavyCluster:
        values, vectors, score = self._decompose(situations)
        positive = values > LEAST_EIGENVALUE
        values, vectors = np.minimum(values[positive], 1.0), vectors[:, positive]
        excess = 1.0 - values
        scaling = np.where(excess > ALONE, 1.0 / np.sqrt(np.maximum(excess, ALONE)) - 1.0, -1.0)
        return HeavyCluster(values, vectors, score + vectors @ (scaling * (vectors.T @ score)))

    # Eigenvalues and eigenvectors of M_g, and the score, of the cluster of these situations.
    def _decompose(self, situations: Int64) -> tuple[Float64, Float64, Float64]:
        n_coordinates, sizes = self._root.shape[1], np.diff(self.problem.situations.starts)
        if sizes[situations].sum() <= n_coordinates:  # few rows: from the rows, which keeps more digits
            rows, score = self._weigh_rows(situations)
            singular, right = np.linalg.svd(rows, full_matrices=False)[1:]
            return singular**2, right.T, score
        gram, score = np.zeros((n_coordinates, n_coordinates)), np.zeros(n_coordinates)
        n_batches = 1 + len(situations) * self.problem.rows.n_parameters // CLUSTER_ENTRIES
        for batch in np.array_split(situations, n_batches):
            rows, score_of_batch = self._weigh_rows(batch)
            gram += rows.T @ rows
            score += score_of_batch
        values, vectors = np.linalg.eigh(gram)
        return values, vectors, score

    # √(N p) (x − x̄) of the rows of these situations, and their score, in white coordinates.
    def _weigh_rows(self, situations: Int64) -> tuple[Float64, Float64]:
        problem = self.problem
        starts, ends = problem.situations.starts[situations], problem.situations.starts[situations + 1]
        sizes = ends - starts
        rows = ranges_of(starts, sizes)
        values = (problem.rows.take(rows) / problem.scale) @ self._root
        probability = self.probability[rows, None]
        means = np.add.reduceat(values * probability, offsets_of(sizes)[:-1], axis=0)
        totals = np.repeat(problem.totals[situations], sizes)[:, None]
        weighted = np.sqrt(totals * probability) * (values - np.repeat(means, sizes, axis=0))
        return weighted, self._residuals[rows] @ values

    # Σ_g s_g s_gᵀ with CR2, in white coordinates.
    @cached_property
    def _meat(self) -> Float64:
        is_heavy = self.problem.situations.spread(self._is_heavy[self.clusters])
        light = self._square_scores(np.where(is_heavy, 0.0, self._residuals), self.clusters)
        heavy = np.array([cluster.score for cluster in self._heavy]).reshape(len(self._heavy), len(light))
        return light + heavy.T @ heavy

    # The meat of independent choices; None where it equals the information.
    @cached_property
    def _single_meat(self) -> Float64 | None:
        return None if self.single is None else self._square_scores(*self.single)

    # Σ s sᵀ over the scores s of groups of situations (None: of situations), without CR2.
    def _square_scores(self, residuals: Float64, groups: Int64 | None) -> Float64:
        scale = self.problem.scale
        plain = self.problem.rows.scores(residuals, groups) / np.outer(scale, scale)
        return self._root.T @ plain @ self._root


# The terms of a cluster in the sums; ``is_exact`` says that all of Ω is computed.
def _cluster_terms(
    cluster: HeavyCluster, white: Float64, form: ContrastForm, *, is_exact: bool
) -> ClusterSums:
    projected = white @ cluster.eigenvectors
    weighted = projected * cluster.eigenvalues
    omega = form.products(weighted, projected)
    diagonal = form.products(weighted * cluster.inverse_excess, projected)
    alone = form.products(projected * ~cluster.shared, projected)
    return ClusterSums(omega, diagonal, omega * (omega if is_exact else diagonal), alone)


# The quadratic form cᵀ A c of a matrix A.
def _quadratic(white: Float64, matrix: Float64, form: ContrastForm) -> Float64:
    values, vectors = np.linalg.eigh(matrix)
    rotated = white @ vectors
    return form.products(rotated * np.maximum(values, 0.0), rotated)


def _products(left: Float64, right: Float64) -> Float64:
    return (left * right).sum(axis=1)


def _difference_products(left: Float64, right: Float64) -> Float64:
    # (c − d)·(c' − d') = c·c' + d·d' − c·d' − d·c' for the rows c and d of ``left``
    products = left @ right.T
    squares = np.diag(products)
    return squares[:, None] + squares - products - products.T


def cross_squares(rows: Float64) -> Float64:
    """Σ (b_g·b_h)² over g ≠ h for each contrast, from b of shape (n_contrasts, n_clusters, n_coordinates)."""
    transposed = rows.transpose(0, 2, 1)
    gram = transposed @ rows if rows.shape[1] > rows.shape[2] else rows @ transposed
    squares = np.square(rows).sum(axis=2)
    return np.maximum(np.square(gram).sum(axis=(1, 2)) - np.square(squares).sum(axis=1), 0.0)


def difference_cross_squares(rows: Float64) -> Float64:
    """The sums of :func:`cross_squares` for the difference of each two contrasts."""
    return np.stack([cross_squares(rows - row) for row in rows])
