"""The scores nearest to given ones that respect every tie and every priority."""

from typing import NamedTuple

import numpy as np

from attomaton.base.kernels import compiled
from attomaton.base.ragged import centre
from attomaton.base.tables import Bool, Float64, Int32
from attomaton.solvers.hard.forest import (
    NONE,
    Forest,
    Graph,
    Walk,
    active_edges,
    empty_forest,
    empty_walk,
    survey,
    unit_graph,
)
from attomaton.solvers.hard.pivots import collect, pivot
from attomaton.solvers.hard.planting import longest_paths, plant, rank_edges
from attomaton.solvers.hard.problem import EmbeddedProblem


class Nearest(NamedTuple):
    """A projection: its scores, and the rigid blocks that its tight edges and ties make of the nodes."""

    scores: Float64  # (n_nodes,)
    flow: Float64  # (n_edges,): the multipliers of the order's edges
    block: Int32  # (n_nodes,)
    offset: Float64  # (n_nodes,): score less that of the block's first node

    def centred(self, values: Float64) -> Float64:
        """The values less their mean on each block, shape (n_nodes,) or (n_nodes, n_columns)."""
        return centre(self.block, values)


class Projector:
    """Projects scores onto the order of a problem; each call starts from the tight edges of the last."""

    def __init__(self, problem: EmbeddedProblem) -> None:
        order = problem.order
        self._component = problem.component
        self._graph = unit_graph(order.sizes.astype(np.float64), order.above, order.below, 0)
        height, depth = longest_paths(self._graph)
        self._first, self._levels = rank_edges(self._graph, height, depth), int(height.max(initial=0))

    def nearest(self, scores: Float64) -> Nearest:
        """The nearest point, exact to rounding: min Σ (x − scores)² under all ties and priorities."""
        component = self._component
        moment = -np.bincount(component, scores, len(self._graph.weight))
        graph = self._graph._replace(moment=moment)
        tolerance = 4e-15 * (1.0 + 2 * float(np.abs(scores).max(initial=0.0)) + self._levels)
        positions, flow, active, (block, offset) = _project(graph, self._first, (0.5, tolerance))
        self._first = np.flatnonzero(active).astype(np.int32)
        return Nearest(positions[component], flow, block[component], offset[component].astype(np.float64))


def _sweep_work(graph: Graph, *_: object) -> float:
    """The solver looks at every node and edge about ten times."""
    return 10.0 * (len(graph.weight) + len(graph.above))


@compiled(work=_sweep_work)
def _project(
    graph: Graph, first: Int32, limits: tuple[float, float]
) -> tuple[Float64, Float64, Bool, tuple[Int32, Int32]]:
    """Positions, multipliers, active edges, blocks and offsets, starting from the edges ``first``."""
    forest, walk = empty_forest(graph), empty_walk(graph)
    plant(graph, forest, first)
    pivot(graph, forest, walk, limits)
    flow = collect(graph, forest, walk)
    return forest.position, flow, active_edges(graph, forest), _number_blocks(graph, forest, walk)


@compiled
def _number_blocks(graph: Graph, forest: Forest, walk: Walk) -> tuple[Int32, Int32]:
    """The block of each node, and its position less that of the block's first node."""
    block, offset = np.full(len(graph.weight), NONE, np.int32), np.zeros(len(graph.weight), np.int32)
    n_blocks = 0
    for root in range(len(block)):
        if block[root] == NONE:
            end, _, _ = survey(graph, forest, walk, root, 0)
            for at in range(end):
                block[walk.order[at]] = n_blocks
                offset[walk.order[at]] = walk.offset[walk.order[at]]
            n_blocks += 1
    return block, offset
