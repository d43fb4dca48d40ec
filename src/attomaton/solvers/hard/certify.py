"""Proofs for the Graph-SVM: a lower and an upper bound on ‖W_svm‖², from the vectors alone.

Any feasible point gives an upper bound; any multipliers, after clipping and scaling, give a lower one (weak
duality). A solver's own verdict is never consulted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attomaton.base.borders import check_floats
from attomaton.base.kernels import add_precisely, compiled
from attomaton.base.ragged import centre, largest_of, sum_at
from attomaton.base.tables import Float64, Int64
from attomaton.solvers.hard.exact import check_exactly
from attomaton.solvers.hard.problem import EmbeddedProblem, OrderProblem

DIVERGED = 1e100
"""Forces and flows this large are no answer, and their squares soon no numbers."""

FEASIBLE = 1e-9
"""How much a constraint may be missed by rounding."""


@dataclass(frozen=True)
class HardCertificate:
    """Bounds on ‖W_svm‖².

    Attributes
    ----------
    lower, upper : float
        ``lower ≤ ‖W_svm‖² ≤ upper``; ``upper`` is the squared norm of the answer, for embedded tokens
        with what rounding may hide, or infinite if the answer is not feasible.
    gap : float
        Largest relative gap ∣upper − lower∣ / upper of any group that is solved on its own: any query for
        orthonormal embeddings, so that no small query hides behind a large one.
    violation : float
        Largest amount by which the returned answer misses a constraint (rounding, if anything).
    rtol : float
        The relative gap asked for.
    exact : bool or None
        Whether optimality was proved in whole numbers, without any rounding; None if that was not asked for.
    inseparable : int
        How many priorities the embeddings cannot meet, so that they count as ties.
    farkas : float
        What is left of the sum that proves this, relative to its terms (rounding, if anything).
    closest : str
        Which two embeddings nearly coincide, where that is why nothing could be proved.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2]], [0])  # 0 beats 1 and the query 2
    >>> certificate = at.solve_graph_svm(at.find_components(at.extract_edges(samples))).certificate
    >>> round(certificate.lower, 6), round(certificate.upper, 6), certificate.certified
    (0.666667, 0.666667, True)
    >>> round(certificate.scaled(4.0).upper, 6)  # of 2 W
    2.666667
    """

    lower: float
    upper: float
    gap: float
    violation: float
    rtol: float
    exact: bool | None = None
    inseparable: int = 0
    farkas: float = 0.0
    closest: str = ""

    @property
    def certified(self) -> bool:
        """Whether all numbers are finite, and gap, violation and Farkas sum within tolerance.

        Bounds that cross by more than the tolerance prove nothing either: then rounding made one of them.
        """
        finite = np.isfinite([self.lower, self.upper, self.gap, self.violation, self.farkas]).all()
        return bool(
            finite and abs(self.gap) <= self.rtol and self.violation <= FEASIBLE and self.farkas <= FEASIBLE
        )

    def scaled(self, factor: float) -> "HardCertificate":
        """The same bounds with ‖W‖² in other units: ``factor`` times as large."""
        return replace(self, lower=factor * self.lower, upper=factor * self.upper)

    def __str__(self) -> str:
        bounds = f"{self.lower:.12g} ≤ ‖W_svm‖² ≤ {self.upper:.12g}"
        proof = {None: "", True: ", exact in whole numbers", False: ", not exact in whole numbers"}[
            self.exact
        ]
        asked = f"relative gap {self.gap:.1e} (asked {self.rtol:.0e})"
        split = f", {self.inseparable} priorities counted as ties" if self.inseparable else ""
        near = f"; {self.closest}" if self.closest else ""
        return f"{bounds}, {asked}, violation {self.violation:.1e}{proof}{split}{near}"


def join_hard(parts: Sequence[HardCertificate]) -> HardCertificate:
    """The certificate of all queries from those of parts of them, which are solved apart; added in order."""
    if len(parts) == 1:
        return parts[0]
    return HardCertificate(
        lower=sum(part.lower for part in parts),
        upper=sum(part.upper for part in parts),
        gap=max((part.gap for part in parts), key=abs),
        violation=max(part.violation for part in parts),
        rtol=max(part.rtol for part in parts),
    )


def repair_positions(problem: OrderProblem, positions: Float64) -> Float64:
    """A feasible point near ``positions``: each group scaled until its smallest gap is 1.

    Raises the positions' norm by the same factor, so a good answer stays good. A group with a gap that is not
    positive is beyond repair and comes back as it is; the certificate will then say so.
    """
    smallest = np.full(problem.n_groups, np.inf)
    np.minimum.at(smallest, problem.group[problem.above], problem.gaps(positions))
    usable = np.where(smallest > 0, smallest, 1.0)
    return positions / usable[problem.group]


def certify_positions(
    problem: OrderProblem, positions: Float64, flow: Float64, *, rtol: float, exact: bool = False
) -> HardCertificate:
    """Bounds from positions p and any flow f ≥ 0 on the edges (orthonormal), group by group.

    With ``exact`` the edges with flow are also checked to be the tight ones of the optimum in whole numbers,
    for at most :data:`attomaton.solvers.hard.exact.MOST_NODES` components
    (:func:`attomaton.solvers.hard.exact.check_exactly` says what fails).
    """
    from attomaton.solvers.hard.certify import bound_groups  # compiles, so only when needed

    lower, upper, violation = bound_groups(problem, positions, flow)
    gaps = np.divide(upper - lower, upper, out=np.zeros_like(upper), where=upper != 0)
    return HardCertificate(
        lower=float(lower.sum()),
        upper=float(upper.sum()) if violation <= FEASIBLE else np.inf,
        gap=float(np.max(np.abs(gaps), initial=0.0)),
        violation=violation,
        rtol=rtol,
        exact=check_exactly(problem, flow).optimal if exact else None,
    )


def repair_forces(problem: EmbeddedProblem, forces: Float64) -> Float64:
    """The forces scaled until the smallest margin is 1; as they are if a margin is not positive."""
    smallest = float(margins(problem, problem.scores(forces)).min(initial=np.inf))
    return forces / smallest if 0 < smallest < np.inf else forces


def find_extremes(problem: EmbeddedProblem, scores: Float64) -> tuple[Float64, Float64]:
    """The lowest and the highest score of each component, shape (n_components,) each."""
    component, size = problem.component, len(problem.order.sizes)
    return -largest_of(component, -scores, size), largest_of(component, scores, size)


def margins(problem: EmbeddedProblem, scores: Float64) -> Float64:
    """By how much each priority holds, between the closest tokens of its components, shape (n_edges,)."""
    lowest, highest = find_extremes(problem, scores)
    return lowest[problem.order.above] - highest[problem.order.below]


def certify_forces(
    problem: EmbeddedProblem, forces: Float64, flow: Float64, *, rtol: float
) -> HardCertificate:
    """Bounds from the forces a of a point and any flow f ≥ 0 on the edges (embedded).

    They are those of the Gram matrices, from which a solver can tell when to stop; what is returned is proved
    from rows (:func:`attomaton.solvers.hard.rows.certify_answer`).

    Upper: aᵀQa of the point scaled to a smallest margin of 1. Lower: (Σf)² / bᵀQb, where b is a with each
    component's sum set to div f: then b is what f and some free multipliers of the ties put on the nodes.
    """
    if not max(float(np.max(np.abs(part), initial=0.0)) for part in (forces, flow)) < DIVERGED:
        return HardCertificate(0.0, np.inf, np.inf, np.inf, rtol)
    scores = problem.scores(forces)
    smallest = float(margins(problem, scores).min(initial=np.inf))
    scale = 1.0 / smallest if 0 < smallest < np.inf else 1.0
    violation = float(np.maximum(_spread(problem, scores) * scale, 1.0 - min(smallest * scale, 1.0)))
    upper = scale * float(forces @ scores) * scale if violation <= FEASIBLE else np.inf
    lower = _dual_bound(problem, forces, np.maximum(flow, 0.0))
    gap = (upper - lower) / upper if 0 < upper < np.inf else upper
    return HardCertificate(lower, upper, gap, violation, rtol)


def _spread(problem: EmbeddedProblem, scores: Float64) -> float:
    """The largest difference of scores inside a component."""
    return 2 * float(np.max(np.abs(centre(problem.component, scores)), initial=0.0))


def _dual_bound(problem: EmbeddedProblem, forces: Float64, flow: Float64) -> float:
    """(Σf)² / bᵀQb for a flow f ≥ 0 and forces b that f and free ties put on the nodes."""
    order = problem.order
    sums = sum_at(problem.component, forces, len(order.sizes))
    missing = (order.divergence(flow) - sums) / order.sizes
    pressed = forces + missing[problem.component]
    energy = float(pressed @ problem.scores(pressed))
    return float(flow.sum()) ** 2 / energy if energy > 0 else 0.0


def bound_groups(problem: OrderProblem, positions: Float64, flow: Float64) -> tuple[Float64, Float64, float]:
    """Lower and upper bound of each group, shape (n_groups,) each, and how much the smallest gap misses 1.

    Upper: Σ|C|p². Lower: (Σf)² / Σ (div f)²/|C| with f = max(flow, 0), the dual value at f's best multiple.
    """
    positions = check_floats(positions, (len(problem.sizes),), "positions", finite=False)
    flow = check_floats(flow, (len(problem.above),), "the flow on the edges", finite=False)
    sums = np.zeros((3, problem.n_groups))
    ends = problem.above, problem.below
    shortfall = _sum_groups(problem.sizes, ends, problem.borders, (positions, flow), sums)
    upper, pushed, spread = sums
    lower = np.divide(pushed**2, spread, out=np.zeros_like(spread), where=spread > 0)
    return lower, upper, shortfall


@compiled
def _sum_groups(
    sizes: Any,
    ends: tuple[Int64, Int64],
    borders: tuple[Int64, Int64],
    answer: tuple[Any, Any],
    sums: Any,
) -> float:
    """Write Σ|C|p², Σf and Σ(div f)²/|C| of each group; returns how much the smallest gap misses 1."""
    (above, below), (nodes, edges), (positions, flow) = ends, borders, answer
    shortfall, total, lost = 0.0, np.zeros(3), np.zeros(3)
    for group in range(len(nodes) - 1):
        first = nodes[group]
        divergence, slip = np.zeros(nodes[group + 1] - first), np.zeros(nodes[group + 1] - first)
        total[:], lost[:] = 0.0, 0.0
        for edge in range(edges[group], edges[group + 1]):
            a, b, pushed = above[edge], below[edge], max(flow[edge], 0.0)
            missed = 1.0 - (positions[a] - positions[b])
            if not missed <= shortfall:  # so that a position that is not a number shows
                shortfall = missed
            add_precisely(divergence, slip, a - first, pushed)
            add_precisely(divergence, slip, b - first, -pushed)
            add_precisely(total, lost, 1, pushed)
        for node in range(len(divergence)):
            position, spread = positions[first + node], divergence[node] + slip[node]
            add_precisely(total, lost, 0, sizes[first + node] * (position * position))
            add_precisely(total, lost, 2, spread * spread / sizes[first + node])
        for row in range(3):
            sums[row, group] = total[row] + lost[row]
    return shortfall
