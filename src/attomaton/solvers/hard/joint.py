"""The joint solver: the Graph-SVM of all queries at once, embedded.

Unknown is a force a on every (query, token) node; the scores are s = Q a, Q the Gram matrices of tokens and
queries, Kronecker-multiplied and never formed. With C the scores that respect every tie and priority, a is
optimal exactly if s is the point of C nearest to s − τ a, for any τ > 0. That nearest point is an order
problem, which the block solver solves exactly, and which says which edges are tight. Given the tight edges,
forces sum to zero on each rigid block and the scores inside it are known up to a shift: a linear system, left
to conjugate gradients. Repeating the two is Newton's method; where that circles, proximal steps with a line
search, of growing stiffness 1/τ, bring it near enough (an augmented Lagrangian).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attomaton.base.tables import Float64
from attomaton.solvers.hard.certify import certify_forces
from attomaton.solvers.hard.problem import EmbeddedProblem
from attomaton.solvers.hard.projection import Nearest, Projector

MAX_NEWTON, MAX_PROXIMAL = 12, 30

DENSE_NODES, PATIENCE = 2000, 300
"""A system of at most so many nodes is decomposed if conjugate gradients fail after so many products."""


class JointState(NamedTuple):
    """Forces and their scores, shape (n_nodes,) each."""

    forces: Float64
    scores: Float64


@dataclass(frozen=True)
class Joint:
    """Solve until the certificate's relative gap is ``rtol``.

    Attributes
    ----------
    rtol : float
        The relative gap of the certificate at which to stop.
    max_stages : int
        Proximal steps, at most.
    max_products : int
        Products for one system, at most.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.solvers.hard.problem import embedded_problem
    >>> components = at.find_components(at.extract_edges(at.Samples.from_lists([[0, 1]], [0])))
    >>> problem = embedded_problem(components, np.array([[1.0, 0.0], [0.5, 1.0]]))
    >>> forces, multipliers = Joint().solve_embedded(problem)
    >>> scores = problem.scores(forces)
    >>> round(float(scores[0] - scores[1]), 6), multipliers.round(4).tolist()
    (1.0, [0.64])
    """

    rtol: float = 1e-10
    max_stages: int = 12
    max_products: int = 1000

    def solve_embedded(self, problem: EmbeddedProblem) -> tuple[Float64, Float64]:
        """Forces, shape (n_nodes,), and edge multipliers, shape (n_edges,)."""
        projector = Projector(problem)
        state = JointState(np.zeros(len(problem.token)), np.zeros(len(problem.token)))
        best, smallest = (state.forces, np.zeros(len(problem.order.above))), np.inf
        for stage in range(self.max_stages):
            near = 10.0**-stage
            answer, gap = self._newton(problem, projector, state, near)
            if gap < smallest:
                best, smallest = answer, gap
            if smallest <= self.rtol:
                break
            state = self._approach(problem, projector, state, near)
        return best

    def _newton(
        self, problem: EmbeddedProblem, projector: Projector, state: JointState, near: float
    ) -> tuple[tuple[Float64, Float64], float]:
        """Undamped steps: guess the tight edges, solve for the forces; the best answer and its gap."""
        best, smallest = (state.forces, np.zeros(len(problem.order.above))), np.inf
        for _ in range(MAX_NEWTON):
            nearest = projector.nearest(state.scores - near * state.forces)
            flow = nearest.flow / near
            gap = abs(certify_forces(problem, state.forces, flow, rtol=self.rtol).gap)
            if gap < smallest:
                best, smallest = (state.forces, flow), gap
            if smallest <= self.rtol:
                break
            state = self._solve_tight(problem, nearest, state, 0.0, state.forces)
        return best, smallest

    def _approach(
        self, problem: EmbeddedProblem, projector: Projector, state: JointState, near: float
    ) -> JointState:
        """One proximal step: min ½aᵀQa + dist²(s − τ centre, C)/2τ by Newton with a line search."""
        centre = state.forces
        nearest = projector.nearest(state.scores - near * centre)
        for _ in range(MAX_PROXIMAL):
            pulled = near * (state.forces - centre) + state.scores - nearest.scores
            if np.abs(pulled).max() <= 1e-6 * near * np.abs(state.forces).max(initial=0.0):
                break
            goal = self._solve_tight(problem, nearest, state, near, centre)
            state, nearest = _search(projector, state, goal, nearest, near, centre)
        return state

    def _solve_tight(
        self, problem: EmbeddedProblem, nearest: Nearest, state: JointState, near: float, centre: Float64
    ) -> JointState:
        """Forces that balance on every block and give its offsets: (τ + BQB) a = B(offsets + τ centre).

        B takes off each block's mean. By conjugate gradients from the present forces, or dense.
        """
        wanted = nearest.centred(nearest.offset + near * centre)
        small = len(wanted) <= DENSE_NODES
        most = min(self.max_products, PATIENCE) if small else self.max_products
        missed = float(np.abs(nearest.scores - state.scores).max(initial=0.0))
        enough = max(1e-13 * max(1.0, float(np.abs(wanted).max(initial=0.0))), 1e-5 * missed)
        limits = (enough, most)
        reached, solved = _conjugate_gradients(problem, nearest, near, wanted, state.forces, limits)
        if solved or not small:
            return reached
        forces = nearest.centred(_solve_dense(problem, nearest, near, wanted))
        return JointState(forces, problem.scores(forces))


def _conjugate_gradients(
    problem: EmbeddedProblem,
    nearest: Nearest,
    near: float,
    wanted: Float64,
    start: Float64,
    limits: tuple[float, int],
) -> tuple[JointState, bool]:
    """Solve (τ + BQB) a = wanted from ``start``; whether the residual became small enough.

    ``limits`` are the largest entry of the residual that is, and the most products to spend.
    """
    enough, max_products = limits
    forces = nearest.centred(start)
    scores = problem.scores(forces)
    left = wanted - nearest.centred(scores) - near * forces
    step, power = left, float(left @ left)
    hopeless = 1e12 * power
    for _ in range(max_products):
        if np.abs(left).max(initial=0.0) <= enough:
            return JointState(forces, scores), True
        if power > hopeless:  # no forces give these offsets: the embeddings are dependent, the guess wrong
            break
        moved = problem.scores(step)
        curvature = float(step @ moved) + near * float(step @ step)
        if curvature <= 0.0:
            break
        length = power / curvature
        forces, scores = forces + length * step, scores + length * moved
        left = left - length * (nearest.centred(moved) + near * step)
        former, power = power, float(left @ left)
        step = nearest.centred(left + (power / former) * step)
    return JointState(forces, scores), False


def _solve_dense(problem: EmbeddedProblem, nearest: Nearest, near: float, wanted: Float64) -> Float64:
    """Solve (τ + BQB) a = wanted through dense eigenvectors; blocks' means, where B is zero, become 0."""
    kernel = problem.kernel()
    centred = nearest.centred(nearest.centred(kernel).T)
    same = nearest.block[:, None] == nearest.block[None, :]
    matrix: Float64 = centred + same / np.bincount(nearest.block)[nearest.block]
    matrix[np.diag_indices_from(matrix)] += near
    values, vectors = np.linalg.eigh(matrix)
    usable = values > 1e-13 * values[-1]  # dependent embeddings leave some forces without effect

    def solve(right: Float64) -> Float64:
        return vectors[:, usable] @ ((vectors[:, usable].T @ right) / values[usable])

    forces = solve(wanted)
    return forces + solve(wanted - matrix @ forces)


def _search(
    projector: Projector, state: JointState, goal: JointState, nearest: Nearest, near: float, centre: Float64
) -> tuple[JointState, Nearest]:
    """Halve the step from ``state`` to ``goal`` until the proximal objective falls enough (Armijo)."""

    def value(at: JointState, closest: Nearest) -> float:
        missed = at.scores - near * centre - closest.scores
        return 0.5 * float(at.forces @ at.scores) + 0.5 * float(missed @ missed) / near

    before = value(state, nearest)
    missed = state.scores - near * centre - nearest.scores
    slope = float((goal.scores - state.scores) @ (state.forces + missed / near))
    length = 1.0
    while True:
        forces = state.forces + length * (goal.forces - state.forces)
        scores = state.scores + length * (goal.scores - state.scores)
        reached = JointState(forces, scores)
        closest = projector.nearest(scores - near * centre)
        enough = before + 1e-4 * length * slope + 1e-13 * abs(before)
        if value(reached, closest) <= enough or length < 1e-4:
            return reached, closest
        length /= 2
