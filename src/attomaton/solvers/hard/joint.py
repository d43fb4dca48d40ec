"""Solve the Graph-SVM of all queries at once, with embeddings.

The unknown is a force a on every (query, token) node; the scores are s = Q a, with Q the Kronecker product of
the Gram matrices of tokens and queries, which is never formed. With C the set of scores that respect every
tie and priority, a is optimal exactly if s is the point of C nearest to s − τ a, for any τ > 0. Finding this
point is an order problem, which the block solver solves exactly and which shows the tight edges. Given these,
forces sum to zero on each rigid block and the scores inside it are known up to a shift: a linear system,
solved by conjugate gradients. Alternating the two is Newton's method; if it cycles, proximal steps with a
line search, of growing stiffness 1/τ, bring it close enough (an augmented Lagrangian).
"""

# `Joint.solve_embedded` alternates `_newton` and `_approach`; both call `Projector.nearest` for a point of C
# and `Joint._solve_tight` for the forces. Symbols, and their names below:
#
# - a `forces`, s = Q a `scores`, (n_nodes,) each; Q `problem.scores(a)`, or `problem.kernel()` as a matrix;
# - a block: nodes whose differences of scores are fixed by ties and tight edges; `offset`, these differences;
# - B `nearest.centred`: subtract from each node the mean of its block;
# - `anchor`: the forces at the start of a proximal step, min ½ aᵀQa + dist²(s − τ anchor, C)/2τ.

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attomaton.base.native import project_order, rank_edges
from attomaton.base.ragged import centre, sum_at
from attomaton.base.tables import Float64, Int32
from attomaton.solvers.hard.certify import certify_forces
from attomaton.solvers.hard.problem import EmbeddedProblem

# Most Newton steps for one τ, and most steps of one proximal problem.
MAX_NEWTON, MAX_PROXIMAL = 12, 30

# Most nodes of a system that is decomposed if conjugate gradients fail, and the products they get first.
DENSE_NODES, JOINT_PATIENCE = 2000, 300

# Rounding errors of scores of size 1, for each level of the order.
POSITION_ROUNDING = 4e-15

# A sweep of the block solver adds the edges violated by at least this times the largest violation.
JOINT_GREED = 0.5

# A proximal step ends if its residual is this small relative to τ a: Newton's method finds the other digits.
PROXIMAL_RTOL = 1e-6

# Far from C, a linear system is solved only to this share of the distance.
SYSTEM_SHARE = 1e-5


class Nearest(NamedTuple):
    """A projection: its scores, and the rigid blocks of nodes that its tight edges and ties form."""

    scores: Float64  # (n_nodes,)
    flow: Float64  # (n_edges,): the multipliers of the order's edges
    block: Int32  # (n_nodes,): the number of the block of each node
    offset: Float64  # (n_nodes,): score minus the score of the block's first node

    def centred(self, values: Float64) -> Float64:
        """B: values minus the mean of their block, shape (n_nodes,) or (n_nodes, n_columns)."""
        return centre(self.block, values)


class Projector:
    """Projects scores onto the order of a problem; each call starts from the tight edges of the last call."""

    def __init__(self, problem: EmbeddedProblem) -> None:
        order = problem.order
        self._component = problem.component
        self._weight = order.sizes.astype(np.float64)
        self._ends = order.above, order.below
        # The edges that are tried first as tight edges, and the length of the longest path.
        self._first, self._levels = rank_edges(len(order.sizes), *self._ends)

    def nearest(self, scores: Float64) -> Nearest:
        """The nearest point, exact to rounding: min Σ (x − scores)² under all ties and priorities."""
        # Over positions p_C: min Σ |C| p_C² + 2 Σ moment_C p_C, with moment_C = −Σ_{i∈C} scores_i.
        component = self._component
        moment = -sum_at(component, scores, len(self._weight))
        # a gap is a difference of two positions, whose size is at most that of scores, and the levels
        tolerance = POSITION_ROUNDING * (1.0 + 2 * float(np.abs(scores).max(initial=0.0)) + self._levels)
        graph = self._weight, moment, *self._ends
        positions, flow, active, block, offset = project_order(graph, self._first, (JOINT_GREED, tolerance))
        self._first = np.flatnonzero(active).astype(np.int32)
        return Nearest(positions[component], flow, block[component], offset[component].astype(np.float64))


