// Contexts as bags of tokens: which samples are realisable, and their packed edges.
#pragma once
#include "graphs/windows.hpp"

namespace attomaton {

// Which samples have their label in the context values[starts[i]] … values[stops[i] - 1].
inline Array<bool> find_labels(In<Int32> values, In<Int> starts, In<Int> stops, In<Int32> labels) {
    Array<bool> realisable(starts.size);
    for (Int sample = 0; sample < starts.size; ++sample)
        for (Int position = stops[sample] - 1; position >= starts[sample] && !realisable[sample]; --position)
            realisable[sample] = values[position] == labels[sample];
    return realisable;
}

// The next position of each token; the number of values if it does not recur.
inline Array<Int> link_ahead(In<Int32> values, Int n_tokens) {
    Array<Int> after(values.size), next(n_tokens, values.size);
    for (Int position = values.size - 1; position >= 0; --position) {
        after[position] = next[values[position]];
        next[values[position]] = position;
    }
    return after;
}

// The number of tokens in all contexts.
inline Int count_values(In<Int> starts, In<Int> stops) {
    Int total = 0;
    for (Int sample = 0; sample < starts.size; ++sample) total += stops[sample] - starts[sample];
    return total;
}

// The packed edges of realisable samples; `after` has the next position of each token.
inline Array<Int> pack_contexts(In<Int32> values, In<Int> starts, In<Int> stops, In<Int32> labels, In<Int> after) {
    Array<Int> keys(count_values(starts, stops) + 1);
    Int n_keys = 0;
    for (Int sample = 0; sample < starts.size; ++sample) {
        const Int pair = (Int(values[stops[sample] - 1]) << TOKEN_BITS) | labels[sample];
        n_keys = pack_context(values, after, starts[sample], stops[sample], pair, keys, n_keys);
    }
    keys.size = n_keys;
    return keys;
}

} // namespace attomaton
