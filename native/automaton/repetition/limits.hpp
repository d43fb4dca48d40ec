// The stationary law of a Markov chain.
#pragma once
#include "base/arrays.hpp"

namespace attomaton {

// The law q = qP of a chain that returns to its first state from everywhere.
// States are eliminated from the last to the second (Grassmann, Taksar and Heyman), with only sums and products, so
// that the smallest entries are as exact as the largest.
inline Array<double> find_steady(Rows<const double> probabilities) {
    const Int size = probabilities.width;
    Array<double> entries(probabilities.entries), steady(size, 1.0);
    const Rows<double> left{entries, size};
    for (Int out = size - 1; out > 0; --out) {
        double leaving = 1e-300; // float64 may round the probability of leaving a state to 0
        for (Int to = 0; to < out; ++to) leaving += left[out][to];
        for (Int state = 0; state < out; ++state) {
            const double share = left[state][out] / leaving;
            left[state][out] = share;
            for (Int to = 0; to < out; ++to) left[state][to] += share * left[out][to];
        }
    }
    double sum = 0.0;
    for (Int state = 0; state < size; ++state) {
        if (state > 0) steady[state] = 0.0;
        for (Int before = 0; before < state; ++before) steady[state] += steady[before] * left[before][state];
        sum += steady[state];
    }
    for (double &share : steady) share /= sum;
    return steady;
}

} // namespace attomaton
