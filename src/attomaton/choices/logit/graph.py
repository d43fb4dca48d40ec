"""The graph of games: items are nodes, and an edge joins two items that played each other."""

from typing import Any

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.untyped import csr_array
from attomaton.graphs.strong import connected_nodes


class GameGraph:
    """The distinct pairs of items that played each other.

    Edge i joins the items ``ends[0][i]`` < ``ends[1][i]``, and ``edge`` has the edge of each battle.
    """

    def __init__(self, first: Int64, second: Int64, n_items: int) -> None:
        low, high = np.minimum(first, second), np.maximum(first, second)
        pair, edge = np.unique(low * n_items + high, return_inverse=True)
        self.n_items, self.edge = n_items, edge.ravel()
        self.ends = pair // n_items, pair % n_items
        tails, heads = np.concatenate(self.ends), np.concatenate(self.ends[::-1])
        number = np.tile(np.arange(len(pair)), 2)
        self._pattern = csr_array((number, (tails, heads)), shape=(n_items, n_items))

    def adjacency(self, weight: Float64) -> Any:
        """The weights of battles summed over each edge, a symmetric CSR matrix without zeros."""
        pattern = self._pattern
        sums = np.bincount(self.edge, weight, len(self.ends[0]))[pattern.data]
        matrix = csr_array((sums, pattern.indices, pattern.indptr), shape=pattern.shape)
        if not sums.all():
            matrix = matrix.copy()
            matrix.eliminate_zeros()
        return matrix

    def components(self, battles: Bool | None) -> Int64:
        """The component of each item if only these battles (None: all) join items, shape (n_items,)."""
        first, second = self.ends
        if battles is not None:
            use = np.bincount(self.edge[battles], minlength=len(first)) > 0
            first, second = first[use], second[use]
        return connected_nodes(first, second, self.n_items, strongly=False)
