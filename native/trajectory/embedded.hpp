// The loops of the flow of embedded tokens: all queries coupled, few coordinates; matrix products are numpy's.
#pragma once
#include "base/arrays.hpp"

namespace attomaton::flow {

// The losing tokens of each choice.
struct Losers {
    Rows<const double> directions; // of each loser: its score minus the label's, as a form
    In<double> log_odds;           // of each loser: ln m_x − ln m_y
    In<Int> offsets;               // where the losers of each choice begin, and where the last ones end
    In<double> weight;             // of each choice: count / n
};

// The sum of products, in four sums.
inline double multiply(In<double> left, In<double> right) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    Int at = 0;
    for (; at + 4 <= left.size; at += 4)
        for (Int lane = 0; lane < 4; ++lane) sums[lane] += left[at + lane] * right[at + lane];
    for (; at < left.size; ++at) sums[0] += left[at] * right[at];
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// The probability of each loser of a choice at a point; the label's is the rest.
inline void weigh_choice(const Losers &losers, Int choice, In<double> point, Out<double> probability) {
    double highest = 0.0, total = 0.0;
    for (Int rank = 0; rank < probability.size; ++rank) {
        const Int loser = losers.offsets[choice] + rank;
        probability[rank] = multiply(losers.directions[loser], point) + losers.log_odds[loser];
        highest = std::max(highest, probability[rank]);
    }
    for (double &odds : probability) total += odds = std::exp(odds - highest);
    total += std::exp(-highest);
    for (double &odds : probability) odds /= total;
}

// Plain gradient descent from `point`, in place.
inline void descend_embedded(const Losers &losers, Out<double> point, double step_size, Int n_steps) {
    Array<double> slope(point.size), room(losers.log_odds.size);
    for (Int step = 0; step < n_steps; ++step) {
        std::fill(slope.begin(), slope.end(), 0.0);
        for (Int choice = 0; choice < losers.weight.size; ++choice) {
            const Out<double> probability = room.slice(losers.offsets[choice], losers.offsets[choice + 1]);
            weigh_choice(losers, choice, point, probability);
            for (Int rank = 0; rank < probability.size; ++rank) {
                const In<double> direction = losers.directions[losers.offsets[choice] + rank];
                const double press = losers.weight[choice] * probability[rank];
                for (Int at = 0; at < slope.size; ++at) slope[at] += press * direction[at];
            }
        }
        for (Int at = 0; at < point.size; ++at) point[at] -= step_size * slope[at];
    }
}

// The slope of the loss at a point, and factors of its curvature rootedᵀ rooted − meansᵀ means: for each loser
// √(weight · probability) · direction, and for each choice √weight Σ probability · direction.
inline void expand_embedded(const Losers &losers, In<double> point, Out<double> slope, Rows<double> rooted,
                            Rows<double> means) {
    Array<double> room(losers.log_odds.size);
    std::fill(slope.begin(), slope.end(), 0.0);
    for (Int choice = 0; choice < losers.weight.size; ++choice) {
        const Out<double> probability = room.slice(losers.offsets[choice], losers.offsets[choice + 1]);
        weigh_choice(losers, choice, point, probability);
        const Out<double> mean = means[choice];
        const double root = std::sqrt(losers.weight[choice]);
        std::fill(mean.begin(), mean.end(), 0.0);
        for (Int rank = 0; rank < probability.size; ++rank) {
            const Int loser = losers.offsets[choice] + rank;
            const In<double> direction = losers.directions[loser];
            const Out<double> moment = rooted[loser];
            const double share = std::sqrt(probability[rank]);
            for (Int at = 0; at < direction.size; ++at) {
                moment[at] = root * share * direction[at];
                mean[at] += share * moment[at];
            }
        }
        for (Int at = 0; at < slope.size; ++at) slope[at] += root * mean[at];
    }
}

} // namespace attomaton::flow
