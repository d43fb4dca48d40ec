"""Solve the Graph-SVM in the nuclear, max and spectral norms: the best margins that optimisers can reach.

:func:`solve_factored` is for the nuclear norm, :func:`solve_normed` for the others.
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
from attomaton.solvers.norms import certify
from attomaton.solvers.norms.certify import NormCertificate, WeightNorm
from attomaton.solvers.norms.problem import FactoredProblem, factored_problem

if TYPE_CHECKING:
    from attomaton.solvers.norms.interior import InteriorPoint

# Singular values smaller than this, relative to the largest, do not count for the rank.
NEGLIGIBLE_SINGULAR = 1e-5


@dataclass(frozen=True, eq=False, repr=False)
class FactoredSolution(Solution):
    """The weights W of least nuclear norm, with scores and bounds on the norm.

    Attributes
    ----------
    weights : float64 array, shape (dim, dim)
        W, with shape (n_tokens, n_tokens) for orthonormal embeddings. All entries may be nonzero.
    certificate : NormCertificate
        The bounds ``lower ≤ min ‖W‖_* ≤ upper``.
    multipliers : pyarrow.Table
        Columns above, below (components) and multiplier (float64), one row per edge of the order. The
        multipliers sum to the lower bound.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])  # 0 beats 1 under 1, and 2 under 2
    >>> solve_factored(at.find_components(at.extract_edges(samples))).expect().rank
    1
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
    """Find the W of least nuclear norm that scores tied tokens equal, and priorities at least 1 apart.

    The nuclear norm is the sum of the singular values, the least ½‖K‖² + ½‖Q‖² with K Qᵀ = W. Weight decay on
    the two factors keeps it small. Time grows with the cube of the number of priorities and ties, so the
    problem should have at most about 64 tokens.

    Parameters
    ----------
    components : Components
        The components and their order.
    embeddings : float array, shape (n_tokens, dim), optional
        The embeddings of the tokens; None means orthonormal. If linearly dependent rows make priorities
        contradict each other, nothing is certified. To treat these priorities as ties, pass
        ``separate(components, embeddings).components``.
    rtol : float
        The relative gap between the certificate's bounds up to which the answer counts as certified.
    solver : InteriorPoint, optional
        The solver; by default an ``InteriorPoint`` with a tenth of ``rtol``.

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


# The fields of a solution in any norm: the certified weights and multipliers from ``solve``.
def _solve_norm(
    components: Components,
    embeddings: object,
    norm: WeightNorm,
    rtol: float,
    solve: Callable[[FactoredProblem], tuple[Float64, Float64]],
) -> dict[str, Any]:
    n_tokens = components.edges.n_tokens
    table = np.eye(n_tokens) if embeddings is None else check_embeddings(embeddings, n_tokens)
    unit, scale = scale_rows(table)
    # The problem is written in orthonormal bases, which change no singular value. They change the largest
    # entry, so the max norm keeps the coordinates of the embeddings.
    problem, row_basis, column_basis = factored_problem(components, unit)
    if norm == "max":
        row_basis = column_basis = np.eye(unit.shape[1])
        ids = {"tokens": components.token_of_node, "queries": components.query_of_node}
        problem = replace(problem, **{name: unit[np.unique(nodes)] for name, nodes in ids.items()})
    weights, multipliers = solve(problem)
    weights = certify.repair_weights(problem, weights)
    certificate = certify.certify_weights(problem, weights, multipliers, norm=norm, rtol=rtol)
    certificate = certificate.scaled(scale**-2)
    flow = np.zeros(components.order.num_rows)  # 0 for edges that a longer path replaces
    flow[problem.needed] = np.maximum(multipliers[: problem.n_priorities], 0.0)
    if 0 < certificate.lower < np.inf:  # multipliers sum to the lower bound
        flow *= certificate.lower / flow.sum()
    return {
        "scores": score_table(components.nodes, problem.scores(weights)),
        "weights": row_basis @ weights @ column_basis.T / scale**2,
        "certificate": certificate,
        "multipliers": multiplier_table(components.order, flow),
    }


@dataclass(frozen=True, eq=False, repr=False)
class NormedSolution(Solution):
    """Weights W of least max or spectral norm, with scores and bounds on the norm; W may not be unique.

    Attributes
    ----------
    certificate : NormCertificate
        The bounds ``lower ≤ min ‖W‖ ≤ upper``.
    multipliers : pyarrow.Table
        Columns above, below (components) and multiplier (float64), one row per edge of the order. The
        multipliers sum to the lower bound.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1])  # under 2, 0 beats 1 and 1 beats 2
    >>> solve_normed(at.find_components(at.extract_edges(samples)), norm="max").expect().best_margin
    1.0
    """

    certificate: NormCertificate
    multipliers: pa.Table

    @property
    def norm(self) -> str:
        """The norm that is minimised: "max" or "spectral"."""
        return self.certificate.norm

    @property
    def best_margin(self) -> float:
        """The largest margin that a W of norm 1 can give every priority; infinite if there is no priority."""
        return 1.0 / self.certificate.upper if self.certificate.upper > 0 else np.inf


def solve_normed(
    components: Components, *, norm: WeightNorm, embeddings: object = None, rtol: float | None = None
) -> NormedSolution:
    """Find a W of least max or spectral norm that scores tied tokens equal, and priorities at least 1 apart.

    On data without cycles, sign descent and Adam maximise the margin in the max norm, and spectral descent
    and Muon in the spectral norm. With orthonormal embeddings the least max norm is half the longest path of
    any query; other problems should have at most about 32 tokens.

    Parameters
    ----------
    components : Components
        The components and their order.
    norm : "max" or "spectral"
        The norm to minimise: the largest absolute entry of W, or its largest singular value.
    embeddings : float array, shape (n_tokens, dim), optional
        The embeddings of the tokens; None means orthonormal. If linearly dependent rows make priorities
        contradict each other, nothing is certified.
    rtol : float, optional
        The relative gap between the certificate's bounds up to which the answer counts as certified. The
        default is 1e-12 for the max norm with orthonormal embeddings, otherwise 1e-6.

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
        from attomaton.solvers.norms.entries import solve_entries  # imports scipy.optimize, which takes long

        return NormedSolution(**_solve_norm(components, embeddings, norm, rtol, solve_entries))
    from attomaton.solvers.norms.interior import SpectralInterior  # compiles, so only when needed

    solve = SpectralInterior(rtol=rtol / 10).solve_spectral
    return NormedSolution(**_solve_norm(components, embeddings, norm, rtol, solve))


# The closed form of the max norm for orthonormal embeddings, with the longest path as its proof.
def _solve_levels(components: Components, rtol: float) -> NormedSolution:
    from attomaton.solvers.norms.entries import bound_path, find_longest, place_levels  # as above

    positions = place_levels(components)
    flow = find_longest(components)
    scores = score_table(components.nodes, positions[components.component_of_node])
    lower, upper = bound_path(components, flow), float(np.abs(positions).max(initial=0.0))
    above, below = column(components.order, "above"), column(components.order, "below")
    missed = max(0.0, 1.0 - float((positions[above] - positions[below]).min(initial=1.0)))
    return NormedSolution(
        scores=scores,
        weights=sparse_weights(scores, components.edges.n_tokens),
        certificate=NormCertificate(lower, upper, certify.relative_gap(lower, upper), missed, rtol, "max"),
        multipliers=multiplier_table(components.order, flow),
    )
