"""Prove bounds on ‖W_svm‖² for the Graph-SVM, from the vectors alone.

Any feasible point gives an upper bound. Any multipliers, after clipping and scaling, give a lower bound (weak
duality). A solver's own status is never used. :func:`certify_positions` is for orthonormal embeddings,
:func:`certify_forces` for others; :func:`check_exactly` proves positions in integers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np

from attomaton.base.borders import check_floats
from attomaton.base.errors import UnsupportedOption
from attomaton.base.native import sum_groups
from attomaton.base.ragged import centre, largest_of, sum_at
from attomaton.base.tables import Float64
from attomaton.solvers.hard.problem import EmbeddedProblem, OrderProblem

# Most components for exact arithmetic in Python integers: well under a second.
MOST_PROVED = 20_000

# Larger forces and flows mean divergence; their squares soon overflow.
DIVERGED = 1e100

# Constraint violation that rounding may cause.
FEASIBLE_VIOLATION = 1e-9


@dataclass(frozen=True, eq=False)
class ExactCheck:
    """The positions p_C implied by the tight edges, and whether they are optimal."""

    reason: str  # the failed condition and its edge; empty at the optimum
    # p_C = numerators[C] / denominators[C], not in lowest terms; no items if the tight edges close a cycle
    numerators: list[int]
    denominators: list[int]

    @property
    def optimal(self) -> bool:
        return not self.reason

    @property
    def positions(self) -> list[Fraction]:
        return [Fraction(*pair) for pair in zip(self.numerators, self.denominators, strict=True)]


class _BlockWalk(NamedTuple):
    """All blocks, each walked along tight edges from its root outwards; lists have one item per node."""

    nodes: list[int]  # in the order of the walk
    entry: list[int | None]  # the edge by which node i was entered, None for a root
    parent: list[int]  # the node from which node i was entered, a root itself
    root: list[int]  # the root of the block of node i
    offset: list[int]  # the position of node i minus the position of its root


def check_exactly(problem: OrderProblem, flow: Float64) -> ExactCheck:
    """Compute the positions from the edges with positive flow, and check their optimality, in integers.

    The edges with flow are claimed to be tight. They join components into rigid blocks with integer offsets,
    and each block is at its balance point, so every position is a fraction over its block's weight. Three
    conditions are checked without tolerance: tight edges form a forest; p_A − p_B ≥ 1 on every edge; the
    multiplier of every tight edge is ≥ 0.
    """
    if len(problem.sizes) > MOST_PROVED:
        raise UnsupportedOption(
            f"{len(problem.sizes):,} components are too many for an exact proof in integers; check at most "
            f"{MOST_PROVED:,}, or use the certificate's gap"
        )
    sizes: list[int] = problem.sizes.tolist()  # Python integers do not overflow
    above: list[int] = problem.above.tolist()
    below: list[int] = problem.below.tolist()
    tight: list[int] = np.flatnonzero(flow > 0).tolist()
    walk = _walk_blocks(len(sizes), [(above[edge], below[edge], edge) for edge in tight])
    unused = set(tight).difference(walk.entry)  # both ends were entered by other edges
    if unused:
        edge = min(unused)
        return ExactCheck(f"edge {above[edge]} → {below[edge]} closes a cycle of tight edges", [], [])
    numerators, denominators = _balance_blocks(walk, sizes)
    reason = ""
    for top, bottom in zip(above, below, strict=True):
        # p_top − p_bottom over the common denominator, in integers
        common = denominators[top] * denominators[bottom]
        gap = numerators[top] * denominators[bottom] - numerators[bottom] * denominators[top]
        if gap < common:
            reason = f"edge {top} → {bottom} is violated: its gap is {Fraction(gap, common)}"
            break
    negative = None if reason else _find_negative(walk, sizes, numerators, denominators)
    if negative is not None:
        edge, multiplier = negative
        reason = f"edge {above[edge]} → {below[edge]} has the negative multiplier {multiplier}"
    return ExactCheck(reason, numerators, denominators)


# Numerator and denominator of each position, with the weighted mean of each block at 0.
def _balance_blocks(walk: _BlockWalk, sizes: list[int]) -> tuple[list[int], list[int]]:
    weight, moment = [0] * len(sizes), [0] * len(sizes)
    for root, size, offset in zip(walk.root, sizes, walk.offset, strict=True):
        weight[root] += size
        moment[root] += size * offset
    nodes = zip(walk.root, walk.offset, strict=True)
    numerators = [offset * weight[root] - moment[root] for root, offset in nodes]
    return numerators, [weight[root] for root in walk.root]


# A tight edge with a negative multiplier, and this multiplier; None at the optimum.
def _find_negative(
    walk: _BlockWalk, sizes: list[int], numerators: list[int], denominators: list[int]
) -> tuple[int, Fraction] | None:
    # At balance the multiplier of an edge is Σ |C| p_C over the components on the side of its upper end.
    # `load` is Σ |C| p_C over the subtree of each node, times the denominator of the block.
    load = [size * numerator for size, numerator in zip(sizes, numerators, strict=True)]
    for node in reversed(walk.nodes):  # from the leaves inwards
        edge, parent = walk.entry[node], walk.parent[node]
        if edge is None:
            continue
        multiplier = load[node] if walk.offset[node] > walk.offset[parent] else -load[node]
        if multiplier < 0:
            return edge, Fraction(multiplier, denominators[node])
        load[parent] += load[node]
    return None


# The walk along tight edges (above, below, edge) over `size` components, without edges that close cycles.
def _walk_blocks(size: int, tight: Sequence[tuple[int, int, int]]) -> _BlockWalk:
    # (neighbour, edge, offset of the neighbour minus offset of the node): a tight edge has a gap of 1.
    neighbours: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    for above, below, edge in tight:
        neighbours[above].append((below, edge, -1))
        neighbours[below].append((above, edge, 1))
    walk = _BlockWalk([], [None] * size, list(range(size)), list(range(size)), [0] * size)
    entered = [False] * size
    for root in range(size):
        waiting = [] if entered[root] else [root]
        entered[root] = True
        while waiting:
            node = waiting.pop()
            walk.nodes.append(node)
            for neighbour, edge, step in neighbours[node]:
                if not entered[neighbour]:
                    entered[neighbour] = True
                    walk.entry[neighbour], walk.parent[neighbour], walk.root[neighbour] = edge, node, root
                    walk.offset[neighbour] = walk.offset[node] + step
                    waiting.append(neighbour)
    return walk


@dataclass(frozen=True)
class BoundsCertificate:
    """Two bounds on a norm, and the largest violation of a constraint by the answer."""

    lower: float
    upper: float
    gap: float
    violation: float
    rtol: float

    @property
    def certified(self) -> bool:
        """Whether all numbers are finite, gap and violation are within tolerance, and bounds do not cross."""
        finite = np.isfinite([self.lower, self.upper, self.gap, self.violation]).all()
        return bool(finite and abs(self.gap) <= self.rtol and self.violation <= FEASIBLE_VIOLATION)

    def scaled(self, factor: float) -> Self:
        return replace(self, lower=factor * self.lower, upper=factor * self.upper)

    def _describe(self, norm: str) -> str:
        bounds = f"{self.lower:.12g} ≤ {norm} ≤ {self.upper:.12g}"
        gap = f"relative gap {self.gap:.1e} (tolerance {self.rtol:.0e})"
        return f"{bounds}, {gap}, violation {self.violation:.1e}"


@dataclass(frozen=True)
class HardCertificate(BoundsCertificate):
    """The bounds ``lower`` ≤ ‖W_svm‖² ≤ ``upper``, certified if they agree to ``rtol``.

    ``upper`` is the squared norm of the answer, infinite if the answer is not feasible, and ``violation`` its
    largest constraint violation. ``gap`` is the largest relative gap of any query, or of all queries together
    with embeddings. ``exact`` says whether optimality was proved in integers (None: not requested).
    ``inseparable`` counts the priorities that the embeddings cannot meet and that count as ties. ``farkas``
    is the residual of the sum that proves this, relative to its terms. ``closest`` names two nearly equal
    embeddings that prevent a proof.
    """

    exact: bool | None = None
    inseparable: int = 0
    farkas: float = 0.0
    closest: str = ""

    @property
    def certified(self) -> bool:
        """Whether all numbers are finite, and gap, violation and Farkas sum are within tolerance."""
        return super().certified and self.farkas <= FEASIBLE_VIOLATION

    def __str__(self) -> str:
        proof = "" if self.exact is None else f",{' not' * (not self.exact)} exact in integers"
        split = f", {self.inseparable} priorities counted as ties" if self.inseparable else ""
        near = f"; {self.closest}" if self.closest else ""
        return f"{self._describe('‖W_svm‖²')}{proof}{split}{near}"


def join_hard(certificates: Sequence[HardCertificate]) -> HardCertificate:
    if len(certificates) == 1:
        return certificates[0]
    return HardCertificate(
        lower=sum(certificate.lower for certificate in certificates),
        upper=sum(certificate.upper for certificate in certificates),
        gap=max((certificate.gap for certificate in certificates), key=abs),
        violation=max(certificate.violation for certificate in certificates),
        rtol=max(certificate.rtol for certificate in certificates),
    )


def repair_positions(problem: OrderProblem, positions: Float64) -> Float64:
    """Scale each group to a smallest gap of 1; a group with a gap that is not positive stays unchanged."""
    smallest = np.full(problem.n_groups, np.inf)
    np.minimum.at(smallest, problem.group[problem.above], problem.gaps(positions))
    usable = np.where(smallest > 0, smallest, 1.0)
    return positions / usable[problem.group]


def certify_positions(
    problem: OrderProblem, positions: Float64, flow: Float64, *, rtol: float, exact: bool = False
) -> HardCertificate:
    """Bounds from positions p and any flow f ≥ 0 on the edges (orthonormal), group by group."""
    lower, upper, violation = bound_groups(problem, positions, flow)
    gaps = np.divide(upper - lower, upper, out=np.zeros_like(upper), where=upper != 0)
    return HardCertificate(
        lower=float(lower.sum()),
        upper=float(upper.sum()) if violation <= FEASIBLE_VIOLATION else np.inf,
        gap=float(np.max(np.abs(gaps), initial=0.0)),
        violation=violation,
        rtol=rtol,
        exact=check_exactly(problem, flow).optimal if exact else None,
    )


def repair_forces(problem: EmbeddedProblem, forces: Float64) -> Float64:
    """The forces scaled until the smallest margin is 1; unchanged if a margin is not positive."""
    smallest = float(margins(problem, problem.scores(forces)).min(initial=np.inf))
    return forces / smallest if 0 < smallest < np.inf else forces


def find_extremes(problem: EmbeddedProblem, scores: Float64) -> tuple[Float64, Float64]:
    """The lowest and the highest score of each component, shape (n_components,) each."""
    component, size = problem.component, len(problem.order.sizes)
    return -largest_of(component, -scores, size), largest_of(component, scores, size)


def margins(problem: EmbeddedProblem, scores: Float64) -> Float64:
    """The margin of each priority, between the closest tokens of its components, shape (n_edges,)."""
    lowest, highest = find_extremes(problem, scores)
    return lowest[problem.order.above] - highest[problem.order.below]


def certify_forces(
    problem: EmbeddedProblem, forces: Float64, flow: Float64, *, rtol: float
) -> HardCertificate:
    """Bounds from the forces a of a point and any flow f ≥ 0 on the edges (embedded)."""
    # These bounds, from Gram matrices, tell a solver when to stop; the answer is proved from rows
    # (`certify_answer`).
    # Larger forces overflow when they are squared; this is also true if an entry is NaN.
    if not max(float(np.max(np.abs(values), initial=0.0)) for values in (forces, flow)) < DIVERGED:
        return HardCertificate(0.0, np.inf, np.inf, np.inf, rtol)
    # Upper: aᵀQa of the point scaled to a smallest margin of 1, if the ties hold.
    scores = problem.scores(forces)
    smallest = float(margins(problem, scores).min(initial=np.inf))
    scale = 1.0 / smallest if 0 < smallest < np.inf else 1.0
    spread = 2 * float(np.max(np.abs(centre(problem.component, scores)), initial=0.0))
    violation = float(np.maximum(spread * scale, 1.0 - min(smallest * scale, 1.0)))
    upper = scale * float(forces @ scores) * scale if violation <= FEASIBLE_VIOLATION else np.inf
    # Lower: (Σf)² / bᵀQb, where b is a with the sum over each component set to div f. So b is the force of f
    # and some multipliers of the ties, which cancel inside a component.
    order = problem.order
    flow = np.maximum(flow, 0.0)
    sums = sum_at(problem.component, forces, len(order.sizes))
    balanced = forces + ((order.divergence(flow) - sums) / order.sizes)[problem.component]
    energy = float(balanced @ problem.scores(balanced))
    lower = float(flow.sum()) ** 2 / energy if energy > 0 else 0.0
    gap = (upper - lower) / upper if 0 < upper < np.inf else upper
    return HardCertificate(lower, upper, gap, violation, rtol)


def bound_groups(problem: OrderProblem, positions: Float64, flow: Float64) -> tuple[Float64, Float64, float]:
    """Lower and upper bound of each group, and the largest violation of a gap of 1."""
    positions = check_floats(positions, (len(problem.sizes),), "positions", finite=False)
    flow = check_floats(flow, (len(problem.above),), "the flow on the edges", finite=False)
    # Per group, with f = max(flow, 0): Σ |C| p_C², Σ f, and Σ (div f)²/|C|. The kernel fills the rows.
    sums = np.zeros((3, problem.n_groups))
    ends = problem.above, problem.below
    shortfall = sum_groups(problem.sizes, ends, problem.borders, (positions, flow), sums)
    upper, total, dual_norm = sums
    # the dual value at the best multiple of f: (Σf)² / Σ (div f)²/|C|
    lower = np.divide(total**2, dual_norm, out=np.zeros_like(dual_norm), where=dual_norm > 0)
    return lower, upper, shortfall
