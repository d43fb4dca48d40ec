// The block solver: exact positions with gaps of 1, for many small orders at once and for one deep one.
#pragma once
#include "solvers/hard/planting.hpp"

namespace attomaton::hard {

constexpr Int TALL_LEVELS = 8;   // fewest levels for which guessing the tight edges pays
constexpr Int DEEP_NODES = 4096; // fewest nodes and levels for which joining the rigid ends of an order pays
constexpr Int DEEP_LEVELS = 64;
constexpr double MARGIN = 32.0;  // levels on either side of the balance that are initially left to pivots
constexpr int SPREAD = 16;       // further bonds outwards to cut with one that pulls: they would be cut in the next rounds

// Rigid groups of nodes: the cluster of each node, and its position minus that of the cluster's root.
struct Clusters {
    Array<Int32> number, offset;
    Int size;
};

// The next node inwards of a bound node.
inline Int32 inwards(const Graph &graph, In<Int32> bond, Int32 node) {
    const Int32 edge = bond[node];
    return graph.above[edge] == node ? graph.below[edge] : graph.above[edge];
}

// Follow the bonds inwards to the root of each cluster.
inline Clusters join_bound(const Graph &graph, In<Int32> bond) {
    const Int size = bond.size;
    Array<Int32> root(size, NONE), path(size);
    Clusters clusters{Array<Int32>(size), Array<Int32>(size), 0};
    for (Int32 start = 0; start < size; ++start) {
        Int32 node = start;
        Int length = 0;
        while (root[node] == NONE && bond[node] != NONE) {
            path[length++] = node;
            node = inwards(graph, bond, node);
        }
        if (root[node] == NONE) root[node] = node;
        while (length > 0) {
            const Int32 inner = node;
            node = path[--length];
            root[node] = root[inner];
            clusters.offset[node] = clusters.offset[inner] + (graph.above[bond[node]] == node ? 1 : -1);
        }
    }
    for (Int32 node = 0; node < size; ++node)
        if (root[node] == node) clusters.number[node] = Int32(clusters.size++);
    for (Int node = 0; node < size; ++node) clusters.number[node] = clusters.number[root[node]];
    return clusters;
}

// The problem between clusters, and the edge behind each of its edges.
struct Contraction {
    Graph graph;
    Array<Int32> edge;
};

// Of several edges between two clusters keep only the most demanding, with its rank in `ranked`. Edges inside a
// cluster already hold: positions there differ by longest paths.
inline Contraction contract(const Graph &graph, const Clusters &clusters, In<Int32> ranked) {
    struct Candidate {
        Int pair;
        Int32 gap, rank;
    };
    const auto &[number, offset, size] = clusters;
    const auto gap_of = [&](Int32 edge) { return 1 - offset[graph.above[edge]] + offset[graph.below[edge]]; };
    std::vector<Candidate> candidates;
    for (Int32 rank = 0; rank < ranked.size; ++rank) {
        const Int32 a = graph.above[ranked[rank]], b = graph.below[ranked[rank]];
        if (number[a] != number[b]) candidates.push_back({number[a] * size + number[b], gap_of(ranked[rank]), rank});
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate &left, const Candidate &right) {
        return std::make_tuple(left.pair, -left.gap, left.rank) < std::make_tuple(right.pair, -right.gap, right.rank);
    });
    const auto last = std::unique(candidates.begin(), candidates.end(),
                                  [](const Candidate &left, const Candidate &right) { return left.pair == right.pair; });
    candidates.erase(last, candidates.end());
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate &left, const Candidate &right) { return left.rank < right.rank; });
    Contraction contraction{Graph(size, candidates.size()), Array<Int32>(candidates.size())};
    for (Int node = 0; node < graph.n_nodes(); ++node) {
        contraction.graph.weight[number[node]] += graph.weight[node];
        contraction.graph.moment[number[node]] += graph.weight[node] * offset[node];
    }
    for (Int row = 0; row < contraction.edge.size; ++row) {
        contraction.edge[row] = ranked[candidates[row].rank];
        contraction.graph.above[row] = number[graph.above[contraction.edge[row]]];
        contraction.graph.below[row] = number[graph.below[contraction.edge[row]]];
        contraction.graph.gap[row] = candidates[row].gap;
    }
    return contraction;
}

// Also mark the nodes that are bound, within a few steps, to a marked node.
inline void spread(const Graph &graph, In<Int32> bond, Out<bool> marked) {
    for (int step = 0; step < SPREAD; ++step)
        for (Int32 node = 0; node < bond.size; ++node)
            if (bond[node] != NONE && marked[inwards(graph, bond, node)]) marked[node] = true;
}

