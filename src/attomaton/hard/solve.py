"""The Graph-SVM of all queries: the direction that the attention weights take in training."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from attomaton.graphs.components import Components
from attomaton.graphs.reduction import reduce_order
from attomaton.hard.certify import (
    HardCertificate,
    certify_multipliers,
    certify_positions,
    repair_multipliers,
    repair_positions,
)
from attomaton.hard.constraints import embedded_problem, order_problem
from attomaton.hard.solvers.reference import Reference
from attomaton.solutions import Solution, check_embeddings, score_table, sparse_weights
from attomaton.tables import Float64, column, make_table

MULTIPLIER_SCHEMA = pa.schema([("above", pa.int64()), ("below", pa.int64()), ("multiplier", pa.float64())])


@dataclass(frozen=True, eq=False, repr=False)
class HardSolution(Solution):
    """W_svm as scores and weights, with bounds on its squared norm.

    Attributes
    ----------
    certificate : HardCertificate
        ``lower ≤ ‖W_svm‖² ≤ upper``.
    multipliers : pyarrow.Table
        Columns above, below (components of the reduced order) and multiplier (float64): how hard each
        priority presses. A positive one marks a tight edge.
    """

    certificate: HardCertificate
    multipliers: pa.Table


def solve_graph_svm(
    components: Components, *, embeddings: object = None, rtol: float = 1e-6, solver: Reference | None = None
) -> HardSolution:
    """Solve the Graph-SVM of every query: min ‖W‖ s.t. ties score equal and priorities score ≥ 1 apart.

    Parameters
    ----------
    components : Components
        Who ties and who precedes whom.
    embeddings : float array, shape (n_tokens, dim), optional
        E with linearly independent rows. None: orthonormal, so that queries do not interact.
    rtol : float
        Relative gap between the certificate's bounds at which the answer counts as certified.
    solver : Reference, optional
        The solver to use.

    Returns
    -------
    HardSolution
        Check it with ``.expect()``.

    Examples
    --------
    >>> from attomaton.corpora.synthetic import Chain, corpus
    >>> from attomaton.graphs.components import find_components
    >>> from attomaton.graphs.edges import extract_edges
    >>> samples = corpus(Chain(3), n_samples=20, rng=np.random.default_rng(0))
    >>> hard = solve_graph_svm(find_components(extract_edges(samples))).expect()
    >>> hard.scores.column("score").to_numpy().round(6) + 0.0
    array([ 1.,  0., -1.])
    """
    chosen = solver or Reference()
    if embeddings is None:
        return _solve_orthonormal(components, rtol, chosen)
    return _solve_embedded(components, check_embeddings(embeddings, components.edges.n_tokens), rtol, chosen)


def _solve_orthonormal(components: Components, rtol: float, solver: Reference) -> HardSolution:
    reduced = reduce_order(components)
    problem = order_problem(components, reduced)
    positions, flow = solver.solve_order(problem)
    positions = repair_positions(problem, positions)
    scores = score_table(components.nodes, positions[components.component_of_node])
    return HardSolution(
        scores=scores,
        weights=sparse_weights(scores, components.edges.n_tokens),
        certificate=certify_positions(problem, positions, flow, rtol=rtol),
        multipliers=_multiplier_table(reduced, flow),
    )


def _solve_embedded(components: Components, table: Float64, rtol: float, solver: Reference) -> HardSolution:
    reduced = reduce_order(components)
    problem = embedded_problem(components, reduced, table @ table.T)
    dual = solver.solve_embedded(problem)
    primal = repair_multipliers(problem, dual)
    scores = problem.scores(primal)
    return HardSolution(
        scores=score_table(components.nodes, scores[components.token_of_node, components.query_of_node]),
        weights=table.T @ problem.combine(primal) @ table,
        certificate=certify_multipliers(problem, primal, dual, rtol=rtol),
        multipliers=_multiplier_table(reduced, dual[problem.strict]),
    )


def _multiplier_table(reduced: pa.Table, multipliers: Float64) -> pa.Table:
    columns = {name: column(reduced, name) for name in ("above", "below")}
    return make_table(MULTIPLIER_SCHEMA, {**columns, "multiplier": np.maximum(multipliers, 0.0)})
