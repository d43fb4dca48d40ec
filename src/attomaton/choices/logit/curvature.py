"""The information of a conditional logit, as a dense matrix or on the graph of games.

On the graph of games it is H = [[L, C], [Cᵀ, W]]: L = Σ w_ab (e_a − e_b)(e_a − e_b)ᵀ is a Laplacian, and the
few other columns (features, position, tie) have C beside the items and W among themselves. With G = L plus
the degree of one root in each component and X = G⁻¹ C, elimination of the items leaves S = W − CᵀX. Every
column of C and every gradient sums to 0 in each component, so that G⁻¹ is as good as L⁺.

What is proved rests on v > 0 with G v ≥ c > 0 in every entry. G is an M-matrix: its inverse has no negative
entry, and its row sums are at most ρ = max v / c. Hence rᵀ G⁻¹ r ≤ ρ ‖r‖₁ ‖r‖_∞ for what a solver left, and
whatever conjugate gradients return, the bound is of the v that is checked. Rounding errors are subtracted for
each item by itself: they do not grow with the table.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.tables import Float64, Int64
from attomaton.choices.logit.graph import GameGraph
from attomaton.choices.logit.untyped import linalg
from attomaton.graphs.strong import connected_nodes

GOAL = 1e-13
"""What may be left of an entry of G x = b, as a share of the largest of b, for the solver to stop."""

TURNS, REFINEMENTS = 500, 3
"""Steps of conjugate gradients before elimination takes over, and solves of what is left."""

ALIASED = 1e-11
"""Eigenvalues of the scaled S below this are zero: a column follows from others."""

LOOSE, EPSILON = 2e-14, float(np.finfo(np.float64).eps)
"""Relative rounding error of a weight, and of one operation."""


LIFT = 1e-10
"""Added to the scaled information so that Cholesky goes through where some columns are not identified."""

SOLVES = 6
"""Solves with the lifted matrix; each removes all but LIFT / (smallest eigenvalue) of what is left."""


@dataclass(frozen=True)
class DenseCurvature:
    """The information as a matrix."""

    matrix: Float64

    @property
    def diagonal(self) -> Float64:
        """The diagonal of H."""
        return np.diag(self.matrix)

    def times(self, vector: Float64) -> Float64:
        """H u."""
        return self.matrix @ vector

    def solve(self, gradient: Float64) -> Float64:
        """A solution u of H u = g."""
        return solve_information(self.matrix, gradient)


class WideColumns(NamedTuple):
    """What is left of the information when the items are eliminated."""

    shift: Float64  # X, (n_items, n_wide)
    remainder: Float64  # C − G X
    scale: Float64  # √diag W
    values: Float64  # eigenvalues of S / (scale scaleᵀ), and its eigenvectors
    vectors: Float64

    @property
    def rank(self) -> int:
        """How many of the other columns do not follow from the items and each other."""
        return int((self.values > ALIASED).sum())

    def solve(self, right: Float64) -> Float64:
        """S⁺ b."""
        large = self.values > ALIASED
        vectors = self.vectors[:, large]
        return (vectors @ ((vectors.T @ (right / self.scale)) / self.values[large])) / self.scale


class GraphCurvature:
    """The information on the graph of games: ``border`` is C and ``corner`` W, in units of ``scale``."""

    def __init__(
        self, graph: GameGraph, weight: Float64, border: Float64, corner: Float64, scale: Float64
    ) -> None:
        self._adjacency = graph.adjacency(weight)
        self._degree: Float64 = np.asarray(self._adjacency.sum(axis=1)).ravel()
        self._border, self._corner, self._scale = border, corner, scale
        self._n_items = len(border)

    @property
    def diagonal(self) -> Float64:
        """The diagonal of H."""
        return np.concatenate([self._degree, np.diag(self._corner)]) / self._scale**2

    def times(self, vector: Float64) -> Float64:
        """H u."""
        items, wide = np.split(vector / self._scale, [self._n_items])
        moved = self._degree * items - self._adjacency @ items + self._border @ wide
        return np.concatenate([moved, items @ self._border + self._corner @ wide]) / self._scale

    def solve(self, gradient: Float64) -> Float64:
        """A solution u of H u = g; axis 0 runs over parameters."""
        flat = (gradient.T * self._scale).T.reshape(len(gradient), -1)
        items, wide = np.split(flat, [self._n_items])
        solution = self._solve(items)
        if len(wide):
            left = self._wide
            moved = np.stack([left.solve(b) for b in (wide - left.shift.T @ items).T], axis=1)
            solution = np.concatenate([solution - left.shift @ moved, moved])
        return (solution.reshape(gradient.shape).T * self._scale).T

    @cached_property
    def aliases(self) -> Float64:
        """Vectors u with H u = 0 that have other columns than items, shape (n_parameters, n_vectors)."""
        left = self._wide
        wide = left.vectors[:, left.values <= ALIASED] / left.scale[:, None]
        vectors = np.concatenate([-left.shift @ wide, wide])
        return vectors * self._scale[:, None]

    @cached_property
    def least(self) -> float:
        """A lower bound on the smallest eigenvalue that is not zero, as a share of the largest, about.

        0 where nothing is proved.
        """
        least = 1.0 / (self._row_sums * float(self._degree.max(initial=1e-300)))
        return min(least, self._least_of_wide) if len(self._corner) else least

    @cached_property
    def _least_of_wide(self) -> float:
        """A lower bound on the eigenvalues of the scaled S that are not zero, less what rounding may add."""
        left = self._wide
        bends = [self._bend(column, column) for column in left.remainder.T]
        slack = float((bends / left.scale**2).sum()) + len(bends) * (LOOSE + EPSILON * self._n_items)
        return max(float(left.values[left.values > ALIASED].min(initial=1.0)) - slack, 0.0)

    def bound(self, residual: Float64) -> float:
        """At least √(rᵀ H⁺ r) for every r in the range of H with |r| ≤ ``residual`` in each entry."""
        items, wide = np.split(residual * self._scale, [self._n_items])
        square = self._bend(items, items)
        if len(wide):
            left = self._wide
            near = items @ np.abs(left.shift)
            far = np.array([self._bend(items, column) for column in left.remainder.T])
            square += float((((wide + near + far) / left.scale) ** 2).sum()) / max(
                self._least_of_wide, 1e-300
            )
        return square**0.5

    def _bend(self, left: Float64, right: Float64) -> float:
        """At least |aᵀ G⁻¹ b|."""
        return self._row_sums * float(np.abs(left).sum()) * float(np.abs(right).max(initial=0.0))

    @cached_property
    def _wide(self) -> WideColumns:
        shift = self._solve(self._border)
        image = self._grounded(shift)
        inner = self._corner - self._border.T @ shift - shift.T @ self._border + shift.T @ image
        scale = np.sqrt(np.maximum(np.diag(self._corner), 0.0))
        scale = np.where(scale > 0, scale, 1.0)
        values, vectors = linalg.eigh((inner + inner.T) / 2 / np.outer(scale, scale), check_finite=False)
        return WideColumns(shift, self._border - image, scale, values, vectors)

    @cached_property
    def _roots(self) -> Int64:
        """The item with the largest degree of each component."""
        tails = np.repeat(np.arange(self._n_items), np.diff(self._adjacency.indptr))
        heads = self._adjacency.indices.astype(np.int64)
        label = connected_nodes(tails, heads, self._n_items, strongly=True)  # each edge goes both ways
        order = np.lexsort((-self._degree, label))
        return order[np.diff(label[order], prepend=-1) > 0]

    @cached_property
    def _diagonal(self) -> Float64:
        """The diagonal of G."""
        diagonal = self._degree.copy()
        diagonal[self._roots] *= 2.0
        return np.where(diagonal > 0, diagonal, 1.0)

    def _grounded(self, columns: Float64) -> Float64:
        """G times columns, shape (n_items, n_columns)."""
        return self._diagonal[:, None] * columns - self._adjacency @ columns

    def _solve(self, right: Float64, goal: float = GOAL) -> Float64:
        """G⁻¹ times columns, shape (n_items, n_columns)."""
        small = goal * np.abs(right).max(axis=0, initial=0.0)
        solution = np.zeros_like(right)
        for _ in range(REFINEMENTS):
            residual = right - self._grounded(solution)
            if (np.abs(residual).max(axis=0, initial=0.0) <= small).all():
                break
            solution = solution + self._approach(residual, small)
        return solution

    def _approach(self, right: Float64, small: Float64) -> Float64:
        """An approximate solution by conjugate gradients, or by elimination on a graph like a long chain."""
        if "_factor" in vars(self):
            return self._factor.solve(right)
        solution, residual = np.zeros_like(right), right.copy()
        inverse = 1.0 / self._diagonal[:, None]
        direction = scaled = residual * inverse
        energy = (residual * scaled).sum(axis=0)
        for _ in range(TURNS):
            image = self._grounded(direction)
            bend = (direction * image).sum(axis=0)
            length = np.divide(energy, bend, out=np.zeros_like(bend), where=bend > 0)
            solution += length * direction
            residual -= length * image
            if (np.abs(residual).max(axis=0, initial=0.0) <= small).all():
                return solution
            scaled = residual * inverse
            fresh = (residual * scaled).sum(axis=0)
            direction = (
                scaled + np.divide(fresh, energy, out=np.zeros_like(fresh), where=energy > 0) * direction
            )
            energy = fresh
        return self._factor.solve(right)

    @cached_property
    def _factor(self) -> Any:
        import scipy.sparse.linalg  # a tenth of the start-up time

        splu: Any = scipy.sparse.linalg.splu
        matrix = scipy.sparse.diags_array(self._diagonal) - self._adjacency
        options = {"SymmetricMode": True}
        return splu(matrix.tocsc(), "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    @cached_property
    def _row_sums(self) -> float:
        """ρ, at least the largest row sum of G⁻¹; infinite where nothing is proved."""
        heights = self._solve(np.ones((self._n_items, 1)), 0.25)
        top = float(heights.max(initial=0.0))
        image = self._grounded(heights)[:, 0] - 4 * LOOSE * self._diagonal * top
        lowest = float(image.min(initial=1.0))
        return top / lowest if lowest > 0 and heights.min(initial=1.0) > 0 else np.inf


InformationMatrix = DenseCurvature | GraphCurvature
"""An information matrix H in scaled coordinates."""


def solve_information(information: Float64, gradient: Float64) -> Float64:
    """A solution u of H u = g for a singular H whose range holds g: Cholesky, or else eigenvalues."""
    scale = np.sqrt(np.maximum(np.diag(information), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    matrix, right = information / np.outer(scale, scale), gradient / scale
    size = float(np.abs(right).max(initial=0.0))
    if size == 0:
        return np.zeros_like(gradient)
    try:
        factor: Any = linalg.cho_factor(matrix + LIFT * np.eye(len(matrix)), check_finite=False)
        solution = np.zeros_like(right)
        for _ in range(SOLVES):
            residual = right - matrix @ solution
            if float(np.abs(residual).max()) <= 1e-14 * size:
                return solution / scale
            solution = solution + linalg.cho_solve(factor, residual, check_finite=False)
        if float(np.abs(right - matrix @ solution).max()) <= 1e-13 * size:
            return solution / scale
    except linalg.LinAlgError:
        pass
    values, vectors = linalg.eigh(matrix, check_finite=False)
    large = values > 1e-12 * max(float(values[-1]), 1e-300)
    solution = vectors[:, large] @ ((vectors[:, large].T @ right) / values[large])
    return solution / scale
