// The members of choice sets, sorted by component and winner.
#pragma once
#include "graphs/strong.hpp"

namespace attomaton::soft {

// Counted choices, sorted by query.
struct CountedChoices {
    In<Int> offsets;   // where the members of each choice begin, and where the last ones end
    In<Int32> tokens;  // the members of all choice sets
    In<Int32> times;   // of each member
    In<Int32> queries; // of each choice
};

struct Members {
    Array<Int32> alternative, multiplicity;
    bool inside = true; // whether every set stays in its component
};

// Members and multiplicities of choice sets in a new order, in which queries stay sorted.
//
// Nodes have sorted keys and numbers; `winner` is the number of each choice's winner, in the new order, and the
// numbers of its component are lowest[winner] … past[winner] − 1. Tokens are < n_tokens.
inline Members sort_members(In<Int> order, const CountedChoices &choices, In<Int> keys, In<Int32> number,
                            In<Int32> winner, In<Int> lowest, In<Int> past, Int n_tokens) {
    Array<Int32> number_of(n_tokens, -1); // the nodes of the last query
    Members sorted{Array<Int32>(choices.tokens.size), Array<Int32>(choices.tokens.size)};
    Int first = 0, end = 0, query = -1, position = 0;
    for (Int rank = 0; rank < order.size; ++rank) {
        const Int choice = order[rank];
        if (choices.queries[choice] != query) {
            query = choices.queries[choice];
            for (Int row = first; row < end; ++row) number_of[keys[row] & TOKEN_MASK] = -1;
            first = end;
            while (first < keys.size && (keys[first] >> TOKEN_BITS) < query) ++first;
            for (end = first; end < keys.size && (keys[end] >> TOKEN_BITS) == query; ++end)
                number_of[keys[end] & TOKEN_MASK] = number[end];
        }
        const Int least = lowest[winner[rank]], last = past[winner[rank]];
        for (Int entry = choices.offsets[choice]; entry < choices.offsets[choice + 1]; ++entry) {
            const Int32 member = number_of[choices.tokens[entry]];
            if (member < least || member >= last) sorted.inside = false;
            sorted.alternative[position] = member;
            sorted.multiplicity[position++] = choices.times[entry];
        }
    }
    return sorted;
}

} // namespace attomaton::soft
