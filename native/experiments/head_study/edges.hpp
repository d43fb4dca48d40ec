// Scores of (query, token) pairs under all heads of a layer, and the edges that they obey.
#pragma once
#include "base/arrays.hpp"

namespace attomaton {

// Add the products of queries and keys of each pair to its scores, shape (n_pairs, n_heads).
// The rows of `asked` and `offered` are matrices (width, n_heads), to sum over heads side by side.
inline void score_pairs(Rows<const float> queries, Rows<const float> offered, In<Int32> query, In<Int32> token,
                        Rows<float> scores) {
    const Int n_heads = scores.width;
    for (Int pair = 0; pair < query.size; ++pair) {
        const In<float> asks = queries[query[pair]], offers = offered[token[pair]];
        const Out<float> sums = scores[pair];
        for (Int entry = 0; entry < asks.size; entry += n_heads)
            for (Int head = 0; head < n_heads; ++head) sums[head] += asks[entry + head] * offers[entry + head];
    }
}

// Twice the support of the edges that each head obeys, once of those that tie.
inline Array<Int> count_obeyed(Rows<const float> scores, In<Int> winner, In<Int> loser, In<Int> support) {
    Array<Int> won(scores.width);
    for (Int edge = 0; edge < winner.size; ++edge) {
        const In<float> high = scores[winner[edge]], low = scores[loser[edge]];
        for (Int head = 0; head < won.size; ++head)
            won[head] += support[edge] * (Int(high[head] > low[head]) + Int(high[head] >= low[head]));
    }
    return won;
}

} // namespace attomaton
