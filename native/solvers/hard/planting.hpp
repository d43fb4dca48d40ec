// An initial forest for the block solver: the edges that are most likely tight.
//
// If the longest path of an order is rigid, every other node lies between a longest path from the bottom and one from
// the top. Nodes that must stay above the balance press down on such a path, nodes that must stay below it press up
// against one; those edges come first, then all others by their slack on longest paths.
#pragma once
#include "graphs/topology.hpp"
#include "solvers/hard/forest.hpp"

namespace attomaton::hard {

// Lengths of the longest paths down and up from each node of an order.
struct Paths {
    Array<Int32> height, depth;

    Int levels() const { return height.size ? *std::max_element(height.begin(), height.end()) : 0; }
    Int32 through(Int node) const { return height[node] + depth[node]; }
};

// The longest paths of an order whose edges are sorted by their upper end.
inline Paths longest_paths(const Graph &graph) {
    Array<Int> start(graph.n_nodes() + 1);
    for (const Int32 node : graph.above) ++start[node + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    Array<Int> below(graph.n_edges());
    std::copy(graph.below.begin(), graph.below.end(), below.begin());
    const Array<Int> topological = sort_topologically(In<Int>(start), In<Int>(below));
    Paths paths{Array<Int32>(graph.n_nodes()), Array<Int32>(graph.n_nodes())};
    auto &[height, depth] = paths;
    for (const Int node : topological)
        for (Int edge = start[node]; edge < start[node + 1]; ++edge)
            depth[graph.below[edge]] = std::max(depth[graph.below[edge]], depth[node] + 1);
    for (Int position = graph.n_nodes() - 1; position >= 0; --position) {
        const Int node = topological[position];
        for (Int edge = start[node]; edge < start[node + 1]; ++edge)
            height[node] = std::max(height[node], height[graph.below[edge]] + 1);
    }
    return paths;
}

// The edges, sorted by their slack on longest paths, least first, by counting.
// Slack of A → B: height(A) − height(B) − 1 + depth(B) − depth(A) − 1.
inline Array<Int32> rank_edges(const Graph &graph, const Paths &paths) {
    Array<Int32> slack(graph.n_edges()), ranked(graph.n_edges());
    Int32 most = 0;
    for (Int edge = 0; edge < graph.n_edges(); ++edge) {
        const Int32 a = graph.above[edge], b = graph.below[edge];
        slack[edge] = paths.height[a] - paths.height[b] + paths.depth[b] - paths.depth[a] - 2;
        most = std::max(most, slack[edge]);
    }
    Array<Int> position(most + 2);
    for (const Int32 edge_slack : slack) ++position[edge_slack + 1];
    std::partial_sum(position.begin(), position.end(), position.begin());
    for (Int32 edge = 0; edge < graph.n_edges(); ++edge) ranked[position[slack[edge]]++] = edge;
    return ranked;
}

// Sets of nodes, each with a leader (union-find with path halving).
class Sets {
    Array<Int> leader;

  public:
    explicit Sets(Int size) : leader(size) { std::iota(leader.begin(), leader.end(), Int(0)); }

    Int lead(Int node) {
        while (leader[node] != node) node = leader[node] = leader[leader[node]];
        return node;
    }
    // Join the sets of two nodes; whether they were different.
    bool join(Int first, Int second) {
        const Int first_leader = lead(first), second_leader = lead(second);
        leader[first_leader] = second_leader;
        return first_leader != second_leader;
    }
};

// Activate every edge, in the given order, that closes no cycle.
inline void plant(const Graph &graph, Forest &forest, In<Int32> edges) {
    Sets sets(graph.n_nodes());
    for (const Int32 edge : edges)
        if (sets.join(graph.above[edge], graph.below[edge])) forest.link(edge);
}

// Lowest and highest position of each node.
struct Reach {
    Array<double> low, high;
};

// The reach of each node if the longest path of its weak component were rigid.
// That path is placed where the positions closest to 0 within these bounds balance; bisection finds the position for
// all weak components at once.
inline Reach find_reach(const Graph &graph, const Paths &paths) {
    const Int size = graph.n_nodes();
    Sets sets(size);
    for (Int edge = 0; edge < graph.n_edges(); ++edge) sets.join(graph.above[edge], graph.below[edge]);
    Array<Int> leader(size); // one node for each weak component
    for (Int node = 0; node < size; ++node) leader[node] = sets.lead(node);
    Array<double> least(size), most(size), load(size), room(size), low(size);
    for (Int node = 0; node < size; ++node)
        most[leader[node]] = std::max(most[leader[node]], double(paths.through(node)));
    for (Int node = 0; node < size; ++node) room[node] = most[leader[node]] - paths.depth[node];
    const auto base_of = [&](Int node) { return (least[node] + most[node]) / 2; };
    for (int round = 0; round < 40; ++round) {
        std::fill(load.begin(), load.end(), 0.0);
        for (Int node = 0; node < size; ++node) {
            const double base = base_of(leader[node]);
            load[leader[node]] +=
                graph.weight[node] * std::min(std::max(0.0, paths.height[node] - base), room[node] - base);
        }
        for (Int node = 0; node < size; ++node)
            if (leader[node] == node) (load[node] > 0.0 ? least : most)[node] = base_of(node);
    }
    for (Int node = 0; node < size; ++node) {
        const double base = base_of(leader[node]);
        low[node] = paths.height[node] - base;
        room[node] -= base;
    }
    return {std::move(low), std::move(room)};
}

// The edge that binds each node beyond the margin to the next node inwards, or NONE.
// Of several edges it is the one towards the longest path.
inline Array<Int32> bind_nodes(const Graph &graph, const Paths &paths, const Reach &reach, double margin) {
    const auto &[low, high] = reach;
    Array<Int32> bond(graph.n_nodes(), NONE), best(graph.n_nodes(), NONE);
    for (Int32 edge = 0; edge < graph.n_edges(); ++edge) {
        const Int32 a = graph.above[edge], b = graph.below[edge];
        if (low[a] > margin && low[a] - low[b] < 1.5 && paths.through(b) > best[a]) {
            bond[a] = edge;
            best[a] = paths.through(b);
        }
        if (high[b] < -margin && high[a] - high[b] < 1.5 && paths.through(a) > best[b]) {
            bond[b] = edge;
            best[b] = paths.through(a);
        }
    }
    return bond;
}

// Edges to plant, those most likely tight first; some occur twice.
inline Array<Int32> prefer_edges(const Graph &graph, const Paths &paths, const Reach &reach) {
    const auto &[low, high] = reach;
    const Array<Int32> ranked = rank_edges(graph, paths), bond = bind_nodes(graph, paths, reach, 0.0);
    const Int32 *critical = ranked.begin(); // the end of those on a longest path of their weak component, without slack
    for (; critical != ranked.end(); ++critical) {
        const Int32 a = graph.above[*critical], b = graph.below[*critical];
        if (paths.through(a) != paths.through(b) || high[a] - low[a] >= 0.5 || high[b] - low[b] >= 0.5) break;
    }
    Array<Int32> preferred(ranked.size + bond.size);
    Int32 *end = std::copy<const Int32 *>(ranked.begin(), critical, preferred.begin());
    end = std::copy_if(bond.begin(), bond.end(), end, [](Int32 edge) { return edge != NONE; });
    end = std::copy<const Int32 *>(critical, ranked.end(), end);
    return Array<Int32>(preferred.slice(0, end - preferred.begin()));
}

} // namespace attomaton::hard
