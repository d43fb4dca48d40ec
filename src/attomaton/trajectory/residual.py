"""The third term: the constant R that remains of W(t) after ln t · W_svm + W_fin.

Insert W(t) = ln t·W_svm + W_fin + R into gradient descent. An edge A → B of the order of components is tight
if hard scores differ by exactly 1. There, the attention of labels in A on B is κ_AB e^{R_B − R_A}/(η t) in
total; elsewhere it decays faster. These flows must add up to W_svm/t, so R makes Σ_tight κ_AB e^{R_B − R_A} +
⟨W_svm, R⟩ stationary: a convex function of one number per component (orthonormal embeddings), or of the
coordinates of R in the span of all tight edges.

:func:`find_priorities` computes κ, and :func:`solve_orthonormal` or :func:`solve_embedded` find R. A *block*
is a set of components that tight edges connect; the *level* of a component is its score or its entry of R.
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

POSITIVE = 1e-9  # orthonormal: multipliers below this count as zero; they are exact to rounding, and rational
PRESSED = 1e-7  # embedded: multipliers below this, relative to the largest, count as zero
FEASIBLE_MULTIPLIER = 1e-10  # how far below 0 a multiplier may be, by rounding

MAX_RESIDUAL_STEPS, MAX_EMBEDDED_STEPS = 200, 500  # Newton steps for orthonormal and for given embeddings
RESIDUAL_TOLERANCE, EMBEDDED_TOLERANCE = 1e-11, 1e-12  # of the gradient, relative to the largest supply
DENSE_COMPONENTS = 400  # maximum number of components of a block whose eigenvalues are computed densely

_linalg: Any = np.linalg


@dataclass(frozen=True, eq=False)
class Priorities:
    """The edges A → B of the order, as arrays of shape (n_order,)."""

    above: Int64  # the component A
    below: Int64  # the component B
    slack: Float64  # the hard score of A, less that of B, less 1
    tight: Bool  # where the slack is zero
    kappa: Float64  # κ_AB


@dataclass(frozen=True, eq=False)
class Residual(ABC):
    """The third term R and what the data leave open about it.

    Scores of the ends of a ``degenerate`` edge drift apart like ln ln t.
    """

    priorities: Priorities
    weights: Float64 | csc_array  # R, shape (dim, dim), or sparse (n_tokens, n_tokens)
    scores: Float64  # (n_nodes,), the score of every node under R
    flow: Float64  # (n_order,), κ e^{R_B − R_A} of the tight edges: multipliers of the Graph-SVM
    degenerate: Bool  # (n_order,), the tight edges on which every multiplier is zero
    path_dependent: Bool  # (n_components,), where R depends on the path, and ``weights`` is what does not
    gradient: float  # the largest entry of the remaining gradient

    @abstractmethod
    def settling(self) -> float:
        """λ: the smallest rate, in ln t, at which tight edges converge to R; 1 if there are none."""


def find_priorities(
    loss: TrainingLoss, hard: Float64, soft: Float64, *, step_size: float, atol: float
) -> Priorities:
    """The edges of the order with slack and κ, from the hard and soft scores of all nodes."""
    components = loss.components
    above, below = column(components.order, "above"), column(components.order, "below")
    level = np.zeros(len(components))
    level[components.component_of_node] = hard
    slack = level[above] - level[below] - 1.0
    kappa = _sum_kappa(loss, soft, above, below) * step_size / loss.n_samples
    return Priorities(above, below, slack, slack <= atol, kappa)


# κ_AB · n / η of each edge A → B, shape (n_order,), from the soft scores of all nodes.
def _sum_kappa(loss: TrainingLoss, soft: Float64, above: Integers, below: Integers) -> Float64:
    # κ_AB = (η/n) Σ over samples labelled in A of (Σ_{x in B} m_x e^{w_x}) / (Σ_{a in A} m_a e^{w_a}), with
    # the soft scores w and the multiplicities m in the context. ``choice`` and the arrays like it have an
    # entry for each distinct token of each choice, which stands for ``count`` samples.
    problem, component = loss.problem, loss.component
    choice = rows_of(problem.offsets)
    n_choices = len(problem.winner)
    label_component = component[problem.winner][choice]
    token_component = component[problem.alternative]
    is_inside = label_component == token_component  # in A; the other tokens are in components below A
    logits = soft[loss.nodes][problem.alternative] + problem.log_multiplicity
    odds = np.exp(logits - largest_of(choice[is_inside], logits[is_inside], n_choices)[choice])
    odds_inside = sum_at(choice[is_inside], odds[is_inside], n_choices)
    choice_below = choice[~is_inside]
    ratios = odds[~is_inside] / odds_inside[choice_below] * problem.count[choice_below]

    size = len(loss.components)
    edge_keys = label_component[~is_inside] * size + token_component[~is_inside]
    edge = np.searchsorted(above * size + below, edge_keys)  # edges are sorted by (above, below)
    return sum_at(edge, ratios, len(above))


# orthonormal embeddings: R is one number per component


@dataclass(frozen=True, eq=False)
class OrthonormalResidual(Residual):
    """R as one number per component; ``sizes`` (n_components,) are their numbers of nodes."""

    sizes: Int64

    def settling(self) -> float:
        """The smallest eigenvalue of D^{-½} L D^{-½} except the zero of every block.

        L is the Laplacian weighted with the flow, D the sizes.
        """
        active = np.flatnonzero(self.flow > 0)
        above, below = self.priorities.above[active], self.priorities.below[active]
        block_of_edge = label_blocks(above, below, len(self.sizes))[above]
        by_block = np.argsort(block_of_edge, kind="stable")
        starts = run_starts(block_of_edge[by_block])
        root = np.sqrt(self.sizes.astype(np.float64))
        rates = [
            _second_eigenvalue(above[edges], below[edges], self.flow[active[edges]], root)
            for edges in np.split(by_block, starts[1:])
            if len(edges)
        ]
        return min(rates, default=1.0)


def solve_orthonormal(
    components: Components, priorities: Priorities, hard: Float64, multipliers: Float64
) -> OrthonormalResidual:
    """R for orthonormal embeddings: Σ_C |C| R_C = 0 in every block of tight edges."""
    size, sizes = len(components), components.sizes
    degenerate = find_degenerate(priorities, multipliers, size)
    active = np.flatnonzero(priorities.tight & ~degenerate)
    above, below = priorities.above[active], priorities.below[active]
    kappa = priorities.kappa[active]
    block = label_blocks(above, below, size)
    supply = sum_at(components.component_of_node, hard, size)  # ⟨W_svm, R⟩ = Σ_C supply_C R_C
    problem = _FlowProblem(above, below, np.log(kappa), centre(block, supply), block)
    levels, gradient = problem.minimise()
    levels = _centre_by_size(block, levels, sizes)
    flow = np.zeros(len(priorities.kappa))
    flow[active] = kappa * np.exp(levels[below] - levels[above])
    scores = levels[components.component_of_node]
    weights = sparse_weights(score_table(components.nodes, scores), components.edges.n_tokens)
    path_dependent = _find_path_dependent(priorities, block)
    return OrthonormalResidual(priorities, weights, scores, flow, degenerate, path_dependent, gradient, sizes)


# Shift the levels R_C of each block so that Σ_C |C| R_C is 0 there.
def _centre_by_size(block: Int64, levels: Float64, sizes: Int64) -> Float64:
    weight = sizes.astype(np.float64)
    total_weight = np.maximum(sum_at(block, weight, len(block)), 1.0)
    mean_level = sum_at(block, weight * levels, len(block)) / total_weight
    return levels - mean_level[block]


# Which components are connected to other blocks by edges that are not tight, shape (n_components,).
def _find_path_dependent(priorities: Priorities, block: Int64) -> Bool:
    # tight edges determine R inside each block, but not the difference between two blocks
    connected = label_blocks(priorities.above, priorities.below, len(block))  # by any edges
    first_of_block = np.unique(block, return_index=True)[1]  # one component stands for each block
    n_blocks = np.bincount(connected[first_of_block], minlength=len(block))
    return n_blocks[connected] > 1


def find_degenerate(priorities: Priorities, multipliers: Float64, size: int) -> Bool:
    """Tight edges on which every set of multipliers is zero, shape (n_order,)."""
    tight = np.flatnonzero(priorities.tight)
    above, below = priorities.above[tight], priorities.below[tight]
    is_positive = multipliers[tight] > POSITIVE
    # Multipliers may change along a cycle of tight edges: up on any edge in its own direction, and down
    # against it on edges with a positive multiplier. An edge at zero can be raised exactly if such a cycle
    # contains it, that is, if its ends are in one strong component of the graph of allowed changes.
    heads = np.concatenate([above, below[is_positive]])
    tails = np.concatenate([below, above[is_positive]])
    graph = csr_array((np.ones(len(heads), np.int8), (heads, tails)), shape=(size, size))
    strong = connected_components(graph, directed=True, connection="strong")[1]
    degenerate = np.zeros(len(priorities.tight), bool)
    degenerate[tight] = strong[above] != strong[below]
    return degenerate


def label_blocks(above: Integers, below: Integers, size: int) -> Int64:
    """The block (weakly connected component of these edges) of each component 0 … size − 1, shape (size,)."""
    graph = csr_array((np.ones(len(above), np.int8), (above, below)), shape=(size, size))
    return connected_components(graph, directed=False)[1].astype(np.int64)


@dataclass(frozen=True, eq=False)
class _FlowProblem:
    """Minimise Σ e^{ln κ + R_B − R_A} + Σ_C supply_C R_C over R, one number per component C.

    The edges A → B are in ``above``, ``below`` and ``log_kappa`` (n_edges,); ``supply`` and ``block`` have an
    entry per component, and the mean supply of a block is zero.
    """

    above: Int64
    below: Int64
    log_kappa: Float64
    supply: Float64
    block: Int64

    def minimise(self) -> tuple[Float64, float]:
        """R, and the largest entry of the remaining gradient."""
        start = np.zeros(len(self.supply))
        atol = self._tolerance
        return minimise(self._gradient, self._find_step, start, atol=atol, max_steps=MAX_RESIDUAL_STEPS)

    @property
    def _tolerance(self) -> float:
        return RESIDUAL_TOLERANCE * max(1.0, float(np.abs(self.supply).max(initial=0.0)))

    def _flow(self, levels: Float64) -> Float64:
        return np.exp(self.log_kappa + levels[self.below] - levels[self.above])

    # What a component supplies, plus what flows in, minus what flows out, shape (n_components,).
    def _gradient(self, levels: Float64) -> Float64:
        flow, size = self._flow(levels), len(self.supply)
        gradient = self.supply + sum_at(self.below, flow, size) - sum_at(self.above, flow, size)
        return centre(self.block, gradient)  # rounding must not push along a constant

    # Newton's step, and for each component the largest change of a logit in its block.
    def _find_step(self, levels: Float64, gradient: Float64) -> tuple[Float64, Float64]:
        above, below, block = self.above, self.below, self.block
        size = len(self.supply)
        flow = self._flow(levels)
        diagonal = sum_at(below, flow, size) + sum_at(above, flow, size)
        diagonal[diagonal == 0.0] = 1.0  # a component without tight edges, whose gradient is zero

        def multiply(direction: Float64) -> Float64:  # by the Hessian, the Laplacian weighted with the flow
            transport = flow * (direction[above] - direction[below])
            return sum_at(above, transport, size) - sum_at(below, transport, size)

        remaining = largest_of(block, np.abs(gradient), size)
        right = np.where(remaining[block] > self._tolerance, -gradient, 0.0)  # solved blocks stay
        step = solve_systems(multiply, right, diagonal, block, rtol=1e-6, max_steps=2_000)
        change = largest_of(block[above], np.abs(step[above] - step[below]), size, least=0.0)
        return step, change[block]


# The smallest positive eigenvalue of D^{-½} L D^{-½} for the edges of one block, D = root².
def _second_eigenvalue(above: Int64, below: Int64, flow: Float64, root: Float64) -> float:
    members, row = np.unique(np.concatenate([above, below]), return_inverse=True)  # components of the block
    top, bottom = np.split(row, 2)  # the rows of the matrix that each edge joins
    scale = root[members]
    size = len(members)
    diagonal = (sum_at(top, flow, size) + sum_at(bottom, flow, size)) / scale**2
    coupling = -flow / (scale[top] * scale[bottom])
    rows = np.concatenate([top, bottom, np.arange(size)])
    columns = np.concatenate([bottom, top, np.arange(size)])
    values = np.concatenate([coupling, coupling, diagonal])
    matrix = csr_array((values, (rows, columns)), shape=(size, size))
    if size <= DENSE_COMPONENTS:
        return float(np.linalg.eigvalsh(matrix.toarray())[1])
    from scipy.sparse.linalg import eigsh  # takes long to import, so only when needed

    # the two eigenvalues nearest to a shift just below 0, at which the matrix is still invertible
    # Without a start vector, eigsh would draw one, and the last digits would differ between two runs.
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    smallest = eigsh(matrix.tocsc(), k=2, sigma=-1e-6, which="LM", v0=start, return_eigenvectors=False)
    return float(np.sort(smallest)[1])


# given embeddings: R in the coordinates of a basis


@dataclass(frozen=True, eq=False)
class EmbeddedResidual(Residual):
    """R in the span of the tight edges; ``directions`` are those of all edges, in the axes of the basis."""

    directions: Float64  # (n_order, n_axes), the difference of the scores of above and below along each axis

    def settling(self) -> float:
        """The smallest eigenvalue of Σ flow·a aᵀ on the span of the directions a with positive flow."""
        active = self.flow > 0
        projected = self.directions[active] @ find_span(self.directions[active]).T
        if not projected.size:
            return 1.0
        return float(np.linalg.eigvalsh((projected.T * self.flow[active]) @ projected)[0])


def solve_embedded(
    components: Components, priorities: Priorities, basis: Basis, direction: Float64
) -> EmbeddedResidual:
    """R in the coordinates of the basis, where W_svm is ``direction``."""
    above, below = find_ends(components)  # a node of each component stands for it
    kappa = priorities.kappa
    directions = basis.nodes[above] - basis.nodes[below]
    # R is zero along cyclic axes and outside the span of the tight edges.
    directions[:, : basis.n_cyclic] = 0.0
    tight = np.flatnonzero(priorities.tight)
    degenerate = np.zeros(len(kappa), bool)
    degenerate[tight] = find_zero_multipliers(directions[tight], direction)
    active = np.flatnonzero(priorities.tight & ~degenerate)
    axes = find_span(directions[active])
    projected = directions[active] @ axes.T
    coordinates, gradient = _minimise_embedded(projected, np.log(kappa[active]), axes @ direction)
    flow = np.zeros(len(kappa))
    flow[active] = kappa[active] * np.exp(-projected @ coordinates)
    path_dependent = np.full(len(components), len(axes) < len(basis.axes) - basis.n_cyclic)
    point = coordinates @ axes
    weights = basis.weights(point)
    scores = basis.nodes @ point
    return EmbeddedResidual(
        priorities, weights, scores, flow, degenerate, path_dependent, gradient, directions
    )


def find_zero_multipliers(directions: Float64, target: Float64) -> Bool:
    """Which directions a have α = 0 under all multipliers α ≥ 0 with Σ α a = target, shape (n_tight,)."""
    size = len(directions)
    if not size:
        return np.zeros(0, bool)
    # Independent directions have one α. Otherwise one linear program decides: raise as many multipliers as
    # possible to a small positive value.
    axes = find_span(directions)
    smallest = PRESSED * max(float(np.abs(target).max()), 1e-300)
    if len(axes) == size:  # independent
        multipliers = np.linalg.solve(axes @ directions.T, axes @ target)
        if multipliers.min() >= -FEASIBLE_MULTIPLIER:
            return multipliers < 0.5 * smallest
    from scipy.optimize import linprog  # takes long to import, so only when needed

    program: Any = linprog(  # max Σ raised over (α, raised), with 0 ≤ raised ≤ α and raised ≤ smallest
        np.concatenate([np.zeros(size), -np.ones(size)]),
        A_ub=np.hstack([-np.eye(size), np.eye(size)]),
        b_ub=np.zeros(size),
        A_eq=np.hstack([axes @ directions.T, np.zeros((len(axes), size))]),
        b_eq=axes @ target,
        bounds=[(0.0, None)] * size + [(0.0, smallest)] * size,
        method="highs",
        options={"primal_feasibility_tolerance": FEASIBLE_MULTIPLIER},
    )
    if program.status != 0:
        raise UncertifiedSolution(
            f"the tight edges do not add up to W_svm with multipliers of at least 0 ({program.message}), so "
            "the hard solution is not precise enough; solve it with a smaller rtol"
        )
    return np.asarray(program.x[size:] < 0.5 * smallest)


# The y that minimises Σ e^{ln κ − a·y} + target·y over the edges a, and the remaining gradient.
def _minimise_embedded(directions: Float64, log_kappa: Float64, target: Float64) -> tuple[Float64, float]:
    def flow_at(point: Float64) -> Float64:
        return np.exp(np.clip(log_kappa - directions @ point, -700, 700))  # finite in float64

    def find_step(point: Float64, gradient: Float64) -> tuple[Float64, float]:
        hessian = (directions.T * flow_at(point)) @ directions
        step: Float64 = -_linalg.lstsq(hessian, gradient, rcond=None)[0]
        return step, float(np.abs(directions @ step).max())

    return minimise(
        lambda point: target - flow_at(point) @ directions,
        find_step,
        np.zeros(len(target)),
        atol=EMBEDDED_TOLERANCE * max(1.0, float(np.abs(target).max(initial=0.0))),
        max_steps=MAX_EMBEDDED_STEPS,
    )
