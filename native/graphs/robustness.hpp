// The edges without which a strong component falls apart: the bridges of flow graphs, found by dominators.
#pragma once
#include "base/arrays.hpp"

namespace attomaton {

// The nodes in preorder, root by root, and the position of each node's parent; a root is its own parent.
struct Preorder {
    Array<Int> order, parent;
};

// A search in depth from each root; node i leads to target[start[i]] … target[start[i + 1] - 1].
inline Preorder sort_depth_first(In<Int> start, In<Int> target, In<Int> roots) {
    const Int n_nodes = start.size - 1;
    Preorder preorder{Array<Int>(n_nodes), Array<Int>(n_nodes)};
    auto &[order, parent] = preorder;
    Array<bool> visited(n_nodes);
    Array<Int> path(n_nodes); // positions from the root to the current node
    Array<Int> next_edge(start.slice(0, n_nodes));
    Int position = 0;
    for (const Int root : roots) {
        order[position] = root;
        parent[position] = path[0] = position;
        visited[root] = true;
        ++position;
        for (Int depth = 1; depth > 0;) {
            const Int node = order[path[depth - 1]];
            if (next_edge[node] == start[node + 1]) {
                --depth;
                continue;
            }
            const Int reached = target[next_edge[node]++];
            if (visited[reached]) continue;
            visited[reached] = true;
            order[position] = reached;
            parent[position] = path[depth - 1];
            path[depth++] = position++;
        }
    }
    if (position != n_nodes) throw std::invalid_argument("the roots do not reach every node");
    return preorder;
}

// The forest of the nodes processed so far, by their positions; a root is linked to itself.
struct LinkedForest {
    Array<Int> above, semi, label, path;

    explicit LinkedForest(Int n_nodes) : above(n_nodes), semi(n_nodes), label(n_nodes), path(n_nodes) {
        for (auto *numbers : {&above, &semi, &label}) std::iota(numbers->begin(), numbers->end(), Int(0));
    }

    // The node of least `semi` on the path up from `node`, without the root. Compresses the path: `label` has the
    // answer for each node over the part of the path that is compressed.
    Int find_least(Int node) {
        Int size = 0;
        for (Int upper = node; above[above[upper]] != above[upper]; upper = above[upper]) path[size++] = upper;
        while (size > 0) {
            const Int lower = path[--size], upper = above[lower];
            if (semi[label[upper]] < semi[label[lower]]) label[lower] = label[upper];
            above[lower] = above[upper];
        }
        return label[node];
    }
};

// The immediate dominator of each node: the last node on every path to it from the root; a root's is itself.
// Lengauer and Tarjan's algorithm, O(edges · log nodes); nodes are named by their position in preorder, edges come
// from source[enter[i]] … source[enter[i + 1] - 1]. `semi` is the lowest position from which a path leads to the node
// through later positions only.
inline Array<Int> find_dominators(In<Int> enter, In<Int> source, In<Int> order, In<Int> rank, In<Int> parent) {
    const Int n_nodes = order.size;
    LinkedForest forest(n_nodes);
    const View<Int> semi = forest.semi;
    Array<Int> bucket(n_nodes, n_nodes), next(n_nodes); // linked lists of the nodes by their `semi`
    Array<Int> dominator(parent);
    for (Int node = n_nodes - 1; node >= 0; --node) {
        const Int above = parent[node];
        if (above == node) continue;
        for (Int edge = enter[order[node]]; edge < enter[order[node] + 1]; ++edge)
            semi[node] = std::min(semi[node], semi[forest.find_least(rank[source[edge]])]);
        next[node] = bucket[semi[node]];
        bucket[semi[node]] = node;
        forest.above[node] = above;
        for (Int waiting = bucket[above]; waiting < n_nodes; waiting = next[waiting]) {
            const Int least = forest.find_least(waiting);
            dominator[waiting] = semi[least] < semi[waiting] ? least : above;
        }
        bucket[above] = n_nodes;
    }
    for (Int node = 0; node < n_nodes; ++node)
        if (dominator[node] != semi[node]) dominator[node] = dominator[dominator[node]];
    return dominator;
}

// A number for each node of the dominator trees: those below a node are first[node] … last[node] - 1.
struct TreeNumbers {
    Array<Int> first, last;
};

inline TreeNumbers number_tree(In<Int> dominator) {
    const Int n_nodes = dominator.size;
    Array<Int> size(n_nodes, 1), free(n_nodes); // the first number not yet given below each node
    for (Int node = n_nodes - 1; node >= 0; --node)
        if (dominator[node] != node) size[dominator[node]] += size[node];
    TreeNumbers numbers{Array<Int>(n_nodes), Array<Int>(n_nodes)};
    Int unused = 0;
    for (Int node = 0; node < n_nodes; ++node) {
        Int &next = dominator[node] == node ? unused : free[dominator[node]];
        numbers.first[node] = next;
        numbers.last[node] = next += size[node];
        free[node] = numbers.first[node] + 1;
    }
    return numbers;
}

// Which edges are on every path from the root to their head, ordered like `source`; roots must reach every node.
// An edge that enters a node from below it in the dominator tree is on no first path to it; an edge is a bridge
// exactly if it is the only other one that enters its head.
inline Array<bool> find_flow_bridges(In<Int> start, In<Int> target, In<Int> enter, In<Int> source, In<Int> roots) {
    const Preorder preorder = sort_depth_first(start, target, roots);
    const auto &[order, parent] = preorder;
    Array<Int> rank(order.size);
    for (Int position = 0; position < order.size; ++position) rank[order[position]] = position;
    const TreeNumbers tree = number_tree(find_dominators(enter, source, order, rank, parent));
    Array<bool> bridge(source.size);
    for (Int position = 0; position < order.size; ++position) {
        if (parent[position] == position) continue;
        Int n_useful = 0, useful = 0;
        for (Int edge = enter[order[position]]; edge < enter[order[position] + 1]; ++edge) {
            const Int tail = tree.first[rank[source[edge]]];
            if (tree.first[position] <= tail && tail < tree.last[position]) continue;
            ++n_useful;
            useful = edge;
        }
        if (n_useful == 1) bridge[useful] = true;
    }
    return bridge;
}

} // namespace attomaton
