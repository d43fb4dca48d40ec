"""The third term: the constant that remains of W(t) after ln t · W_svm + W_fin.

Insert W(t) = ln t·W_svm + W_fin + R into gradient descent. Where a priority A → B is tight (hard scores
differ by exactly 1), labels in A leave to B a total mass of κ_AB e^{R_B − R_A}/(η t); elsewhere it decays
faster. The flow across must carry W_svm/t, so R makes Σ_tight κ_AB e^{R_B − R_A} + ⟨W_svm, R⟩ stationary: a
convex function of one number per component (orthonormal) or over the span of all tight directions.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.csgraph import connected_components

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.ragged import centre, largest_of, rows_of, run_starts, sum_at
from attomaton.base.solutions import score_table, sparse_weights
from attomaton.base.tables import Bool, Float64, Int64, Integers, column
from attomaton.graphs.components import Components, find_ends
from attomaton.solvers.soft.damped import minimise, solve_systems
from attomaton.trajectory.basis import Basis, find_span
from attomaton.trajectory.loss import TrainingLoss


@dataclass(frozen=True, eq=False)
class Priorities:
    """The edges of the order, with the quantities of the third term.

    κ = (η/n) Σ over samples labelled above of (Σ_{x below} m_x e^{w_x}) / (Σ_{a above} m_a e^{w_a}), with the
    soft scores w. All arrays have shape (n_order,).
    """

    above: Int64  # the components that each edge joins
    below: Int64
    slack: Float64  # difference of their hard scores, minus 1
    tight: Bool  # where the slack is zero
    kappa: Float64


@dataclass(frozen=True, eq=False)
class Residual(ABC):
    """The third term R, with its limitations.

    Attributes
    ----------
    priorities : Priorities
        The edges that determine it.
    weights : float array, shape (dim, dim), or sparse array, shape (n_tokens, n_tokens)
        R.
    scores : float64 array, shape (n_nodes,)
        The score that R gives to every node.
    flow : float64 array, shape (n_order,)
        κ e^{R_B − R_A} of the tight edges at R: multipliers of the Graph-SVM.
    degenerate : bool array, shape (n_order,)
        Tight edges on which every multiplier is zero: no force holds their ends together, and scores drift
        apart like ln ln t.
    path_dependent : bool array, shape (n_components,)
        Components whose R depends on the path of training, not only on its end; R then contains only the part
        that does not depend on the path.
    gradient : float
        Largest entry of the remaining gradient.
    """

    priorities: Priorities
    weights: Float64 | csc_array
    scores: Float64
    flow: Float64
    degenerate: Bool
    path_dependent: Bool
    gradient: float

    @abstractmethod
    def settling(self) -> float:
        """λ: the smallest rate, in ln t, at which tight edges converge to R; 1 if there are none."""


def find_priorities(
    loss: TrainingLoss, hard: Float64, soft: Float64, *, step_size: float, atol: float
) -> Priorities:
    """Slacks of all edges of the order, and the odds of the tokens below against the label's component."""
    components = loss.components
    above, below = column(components.order, "above"), column(components.order, "below")
    level = np.zeros(len(components))
    level[components.component_of_node] = hard
    slack = level[above] - level[below] - 1.0
    problem, component = loss.problem, loss.component
    choice, n_choices = rows_of(problem.offsets), len(problem.winner)
    of_label, of_token = component[problem.winner][choice], component[problem.alternative]
    logits = soft[loss.nodes][problem.alternative] + problem.log_multiplicity
    inside = of_label == of_token
    odds = np.exp(logits - largest_of(choice[inside], logits[inside], n_choices)[choice])
    total = sum_at(choice[inside], odds[inside], n_choices)
    size, choice_below = len(components), choice[~inside]
    edge = np.searchsorted(above * size + below, of_label[~inside] * size + of_token[~inside])
    shares = odds[~inside] / total[choice_below] * problem.count[choice_below]
    odds_below = sum_at(edge, shares, len(above))
    return Priorities(above, below, slack, slack <= atol, odds_below * step_size / loss.n_samples)


POSITIVE = 1e-9
"""Multipliers below this count as zero; they are exact to rounding, and rational."""

MAX_RESIDUAL_STEPS = 200
DENSE_COMPONENTS = 400
"""Maximum number of components of a block whose eigenvalues are computed densely."""


@dataclass(frozen=True, eq=False)
class OrthonormalResidual(Residual):
    """R as one number per component, with the components' sizes, shape (n_components,)."""

    sizes: Int64

    def settling(self) -> float:
        """Eigenvalues of D^{-½} L D^{-½}: L the Laplacian weighted with the flow, D the sizes.

        The zero of every block does not count.
        """
        pressed = np.flatnonzero(self.flow > 0)
        above, below = self.priorities.above[pressed], self.priorities.below[pressed]
        block = label_blocks(above, below, len(self.sizes))[above]
        order = np.argsort(block, kind="stable")
        starts = run_starts(block[order])
        root = np.sqrt(self.sizes.astype(np.float64))
        rates = [
            _second_eigenvalue(above[rows], below[rows], self.flow[pressed[rows]], root)
            for rows in np.split(order, starts[1:])
            if len(rows)
        ]
        return min(rates, default=1.0)


