// Sums whose rounding error does not grow with the number of terms.
#pragma once
#include "base/arrays.hpp"

namespace attomaton {

// Add a value to a total, and its rounding error to what the total has lost (Neumaier summation).
inline void add_precisely(double &total, double &lost, double value) {
    const double raised = total + value;
    lost += std::abs(total) >= std::abs(value) ? (total - raised) + value : (value - raised) + total;
    total = raised;
}

} // namespace attomaton
