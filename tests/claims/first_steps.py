"""The statistics of the beginning and corpora for it, written out in plain loops: another reference."""

import numpy as np


def statistics_in_loops(sequences, n_tokens):
    """B̄, Φ̄, Q̄ and Δ as dictionaries would count them: no matrix products but Σ_B Φ̄."""
    count, length = np.shape(sequences)
    window = length - 1
    share = 1 / (count * window)
    bigrams, contexts = np.zeros((n_tokens, n_tokens)), np.zeros((n_tokens, n_tokens))
    for sequence in sequences:
        for t in range(window):
            residual = np.full(n_tokens, -1 / n_tokens)
            residual[sequence[t + 1]] += 1
            bigrams[sequence[t]] += share * residual
            for u in range(t + 1):
                contexts[:, sequence[u]] += share * residual / (t + 1)
    table = bigrams.T @ bigrams @ contexts
    looks, lags = np.zeros((n_tokens, n_tokens)), np.zeros(window)
    for sequence in sequences:
        for t in range(window):
            worth = [table[sequence[t + 1], sequence[u]] - table[:, sequence[u]].mean() for u in range(t + 1)]
            for u in range(t + 1):
                gain = share * (worth[u] - sum(worth) / (t + 1)) / (t + 1)
                looks[sequence[t], sequence[u]] += gain
                lags[t - u] += gain
    return bigrams, contexts, looks, lags


def forecast_in_loops(sequences, n_tokens, steps, step_size):
    """W, P, V and W_O by the recurrences of the first orders, one step at a time from zero."""
    bigrams, contexts, looks, lags = statistics_in_loops(sequences, n_tokens)
    output = values = attention = 0.0
    for _ in range(steps):
        attention += step_size * output * values
        values += step_size * output
        output += step_size
    return {
        "attention": attention * looks,
        "positions": attention * lags,
        "values": values * (bigrams @ contexts).T,
        "output": output * bigrams,
    }


def bigrams_with_copies(rng, n_tokens=40, shape=(400, 13), copies=0.3):
    """Sequences of a random bigram law in which some tokens repeat one of their context."""
    law = rng.dirichlet(np.full(n_tokens, 0.1), n_tokens)
    sequences = np.empty(shape, np.int64)
    for row in sequences:
        row[0] = rng.integers(n_tokens)
        for t in range(1, len(row)):
            if rng.random() < copies:
                row[t] = row[rng.integers(t)]
            else:
                row[t] = rng.choice(n_tokens, p=law[row[t - 1]])
    return sequences
