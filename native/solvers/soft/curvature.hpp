// Proven bounds on gradient and curvature of the Luce loss in each group of alternatives, and its Hessian.
#pragma once
#include "solvers/soft/newton.hpp"

namespace attomaton::soft {

constexpr double LEAST_PROBABILITY = 1e-290; // smaller probabilities are inaccurate or zero
constexpr double CLOSE = 0.25;               // how far L_r v may be from 1: closer costs more iterations than it gains

// −Σ count · ln p(winner), from the probabilities, or from the scores if a probability is too small.
inline double sum_losses(const Group &group, In<double> scores, const Space &space) {
    double total = 0.0;
    for (Int choice = group.first_choice; choice < group.last_choice; ++choice) {
        const In<Int32> members = group.members(choice), times = group.times(choice);
        Int chosen = 0; // the entry of the winner
        while (group.node(members[chosen]) != group.winner(choice)) ++chosen;
        const double won = group.shares(choice, space.probability)[chosen];
        double logit_of_winner = 0.0, logit_of_rest = -INFINITE;
        if (won < LEAST_PROBABILITY) {
            for (Int entry = 0; entry < members.size; ++entry) {
                const double logit = scores[group.node(members[entry])] + std::log(double(times[entry]));
                if (entry == chosen) logit_of_winner = logit;
                logit_of_rest = std::max(logit_of_rest, logit) + std::log1p(std::exp(-std::abs(logit_of_rest - logit)));
            }
        }
        total += group.count(choice) * (won >= LEAST_PROBABILITY ? -std::log(won) : logit_of_rest - logit_of_winner);
    }
    return total;
}

// Relative rounding error of a probability, from the magnitude of logits and the length of sums.
inline double find_looseness(const Group &group, In<double> scores) {
    double largest = 0.0;
    Int longest = 0;
    Int32 most = 1;
    for (const double score : scores) largest = std::max(largest, std::abs(score));
    for (Int choice = group.first_choice; choice < group.last_choice; ++choice) {
        const In<Int32> times = group.times(choice);
        longest = std::max(longest, times.size);
        for (const Int32 multiplicity : times) most = std::max(most, multiplicity);
    }
    return EPSILON * (4.0 * (largest + std::log(double(most))) + longest + 8.0);
}

struct Steepness {
    double largest, norm; // the largest entry of a gradient, and an upper bound on its norm
};

// The size of the gradient with a ridge, if probabilities have this relative error.
//
// `moved` becomes Σ count · (1 − p if it won, p if another won) for each node: the sum of the absolute terms of the
// gradient.
inline Steepness measure_gradient(const Group &group, In<double> scores, const Space &space, double looseness,
                                  double ridge, Out<double> moved) {
    for (Int choice = group.first_choice; choice < group.last_choice; ++choice) {
        const In<Int32> members = group.members(choice);
        const Out<double> shares = group.shares(choice, space.probability);
        const Int winner = group.winner(choice);
        const double count = group.count(choice);
        double lost = 0.0;
        for (Int entry = 0; entry < members.size; ++entry) {
            const Int node = group.node(members[entry]);
            if (node == winner) continue;
            moved[node] += count * shares[entry];
            lost += shares[entry];
        }
        moved[winner] += count * lost;
    }
    double square = 0.0, largest = 0.0;
    for (Int node = 0; node < group.size; ++node) {
        const double pull = ridge * scores[node], entry = std::abs(space.gradient[node] + pull);
        largest = std::max(largest, entry);
        const double length = entry + looseness * (moved[node] + std::abs(pull));
        square += length * length;
    }
    return {largest, std::sqrt(square) * (1.0 + EPSILON * group.size)};
}

// Solve L_r v ≈ 1 by conjugate gradients, v = 0 at the root, into `space.step`; whether that succeeded.
inline bool solve_grounded(const Group &group, const Space &space, Int root) {
    const Out<double> residual = space.residual, scaled = space.scaled, direction = space.direction,
                      bent = space.bent;
    double energy = 0.0;
    for (Int node = 0; node < group.size; ++node) {
        space.step[node] = 0.0;
        residual[node] = node == root ? 0.0 : 1.0;
        direction[node] = scaled[node] = residual[node] / space.diagonal[node];
        energy += residual[node] * scaled[node];
    }
    for (Int turn = 0; turn < 2 * group.size + 100; ++turn) {
        bend(group, space);
        bent[root] = 0.0;
        double curvature = 0.0;
        for (Int node = 0; node < group.size; ++node) curvature += bent[node] * direction[node];
        if (!(0.0 < curvature && curvature < INFINITE)) return false;
        const double length = energy / curvature;
        double fresh = 0.0, farthest = 0.0;
        for (Int node = 0; node < group.size; ++node) {
            space.step[node] += length * direction[node];
            residual[node] -= length * bent[node];
            scaled[node] = residual[node] / space.diagonal[node];
            fresh += residual[node] * scaled[node];
            farthest = std::max(farthest, std::abs(residual[node]));
        }
        if (farthest <= CLOSE) return true;
        const double share = fresh / energy;
        energy = fresh;
        for (Int node = 0; node < group.size; ++node) direction[node] = scaled[node] + share * direction[node];
    }
    return false;
}

// A proven lower bound on the smallest eigenvalue over scores with mean zero; 0 if none is found.
inline double find_least_curvature(const Group &group, const Space &space, double looseness, In<double> moved) {
    find_diagonal(group, space);
    Int root = 0;
    double lowest = INFINITE;
    for (Int node = 0; node < group.size; ++node) {
        lowest = std::min(lowest, space.diagonal[node]);
        if (space.diagonal[node] > space.diagonal[root]) root = node;
    }
    if (lowest <= 0.0 || !solve_grounded(group, space, root)) return 0.0;
    double least = INFINITE, largest = 0.0;
    for (const double value : space.step) largest = std::max(largest, value);
    std::copy(space.step.begin(), space.step.end(), space.direction.begin());
    bend(group, space);
    for (Int node = 0; node < group.size; ++node) {
        if (node == root) continue;
        if (!(space.step[node] > 0.0)) return 0.0;
        least = std::min(least, space.bent[node] - 4.0 * looseness * moved[node] * largest);
    }
    return std::max(least, 0.0) / largest * (1.0 - 4.0 * looseness);
}

// At most this far is any score, about the mean, from the optimum, by entries of the gradient; infinite if unproven.
//
// `space` has v and L_r v after `find_least_curvature`. In the box in which scores less the root's move by at most b,
// weights p_i p_j change by factors of e^{±4b} at most, so that L_r v falls by (e^{4b} − 1) · diagonal · max v. As L_r
// stays an M-matrix, a gradient with |g_i| ≤ t (L_r v)_i everywhere in the box moves no score by more than t v_i; if
// t max v ≤ b, the way to the optimum does not leave the box. Rounding errors count for each entry by itself.
inline double find_reach(const Group &group, const Space &space, double looseness, In<double> moved) {
    const In<double> heights = space.direction;
    double top = 0.0, total = 0.0, box = 0.0, ratio = INFINITE;
    for (const double height : heights) {
        top = std::max(top, height);
        total += height;
    }
    for (int pass = 0; pass < 2; ++pass) { // the first has no box, the second twice what that would do
        ratio = 0.0;
        for (Int node = 0; node < group.size; ++node) {
            if (heights[node] == 0.0) continue; // the root
            const double slope = std::abs(space.gradient[node]) + looseness * moved[node];
            const double lost = std::expm1(4.0 * box) * space.diagonal[node] + 4.0 * looseness * moved[node];
            const double lift = space.bent[node] - lost * (1.0 + 1e-9) * top;
            if (!(lift > 0.0)) return INFINITE;
            ratio = std::max(ratio, slope / lift);
        }
        if (pass == 0) box = 2.0 * ratio * top;
    }
    return ratio * top <= box ? ratio * (top + total / group.size) * (1.0 + 1e-9) : INFINITE;
}

// Of each group: the largest entry of the gradient, a bound on its norm (or, if that proves more, a length that times
// 1 / curvature bounds the error of each score), a lower bound on the curvature, the loss.
struct Slopes {
    Out<double> largest, gradient, curvature, loss;
};

// Bounds for the groups `chosen` at these scores, with this ridge; groups of one alternative are left out.
inline void bound_slopes(const Groups &groups, In<Int> chosen, In<double> all_scores, double ridge,
                         const Slopes &slopes) {
    const Room room(groups, chosen);
    for (const Int number : chosen) {
        const Group group = groups[number];
        if (group.size < 2) continue;
        const Space space = room.of(group);
        const In<double> scores = all_scores.slice(group.first, group.first + group.size);
        weigh(group, scores, space);
        slopes.loss[number] = sum_losses(group, scores, space);
        const double looseness = find_looseness(group, scores);
        Array<double> moved(group.size);
        const Steepness steepness = measure_gradient(group, scores, space, looseness, ridge, moved);
        slopes.largest[number] = steepness.largest;
        slopes.gradient[number] = steepness.norm;
        const double least = find_least_curvature(group, space, looseness, moved);
        slopes.curvature[number] = ridge + least;
        if (ridge == 0.0 && least > 0.0)
            slopes.gradient[number] =
                std::min(steepness.norm, least * find_reach(group, space, looseness, moved));
    }
}

// Add Σ count (diag p − p pᵀ) over the choices of one group to its Hessian.
inline void fill_hessian(const Group &group, In<double> scores, const Space &space, Rows<double> hessian) {
    weigh(group, scores, space);
    for (Int choice = group.first_choice; choice < group.last_choice; ++choice) {
        const In<Int32> members = group.members(choice);
        const Out<double> shares = group.shares(choice, space.probability);
        for (Int entry = 0; entry < members.size; ++entry) {
            const Int node = group.node(members[entry]);
            const double share = group.count(choice) * shares[entry];
            for (Int before = 0; before < entry; ++before) {
                const Int rival = group.node(members[before]);
                const double weight = share * shares[before];
                hessian[node][rival] -= weight;
                hessian[rival][node] -= weight;
                hessian[node][node] += weight;
                hessian[rival][rival] += weight;
            }
        }
    }
}

} // namespace attomaton::soft
