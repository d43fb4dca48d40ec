"""The statistics of the beginning, word for word: dense matrices, one sequence at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Float64


@dataclass(frozen=True, eq=False)
class Defined:
    """B̄, Φ̄, Q̄ (n_tokens × n_tokens each) and Δ (window) as their definitions say."""

    bigrams: Float64
    contexts: Float64
    looks: Float64
    lags: Float64


def define_statistics(sequences: Sequence[Sequence[int]], n_tokens: int) -> Defined:
    """B̄, Φ̄, Q̄ and Δ of N sequences of T tokens, each given with one token more: its last next token.

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
        slopes = _slopes(residual @ gain @ tokens.T)
        looks += tokens.T @ slopes @ tokens / size
        for lag in range(window):
            lags[lag] += np.trace(slopes, -lag) / size
    return Defined(bigrams, contexts, looks, lags)


def _slopes(table: Float64) -> Float64:
    """Q_i of c_i."""
    slopes = np.zeros_like(table)
    for t in range(len(table)):
        seen = table[t, : t + 1]
        slopes[t, : t + 1] = (seen - seen.mean()) / (t + 1)
    return slopes
