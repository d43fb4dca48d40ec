"""Solve the Graph-SVM of all queries: the direction in which training moves the attention weights.

:func:`solve_graph_svm` is the entry point. Each branch runs a solver, repairs the answer (scales it to a
smallest margin of 1) and certifies it: orthonormal embeddings, other embeddings, or the nuclear norm.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol, cast, overload, runtime_checkable

import numpy as np
import pyarrow as pa

from attomaton.base import solutions
from attomaton.base.borders import MEND, check_floats, check_kind, check_table, trusted
from attomaton.base.errors import InvalidEmbeddings, MismatchedParts, UnsupportedOption
from attomaton.base.options import check_threads, real_number, show
from attomaton.base.solutions import Solution
from attomaton.base.tables import Float64, column
from attomaton.graphs.components import Components
from attomaton.graphs.separation import separate
from attomaton.solvers.hard import certify
from attomaton.solvers.hard.certify import HardCertificate
from attomaton.solvers.hard.problem import (
    MULTIPLIER_SCHEMA,
    EmbeddedProblem,
    OrderProblem,
    embedded_problem,
    multiplier_table,
    order_problem,
)
from attomaton.solvers.hard.rows import RowConstraints, RowProof, certify_answer, in_pairs, row_constraints

if TYPE_CHECKING:
    from attomaton.solvers.norms.interior import InteriorPoint
    from attomaton.solvers.norms.solve import FactoredSolution

# Scores of problems with at most this many products of numbers are summed in double-double.
FEW_PRODUCTS = 100_000


# Most nodes for which a dense solver is the fallback.
SMALL_PROBLEM = 600


@runtime_checkable
class OrderSolver(Protocol):
    """A solver for orthonormal embeddings."""

    def solve_order(self, problem: OrderProblem) -> tuple[Float64, Float64]:
        """Return component positions, shape (n_components,), and edge multipliers, shape (n_edges,)."""
        ...


@runtime_checkable
class EmbeddedSolver(Protocol):
    """A solver for embeddings that are not orthonormal."""

    def solve_embedded(self, problem: EmbeddedProblem) -> tuple[Float64, Float64]:
        """Return forces on the nodes, shape (n_nodes,), and edge multipliers, shape (n_edges,)."""
        ...


class Kind(Enum):
    """Whether every priority is met, or only the priorities that the embeddings can separate.

    Examples
    --------
    >>> Kind.EVERY_PRIORITY.value
    'every priority is met with a margin of 1'
    """

    EVERY_PRIORITY = "every priority is met with a margin of 1"
    GENERALISED = "the embeddings cannot separate some priorities; those count as ties, all others are met"


@dataclass(frozen=True, eq=False, repr=False)
class HardSolution(Solution):
    """The solution W_svm of the Graph-SVM as scores and weights, with bounds on its squared norm.

    Attributes
    ----------
    certificate : HardCertificate
        The bounds ``lower ≤ ‖W_svm‖² ≤ upper``.
    components : Components
        The given components, after merging those that the embeddings cannot separate.
    multipliers : pyarrow.Table
        Columns above, below (components) and multiplier (float64), one row per edge of the order. A positive
        multiplier marks a tight priority.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2]], [0])  # 0 beats 1 and the query 2
    >>> hard = solve_graph_svm(at.find_components(at.extract_edges(samples))).expect()
    >>> hard.weights.toarray()[:, 2].round(4).tolist(), hard.kind.name
    ([0.6667, -0.3333, -0.3333], 'EVERY_PRIORITY')
    """

    certificate: HardCertificate
    components: Components
    multipliers: pa.Table

    def __post_init__(self) -> None:
        check_kind(self.components, Components, "components")
        solutions.check_scores(self.scores, self.components.nodes, "the table of hard scores")
        if "weights" in self.__dict__:
            solutions.check_weights(self.weights, self.components.edges.n_tokens, "the array of hard weights")
        check_table(self.multipliers, MULTIPLIER_SCHEMA, "the table of multipliers")
        ends = ["above", "below"]
        if not self.multipliers.select(ends).equals(self.components.order.select(ends)):
            raise MismatchedParts(f"the multipliers and the order have different edges; {MEND}")
        values = check_floats(column(self.multipliers, "multiplier"), (None,), "the table of multipliers")
        if (values < 0).any():
            raise MismatchedParts(f"a multiplier is negative; {MEND}")

    @property
    def kind(self) -> Kind:
        """Whether every priority is met, or only the priorities that the embeddings can separate."""
        return Kind.GENERALISED if self.certificate.inseparable else Kind.EVERY_PRIORITY


@overload
def solve_graph_svm(
    components: Components,
    *,
    embeddings: object = None,
    norm: Literal["frobenius"] = "frobenius",
    rtol: float | None = None,
    solver: OrderSolver | EmbeddedSolver | None = None,
    threads: int | None = None,
) -> HardSolution: ...


@overload
def solve_graph_svm(
    components: Components,
    *,
    embeddings: object = None,
    norm: Literal["nuclear"],
    rtol: float | None = None,
    solver: "InteriorPoint | None" = None,
) -> "FactoredSolution": ...


def solve_graph_svm(
    components: Components,
    *,
    embeddings: object = None,
    norm: Literal["frobenius", "nuclear"] = "frobenius",
    rtol: float | None = None,
    solver: "OrderSolver | EmbeddedSolver | InteriorPoint | None" = None,
    threads: int | None = None,
) -> "HardSolution | FactoredSolution":
    """Find the weights W of least norm that score tied tokens equal, and priorities at least 1 apart.

    Parameters
    ----------
    components : Components
        The components and their order.
    embeddings : float array, shape (n_tokens, dim), optional
        The embeddings of the tokens; None means orthonormal. Priorities that contradict each other under the
        embeddings count as ties (:func:`~attomaton.graphs.separation.separate`); ``kind`` of the solution
        tells whether there are any.
    norm : "frobenius" or "nuclear"
        The norm to minimise. Gradient descent on W keeps the Frobenius norm small; weight decay on the
        factors of W = K Qᵀ keeps the nuclear norm small. The solver for the nuclear norm is slow, so give at
        most about 64 tokens.
    rtol : float, optional
        The relative gap between the certificate's bounds up to which the answer counts as certified. The
        default is 1e-12 for orthonormal embeddings with the Frobenius norm, otherwise 1e-6.
    solver : optional
        The solver to use: by default ``Placement`` for orthonormal embeddings, ``Joint`` for others, and
        ``InteriorPoint`` for the nuclear norm.
    threads : int, optional
        Threads of the solver for orthonormal embeddings; by default one per processor.

    Returns
    -------
    HardSolution or FactoredSolution
        The solution; ``.expect()`` raises an error if it is not certified. ``norm="nuclear"`` returns a
        FactoredSolution, from which no automaton can be built.

    Examples
    --------
    >>> import attomaton as at
    >>> components = at.find_components(at.extract_edges(at.Samples.from_lists([[0, 1], [0, 2]], [0, 0])))
    >>> solve_graph_svm(components).expect().scores.column("score").to_pylist()
    [0.5, -0.5, 0.5, -0.5]
    """
    if norm == "nuclear":
        from attomaton.solvers.norms.solve import solve_factored

        if threads is not None:
            raise UnsupportedOption("threads apply only to norm='frobenius'; leave them out for 'nuclear'")
        rtol = 1e-6 if rtol is None else rtol
        chosen = cast("InteriorPoint | None", solver)
        return solve_factored(components, embeddings=embeddings, rtol=rtol, solver=chosen)
    if norm != "frobenius":
        raise UnsupportedOption(
            f"the norm is {show(norm)}; give 'frobenius' or 'nuclear' "
            "(attomaton.solvers.norms.solve.solve_normed has 'max' and 'spectral')"
        )
    if hasattr(solver, "solve_factored"):
        raise UnsupportedOption(f"{solver!r} minimises the nuclear norm; give norm='nuclear' with it")
    rtol = None if rtol is None else real_number(rtol, "rtol", least=0, below=1)
    threads = check_threads(threads)
    if embeddings is None:
        return _solve_order(components, 1e-12 if rtol is None else rtol, solver, threads)
    return _solve_embedded(components, embeddings, 1e-6 if rtol is None else rtol, solver)


# Without embeddings, W has the scores as entries, and every component has one position.
def _solve_order(components: Components, rtol: float, solver: object, threads: int | None) -> HardSolution:
    from attomaton.solvers.hard.placement import Placement  # compiles, so only when needed

    chosen = Placement(threads=threads) if solver is None else solver
    if not isinstance(chosen, OrderSolver):
        raise UnsupportedOption(
            f"the solver {chosen!r} needs embeddings; without embeddings, use Placement or Clarabel"
        )
    problem = order_problem(components)
    positions, flow = chosen.solve_order(problem)
    certificate = certify.certify_positions(problem, positions, flow, rtol=rtol)
    if certificate.violation > certify.FEASIBLE_VIOLATION:
        positions = certify.repair_positions(problem, positions)
        certificate = certify.certify_positions(problem, positions, flow, rtol=rtol)
    return trusted(
        HardSolution,
        components=components,
        scores=solutions.score_table(components.nodes, positions[components.component_of_node]),
        certificate=certificate,
        multipliers=multiplier_table(components.order, flow),
    )


# With embeddings, the problem is solved and certified for rows of length about 1, then scaled back.
def _solve_embedded(unmerged: Components, embeddings: object, rtol: float, solver: object) -> HardSolution:
    if not isinstance(solver, EmbeddedSolver | None):
        raise UnsupportedOption(f"the solver {solver!r} cannot use embeddings; with embeddings, use Joint")
    unit, scale = solutions.scale_rows(solutions.check_embeddings(embeddings, unmerged.edges.n_tokens))
    if not 1e-70 < scale < 1e70:  # ‖W‖² is of the order of scale⁻⁴, and float64 ends at 1e308
        raise InvalidEmbeddings(
            f"the embeddings have lengths of about {scale:.0e}, so ‖W‖² overflows or underflows; "
            "rescale the embeddings, which changes no score"
        )
    separation = separate(unmerged, unit)
    components = separation.components
    problem = embedded_problem(components, unit)
    constraints = row_constraints(components, unit)
    answer, certificate = _solve_rows(problem, constraints, solver, rtol, separation.independent)
    weights = answer.weights[..., 0]  # without the double-double correction
    if answer.weights[..., 1].any() or constraints.n_products <= FEW_PRODUCTS:
        scores = constraints.scores_at(answer.weights, problem.token, problem.query)
    else:
        scores = (constraints.keys @ (weights @ constraints.queries.T))[problem.token, problem.query]
    # The scores were rounded too, so they may violate constraints more than W does.
    lowest, highest = certify.find_extremes(problem, scores)
    shortfall = 1.0 - float(certify.margins(problem, scores).min(initial=np.inf))
    violation = max(certificate.violation, shortfall, float((highest - lowest).max(initial=0.0)))
    certificate = replace(
        certificate.scaled(scale**-4),  # W of the given rows is W of the unit rows / scale²
        violation=violation,
        inseparable=int(separation.inseparable.sum()),
        farkas=separation.residual,
    )
    flow = np.zeros(components.order.num_rows)
    flow[constraints.number[~constraints.tie]] = answer.multipliers[~constraints.tie]
    return trusted(
        HardSolution,
        components=components,
        scores=solutions.score_table(components.nodes, scores),
        weights=weights / scale**2,
        certificate=certificate,
        multipliers=multiplier_table(components.order, flow / scale**4),
    )


# The first certified answer of several solvers, or else the best, and its certificate.
def _solve_rows(
    problem: EmbeddedProblem,
    constraints: RowConstraints,
    solver: EmbeddedSolver | None,
    rtol: float,
    independent: bool,
) -> tuple[RowProof, HardCertificate]:
    from attomaton.solvers.hard.dense import LeastDistance, find_answer
    from attomaton.solvers.hard.joint import Joint  # compiles, so only when needed

    solvers: list[EmbeddedSolver] = [Joint()] if solver is None else [solver]
    if solver is None and len(problem.token) <= SMALL_PROBLEM:  # first where Joint may be slow
        solvers.insert(1 if independent else 0, LeastDistance())
    answers: list[tuple[RowProof, HardCertificate]] = []
    for chosen in solvers:
        forces, flow = chosen.solve_embedded(problem)
        forces = certify.repair_forces(problem, forces)  # W = Eᵀ A F, scaled to a smallest margin of 1
        # Constraints are in another order than nodes and edges: `number` is the node of a tie, the edge of a
        # priority. The multiplier of a tie is the force on its node.
        number, tie = constraints.number, constraints.tie
        multipliers = np.where(tie, forces[np.where(tie, number, 0)], 0.0)
        multipliers[~tie] = flow[number[~tie]]
        weights = constraints.keys.T @ problem.combine(forces) @ constraints.queries
        proof = RowProof(in_pairs(weights), multipliers)
        answers.append((proof, certify_answer(constraints, proof, rtol=rtol)))
        if answers[-1][1].certified:
            return answers[-1]
    if solver is None and (last := find_answer(constraints)) is not None:
        answers.append((last, certify_answer(constraints, last, rtol=rtol)))
    return min(answers, key=lambda pair: (not pair[1].certified, abs(pair[1].gap)))
