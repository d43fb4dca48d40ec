"""Solve the Graph-SVM in the max norm: in closed form for orthonormal embeddings, else as a linear program.

With orthonormal embeddings W is the matrix of scores, and each query has its own column. A path of h edges
through the components of a query spreads its scores over at least h, so that one score is at least h/2 in
absolute value; and (longest path downwards) − h/2 is a solution whose scores are no larger. So min ‖W‖_max is
h/2, with h the longest path of any query. The solution is not unique: judge a W by its margin.
"""

from typing import Any

import numpy as np
from scipy import sparse as _sparse
from scipy.optimize import linprog as _linprog

from attomaton.base.ragged import group_borders, sum_at
from attomaton.base.tables import Float64, column
from attomaton.graphs.components import Components
from attomaton.solvers.norms.problem import FactoredProblem

linprog: Any = _linprog  # their stubs are partial
scipy_sparse: Any = _sparse


def place_levels(components: Components) -> Float64:
    """Positions of least maximum, shape (n_components,): the longest path below minus half the query's."""
    heights = components.heights.astype(np.float64)
    if not len(heights):
        return heights
    first = group_borders(components.query_of, components.edges.n_tokens)  # components are sorted by query
    longest = np.maximum.reduceat(heights, first[components.queries])
    return heights - np.repeat(longest / 2.0, np.diff(first)[components.queries])


def find_longest(components: Components) -> Float64:
    """One longest path, as multipliers of the edges of the order, shape (n_order,): ½ along it."""
    flow = np.zeros(components.order.num_rows)
    if not len(flow):
        return flow
    # The edges out of a component are consecutive; a longest path goes on to the highest component below.
    heights, (start, below) = components.heights, components.below
    component = int(heights.argmax())
    while heights[component]:
        edges = slice(int(start[component]), int(start[component + 1]))
        edge = edges.start + int(np.argmax(heights[below[edges]]))
        flow[edge], component = 0.5, int(below[edge])
    return flow


def bound_path(components: Components, flow: Float64) -> float:
    """Σf / ‖D‖° of multipliers f ≥ 0 for orthonormal embeddings: ‖D‖° is the net flow of components."""
    above, below = column(components.order, "above"), column(components.order, "below")
    net = sum_at(above, flow, len(components)) - sum_at(below, flow, len(components))
    dual = float(np.abs(net).sum())
    return float(flow.sum()) / dual if dual > 0 else 0.0


def solve_entries(problem: FactoredProblem) -> tuple[Float64, Float64]:
    """Weights, shape (n_rows, n_columns), and multipliers, shape (n_constraints,), by a linear program."""
    # Over the entries of W and t: min t subject to −⟨W, u_c v_cᵀ⟩ ≤ −1 for priorities, ±W_ab − t ≤ 0 for
    # entries, and ⟨W, u_c v_cᵀ⟩ = 0 for ties. The last column of every matrix belongs to t.
    shape = problem.tokens.shape[1], problem.queries.shape[1]
    size = shape[0] * shape[1]
    n_priorities, n_ties = problem.n_priorities, len(problem.above) - problem.n_priorities
    if not n_priorities:
        return np.zeros(shape), np.zeros(len(problem.above))
    rows = scipy_sparse.csr_array((problem.left[:, :, None] * problem.right[:, None, :]).reshape(-1, size))
    entry, column_of_t = scipy_sparse.eye_array(size), scipy_sparse.csr_array(np.ones((size, 1)))
    priorities = scipy_sparse.hstack([-rows[:n_priorities], scipy_sparse.csr_array((n_priorities, 1))])
    entries_within_t = [scipy_sparse.hstack([sign * entry, -column_of_t]) for sign in (1.0, -1.0)]
    matrix = scipy_sparse.vstack([priorities, *entries_within_t]).tocsr()
    right = np.concatenate([-np.ones(n_priorities), np.zeros(2 * size)])
    ties: dict[str, Any] = {}
    if n_ties:
        equal = scipy_sparse.hstack([rows[n_priorities:], scipy_sparse.csr_array((n_ties, 1))]).tocsr()
        ties = {"A_eq": equal, "b_eq": np.zeros(n_ties)}
    objective = np.concatenate([np.zeros(size), [1.0]])
    program = linprog(objective, matrix, right, bounds=[*([(None, None)] * size), (0, None)], **ties)
    if program.x is None:
        return np.zeros(shape), np.zeros(len(problem.above))
    tie_multipliers = program.eqlin.marginals if ties else np.zeros(0)
    multipliers = np.concatenate([-program.ineqlin.marginals[:n_priorities], tie_multipliers])
    return np.asarray(program.x[:-1]).reshape(shape), multipliers
