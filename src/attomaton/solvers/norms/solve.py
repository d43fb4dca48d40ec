"""The Graph-SVM in the nuclear, max and spectral norms: the best margins that optimisers can reach.

:func:`~attomaton.solvers.hard.solve.solve_graph_svm` handles the Frobenius norm, which gradient descent
keeps small, and is the public function for the nuclear norm.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import real_number, show
from attomaton.base.solutions import Solution, check_embeddings, scale_rows, score_table, sparse_weights
from attomaton.base.tables import Float64, column
from attomaton.graphs.components import Components
from attomaton.solvers.hard.problem import multiplier_table
from attomaton.solvers.norms.certify import (
    NormCertificate,
    WeightNorm,
    certify_weights,
    relative_gap,
    repair_weights,
)
from attomaton.solvers.norms.problem import FactoredProblem, factored_problem

if TYPE_CHECKING:
    from attomaton.solvers.norms.interior import InteriorPoint

NEGLIGIBLE_SINGULAR = 1e-5
"""Singular values smaller than this, relative to the largest, do not count for the rank."""


@dataclass(frozen=True, eq=False, repr=False)
class FactoredSolution(Solution):
    """The W of least nuclear norm as scores and weights, with bounds on that norm.

    Attributes
    ----------
    weights : float64 array, shape (dim, dim)
        W; shape (n_tokens, n_tokens) if orthonormal. Not sparse: it also has scores outside the nodes.
    certificate : NormCertificate
        ``lower ≤ min ‖W‖_* ≤ upper``.
    multipliers : pyarrow.Table
        Columns above, below (components) and multiplier (float64), one row per edge of the order. The
        multipliers add up to the lower bound.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])  # 0 beats 1 under 1, and 2 under 2
    >>> factored = solve_factored(at.find_components(at.extract_edges(samples))).expect()
    >>> factored.rank, np.abs(factored.weights[:, 0]).max().round(4).item()  # query 0 has no constraints
    (1, 0.0)
    """

    weights: Float64
    certificate: NormCertificate
    multipliers: pa.Table

    @property
    def rank(self) -> int:
        """The number of non-negligible singular values of W: the width that K and Q need."""
        values = np.linalg.svd(self.weights, compute_uv=False)
        return int(np.sum(values > NEGLIGIBLE_SINGULAR * values.max(initial=0.0)))


def solve_factored(
    components: Components,
    *,
    embeddings: object = None,
    rtol: float = 1e-6,
    solver: "InteriorPoint | None" = None,
) -> FactoredSolution:
    """Solve min ‖W‖_* s.t. ties score equal and priorities score ≥ 1 apart, for all queries together.

    ‖W‖_*, the sum of the singular values, is the least ½‖K‖² + ½‖Q‖² with K Qᵀ = W, which weight decay on the
    two factors keeps small. It couples all queries. Time grows with the cube of the number of priorities and
    ties: use it for up to about 64 tokens.

    Parameters
    ----------
    components : Components
        The components and their order.
    embeddings : float array, shape (n_tokens, dim), optional
        E. None means orthonormal. Dependent rows may make priorities contradict each other; then nothing is
        certified. To treat those as ties, pass ``separate(components, embeddings).components``.
    rtol : float
        Relative gap between the certificate's bounds at which the answer counts as certified.
    solver : InteriorPoint, optional
        By default one that aims at a tenth of ``rtol``.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])  # 0 beats 1 under 1, and 2 under 2
    >>> factored = solve_factored(at.find_components(at.extract_edges(samples))).expect()
    >>> factored.scores.column("score").to_numpy().round(4).tolist()  # each query alone: ½ and −½
    [0.6667, -0.3333, 0.6667, -0.3333]
    """
    from attomaton.solvers.norms.interior import InteriorPoint  # compiles, so only when needed

    rtol = real_number(rtol, "rtol", above=0, below=1)
    chosen = cast("object", InteriorPoint(rtol=rtol / 10) if solver is None else solver)
    if not isinstance(chosen, InteriorPoint):
        raise UnsupportedOption(f"the solver {chosen!r} cannot minimise the nuclear norm; use InteriorPoint")
    return FactoredSolution(**_solve_norm(components, embeddings, "nuclear", rtol, chosen.solve_factored))


def _solve_norm(
    components: Components,
    embeddings: object,
    norm: WeightNorm,
    rtol: float,
    solve: Callable[[FactoredProblem], tuple[Float64, Float64]],
) -> dict[str, Any]:
    """The fields of a solution in any norm: the certified weights and multipliers from ``solve``."""
    n_tokens = components.edges.n_tokens
    table = np.eye(n_tokens) if embeddings is None else check_embeddings(embeddings, n_tokens)
    unit, scale = scale_rows(table)
    problem, rows, columns = factored_problem(components, unit)
    if norm == "max":  # entries refer to the coordinates of the embeddings
        rows = columns = np.eye(unit.shape[1])
        ids = {"tokens": components.token_of_node, "queries": components.query_of_node}
        problem = replace(problem, **{name: unit[np.unique(nodes)] for name, nodes in ids.items()})
    weights, multipliers = solve(problem)
    weights = repair_weights(problem, weights)
    certificate = certify_weights(problem, weights, multipliers, norm=norm, rtol=rtol).scaled(scale**-2)
    pressed = np.zeros(components.order.num_rows)  # 0 for edges that a longer path replaces
    pressed[problem.needed] = np.maximum(multipliers[: problem.n_priorities], 0.0)
    if 0 < certificate.lower < np.inf:
        pressed *= certificate.lower / pressed.sum()
    return {
        "scores": score_table(components.nodes, problem.scores(weights)),
        "weights": rows @ weights @ columns.T / scale**2,
        "certificate": certificate,
        "multipliers": multiplier_table(components.order, pressed),
    }


@dataclass(frozen=True, eq=False, repr=False)
class NormedSolution(Solution):
    """A W of least norm as scores and weights, with bounds on that norm. There may be other such W.

    The weights are sparse for the max norm with orthonormal embeddings.

    Attributes
    ----------
    certificate : NormCertificate
        ``lower ≤ min ‖W‖ ≤ upper``.
    multipliers : pyarrow.Table
        Columns above, below (components) and multiplier (float64), one row per edge of the order. The
        multipliers add up to the lower bound.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1])  # under 2, 0 beats 1 and 1 beats 2
    >>> normed = solve_normed(at.find_components(at.extract_edges(samples)), norm="max").expect()
    >>> normed.norm, normed.best_margin, normed.scores.column("score").to_pylist()
    ('max', 1.0, [1.0, 0.0, -1.0])
    """

    certificate: NormCertificate
    multipliers: pa.Table

    @property
    def norm(self) -> str:
        """The norm that is minimised: "max" or "spectral"."""
        return self.certificate.norm

    @property
    def best_margin(self) -> float:
        """The largest margin that a W of norm 1 can give every priority; infinite if there is none."""
        return 1.0 / self.certificate.upper if self.certificate.upper > 0 else np.inf


def solve_normed(
    components: Components, *, norm: WeightNorm, embeddings: object = None, rtol: float | None = None
) -> NormedSolution:
    """Solve min ‖W‖ s.t. ties score equal and priorities score ≥ 1 apart, in the max or the spectral norm.

    Sign descent and Adam seek the largest margin in the max norm, spectral descent and Muon in the spectral
    norm, on data without cycles. With orthonormal embeddings the least max norm is half the longest path of
    any query; other problems can have up to about 32 tokens.

    Parameters
    ----------
    components : Components
        The components and their order.
    norm : "max" or "spectral"
        The largest absolute entry of W, or its largest singular value.
    embeddings : float array, shape (n_tokens, dim), optional
        E. None means orthonormal. If dependent rows make priorities contradict each other, nothing is
        certified.
    rtol : float, optional
        Relative gap between the certificate's bounds at which the answer counts as certified: 1e-12 for the
        closed form, else 1e-6.

    Examples
    --------
    >>> import attomaton as at
    >>> components = at.find_components(at.extract_edges(at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])))
    >>> solve_normed(components, norm="max").expect().best_margin  # a path of one edge under each of 1 and 2
    2.0
    """
    if norm not in ("max", "spectral"):
        raise UnsupportedOption(f"the norm is {show(norm)}; give 'max' or 'spectral'")
    exact = norm == "max" and embeddings is None
    rtol = real_number((1e-12 if exact else 1e-6) if rtol is None else rtol, "rtol", above=0, below=1)
    if exact:
        return _solve_levels(components, rtol)
    if norm == "max":
        from attomaton.solvers.norms.entries import solve_entries

        return NormedSolution(**_solve_norm(components, embeddings, norm, rtol, solve_entries))
    from attomaton.solvers.norms.interior import SpectralInterior

    solve = SpectralInterior(rtol=rtol / 10).solve_spectral
    return NormedSolution(**_solve_norm(components, embeddings, norm, rtol, solve))


def _solve_levels(components: Components, rtol: float) -> NormedSolution:
    """The closed form of the max norm for orthonormal embeddings, with the longest path as its proof."""
    from attomaton.solvers.norms.entries import bound_path, find_longest, place_levels

    positions, flow = place_levels(components), find_longest(components)
    scores = score_table(components.nodes, positions[components.component_of_node])
    lower, upper = bound_path(components, flow), float(np.abs(positions).max(initial=0.0))
    above, below = column(components.order, "above"), column(components.order, "below")
    missed = max(0.0, 1.0 - float((positions[above] - positions[below]).min(initial=1.0)))
    return NormedSolution(
        scores=scores,
        weights=sparse_weights(scores, components.edges.n_tokens),
        certificate=NormCertificate(lower, upper, relative_gap(lower, upper), missed, rtol, "max"),
        multipliers=multiplier_table(components.order, flow),
    )