class JointState(NamedTuple):
    """Forces and their scores, shape (n_nodes,) each."""

    forces: Float64
    scores: Float64


class JointAnswer(NamedTuple):
    """Forces on the nodes and multipliers of the edges, with the gap of their certificate."""

    forces: Float64  # (n_nodes,)
    flow: Float64  # (n_edges,)
    gap: float


@dataclass(frozen=True)
class Joint:
    """Solve the Graph-SVM of all queries at once, with embeddings.

    The solver stops if the certificate's relative gap is at most ``rtol``, or after ``max_stages`` proximal
    steps. Each linear system uses at most ``max_products`` matrix–vector products.

    Examples
    --------
    >>> import attomaton as at
    >>> comps = at.find_components(at.extract_edges(at.Samples.from_lists([[0, 1]], [0])))
    >>> hard = at.solve_graph_svm(comps, embeddings=[[1.0, 0.0], [0.5, 1.0]], solver=Joint(rtol=1e-8))
    >>> hard.multipliers.column("multiplier").to_numpy().round(4).tolist()
    [0.64]
    """

    rtol: float = 1e-10
    max_stages: int = 12
    max_products: int = 1000

    def solve_embedded(self, problem: EmbeddedProblem) -> tuple[Float64, Float64]:
        """Return forces on the nodes, shape (n_nodes,), and edge multipliers, shape (n_edges,)."""
        projector = Projector(problem)
        state = JointState(np.zeros(len(problem.token)), np.zeros(len(problem.token)))
        best = JointAnswer(state.forces, np.zeros(len(problem.order.above)), np.inf)
        for stage in range(self.max_stages):
            tau = 10.0**-stage
            answer = self._newton(problem, projector, state, tau)
            if answer.gap < best.gap:
                best = answer
            if best.gap <= self.rtol:
                break
            state = self._approach(problem, projector, state, tau)
        return best.forces, best.flow

    # Alternate between the tight edges and the forces that they imply; return the best answer.
    def _newton(
        self, problem: EmbeddedProblem, projector: Projector, state: JointState, tau: float
    ) -> JointAnswer:
        best = JointAnswer(state.forces, np.zeros(len(problem.order.above)), np.inf)
        for _ in range(MAX_NEWTON):
            nearest = projector.nearest(state.scores - tau * state.forces)
            flow = nearest.flow / tau
            gap = abs(certify_forces(problem, state.forces, flow, rtol=self.rtol).gap)
            if gap < best.gap:
                best = JointAnswer(state.forces, flow, gap)
            if best.gap <= self.rtol:
                break
            state = self._solve_tight(problem, nearest, state, 0.0, state.forces)  # 0.0: not damped
        return best

    # One proximal step: min ½aᵀQa + dist²(s − τ anchor, C)/2τ by Newton with a line search.
    def _approach(
        self, problem: EmbeddedProblem, projector: Projector, state: JointState, tau: float
    ) -> JointState:
        anchor = state.forces
        nearest = projector.nearest(state.scores - tau * anchor)
        for _ in range(MAX_PROXIMAL):
            # 0 at the minimum: the gradient of the objective by a is Q residual/τ
            residual = tau * (state.forces - anchor) + state.scores - nearest.scores
            if np.abs(residual).max() <= PROXIMAL_RTOL * tau * np.abs(state.forces).max(initial=0.0):
                break
            goal = self._solve_tight(problem, nearest, state, tau, anchor)
            state, nearest = _search_line(projector, state, goal, nearest, tau, anchor)
        return state

    # Forces that balance on every block and give its offsets: (τ + BQB) a = B(offset + τ anchor).
    def _solve_tight(
        self, problem: EmbeddedProblem, nearest: Nearest, state: JointState, tau: float, anchor: Float64
    ) -> JointState:
        target = nearest.centred(nearest.offset + tau * anchor)
        is_small = len(target) <= DENSE_NODES
        max_products = min(self.max_products, JOINT_PATIENCE) if is_small else self.max_products
        distance = float(np.abs(nearest.scores - state.scores).max(initial=0.0))
        tolerance = max(1e-13 * max(1.0, float(np.abs(target).max(initial=0.0))), SYSTEM_SHARE * distance)
        limits = tolerance, max_products
        solution, solved = _conjugate_gradients(problem, nearest, tau, target, state.forces, limits)
        if solved or not is_small:
            return solution
        # The dense matrix BQB + (1 − B) + τ. BQB is singular along block means; 1 − B, the mean over a block,
        # makes it regular there, and does not change the answer, since the target has no such part.
        centred = nearest.centred(nearest.centred(problem.kernel()).T)
        in_one_block = nearest.block[:, None] == nearest.block[None, :]
        matrix: Float64 = centred + in_one_block / np.bincount(nearest.block)[nearest.block]
        matrix[np.diag_indices_from(matrix)] += tau
        values, vectors = np.linalg.eigh(matrix)
        usable = values > 1e-13 * values[-1]  # dependent embeddings leave some forces without effect
        axes, forces = vectors[:, usable], np.zeros(len(target))
        for _ in range(2):  # the second time for the residual that rounding left
            forces = forces + axes @ ((axes.T @ (target - matrix @ forces)) / values[usable])
        forces = nearest.centred(forces)
        return JointState(forces, problem.scores(forces))


