// Rigid blocks of nodes, as a forest of tight edges, and the pivots that find it.
//
// A node represents one component, or several that were joined beforehand and move as one. An active edge is tight (its
// gap is exactly the required one), so the nodes that active edges join move as one block. Active edges never close a
// cycle. They are stored as linked half-edges: half-edge 2e leads from the upper to the lower node of edge e, half-edge
// 2e + 1 leads back.
#pragma once
#include "base/arrays.hpp"

namespace attomaton::hard {

constexpr Int32 NONE = -1;   // no half-edge or no edge
constexpr Int32 UNSEEN = -2; // the entry of a node that no walk has entered
constexpr Int MOST_EDGES = (Int(1) << 30) - 1; // half-edges, and edges that occur twice, are numbered in 32 bits
constexpr Int MAX_SWEEPS = 100'000;

// The problem: min Σ weight p²/2 + moment p subject to p_above − p_below ≥ gap on every edge.
// A single component has moment 0, and the gap between two of them is 1.
struct Graph {
    Array<double> weight, moment;
    Array<Int32> above, below, gap;

    Graph(Int n_nodes, Int n_edges)
        : weight(n_nodes), moment(n_nodes), above(n_edges), below(n_edges), gap(n_edges) {
        if (std::max(n_nodes, n_edges) > MOST_EDGES) throw std::length_error("an order has 2^30 components or edges; none that large can be solved");
    }
    Int n_nodes() const { return weight.size; }
    Int n_edges() const { return above.size; }
    Int32 begin_of(Int32 half) const { return half & 1 ? below[half >> 1] : above[half >> 1]; }
    Int32 end_of(Int32 half) const { return half & 1 ? above[half >> 1] : below[half >> 1]; }
};

// Single components with gaps of 1; the edges number their nodes from `first` on, the graph from 0.
inline Graph unit_graph(In<double> weight, In<Int> above, In<Int> below, Int first) {
    Graph graph(weight.size, above.size);
    std::copy(weight.begin(), weight.end(), graph.weight.begin());
    for (Int edge = 0; edge < above.size; ++edge) {
        graph.above[edge] = Int32(above[edge] - first);
        graph.below[edge] = Int32(below[edge] - first);
        graph.gap[edge] = 1;
    }
    return graph;
}

// How precisely to solve: violated edges are added if they are close to the worst (greed), down to a tolerance.
struct Limits {
    double greed, tolerance;
};

// A block in the order of a walk: its weight, and the position of its root at which it balances.
struct Block {
    Int begin, end;
    double weight, position;
};

// The push on a block's root at which the multiplier of an edge reaches zero.
struct Release {
    double push;
    Int32 edge;
};

// The active edges as lists of half-edges by node, the positions of nodes, and the output of walks.
class Forest {
    const Graph &graph;
    Array<Int32> first, following, previous;
    Array<Int32> entry;       // the half-edge that led to each node
    Array<double> load, mass; // sums here and beyond: of weight times offset, plus moment; of weight

  public:
    Array<double> position;
    Array<Int32> order;  // nodes in the order of walks; room for two blocks
    Array<Int32> offset; // position minus that of the walk's root

    // No active edges, and every node at 0.
    explicit Forest(const Graph &graph)
        : graph(graph), first(graph.n_nodes(), NONE), following(2 * graph.n_edges()), previous(2 * graph.n_edges()),
          entry(graph.n_nodes()), load(graph.n_nodes()), mass(graph.n_nodes()), position(graph.n_nodes()),
          order(2 * graph.n_nodes()), offset(graph.n_nodes()) {}

    // Make an edge active.
    void link(Int32 edge) {
        for (const Int32 half : {2 * edge, 2 * edge + 1}) {
            const Int32 node = graph.begin_of(half), former = first[node];
            following[half] = former;
            previous[half] = NONE;
            if (former != NONE) previous[former] = half;
            first[node] = half;
        }
    }

    // Make an edge inactive.
    void unlink(Int32 edge) {
        for (const Int32 half : {2 * edge, 2 * edge + 1}) {
            const Int32 before = previous[half], after = following[half];
            (before == NONE ? first[graph.begin_of(half)] : following[before]) = after;
            if (after != NONE) previous[after] = before;
        }
    }

    // Which edges are active.
    Array<bool> active_edges() const {
        Array<bool> active(graph.n_edges());
        for (Int32 half : first)
            for (; half != NONE; half = following[half]) active[half >> 1] = true;
        return active;
    }

    // List the block of `root` in order[begin:]. At its balance, loads, weight times position plus moment, sum to zero.
    Block survey(Int32 root, Int begin) {
        order[begin] = root;
        entry[root] = NONE;
        offset[root] = 0;
        Int end = begin + 1;
        for (Int at = begin; at < end; ++at) {
            const Int32 node = order[at], back = entry[node] == NONE ? NONE : entry[node] ^ 1;
            load[node] = graph.weight[node] * offset[node] + graph.moment[node];
            mass[node] = graph.weight[node];
            for (Int32 half = first[node]; half != NONE; half = following[half]) {
                if (half == back) continue;
                const Int32 neighbour = graph.end_of(half), gap = graph.gap[half >> 1];
                offset[neighbour] = offset[node] + (half & 1 ? gap : -gap);
                entry[neighbour] = half;
                order[end++] = neighbour;
            }
        }
        for (Int at = end - 1; at > begin; --at) {
            const Int32 node = order[at], parent = graph.begin_of(entry[node]);
            load[parent] += load[node];
            mass[parent] += mass[node];
        }
        return {begin, end, mass[root], -load[root] / mass[root]};
    }

