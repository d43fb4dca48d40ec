"""A first forest for the block solver: the edges on longest paths, which are the likeliest to be tight."""

import numpy as np

from attomaton.graphs.compiled import compiled
from attomaton.hard.solvers.forest import Array, Forest, Graph, link
from attomaton.tables import Int32, Int64


@compiled
def longest_paths(graph: Graph) -> tuple[Int32, Int32]:
    """Longest path downwards and upwards from each node of an order, shape (n_nodes,) each.

    Edges must come sorted by their upper end.
    """
    size = len(graph.weight)
    start, waiting = np.zeros(size + 1, np.int32), np.zeros(size, np.int32)
    for edge in range(len(graph.above)):
        start[graph.above[edge] + 1] += 1
        waiting[graph.below[edge]] += 1
    for node in range(size):
        start[node + 1] += start[node]
    height, depth = np.zeros(size, np.int32), np.zeros(size, np.int32)
    queue, end = np.empty(size, np.int32), 0
    for node in range(size):
        if waiting[node] == 0:
            queue[end] = node
            end += 1
    at = 0
    while at < end:
        node = queue[at]
        at += 1
        for edge in range(start[node], start[node + 1]):
            other = graph.below[edge]
            depth[other] = max(depth[other], depth[node] + 1)
            waiting[other] -= 1
            if waiting[other] == 0:
                queue[end] = other
                end += 1
    assert end == size  # noqa: S101  an order has no cycle
    for at in range(size - 1, -1, -1):
        node = queue[at]
        for edge in range(start[node], start[node + 1]):
            height[node] = max(height[node], height[graph.below[edge]] + 1)
    return height, depth


@compiled
def rank_edges(graph: Graph, height: Int32, depth: Int32) -> Int32:
    """The edges, those with least slack on longest paths first, shape (n_edges,).

    Slack of A → B: height(A) − height(B) − 1 + depth(B) − depth(A) − 1; sorted by counting.
    """
    n_edges = len(graph.above)
    slack, most = np.empty(n_edges, np.int32), 0
    for edge in range(n_edges):
        a, b = graph.above[edge], graph.below[edge]
        slack[edge] = height[a] - height[b] + depth[b] - depth[a] - 2
        most = max(most, slack[edge])
    place = np.zeros(most + 2, np.int64)
    for edge in range(n_edges):
        place[slack[edge] + 1] += 1
    for rank in range(most + 1):
        place[rank + 1] += place[rank]
    ranked = np.empty(n_edges, np.int32)
    for edge in range(n_edges):
        ranked[place[slack[edge]]] = edge
        place[slack[edge]] += 1
    return ranked


@compiled
def plant(graph: Graph, forest: Forest, edges: Int32) -> None:
    """Make active every edge, in the order given, that closes no circle."""
    leader = np.arange(len(graph.weight))
    for edge in edges:
        one, other = _lead(leader, graph.above[edge]), _lead(leader, graph.below[edge])
        if one != other:
            leader[one] = other
            link(graph, forest, edge)


@compiled
def find_leaders(graph: Graph) -> Int64:
    """One node for each weak component, the same for all its nodes, shape (n_nodes,)."""
    leader = np.arange(len(graph.weight))
    for edge in range(len(graph.above)):
        leader[_lead(leader, graph.above[edge])] = _lead(leader, graph.below[edge])
    for node in range(len(leader)):
        leader[node] = _lead(leader, node)
    return leader


@compiled
def _lead(leader: Array, node: int) -> int:
    """The leader of a node's set, halving the way there for the next call."""
    while leader[node] != node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node
