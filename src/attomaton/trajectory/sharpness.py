"""The edge of stability: the largest curvature of the training loss, and the step size that it allows.

:func:`find_edge` computes it, :func:`find_passed` finds the trials beyond it, from cheap bounds where it can.
Near a minimum with curvature λ, a step of plain gradient descent of size η multiplies the distance by 1 − η
λ. Beyond η = 2/λ descent oscillates without end. In the limit only the curvature within components is left.
So the edge is 2/λ_max of the loss on reduced contexts, at W_fin. Every formula for W(t) needs a step size
below it.
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
from attomaton.trajectory.flow.embedded import embedded_flow
from attomaton.trajectory.loss import TrainingLoss, training_loss

DENSE_ALTERNATIVES = 1_500  # largest block whose curvature is a dense matrix; else Lanczos
LANCZOS_TOLERANCE = 1e-6  # relative accuracy of Lanczos; its residual is added to the result
STABILITY_LIMIT = 2.0  # step size times curvature at which gradient descent stops converging
EDGE_ROUNDING = 1e-9  # within this rounding of the edge, a step size counts as beyond it


@dataclass(frozen=True)
class StabilityEdge:
    """Whether the ``step_size`` η of plain gradient descent is beyond the edge of stability, 2/λ_max.

    ``sharpness`` is λ_max, the largest curvature of the loss in the limit; zero if nothing ties.
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
        side = "beyond" if self.passed else "below"
        edge = f"the edge of stability, 2/λ_max = {self.largest:.6g}"
        outcome = ", so gradient descent oscillates without end" if self.passed else ""
        return f"the step size {self.step_size:.6g} is {side} {edge}{outcome}"


def find_edge(
    loss: TrainingLoss, step_size: float, basis: Basis | None = None, finite: Float64 | None = None
) -> StabilityEdge:
    """The edge of stability for the embeddings of a basis, or orthonormal ones if the basis is None.

    ``finite`` is W_fin, if known: weights, shape (dim, dim), or without a basis the scores of all nodes.
    """
    if basis is not None:
        if not basis.n_cyclic:
            return StabilityEdge(0.0, step_size)
        flow = embedded_flow(loss, basis, inside=True)
        point = flow.settle() if finite is None else basis.coordinates(finite)
        return StabilityEdge(float(flow.sharpness(point)[0]) * basis.scale**4, step_size)
    problem = reduce_choices(loss)
    if not len(problem.winner):
        return StabilityEdge(0.0, step_size)
    scores = Newton().solve(problem) if finite is None else finite[loss.nodes]
    curvature = _find_largest_curvature(problem, problem.probabilities(scores), problem.component)
    return StabilityEdge(curvature / loss.n_samples, step_size)


def reduce_choices(loss: TrainingLoss) -> LuceProblem:
    """The choices on reduced contexts, which contain only the label's component, if two tokens are left."""
    problem, component = loss.problem, loss.component
    choice = rows_of(problem.offsets)
    is_inside = component[problem.alternative] == component[problem.winner][choice]
    is_choice = np.bincount(choice[is_inside], minlength=len(problem.winner)) > 1
    reduced = select_choices(problem, is_inside & is_choice[choice], is_choice)
    groups = np.unique(component, return_inverse=True)[1]
    return trusted(LuceProblem, **{**vars(reduced), "component": groups})


def bound_sharpness(loss: TrainingLoss, basis: Basis | None = None) -> float:
    """A bound on the curvature at any weights; without a basis, for orthonormal embeddings."""
    # With a basis, the mean over samples of the longest difference to the label, squared. Without, half a
    # query's share of samples, since no eigenvalue of diag p − p pᵀ exceeds ½.
    if basis is not None:
        return embedded_flow(loss, basis).bound_sharpness() * basis.scale**4 if len(basis.axes) else 0.0
    problem = loss.problem
    counts = sum_at(problem.component[problem.winner], problem.count, problem.n_components)
    return 0.5 * float(counts.max(initial=0.0)) / loss.n_samples


def bound_curvatures(problem: LuceProblem, probabilities: Float64, block: Int64, *, enough: float) -> Float64:
    """Upper bounds on the largest eigenvalue of Σ count (diag p − p pᵀ) in each block, shape (n_blocks,).

    ``block`` (n_alternatives,) is the block of each alternative. Bounds up to ``enough`` may be rough.
    """
    bounds = _rough_bounds(problem, probabilities, block)
    for index in np.flatnonzero(bounds > enough):
        members = np.flatnonzero(block == index)
        bounds[index] = min(bounds[index], _find_eigenvalue(problem, probabilities, members))
    return bounds