    // Settle every block; the multipliers, 0 for inactive edges.
    Array<double> collect() {
        Array<double> multipliers(graph.n_edges());
        std::fill(entry.begin(), entry.end(), UNSEEN);
        for (Int32 root = 0; root < graph.n_nodes(); ++root) {
            if (entry[root] != UNSEEN) continue;
            const Block block = settle(root, 0);
            for (Int at = 1; at < block.end; ++at)
                multipliers[entry[order[at]] >> 1] = multiplier_into(order[at], block);
        }
        return multipliers;
    }

    // Satisfy the gap of every edge, from any initial forest.
    //
    // Goldfarb and Idnani's dual active-set method: the state is always optimal for the edges it holds active (all
    // multipliers ≥ 0), and violated edges are added one by one. Each step raises the dual objective, so no state
    // recurs. Rounding could cause a cycle only if the tolerance were below the rounding error of positions; then a
    // limit on the sweeps ends it, and the certificate shows it.
    void pivot(Limits limits) {
        release_pulling();
        for (Int sweep = 0; sweep < MAX_SWEEPS; ++sweep) {
            double worst = 0.0;
            for (Int32 edge = 0; edge < graph.n_edges(); ++edge) worst = std::max(worst, violation(edge));
            if (worst <= limits.tolerance) return;
            const double least = std::max(limits.tolerance, limits.greed * worst);
            for (Int32 edge = 0; edge < graph.n_edges(); ++edge)
                if (violation(edge) > least) take_in(edge);
        }
    }

  private:
    // Release edges with negative multipliers until there are none.
    void release_pulling() {
        for (bool pulling = true; pulling;) {
            const Array<double> multipliers = collect();
            pulling = false;
            for (Int32 edge = 0; edge < graph.n_edges(); ++edge) {
                if (!(multipliers[edge] < 0.0)) continue;
                unlink(edge);
                pulling = true;
            }
        }
    }

    void move_block(const Block &block, double root_position) {
        for (const Int32 node : order.slice(block.begin, block.end)) position[node] = root_position + offset[node];
    }

    // Move the block of `root` to its balance point.
    Block settle(Int32 root, Int begin) {
        const Block block = survey(root, begin);
        move_block(block, block.position);
        return block;
    }

    // The multiplier of the edge by which `node` was entered: it balances the load beyond it.
    double multiplier_into(Int32 node, const Block &block) const {
        const double beyond = load[node] + mass[node] * block.position;
        return entry[node] & 1 ? beyond : -beyond;
    }

    double violation(Int32 edge) const {
        return graph.gap[edge] - position[graph.above[edge]] + position[graph.below[edge]];
    }

    // The edge that limits how far a push moves the block, and that push.
    //
    // A push f moves the block by f/W, W being its weight, and adds mass · f/W to the load beyond each edge, which
    // lowers the multipliers of edges entered downwards if the block moves up, and of the others if it moves down.
    Release first_to_ease(const Block &block, bool upwards) const {
        Release first{std::numeric_limits<double>::infinity(), NONE};
        for (const Int32 node : order.slice(block.begin + 1, block.end)) {
            if (((entry[node] & 1) == 0) != upwards) continue;
            const double push = multiplier_into(node, block) / mass[node];
            if (push < first.push) first = {push, entry[node] >> 1};
        }
        return {first.push * block.weight, first.edge};
    }

    // The weakest edge that holds the upper end of an edge down, if both its ends are in the block.
    Int32 weakest(const Block &block, Int32 top, Int32 bottom) const {
        Release weakest{std::numeric_limits<double>::infinity(), NONE};
        for (Int32 node = bottom; node != top; node = graph.begin_of(entry[node])) {
            const double multiplier = multiplier_into(node, block);
            if ((entry[node] & 1) == 0 && multiplier < weakest.push) weakest = {multiplier, entry[node] >> 1};
        }
        return weakest.edge;
    }

    // Make a violated edge tight: push its ends apart and release each edge whose multiplier reaches zero.
    void take_in(Int32 edge) {
        const Int32 top = graph.above[edge], bottom = graph.below[edge];
        const Int middle = graph.n_nodes();
        entry[bottom] = UNSEEN;
        Block high = survey(top, 0);
        if (entry[bottom] != UNSEEN) {
            const Int32 holding = weakest(high, top, bottom);
            if (holding == NONE) return; // loads overflowed
            unlink(holding);
            high = survey(top, 0);
        }
        Block low = survey(bottom, middle);
        Release eased = first_to_ease(high, true), eased_low = first_to_ease(low, false);
        const double gap = graph.gap[edge];
        while (true) {
            const double needed = (gap - high.position + low.position) / (1.0 / high.weight + 1.0 / low.weight);
            if (!(std::min(eased.push, eased_low.push) < needed)) break; // also if loads overflowed
            if (eased.push <= eased_low.push) {
                unlink(eased.edge);
                settle(graph.below[eased.edge], 0);
                high = survey(top, 0);
                eased = first_to_ease(high, true);
            } else {
                unlink(eased_low.edge);
                settle(graph.above[eased_low.edge], middle);
                low = survey(bottom, middle);
                eased_low = first_to_ease(low, false);
            }
        }
        link(edge);
        const double joint =
            (high.weight * high.position + low.weight * (low.position + gap)) / (high.weight + low.weight);
        move_block(high, joint);
        move_block(low, joint - gap);
    }
};

} // namespace attomaton::hard
