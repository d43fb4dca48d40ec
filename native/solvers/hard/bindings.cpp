// The kernels of solvers/hard, as functions of Python.
#include "base/bindings.hpp"
#include "solvers/hard/certify.hpp"
#include "solvers/hard/joint.hpp"
#include "solvers/hard/placement.hpp"
#include "solvers/hard/rows.hpp"

namespace attomaton {

using namespace hard;

namespace {

using Tables = std::tuple<Read<double, 2>, Read<double, 2>>;
using Ends = std::tuple<Read<Int>, Read<Int>, Read<Int>>;

Array<Pair> read_pairs(In<double> numbers) {
    Array<Pair> pairs(numbers.size / 2);
    for (Int at = 0; at < pairs.size; ++at) pairs[at] = {numbers[2 * at], numbers[2 * at + 1]};
    return pairs;
}

Array<double> write_pairs(const Array<Pair> &pairs) {
    Array<double> numbers(2 * pairs.size);
    for (Int at = 0; at < pairs.size; ++at) {
        numbers[2 * at] = pairs[at].high;
        numbers[2 * at + 1] = pairs[at].low;
    }
    return numbers;
}

Ropes view_ropes(const Tables &tables, const Ends &ends) {
    const auto &[keys, queries] = tables;
    const auto &[winner, loser, query] = ends;
    demand(keys.shape(1) == queries.shape(1), "the rows of tokens and of queries differ in length");
    demand(keys.shape(1) < std::size_t(1) << 30, "the rows are too long");
    demand(winner.size() == loser.size() && winner.size() == query.size(), "the ends of the ropes differ in number");
    return {rows(keys), rows(queries), view(winner), view(loser), view(query)};
}

} // namespace

void bind_hard(nb::module_ &module) {
    define(
        module, "solve_parts",
        "Write positions and multipliers (answer) of the parts span[0] … span[1] - 1 of an order.",
        [](std::tuple<Read<double>, Read<Int>, Read<Int>> graph, std::tuple<Read<Int>, Read<Int>> borders,
           std::pair<Int, Int> span, std::pair<double, double> limits,
           std::tuple<Write<double>, Write<double>> answer) {
            const auto &[weight, above, below] = graph;
            const auto &[nodes, edges] = borders;
            const auto &[positions, multipliers] = answer;
            demand(above.size() == below.size() && multipliers.size() == above.size(),
                   "each edge needs two ends and a multiplier");
            demand(positions.size() == weight.size(), "each component needs a position");
            demand(nodes.size() == edges.size() && 0 <= span.first && span.second < Int(nodes.size()),
                   "the parts have no borders");
            unlocked([&] {
                solve_parts(view(weight), view(above), view(below), view(nodes), view(edges), span.first, span.second,
                            {limits.first, limits.second}, view(positions), view(multipliers));
            });
        },
        "graph", "borders", "span", "limits", "answer");
    define(
        module, "rank_edges",
        "The edges of an order by their slack on longest paths, least first, and the number of its levels less one.",
        [](Int n_nodes, Read<Int> above, Read<Int> below) {
            demand(above.size() == below.size(), "each edge needs two ends");
            Int levels = 0;
            Array<Int32> ranked = unlocked([&] {
                const Graph graph = unit_graph(Array<double>(n_nodes), view(above), view(below), 0);
                const Paths paths = longest_paths(graph);
                levels = paths.levels();
                return rank_edges(graph, paths);
            });
            return std::make_tuple(give(std::move(ranked)), levels);
        },
        "n_nodes", "above", "below");
    define(
        module, "project_order",
        "The positions with the least Σ weight p²/2 + moment p under an order, starting from the edges first: "
        "positions, multipliers, which edges are tight, and for each node its block and its offset in it.",
        [](std::tuple<Read<double>, Read<double>, Read<Int>, Read<Int>> graph, Read<Int32> first,
           std::pair<double, double> limits) {
            const auto &[weight, moment, above, below] = graph;
            demand(weight.size() == moment.size(), "each weight needs a moment");
            demand(above.size() == below.size(), "each edge needs two ends");
            Projection projection = unlocked([&] {
                Graph order = unit_graph(view(weight), view(above), view(below), 0);
                std::copy(view(moment).begin(), view(moment).end(), order.moment.begin());
                return project(order, view(first), {limits.first, limits.second});
            });
            return std::make_tuple(give(std::move(projection.positions)), give(std::move(projection.multipliers)),
                                   give(std::move(projection.active)), give(std::move(projection.block)),
                                   give(std::move(projection.offset)));
        },
        "graph", "first", "limits");
    define(
        module, "sum_groups",
        "Write Σ|C|p², Σf and Σ(div f)²/|C| of each group into sums; by how much the smallest gap misses 1.",
        [](Read<Int> sizes, std::tuple<Read<Int>, Read<Int>> ends, std::tuple<Read<Int>, Read<Int>> borders,
           std::tuple<Read<double>, Read<double>> answer, Write<double, 2> sums) {
            const auto &[above, below] = ends;
            const auto &[nodes, edges] = borders;
            const auto &[positions, flow] = answer;
            demand(above.size() == below.size() && flow.size() == above.size(), "each edge needs two ends and a flow");
            demand(positions.size() == sizes.size(), "each component needs a position");
            demand(nodes.size() == edges.size() && sums.shape(0) == 3 && sums.shape(1) + 1 == nodes.size(),
                   "each group needs borders and three sums");
            return unlocked([&] {
                return sum_groups(view(sizes), view(above), view(below), view(nodes), view(edges), view(positions),
                                  view(flow), rows(sums));
            });
        },
        "sizes", "ends", "borders", "answer", "sums");
    define(
        module, "press_ropes", "Σ weight (e_one - e_other) e_queryᵀ in pairs of float64, from weights in pairs.",
        [](Tables tables, Ends ends, Read<double, 2> weights) {
            const Ropes ropes = view_ropes(tables, ends);
            const Int dim = ropes.keys.width;
            demand(Int(weights.shape(0)) == ropes.winner.size && weights.shape(1) == 2, "each rope needs a pair");
            return give(unlocked([&] {
                            return write_pairs(press(ropes, read_pairs(entries<const double, 2>(weights))));
                        }),
                        dim, dim, 2);
        },
        "tables", "ropes", "weights");
    define(
        module, "stretch_ropes", "(e_one - e_other)ᵀ W e_query of each rope in pairs of float64, from W in pairs.",
        [](Tables tables, Ends ends, Read<double, 3> weights) {
            const Ropes ropes = view_ropes(tables, ends);
            const Int dim = ropes.keys.width;
            demand(Int(weights.shape(0)) == dim && Int(weights.shape(1)) == dim && weights.shape(2) == 2,
                   "W is not a square of pairs as large as the rows");
            return give(unlocked([&] {
                            return write_pairs(stretch(ropes, read_pairs(entries<const double, 3>(weights))));
                        }),
                        ropes.winner.size, 2);
        },
        "tables", "ropes", "weights");
}

} // namespace attomaton
