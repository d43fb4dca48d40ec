"""The information H of a conditional logit, as a dense matrix or on the graph of games.

On the graph of games H = [[L, C], [Cᵀ, W]]. L = Σ w_ab (e_a − e_b)(e_a − e_b)ᵀ is a Laplacian of the items,
and the few *wide* columns (features, position, tie) have the blocks C (with items) and W. With G = L plus the
degree of one root item in each component and X = G⁻¹ C, elimination of the items leaves S = W − CᵀX. Every
column of C and every gradient sums to 0 in each component, so that G⁻¹ may take the place of L⁺.

Proofs rest on a v > 0 with G v ≥ c > 0 in every entry. G is an M-matrix: its inverse has no negative entry,
and its row sums are at most ρ = max v / c. Hence rᵀ G⁻¹ r ≤ ρ ‖r‖₁ ‖r‖_∞ for the residual r of a solver. The
bound is of the v that is checked, whatever conjugate gradients return. Rounding errors are subtracted for
each item by itself, so that they do not grow with the number of games.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.tables import Float64, Int64
from attomaton.choices.logit.graph import GameGraph
from attomaton.choices.logit.untyped import linalg
from attomaton.graphs.strong import connected_nodes

GOAL = 1e-13  # the residual of G x = b at which the solver stops, as a share of the largest entry of b

MOST_STEPS = 500  # steps of conjugate gradients before elimination takes over
MOST_SOLVES = 3  # solves of G x = b, each for the residual of the earlier ones

ALIASED = 1e-11  # eigenvalues of the scaled S below this are zero: a column follows from others

BATTLE_ROUNDING = 2e-14  # relative rounding error of the weight of a battle
OPERATION_ROUNDING = float(np.finfo(np.float64).eps)  # of one operation

# Added to the scaled information so that Cholesky goes through where some columns are not identified.
LIFT = 1e-10

LIFTED_SOLVES = 6  # solves with the lifted matrix; each leaves LIFT / (smallest eigenvalue) of the residual


@dataclass(frozen=True)
class DenseCurvature:
    """The information H as a matrix."""

    matrix: Float64

    @property
    def diagonal(self) -> Float64:
        return np.diag(self.matrix)

    def times(self, vector: Float64) -> Float64:
        """H times a vector."""
        return self.matrix @ vector

    def solve(self, gradient: Float64) -> Float64:
        """A solution u of H u = g, for g in the range of H."""
        return solve_information(self.matrix, gradient)


class WideColumns(NamedTuple):
    """The information S of the wide columns after the elimination of the items."""

    shift: Float64  # X, shape (n_items, n_wide)
    remainder: Float64  # C − G X, shape (n_items, n_wide)
    scale: Float64  # √diag W, shape (n_wide,)
    values: Float64  # eigenvalues of S / (scale scaleᵀ), shape (n_wide,)
    vectors: Float64  # its eigenvectors, shape (n_wide, n_wide)

    def solve(self, right: Float64) -> Float64:
        """S⁺ times a vector; eigenvalues of aliased columns count as zero."""
        large = self.values > ALIASED
        vectors = self.vectors[:, large]
        return (vectors @ ((vectors.T @ (right / self.scale)) / self.values[large])) / self.scale


class GraphCurvature:
    """The information on the graph of games, for ``weight`` of each battle, C = ``border``, W = ``corner``.

    Vectors are in coordinates that are multiplied by ``scale``, shape (n_parameters,).
    """

    def __init__(
        self, graph: GameGraph, weight: Float64, border: Float64, corner: Float64, scale: Float64
    ) -> None:
        self._adjacency = graph.adjacency(weight)
        self._degree: Float64 = np.asarray(self._adjacency.sum(axis=1)).ravel()
        self._border, self._corner, self._scale = border, corner, scale
        self._n_items = len(border)

    @property
    def diagonal(self) -> Float64:
        return np.concatenate([self._degree, np.diag(self._corner)]) / self._scale**2

    def times(self, vector: Float64) -> Float64:
        items, wide = np.split(vector / self._scale, [self._n_items])
        image = self._degree * items - self._adjacency @ items + self._border @ wide
        return np.concatenate([image, items @ self._border + self._corner @ wide]) / self._scale

    def solve(self, gradient: Float64) -> Float64:
        """A solution u of H u = g; axis 0 runs over parameters."""
        flat = (gradient.T * self._scale).T.reshape(len(gradient), -1)
        items, wide = np.split(flat, [self._n_items])
        solution = self._solve(items)
        if len(wide):
            shift = self._wide.shift
            of_wide = np.stack([self._wide.solve(right) for right in (wide - shift.T @ items).T], axis=1)
            solution = np.concatenate([solution - shift @ of_wide, of_wide])
        return (solution.reshape(gradient.shape).T * self._scale).T

    @cached_property
    def aliases(self) -> Float64:
        """Vectors u with H u = 0 and entries at wide columns, shape (n_parameters, n_vectors)."""
        spectrum = self._wide
        wide = spectrum.vectors[:, spectrum.values <= ALIASED] / spectrum.scale[:, None]
        vectors = np.concatenate([-spectrum.shift @ wide, wide])
        return vectors * self._scale[:, None]

    @cached_property
    def least(self) -> float:
        """About a lower bound on the least nonzero eigenvalue, as a share of the largest; 0 if unproved."""
        least = 1.0 / (self._row_sums * float(self._degree.max(initial=1e-300)))
        return min(least, self._least_of_wide) if len(self._corner) else least

    # A lower bound on the nonzero eigenvalues of the scaled S, rounding included.
    @cached_property
    def _least_of_wide(self) -> float:
        spectrum = self._wide
        forms = [self._bound_form(column, column) for column in spectrum.remainder.T]
        error_of_shift = float((forms / spectrum.scale**2).sum())
        rounding = len(forms) * (BATTLE_ROUNDING + OPERATION_ROUNDING * self._n_items)
        least = float(spectrum.values[spectrum.values > ALIASED].min(initial=1.0))
        return max(least - (error_of_shift + rounding), 0.0)

    def bound(self, residual: Float64) -> float:
        """An upper bound on √(rᵀ H⁺ r) for r in the range of H with |r| ≤ ``residual`` in each entry."""
        # block elimination: rᵀ H⁺ r = aᵀ G⁻¹ a + (b − Xᵀa)ᵀ S⁺ (b − Xᵀa) for r = (a, b)
        items, wide = np.split(residual * self._scale, [self._n_items])
        square = self._bound_form(items, items)
        if len(wide):
            shifted = items @ np.abs(self._wide.shift)
            error = np.array([self._bound_form(items, column) for column in self._wide.remainder.T])
            scaled = (wide + shifted + error) / self._wide.scale
            square += float((scaled**2).sum()) / max(self._least_of_wide, 1e-300)
        return square**0.5

    # An upper bound on |aᵀ G⁻¹ b|.
    def _bound_form(self, left: Float64, right: Float64) -> float:
        return self._row_sums * float(np.abs(left).sum()) * float(np.abs(right).max(initial=0.0))

    # Eliminate the items; W − CᵀX − XᵀC + XᵀGX is S up to the square of the error of X.
    @cached_property
    def _wide(self) -> WideColumns:
        shift = self._solve(self._border)
        image = self._grounded(shift)
        inner = self._corner - self._border.T @ shift - shift.T @ self._border + shift.T @ image
        scale = root_diagonal(self._corner)
        values, vectors = linalg.eigh((inner + inner.T) / 2 / np.outer(scale, scale), check_finite=False)
        return WideColumns(shift, self._border - image, scale, values, vectors)

    # The item with the largest degree in each component.
    @cached_property
    def _roots(self) -> Int64:
        tails = np.repeat(np.arange(self._n_items), np.diff(self._adjacency.indptr))
        heads = self._adjacency.indices.astype(np.int64)
        component = connected_nodes(tails, heads, self._n_items, strongly=True)  # each edge goes both ways
        order = np.lexsort((-self._degree, component))
        return order[np.diff(component[order], prepend=-1) > 0]  # the first of each component

    # The diagonal of G; 1 for an item without games.
    @cached_property
    def _diagonal(self) -> Float64:
        diagonal = self._degree.copy()
        diagonal[self._roots] *= 2.0
        return np.where(diagonal > 0, diagonal, 1.0)

    # G times columns, shape (n_items, n_columns).
    def _grounded(self, columns: Float64) -> Float64:
        return self._diagonal[:, None] * columns - self._adjacency @ columns

    # G⁻¹ times columns, shape (n_items, n_columns).
    def _solve(self, right: Float64, goal: float = GOAL) -> Float64:
        small = goal * np.abs(right).max(axis=0, initial=0.0)
        solution = np.zeros_like(right)
        for _ in range(MOST_SOLVES):
            residual = right - self._grounded(solution)
            if (np.abs(residual).max(axis=0, initial=0.0) <= small).all():
                break
            solution = solution + self._approach(residual, small)
        return solution

    # G⁻¹ times columns, with residuals up to ``small``, by conjugate gradients or by elimination.
    def _approach(self, right: Float64, small: Float64) -> Float64:
        if "_factor" in vars(self):  # conjugate gradients failed before, as on a graph like a long chain
            return self._factor.solve(right)
        solution, residual = np.zeros_like(right), right.copy()
        inverse = 1.0 / self._diagonal[:, None]
        direction = scaled = residual * inverse
        energy = (residual * scaled).sum(axis=0)
        for _ in range(MOST_STEPS):
            image = self._grounded(direction)
            slope = (direction * image).sum(axis=0)
            length = np.divide(energy, slope, out=np.zeros_like(slope), where=slope > 0)
            solution += length * direction
            residual -= length * image
            if (np.abs(residual).max(axis=0, initial=0.0) <= small).all():
                return solution
            scaled = residual * inverse
            energy, previous = (residual * scaled).sum(axis=0), energy
            share = np.divide(energy, previous, out=np.zeros_like(energy), where=previous > 0)
            direction = scaled + share * direction
        return self._factor.solve(right)

    @cached_property
    def _factor(self) -> Any:
        import scipy.sparse.linalg  # a tenth of the start-up time

        splu: Any = scipy.sparse.linalg.splu
        matrix = scipy.sparse.diags_array(self._diagonal) - self._adjacency
        options = {"SymmetricMode": True}
        return splu(matrix.tocsc(), "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    # ρ, an upper bound on the row sums of G⁻¹; infinite without a proof.
    @cached_property
    def _row_sums(self) -> float:
        vector = self._solve(np.ones((self._n_items, 1)), 0.25)  # v with G v ≥ ½: a rough solution will do
        top = float(vector.max(initial=0.0))
        image = self._grounded(vector)[:, 0] - 4 * BATTLE_ROUNDING * self._diagonal * top
        lowest = float(image.min(initial=1.0))  # c
        return top / lowest if lowest > 0 and vector.min(initial=1.0) > 0 else np.inf


InformationMatrix = DenseCurvature | GraphCurvature


def root_diagonal(matrix: Float64) -> Float64:
    """The roots of the diagonal, 1 where it is 0: divided by them on both sides, it becomes 1."""
    root = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    return np.where(root > 0, root, 1.0)


def solve_information(information: Float64, gradient: Float64) -> Float64:
    """Solve H u = g for a singular H with g in its range, by Cholesky or, if that fails, by eigenvalues."""
    scale = root_diagonal(information)
    matrix = information / np.outer(scale, scale)
    right = gradient / scale
    size = float(np.abs(right).max(initial=0.0))
    if size == 0:
        return np.zeros_like(gradient)
    try:
        factor: Any = linalg.cho_factor(matrix + LIFT * np.eye(len(matrix)), check_finite=False)
        solution = np.zeros_like(right)
        for _ in range(LIFTED_SOLVES):
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