def solve_orthonormal(
    components: Components, priorities: Priorities, hard: Float64, multipliers: Float64
) -> OrthonormalResidual:
    """R for orthonormal embeddings: Σ_C |C| R_C = 0 in every block of tight edges."""
    size, sizes = len(components), components.sizes
    degenerate = find_degenerate(priorities, multipliers, size)
    pressed = np.flatnonzero(priorities.tight & ~degenerate)
    above, below, kappa = priorities.above[pressed], priorities.below[pressed], priorities.kappa[pressed]
    block = label_blocks(above, below, size)
    pressure = sum_at(components.component_of_node, hard, size)
    pressure = centre(block, pressure)  # its mean is zero up to rounding
    answer, gradient = _minimise_orthonormal((above, below, np.log(kappa)), pressure, block)
    weight = sizes.astype(np.float64)
    total = sum_at(block, weight * answer, size) / np.maximum(sum_at(block, weight, size), 1.0)
    answer = answer - total[block]
    flow = np.zeros(len(priorities.kappa))
    flow[pressed] = kappa * np.exp(answer[below] - answer[above])
    weak = label_blocks(priorities.above, priorities.below, size)
    n_blocks = np.bincount(weak[np.unique(block, return_index=True)[1]], minlength=size)
    scores = answer[components.component_of_node]
    weights = sparse_weights(score_table(components.nodes, scores), components.edges.n_tokens)
    return OrthonormalResidual(
        priorities, weights, scores, flow, degenerate, n_blocks[weak] > 1, gradient, sizes
    )


def find_degenerate(priorities: Priorities, multipliers: Float64, size: int) -> Bool:
    """Tight edges on which every set of multipliers is zero, shape (n_order,).

    Multipliers may change along a cycle of tight edges: up on any edge in its own direction, and down against
    it on edges with a positive multiplier. An edge at zero can be raised exactly if such a cycle contains it,
    that is, if its ends are in one strong component of the graph of allowed changes.
    """
    tight = np.flatnonzero(priorities.tight)
    above, below = priorities.above[tight], priorities.below[tight]
    used = multipliers[tight] > POSITIVE
    heads, tails = np.concatenate([above, below[used]]), np.concatenate([below, above[used]])
    graph = csr_array((np.ones(len(heads), np.int8), (heads, tails)), shape=(size, size))
    strong = connected_components(graph, directed=True, connection="strong")[1]
    degenerate = np.zeros(len(priorities.tight), bool)
    degenerate[tight] = strong[above] != strong[below]
    return degenerate


def label_blocks(above: Integers, below: Integers, size: int) -> Int64:
    """Labels of the weakly connected components of 0 … size − 1, shape (size,)."""
    graph = csr_array((np.ones(len(above), np.int8), (above, below)), shape=(size, size))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _minimise_orthonormal(
    edges: tuple[Int64, Int64, Float64], pressure: Float64, block: Int64
) -> tuple[Float64, float]:
    """Newton's method for Σ e^{ln κ + R_B − R_A} + Σ pressure·R in all blocks, and the remaining gradient."""
    above, below, log_kappa = edges
    size = len(pressure)
    enough = 1e-11 * max(1.0, float(np.abs(pressure).max(initial=0.0)))

    def flow_at(point: Float64) -> Float64:
        return np.exp(log_kappa + point[below] - point[above])

    def slope(point: Float64) -> Float64:
        flow = flow_at(point)
        gradient = pressure + sum_at(below, flow, size) - sum_at(above, flow, size)
        return centre(block, gradient)  # rounding must not push along a constant

    def find_step(point: Float64, gradient: Float64) -> tuple[Float64, Float64]:
        flow = flow_at(point)
        diagonal = sum_at(below, flow, size) + sum_at(above, flow, size)
        diagonal[diagonal == 0.0] = 1.0  # a component without tight edges, which nothing presses

        def bend(direction: Float64) -> Float64:
            transport = flow * (direction[above] - direction[below])
            return sum_at(above, transport, size) - sum_at(below, transport, size)

        left = largest_of(block, np.abs(gradient), size)
        right = np.where(left[block] > enough, -gradient, 0.0)
        step = solve_systems(bend, right, diagonal, block, rtol=1e-6, max_steps=2_000)
        reach = largest_of(block[above], np.abs(step[above] - step[below]), size, least=0.0)
        return step, reach[block]

    return minimise(slope, find_step, np.zeros(size), atol=enough, max_steps=MAX_RESIDUAL_STEPS)


def _second_eigenvalue(above: Int64, below: Int64, flow: Float64, root: Float64) -> float:
    nodes, row = np.unique(np.concatenate([above, below]), return_inverse=True)
    top, bottom = row[: len(above)], row[len(above) :]
    scale, size, all_rows = root[nodes], len(nodes), np.arange(len(nodes))
    diagonal = (sum_at(top, flow, size) + sum_at(bottom, flow, size)) / scale**2
    coupling = -flow / (scale[top] * scale[bottom])
    entries = np.concatenate([top, bottom, all_rows]), np.concatenate([bottom, top, all_rows])
    matrix = csr_array((np.concatenate([coupling, coupling, diagonal]), entries), shape=(size, size))
    if size <= DENSE_COMPONENTS:
        return float(np.linalg.eigvalsh(matrix.toarray())[1])
    from scipy.sparse.linalg import eigsh  # takes long to import, so only when needed

    values = eigsh(matrix.tocsc(), k=2, sigma=-1e-6, which="LM", return_eigenvectors=False)
    return float(np.sort(values)[1])


