// The kernels of the graphs, as functions of Python.
#include "base/bindings.hpp"
#include "graphs/bags.hpp"
#include "graphs/choices.hpp"
#include "graphs/robustness.hpp"
#include "graphs/strong.hpp"
#include "graphs/topology.hpp"
#include "graphs/windows.hpp"

namespace attomaton {

static void bind_strong(nb::module_ &module) {
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
            Order order_of_edges = unlocked([&] {
                return condense(view(above), view(below), view(counts), view(support), n_components);
            });
            return std::make_tuple(give(std::move(order_of_edges.above)), give(std::move(order_of_edges.below)),
                                   give(std::move(order_of_edges.edges)), give(std::move(order_of_edges.support)));
        },
        "above", "below", "counts", "support", "n_components");
}

static void bind_topology(nb::module_ &module) {
    define(
        module, "find_heights",
        "Length of the longest path down from each node, 0 at the bottom; for acyclic graphs in compressed rows.",
        [](Read<Int> start, Read<Int> below) {
            demand(start.size() > 0, "start has an entry more than there are nodes");
            return give(unlocked([&] { return find_heights(view(start), view(below)); }));
        },
        "start", "below");
    define(
        module, "find_irredundant",
        "Which edges a transitive reduction keeps: those that no longer path replaces.",
        [](Read<Int> start, Read<Int> below) {
            demand(start.size() > 0, "start has an entry more than there are nodes");
            return give(unlocked([&] { return find_irredundant(view(start), view(below)); }));
        },
        "start", "below");
    define(
        module, "find_paths",
        "Whether a path leads from each top down to its bottom; equal tops are adjacent.",
        [](Read<Int> start, Read<Int> below, Read<Int> height, Read<Int> top, Read<Int> bottom) {
            demand(start.size() == height.size() + 1, "start has an entry more than there are heights");
            demand(top.size() == bottom.size(), "each top needs a bottom");
            return give(unlocked([&] {
                return find_paths(view(start), view(below), view(height), view(top), view(bottom));
            }));
        },
        "start", "below", "height", "top", "bottom");
    define(
        module, "precede_all",
        "Whether the top node of each group reaches all members member[first[g]:first[g + 1]].",
        [](Read<Int> order, Read<Int> top, Read<Int> first, Read<Int> member, Read<Int> start, Read<Int> below) {
            demand(order.size() == top.size(), "order names each group");
            demand(first.size() == top.size() + 1, "first has an entry more than there are groups");
            demand(start.size() > 0, "start has an entry more than there are nodes");
            return give(unlocked([&] {
                return precede_all(view(order), view(top), view(first), view(member), view(start), view(below));
            }));
        },
        "order", "top", "first", "member", "start", "below");
    define(
        module, "find_flow_bridges",
        "Which edges are on every path from the root to their head, ordered like source; roots reach every node.",
        [](Read<Int> start, Read<Int> target, Read<Int> enter, Read<Int> source, Read<Int> roots) {
            demand(start.size() > 0 && start.size() == enter.size(), "start and enter delimit the same nodes");
            demand(target.size() == source.size(), "each source needs a target");
            return give(unlocked([&] {
                return find_flow_bridges(view(start), view(target), view(enter), view(source), view(roots));
            }));
        },
        "start", "target", "enter", "source", "roots");
}

static void bind_windows(nb::module_ &module) {
    define(
        module, "link_tokens",
        "The previous and next position of each token in its document, and by query the samples with and without "
        "label.",
        [](Read<Int32> ids, Read<Int> documents, Int head, Int window, Read<bool> wanted) {
            Links links = unlocked([&] { return link_tokens(view(ids), view(documents), head, window, view(wanted)); });
            return std::make_tuple(give(std::move(links.before)), give(std::move(links.after)),
                                   give(std::move(links.realisable)), give(std::move(links.unrealisable)));
        },
        "ids", "documents", "head", "window", "wanted");
    define(
        module, "pack_windows",
        "Pack the edges of the labels from first on until keys is full; the next label, and the number of keys.",
        [](Read<Int32> ids, Read<Int> documents, Int head, Int first, Int window, Read<bool> wanted,
           Read<Int32> before, Read<Int32> after, Write<Int> keys) {
            demand(ids.size() == before.size() && ids.size() == after.size(), "each token needs both links");
            const Packed packed = unlocked([&] {
                return pack_windows(view(ids), view(documents), head, first, window, view(wanted), view(before),
                                    view(after), view(keys));
            });
            return std::make_pair(packed.position, packed.n_keys);
        },
        "ids", "documents", "head", "first", "window", "wanted", "before", "after", "keys");
    define(
        module, "count_runs", "Move the distinct values of sorted keys to the front; how often each occurs.",
        [](Write<Int> keys) { return give(unlocked([&] { return count_runs(view(keys)); })); }, "keys");
}

