"""Bridges of flow graphs: the edges that every path from a root must take.

Graphs are in compressed rows: ``target[start[node]:start[node + 1]]`` are the heads of a node's edges, and
``source[enter[node]:enter[node + 1]]`` the tails of those that enter it. Compiled and iterative; many
disjoint graphs at once, each reached from its own root.
"""

import numpy as np

from attomaton.base.kernels import compiled
from attomaton.base.tables import Bool, Int64


@compiled
def find_flow_bridges(start: Int64, target: Int64, enter: Int64, source: Int64, roots: Int64) -> Bool:
    """Which edges no path from the root to their head can avoid, shape (n_edges,), ordered like ``source``.

    An edge that enters a node from below it in the dominator tree comes too late to be of use; an edge is a
    bridge exactly if it is the only other one that enters its head. Every node must be reachable from a root.
    """
    order, parent = sort_depth_first(start, target, roots)
    n_nodes = len(order)
    rank = np.empty(n_nodes, np.int64)
    rank[order] = np.arange(n_nodes)
    dominator = find_dominators(enter, source, order, rank, parent)
    first, last = _number_tree(dominator)
    bridge = np.zeros(len(source), np.bool_)
    for position in range(n_nodes):
        if parent[position] == position:
            continue
        node, useful, kept = order[position], 0, 0
        for edge in range(enter[node], enter[node + 1]):
            tail = first[rank[source[edge]]]
            if not first[position] <= tail < last[position]:
                useful += 1
                kept = edge
        if useful == 1:
            bridge[kept] = True
    return bridge


@compiled
def sort_depth_first(start: Int64, target: Int64, roots: Int64) -> tuple[Int64, Int64]:
    """The nodes in preorder, one root's after the other's, and the position of each one's parent.

    Both have shape (n_nodes,); a root is its own parent.
    """
    n_nodes = len(start) - 1
    order, parent = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    seen = np.zeros(n_nodes, np.bool_)
    stack = np.empty(n_nodes, np.int64)  # positions
    next_edge = start[:-1].copy()
    place = 0
    for root in roots:
        order[place], parent[place], stack[0], size = root, place, place, 1
        seen[root] = True
        place += 1
        while size > 0:
            node = order[stack[size - 1]]
            if next_edge[node] == start[node + 1]:
                size -= 1
                continue
            reached = target[next_edge[node]]
            next_edge[node] += 1
            if not seen[reached]:
                seen[reached] = True
                order[place], parent[place] = reached, stack[size - 1]
                stack[size] = place
                size += 1
                place += 1
    assert place == n_nodes  # noqa: S101  every node is in the component of a root
    return order, parent


@compiled
def find_dominators(enter: Int64, source: Int64, order: Int64, rank: Int64, parent: Int64) -> Int64:
    """The last node that every path from the root passes before each node; a root's is the root itself.

    Lengauer and Tarjan's algorithm with path compression, O(edges · log nodes); nodes are named by their
    position in ``order``. ``semi`` is the lowest position from which a path leads to the node through later
    positions only; what it says about the nodes still to come is kept in linked lists, the buckets.
    """
    n_nodes = len(order)
    semi, label = np.arange(n_nodes), np.arange(n_nodes)
    linked = np.arange(n_nodes)  # the forest of nodes already handled; a node alone is linked to itself
    bucket, following = np.full(n_nodes, n_nodes), np.empty(n_nodes, np.int64)
    dominator, stack = parent.copy(), np.empty(n_nodes, np.int64)
    for node in range(n_nodes - 1, -1, -1):
        above = parent[node]
        if above == node:
            continue
        for edge in range(enter[order[node]], enter[order[node] + 1]):
            tail = int(rank[source[edge]])
            semi[node] = min(semi[node], semi[_find_least(tail, linked, semi, label, stack)])
        following[node], bucket[semi[node]] = bucket[semi[node]], node
        linked[node] = above
        waiting = int(bucket[above])
        bucket[above] = n_nodes
        while waiting < n_nodes:
            least = _find_least(waiting, linked, semi, label, stack)
            dominator[waiting] = least if semi[least] < semi[waiting] else above
            waiting = int(following[waiting])
    for node in range(n_nodes):
        if dominator[node] != semi[node]:
            dominator[node] = dominator[dominator[node]]
    return dominator


@compiled
def _find_least(node: int, linked: Int64, semi: Int64, label: Int64, stack: Int64) -> int:
    """The node of least ``semi`` on the way up from ``node``, short of its tree's top; shortens that way.

    ``label`` remembers it for each node as far as the node is linked.
    """
    size, here = 0, node
    while linked[linked[here]] != linked[here]:
        stack[size] = here
        size += 1
        here = linked[here]
    while size > 0:
        size -= 1
        here = stack[size]
        above = linked[here]
        if semi[label[above]] < semi[label[here]]:
            label[here] = label[above]
        linked[here] = linked[above]
    return label[node]


@compiled
def _number_tree(dominator: Int64) -> tuple[Int64, Int64]:
    """Numbers for the nodes of the dominator trees: below a node are ``first[node] … last[node] − 1``."""
    n_nodes = len(dominator)
    size = np.ones(n_nodes, np.int64)
    for position in range(n_nodes - 1, -1, -1):
        if dominator[position] != position:
            size[dominator[position]] += size[position]
    first, free = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    unused = 0
    for position in range(n_nodes):
        above = dominator[position]
        if above == position:
            first[position] = unused
            unused += size[position]
        else:
            first[position] = free[above]
            free[above] += size[position]
        free[position] = first[position] + 1
    return first, first + size
