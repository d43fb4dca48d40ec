// The kernels of solvers/soft, as functions of Python.
#include "solvers/soft/arguments.hpp"
#include "solvers/soft/curvature.hpp"
#include "solvers/soft/tied.hpp"

namespace attomaton {

using soft::BordersArgument;
using soft::ChoicesArgument;

void bind_soft(nb::module_ &module) {
    define(
        module, "solve_groups",
        "Move the scores of the groups `chosen` from the anchor to their minimum.\n\n"
        "`borders` are those of each group's alternatives and of its choices, `pull` is the anchor and its stiffness, "
        "`answer` the scores and for each group whether it ended far from the tolerance; `limits` are the tolerance on "
        "gradient entries and the most steps.",
        [](ChoicesArgument choices, BordersArgument borders, Read<Int> chosen, std::tuple<Read<double>, double> pull,
           std::tuple<Write<double>, Write<bool>> answer, std::tuple<double, Int> limits) {
            const auto &[anchor, stiffness] = pull;
            const auto &[scores, stalled] = answer;
            const soft::Groups groups = soft::groups_of(choices, borders, scores.size());
            demand(anchor.size() == scores.size(), "each score needs an anchor");
            demand(Int(stalled.size()) == groups.borders.size - 1, "stalled has an entry for each group");
            const auto [atol, max_steps] = limits;
            nb::gil_scoped_release released;
            soft::solve_groups(groups, view(chosen), view(anchor), stiffness, view(scores), view(stalled), atol,
                               max_steps);
        },
        "choices", "borders", "chosen", "pull", "answer", "limits");
    define(
        module, "bound_slopes",
        "Bounds on the gradient and curvature of the groups `chosen` at these scores, with this ridge, into `slopes`.",
        [](ChoicesArgument choices, BordersArgument borders, Read<Int> chosen, std::tuple<Read<double>, double> at,
           std::tuple<Write<double>, Write<double>, Write<double>, Write<double>> slopes) {
            const auto &[scores, ridge] = at;
            const auto &[largest, gradient, curvature, loss] = slopes;
            const soft::Groups groups = soft::groups_of(choices, borders, scores.size());
            const std::size_t n_groups = groups.borders.size - 1;
            demand(largest.size() == n_groups && gradient.size() == n_groups && curvature.size() == n_groups &&
                       loss.size() == n_groups,
                   "slopes have an entry for each group");
            nb::gil_scoped_release released;
            soft::bound_slopes(groups, view(chosen), view(scores), ridge,
                               {view(largest), view(gradient), view(curvature), view(loss)});
        },
        "choices", "borders", "chosen", "at", "slopes");
    define(
        module, "fill_hessians",
        "Add the Hessians of the groups `chosen`, which have the same size, at these scores to `hessians`.",
        [](ChoicesArgument choices, BordersArgument borders, Read<Int> chosen, Read<double> scores,
           Write<double, 3> hessians) {
            const soft::Groups groups = soft::groups_of(choices, borders, scores.size());
            const Int size = hessians.shape(1);
            demand(hessians.shape(0) == chosen.size() && hessians.shape(2) == hessians.shape(1),
                   "each group needs a square matrix");
            for (const Int number : view(chosen))
                demand(groups[number].size == size, "the groups have the size of their matrices");
            const View<double> all = entries<double, 3>(hessians);
            nb::gil_scoped_release released;
            const soft::Room room(groups, view(chosen));
            for (Int rank = 0; rank < Int(chosen.size()); ++rank) {
                const soft::Group group = groups[view(chosen)[rank]];
                const Rows<double> hessian{all.slice(rank * size * size, (rank + 1) * size * size), size};
                soft::fill_hessian(group, view(scores).slice(group.first, group.first + size), room.of(group),
                                   hessian);
            }
        },
        "choices", "borders", "chosen", "scores", "hessians");
    define(
        module, "sort_members",
        "Members and multiplicities of choice sets in a new order, and whether every set stays in its component.\n\n"
        "`choices` are the offsets, tokens, multiplicities and queries of the choices, `nodes` the keys of all nodes "
        "with their numbers, and `within` the numbers of the winners, in the new order, with the first and one past "
        "the last number of each node's component. Tokens are less than `n_tokens`, and queries stay sorted.",
        [](Read<Int> order, std::tuple<Read<Int>, Read<Int32>, Read<Int32>, Read<Int32>> choices,
           std::tuple<Read<Int>, Read<Int32>> nodes, std::tuple<Read<Int32>, Read<Int>, Read<Int>> within,
           Int n_tokens) {
            const auto &[offsets, tokens, times, queries] = choices;
            const auto &[keys, number] = nodes;
            const auto &[winner, lowest, past] = within;
            demand(tokens.size() == times.size(), "each member of a choice set needs a multiplicity");
            demand(offsets.size() == queries.size() + 1 && order.size() == queries.size() &&
                       winner.size() == queries.size(),
                   "each choice needs members, a query, a rank and a winner");
            demand(keys.size() == number.size() && keys.size() == lowest.size() && keys.size() == past.size(),
                   "each node needs a key, a number and a component");
            soft::Members sorted = unlocked([&] {
                return soft::sort_members(view(order), {view(offsets), view(tokens), view(times), view(queries)},
                                          view(keys), view(number), view(winner), view(lowest), view(past),
                                          n_tokens);
            });
            return std::make_tuple(give(std::move(sorted.alternative)), give(std::move(sorted.multiplicity)),
                                   sorted.inside);
        },
        "order", "choices", "nodes", "within", "n_tokens");
}

} // namespace attomaton
