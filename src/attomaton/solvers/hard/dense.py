"""Solve small problems by dense methods: least distance, and a dual active-set method on the rows.

Neither inverts Gram matrices, so both handle linearly dependent embeddings; their time grows with the cube of
the number of nodes. :class:`LeastDistance` is a solver; :func:`find_answer` is tried if no solver's answer is
certified.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.optimize import nnls

from attomaton.base.ragged import centre, means_at
from attomaton.base.tables import Float64, Int64
from attomaton.graphs.separation import unit_rows
from attomaton.solvers.hard.problem import EmbeddedProblem
from attomaton.solvers.hard.rows import RowConstraints, RowProof

# Eigenvalues of the kernel smaller than this, relative to the largest, count as zero.
NEGLIGIBLE_EIGENVALUE = 1e-12

# Problems with more constraints, or more numbers in their directions, are not attempted.
MOST_CONSTRAINTS, MOST_FRAME_ENTRIES = 1_500, 5_000_000

# A direction whose component outside the span of the others is shorter than this depends on them.
DEPENDENT_DIRECTION = 1e-13

# A margin of 1 that is missed by at most this counts as met.
MET = 1e-11


CORRECTIONS = 5  # double-double refinements of the answer
_qr: Any = qr
_svd: Any = np.linalg.svd
_solve_triangle: Any = solve_triangular


@dataclass(frozen=True)
class LeastDistance:
    """Least distance by non-negative least squares (Lawson and Hanson)."""

    # With y the coordinates of W in the subspace that the ties leave free and B the directions of the edges
    # in it, min ‖y‖ subject to B y ≥ 1 is solved by u = argmin ‖[Bᵀ; 1ᵀ] u − [0; 1]‖ over u ≥ 0: with ρ the
    # residual, y = −ρ_y / ρ_1, and the multipliers are u / ρ_1.

    max_steps: int = 10  # per edge

    def solve_embedded(self, problem: EmbeddedProblem) -> tuple[Float64, Float64]:
        """Forces, shape (n_nodes,), and edge multipliers, shape (n_edges,); zeros if there is no solution."""
        order, component = problem.order, problem.component
        if not len(order.above):
            return np.zeros(len(component)), np.zeros(0)
        values, vectors = np.linalg.eigh(problem.kernel())
        usable = values > NEGLIGIBLE_EIGENVALUE * values[-1]
        features = vectors[:, usable] * np.sqrt(values[usable])  # scores = features @ coordinates of W
        spread = centre(component, features)  # differences of scores inside components
        values, vectors = np.linalg.eigh(spread.T @ spread)
        keeps_ties = values <= NEGLIGIBLE_EIGENVALUE * max(values[-1], 1.0)
        free = vectors[:, keeps_ties]  # directions of W with equal scores in every component
        positions = means_at(component, features) @ free
        directions = positions[order.above] - positions[order.below]  # B
        stacked = np.vstack([directions.T, np.ones(len(directions))])
        target = np.zeros(len(stacked))
        target[-1] = 1.0
        try:  # u
            flow, _ = nnls(stacked, target, maxiter=self.max_steps * len(directions))
        except RuntimeError:  # too many steps; the certificate will show it
            flow = np.zeros(len(directions))
        residual = target - stacked @ flow  # ρ, with ρ_1 last
        scale = max(float(residual[-1]), 1e-300)  # no division by 0 if there is no solution
        flow = flow / scale
        coordinates = free @ (-residual[:-1] / scale)
        # Forces a with featuresᵀ a = coordinates: the flow's, equal in a component, and forces of the ties.
        of_flow = (order.divergence(flow) / order.sizes)[component]
        ties = np.linalg.lstsq(spread.T, coordinates - features.T @ of_flow, rcond=NEGLIGIBLE_EIGENVALUE)[0]
        return of_flow + centre(component, np.asarray(ties, np.float64)), flow


@dataclass(frozen=True, eq=False)
class _Span:
    """Linearly independent directions of some constraints, the rows of T: Tᵀ = Q R."""

    rows: Int64  # the constraint of each direction, (n_rows,)
    axes: Float64  # Q, shape (n_coordinates, n_rows)
    triangle: Float64  # R, shape (n_rows, n_rows)

    def shortest(self, target: Float64) -> Float64:
        """The shortest x with T x = target."""
        return self.axes @ _solve_triangle(self.triangle, target, trans=1)

    def balance(self, target: Float64) -> Float64:
        """λ with T Tᵀ λ = target."""
        return _solve_triangle(self.triangle, _solve_triangle(self.triangle, target, trans=1))

    def coefficients(self, vector: Float64) -> Float64:
        """λ with Tᵀ λ nearest to the vector."""
        return _solve_triangle(self.triangle, self.axes.T @ vector)


@dataclass(frozen=True, eq=False)
class _Frame:
    """The unit directions of all constraints, in as few coordinates as possible."""

    constraints: RowConstraints
    directions: Float64  # (n_constraints, n_coordinates), rows of length 1, or 0 if two embeddings are equal

    @property
    def required(self) -> Float64:
        """The least product of each unit direction with W, (n_constraints,).

        1/length for priorities, 0 for ties.
        """
        lengths = self.constraints.lengths
        margins = np.where(self.constraints.tie, 0.0, 1.0)
        return np.divide(margins, lengths, out=np.zeros_like(lengths), where=lengths > 0)

    def missed(self, point: Float64) -> Float64:
        """By how much the margin of each priority is below 1, (n_constraints,); 0 for ties."""
        short = self.required - self.directions @ point
        return np.asarray(np.where(self.constraints.tie, 0.0, short) * self.constraints.lengths, np.float64)

    def span(self, rows: Int64) -> _Span:
        """A linearly independent subset of these constraints; earlier ones are preferred."""
        axes, triangle, order = _qr(self.directions[rows].T, mode="economic", pivoting=True)
        rank = int((np.abs(np.diag(triangle)) > DEPENDENT_DIRECTION).sum())
        return _Span(rows[order[:rank]], axes[:, :rank], triangle[:rank, :rank])


def find_answer(constraints: RowConstraints) -> RowProof | None:
    """The shortest W, with multipliers; None if the problem is too large or has no solution."""
    if len(constraints.plus) > MOST_CONSTRAINTS:
        return None
    differences = _unit_in_span(constraints.keys[constraints.plus] - constraints.keys[constraints.minus])
    queries = _unit_in_span(constraints.queries)
    directions: Float64 = differences[:, :, None] * queries[constraints.query][:, None, :]
    frame = _Frame(constraints, directions.reshape(len(differences), differences.shape[1] * queries.shape[1]))
    if frame.directions.size > MOST_FRAME_ENTRIES or (constraints.lengths[~constraints.tie] == 0).any():
        return None
    # A dual active-set method (Goldfarb and Idnani): start from the ties, and add the most violated priority.
    ties = np.flatnonzero(constraints.tie & (constraints.lengths > 0))
    span = frame.span(ties)
    start = 0.0 * frame.directions.sum(axis=0)
    state: _ActiveState | None = _ActiveState(span, start, np.zeros(len(span.rows)))
    for _ in range(20 * len(constraints.tie) + 100):  # usually one step for each tight priority is enough
        missed = frame.missed(state.point)
        missed[state.span.rows] = 0.0  # tight up to rounding
        if not missed.max(initial=0.0) > MET:
            return _refine_answer(frame, frame.span(state.span.rows))
        state = _add_constraint(frame, state, int(missed.argmax()))
        if state is None:
            break
    return None


# Rows scaled to length 1, in orthonormal coordinates of the subspace that they span.
def _unit_in_span(rows: Float64) -> Float64:
    unit = unit_rows(rows)
    _, singular, axes = _svd(unit, full_matrices=False)
    return unit @ axes[singular > DEPENDENT_DIRECTION * singular.max(initial=0.0)].T


@dataclass(frozen=True, eq=False)
class _ActiveState:
    """The tight constraints, the shortest W that meets them, and their multipliers."""

    span: _Span
    point: Float64  # W in the coordinates of the frame, (n_coordinates,)
    multipliers: Float64  # of the span's rows


# Add one constraint, and drop tight ones if necessary; None if no W meets it together with the ties.
def _add_constraint(frame: _Frame, state: _ActiveState, added: int) -> _ActiveState | None:
    direction, target = frame.directions[added], frame.required[added]
    for _ in range(len(frame.constraints.plus) + 1):
        # direction = Tᵀ shares + free, with free orthogonal to all tight directions. As the multiplier of the
        # added constraint grows by t, W moves by t · free, and tight multipliers fall by t · shares.
        shares = state.span.coefficients(direction) if len(state.span.rows) else np.zeros(0)
        free = direction - state.span.axes @ (state.span.axes.T @ direction)
        free = free - state.span.axes @ (state.span.axes.T @ free)  # once more, against rounding
        missing, squared = target - float(direction @ state.point), float(free @ free)
        full_step = missing / squared if squared > DEPENDENT_DIRECTION**2 else np.inf
        # The multiplier of a tight priority may fall to 0, where the priority is dropped.
        droppable = ~frame.constraints.tie[state.span.rows] & (shares > 0)
        ratios = np.where(droppable, state.multipliers / np.where(droppable, shares, 1.0), np.inf)
        blocking = int(ratios.argmin()) if len(ratios) else 0
        longest_step = float(ratios[blocking]) if len(ratios) else np.inf
        step = min(full_step, longest_step)
        if not np.isfinite(step):
            return None
        point = state.point + (step * free if np.isfinite(full_step) else 0.0)
        multipliers = state.multipliers - step * shares
        if full_step <= longest_step:  # recomputed from the rows, so that rounding does not accumulate
            span = frame.span(np.append(state.span.rows, added))
            point = span.shortest(frame.required[span.rows])
            return _ActiveState(span, point, span.coefficients(point))
        span = frame.span(np.delete(state.span.rows, blocking))
        by_row: dict[int, float] = dict(zip(state.span.rows.tolist(), multipliers.tolist(), strict=True))
        state = _ActiveState(span, point, np.array([by_row[row] for row in span.rows.tolist()]))
    return None


# W in double-double precision as a sum of the tight constraints' directions, which meets all of them.
def _refine_answer(frame: _Frame, span: _Span) -> RowProof:
    constraints, rows = frame.constraints, span.rows
    dim = constraints.keys.shape[1]
    target = np.where(constraints.tie, 0.0, 1.0)[rows]
    lengths = constraints.lengths[rows]
    # The multipliers are multipliers + carry, a double-double number for each constraint.
    multipliers, carry = np.zeros(len(constraints.plus)), np.zeros(len(constraints.plus))
    weights = np.zeros((dim, dim, 2))
    for _ in range(CORRECTIONS):
        reached = constraints.differences(weights)[rows]
        missed = ((target - reached[:, 0]) - reached[:, 1]) / lengths
        carry[rows] += span.balance(missed) / lengths
        raised = multipliers + carry
        multipliers, carry = raised, carry - (raised - multipliers)  # the carry is what rounding lost
        weights = constraints.press(np.stack([multipliers, carry], axis=1))
    return RowProof(weights, multipliers)
