"""The block solver against two general solvers, Clarabel and PIQP, on 2,000 random orders.

Clarabel is asked for 1e-10, because from 1e-11 on it stalls now and then; PIQP reaches 1e-12 on all of them.
"""

from dataclasses import replace

import numpy as np
import piqp
import pytest
from scipy.sparse import csc_matrix, diags_array

from attomaton.solvers.hard.certify import certify_positions
from attomaton.solvers.hard.placement import Placement
from attomaton.solvers.hard.problem import OrderProblem
from attomaton.solvers.hard.reference import Clarabel
from tests.drawn import mixed_orders

pytestmark = pytest.mark.slow


def in_fitting_units(problem) -> OrderProblem:
    """The same problem with weights such that its optimum is at least 1.

    An edge alone costs |A||B| / (|A| + |B|), a lower bound. Both rivals read their tolerance as an absolute
    one below 1, and stop too early on an optimum of, say, 1e-6.
    """
    above, below = (problem.sizes[ends].astype(float) for ends in (problem.above, problem.below))
    return replace(problem, sizes=problem.sizes / np.max(above * below / (above + below)))


def solve_with_piqp(problem) -> np.ndarray:
    """Positions from PIQP: min ½xᵀPx subject to Gx ≥ 1."""
    n_edges = len(problem.above)
    rows = np.tile(np.arange(n_edges), 2)
    signs = np.repeat([1.0, -1.0], n_edges)
    columns = np.concatenate([problem.above, problem.below])
    edges = csc_matrix((signs, (rows, columns)), shape=(n_edges, len(problem.sizes)))
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-12
    solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = 1e-12
    solver.setup(
        csc_matrix(diags_array(problem.sizes)),
        np.zeros(len(problem.sizes)),
        G=edges,
        h_l=np.ones(n_edges),
        h_u=np.full(n_edges, np.inf),
    )
    solver.solve()
    return solver.result.x


def norm(problem, positions) -> float:
    return float((problem.sizes * positions**2).sum())


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_that_of_two_general_solvers(seed):
    for order in mixed_orders(np.random.default_rng(seed), 500, fewest=2, most=80):
        positions, flow = Placement().solve_order(order)
        assert certify_positions(order, positions, flow, rtol=1e-12).certified
        problem = in_fitting_units(order)
        for rival in (Clarabel(rtol=1e-10).solve_order(problem)[0], solve_with_piqp(problem)):
            assert problem.gaps(rival).min() > 1 - 1e-9
            assert norm(problem, rival) == pytest.approx(norm(problem, positions), rel=1e-9)
