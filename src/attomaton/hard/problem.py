"""The Graph-SVM as a value, in its two forms.

W_svm = argmin ‖W‖ subject to (e_i − e_j)ᵀ W e_k = 0 for ties i ≍ j and ≥ 1 for i ⇒ j, for every query k.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from attomaton.graphs.grouping import group_borders
from attomaton.tables import Bool, Float64, Int64, Integers


@dataclass(frozen=True, eq=False)
class OrderProblem:
    """Orthonormal embeddings: a position for each component, all queries at once.

    min Σ_C |C| p_C² subject to p_A − p_B ≥ 1 for every edge A → B.

    Attributes
    ----------
    sizes : int64 array, shape (n_components,)
        |C|, the tokens that share a position.
    above, below : int64 arrays, shape (n_edges,)
        The edges A → B, as component numbers.
    group : int64 array, shape (n_components,)
        Which components are solved and judged together, numbered from 0: the queries. Components and edges
        come sorted by group, and no edge joins two groups.
    """

    sizes: Int64
    above: Int64
    below: Int64
    group: Int64

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return int(self.group[-1]) + 1 if len(self.group) else 0

    @property
    def borders(self) -> tuple[Int64, Int64]:
        """Where each group's components and edges begin and end, shape (n_groups + 1,) each."""
        return group_borders(self.group, self.n_groups), group_borders(self.group[self.above], self.n_groups)

    def gaps(self, positions: Float64) -> Float64:
        """p_A − p_B of every edge, shape (n_edges,)."""
        return positions[self.above] - positions[self.below]

    def divergence(self, flow: Float64) -> Float64:
        """Flow out of each component less flow into it, shape (n_components,)."""
        from attomaton.graphs.summation import sum_precisely  # compiles, so only when needed

        size = len(self.sizes)
        return sum_precisely(self.above, flow, size) - sum_precisely(self.below, flow, size)


@dataclass(frozen=True, eq=False)
class EmbeddedProblem:
    """Given embeddings: queries couple through the Gram matrix G = E Eᵀ.

    The answer is W = Eᵀ A E with A = Σ_c α_c (1_i − 1_j) 1_kᵀ, hence scores S = G A G; α ≥ 0 on strict
    constraints and free on ties.

    Attributes
    ----------
    gram : float64 array, shape (n_tokens, n_tokens)
        G.
    query, winner, loser : integer arrays, shape (n_constraints,)
        The constraint (e_winner − e_loser)ᵀ W e_query.
    strict : bool array, shape (n_constraints,)
        ≥ 1 where true, = 0 where false.
    """

    gram: Float64
    query: Integers
    winner: Integers
    loser: Integers
    strict: Bool

    def combine(self, multipliers: Float64) -> Float64:
        """A, shape (n_tokens, n_tokens): what the multipliers put on each (token, query)."""
        token = np.concatenate([self.winner, self.loser])
        query = np.concatenate([self.query, self.query])
        signed = np.concatenate([multipliers, -multipliers])
        return csr_array((signed, (token, query)), shape=self.gram.shape).toarray()

    def scores(self, multipliers: Float64) -> Float64:
        """S = G A G, shape (n_tokens, n_tokens), rows key tokens, columns queries."""
        return self.gram @ self.combine(multipliers) @ self.gram

    def margins(self, multipliers: Float64) -> Float64:
        """S_ik − S_jk of every constraint, shape (n_constraints,)."""
        scores = self.scores(multipliers)
        return scores[self.winner, self.query] - scores[self.loser, self.query]

    def kernel(self, rows: Bool | None = None) -> Float64:
        """Q_cc' = (a_cᵀ G a_c') G_kk' between the constraints (or those of ``rows``), dense."""
        mask = np.ones(len(self.query), bool) if rows is None else rows
        query, winner, loser = self.query[mask], self.winner[mask], self.loser[mask]
        half = self.gram[winner] - self.gram[loser]
        return (half[:, winner] - half[:, loser]) * self.gram[np.ix_(query, query)]
