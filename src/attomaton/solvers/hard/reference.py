"""Solve the Graph-SVM by Clarabel, a general interior-point method, as a reference."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array

from attomaton.base.errors import needing
from attomaton.base.tables import Float64
from attomaton.solvers.hard.problem import EmbeddedProblem, OrderProblem

with needing("the reference solver"):
    import clarabel as _clarabel

clarabel: Any = _clarabel  # ships no types


@dataclass(frozen=True)
class Clarabel:
    """Solve the Graph-SVM with the interior-point solver Clarabel.

    ``rtol`` is its tolerance for gap and feasibility, ``max_steps`` the largest number of iterations.

    Examples
    --------
    >>> import attomaton as at
    >>> comps = at.find_components(at.extract_edges(at.Samples.from_lists([[0, 1]], [0])))
    >>> hard = at.solve_graph_svm(comps, solver=Clarabel(), rtol=1e-8).expect()
    >>> hard.scores.column("score").to_numpy().round(6).tolist()
    [0.5, -0.5]
    """

    rtol: float = 1e-11
    max_steps: int = 200

    def solve_order(self, problem: OrderProblem) -> tuple[Float64, Float64]:
        """Return component positions, shape (n_components,), and edge multipliers, shape (n_edges,)."""
        n_edges, n_components = len(problem.above), len(problem.sizes)
        if not n_edges:
            return np.zeros(n_components), np.zeros(0)
        # min ½ Σ |C| p_C² subject to p_below − p_above ≤ −1 for every edge
        rows = np.tile(np.arange(n_edges), 2)
        columns = np.concatenate([problem.above, problem.below])
        signs = np.concatenate([np.full(n_edges, -1.0), np.full(n_edges, 1.0)])
        constraints = csc_array((signs, (rows, columns)), shape=(n_edges, n_components))
        quadratic = diags_array(problem.sizes.astype(np.float64), format="csc")
        return self._minimise(quadratic, np.zeros(n_components), constraints, np.full(n_edges, -1.0))

    def solve_embedded(self, problem: EmbeddedProblem) -> tuple[Float64, Float64]:
        """Return forces on the nodes, shape (n_nodes,), and edge multipliers, shape (n_edges,)."""
        # The dual: forces are a = Rᵀ α, with a row e_plus − e_minus of R for each edge, then for each tie.
        # min ½ αᵀ R Q Rᵀ α − Σ_edges α subject to α ≥ 0 for edges; α are the multipliers.
        order = problem.order
        n_edges = len(order.above)
        if not n_edges:
            return np.zeros(len(problem.token)), np.zeros(0)
        nodes = np.argsort(problem.component, kind="stable")
        component = problem.component[nodes]
        first = nodes[np.searchsorted(component, np.arange(len(order.sizes)))]  # the first node of each
        tied = np.flatnonzero(component[1:] == component[:-1])  # neighbours in `nodes` in one component
        plus = np.concatenate([first[order.above], nodes[tied]])  # edges between first nodes of components,
        minus = np.concatenate([first[order.below], nodes[tied + 1]])  # then chains of ties
        entries = np.tile(np.arange(len(plus)), 2), np.concatenate([plus, minus])
        signs = np.repeat([1.0, -1.0], len(plus))
        rows: Any = csr_array((signs, entries), shape=(len(plus), len(nodes)))
        edge = np.arange(n_edges)
        bounds = csc_array((np.full(n_edges, -1.0), (edge, edge)), shape=(n_edges, rows.shape[0]))
        quadratic = csc_array(np.triu(rows @ (rows @ problem.kernel()).T))
        linear = np.zeros(rows.shape[0])
        linear[:n_edges] = -1.0
        multipliers, _ = self._minimise(quadratic, linear, bounds, np.zeros(n_edges))
        return rows.T @ multipliers, multipliers[:n_edges]

    # Minimise ½xᵀPx + qᵀx subject to Ax ≤ b; return x and the multipliers of the constraints.
    def _minimise(
        self, quadratic: Any, linear: Float64, constraints: Any, bounds: Float64
    ) -> tuple[Float64, Float64]:
        # One cone of non-negative slacks b − Ax.
        settings: Any = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_iter = self.max_steps
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = self.rtol
        cones = [clarabel.NonnegativeConeT(len(bounds))]
        answer: Any = clarabel.DefaultSolver(quadratic, linear, constraints, bounds, cones, settings).solve()
        return np.asarray(answer.x, np.float64), np.asarray(answer.z, np.float64)
