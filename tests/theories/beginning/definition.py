"""The statistics of the beginning as the theory defines them, with dense matrices."""

import numpy as np


def define_statistics(sequences, n_tokens):
    """B̄, Φ̄, Q̄ and Δ by name, of N sequences of T tokens, each with one more token: its last next token.

    With X_i (T × V) the one-hot tokens of sequence i, Y_i their next tokens, R_i = Y_i − 1/V, and uniform
    causal attention A₀[t, u] = 1/t for u ≤ t:

        B̄ = (1/NT) Σ_i X_iᵀ R_i,    Φ̄ = (1/NT) Σ_i R_iᵀ A₀ X_i,    Σ_B = B̄ᵀ B̄,    c_i = R_i Σ_B Φ̄ X_iᵀ,
        Q_i[t, u] = (c_i[t, u] − mean_{u' ≤ t} c_i[t, u']) / t for u ≤ t,
        Q̄ = (1/NT) Σ_i X_iᵀ Q_i X_i,    Δ_m = (1/NT) Σ_i Σ_t Q_i[t, t − m].
    """
    window = len(sequences[0]) - 1
    size = len(sequences) * window
    one_hot = np.eye(n_tokens)
    attention = np.tril(np.ones((window, window))) / np.arange(1, window + 1)[:, None]
    bigrams, contexts, looks = (np.zeros((n_tokens, n_tokens)) for _ in range(3))
    lags = np.zeros(window)
    pairs = [(one_hot[list(one[:-1])], one_hot[list(one[1:])] - 1 / n_tokens) for one in sequences]  # X and R
    for tokens, residual in pairs:
        bigrams += tokens.T @ residual / size
        contexts += residual.T @ attention @ tokens / size
    gain = bigrams.T @ bigrams @ contexts
    for tokens, residual in pairs:
        worth = residual @ gain @ tokens.T
        slopes = np.zeros_like(worth)
        for t in range(window):
            seen = worth[t, : t + 1]
            slopes[t, : t + 1] = (seen - seen.mean()) / (t + 1)
        looks += tokens.T @ slopes @ tokens / size
        for lag in range(window):
            lags[lag] += np.trace(slopes, -lag) / size
    return {"bigrams": bigrams, "contexts": contexts, "looks": looks, "lags": lags}
