// The kernels of solvers/norms, as functions of Python.
#include "base/bindings.hpp"
#include "solvers/norms/interior.hpp"

namespace attomaton {

namespace {

using Matrices = std::tuple<Read<double, 2>, Read<double, 2>, Read<double, 2>>;

norms::ProjectedRows view_rows(const Matrices &matrices, std::size_t n_constraints) {
    const auto &[tokens, cross, queries] = matrices;
    demand(tokens.shape(0) == n_constraints && cross.shape(0) == n_constraints &&
               queries.shape(0) == cross.shape(1) && queries.shape(1) == cross.shape(1),
           "the matrices do not fit the constraints");
    return {rows(tokens), rows(cross), rows(queries)};
}

} // namespace

void bind_norms(nb::module_ &module) {
    define(
        module, "assemble_equations", "The lower half of the matrix of Newton's equations for the nuclear norm.",
        [](Matrices primal, Matrices dual, std::tuple<Read<Int>, Read<Int>> nodes, Read<Int> query_of) {
            const auto &[above, below] = nodes;
            const std::size_t size = query_of.size();
            demand(above.size() == size && below.size() == size, "each constraint needs two nodes and a query");
            demand(size < std::size_t(1) << 30, "there are too many constraints");
            const norms::ProjectedRows primal_rows = view_rows(primal, size), dual_rows = view_rows(dual, size);
            return give(unlocked([&] {
                            return norms::assemble_equations(primal_rows, dual_rows, view(above), view(below),
                                                             view(query_of));
                        }),
                        size, size);
        },
        "primal", "dual", "nodes", "query_of");
}

} // namespace attomaton
