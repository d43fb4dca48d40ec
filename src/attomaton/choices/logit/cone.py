"""Which contrasts are finite, infinite, undecided or not identified, with proof.

A contrast f outside R is not identified. f in S is finite. f in cone(D) but not in S is +∞, and −∞ if −f is.
Any other f is undecided: the supremum of the likelihood is approached with f·β tending to anything. Here D
are the differences of all pairs, R is their span, and S is the span of the pairs that survive.
:func:`classify` decides one contrast, :func:`classify_all` many, and :class:`Cone` those outside S.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.contrasts import ContrastKind
from attomaton.choices.logit.face import PROGRAM_CHUNK, distinct_directions, run_highs, solve_cone
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import Span, span_of_vectors

# The component of a contrast of length 1 that may be outside a span or cone that it counts as being in.
CLOSE = 1e-8

# Up to here that component is rounding (1.5e-15 at most in what was measured); between the two, a tiny
# difference decides and is treated as none.
SURELY_INSIDE = 2e-14


class Proof(NamedTuple):
    """The class of a contrast and whether it is proved."""

    kind: ContrastKind
    certified: bool


class Lowest(NamedTuple):
    """The lowest height of a contrast in the cone, and its distance from the cone of the pairs."""

    height: float
    distance: float


@dataclass(frozen=True, eq=False)
class Cone:
    """The directions of dying pairs, in coordinates of the complement of S."""

    problem: ChoiceProblem
    rows: Int64  # the dying rows
    slopes: Float64  # (n_dying, n_directions), d·B of each of these rows
    complement: Float64  # B, an orthonormal basis of the complement of S, (n_parameters, n_directions)
    direction: Float64  # (n_directions,), a w that raises all of these rows

    @classmethod
    def from_face(cls, problem: ChoiceProblem, dying: Bool, finite: Span, direction: Float64) -> "Cone":
        """The cone of the rows that die, for the span S and a direction in scaled coordinates."""
        rows = np.flatnonzero(dying)
        complement = finite.complement
        return cls(problem, rows, problem.slopes(complement, rows), complement, complement.T @ direction)

    def decide(self, contrast: Float64) -> Proof:
        """Decide between +∞, −∞ and undecided, for a contrast in R and not in S."""
        target = self.complement.T @ contrast
        target = target / np.linalg.norm(target)
        down, up = self._lowest(target), self._lowest(-target)
        if down.height >= -CLOSE:
            return Proof(ContrastKind.PLUS, down.distance <= SURELY_INSIDE and up.height < -CLOSE)
        if up.height >= -CLOSE:
            return Proof(ContrastKind.MINUS, up.distance <= SURELY_INSIDE and down.height < -CLOSE)
        return Proof(ContrastKind.UNDECIDED, True)

    def binding(self, contrast: Float64) -> Bool | None:
        """Dying rows that cannot be raised without raising this infinite contrast: those that prove it.

        None where differences of rows are too small to tell.
        """
        target = self.complement.T @ contrast
        line = span_of_vectors(target[None], len(target))
        units, unit_of_row = distinct_directions(self.slopes)
        # a row can be raised without the contrast if it dies in the program orthogonal to the contrast
        outside = units @ line.complement
        is_steep = np.abs(outside).max(axis=1, initial=0.0) > CLOSE
        is_free = np.zeros(len(units), bool)
        if is_steep.any():
            directions, direction_of = distinct_directions(outside[is_steep])
            try:
                is_free[np.flatnonzero(is_steep)] = solve_cone(directions).dies[direction_of]
            except UncertifiedSolution:
                return None
        return None if is_free.all() else ~is_free[unit_of_row]

    # The least target·w over w in the cone and the unit box, by a linear program with rows added.
    def _lowest(self, target: Float64) -> Lowest:
        from scipy.optimize import nnls  # takes long to import

        units = self.units
        use = np.zeros(len(units), bool)
        use[:PROGRAM_CHUNK] = True
        box = np.array([(-1.0, 1.0)] * len(target))
        while True:
            rows = np.flatnonzero(use)
            answer = run_highs(target, A_ub=-units[rows], b_ub=np.zeros(len(rows)), bounds=box)
            point = np.asarray(answer.x)
            violated = np.flatnonzero((units @ point < -1e-9) & ~use)
            if not len(violated):
                break
            use[violated[:PROGRAM_CHUNK]] = True
        # the direction raises all rows by 1 or more: add what the point lacks
        lift = max(-float((units @ point).min(initial=0.0)), 0.0)
        lifting = self.direction / float((units @ self.direction).min())
        height = float(target @ (point + lift * lifting))
        multipliers = -np.asarray(answer.ineqlin.marginals)
        support = units[rows[multipliers > 1e-12]]  # the target combines these, if it is in
        return Lowest(height, float(nnls(support.T, target)[1]) if len(support) else 1.0)

    @cached_property
    def units(self) -> Float64:
        """The distinct directions of the dying rows, of length 1."""
        return distinct_directions(self.slopes)[0]


def classify(contrast: Float64, finite: Span, identified: Span, cone: Callable[[], Cone]) -> Proof:
    """Decide the class of a contrast in scaled coordinates; ``cone`` is called only where it is needed."""
    length = float(np.linalg.norm(contrast))
    if length == 0:
        return Proof(ContrastKind.FINITE, True)
    outside = float(np.linalg.norm(identified.reject(contrast))) / length
    if outside > CLOSE:
        return Proof(ContrastKind.UNIDENTIFIED, True)
    off = float(np.linalg.norm(finite.reject(contrast))) / length
    if off <= CLOSE:
        return Proof(ContrastKind.FINITE, max(off, outside) <= SURELY_INSIDE)
    proof = cone().decide(contrast)
    return Proof(proof.kind, proof.certified and outside <= SURELY_INSIDE)


def classify_all(contrasts: Float64, finite: Span, identified: Span, cone: Cone) -> Any:
    """Decide the class of each row of ``contrasts``, shape (n, n_parameters)."""
    from scipy.spatial import cKDTree

    length = np.linalg.norm(contrasts, axis=1)
    kinds = np.full(len(contrasts), ContrastKind.FINITE, object)
    is_outside = np.linalg.norm(contrasts @ identified.complement, axis=1) > CLOSE * length
    kinds[is_outside] = ContrastKind.UNIDENTIFIED
    is_steep = np.linalg.norm(contrasts @ finite.complement, axis=1) > CLOSE * length
    infinite = np.flatnonzero(is_steep & (kinds == ContrastKind.FINITE))
    if not len(infinite):
        return kinds
    # Equal directions outside S are decided once, those of dying pairs without a linear program.
    directions, number = distinct_directions(contrasts[infinite] @ cone.complement, digits=None)
    classes = np.full(len(directions), None, object)  # None: not decided yet
    tree: Any = cKDTree(cone.units)
    for sign, kind in ((1.0, ContrastKind.PLUS), (-1.0, ContrastKind.MINUS)):
        classes[np.isfinite(tree.query(sign * directions, distance_upper_bound=SURELY_INSIDE)[0])] = kind
    for row in np.flatnonzero(classes == None).tolist():  # noqa: E711  NumPy compares entry by entry
        classes[row] = cone.decide(cone.complement @ directions[row]).kind
    kinds[infinite] = classes[number]
    return kinds
