"""The Graph-SVM whose largest entry is least: a closed form for orthonormal embeddings, a linear program.

With orthonormal embeddings W is the matrix of scores, and each query has a column of its own. A path of h
edges through the components of a query spreads its scores over h at least, so that one of them is h/2 or more
in size; and (longest path downwards) − h/2 is a solution whose scores are no larger. Hence

    min ‖W‖_max = h/2,   h the longest path of any query,

and the best margin of a W with ‖W‖_max = 1 is 2/h.

The solution is not unique: judge a W by its margin, never by its direction.
"""

from typing import Any

import numpy as np
from scipy import sparse as _sparse
from scipy.optimize import linprog as _linprog

from attomaton.base.ragged import group_borders
from attomaton.base.tables import Float64, column
from attomaton.graphs.components import Components, find_ends
from attomaton.solvers.norms.problem import FactoredProblem

linprog: Any = _linprog  # their stubs are partial
sparse: Any = _sparse


def place_levels(components: Components) -> Float64:
    """Positions of least maximum, shape (n_components,): the longest path below less half the query's."""
    heights = components.heights.astype(np.float64)
    if not len(heights):
        return heights
    first = group_borders(components.query_of, components.edges.n_tokens)
    longest = np.maximum.reduceat(heights, first[components.queries])
    return heights - np.repeat(longest / 2.0, np.diff(first)[components.queries])


def find_longest(components: Components) -> Float64:
    """One longest path, as multipliers of the edges of the order, shape (n_order,): ½ along it.

    Its D is half the difference of two nodes, so that ‖D‖° = 1 and Σf = h/2: the proof that no W is smaller.
    """
    flow = np.zeros(components.order.num_rows)
    if not len(flow):
        return flow
    heights, (start, below) = components.heights, components.below
    place = int(heights.argmax())
    while heights[place]:
        edges = slice(int(start[place]), int(start[place + 1]))
        edge = edges.start + int(np.argmax(heights[below[edges]]))
        flow[edge], place = 0.5, int(below[edge])
    return flow


def bound_path(components: Components, flow: Float64) -> float:
    """Σf / ‖D‖° of multipliers f ≥ 0 of the edges of the order, for orthonormal embeddings.

    Ties move what flows into a component to any of its tokens, so that ‖D‖° is what is left in components.
    """
    size = len(components)
    ends = {name: column(components.order, name) for name in ("above", "below")}
    left = np.bincount(ends["above"], flow, size) - np.bincount(ends["below"], flow, size)
    dual = float(np.abs(left).sum())
    return float(flow.sum()) / dual if dual > 0 else 0.0


def longest_by_definition(components: Components) -> float:
    """min ‖W‖_max for orthonormal embeddings, as the linear program that it is: min t, −t ≤ W_ik ≤ t."""
    nodes = {(row["query"], row["token"]): place for place, row in enumerate(components.nodes.to_pylist())}
    part = components.component_of_node
    priorities: list[Float64] = []
    ties: list[Float64] = []
    for row in components.edges.rows.to_pylist():
        winner, loser = (nodes[row["query"], row[name]] for name in ("winner", "loser"))
        asked = np.zeros(len(nodes) + 1)
        asked[winner], asked[loser] = 1.0, -1.0
        (ties if part[winner] == part[loser] else priorities).append(asked)
    identity, ones = np.eye(len(nodes)), np.ones((len(nodes), 1))
    limits = np.concatenate([np.hstack([identity, -ones]), np.hstack([-identity, -ones]), *_up(priorities)])
    levels = np.concatenate([np.zeros(2 * len(nodes)), -np.ones(len(priorities))])
    equal = {"A_eq": np.array(ties), "b_eq": np.zeros(len(ties))} if ties else {}
    bounds = [*([(None, None)] * len(nodes)), (0, None)]
    found = linprog(np.eye(len(nodes) + 1)[-1], limits, levels, bounds=bounds, **equal)
    return float(found.fun)


def _up(priorities: list[Float64]) -> list[Float64]:
    """Rows of ≥ as rows of ≤."""
    return [-np.array(priorities)] if priorities else []


def solve_entries(problem: FactoredProblem) -> tuple[Float64, Float64]:
    """Weights, shape (n_rows, n_columns), and multipliers, shape (n_constraints,), by a linear program.

    ``problem`` must have the coordinates in which entries of W are meant.
    """
    shape, n_priorities = (problem.tokens.shape[1], problem.queries.shape[1]), problem.n_priorities
    size, n_ties = shape[0] * shape[1], len(problem.above) - n_priorities
    if not n_priorities:
        return np.zeros(shape), np.zeros(len(problem.above))
    rows = sparse.csr_array((problem.left[:, :, None] * problem.right[:, None, :]).reshape(-1, size))
    entry, bound = sparse.eye_array(size), sparse.csr_array(np.ones((size, 1)))
    asked = sparse.hstack([-rows[:n_priorities], sparse.csr_array((n_priorities, 1))])
    within = [sparse.hstack([sign * entry, -bound]) for sign in (1.0, -1.0)]
    limits = sparse.vstack([asked, *within]).tocsr()
    levels = np.concatenate([-np.ones(n_priorities), np.zeros(2 * size)])
    ties: dict[str, Any] = {}
    if n_ties:
        equal = sparse.hstack([rows[n_priorities:], sparse.csr_array((n_ties, 1))]).tocsr()
        ties = {"A_eq": equal, "b_eq": np.zeros(n_ties)}
    least = np.concatenate([np.zeros(size), [1.0]])
    found = linprog(least, limits, levels, bounds=[*([(None, None)] * size), (0, None)], **ties)
    if found.x is None:
        return np.zeros(shape), np.zeros(len(problem.above))
    pulled = found.eqlin.marginals if ties else np.zeros(0)
    multipliers = np.concatenate([-found.ineqlin.marginals[:n_priorities], pulled])
    return np.asarray(found.x[:-1]).reshape(shape), multipliers


def miss_of(components: Components, scores: Float64) -> float:
    """By how much scores of the nodes miss a priority of margin 1, at most."""
    above, below = find_ends(components)
    return max(0.0, 1.0 - float((scores[above] - scores[below]).min(initial=1.0)))
