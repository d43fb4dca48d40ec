// Strong components of a directed graph (Tarjan, without recursion) and the order between them.
#pragma once
#include "base/arrays.hpp"

namespace attomaton {

constexpr int TOKEN_BITS = 21;
constexpr Int TOKEN_MASK = (Int(1) << TOKEN_BITS) - 1;

// Label the strong component of each node, in order of discovery; the number of components.
// Node i beats loser[start[i]] … loser[start[i + 1] - 1].
template <class Node> Int search_components(In<Int> start, In<Node> loser, Out<Int> label) {
    const Int n_nodes = start.size - 1;
    Array<Int> discovered(n_nodes);     // discovery time of each node, from 1
    Array<Int> earliest(n_nodes);  // the earliest node that it reaches
    Array<Int> next_edge(start.slice(0, n_nodes));
    Array<Int> waiting(n_nodes);   // discovered, without a component
    Array<Int> path(n_nodes);      // from the root to the current node
    Int n_found = 0, n_components = 0;
    std::fill(label.begin(), label.end(), Int(-1));
    for (Int root = 0; root < n_nodes; ++root) {
        if (label[root] >= 0) continue;
        Int n_waiting = 0, depth = 1;
        path[0] = root;
        while (depth > 0) {
            const Int node = path[depth - 1];
            if (discovered[node] == 0) {
                discovered[node] = earliest[node] = ++n_found;
                waiting[n_waiting++] = node;
            }
            if (next_edge[node] < start[node + 1]) {
                const Int reached = loser[next_edge[node]++];
                if (discovered[reached] == 0)
                    path[depth++] = reached;
                else if (label[reached] < 0)
                    earliest[node] = std::min(earliest[node], discovered[reached]);
                continue;
            }
            if (--depth > 0) earliest[path[depth - 1]] = std::min(earliest[path[depth - 1]], earliest[node]);
            if (earliest[node] == discovered[node]) {
                Int last = -1;
                while (last != node) {
                    last = waiting[--n_waiting];
                    label[last] = n_components;
                }
                ++n_components;
            }
        }
    }
    return n_components;
}

// The row of each (query, token) among sorted node keys, -1 if there is none; queries are sorted, tokens < n_tokens.
inline Array<Int> find_nodes(In<Int> keys, In<Int32> queries, In<Int32> tokens, Int n_tokens) {
    Array<Int> row_of(n_tokens, -1), rows(queries.size);
    Int first = 0, end = 0, query = -1; // the rows of the last query
    for (Int pair = 0; pair < queries.size; ++pair) {
        if (queries[pair] != query) {
            query = queries[pair];
            for (Int row = first; row < end; ++row) row_of[keys[row] & TOKEN_MASK] = -1;
            first = end;
            while (first < keys.size && (keys[first] >> TOKEN_BITS) < query) ++first;
            end = first;
            while (end < keys.size && (keys[end] >> TOKEN_BITS) == query) {
                row_of[keys[end] & TOKEN_MASK] = end;
                ++end;
            }
        }
        rows[pair] = row_of[tokens[pair]];
    }
    return rows;
}

// The strong component of each node, numbered in order of appearance; edges are sorted by winner.
inline Array<Int> label_components(In<Int> winner, In<Int> loser, Int n_nodes) {
    Array<Int> start(n_nodes + 1), label(n_nodes);
    for (const Int node : winner) ++start[node + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    const Int n_components = search_components<Int>(start, loser, label);
    Array<Int> number(n_components, -1);
    Int n_numbered = 0;
    for (Int &component : label) {
        if (number[component] < 0) number[component] = n_numbered++;
        component = number[component];
    }
    return label;
}

struct Order {
    Array<Int> above, below, edges, support;
};

// The distinct edges between different components, of which there are `n_components`, with summed counts and supports.
inline Order condense(In<Int> above, In<Int> below, In<Int> counts, In<Int> support, Int n_components) {
    Array<Int> start(n_components + 1);
    for (Int edge = 0; edge < above.size; ++edge) start[above[edge] + 1] += above[edge] != below[edge];
    std::partial_sum(start.begin(), start.end(), start.begin());
    const Int n_edges = start[n_components];
    Array<Int> order(n_edges), free(start.slice(0, n_components)), row_of(n_components, -1);
    for (Int edge = 0; edge < above.size; ++edge)
        if (above[edge] != below[edge]) order[free[above[edge]]++] = edge;
    Order quotient{Array<Int>(n_edges), Array<Int>(n_edges), Array<Int>(n_edges), Array<Int>(n_edges)};
    Int n_rows = 0;
    for (Int component = 0; component < n_components; ++component) {
        const Int first = n_rows;
        for (Int entry = start[component]; entry < start[component + 1]; ++entry) {
            const Int lower = below[order[entry]];
            if (row_of[lower] < first) {
                row_of[lower] = n_rows;
                quotient.below[n_rows++] = lower;
            }
        }
        std::sort(quotient.below.begin() + first, quotient.below.begin() + n_rows);
        for (Int row = first; row < n_rows; ++row) {
            row_of[quotient.below[row]] = row;
            quotient.above[row] = component;
        }
        for (Int entry = start[component]; entry < start[component + 1]; ++entry) {
            const Int row = row_of[below[order[entry]]];
            quotient.edges[row] += counts[order[entry]];
            quotient.support[row] += support[order[entry]];
        }
    }
    for (auto *column : {&quotient.above, &quotient.below, &quotient.edges, &quotient.support})
        *column = Array<Int>(column->slice(0, n_rows));
    return quotient;
}

} // namespace attomaton
