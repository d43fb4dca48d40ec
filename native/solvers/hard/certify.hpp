// The sums behind the bounds on ‖W_svm‖².
#pragma once
#include "base/sums.hpp"

namespace attomaton::hard {

// Write Σ|C|p², Σf and Σ(div f)²/|C| of each group, with f = max(flow, 0); by how much the smallest gap misses 1.
inline double sum_groups(In<Int> sizes, In<Int> above, In<Int> below, In<Int> nodes, In<Int> edges,
                         In<double> positions, In<double> flow, Rows<double> sums) {
    double shortfall = 0.0;
    for (Int group = 0; group < nodes.size - 1; ++group) {
        const Int first = nodes[group], n_nodes = nodes[group + 1] - first;
        Array<double> divergence(n_nodes), slip(n_nodes), total(3), lost(3);
        for (Int edge = edges[group]; edge < edges[group + 1]; ++edge) {
            const Int a = above[edge], b = below[edge];
            const double pushed = std::max(flow[edge], 0.0), missed = 1.0 - (positions[a] - positions[b]);
            if (!(missed <= shortfall)) shortfall = missed; // so that a NaN position is noticed
            add_precisely(divergence[a - first], slip[a - first], pushed);
            add_precisely(divergence[b - first], slip[b - first], -pushed);
            add_precisely(total[1], lost[1], pushed);
        }
        for (Int node = 0; node < n_nodes; ++node) {
            const double size = double(sizes[first + node]), position = positions[first + node];
            const double spread = divergence[node] + slip[node];
            add_precisely(total[0], lost[0], size * (position * position));
            add_precisely(total[2], lost[2], spread * spread / size);
        }
        for (Int row = 0; row < 3; ++row) sums[row][group] = total[row] + lost[row];
    }
    return shortfall;
}

} // namespace attomaton::hard
