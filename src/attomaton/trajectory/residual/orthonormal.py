"""The third term for orthonormal embeddings: a number for each component, each block of tight edges alone."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from attomaton.base.ragged import centre, largest_of, run_starts, sum_at
from attomaton.base.solutions import score_table, sparse_weights
from attomaton.base.tables import Bool, Float64, Int64, Integers
from attomaton.graphs.components import Components
from attomaton.solvers.soft.damped import minimise
from attomaton.solvers.soft.gradients import solve_systems
from attomaton.trajectory.residual.problem import Priorities, Residual

POSITIVE = 1e-9
"""Multipliers below this count as zero; they are exact to rounding, and rational."""

MAX_STEPS = 200
DENSE = 400
"""Blocks up to this many components have their eigenvalues computed as dense matrices."""


@dataclass(frozen=True, eq=False)
class OrthonormalResidual(Residual):
    """R as one number for each component, with the components' sizes, shape (n_components,)."""

    sizes: Int64

    def settling(self) -> float:
        """Eigenvalues of D^{-½} L D^{-½}: L the Laplacian weighted with the flow, D the sizes.

        The zero of every block does not count.
        """
        held = np.flatnonzero(self.flow > 0)
        above, below = self.priorities.above[held], self.priorities.below[held]
        block = join(above, below, len(self.sizes))[above]
        order = np.argsort(block, kind="stable")
        starts = run_starts(block[order])
        root = np.sqrt(self.sizes.astype(np.float64))
        rates = [
            _settling(above[rows], below[rows], self.flow[held[rows]], root)
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
    held = np.flatnonzero(priorities.tight & ~degenerate)
    above, below, kappa = priorities.above[held], priorities.below[held], priorities.kappa[held]
    block = join(above, below, size)
    pressure = sum_at(components.component_of_node, hard, size)
    pressure = centre(block, pressure)  # its mean is zero but for rounding
    answer, gradient = _minimise((above, below, np.log(kappa)), pressure, block)
    answer = answer - _mean(block, sizes.astype(np.float64), answer)
    flow = np.zeros(len(priorities.kappa))
    flow[held] = kappa * np.exp(answer[below] - answer[above])
    weak = join(priorities.above, priorities.below, size)
    n_blocks = np.bincount(weak[np.unique(block, return_index=True)[1]], minlength=size)
    scores = answer[components.component_of_node]
    weights = sparse_weights(score_table(components.nodes, scores), components.edges.n_tokens)
    return OrthonormalResidual(
        priorities, weights, scores, flow, degenerate, n_blocks[weak] > 1, gradient, sizes
    )


def find_degenerate(priorities: Priorities, multipliers: Float64, size: int) -> Bool:
    """Tight edges that every set of multipliers leaves at zero, shape (n_order,).

    Multipliers may be changed along a circle of tight edges: up on any edge in its own direction, and down
    on edges that have some, against it. An edge at zero can be raised exactly if such a circle holds it, that
    is, if its ends are in one strong component of the graph of allowed changes.
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


def join(one: Integers, other: Integers, size: int) -> Int64:
    """Numbers for the connected parts of 0 … size − 1, shape (size,)."""
    graph = csr_array((np.ones(len(one), np.int8), (one, other)), shape=(size, size))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _mean(group: Int64, weight: Float64, values: Float64) -> Float64:
    """The weighted mean of ``values`` over the group of each entry."""
    total = sum_at(group, weight * values, len(group)) / np.maximum(sum_at(group, weight, len(group)), 1.0)
    return total[group]


def _minimise(edges: tuple[Int64, Int64, Float64], pressure: Float64, block: Int64) -> tuple[Float64, float]:
    """Newton's method for Σ e^{ln κ + R_B − R_A} + Σ pressure·R in all blocks, and the gradient left."""
    above, below, log_kappa = edges
    size = len(pressure)
    enough = 1e-11 * max(1.0, float(np.abs(pressure).max(initial=0.0)))

    def flow_at(place: Float64) -> Float64:
        return np.exp(log_kappa + place[below] - place[above])

    def slope(place: Float64) -> Float64:
        flow = flow_at(place)
        gradient = pressure + sum_at(below, flow, size) - sum_at(above, flow, size)
        return centre(block, gradient)  # rounding must not push along a constant

    def find_step(place: Float64, gradient: Float64) -> tuple[Float64, Float64]:
        flow = flow_at(place)
        diagonal = sum_at(below, flow, size) + sum_at(above, flow, size)
        diagonal[diagonal == 0.0] = 1.0  # a component without tight edges, which nothing presses

        def bend(direction: Float64) -> Float64:
            across = flow * (direction[above] - direction[below])
            return sum_at(above, across, size) - sum_at(below, across, size)

        left = largest_of(block, np.abs(gradient), size)
        right = np.where(left[block] > enough, -gradient, 0.0)
        step = solve_systems(bend, right, diagonal, block, rtol=1e-6, max_steps=2_000)
        reach = largest_of(block[above], np.abs(step[above] - step[below]), size, least=0.0)
        return step, reach[block]

    return minimise(slope, find_step, np.zeros(size), atol=enough, max_steps=MAX_STEPS)


def _settling(above: Int64, below: Int64, flow: Float64, root: Float64) -> float:
    """The smallest eigenvalue but one of a single block."""
    nodes, place = np.unique(np.concatenate([above, below]), return_inverse=True)
    one, other = place[: len(above)], place[len(above) :]
    scale, size, all_nodes = root[nodes], len(nodes), np.arange(len(nodes))
    diagonal = (sum_at(one, flow, size) + sum_at(other, flow, size)) / scale**2
    across = -flow / (scale[one] * scale[other])
    places = np.concatenate([one, other, all_nodes]), np.concatenate([other, one, all_nodes])
    matrix = csr_array((np.concatenate([across, across, diagonal]), places), shape=(size, size))
    if size <= DENSE:
        return float(np.linalg.eigvalsh(matrix.toarray())[1])
    from scipy.sparse.linalg import eigsh  # takes long to import, so only when needed

    values = eigsh(matrix.tocsc(), k=2, sigma=-1e-6, which="LM", return_eigenvectors=False)
    return float(np.sort(values)[1])