lstsq: Any = np.linalg.lstsq

MAX_EMBEDDED_STEPS = 500
PRESSED = 1e-7
"""Multipliers below this, relative to the largest, count as zero."""

FEASIBLE_MULTIPLIER = 1e-10  # how far below 0 a multiplier may be, by rounding


@dataclass(frozen=True, eq=False)
class EmbeddedResidual(Residual):
    """R in the span of the tight directions, with the directions of all edges, shape (n_order, n_axes)."""

    directions: Float64

    def settling(self) -> float:
        """The smallest eigenvalue of Σ flow·a aᵀ on the span of the directions with positive flow."""
        pressed = self.flow > 0
        projected = self.directions[pressed] @ find_span(self.directions[pressed]).T
        if not projected.size:
            return 1.0
        return float(np.linalg.eigvalsh((projected.T * self.flow[pressed]) @ projected)[0])


def solve_embedded(
    components: Components, priorities: Priorities, basis: Basis, pressure: Float64
) -> EmbeddedResidual:
    """R in the coordinates of the basis, zero along cyclic axes and outside the span of tight directions."""
    above, below = find_ends(components)
    directions, kappa = basis.nodes[above] - basis.nodes[below], priorities.kappa
    directions[:, : basis.n_cyclic] = 0.0
    tight = np.flatnonzero(priorities.tight)
    degenerate = np.zeros(len(kappa), bool)
    degenerate[tight] = _find_degenerate(directions[tight], pressure)
    pressed = np.flatnonzero(priorities.tight & ~degenerate)
    axes = find_span(directions[pressed])
    projected = directions[pressed] @ axes.T
    answer, gradient = _minimise_embedded(projected, np.log(kappa[pressed]), axes @ pressure)
    flow = np.zeros(len(kappa))
    flow[pressed] = kappa[pressed] * np.exp(-projected @ answer)
    free = np.full(len(components), len(axes) < len(basis.axes) - basis.n_cyclic)
    point = answer @ axes
    weights, scores = basis.weights(point), basis.nodes @ point
    return EmbeddedResidual(priorities, weights, scores, flow, degenerate, free, gradient, directions)


def _find_degenerate(directions: Float64, pressure: Float64) -> Bool:
    """Which directions have α = 0 under all multipliers α ≥ 0 with Σ α a = W_svm, shape (n_tight,).

    Independent directions have one α. Otherwise one linear program: raise as many multipliers as possible to
    a small positive value.
    """
    size = len(directions)
    if not size:
        return np.zeros(0, bool)
    axes = find_span(directions)
    enough = PRESSED * max(float(np.abs(pressure).max()), 1e-300)
    if len(axes) == size:
        multipliers = np.linalg.solve(axes @ directions.T, axes @ pressure)
        if multipliers.min() >= -FEASIBLE_MULTIPLIER:
            return multipliers < 0.5 * enough
    from scipy.optimize import linprog  # takes long to import, so only when needed

    program: Any = linprog(
        np.concatenate([np.zeros(size), -np.ones(size)]),
        A_ub=np.hstack([-np.eye(size), np.eye(size)]),
        b_ub=np.zeros(size),
        A_eq=np.hstack([axes @ directions.T, np.zeros((len(axes), size))]),
        b_eq=axes @ pressure,
        bounds=[(0.0, None)] * size + [(0.0, enough)] * size,
        method="highs",
        options={"primal_feasibility_tolerance": FEASIBLE_MULTIPLIER},
    )
    if program.status != 0:
        raise UncertifiedSolution(
            f"no non-negative multipliers make the tight edges add up to W_svm ({program.message}); "
            "the hard solution is not precise enough: solve it with a smaller rtol"
        )
    return np.asarray(program.x[size:] < 0.5 * enough)


def _minimise_embedded(directions: Float64, log_kappa: Float64, pressure: Float64) -> tuple[Float64, float]:
    """Newton's method for Σ e^{ln κ − a·y} + pressure·y, and the remaining gradient."""

    def flow_at(point: Float64) -> Float64:
        return np.exp(np.clip(log_kappa - directions @ point, -700, 700))

    def find_step(point: Float64, gradient: Float64) -> tuple[Float64, float]:
        step: Float64 = -lstsq((directions.T * flow_at(point)) @ directions, gradient, rcond=None)[0]
        return step, float(np.abs(directions @ step).max())

    enough = 1e-12 * max(1.0, float(np.abs(pressure).max(initial=0.0)))
    return minimise(
        lambda point: pressure - flow_at(point) @ directions,
        find_step,
        np.zeros(len(pressure)),
        atol=enough,
        max_steps=MAX_EMBEDDED_STEPS,
    )
