// Sums over differences of rows in double-double arithmetic: numbers are pairs of float64.
#pragma once
#include "base/arrays.hpp"

namespace attomaton::hard {

// A number as the sum of a high and a low part.
struct Pair {
    double high, low;
};

constexpr double SPLIT = 134217729.0; // 2²⁷ + 1: splits a float64 into halves whose products are exact

// one + other, without any error.
inline Pair add_exactly(double one, double other) {
    const double high = one + other, part = high - one;
    return {high, (one - (high - part)) + (other - part)};
}

// The upper half of the digits of a number.
inline double upper_half(double number) {
    const double big = SPLIT * number;
    return big - (big - number);
}

// one · other, without any error.
inline Pair multiply_exactly(double one, double other) {
    const double high = one * other, one_high = upper_half(one), other_high = upper_half(other);
    const double one_low = one - one_high, other_low = other - other_high;
    const double rest = (one_high * other_high - high) + one_high * other_low + one_low * other_high;
    return {high, rest + one_low * other_low};
}

inline Pair operator+(Pair one, Pair other) {
    Pair total = add_exactly(one.high, other.high);
    const Pair rest = add_exactly(one.low, other.low);
    total = add_exactly(total.high, total.low + rest.high);
    return add_exactly(total.high, total.low + rest.low);
}

inline Pair operator*(Pair one, double factor) {
    const Pair product = multiply_exactly(one.high, factor);
    return add_exactly(product.high, product.low + one.low * factor);
}

inline Pair operator*(Pair one, Pair other) {
    const Pair product = multiply_exactly(one.high, other.high);
    return add_exactly(product.high, product.low + (one.high * other.low + one.low * other.high));
}

// Ties and priorities as differences of rows, sorted by query: (keys[one] − keys[other]) asked[query]ᵀ.
struct Ropes {
    Rows<const double> keys, asked;
    In<Int> one, other, query;

    // An entry of the difference of two rows.
    Pair apart(Int rope, Int entry) const {
        return add_exactly(keys[one[rope]][entry], -keys[other[rope]][entry]);
    }
};

// Σ weight (e_one − e_other) e_queryᵀ, shape (dim, dim).
inline Array<Pair> press(const Ropes &ropes, In<Pair> weights) {
    const Int dim = ropes.keys.width, n_ropes = ropes.one.size;
    Array<Pair> total(dim * dim), pulled(dim);
    for (Int rope = 0; rope < n_ropes; ++rope) {
        for (Int row = 0; row < dim; ++row) pulled[row] = pulled[row] + ropes.apart(rope, row) * weights[rope];
        if (rope + 1 < n_ropes && ropes.query[rope + 1] == ropes.query[rope]) continue;
        const In<double> asked = ropes.asked[ropes.query[rope]];
        for (Int row = 0; row < dim; ++row)
            for (Int column = 0; column < dim; ++column)
                total[row * dim + column] = total[row * dim + column] + pulled[row] * asked[column];
        std::fill(pulled.begin(), pulled.end(), Pair{});
    }
    return total;
}

// (e_one − e_other)ᵀ W e_query of each rope, with W of shape (dim, dim).
inline Array<Pair> stretch(const Ropes &ropes, In<Pair> weights) {
    const Int dim = ropes.keys.width, n_ropes = ropes.one.size;
    Array<Pair> pulls(n_ropes), image(dim);
    for (Int rope = 0; rope < n_ropes; ++rope) {
        if (rope == 0 || ropes.query[rope] != ropes.query[rope - 1]) {
            const In<double> asked = ropes.asked[ropes.query[rope]];
            for (Int row = 0; row < dim; ++row) {
                image[row] = Pair{};
                for (Int column = 0; column < dim; ++column)
                    image[row] = image[row] + weights[row * dim + column] * asked[column];
            }
        }
        for (Int row = 0; row < dim; ++row) pulls[rope] = pulls[rope] + ropes.apart(rope, row) * image[row];
    }
    return pulls;
}

} // namespace attomaton::hard
