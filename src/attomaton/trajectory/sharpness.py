"""The edge of stability: the largest curvature of the training loss, and the step size that it allows.

Near a minimum with curvature λ a step of plain gradient descent multiplies the distance by 1 − η λ. Beyond
η = 2/λ it never converges: it oscillates without end. The curvature that remains in the limit is that within
components, so the edge is 2/λ_max of the loss on reduced contexts, at W_fin; every formula for W(t) holds
only below it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from attomaton.base.borders import trusted
from attomaton.base.ragged import largest_of, rows_of, sum_at
from attomaton.base.solutions import is_orthonormal
from attomaton.base.tables import Float64, Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import extract_edges
from attomaton.graphs.separation import separate
from attomaton.solvers.soft.likelihood import LuceProblem, select_choices
from attomaton.solvers.soft.newton import Newton
from attomaton.trajectory.basis import Basis, find_basis
from attomaton.trajectory.loss import TrainingLoss, training_loss

DENSE_ALTERNATIVES = 1_500
"""Largest block of alternatives whose curvature is computed as a matrix; Lanczos handles larger ones."""

PROBED = 1e-6
"""Relative accuracy of Lanczos; its residual is added to the result."""

STABILITY_LIMIT = 2.0
"""Step size times curvature at which gradient descent stops converging."""

EDGE_ROUNDING = 1e-9
"""Within this rounding of the edge, a step size counts as beyond it."""


@dataclass(frozen=True)
class StabilityEdge:
    """The edge of stability of plain gradient descent, and the side of it on which a step size lies.

    Attributes
    ----------
    sharpness : float
        λ_max: the largest curvature of the loss in the limit; zero if nothing ties.
    step_size : float
        η of the run.
    """

    sharpness: float
    step_size: float

    @property
    def largest(self) -> float:
        """2/λ_max: at this step size or above, plain gradient descent does not converge."""
        return STABILITY_LIMIT / self.sharpness if self.sharpness > 0 else float("inf")

    @property
    def passed(self) -> bool:
        """Whether the step size is beyond the edge."""
        return self.step_size * self.sharpness >= STABILITY_LIMIT * (1.0 - EDGE_ROUNDING)

    def __str__(self) -> str:
        if self.passed:
            return (
                f"the step size {self.step_size:.6g} is beyond the edge of stability, 2/λ_max = "
                f"{self.largest:.6g}, so gradient descent oscillates without end"
            )
        return (
            f"the step size {self.step_size:.6g} is below the edge of stability, 2/λ_max = {self.largest:.6g}"
        )


def find_edge(
    loss: TrainingLoss, step_size: float, basis: Basis | None = None, finite: Float64 | None = None
) -> StabilityEdge:
    """The edge of stability for a step size; if no basis is given, for orthonormal embeddings.

    ``finite`` is W_fin, if known: weights, shape (dim, dim), or without a basis the scores of all nodes.
    """
    if basis is not None:
        from attomaton.trajectory.flow.embedded import embedded_flow

        if not basis.n_cyclic:
            return StabilityEdge(0.0, step_size)
        flow = embedded_flow(loss, basis, inside=True)
        point = flow.settle() if finite is None else basis.coordinates(finite)
        return StabilityEdge(float(flow.sharpness(point)[0]) * basis.scale**4, step_size)
    problem = reduce_choices(loss)
    if not len(problem.winner):
        return StabilityEdge(0.0, step_size)
    scores = Newton().solve(problem) if finite is None else finite[loss.nodes]
    steepest = _find_steepest(problem, problem.probabilities(scores), problem.component)
    return StabilityEdge(steepest / loss.n_samples, step_size)


def reduce_choices(loss: TrainingLoss) -> LuceProblem:
    """The choices on reduced contexts, which contain only the label's component.

    Alternatives are those of the loss; choices with a single alternative are left out too.
    """
    problem, component = loss.problem, loss.component
    choice = rows_of(problem.offsets)
    inside = component[problem.alternative] == component[problem.winner][choice]
    several = np.bincount(choice[inside], minlength=len(problem.winner)) > 1
    smaller = select_choices(problem, inside & several[choice], several)
    groups = np.unique(component, return_inverse=True)[1]
    return trusted(LuceProblem, **{**vars(smaller), "component": groups})


def bound_sharpness(loss: TrainingLoss, basis: Basis | None = None) -> float:
    """A bound on the curvature at any weights; without a basis, for orthonormal embeddings.

    Orthonormal: half a query's share of samples, since no eigenvalue of diag p − p pᵀ exceeds ½. Otherwise
    the mean over samples of the longest difference to the label, squared.
    """
    if basis is not None:
        from attomaton.trajectory.flow.embedded import embedded_flow

        return embedded_flow(loss, basis).bound_sharpness() * basis.scale**4 if len(basis.axes) else 0.0
    problem = loss.problem
    counts = sum_at(problem.component[problem.winner], problem.count, problem.n_components)
    return 0.5 * float(counts.max(initial=0.0)) / loss.n_samples


def bound_curvatures(problem: LuceProblem, probabilities: Float64, block: Int64, *, enough: float) -> Float64:
    """Upper bounds on the largest eigenvalue of Σ count (diag p − p pᵀ) in each block, shape (n_blocks,).

    Values that are at most ``enough`` may be rough.
    """
    bounds = _rough_bounds(problem, probabilities, block)
    for number in np.flatnonzero(bounds > enough):
        rows = np.flatnonzero(block == number)
        bounds[number] = min(bounds[number], _largest_eigenvalue(problem, probabilities, rows))
    return bounds


def _find_steepest(problem: LuceProblem, probabilities: Float64, block: Int64) -> float:
    """The largest eigenvalue in any block: blocks are examined, highest bound first."""
    bounds, largest = _rough_bounds(problem, probabilities, block), 0.0
    for number in np.argsort(-bounds, kind="stable"):
        if bounds[number] <= largest:
            break
        rows = np.flatnonzero(block == number)
        largest = max(largest, min(float(bounds[number]), _largest_eigenvalue(problem, probabilities, rows)))
    return largest


def _rough_bounds(problem: LuceProblem, probabilities: Float64, block: Int64) -> Float64:
    """Twice the largest diagonal entry (Gershgorin: rows sum to zero, and only the diagonal is positive)."""
    size = int(block.max(initial=-1)) + 1
    return largest_of(block, 2.0 * problem.curvature_diagonal(probabilities), size, least=0.0)


def _largest_eigenvalue(problem: LuceProblem, probabilities: Float64, rows: Int64) -> float:
    """Keep the part of the curvature among alternatives that choices connect."""
    number = np.full(problem.n_alternatives, len(rows))
    number[rows] = np.arange(len(rows))
    inside = np.flatnonzero(number[problem.alternative] < len(rows))
    choice = rows_of(problem.offsets)[inside]
    choices, row = np.unique(choice, return_inverse=True)
    cell, weight = (row, number[problem.alternative[inside]]), probabilities[inside] * problem.count[choice]
    shares: Any = csr_array((probabilities[inside], cell), shape=(len(choices), len(rows)))
    weighted: Any = csr_array((weight, cell), shape=shares.shape)
    diagonal = sum_at(cell[1], weight, len(rows))
    if len(rows) <= DENSE_ALTERNATIVES:
        dense = np.diag(diagonal) - (weighted.T @ shares).toarray()
        return float(np.linalg.eigvalsh(dense)[-1])

    def bend(direction: Float64) -> Float64:
        return diagonal * direction.ravel() - weighted.T @ (shares @ direction.ravel())

    first = np.random.default_rng(0).normal(size=len(rows))
    from scipy.sparse.linalg import LinearOperator, eigsh  # a tenth of the start-up time

    operator = LinearOperator((len(rows),) * 2, matvec=bend, dtype=np.float64)
    values, vectors = eigsh(operator, k=1, which="LA", v0=first, tol=PROBED)
    residual = float(np.linalg.norm(bend(vectors[:, 0]) - values[0] * vectors[:, 0]))
    return float(values[0]) * (1.0 + PROBED) + residual


ORTHONORMAL = 0.5
"""No mean over samples of diag p − p pᵀ has a larger eigenvalue."""


def bound_any_sharpness(table: Float64) -> float:
    """A bound on the curvature of the mean log-loss for these embeddings, for all samples and weights.

    It is a mean of covariances of (e_x)e_kᵀ over contexts: at most a quarter of the largest squared distance,
    (2 ‖e‖)²‖e‖², and ½ for orthonormal embeddings.
    """
    if is_orthonormal(table):
        return ORTHONORMAL
    return float(np.sum(table**2, axis=1).max(initial=0.0)) ** 2


def find_trial_edge(
    samples: Samples, step_size: float, table: Float64, components: Components | None = None
) -> StabilityEdge:
    """The edge of one trial, computed only as precisely as its step size requires.

    Below the edge, ``sharpness`` may be an upper bound that suffices to show it.
    """
    edge = StabilityEdge(bound_any_sharpness(table), step_size)
    if not edge.passed:
        return edge
    orthonormal = is_orthonormal(table)
    if components is None:
        components = find_components(extract_edges(samples))
        components = components if orthonormal else separate(components, table).components
    loss = training_loss(samples, components)
    basis = None if orthonormal else find_basis(loss.components, table)
    bound = StabilityEdge(bound_sharpness(loss, basis), step_size)
    return find_edge(loss, step_size, basis) if bound.passed else bound


def find_passed(
    corpora: Sequence[Samples],
    tables: Sequence[Float64],
    step_size: float,
    components: Sequence[Components] | None = None,
) -> Iterator[tuple[int, StabilityEdge]]:
    """The trials whose step size is beyond the edge, each with its edge; equal trials are examined once."""
    edges: dict[tuple[int, bytes], StabilityEdge] = {}
    for trial, (samples, table) in enumerate(zip(corpora, tables, strict=True)):
        key = id(samples), table.tobytes()
        if key not in edges:
            components_of_trial = None if components is None else components[trial]
            edges[key] = find_trial_edge(samples, step_size, table, components_of_trial)
        if edges[key].passed:
            yield trial, edges[key]
