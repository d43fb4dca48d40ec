"""The span of the pair differences of a face, and its orthogonal complement, in scaled coordinates.

The contrasts in the span are finite if the face survives; directions in the complement change none of them.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.curvature import root_diagonal
from attomaton.choices.logit.problem import FEW_ENTRIES, MOST_PARAMETERS, ChoiceProblem
from attomaton.choices.logit.untyped import linalg

CUT = 1e-9  # singular values of normalised differences below this share of the largest are taken as zero

# Eigenvalues of the Gram matrix, which squares the condition, below this share count as zero.
GRAM_CUT = 1e-11

# A difference outside the span up to √n_parameters times this is rounding; above, features differ by a tiny
# amount.
SPAN_ROUNDING = 4e-15


class DenseSpan(NamedTuple):
    """A span and its complement as dense orthonormal bases."""

    basis: Float64  # (n_parameters, rank)
    complement: Float64  # (n_parameters, n_parameters − rank)
    least_kept: float  # the singular values next to the cut, as shares of the largest
    largest_dropped: float
    leak: float  # the largest |d·b| / ‖d‖ over differences d of the face and columns b of the complement

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    @property
    def aliases(self) -> Float64:
        """A basis of the complement, except vectors that are known to have entries at items only."""
        return self.complement

    def project(self, vector: Float64) -> Float64:
        """The component of a vector in the span."""
        return self.basis @ (self.basis.T @ vector)

    def reject(self, vector: Float64) -> Float64:
        """The component of a vector outside the span."""
        return self.complement @ (self.complement.T @ vector)


@dataclass(frozen=True)
class GraphSpan:
    """A span on the graph of games, whose complement has a vector for each component of items, and aliases.

    The vector of a component is ``scale`` at its items and 0 elsewhere.
    """

    component: Int64  # (n_items,), the component of each item
    scale: Float64  # (n_parameters,)
    aliases: Float64  # orthonormal columns, orthogonal to the vectors of components
    least_kept: float  # this and the following numbers are those of :class:`DenseSpan`
    largest_dropped: float
    leak: float

    # The squared length of the vector of each component.
    @cached_property
    def _squares(self) -> Float64:
        squares: Any = np.bincount(self.component, self.scale[: len(self.component)] ** 2)
        return squares

    @property
    def rank(self) -> int:
        return len(self.scale) - len(self._squares) - self.aliases.shape[1]

    def project(self, vector: Float64) -> Float64:
        return vector - self.reject(vector)

    def reject(self, vector: Float64) -> Float64:
        rejected = self.aliases @ (self.aliases.T @ vector)
        scale = self.scale[: len(self.component)]  # of the items, which are the first columns
        means = np.bincount(self.component, scale * vector[: len(scale)]) / self._squares
        rejected[: len(scale)] += scale * means[self.component]
        return rejected

    @cached_property
    def complement(self) -> Float64:
        """A dense orthonormal basis: the vectors of components, divided by their lengths, and the aliases."""
        n_items = len(self.component)
        check_dense(len(self.scale))
        units = np.zeros((len(self.scale), len(self._squares)))
        lengths = np.sqrt(self._squares)[self.component]
        units[np.arange(n_items), self.component] = self.scale[:n_items] / lengths
        return np.hstack([units, self.aliases])

    @cached_property
    def basis(self) -> Float64:
        return _split(self.complement)[1]


Span = DenseSpan | GraphSpan


def span_on_graph(problem: ChoiceProblem, face: Bool | None) -> GraphSpan:
    """The span of a face on the graph of games, where games with both sides on the face join items."""
    joins = None if face is None else problem.situations.sum(face.astype(np.float64)) > 1
    component = problem.graph.components(joins)
    curvature = problem.curvature(problem.even(face))
    no_aliases = np.zeros((len(problem.scale), 0))
    plain = GraphSpan(component, problem.scale, no_aliases, curvature.least**0.5, 0.0, 0.0)
    aliases = curvature.aliases
    if not aliases.shape[1]:
        return plain
    aliases = np.stack([plain.project(column) for column in aliases.T], axis=1)
    aliases = linalg.qr(aliases, mode="economic", check_finite=False)[0]
    return replace(plain, aliases=aliases, leak=_measure_leak(problem, problem.pairs_of(face), aliases))


def check_dense(size: int) -> None:
    """Refuse dense matrices that take more than minutes to invert."""
    if size > MOST_PARAMETERS:
        raise UnsupportedOption(
            f"this answer needs a dense matrix of all {size:,} parameters, and at most {MOST_PARAMETERS:,} "
            "are supported; ratings, probabilities and differences of two items do not need it"
        )


def span_of(problem: ChoiceProblem, face: Bool | None) -> Span:
    """The span of the pair differences of ``face`` (None: all rows)."""
    if problem.graph is not None:
        return span_on_graph(problem, face)
    rows = np.flatnonzero(problem.pairs_of(face))
    if len(rows) * problem.rows.n_parameters <= FEW_ENTRIES:
        return span_of_vectors(problem.differences(rows), problem.rows.n_parameters)
    return _span_of_many(problem, face)


# The span of the pairs of a face, by eigenvalues of their information.
def _span_of_many(problem: ChoiceProblem, face: Bool | None) -> DenseSpan:
    pairs = problem.pairs_of(face)
    information = problem.information_at_zero(face)
    scale = root_diagonal(information)
    values, vectors = linalg.eigh(information / np.outer(scale, scale), check_finite=False)
    large = values > GRAM_CUT * max(float(values[-1]), 1e-300)
    basis, complement = _split(scale[:, None] * vectors[:, large])
    top = max(float(values[-1]), 1e-300)
    smallest = float(np.sqrt(values[large][0] / top)) if large.any() else 1.0
    dropped = float(np.sqrt(max(values[~large][-1], 0.0) / top)) if (~large).any() else 0.0
    leak = _measure_leak(problem, pairs, complement)
    for _ in range(2):
        if leak <= SPAN_ROUNDING:
            break
        complement = _refine(problem, face, information, basis, complement)
        basis = _split(complement)[1]
        leak = _measure_leak(problem, pairs, complement)
    return DenseSpan(basis, complement, smallest, dropped, leak)


def span_of_vectors(vectors: Float64, size: int) -> DenseSpan:
    """The span of vectors, shape (n, size), by singular values of their directions."""
    norm = np.linalg.norm(vectors, axis=1)
    directions = vectors[norm > 0] / norm[norm > 0, None]
    if not len(directions):
        return DenseSpan(np.zeros((size, 0)), np.eye(size), 1.0, 0.0, 0.0)
    values, right = linalg.svd(_reduce(directions), check_finite=False)[1:]
    values = np.concatenate([values, np.zeros(size - len(values))])
    rank = int((values > CUT * values[0]).sum())
    complement = right[rank:].T
    leak = float(np.abs(directions @ complement).max(initial=0.0))
    smallest = float(values[rank - 1] / values[0])
    dropped = float(values[rank] / values[0]) if rank < size else 0.0
    return DenseSpan(right[:rank].T, complement, smallest, dropped, leak)


# Reduce a matrix to fewer rows with equal singular values: triangles of QR factorisations of blocks.
def _reduce(rows: Float64) -> Float64:
    size = rows.shape[1]
    height = 16 * size  # a block that stays in the cache of a processor
    while len(rows) > height:
        n_blocks = -(-len(rows) // height)
        blocks = np.zeros((n_blocks * height, size))
        blocks[: len(rows)] = rows
        triangles: Any = np.linalg.qr(blocks.reshape(n_blocks, height, size), mode="r")
        rows = triangles.reshape(-1, size)
    return rows


# Orthonormal bases of the span of these columns and of its complement.
def _split(columns: Float64) -> tuple[Float64, Float64]:
    size, rank = columns.shape
    if rank == 0:
        return np.zeros((size, 0)), np.eye(size)
    whole: Any = linalg.qr(columns, mode="full", check_finite=False)[0]
    return whole[:, :rank], whole[:, rank:]


# The largest |d·b| / ‖d‖ over the differences d of ``pairs`` and columns b of the complement.
def _measure_leak(problem: ChoiceProblem, pairs: Bool, complement: Float64) -> float:
    if complement.shape[1] == 0:
        return 0.0
    norm = np.where(pairs & (problem.norms > 0), problem.norms, np.inf)
    worst = 0.0
    for column in complement.T:
        worst = max(worst, float((np.abs(problem.gaps(column)) / norm).max(initial=0.0)))
    return worst


# Refine the complement B by a step B ← B − H⁺ (H B), with H B from the rows, which loses no digits.
def _refine(
    problem: ChoiceProblem, face: Bool | None, information: Float64, basis: Float64, complement: Float64
) -> Float64:
    even = problem.even(face)
    weight = problem.situations.spread(problem.totals) * even
    images = list[Float64]()
    for column in complement.T:
        away = problem.situations.centre(problem.utilities(column), even)
        images.append(problem.gradient(weight * away))
    inner = basis.T @ information @ basis
    correction = basis @ linalg.solve(inner, basis.T @ np.stack(images, axis=1), assume_a="sym")
    return linalg.qr(complement - correction, mode="economic", check_finite=False)[0]
