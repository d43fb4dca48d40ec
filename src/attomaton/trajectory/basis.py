"""Coordinates for the weights that training can move, with given embeddings.

Training moves W only along edge directions (e_y − e_x)e_kᵀ. Their span has an orthonormal basis whose first
axes span the cyclic subspace, the directions of ties.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.solutions import scale_rows
from attomaton.base.tables import Float64
from attomaton.graphs.components import Components, find_ends, find_ties
from attomaton.graphs.separation import NEGLIGIBLE_RATIO, node_features

MOST_BASIS_ENTRIES = 50_000_000
"""Maximum size of the table of features for dense coordinates."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Orthonormal axes of the subspace that training can move."""

    nodes: Float64  # (n_nodes, n_axes): the score of every node along each axis
    n_cyclic: int  # the first axes, which span the cyclic subspace
    axes: Float64  # (n_axes, r·q), in the coordinates of ``left`` and ``right``
    left: Float64  # (r, dim): orthonormal rows that span the tokens in use
    right: Float64  # (q, dim): the same for queries
    scale: float  # of the embeddings; weights in their units are divided by its square

    def weights(self, point: Float64) -> Float64:
        """W for coordinates, shape (dim, dim), in the units of the given embeddings."""
        inner = (point @ self.axes).reshape(len(self.left), len(self.right))
        return self.left.T @ inner @ self.right / self.scale**2

    def coordinates(self, weights: Float64) -> Float64:
        """The coordinates of W's part in the span, shape (n_axes,)."""
        return self.axes @ (self.left @ (weights * self.scale**2) @ self.right.T).ravel()


def find_basis(components: Components, embeddings: Float64) -> Basis:
    """The basis for these embeddings, shape (n_tokens, dim).

    Components that the embeddings cannot separate must already be merged
    (:func:`~attomaton.graphs.separation.separate`).
    """
    unit, scale = scale_rows(embeddings)
    n_tokens, n_queries = (
        min(len(np.unique(ids)), embeddings.shape[1])
        for ids in (components.token_of_node, components.query_of_node)
    )
    if len(components.token_of_node) * n_tokens * n_queries > MOST_BASIS_ENTRIES:
        raise UnsupportedOption(
            f"{len(components.token_of_node):,} (query, token) pairs in {n_tokens} × {n_queries} dimensions "
            "are too many to follow all queries together; take fewer tokens or queries, or no embeddings"
        )
    features, (left, right) = node_features(components, unit)
    first, second = find_ties(components)
    cyclic = find_span(features[first] - features[second])
    above, below = find_ends(components)
    priorities = features[above] - features[below]
    axes = np.vstack([cyclic, find_span(priorities - (priorities @ cyclic.T) @ cyclic)])
    return Basis(features @ axes.T, len(cyclic), axes, left, right, scale)


def find_span(directions: Float64) -> Float64:
    """Orthonormal rows that span the given rows, shape (rank, n_columns)."""
    if not directions.size:
        return np.zeros((0, directions.shape[1]))
    _, singular, axes = np.linalg.svd(directions, full_matrices=False)
    return axes[
        singular > NEGLIGIBLE_RATIO * max(1.0, float(singular.max()))
    ]  # embeddings have length about 1
