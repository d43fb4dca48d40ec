"""The block solver: exact positions with gaps of 1, for many small orders at once and for one deep one.

Graph drawing calls this problem "variable placement with separation constraints" (Dwyer, Marriott, Stuckey).
Each part starts with an initial forest of tight edges ("planting"), then pivots until every gap is met.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attomaton.base.machine import count_processors, divide_work
from attomaton.base.native import solve_parts
from attomaton.base.tables import Float64
from attomaton.solvers.hard.problem import OrderProblem


@dataclass(frozen=True)
class Placement:
    """Place the blocks of all groups on ``threads`` threads, by default one per processor.

    Edges violated by less than ``rtol`` times the levels of their group count as met. A sweep adds the edges
    whose violation is at least ``greed`` times the worst.

    Examples
    --------
    >>> import attomaton as at
    >>> comps = at.find_components(at.extract_edges(at.Samples.from_lists([[0, 1]], [0])))
    >>> at.solve_graph_svm(comps, solver=Placement(threads=1)).expect().scores.column("score").to_pylist()
    [0.5, -0.5]
    """

    rtol: float = 4e-15
    greed: float = 0.5
    threads: int | None = None

    def solve_order(self, problem: OrderProblem) -> tuple[Float64, Float64]:
        """Positions, shape (n_components,), and edge multipliers, shape (n_edges,)."""
        if not len(problem.above):
            return np.zeros(len(problem.sizes)), np.zeros(0)
        weight = problem.sizes.astype(np.float64)
        positions, multipliers = np.empty(len(weight)), np.empty(len(problem.above))
        borders, limits = problem.borders, (self.greed, self.rtol)
        graph = weight, problem.above, problem.below
        number = 8 * (self.threads or count_processors())  # of shares with about equal numbers of nodes
        cuts = np.searchsorted(borders[0], np.arange(number + 1) * len(weight) // number)

        def solve_share(groups: tuple[int, int]) -> None:
            solve_parts(graph, borders, groups, limits, (positions, multipliers))

        divide_work(solve_share, list(pairwise(sorted(set(cuts.tolist())))), self.threads)
        return positions, multipliers
