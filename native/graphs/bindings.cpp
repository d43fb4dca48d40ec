// The kernels of the graphs, as functions of Python.
#include "base/bindings.hpp"
#include "graphs/strong.hpp"

namespace attomaton {

void bind_graphs(nb::module_ &module) {
    define(
        module, "find_nodes",
        "The row of each (query, token) among sorted node keys, -1 if there is none; queries are sorted.",
        [](Read<Int> keys, Read<Int32> queries, Read<Int32> tokens, Int n_tokens) {
            demand(queries.size() == tokens.size(), "each query needs a token");
            return give(unlocked([&] { return find_nodes(view(keys), view(queries), view(tokens), n_tokens); }));
        },
        "keys", "queries", "tokens", "n_tokens");
    define(
        module, "label_components",
        "The strong component of each node, numbered in order of appearance; edges are sorted by winner.",
        [](Read<Int> winner, Read<Int> loser, Int n_nodes) {
            demand(winner.size() == loser.size(), "each winner needs a loser");
            return give(unlocked([&] { return label_components(view(winner), view(loser), n_nodes); }));
        },
        "winner", "loser", "n_nodes");
    define(
        module, "count_components",
        "The number of strong components; node i beats loser[start[i]:start[i + 1]], possibly itself.",
        [](Read<Int> start, Read<Int32> loser) {
            demand(start.size() > 0, "start has an entry more than there are nodes");
            return unlocked([&] {
                Array<Int> label(start.size() - 1);
                return search_components<Int32>(view(start), view(loser), label);
            });
        },
        "start", "loser");
    define(
        module, "condense",
        "The distinct edges between different components: above, below, edges and support.",
        [](Read<Int> above, Read<Int> below, Read<Int> counts, Read<Int> support, Int n_components) {
            demand(above.size() == below.size() && above.size() == counts.size() && above.size() == support.size(),
                   "the columns of the edges differ in length");
            Order made = unlocked([&] {
                return condense(view(above), view(below), view(counts), view(support), n_components);
            });
            return std::make_tuple(give(std::move(made.above)), give(std::move(made.below)),
                                   give(std::move(made.edges)), give(std::move(made.support)));
        },
        "above", "below", "counts", "support", "n_components");
}

} // namespace attomaton
