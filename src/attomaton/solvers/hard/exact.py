"""Optimality in whole numbers: a proof without rounding for orthonormal embeddings.

The edges with flow are claimed to be tight. They join components to rigid blocks with whole offsets, and a
block stands where it balances, so every position is a fraction over its block's weight. The conditions of
optimality are then comparisons of integers: the tight edges form a forest, every gap is at least 1, no tight
edge pulls. Floating-point flow only chooses the edges; it enters no comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.tables import Float64
from attomaton.solvers.hard.problem import OrderProblem

MOST_NODES = 20_000
"""Integers of Python are slow; this many take well under a second."""


@dataclass(frozen=True, eq=False)
class ExactCheck:
    """The positions that follow from the tight edges, and whether they are the optimum.

    Attributes
    ----------
    reason : str
        Which condition fails and at which edge; empty for the optimum.
    numerators, denominators : lists of int, length n_components
        p_C = numerator / denominator, not in lowest terms: the denominator is the weight of C's block. Empty
        if the tight edges are not a forest.
    value : Fraction
        Σ_C |C| p_C², which is ‖W_svm‖² if optimal.
    """

    reason: str
    numerators: list[int]
    denominators: list[int]
    value: Fraction

    @property
    def optimal(self) -> bool:
        """Whether the positions are the optimum, without any tolerance."""
        return not self.reason

    @property
    def positions(self) -> list[Fraction]:
        """p_C in lowest terms, length n_components."""
        return [Fraction(*pair) for pair in zip(self.numerators, self.denominators, strict=True)]


@dataclass(frozen=True, eq=False)
class _Order:
    """The problem in Python's integers, which do not overflow."""

    sizes: list[int]
    above: list[int]
    below: list[int]


@dataclass(frozen=True, eq=False)
class _Walk:
    """All blocks, each from its root outwards: the nodes in that order, and by node how it was entered.

    ``entry`` is the tight edge that led to a node and ``parent`` the node it led from; a root has None and
    itself. ``offset`` is a node's position less that of its ``root``.
    """

    nodes: list[int]
    entry: list[int | None]
    parent: list[int]
    root: list[int]
    offset: list[int]


def check_exactly(problem: OrderProblem, flow: Float64) -> ExactCheck:
    """Work out the positions from the edges with positive flow, and check that they are optimal, in integers.

    Conditions: tight edges form a forest; p_A − p_B ≥ 1 on every edge; the multiplier of a tight edge, which
    is Σ|C|p_C beyond its upper end, is ≥ 0. An edge whose multiplier is exactly 0 may be among the tight
    ones or not: what hangs on either side of it balances on its own.

    There is no tolerance: if a solver passes over a gap that misses 1 by 1e-12, so that the optimum is that
    far from its answer, the answer is refused here.
    """
    if len(problem.sizes) > MOST_NODES:
        raise UnsupportedOption(
            f"{len(problem.sizes):,} components are too many for a proof in whole numbers; check at most "
            f"{MOST_NODES:,}, or go by the certificate's gap"
        )
    order = _Order(problem.sizes.tolist(), problem.above.tolist(), problem.below.tolist())
    tight: list[int] = np.flatnonzero(flow > 0).tolist()
    walk = _walk_blocks(order, tight)
    circle = _find_circle(order, walk, tight)
    if circle:
        return ExactCheck(circle, [], [], Fraction(0))
    numerators, denominators = _place(order, walk)
    violation = _find_violation(order, numerators, denominators)
    pull = _find_pull(order, walk, numerators, denominators)
    value = _value(order, numerators, denominators)
    return ExactCheck(violation or pull, numerators, denominators, value)


def _walk_blocks(order: _Order, tight: Sequence[int]) -> _Walk:
    """Walk every block along the tight edges."""
    size = len(order.sizes)
    neighbours: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    for edge in tight:
        neighbours[order.above[edge]].append((order.below[edge], edge, -1))
        neighbours[order.below[edge]].append((order.above[edge], edge, 1))
    walk = _Walk([], [None] * size, list(range(size)), list(range(size)), [0] * size)
    seen = [False] * size
    for root in range(size):
        waiting = [] if seen[root] else [root]
        seen[root] = True
        while waiting:
            node = waiting.pop()
            walk.nodes.append(node)
            for other, edge, step in neighbours[node]:
                if not seen[other]:
                    seen[other] = True
                    walk.entry[other], walk.parent[other], walk.root[other] = edge, node, root
                    walk.offset[other] = walk.offset[node] + step
                    waiting.append(other)
    return walk


def _place(order: _Order, walk: _Walk) -> tuple[list[int], list[int]]:
    """Positions offset − Σ|C|·offset / Σ|C|, sums over the block, as numerators over Σ|C|."""
    weight, moment = [0] * len(order.sizes), [0] * len(order.sizes)
    for root, size, offset in zip(walk.root, order.sizes, walk.offset, strict=True):
        weight[root] += size
        moment[root] += size * offset
    denominators = [weight[root] for root in walk.root]
    numerators = [
        offset * weight[root] - moment[root] for root, offset in zip(walk.root, walk.offset, strict=True)
    ]
    return numerators, denominators


def _find_circle(order: _Order, walk: _Walk, tight: Sequence[int]) -> str:
    """The first tight edge that the walk did not need; empty if there is none."""
    entered = set(walk.entry)
    for edge in tight:
        if edge not in entered:
            return f"{_name(order, edge)} closes a circle of tight edges"
    return ""


def _find_violation(order: _Order, numerators: list[int], denominators: list[int]) -> str:
    """The first edge with p_A − p_B < 1; empty if there is none."""
    for edge, (above, below) in enumerate(zip(order.above, order.below, strict=True)):
        over, under = denominators[above], denominators[below]
        gap = numerators[above] * under - numerators[below] * over
        if gap < over * under:
            return f"{_name(order, edge)} is violated: its gap is {Fraction(gap, over * under)}"
    return ""


def _find_pull(order: _Order, walk: _Walk, numerators: list[int], denominators: list[int]) -> str:
    """The first tight edge with a negative multiplier, from the ends inwards; empty if there is none."""
    load = [size * numerator for size, numerator in zip(order.sizes, numerators, strict=True)]
    for node in reversed(walk.nodes):
        edge, parent = walk.entry[node], walk.parent[node]
        if edge is None:
            continue
        multiplier = load[node] if walk.offset[node] > walk.offset[parent] else -load[node]
        if multiplier < 0:
            exact = Fraction(multiplier, denominators[node])
            return f"{_name(order, edge)} pulls: its multiplier is {exact}"
        load[parent] += load[node]
    return ""


def _value(order: _Order, numerators: list[int], denominators: list[int]) -> Fraction:
    """Σ|C|p². Blocks of equal weight first, then in pairs, so that few sums have long denominators."""
    squares: dict[int, int] = {}
    for size, numerator, denominator in zip(order.sizes, numerators, denominators, strict=True):
        squares[denominator] = squares.get(denominator, 0) + size * numerator**2
    terms = [Fraction(square, weight**2) for weight, square in squares.items()]
    while len(terms) > 1:
        terms = [sum(terms[at : at + 2], Fraction(0)) for at in range(0, len(terms), 2)]
    return terms[0] if terms else Fraction(0)


def _name(order: _Order, edge: int) -> str:
    return f"edge {order.above[edge]} → {order.below[edge]}"
