"""The Graph-SVM in weight space, for norms of W that do not separate over queries.

Each constraint c, a priority or a tie between tokens i and j under query k, is a matrix of rank one: ⟨W, u_c
v_cᵀ⟩ with u_c = e_i − e_j and v_c = e_k.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from attomaton.base.borders import check_floats, check_ids, check_int64, check_lengths
from attomaton.base.errors import MismatchedParts
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.graphs.components import Components, find_ends, find_needed, find_ties
from attomaton.solvers.hard.problem import EmbeddedProblem, embedded_problem

# Most refinements of the residual of violated ties.
MOST_TIE_ROUNDS = 20

# A violation of a tie below this, relative to the largest entry of W, is a rounding error.
TIE_ROUNDING = 1e-13

# Regularisation of the diagonal of the ties' Gram matrix, so that rounding does not make it singular.
TIE_DIAGONAL_RAISE = 1e-12

# A tie whose squared distance from the span of others is below this follows from them.
DEPENDENT_TIE = 1e-13


@dataclass(frozen=True, eq=False)
class FactoredProblem:
    """The problem of least nuclear norm: ⟨W, u_c v_cᵀ⟩ ≥ 1 for priorities and = 0 for ties.

    W is written in orthonormal bases of the span of the embeddings in use; products and norms do not change.
    ``tokens``, shape (n_tokens_used, n_rows), are the embeddings E of the tokens in use in these coordinates,
    and ``queries``, shape (n_queries, n_columns), those of the queries, F. ``nodes`` has the nodes (query,
    token), the components and the order. ``needed``, shape (n_order,), marks the edges of the order that no
    longer path replaces. ``above`` and ``below``, shape (n_constraints,), are the two nodes of each
    constraint: first the needed priorities, then chains of ties, without those that follow from others.
    """

    tokens: Float64
    queries: Float64
    nodes: EmbeddedProblem
    needed: Bool
    above: Int64
    below: Int64

    def __post_init__(self) -> None:
        check_floats(self.tokens, (len(self.nodes.token_gram), None), "tokens")
        check_floats(self.queries, (len(self.nodes.query_gram), None), "queries")
        check_lengths("both nodes of constraints", above=self.above, below=self.below)
        for name in ("above", "below"):
            ends = check_int64(getattr(self, name), name)
            check_ids(ends, len(self.nodes.token), f"the node {name} a constraint")
        if self.needed.shape != self.nodes.order.above.shape or int(self.needed.sum()) > len(self.above):
            raise MismatchedParts("needed must be one boolean for each edge of the order; use find_needed")

    @cached_property
    def n_priorities(self) -> int:
        """The number of constraints that are priorities; they come first."""
        return int(self.needed.sum())

    @cached_property
    def query(self) -> Int64:
        """The row of ``queries`` of each constraint."""
        return self.nodes.query[self.above]

    @cached_property
    def left(self) -> Float64:
        """u_c, shape (n_constraints, n_rows)."""
        return self.tokens[self.nodes.token[self.above]] - self.tokens[self.nodes.token[self.below]]

    @cached_property
    def right(self) -> Float64:
        """v_c, shape (n_constraints, n_columns)."""
        return self.queries[self.query]

    def scores(self, weights: Float64) -> Float64:
        """The scores E W Fᵀ at the nodes, shape (n_nodes,)."""
        return (self.tokens @ weights @ self.queries.T)[self.nodes.token, self.nodes.query]

    def differences(self, weights: Float64) -> Float64:
        """The value ⟨W, u_c v_cᵀ⟩ of each constraint, shape (n_constraints,)."""
        return np.sum((self.left @ weights) * self.right, axis=1)

    def dual_matrix(self, multipliers: Float64) -> Float64:
        """The sum D = Σ_c α_c u_c v_cᵀ over the constraints, shape (n_rows, n_columns)."""
        return self.left.T @ (multipliers[:, None] * self.right)

    def settle_ties(self, weights: Float64) -> Float64:
        """The nearest W (in ‖·‖_F) that meets all ties: W − Σ_ties y_c u_c v_cᵀ."""
        from scipy.linalg import cho_solve  # a tenth of the start-up time

        size = len(self.above)
        if size == self.n_priorities:
            return weights
        tolerance = TIE_ROUNDING * (1.0 + float(np.abs(weights).max(initial=0.0)))
        for _ in range(MOST_TIE_ROUNDS):
            violations = self.differences(weights)[self.n_priorities :]
            if np.abs(violations).max() <= tolerance:
                break
            shifts = np.zeros(size)  # y_c, 0 for priorities
            shifts[self.n_priorities :] = cho_solve(self._tie_factor, violations, check_finite=False)
            weights = weights - self.dual_matrix(shifts)
        return weights

    # The Cholesky factor of the ties' Gram matrix, slightly regularised.
    @cached_property
    def _tie_factor(self) -> tuple[Float64, bool]:
        from scipy.linalg import cho_factor  # a tenth of the start-up time

        gram = _gram(self.left[self.n_priorities :], self.right[self.n_priorities :])
        np.einsum("ii->i", gram)[:] *= 1 + TIE_DIAGONAL_RAISE
        return cho_factor(gram, lower=True)


def factored_problem(components: Components, embeddings: Float64) -> tuple[FactoredProblem, Float64, Float64]:
    """The problem, and the orthonormal bases for rows and columns of W, shape (dim, n_rows or n_columns)."""
    nodes = embedded_problem(components, embeddings)
    # With Eᵀ = Q R, Q is the basis and the columns of R are the embeddings in its coordinates.
    row_basis, tokens = np.linalg.qr(embeddings[np.unique(components.token_of_node)].T)
    column_basis, queries = np.linalg.qr(embeddings[np.unique(components.query_of_node)].T)
    needed = find_needed(components)
    ends, ties = find_ends(components), find_ties(components)
    above = np.concatenate([ends[0][needed], ties[0]])
    below = np.concatenate([ends[1][needed], ties[1]])
    problem = FactoredProblem(tokens.T, queries.T, nodes, needed, above, below)
    used = np.ones(len(above), bool)
    n_priorities = problem.n_priorities
    used[n_priorities:] = _select_independent(problem.left[n_priorities:], problem.right[n_priorities:])
    return replace(problem, above=above[used], below=below[used]), row_basis, column_basis


# ⟨u_c v_cᵀ, u_d v_dᵀ⟩ = (u_c·u_d)(v_c·v_d) for all pairs of constraints, shape (n, n).
def _gram(left: Float64, right: Float64) -> Float64:
    return (left @ left.T) * (right @ right.T)


# A maximal set of linearly independent u_c v_cᵀ; all of them if the embeddings are independent.
def _select_independent(left: Float64, right: Float64) -> Bool:
    gram = _gram(left, right)
    norms = np.sqrt(np.maximum(np.diag(gram), 1e-24))  # no division by 0 if two rows are equal
    chosen = np.zeros(len(gram), bool)
    if len(gram):
        from scipy.linalg import lapack as routines  # a tenth of the start-up time

        lapack: Any = routines  # its stubs omit the pivoted factorisation
        # Pivoted Cholesky of the Gram matrix with unit diagonal: its pivots, counted from 1, are the set.
        _, pivots, rank, _ = lapack.dpstrf(gram / norms / norms[:, None], tol=DEPENDENT_TIE)
        chosen[pivots[:rank] - 1] = True
    return chosen
