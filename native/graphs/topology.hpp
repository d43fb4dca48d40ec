// Walks over many small acyclic graphs at once.
// They are in compressed rows: the nodes below node i are below[start[i]] … below[start[i + 1] - 1].
// No recursion: a chain may be a million nodes long.
#pragma once
#include "base/arrays.hpp"

namespace attomaton {

// The nodes in an order in which each precedes all below it (Kahn).
inline Array<Int> sort_topologically(In<Int> start, In<Int> below) {
    const Int n_nodes = start.size - 1;
    Array<Int> waiting(n_nodes), order(n_nodes); // waiting: the edges from above that are not yet passed
    for (const Int node : below) ++waiting[node];
    Int end = 0;
    for (Int node = 0; node < n_nodes; ++node)
        if (waiting[node] == 0) order[end++] = node;
    for (Int position = 0; position < end; ++position) {
        const Int node = order[position];
        for (Int edge = start[node]; edge < start[node + 1]; ++edge)
            if (--waiting[below[edge]] == 0) order[end++] = below[edge];
    }
    if (end != n_nodes) throw std::invalid_argument("the order has a cycle, but must be acyclic");
    return order;
}

// The length of the longest path down from each node, 0 at the bottom: 1 + the greatest height directly below.
inline Array<Int> find_heights(In<Int> start, In<Int> below) {
    const Array<Int> order = sort_topologically(start, below);
    Array<Int> height(order.size);
    for (Int position = order.size - 1; position >= 0; --position) {
        const Int node = order[position];
        for (Int edge = start[node]; edge < start[node + 1]; ++edge)
            height[node] = std::max(height[node], height[below[edge]] + 1);
    }
    return height;
}

// Walks that mark what they reach and stop at a height.
struct Marking {
    In<Int> start, below, height;
    Array<Int> mark, stack;

    Marking(In<Int> start, In<Int> below, In<Int> height)
        : start(start), below(below), height(height), mark(start.size - 1, -1), stack(start.size - 1) {}

    // Give `top`, and all nodes of height at least `lowest` that usable edges lead to, the mark `value`.
    template <class Usable> void mark_below(Int top, Int value, Int lowest, Usable usable) {
        mark[top] = value;
        stack[0] = top;
        for (Int size = 1; size > 0;) {
            const Int node = stack[--size];
            for (Int edge = start[node]; edge < start[node + 1]; ++edge) {
                const Int reached = below[edge];
                if (usable(edge) && mark[reached] != value && height[reached] >= lowest) {
                    mark[reached] = value;
                    stack[size++] = reached;
                }
            }
        }
    }
};

// Which edges a transitive reduction keeps: those that no longer path replaces.
// From the bottom up, so that the walks below a node follow only edges already known to be kept.
inline Array<bool> find_irredundant(In<Int> start, In<Int> below) {
    const Array<Int> height = find_heights(start, below);
    Array<bool> needed(below.size);
    Array<Int> nodes(height.size), edges(below.size);
    std::iota(nodes.begin(), nodes.end(), Int(0));
    std::iota(edges.begin(), edges.end(), Int(0));
    std::stable_sort(nodes.begin(), nodes.end(), [&](Int left, Int right) { return height[left] < height[right]; });
    Marking marking(start, below, height);
    for (const Int node : nodes) {
        const View<Int> out_edges = edges.slice(start[node], start[node + 1]); // highest child first
        if (out_edges.size == 0) continue;
        std::stable_sort(out_edges.begin(), out_edges.end(),
                         [&](Int left, Int right) { return height[below[left]] > height[below[right]]; });
        const Int lowest = height[below[out_edges[out_edges.size - 1]]];
        for (const Int edge : out_edges) {
            if (marking.mark[below[edge]] == node) continue;
            needed[edge] = true;
            marking.mark_below(below[edge], node, lowest, [&](Int edge_below) { return needed[edge_below]; });
        }
    }
    return needed;
}

// Whether a path leads from each `top` down to its `bottom`; equal tops are adjacent, and share a walk.
inline Array<bool> find_paths(In<Int> start, In<Int> below, In<Int> height, In<Int> top, In<Int> bottom) {
    Array<bool> answers(top.size);
    Marking marking(start, below, height);
    for (Int first = 0, end; first < top.size; first = end) {
        Int lowest = height[bottom[first]];
        for (end = first; end < top.size && top[end] == top[first]; ++end)
            lowest = std::min(lowest, height[bottom[end]]);
        marking.mark_below(top[first], first, lowest, [](Int) { return true; });
        for (Int pair = first; pair < end; ++pair) answers[pair] = marking.mark[bottom[pair]] == first;
    }
    return answers;
}

// Whether the top node of each group reaches all its members, member[first[g]] … member[first[g + 1] - 1].
// Groups are visited in `order`; successive ones with the same top share a walk.
inline Array<bool> precede_all(In<Int> order, In<Int> top, In<Int> first, In<Int> member, In<Int> start,
                               In<Int> below) {
    const Int n_nodes = start.size - 1;
    Array<Int> reached_from(n_nodes, n_nodes), stack(n_nodes);
    Array<bool> answers(top.size, true);
    for (const Int group : order) {
        if (first[group] == first[group + 1]) continue;
        const Int origin = top[group];
        if (reached_from[origin] != origin) {
            reached_from[origin] = stack[0] = origin;
            for (Int size = 1; size > 0;) {
                const Int node = stack[--size];
                for (const Int reached : below.slice(start[node], start[node + 1])) {
                    if (reached_from[reached] == origin) continue;
                    reached_from[reached] = origin;
                    stack[size++] = reached;
                }
            }
        }
        const In<Int> members = member.slice(first[group], first[group + 1]);
        answers[group] = std::all_of(members.begin(), members.end(),
                                     [&](Int node) { return reached_from[node] == origin; });
    }
    return answers;
}

} // namespace attomaton
