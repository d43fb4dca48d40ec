// Projections onto an order, for the joint solver.
#pragma once
#include "solvers/hard/planting.hpp"

namespace attomaton::hard {

// The nearest point of an order: positions, multipliers, which edges are tight, and the block of each node with the
// node's position minus that of the block's first node.
struct Projection {
    Array<double> positions, multipliers;
    Array<bool> active;
    Array<Int32> block, offset;
};

// Solve a problem from the edges `first`, as far as they close no cycle.
inline Projection project(const Graph &graph, In<Int32> first, Limits limits) {
    Forest forest(graph);
    plant(graph, forest, first);
    forest.pivot(limits);
    Array<double> multipliers = forest.collect();
    Array<Int32> block(graph.n_nodes(), NONE), offset(graph.n_nodes());
    Int32 n_blocks = 0;
    for (Int32 root = 0; root < graph.n_nodes(); ++root) {
        if (block[root] != NONE) continue;
        for (const Int32 node : forest.order.slice(0, forest.survey(root, 0).end)) {
            block[node] = n_blocks;
            offset[node] = forest.offset[node];
        }
        ++n_blocks;
    }
    return {std::move(forest.position), std::move(multipliers), forest.active_edges(), std::move(block),
            std::move(offset)};
}

} // namespace attomaton::hard