// The edges of the contracted problem that are tight in its answer, starting from the candidates that close no cycle.
inline Array<Int32> solve_contracted(const Contraction &small, In<bool> candidates, Limits limits) {
    Forest forest(small.graph);
    Array<Int32> first(small.edge.size), tight(small.edge.size);
    Int n_first = 0, n_tight = 0;
    for (Int32 row = 0; row < small.edge.size; ++row)
        if (candidates[small.edge[row]]) first[n_first++] = row;
    plant(small.graph, forest, first.slice(0, n_first));
    forest.pivot(limits);
    const Array<bool> active = forest.active_edges();
    for (Int row = 0; row < small.edge.size; ++row)
        if (active[row]) tight[n_tight++] = small.edge[row];
    return Array<Int32>(tight.slice(0, n_tight));
}

// The positions of nodes and the multipliers of edges.
struct Solution {
    Array<double> positions, multipliers;
};

// One deep order.
//
// Nearly every position is a longest path from the bottom (well above the balance) or from the top (well below). Each
// node of these two ends is bound to the next one inwards; bound nodes form rigid clusters, the nodes of a small
// problem. Bonds with negative multipliers are cut until there are none: then all optimality conditions hold, whatever
// the initial guess.
inline Solution solve_deep(const Graph &graph, const Paths &paths, Limits limits) {
    const Reach reach = find_reach(graph, paths);
    const Array<Int32> ranked = prefer_edges(graph, paths, reach);
    Array<Int32> bond = bind_nodes(graph, paths, reach, 1.0 + MARGIN);
    Array<bool> candidates(graph.n_edges(), true);
    while (true) {
        const Array<Int32> tight =
            solve_contracted(contract(graph, join_bound(graph, bond), ranked), candidates, limits);
        Forest forest(graph);
        for (const Int32 edge : bond)
            if (edge != NONE) forest.link(edge);
        for (const Int32 edge : tight) forest.link(edge);
        Array<double> multipliers = forest.collect();
        Array<bool> pulls(graph.n_nodes());
        for (Int node = 0; node < pulls.size; ++node) pulls[node] = bond[node] != NONE && multipliers[bond[node]] < 0.0;
        if (std::find(pulls.begin(), pulls.end(), true) == pulls.end())
            return {std::move(forest.position), std::move(multipliers)};
        spread(graph, bond, pulls);
        std::fill(candidates.begin(), candidates.end(), false);
        for (const Int32 edge : tight) candidates[edge] = true;
        for (Int node = 0; node < pulls.size; ++node) {
            if (!pulls[node]) continue;
            candidates[bond[node]] = true; // most of them are still tight
            bond[node] = NONE;
        }
    }
}

// One order, with a tolerance for one level.
inline Solution solve_order(const Graph &graph, Limits limits) {
    const Paths paths = longest_paths(graph);
    const Int levels = paths.levels();
    limits.tolerance *= double(1 + levels);
    if (graph.n_nodes() >= DEEP_NODES && levels >= DEEP_LEVELS) return solve_deep(graph, paths, limits);
    Forest forest(graph);
    const bool tall = levels >= TALL_LEVELS;
    plant(graph, forest, tall ? prefer_edges(graph, paths, find_reach(graph, paths)) : rank_edges(graph, paths));
    forest.pivot(limits);
    Array<double> multipliers = forest.collect();
    return {std::move(forest.position), std::move(multipliers)};
}

// Solve the parts first … last − 1: part i has the nodes nodes[i] … nodes[i + 1] − 1, and likewise edges.
inline void solve_parts(In<double> weight, In<Int> above, In<Int> below, In<Int> nodes, In<Int> edges, Int first,
                        Int last, Limits limits, Out<double> positions, Out<double> multipliers) {
    for (Int number = first; number < last; ++number) {
        const Int begin = edges[number], end = edges[number + 1];
        const Graph graph = unit_graph(weight.slice(nodes[number], nodes[number + 1]), above.slice(begin, end),
                                       below.slice(begin, end), nodes[number]);
        const Solution solution = solve_order(graph, limits);
        std::copy(solution.positions.begin(), solution.positions.end(), positions.begin() + nodes[number]);
        std::copy(solution.multipliers.begin(), solution.multipliers.end(), multipliers.begin() + begin);
    }
}

} // namespace attomaton::hard
