"""Goldfarb and Idnani's dual active-set method on a forest of tight edges.

The state is always optimal for the edges it holds active (all multipliers ≥ 0); violated edges are taken in
one by one. Taking one in pushes its upper block up and its lower block down until the gap is as asked; an
edge whose multiplier reaches zero on the way lets go. Each step raises the dual objective, so no state
returns and ties cannot make it circle. Positions are whole offsets plus one balance per block, hence exact to
rounding.
"""

import numpy as np

from attomaton.base.kernels import compiled, compiled_within
from attomaton.base.tables import Float64
from attomaton.solvers.hard.forest import (
    FIRST,
    NONE,
    UNSEEN,
    Forest,
    Graph,
    Walk,
    first_to_ease,
    link,
    multiplier_into,
    place,
    settle,
    survey,
    unlink,
    whole,
)

MAX_SWEEPS = 100_000


@compiled
def pivot(graph: Graph, forest: Forest, walk: Walk, limits: tuple[float, float]) -> None:
    """Bring every edge to its gap, from any forest; ``limits`` are greed and tolerance.

    Rounding could make it circle only if the tolerance were below what rounding leaves of positions; a limit
    on the sweeps ends it then, and the certificate tells.
    """
    greed, atol = limits
    while _drop_negative(graph, forest, walk) > 0:
        pass
    for _ in range(MAX_SWEEPS):
        worst = 0.0
        for edge in range(len(graph.above)):
            worst = max(worst, _violation(graph, forest, edge))
        if worst <= atol:
            return
        for edge in range(len(graph.above)):
            if _violation(graph, forest, edge) > max(atol, greed * worst):
                _take_in(graph, forest, walk, edge)


@compiled
def collect(graph: Graph, forest: Forest, walk: Walk) -> Float64:
    """Settle every block; returns the multipliers, 0 where an edge is not active, shape (n_edges,)."""
    multipliers = np.zeros(len(graph.above))
    for node in range(len(graph.weight)):
        walk.entry[node] = UNSEEN
    for root in range(len(graph.weight)):
        if walk.entry[root] == UNSEEN:
            end, root_position = settle(graph, forest, walk, root, FIRST)
            for at in range(1, end):
                node = walk.order[at]
                multipliers[walk.entry[node] >> 1] = multiplier_into(walk, node, root_position)
    return multipliers


@compiled_within
def _violation(graph: Graph, forest: Forest, edge: int) -> float:
    return graph.gap[edge] - forest.position[graph.above[edge]] + forest.position[graph.below[edge]]


@compiled_within
def _drop_negative(graph: Graph, forest: Forest, walk: Walk) -> int:
    """Settle every block and let go of the edges that pull; returns how many there were."""
    multipliers, n_pulling = collect(graph, forest, walk), 0
    for edge in range(len(multipliers)):
        if multipliers[edge] < 0.0:
            unlink(graph, forest, edge)
            n_pulling += 1
    return n_pulling


@compiled_within
def _take_in(graph: Graph, forest: Forest, walk: Walk, edge: int) -> None:
    """Make a violated edge tight: push its ends apart and let go of each edge that the push eases to zero."""
    top, bottom = whole(graph.above[edge]), whole(graph.below[edge])
    begin, middle = FIRST, len(graph.weight)
    walk.entry[bottom] = UNSEEN
    end, weight, height = survey(graph, forest, walk, top, begin)
    if walk.entry[bottom] != UNSEEN:
        unlink(graph, forest, _weakest(graph, walk, top, bottom, height))
        end, weight, height = survey(graph, forest, walk, top, begin)
    push, eased = first_to_ease(walk, begin, end, (weight, height), True)
    end_low, weight_low, height_low = survey(graph, forest, walk, bottom, middle)
    push_low, eased_low = first_to_ease(walk, middle, end_low, (weight_low, height_low), False)
    gap = graph.gap[edge]
    while True:
        needed = (gap - height + height_low) / (1.0 / weight + 1.0 / weight_low)
        if min(push, push_low) >= needed:
            break
        if push <= push_low:
            unlink(graph, forest, eased)
            settle(graph, forest, walk, whole(graph.below[eased]), begin)
            end, weight, height = survey(graph, forest, walk, top, begin)
            push, eased = first_to_ease(walk, begin, end, (weight, height), True)
        else:
            unlink(graph, forest, eased_low)
            settle(graph, forest, walk, whole(graph.above[eased_low]), middle)
            end_low, weight_low, height_low = survey(graph, forest, walk, bottom, middle)
            push_low, eased_low = first_to_ease(walk, middle, end_low, (weight_low, height_low), False)
    link(graph, forest, edge)
    joint = (weight * height + weight_low * (height_low + gap)) / (weight + weight_low)
    place(forest, walk, begin, end, joint)
    place(forest, walk, middle, end_low, joint - gap)


@compiled_within
def _weakest(graph: Graph, walk: Walk, top: int, bottom: int, root_position: float) -> int:
    """The weakest edge that holds the upper end of an edge down, when both ends are in the listed block."""
    weakest, least, node = NONE, np.inf, bottom
    while node != top:
        half = walk.entry[node]
        multiplier = multiplier_into(walk, node, root_position)
        if half & 1 == 0 and multiplier < least:
            weakest, least = half >> 1, multiplier
        node = graph.below[half >> 1] if half & 1 else graph.above[half >> 1]
    return weakest
