// Text that a layer draws from its own output.
#pragma once
#include "base/arrays.hpp"

namespace attomaton {

// Draw a token for each entry of `draws` (in [0, 1)) and add it to the counts; the last token.
inline Int append_tokens(Rows<const double> odds, Out<double> counts, Int last, In<double> draws) {
    for (const double draw : draws) {
        const In<double> row = odds[last];
        double total = 0.0, below = 0.0;
        for (Int token = 0; token < counts.size; ++token) total += counts[token] * row[token];
        const double left = draw * total;
        for (Int token = 0; token < counts.size; ++token) {
            const double weight = counts[token] * row[token];
            if (!(weight > 0.0)) continue;
            last = token;
            below += weight;
            if (!(below <= left)) break;
        }
        counts[last] += 1.0;
    }
    return last;
}

} // namespace attomaton
