"""Solve order problems exactly by blocks, for many small orders at once and for one deep order.

Graph drawing calls this problem "variable placement with separation constraints" (Dwyer, Marriott, Stuckey).
The solver starts with a forest of tight edges, then pivots until every gap is met.
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
    """Solve the Graph-SVM of every query exactly, for orthonormal embeddings.

    ``threads`` is the number of threads, by default one per processor. An edge counts as met if its
    violation is less than ``rtol`` times the number of levels in the order of its query. A sweep adds
    the edges whose violation is at least ``greed`` times the largest violation.

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
        """Return component positions, shape (n_components,), and edge multipliers, shape (n_edges,)."""
        if not len(problem.above):
            return np.zeros(len(problem.sizes)), np.zeros(0)
        weight = problem.sizes.astype(np.float64)
        positions, multipliers = np.empty(len(weight)), np.empty(len(problem.above))
        borders, limits = problem.borders, (self.greed, self.rtol)
        graph = weight, problem.above, problem.below
        # Shares of about equal numbers of nodes, several per thread; a query is never cut.
        n_shares = 8 * (self.threads or count_processors())
        cuts = np.searchsorted(borders[0], np.arange(n_shares + 1) * len(weight) // n_shares)

        def solve_share(groups: tuple[int, int]) -> None:
            """Groups first … last − 1; the kernel writes into positions and multipliers."""
            solve_parts(graph, borders, groups, limits, (positions, multipliers))

        divide_work(solve_share, list(pairwise(sorted(set(cuts.tolist())))), self.threads)
        return positions, multipliers
