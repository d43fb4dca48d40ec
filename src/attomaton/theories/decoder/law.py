"""One-hot contexts in closed form: direction, finite part, and the law of large steps.

The decoder is softmax(W h_j) with one column of W for each context j. From W = 0, gradient descent with step
size η on the mean cross-entropy treats every context alone. With s = |S_j|, π its share and p its law:

    direction   1_S − (s/V) 𝟙          (the NTP-SVM: least norm, 0 inside S, ≥ 1 from S to the rest)
    finite part ln p_z − mean over S of ln p
    at step t   b + g + ln p_z inside S, b outside, g = ln(η π V t / s), b = −(s g + Σ ln p_z) / V
    loss        t · (CE − H) → Σ_j s_j (V − s_j) / (ηV) = ‖W^mm‖² / η

The last line holds for any embeddings of the contexts: W grows like W^mm ln t, so the gradient is
W^mm / (ηt), and the loss falls by η times its squared norm in each step.
"""

import numpy as np

from attomaton.base.ragged import centre
from attomaton.base.tables import Float64
from attomaton.theories.decoder.supports import Supports


def direct_column(supports: Supports, number: int) -> Float64:
    """The column of W^mm of one context, 1_S − (s/V) 𝟙, shape (n_tokens,)."""
    inside = supports.tokens[supports.pairs_of(number)]
    column = np.full(supports.n_tokens, -len(inside) / supports.n_tokens)
    column[inside] += 1.0
    return column


def find_finite(supports: Supports) -> Float64:
    """W* at each pair: ln p_jz less its mean over the support, shape (n_pairs,); outside it is 0."""
    return centre(supports.row, np.log(supports.chances))


def squared_norm(supports: Supports) -> float:
    """‖W^mm‖² = Σ_j s_j (V − s_j) / V, which is also the limit of η · t · (CE − H).

    Examples
    --------
    >>> from attomaton.theories.decoder.supports import count_supports
    >>> squared_norm(count_supports([[0, 1, 0, 2, 0, 3]], 1))  # one support of 3 tokens, two of 1
    2.25
    """
    sizes = supports.sizes.astype(np.float64)
    return float((sizes * (supports.n_tokens - sizes)).sum() / supports.n_tokens)


def asymptote(supports: Supports, number: int, step: float, step_size: float) -> Float64:
    """The logits of one context at a large step t, by the law, shape (n_tokens,).

    Examples
    --------
    >>> from attomaton.theories.decoder.supports import count_supports
    >>> found = asymptote(count_supports([[0, 1, 0, 2, 0, 3]], 1), 0, 1e6, 1.0)
    >>> found.round(3).tolist()
    [-9.37, 3.123, 3.123, 3.123]
    """
    pairs = supports.pairs_of(number)
    size, n_tokens = int(supports.sizes[number]), supports.n_tokens
    logs = np.log(supports.chances[pairs])
    gap = np.log(step_size * supports.shares[number] * n_tokens * step / size)
    base = -(size * gap + logs.sum()) / n_tokens
    logits = np.full(n_tokens, base)
    logits[supports.tokens[pairs]] += gap + logs
    return logits
