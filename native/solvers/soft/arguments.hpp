// Choices sorted by group, as arguments of bindings.
#pragma once
#include "base/bindings.hpp"
#include "solvers/soft/newton.hpp"

namespace attomaton::soft {

using ChoicesArgument = std::tuple<Read<Int32>, Read<Int>, Read<Int32>, Read<Int32>, Read<double>>;
using BordersArgument = std::tuple<Read<Int>, Read<Int>>;

// Groups of which a kernel reads nothing that is not there, if members and winners are alternatives of their group.
inline Groups groups_of(const ChoicesArgument &choices, const BordersArgument &borders, std::size_t n_alternatives) {
    const auto &[alternative, offsets, multiplicity, winner, count] = choices;
    const auto &[nodes, numbers] = borders;
    demand(alternative.size() == multiplicity.size(), "each member of a choice set needs a multiplicity");
    demand(winner.size() == count.size() && offsets.size() == winner.size() + 1,
           "each choice needs members, a winner and a count");
    demand(nodes.size() > 0 && nodes.size() == numbers.size(), "each group needs alternatives and choices");
    const Groups groups{{view(alternative), view(offsets), view(multiplicity), view(winner), view(count)},
                        view(nodes), view(numbers)};
    const Int n_groups = groups.borders.size - 1;
    demand(groups.choices.offsets[groups.choices.winner.size] == Int(alternative.size()) &&
               groups.borders[n_groups] == Int(n_alternatives) &&
               groups.choice_borders[n_groups] == groups.choices.winner.size,
           "the borders of groups or choices do not end where the arrays end");
    return groups;
}

} // namespace attomaton::soft
