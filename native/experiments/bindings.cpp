// The kernels of the experiments, as functions of Python.
#include "base/bindings.hpp"
#include "experiments/head_study/edges.hpp"

namespace attomaton {

void bind_experiments(nb::module_ &module) {
    define(
        module, "score_pairs",
        "Add the products of queries and keys of each pair to scores, shape (n_pairs, n_heads).",
        [](Read<float, 3> queries, Read<float, 3> offered, Read<Int32> query, Read<Int32> token,
           Write<float, 2> scores) {
            demand(queries.shape(1) == offered.shape(1) && queries.shape(2) == offered.shape(2) &&
                       queries.shape(2) == scores.shape(1),
                   "queries, keys and scores do not fit each other");
            demand(query.size() == token.size() && query.size() == scores.shape(0), "each pair needs scores");
            unlocked([&] { score_pairs(rows(queries), rows(offered), view(query), view(token), rows(scores)); });
        },
        "queries", "offered", "query", "token", "scores");
    define(
        module, "count_obeyed", "Twice the support of the edges that each head obeys, once of those that tie.",
        [](Read<float, 2> scores, Read<Int> winner, Read<Int> loser, Read<Int> support) {
            demand(winner.size() == loser.size() && winner.size() == support.size(),
                   "each edge needs two ends and a support");
            return give(
                unlocked([&] { return count_obeyed(rows(scores), view(winner), view(loser), view(support)); }));
        },
        "scores", "winner", "loser", "support");
}

} // namespace attomaton
