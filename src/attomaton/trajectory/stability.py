"""Which trials of a training run take steps beyond the edge of stability.

Most runs are far below it, and a look at the lengths of the embeddings shows that. What these leave open is
settled by the samples, and only then by the curvature at W_fin.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from attomaton.base.solutions import is_orthonormal
from attomaton.base.tables import Float64
from attomaton.corpora.samples import Samples
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import extract_edges
from attomaton.graphs.separation import separate
from attomaton.trajectory.basis import find_basis
from attomaton.trajectory.loss import TrainingLoss, training_loss
from attomaton.trajectory.sharpness import (
    StabilityEdge,
    bound_embedded_sharpness,
    bound_orthonormal_sharpness,
    find_embedded_edge,
    find_orthonormal_edge,
)

ORTHONORMAL = 0.5
"""No mean over samples of diag p − p pᵀ has a larger eigenvalue."""


def bound_any_sharpness(table: Float64) -> float:
    """A bound on the curvature of the mean log-loss for these embeddings, whatever samples and weights.

    It is a mean of covariances of (e_x)e_kᵀ over contexts: at most a quarter of the largest squared distance,
    (2 ‖e‖)²‖e‖², and ½ for orthonormal embeddings.
    """
    if is_orthonormal(table):
        return ORTHONORMAL
    return float(np.sum(table**2, axis=1).max(initial=0.0)) ** 2


def find_trial_edge(
    samples: Samples, step_size: float, table: Float64, components: Components | None = None
) -> StabilityEdge:
    """The edge of one trial, found no more sharply than its step size needs.

    Below the edge ``sharpness`` may be a bound that is enough to show it.
    """
    edge = StabilityEdge(bound_any_sharpness(table), step_size)
    if not edge.passed:
        return edge
    orthonormal = is_orthonormal(table)
    if components is None:
        components = find_components(extract_edges(samples))
        components = components if orthonormal else separate(components, table).components
    loss = training_loss(samples, components)
    return _find_orthonormal(loss, step_size) if orthonormal else _find_embedded(loss, step_size, table)


def _find_orthonormal(loss: TrainingLoss, step_size: float) -> StabilityEdge:
    bound = StabilityEdge(bound_orthonormal_sharpness(loss), step_size)
    return find_orthonormal_edge(loss, step_size) if bound.passed else bound


def _find_embedded(loss: TrainingLoss, step_size: float, table: Float64) -> StabilityEdge:
    basis = find_basis(loss.components, table)
    bound = StabilityEdge(bound_embedded_sharpness(loss, basis), step_size)
    return find_embedded_edge(loss, basis, step_size) if bound.passed else bound


def find_passed(
    corpora: Sequence[Samples],
    tables: Sequence[Float64],
    step_size: float,
    components: Sequence[Components] | None = None,
) -> Iterator[tuple[int, StabilityEdge]]:
    """The trials whose step size is beyond the edge, each with it; equal trials are examined once."""
    known: dict[tuple[int, bytes], StabilityEdge] = {}
    for trial, (samples, table) in enumerate(zip(corpora, tables, strict=True)):
        key = id(samples), table.tobytes()
        if key not in known:
            own = None if components is None else components[trial]
            known[key] = find_trial_edge(samples, step_size, table, own)
        if known[key].passed:
            yield trial, known[key]
