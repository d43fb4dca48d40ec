"""The Graph-SVM of factored weights: the direction that W = K Qᵀ takes in training with weight decay.

``solve_graph_svm(components, norm="nuclear")`` is its public door.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import real_number
from attomaton.base.solutions import Solution, check_embeddings, scale_rows, score_table
from attomaton.base.tables import Float64
from attomaton.graphs.components import Components
from attomaton.solvers.hard.factored.certify import Norm, NormCertificate, certify_weights, repair_weights
from attomaton.solvers.hard.factored.problem import FactoredProblem, factored_problem
from attomaton.solvers.hard.problem import multiplier_table

NEGLIGIBLE = 1e-5
"""Singular values smaller than this, relative to the largest, do not count for the rank."""


@runtime_checkable
class FactoredSolver(Protocol):
    """What solves the problem of least nuclear norm.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.solvers.hard.factored.interior import InteriorPoint
    >>> class Hasty:  # any class with this method will do
    ...     def solve_factored(self, problem):
    ...         return InteriorPoint(max_steps=2).solve_factored(problem)
    >>> samples = at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])
    >>> solve_factored(at.find_components(at.extract_edges(samples)), solver=Hasty()).status.name
    'UNCERTIFIED'
    """

    def solve_factored(self, problem: FactoredProblem) -> tuple[Float64, Float64]:
        """Weights, shape (n_rows, n_columns), and multipliers, shape (n_constraints,)."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class FactoredSolution(Solution):
    """The W of least nuclear norm as scores and weights, with bounds on that norm.

    Attributes
    ----------
    weights : float64 array, shape (dim, dim)
        W; orthonormal: of shape (n_tokens, n_tokens). Not sparse: it has scores also where no node is.
    certificate : NormCertificate
        ``lower ≤ min ‖W‖_* ≤ upper``.
    multipliers : pyarrow.Table
        Columns above, below (components) and multiplier (float64), a row for each edge of the order: how hard
        each priority presses. They add up to the lower bound.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])  # 0 beats 1 under 1, and 2 under 2
    >>> factored = solve_factored(at.find_components(at.extract_edges(samples))).expect()
    >>> factored.rank, np.abs(factored.weights[:, 0]).max().round(4).item()  # nothing asks under query 0
    (1, 0.0)
    >>> pressed = factored.multipliers.column("multiplier").to_numpy()
    >>> bool(np.isclose(pressed.sum(), factored.certificate.lower))
    True
    """

    weights: Float64
    certificate: NormCertificate
    multipliers: pa.Table

    @property
    def rank(self) -> int:
        """How many singular values of W are not negligible: the width that K and Q need."""
        values = np.linalg.svd(self.weights, compute_uv=False)
        return int(np.sum(values > NEGLIGIBLE * values.max(initial=0.0)))


def solve_factored(
    components: Components,
    *,
    embeddings: object = None,
    rtol: float = 1e-6,
    solver: FactoredSolver | None = None,
) -> FactoredSolution:
    """Solve min ‖W‖_* s.t. ties score equal and priorities score ≥ 1 apart, for all queries together.

    ‖W‖_*, the sum of the singular values, is the least ½‖K‖² + ½‖Q‖² with K Qᵀ = W: what weight decay on the
    two factors of the attention weights keeps small. It does not separate over queries, even for orthonormal
    embeddings. A reference method, meant for up to about 64 tokens: its time grows with the third power of
    the number of priorities and ties.

    Parameters
    ----------
    components : Components
        Who ties and who precedes whom.
    embeddings : float array, shape (n_tokens, dim), optional
        E. None means orthonormal. If its rows are linearly dependent, priorities may contradict each other;
        then there is no answer, and what comes back is not certified. To count those priorities as ties, give
        ``separate(components, embeddings).components``.
    rtol : float
        Relative gap between the certificate's bounds at which the answer counts as certified.
    solver : optional
        The solver to use: by default :class:`~attomaton.solvers.hard.factored.interior.InteriorPoint`, which
        aims at a tenth of ``rtol``.

    Returns
    -------
    FactoredSolution
        Check it with ``.expect()``.

    Examples
    --------
    >>> from attomaton.corpora.samples import Samples
    >>> from attomaton.graphs.components import find_components
    >>> from attomaton.graphs.edges import extract_edges
    >>> samples = Samples.from_lists([[0, 1], [0, 2]], [0, 0])  # 0 beats 1 under 1, and 2 under 2
    >>> factored = solve_factored(find_components(extract_edges(samples))).expect()
    >>> factored.scores.column("score").to_numpy().round(4).tolist()  # alone: ½ and −½
    [0.6667, -0.3333, 0.6667, -0.3333]
    >>> factored.rank, round(factored.certificate.upper, 6)
    (1, 1.154701)
    """
    rtol = real_number(rtol, "rtol", above=0, below=1)
    chosen = _choose(solver, rtol)
    n_tokens = components.edges.n_tokens
    given = np.eye(n_tokens) if embeddings is None else check_embeddings(embeddings, n_tokens)
    unit, scale = scale_rows(given)
    problem, rows, columns = factored_problem(components, unit)
    found = chosen.solve_factored(problem)
    units = rows, columns, scale
    return FactoredSolution(**describe_solution(components, problem, found, units, norm="nuclear", rtol=rtol))


def describe_solution(
    components: Components,
    problem: FactoredProblem,
    found: tuple[Float64, Float64],
    units: tuple[Float64, Float64, float],
    *,
    norm: Norm,
    rtol: float,
) -> dict[str, Any]:
    """The parts of a solution in any norm: weights and multipliers ``found``, repaired and certified.

    ``units`` are the coordinates of W's rows and columns, and the unit of the embeddings.
    """
    rows, columns, scale = units
    weights = repair_weights(problem, found[0])
    certificate = certify_weights(problem, weights, found[1], norm=norm, rtol=rtol).scaled(scale**-2)
    return {
        "scores": score_table(components.nodes, problem.scores(weights)),
        "weights": rows @ weights @ columns.T / scale**2,
        "certificate": certificate,
        "multipliers": scale_multipliers(problem, components.order, found[1], certificate.lower),
    }


def _choose(solver: object, rtol: float) -> FactoredSolver:
    from attomaton.solvers.hard.factored.interior import InteriorPoint  # compiles, so only when needed

    chosen = InteriorPoint(rtol=rtol / 10) if solver is None else solver
    if not isinstance(chosen, FactoredSolver):
        raise UnsupportedOption(f"{chosen!r} does not solve for factored weights; use InteriorPoint")
    return chosen


def scale_multipliers(
    problem: FactoredProblem, order: pa.Table, multipliers: Float64, total: float
) -> pa.Table:
    """The priorities' multipliers, scaled to sum to ``total``; 0 for edges that a longer path replaces."""
    pressed = np.zeros(order.num_rows)
    pressed[problem.kept] = np.maximum(multipliers[: problem.n_priorities], 0.0)
    if 0 < total < np.inf:
        pressed *= total / pressed.sum()
    return multiplier_table(order, pressed)
