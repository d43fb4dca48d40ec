// Edges of sliding windows, directly from the token stream.
// A token is the last of its kind in the context before position i exactly if it does not recur before i.
#pragma once
#include "graphs/strong.hpp"

namespace attomaton {

constexpr Int32 NOT_YET = -1; // the previous position of a token's first occurrence
constexpr Int32 NEVER = std::numeric_limits<Int32>::max(); // the next position of its last occurrence

struct Links {
    Array<Int32> before, after;           // of each position: where its token occurs before and after, in the document
    Array<Int> realisable, unrealisable;  // the samples of each wanted query, with and without the label in the context
};

// Documents begin and end at `documents`; positions before `head` are context, not labels.
inline Links link_tokens(In<Int32> ids, In<Int> documents, Int head, Int window, In<bool> wanted) {
    Links links{Array<Int32>(ids.size), Array<Int32>(ids.size), Array<Int>(wanted.size), Array<Int>(wanted.size)};
    Array<Int32> last(wanted.size, NOT_YET);
    for (Int document = 0; document + 1 < documents.size; ++document) {
        const Int start = documents[document];
        for (Int position = start; position < documents[document + 1]; ++position) {
            const Int32 previous = last[ids[position]];
            const bool repeated = previous >= start;
            if (repeated) links.after[previous] = Int32(position);
            links.before[position] = repeated ? previous : NOT_YET;
            links.after[position] = NEVER;
            last[ids[position]] = Int32(position);
            if (position == start || position < head) continue;
            const Int32 query = ids[position - 1];
            if (!wanted[query]) continue;
            ++(links.before[position] >= std::max(start, position - window) ? links.realisable
                                                                            : links.unrealisable)[query];
        }
    }
    return links;
}

// Append the packed edges of the context start … stop - 1 to the keys; how many there are then.
// `pair` holds the query and the label; the keys need a free entry more than the context is long.
template <class Position>
Int pack_context(In<Int32> ids, In<Position> after, Int start, Int stop, Int pair, Out<Int> keys, Int n_keys) {
    const Int label = pair & TOKEN_MASK;
    for (Int position = start; position < stop; ++position) { // no branch: each key is written, few are overwritten
        keys[n_keys] = (pair << TOKEN_BITS) | ids[position];
        n_keys += Int(after[position] >= stop) & Int(ids[position] != label); // the last of its kind, not the label
    }
    return n_keys;
}

struct Packed {
    Int position, n_keys;
};

// Pack the edges of the labels from `first` on until the keys are full; the next label, and the number of keys.
inline Packed pack_windows(In<Int32> ids, In<Int> documents, Int head, Int first, Int window, In<bool> wanted,
                           In<Int32> before, In<Int32> after, Out<Int> keys) {
    Int n_keys = 0;
    for (Int document = 0; document + 1 < documents.size; ++document) {
        const Int begin = documents[document];
        for (Int position = std::max({begin + 1, head, first}); position < documents[document + 1]; ++position) {
            const Int start = std::max(begin, position - window);
            if (before[position] < start || !wanted[ids[position - 1]]) continue;
            if (n_keys + position - start >= keys.size) return {position, n_keys};
            const Int pair = (Int(ids[position - 1]) << TOKEN_BITS) | ids[position];
            n_keys = pack_context(ids, after, start, position, pair, keys, n_keys);
        }
    }
    return {ids.size, n_keys};
}

// Move the distinct values of sorted keys to the front; how often each occurs.
inline Array<Int32> count_runs(Out<Int> keys) {
    Array<Int32> support(keys.size);
    Int n_distinct = 0;
    for (const Int key : keys) {
        if (n_distinct == 0 || keys[n_distinct - 1] != key) keys[n_distinct++] = key;
        ++support[n_distinct - 1];
    }
    support.size = n_distinct;
    return support;
}

} // namespace attomaton
