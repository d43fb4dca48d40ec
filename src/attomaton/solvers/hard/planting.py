"""An initial forest for the block solver: the edges that are most likely tight.

If the longest path of an order is rigid, every other node lies between a longest path from the bottom and one
from the top. Nodes that must stay above the balance press down on such a path, nodes that must stay below it
press up against one; those edges come first, then all others by their slack on longest paths.
"""

import numpy as np

from attomaton.base.kernels import compiled, compiled_within, copy_into
from attomaton.base.tables import Float64, Int32
from attomaton.graphs.topology import sort_topologically
from attomaton.solvers.hard.forest import NONE, Array, Forest, Graph, link, whole


@compiled
def longest_paths(graph: Graph) -> tuple[Int32, Int32]:
    """Length of the longest path down and up from each node of an order, shape (n_nodes,) each.

    Edges must be sorted by their upper end.
    """
    size = len(graph.weight)
    start = np.zeros(size + 1, np.int32)
    for edge in range(len(graph.above)):
        start[graph.above[edge] + 1] += 1
    for node in range(size):
        start[node + 1] += start[node]
    topological = sort_topologically(start, graph.below)
    height, depth = np.zeros(size, np.int32), np.zeros(size, np.int32)
    for node in topological:
        for edge in range(start[node], start[node + 1]):
            depth[graph.below[edge]] = max(depth[graph.below[edge]], depth[node] + 1)
    for node in topological[::-1]:
        for edge in range(start[node], start[node + 1]):
            height[node] = max(height[node], height[graph.below[edge]] + 1)
    return height, depth


@compiled
def rank_edges(graph: Graph, height: Int32, depth: Int32) -> Int32:
    """The edges, sorted by their slack on longest paths, least first, shape (n_edges,).

    Slack of A → B: height(A) − height(B) − 1 + depth(B) − depth(A) − 1; by counting sort.
    """
    n_edges = len(graph.above)
    slack, most = np.empty(n_edges, np.int32), 0
    for edge in range(n_edges):
        a, b = graph.above[edge], graph.below[edge]
        slack[edge] = height[a] - height[b] + depth[b] - depth[a] - 2
        most = max(most, slack[edge])
    position = np.zeros(most + 2, np.int64)
    for edge in range(n_edges):
        position[slack[edge] + 1] += 1
    for rank in range(most + 1):
        position[rank + 1] += position[rank]
    ranked = np.empty(n_edges, np.int32)
    for edge in range(n_edges):
        ranked[position[slack[edge]]] = edge
        position[slack[edge]] += 1
    return ranked


@compiled
def prefer_edges(graph: Graph, height: Int32, depth: Int32, reach: tuple[Float64, Float64]) -> Int32:
    """Edges to plant, those most likely tight first; some occur twice. ``reach`` is that of the nodes."""
    low, high = reach
    through = np.empty(len(height), np.int32)
    for node in range(len(height)):
        through[node] = height[node] + depth[node]
    bond = bind(graph, through, low, high, 0.0)
    ranked = rank_edges(graph, height, depth)
    critical = 0
    for edge in ranked:  # those on a longest path of their weak component: neither end has slack
        a, b = graph.above[edge], graph.below[edge]
        if through[a] != through[b] or high[a] - low[a] >= 0.5 or high[b] - low[b] >= 0.5:
            break
        critical += 1
    preferred, n_preferred = np.empty(len(ranked) + len(bond), np.int32), critical
    copy_into(preferred, 0, ranked[:critical])
    for node in range(len(bond)):
        if bond[node] != NONE:
            preferred[n_preferred] = bond[node]
            n_preferred += 1
    copy_into(preferred, n_preferred, ranked[critical:])
    return preferred[: n_preferred + len(ranked) - critical]


@compiled
def find_reach(graph: Graph, height: Int32, depth: Int32) -> tuple[Float64, Float64]:
    """Lowest and highest position of each node if the longest path of its weak component were rigid.

    That path is placed where the positions closest to 0 within these bounds balance; bisection finds the
    position for all weak components at once.
    """
    leader, size = np.arange(len(height)), len(height)  # one node for each weak component
    for edge in range(len(graph.above)):
        one, other = whole(graph.above[edge]), whole(graph.below[edge])
        leader[_lead(leader, one)] = _lead(leader, other)
    for node in range(size):
        leader[node] = _lead(leader, node)
    least, most, load = np.zeros(size), np.zeros(size), np.zeros(size)
    for node in range(size):
        most[leader[node]] = max(most[leader[node]], height[node] + depth[node])
    room = np.empty(size)
    for node in range(size):
        room[node] = most[leader[node]] - depth[node]
    for _ in range(40):
        for node in range(size):
            load[node] = 0.0
        for node in range(size):
            base = (least[leader[node]] + most[leader[node]]) / 2
            load[leader[node]] += graph.weight[node] * min(max(0.0, height[node] - base), room[node] - base)
        for node in range(size):
            if leader[node] == node:
                base = (least[node] + most[node]) / 2
                if load[node] > 0.0:
                    least[node] = base
                else:
                    most[node] = base
    low = np.empty(size)
    for node in range(size):
        base = (least[leader[node]] + most[leader[node]]) / 2
        low[node] = height[node] - base
        room[node] -= base
    return low, room


@compiled
def bind(graph: Graph, through: Int32, low: Float64, high: Float64, margin: float) -> Int32:
    """The edge that binds each node beyond the margin to the next node inwards, or NONE, shape (n_nodes,).

    Of several edges it is the one towards the longest path; ``through`` is the longest path via each node.
    """
    bond, best = np.full(len(low), NONE, np.int32), np.full(len(low), NONE, np.int32)
    for edge in range(len(graph.above)):
        a, b = graph.above[edge], graph.below[edge]
        if low[a] > margin and low[a] - low[b] < 1.5 and through[b] > best[a]:
            bond[a], best[a] = edge, through[b]
        if high[b] < -margin and high[a] - high[b] < 1.5 and through[a] > best[b]:
            bond[b], best[b] = edge, through[a]
    return bond


@compiled
def plant(graph: Graph, forest: Forest, edges: Int32) -> None:
    """Activate every edge, in the given order, that closes no cycle."""
    leader = np.arange(len(graph.weight))
    for edge in edges:
        one, other = _lead(leader, whole(graph.above[edge])), _lead(leader, whole(graph.below[edge]))
        if one != other:
            leader[one] = other
            link(graph, forest, whole(edge))


@compiled_within
def _lead(leader: Array, node: int) -> int:
    """The leader of a node's set (union-find with path halving)."""
    while leader[node] != node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node
