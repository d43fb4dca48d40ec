// Gradient flow for orthonormal embeddings: queries separate, one coordinate per (query, token).
//
// Within a component gradients are sums of terms of order 1 that cancel to order 1/t. A component as a whole moves
// only by the flow across its border, so that part is summed separately and loses no digits. Conjugate gradients use
// whole components in their preconditioner, or they would need an iteration per digit of t.
#pragma once
#include "solvers/soft/newton.hpp"

namespace attomaton::flow {

constexpr int MAX_STEPS = 50;     // Newton steps for one minimum
constexpr int MAX_TURNS = 2000;   // conjugate-gradient iterations for one Newton step
constexpr double ACCURACY = 0.05; // factor by which conjugate gradients reduce the residual of one Newton step

// The choices of all queries, and components.
struct Queries {
    soft::Groups groups;   // one for each query
    In<Int> component;     // of each alternative; the components of a query are consecutive numbers
    In<Int> n_alternatives; // of each component

    Int count() const { return groups.borders.size - 1; }
};

// One query, with work arrays.
struct Query {
    soft::Group group;
    soft::Space space;
    In<Int> component;           // of each node
    Int start;                   // the first component
    In<Int> n_nodes;             // of each component
    Out<double> crossing, curvature; // of each component: the flow across its border, and the curvature along it
    Out<double> sums;            // of each component

    bool has_ties() const { return n_nodes.size != group.size; } // otherwise each node is a component
    In<double> of(In<double> all) const { return all.slice(group.first, group.first + group.size); }
    Out<double> of(Out<double> all) const { return all.slice(group.first, group.first + group.size); }
};

// Memory for the largest query.
class Room {
    const Queries &queries;
    Array<Int> every;
    soft::Room room;
    Array<double> crossing, curvature, sums;

    static Array<Int> number(Int count) {
        Array<Int> numbers(count);
        std::iota(numbers.begin(), numbers.end(), Int(0));
        return numbers;
    }
    static Int find_most(In<Int> borders) {
        Int most = 0;
        for (Int query = 0; query + 1 < borders.size; ++query)
            most = std::max(most, borders[query + 1] - borders[query]);
        return most;
    }

  public:
    explicit Room(const Queries &queries)
        : queries(queries), every(number(queries.count())), room(queries.groups, every),
          crossing(find_most(queries.groups.borders)), curvature(crossing.size), sums(crossing.size) {}

