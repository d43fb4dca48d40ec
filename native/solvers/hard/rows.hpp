// Sums over differences of rows in double-double arithmetic: numbers are pairs of float64.
#pragma once
#include "base/arrays.hpp"

namespace attomaton::hard {

// A number as the sum of a high and a low part.
struct Pair {
    double high, low;
};

constexpr double SPLIT = 134217729.0; // 2²⁷ + 1: splits a float64 into halves whose products are exact

// left + right, without any error.
inline Pair add_exactly(double left, double right) {
    const double high = left + right, rounded = high - left;
    return {high, (left - (high - rounded)) + (right - rounded)};
}

// The upper half of the digits of a number.
inline double upper_half(double number) {
    const double big = SPLIT * number;
    return big - (big - number);
}

// left · right, without any error.
inline Pair multiply_exactly(double left, double right) {
    const double high = left * right, left_high = upper_half(left), right_high = upper_half(right);
    const double left_low = left - left_high, right_low = right - right_high;
    const double error = (left_high * right_high - high) + left_high * right_low + left_low * right_high;
    return {high, error + left_low * right_low};
}

inline Pair operator+(Pair left, Pair right) {
    Pair total = add_exactly(left.high, right.high);
    const Pair error = add_exactly(left.low, right.low);
    total = add_exactly(total.high, total.low + error.high);
    return add_exactly(total.high, total.low + error.low);
}

inline Pair operator*(Pair left, double factor) {
    const Pair product = multiply_exactly(left.high, factor);
    return add_exactly(product.high, product.low + left.low * factor);
}

inline Pair operator*(Pair left, Pair right) {
    const Pair product = multiply_exactly(left.high, right.high);
    return add_exactly(product.high, product.low + (left.high * right.low + left.low * right.high));
}

// Ties and priorities as differences of rows, sorted by query: (keys[winner] − keys[loser]) queries[query]ᵀ.
struct Ropes {
    Rows<const double> keys, queries;
    In<Int> winner, loser, query;

    // An entry of the difference of two rows.
    Pair apart(Int rope, Int entry) const {
        return add_exactly(keys[winner[rope]][entry], -keys[loser[rope]][entry]);
    }
};

// Σ weight (e_winner − e_loser) e_queryᵀ, shape (dim, dim).
inline Array<Pair> press(const Ropes &ropes, In<Pair> weights) {
    const Int dim = ropes.keys.width, n_ropes = ropes.winner.size;
    Array<Pair> total(dim * dim), pulled(dim);
    for (Int rope = 0; rope < n_ropes; ++rope) {
        for (Int row = 0; row < dim; ++row) pulled[row] = pulled[row] + ropes.apart(rope, row) * weights[rope];
        if (rope + 1 < n_ropes && ropes.query[rope + 1] == ropes.query[rope]) continue;
        const In<double> queries = ropes.queries[ropes.query[rope]];
        for (Int row = 0; row < dim; ++row)
            for (Int column = 0; column < dim; ++column)
                total[row * dim + column] = total[row * dim + column] + pulled[row] * queries[column];
        std::fill(pulled.begin(), pulled.end(), Pair{});
    }
    return total;
}

// (e_winner − e_loser)ᵀ W e_query of each rope, with W of shape (dim, dim).
inline Array<Pair> stretch(const Ropes &ropes, In<Pair> weights) {
    const Int dim = ropes.keys.width, n_ropes = ropes.winner.size;
    Array<Pair> pulls(n_ropes), image(dim);
    for (Int rope = 0; rope < n_ropes; ++rope) {
        if (rope == 0 || ropes.query[rope] != ropes.query[rope - 1]) {
            const In<double> queries = ropes.queries[ropes.query[rope]];
            for (Int row = 0; row < dim; ++row) {
                image[row] = Pair{};
                for (Int column = 0; column < dim; ++column)
                    image[row] = image[row] + weights[row * dim + column] * queries[column];
            }
        }
        for (Int row = 0; row < dim; ++row) pulls[rope] = pulls[rope] + ropes.apart(rope, row) * image[row];
    }
    return pulls;
}

} // namespace attomaton::hard
