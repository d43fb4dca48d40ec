// Newton's equations of the interior-point method.
#pragma once
#include "base/arrays.hpp"

namespace attomaton::norms {

// A matrix [[A, B], [Bᵀ, C]] between the vectors of the constraints, u_c, and those of tokens and queries, e_i and f_k.
struct ProjectedRows {
    Rows<const double> tokens;  // u_cᵀ A e_i
    Rows<const double> cross;   // u_cᵀ B f_k
    Rows<const double> queries; // f_kᵀ C f_l
};

// The lower half of H in the equations of the nuclear norm, shape (n_constraints, n_constraints).
inline Array<double> assemble_equations(const ProjectedRows &primal, const ProjectedRows &dual, In<Int> above,
                                        In<Int> below, In<Int> query_of) {
    const Int size = query_of.size;
    Array<double> matrix(size * size);
    for (Int row = 0; row < size; ++row) {
        const Int query = query_of[row];
        for (Int column = 0; column <= row; ++column) {
            const Int i = above[column], j = below[column], k = query_of[column];
            double value = (primal.tokens[row][i] - primal.tokens[row][j]) * dual.queries[query][k];
            value += (dual.tokens[row][i] - dual.tokens[row][j]) * primal.queries[query][k];
            value += primal.cross[row][k] * dual.cross[column][query];
            value += dual.cross[row][k] * primal.cross[column][query];
            matrix[row * size + column] = 0.5 * value;
        }
    }
    return matrix;
}

} // namespace attomaton::norms