static void bind_bags(nb::module_ &module) {
    define(
        module, "find_labels", "Which samples have their label in the context values[starts[i]:stops[i]].",
        [](Read<Int32> values, Read<Int> starts, Read<Int> stops, Read<Int32> labels) {
            demand(starts.size() == stops.size() && starts.size() == labels.size(), "the samples differ in number");
            return give(unlocked([&] { return find_labels(view(values), view(starts), view(stops), view(labels)); }));
        },
        "values", "starts", "stops", "labels");
    define(
        module, "link_ahead", "The next position of each token; the number of values if it does not recur.",
        [](Read<Int32> values, Int n_tokens) {
            return give(unlocked([&] { return link_ahead(view(values), n_tokens); }));
        },
        "values", "n_tokens");
    define(
        module, "pack_contexts", "The packed edges of realisable samples; after has the next position of each token.",
        [](Read<Int32> values, Read<Int> starts, Read<Int> stops, Read<Int32> labels, Read<Int> after) {
            demand(starts.size() == stops.size() && starts.size() == labels.size(), "the samples differ in number");
            demand(values.size() == after.size(), "each value needs a next position");
            return give(unlocked([&] {
                return pack_contexts(view(values), view(starts), view(stops), view(labels), view(after));
            }));
        },
        "values", "starts", "stops", "labels", "after");
}

static void bind_choices(nb::module_ &module) {
    using ContextArrays = std::tuple<Read<Int32>, Read<Int>, Read<Int>, Read<Int32>>;
    using MemberArrays = std::tuple<Read<Int>, Read<Int32>, Read<Int>>;
    define(
        module, "find_tied", "Whether each label ties with another token under its query.",
        [](MemberArrays members, Read<Int32> queries, Read<Int32> labels) {
            const auto &[borders, token, component] = members;
            demand(token.size() == component.size(), "each member needs a component");
            demand(queries.size() == labels.size(), "each query needs a label");
            const Members tied{view(borders), view(token), view(component)};
            return give(unlocked([&] { return find_tied(tied, view(queries), view(labels)); }));
        },
        "members", "queries", "labels");
    define(
        module, "collect_sets",
        "The samples whose label is chosen from several tokens of its component, or with whole of its context; "
        "their sets.",
        [](ContextArrays contexts, MemberArrays members, bool whole) {
            const auto &[values, starts, stops, labels] = contexts;
            const auto &[borders, token, component] = members;
            demand(starts.size() == stops.size() && starts.size() == labels.size(), "the samples differ in number");
            demand(borders.size() > 0, "borders has an entry more than there are tokens");
            demand(token.size() == component.size(), "each member needs a component");
            const Contexts samples{view(values), view(starts), view(stops), view(labels)};
            const Members tied{view(borders), view(token), view(component)};
            Sets sets = unlocked([&] { return collect_sets(samples, tied, whole); });
            return std::make_tuple(give(std::move(sets.rows)), give(std::move(sets.offsets)),
                                   give(std::move(sets.entries)));
        },
        "contexts", "members", "whole");
    define(
        module, "count_sets", "The first of each group of equal choices, sorted, and the sums of their counts.",
        [](Read<Int> order, Read<Int> pairs, Read<Int> offsets, Read<Int> entries, Read<Int> counts) {
            demand(order.size() == pairs.size() && order.size() == counts.size(), "the choices differ in number");
            demand(offsets.size() == pairs.size() + 1, "offsets has an entry more than there are choices");
            Counted counted = unlocked([&] {
                return count_sets(view(order), view(pairs), view(offsets), view(entries), view(counts));
            });
            return std::make_tuple(give(std::move(counted.rows)), give(std::move(counted.counts)));
        },
        "order", "pairs", "offsets", "entries", "counts");
    define(
        module, "take_sets", "Offsets, tokens and multiplicities of some sets, in this order.",
        [](Read<Int> rows, Read<Int> offsets, Read<Int> entries) {
            Taken taken = unlocked([&] { return take_sets(view(rows), view(offsets), view(entries)); });
            return std::make_tuple(give(std::move(taken.offsets)), give(std::move(taken.tokens)),
                                   give(std::move(taken.multiplicities)));
        },
        "rows", "offsets", "entries");
}

void bind_graphs(nb::module_ &module) {
    bind_strong(module);
    bind_topology(module);
    bind_windows(module);
    bind_bags(module);
    bind_choices(module);
}

} // namespace attomaton
