// The kernels of trajectory, as functions of Python.
#include "solvers/soft/arguments.hpp"
#include "trajectory/embedded.hpp"
#include "trajectory/orthonormal.hpp"

namespace attomaton {

using ComponentsArgument = std::tuple<Read<Int>, Read<Int>>;
using QueriesArgument = std::tuple<soft::ChoicesArgument, soft::BordersArgument, ComponentsArgument>;
using LosersArgument = std::tuple<Read<double, 2>, Read<double>, Read<Int>, Read<double>>;

static flow::Queries queries_of(const QueriesArgument &argument, std::size_t n_scores) {
    const auto &[choices, borders, components] = argument;
    const auto &[component, n_alternatives] = components;
    demand(component.size() == n_scores, "each score needs a component");
    return {soft::groups_of(choices, borders, n_scores), view(component), view(n_alternatives)};
}

static flow::Losers losers_of(const LosersArgument &losers) {
    const auto &[directions, log_odds, offsets, weight] = losers;
    demand(directions.shape(0) == log_odds.size(), "each loser needs a direction and odds");
    demand(offsets.size() == weight.size() + 1, "each choice needs losers and a weight");
    demand(view(offsets)[weight.size()] == Int(log_odds.size()), "the offsets do not end where the losers end");
    return {rows(directions), view(log_odds), view(offsets), view(weight)};
}

void bind_trajectory(nb::module_ &module) {
    define(
        module, "descend_queries", "Move the scores of each query by plain gradient descent.",
        [](QueriesArgument queries, Write<double> scores, double step_size, Int n_steps) {
            const flow::Queries viewed = queries_of(queries, scores.size());
            unlocked([&] { flow::descend_queries(viewed, view(scores), step_size, n_steps); });
        },
        "queries", "scores", "step_size", "n_steps");
    define(
        module, "minimise_queries",
        "Move the scores of each query to the minimum of L + ½ stiffness ‖s − anchor‖²; return whether all are there.",
        [](QueriesArgument queries, Read<double> anchor, double stiffness, Write<double> scores, double atol) {
            const flow::Queries viewed = queries_of(queries, scores.size());
            demand(anchor.size() == scores.size(), "each score needs an anchor");
            return unlocked(
                [&] { return flow::minimise_queries(viewed, view(anchor), stiffness, view(scores), atol); });
        },
        "queries", "anchor", "stiffness", "scores", "atol");
    define(
        module, "damp_queries", "(1 + H / stiffness)⁻¹ moves at these scores, in place.",
        [](QueriesArgument queries, Read<double> scores, double stiffness, Write<double> moves) {
            const flow::Queries viewed = queries_of(queries, scores.size());
            demand(moves.size() == scores.size(), "each score needs a move");
            unlocked([&] { flow::damp_queries(viewed, view(scores), stiffness, view(moves)); });
        },
        "queries", "scores", "stiffness", "moves");
    define(
        module, "descend_embedded", "Move the point by plain gradient descent.",
        [](LosersArgument losers, Write<double> point, double step_size, Int n_steps) {
            const flow::Losers viewed = losers_of(losers);
            demand(Int(point.size()) == viewed.directions.width, "each coordinate needs an entry of the point");
            unlocked([&] { flow::descend_embedded(viewed, view(point), step_size, n_steps); });
        },
        "losers", "point", "step_size", "n_steps");
    define(
        module, "expand_embedded",
        "The slope of the loss at a point, and the factors of its curvature rootedᵀ rooted − meansᵀ means.",
        [](LosersArgument losers, Read<double> point, Write<double> slope, Write<double, 2> rooted,
           Write<double, 2> means) {
            const flow::Losers viewed = losers_of(losers);
            const Int width = viewed.directions.width;
            demand(Int(point.size()) == width && Int(slope.size()) == width && Int(rooted.shape(1)) == width &&
                       Int(means.shape(1)) == width,
                   "each coordinate needs an entry of point and slope, and a column");
            demand(Int(rooted.shape(0)) == viewed.log_odds.size && Int(means.shape(0)) == viewed.weight.size,
                   "each loser and each choice needs a row");
            unlocked([&] { flow::expand_embedded(viewed, view(point), view(slope), rows(rooted), rows(means)); });
        },
        "losers", "point", "slope", "rooted", "means");
}

} // namespace attomaton
