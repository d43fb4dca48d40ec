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

    An axis A stands for the weights leftᵀ A right.
    """

    nodes: Float64  # (n_nodes, n_axes), the score of every node along each axis
    n_cyclic: int
    axes: Float64  # (n_axes, r·q), matrices r × q, flattened
    left: Float64  # (r, dim), orthonormal rows that span the embeddings of the tokens in use
    right: Float64  # (q, dim), orthonormal rows that span the embeddings of the queries in use
    scale: float  # embeddings are divided by it first

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
    dim = embeddings.shape[1]
    n_tokens = min(len(np.unique(components.token_of_node)), dim)  # the most dimensions that they can span
    n_queries = min(len(np.unique(components.query_of_node)), dim)
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
    axes = np.vstack([cyclic, find_span(edges - (edges @ cyclic.T) @ cyclic)])  # what is not cyclic of edges
    return Basis(features @ axes.T, len(cyclic), axes, left, right, scale)


def find_span(directions: Float64) -> Float64:
    """Orthonormal rows that span the given rows, shape (rank, n_columns)."""
    if not directions.size:
        return np.zeros((0, directions.shape[1]))
    _, singular, axes = np.linalg.svd(directions, full_matrices=False)
    smallest = NEGLIGIBLE_RATIO * max(1.0, float(singular.max()))  # embeddings have length about 1
    return axes[singular > smallest]