# Solve (τ + BQB) a = target from ``start``; also return whether the residual became small.
def _conjugate_gradients(
    problem: EmbeddedProblem,
    nearest: Nearest,
    tau: float,
    target: Float64,
    start: Float64,
    limits: tuple[float, int],  # the largest acceptable entry of the residual, and the most products
) -> tuple[JointState, bool]:
    tolerance, max_products = limits
    forces = nearest.centred(start)
    scores = problem.scores(forces)
    residual = target - nearest.centred(scores) - tau * forces
    step = residual
    power = float(residual @ residual)
    hopeless = 1e12 * power
    for _ in range(max_products):
        if np.abs(residual).max(initial=0.0) <= tolerance:
            return JointState(forces, scores), True
        if power > hopeless:  # no forces give these offsets: the embeddings are dependent, the guess wrong
            break
        step_scores = problem.scores(step)
        curvature = float(step @ step_scores) + tau * float(step @ step)
        if curvature <= 0.0:
            break
        length = power / curvature
        forces = forces + length * step
        scores = scores + length * step_scores
        residual = residual - length * (nearest.centred(step_scores) + tau * step)
        power_before = power
        power = float(residual @ residual)
        step = nearest.centred(residual + (power / power_before) * step)
    return JointState(forces, scores), False


# Halve the step from ``state`` to ``goal`` until the proximal objective decreases enough (Armijo).
def _search_line(
    projector: Projector, state: JointState, goal: JointState, nearest: Nearest, tau: float, anchor: Float64
) -> tuple[JointState, Nearest]:
    # ½ aᵀQa + ‖s − τ anchor − projection‖²/2τ, where Q a are the scores s
    def objective(point: JointState, projection: Nearest) -> float:
        distance = point.scores - tau * anchor - projection.scores
        return 0.5 * float(point.forces @ point.scores) + 0.5 * float(distance @ distance) / tau

    before = objective(state, nearest)
    distance = state.scores - tau * anchor - nearest.scores
    slope = float((goal.scores - state.scores) @ (state.forces + distance / tau))
    length = 1.0
    while True:
        forces = state.forces + length * (goal.forces - state.forces)
        scores = state.scores + length * (goal.scores - state.scores)
        point = JointState(forces, scores)
        projection = projector.nearest(scores - tau * anchor)
        # Armijo's 1e-4 of the linear decrease, and an allowance for rounding.
        acceptable = before + 1e-4 * length * slope + 1e-13 * abs(before)
        if objective(point, projection) <= acceptable or length < 1e-4:
            return point, projection
        length /= 2