# The largest eigenvalue in any block; blocks with the highest bounds are examined first.
def _find_largest_curvature(problem: LuceProblem, probabilities: Float64, block: Int64) -> float:
    bounds = _rough_bounds(problem, probabilities, block)
    largest = 0.0
    for index in np.argsort(-bounds, kind="stable"):
        if bounds[index] <= largest:
            break
        members = np.flatnonzero(block == index)
        largest = max(largest, min(float(bounds[index]), _find_eigenvalue(problem, probabilities, members)))
    return largest


# Twice the largest diagonal entry (Gershgorin: rows sum to zero, and only the diagonal is positive).
def _rough_bounds(problem: LuceProblem, probabilities: Float64, block: Int64) -> Float64:
    n_blocks = int(block.max(initial=-1)) + 1
    return largest_of(block, 2.0 * problem.curvature_diagonal(probabilities), n_blocks, least=0.0)


# The largest eigenvalue of Σ count (diag p − p pᵀ) among these alternatives, or slightly more.
def _find_eigenvalue(problem: LuceProblem, probabilities: Float64, members: Int64) -> float:
    size = len(members)
    row_of = np.full(problem.n_alternatives, size)  # of each alternative; ``size`` for those of other blocks
    row_of[members] = np.arange(size)
    inside = np.flatnonzero(row_of[problem.alternative] < size)  # entries of choices
    choice = rows_of(problem.offsets)[inside]
    row = row_of[problem.alternative[inside]]
    choices, choice_index = np.unique(choice, return_inverse=True)
    weight = probabilities[inside] * problem.count[choice]
    cells = (choice_index, row)
    shape = (len(choices), size)
    shares: Any = csr_array((probabilities[inside], cells), shape=shape)  # p of each choice in a row
    weighted: Any = csr_array((weight, cells), shape=shape)  # count · p
    diagonal = sum_at(row, weight, size)
    if size <= DENSE_ALTERNATIVES:
        dense = np.diag(diagonal) - (weighted.T @ shares).toarray()
        return float(np.linalg.eigvalsh(dense)[-1])

    def multiply(direction: Float64) -> Float64:
        return diagonal * direction.ravel() - weighted.T @ (shares @ direction.ravel())

    start = np.random.default_rng(0).normal(size=size)
    from scipy.sparse.linalg import LinearOperator, eigsh  # a tenth of the start-up time

    operator = LinearOperator((size, size), matvec=multiply, dtype=np.float64)
    values, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=LANCZOS_TOLERANCE)
    # an eigenvalue is at most the norm of the residual away
    residual = float(np.linalg.norm(multiply(vectors[:, 0]) - values[0] * vectors[:, 0]))
    return float(values[0]) * (1.0 + LANCZOS_TOLERANCE) + residual


def bound_any_sharpness(table: Float64) -> float:
    """A bound on the curvature of the mean log-loss for these embeddings, for all samples and weights."""
    # The curvature is a mean of covariances of e_x e_kᵀ over contexts: at most a quarter of the largest
    # squared distance, (2 ‖e‖)²‖e‖². With orthonormal embeddings no diag p − p pᵀ has an eigenvalue above ½.
    if is_orthonormal(table):
        return 0.5
    return float(np.sum(table**2, axis=1).max(initial=0.0)) ** 2


def find_trial_edge(
    samples: Samples, step_size: float, table: Float64, components: Components | None = None
) -> StabilityEdge:
    """The edge of a trial; for a step size below it, ``sharpness`` may be an upper bound."""
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
    """The trials whose step size is beyond the edge, with the edge; equal trials are examined once."""
    edges: dict[tuple[int, bytes], StabilityEdge] = {}
    for trial, (samples, table) in enumerate(zip(corpora, tables, strict=True)):
        key = id(samples), table.tobytes()  # trials share samples, but have embeddings of their own
        if key not in edges:
            components_of_trial = None if components is None else components[trial]
            edges[key] = find_trial_edge(samples, step_size, table, components_of_trial)
        if edges[key].passed:
            yield trial, edges[key]
