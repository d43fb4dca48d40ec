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

MOST_BASIS_ENTRIES = 50_000_000  # maximum size of the table of features for dense coordinates


@dataclass(frozen=True, eq=False)
class Basis:
    """Orthonormal axes of the subspace in which training can move W; the first ``n_cyclic`` are cyclic.

    ``nodes`` (n_nodes, n_axes) has the score of every node along each axis. Axes are matrices r × q,
    flattened in ``axes`` (n_axes, r·q), between ``left`` (r, dim) and ``right`` (q, dim), orthonormal rows
    that span the embeddings of the tokens and of the queries in use. Embeddings are divided by ``scale``
    first.
    """

    nodes: Float64
    n_cyclic: int
    axes: Float64
    left: Float64
    right: Float64
    scale: float

    def weights(self, point: Float64) -> Float64:
        """W for coordinates, shape (dim, dim), in the units of the given embeddings."""
        inner = (point @ self.axes).reshape(len(self.left), len(self.right))
        return self.left.T @ inner @ self.right / self.scale**2

    def coordinates(self, weights: Float64) -> Float64:
        """The coordinates of W, projected to the span, shape (n_axes,)."""
        return self.axes @ (self.left @ (weights * self.scale**2) @ self.right.T).ravel()


def find_basis(components: Components, embeddings: Float64) -> Basis:
    """The basis for embeddings (n_tokens, dim), which must separate the components."""
    unit, scale = scale_rows(embeddings)
    n_tokens, n_queries = (
        min(len(np.unique(ids)), embeddings.shape[1])
        for ids in (components.token_of_node, components.query_of_node)
    )
    if len(components.token_of_node) * n_tokens * n_queries > MOST_BASIS_ENTRIES:
        raise UnsupportedOption(
            f"{len(components.token_of_node):,} (query, token) pairs in {n_tokens} × {n_queries} dimensions "
            "are too many to follow all queries together; leave out tokens or queries, or give no embeddings"
        )
    features, (left, right) = node_features(components, unit)
    first, second = find_ties(components)
    cyclic = find_span(features[first] - features[second])
    above, below = find_ends(components)
    edges = features[above] - features[below]
    axes = np.vstack([cyclic, find_span(edges - (edges @ cyclic.T) @ cyclic)])
    return Basis(features @ axes.T, len(cyclic), axes, left, right, scale)


def find_span(directions: Float64) -> Float64:
    """Orthonormal rows that span the given rows, shape (rank, n_columns)."""
    if not directions.size:
        return np.zeros((0, directions.shape[1]))
    _, singular, axes = np.linalg.svd(directions, full_matrices=False)
    smallest = NEGLIGIBLE_RATIO * max(1.0, float(singular.max()))  # embeddings have length about 1
    return axes[singular > smallest]
