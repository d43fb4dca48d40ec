"""The reference solver: Clarabel, a general interior-point method, called once for all queries."""

from dataclasses import dataclass
from typing import Any

import clarabel as _clarabel
import numpy as np
from scipy.sparse import csc_array, diags_array

from attomaton.hard.problem import EmbeddedProblem, OrderProblem
from attomaton.tables import Float64

clarabel: Any = _clarabel  # ships no types


@dataclass(frozen=True)
class Reference:
    """Clarabel with tolerance ``rtol`` on gap and feasibility, at most ``max_steps`` iterations."""

    rtol: float = 1e-11
    max_steps: int = 200

    def solve_order(self, problem: OrderProblem) -> tuple[Float64, Float64]:
        """Positions, shape (n_components,), and edge multipliers, shape (n_edges,)."""
        n_edges, n_components = len(problem.above), len(problem.sizes)
        if not n_edges:
            return np.zeros(n_components), np.zeros(0)
        edge = np.arange(n_edges)
        rows = np.concatenate([edge, edge])
        columns = np.concatenate([problem.above, problem.below])
        signs = np.concatenate([np.full(n_edges, -1.0), np.full(n_edges, 1.0)])
        constraints = csc_array((signs, (rows, columns)), shape=(n_edges, n_components))
        quadratic = diags_array(problem.sizes.astype(np.float64), format="csc")
        return self._minimise(quadratic, np.zeros(n_components), constraints, np.full(n_edges, -1.0))

    def solve_embedded(self, problem: EmbeddedProblem) -> Float64:
        """Multipliers of the dual, min ½ αᵀQα − Σ_strict α over α_strict ≥ 0, shape (n_constraints,)."""
        strict = np.flatnonzero(problem.strict)
        n_constraints = len(problem.query)
        if not len(strict):
            return np.zeros(n_constraints)
        place = (np.arange(len(strict)), strict)
        constraints = csc_array((np.full(len(strict), -1.0), place), shape=(len(strict), n_constraints))
        quadratic = csc_array(np.triu(problem.kernel()))
        return self._minimise(
            quadratic, -problem.strict.astype(np.float64), constraints, np.zeros(len(strict))
        )[0]

    def _minimise(
        self, quadratic: Any, linear: Float64, constraints: Any, bounds: Float64
    ) -> tuple[Float64, Float64]:
        """Minimise ½xᵀPx + qᵀx subject to Ax ≤ b; returns x and the multipliers of the constraints."""
        settings: Any = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_iter = self.max_steps
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = self.rtol
        cones = [clarabel.NonnegativeConeT(len(bounds))]
        answer: Any = clarabel.DefaultSolver(quadratic, linear, constraints, bounds, cones, settings).solve()
        return np.asarray(answer.x, np.float64), np.asarray(answer.z, np.float64)
