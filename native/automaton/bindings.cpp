// The kernels of the automaton, as functions of Python.
#include "automaton/repetition/limits.hpp"
#include "automaton/repetition/odds.hpp"
#include "base/bindings.hpp"

namespace attomaton {

void bind_automaton(nb::module_ &module) {
    define(
        module, "find_steady", "The stationary law of a chain that returns to its first state from everywhere.",
        [](Read<double, 2> probabilities) {
            demand(probabilities.shape(0) == probabilities.shape(1) && probabilities.shape(0) > 0,
                   "the probabilities are not a square");
            return give(unlocked([&] { return find_steady(rows(probabilities)); }));
        },
        "probabilities");
    define(
        module, "append_tokens",
        "Draw a token for each entry of draws (in [0, 1)), add it to counts, and return the last one.",
        [](Read<double, 2> odds, Write<double> counts, Int last, Read<double> draws) {
            demand(odds.shape(0) == counts.size() && odds.shape(1) == counts.size(), "each count needs a row of odds");
            demand(0 <= last && last < Int(counts.size()), "the last token has no odds");
            return unlocked([&] { return append_tokens(rows(odds), view(counts), last, view(draws)); });
        },
        "odds", "counts", "last", "draws");
}

} // namespace attomaton
