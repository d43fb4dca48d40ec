// Choice sets: the tokens from which each label was chosen. An entry packs a token and its multiplicity.
#pragma once
#include "graphs/bags.hpp"

namespace attomaton {

constexpr int MULTIPLICITY_BITS = 32;
constexpr Int MULTIPLICITY_MASK = (Int(1) << MULTIPLICITY_BITS) - 1;
constexpr Int MOST_RANKED = 64; // sets up to this size are sorted by counting, which is quadratic but has no branches

// Samples sorted by query and label.
struct Contexts {
    In<Int32> values;
    In<Int> starts, stops;
    In<Int32> labels;
};

// The tokens of query k that tie are in the rows borders[k] … borders[k + 1] - 1; components are numbered by query.
struct Members {
    In<Int> borders;
    In<Int32> token;
    In<Int> component;
};

// Set i is entries[offsets[i]] … entries[offsets[i + 1] - 1], from the sample rows[i].
struct Sets {
    Array<Int> rows, offsets, entries;
};

// Whether each label ties with another token under its query.
inline Array<bool> find_tied(const Members &members, In<Int32> queries, In<Int32> labels) {
    Array<bool> tied(queries.size);
    for (Int sample = 0; sample < queries.size; ++sample) {
        const Int query = queries[sample];
        const In<Int32> tokens = members.token.slice(members.borders[query], members.borders[query + 1]);
        tied[sample] = std::binary_search(tokens.begin(), tokens.end(), labels[sample]);
    }
    return tied;
}

// Sort distinct entries: if they are few, by counting the smaller ones of each.
inline void sort_set(Out<Int> set) {
    if (set.size > MOST_RANKED) {
        std::sort(set.begin(), set.end());
        return;
    }
    Int unsorted[MOST_RANKED];
    std::copy(set.begin(), set.end(), unsorted);
    for (Int entry = 0; entry < set.size; ++entry) {
        Int rank = 0;
        for (Int rival = 0; rival < set.size; ++rival) rank += unsorted[rival] < unsorted[entry];
        set[rank] = unsorted[entry];
    }
}

// The choice set of each label that is chosen from several tokens: of its component, or if `whole` of its context.
inline Sets collect_sets(const Contexts &contexts, const Members &members, bool whole) {
    const auto &[values, starts, stops, labels] = contexts;
    const auto &[borders, token, component] = members;
    const Int n_tokens = borders.size - 1;
    Array<Int> component_of(n_tokens, -1); // under this or an earlier query, whose components have smaller numbers
    Array<Int> times(n_tokens);
    Sets sets{Array<Int>(starts.size), Array<Int>(starts.size + 1), Array<Int>(count_values(starts, stops))};
    Int n_rows = 0, end = 0, query = -1;
    for (Int sample = 0; sample < starts.size; ++sample) {
        const Int next = values[stops[sample] - 1];
        if (next != query && !whole)
            for (Int row = borders[next]; row < borders[next + 1]; ++row) component_of[token[row]] = component[row];
        query = next;
        const Int chosen = component_of[labels[sample]];
        const bool alone = borders[query] == borders[query + 1] || chosen < component[borders[query]];
        if (alone && !whole) continue;
        const Int first = end;
        for (Int position = starts[sample]; position < stops[sample]; ++position) {
            const Int32 member = values[position];
            if (component_of[member] != chosen) continue;
            sets.entries[end] = member; // stays if it is new
            end += times[member]++ == 0;
        }
        for (Int &entry : sets.entries.slice(first, end)) {
            const Int member = entry;
            entry = (member << MULTIPLICITY_BITS) | times[member];
            times[member] = 0;
        }
        if (end - first < 2) {
            end = first;
            continue;
        }
        sort_set(sets.entries.slice(first, end));
        sets.rows[n_rows] = sample;
        sets.offsets[++n_rows] = end;
    }
    sets.rows.size = n_rows;
    sets.offsets.size = n_rows + 1;
    sets.entries.size = end;
    return sets;
}

// Below 0 if the first set comes first, 0 if both are equal, above 0 otherwise.
inline Int compare_sets(In<Int> offsets, In<Int> entries, Int first, Int second) {
    const In<Int> left = entries.slice(offsets[first], offsets[first + 1]);
    const In<Int> right = entries.slice(offsets[second], offsets[second + 1]);
    for (Int entry = 0; entry < std::min(left.size, right.size); ++entry)
        if (left[entry] != right[entry]) return left[entry] < right[entry] ? -1 : 1;
    return left.size - right.size;
}

struct Counted {
    Array<Int> rows, counts;
};

// The first of each group of equal choices, sorted, and the sums of their counts. `pairs` are the packed query and
// winner of each choice; `by_winner` sorts the choices by these.
inline Counted count_sets(In<Int> by_winner, In<Int> pairs, In<Int> offsets, In<Int> entries, In<Int> counts) {
    Array<Int> order(by_winner);
    for (Int first = 0, end; first < order.size; first = end) {
        for (end = first + 1; end < order.size && pairs[order[end]] == pairs[order[first]];) ++end;
        if (end - first > 1)
            std::stable_sort(order.begin() + first, order.begin() + end, [&](Int left, Int right) {
                return compare_sets(offsets, entries, left, right) < 0;
            });
    }
    Counted counted{Array<Int>(order.size), Array<Int>(order.size)};
    Int n_rows = 0;
    for (const Int row : order) {
        const Int last = n_rows ? counted.rows[n_rows - 1] : row;
        if (n_rows == 0 || pairs[last] != pairs[row] || compare_sets(offsets, entries, last, row) != 0)
            counted.rows[n_rows++] = row;
        counted.counts[n_rows - 1] += counts[row];
    }
    counted.rows.size = counted.counts.size = n_rows;
    return counted;
}

struct Taken {
    Array<Int> offsets;
    Array<Int32> tokens, multiplicities;
};

// Some sets, in the order of their numbers `rows`, unpacked.
inline Taken take_sets(In<Int> rows, In<Int> offsets, In<Int> entries) {
    Array<Int> ends(rows.size + 1);
    for (Int rank = 0; rank < rows.size; ++rank)
        ends[rank + 1] = ends[rank] + offsets[rows[rank] + 1] - offsets[rows[rank]];
    const Int n_entries = ends[rows.size];
    Taken taken{std::move(ends), Array<Int32>(n_entries), Array<Int32>(n_entries)};
    Int position = 0;
    for (const Int row : rows)
        for (const Int entry : entries.slice(offsets[row], offsets[row + 1])) {
            taken.tokens[position] = Int32(entry >> MULTIPLICITY_BITS);
            taken.multiplicities[position++] = Int32(entry & MULTIPLICITY_MASK);
        }
    return taken;
}

} // namespace attomaton