    Query of(Int query) const {
        const soft::Group group = queries.groups[query];
        const In<Int> component = queries.component.slice(group.first, group.first + group.size);
        const Int start = group.size ? component[0] : 0;
        Int stop = start;
        for (const Int number : component) stop = std::max(stop, number + 1);
        const Int size = stop - start;
        return {group, room.of(group), component, start, queries.n_alternatives.slice(start, stop),
                crossing.slice(0, size), curvature.slice(0, size), sums.slice(0, size)};
    }
};

// The sum of `values` over each component, into `query.sums`.
inline void sum_components(const Query &query, In<double> values) {
    std::fill(query.sums.begin(), query.sums.end(), 0.0);
    for (Int node = 0; node < values.size; ++node) query.sums[query.component[node] - query.start] += values[node];
}

// Gradient and probabilities at `scores`, the gradient of whole components without cancellation; also the curvature
// along each whole component.
inline void find_slope(const Query &query, In<double> scores) {
    const soft::Group &group = query.group;
    soft::weigh(group, scores, query.space);
    std::fill(query.crossing.begin(), query.crossing.end(), 0.0);
    std::fill(query.curvature.begin(), query.curvature.end(), 0.0);
    if (!query.has_ties()) return;
    for (Int choice = group.first_choice; choice < group.last_choice; ++choice) {
        const In<Int32> members = group.members(choice);
        const Out<double> shares = group.shares(choice, query.space.probability);
        const Int component = query.component[group.winner(choice)] - query.start;
        double lost = 0.0;
        for (Int entry = 0; entry < members.size; ++entry) {
            const Int neighbour = query.component[group.node(members[entry])] - query.start;
            if (neighbour == component) continue;
            const double press = group.count(choice) * shares[entry];
            query.crossing[neighbour] += press;
            query.curvature[neighbour] += press;
            lost += press;
        }
        query.crossing[component] -= lost;
        query.curvature[component] += lost;
    }
    sum_components(query, query.space.gradient);
    for (Int node = 0; node < group.size; ++node) {
        const Int number = query.component[node] - query.start;
        query.space.gradient[node] += (query.crossing[number] - query.sums[number]) / query.n_nodes[number];
    }
}

// The residual by the diagonal, and by the diagonal of whole components, into `query.space.scaled`.
inline void precondition(const Query &query, double stiffness) {
    const soft::Space &space = query.space;
    for (Int node = 0; node < query.group.size; ++node) space.scaled[node] = space.residual[node] / space.diagonal[node];
    if (!query.has_ties()) return;
    sum_components(query, space.residual);
    for (Int node = 0; node < query.group.size; ++node) {
        const Int number = query.component[node] - query.start;
        if (query.n_nodes[number] > 1)
            space.scaled[node] += query.sums[number] / (query.curvature[number] + stiffness * query.n_nodes[number]);
    }
}

// (H + stiffness) step = residual by conjugate gradients, from `query.space.residual` into `query.space.step`.
inline void solve_system(const Query &query, double stiffness) {
    const Int size = query.group.size;
    const soft::Space &space = query.space;
    const Out<double> residual = space.residual, scaled = space.scaled, direction = space.direction,
                      bent = space.bent;
    soft::find_diagonal(query.group, space);
    for (Int node = 0; node < size; ++node) {
        space.diagonal[node] += stiffness;
        space.step[node] = direction[node] = 0.0;
    }
    precondition(query, stiffness);
    double energy = 0.0, share = 0.0;
    for (Int node = 0; node < size; ++node) energy += residual[node] * scaled[node];
    const double goal = ACCURACY * ACCURACY * energy;
    for (int turn = 0; turn < MAX_TURNS && !(energy <= goal); ++turn) {
        for (Int node = 0; node < size; ++node) direction[node] = scaled[node] + share * direction[node];
        soft::bend(query.group, space);
        double curvature = 0.0;
        for (Int node = 0; node < size; ++node) {
            bent[node] += stiffness * direction[node];
            curvature += bent[node] * direction[node];
        }
        if (curvature <= 0.0) break;
        const double length = energy / curvature;
        for (Int node = 0; node < size; ++node) {
            space.step[node] += length * direction[node];
            residual[node] -= length * bent[node];
        }
        precondition(query, stiffness);
        double fresh = 0.0;
        for (Int node = 0; node < size; ++node) fresh += residual[node] * scaled[node];
        share = fresh / energy;
        energy = fresh;
    }
}

struct Range {
    double lowest, highest;
};

// The range of some values; NaN if one of them is.
inline Range find_range(In<double> values) {
    Range range{soft::INFINITE, -soft::INFINITE};
    for (const double value : values) {
        if (std::isnan(value)) return {value, value};
        range = {std::min(range.lowest, value), std::max(range.highest, value)};
    }
    return range;
}

// Move `scores` to the minimum of L + ½ stiffness ‖s − anchor‖²; whether steps became small.
inline bool minimise_query(const Query &query, In<double> anchor, double stiffness, Out<double> scores, double atol) {
    const soft::Space &space = query.space;
    for (int number = 0; number < MAX_STEPS; ++number) {
        find_slope(query, scores);
        for (Int node = 0; node < scores.size; ++node)
            space.residual[node] = -space.gradient[node] - stiffness * (scores[node] - anchor[node]);
        solve_system(query, stiffness);
        const Range range = find_range(space.step);
        const double spread = range.highest - range.lowest;
        const double share = spread > 1e-6 ? std::log1p(spread) / spread : 1.0;
        for (Int node = 0; node < scores.size; ++node) scores[node] += share * space.step[node];
        if (std::max(range.highest, -range.lowest) <= atol) return true;
    }
    return false;
}

// Move the scores of each query by plain gradient descent.
inline void descend_queries(const Queries &queries, Out<double> all_scores, double step_size, Int n_steps) {
    const Room room(queries);
    for (Int number = 0; number < queries.count(); ++number) {
        const Query query = room.of(number);
        const Out<double> scores = query.of(all_scores);
        for (Int step = 0; step < n_steps; ++step) {
            find_slope(query, scores);
            for (Int node = 0; node < scores.size; ++node) scores[node] -= step_size * query.space.gradient[node];
        }
    }
}

// Move the scores of each query to the minimum of L + ½ stiffness ‖s − anchor‖²; false, and the rest left as it was,
// as soon as a query is not solved.
inline bool minimise_queries(const Queries &queries, In<double> anchor, double stiffness, Out<double> all_scores,
                             double atol) {
    const Room room(queries);
    for (Int number = 0; number < queries.count(); ++number) {
        const Query query = room.of(number);
        if (!minimise_query(query, query.of(anchor), stiffness, query.of(all_scores), atol)) return false;
    }
    return true;
}

// (1 + H / stiffness)⁻¹ move, in place.
inline void damp_queries(const Queries &queries, In<double> all_scores, double stiffness, Out<double> moves) {
    const Room room(queries);
    for (Int number = 0; number < queries.count(); ++number) {
        const Query query = room.of(number);
        const Out<double> move = query.of(moves), residual = query.space.residual, step = query.space.step;
        find_slope(query, query.of(all_scores));
        for (Int node = 0; node < move.size; ++node) residual[node] = stiffness * move[node];
        solve_system(query, stiffness);
        std::copy(step.begin(), step.end(), move.begin());
    }
}

} // namespace attomaton::flow
