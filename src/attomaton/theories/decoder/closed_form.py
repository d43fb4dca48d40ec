"""The limit of one-hot contexts in closed form: direction, finite part, and logits after many steps.

There are V tokens. Context j has the share π_j of the positions and the support S_j of s_j next tokens z,
with probabilities p_jz. At a large step t of size η its logits are b + g + ln p_jz inside the support and b
outside, with g = ln(η π_j V t/s_j) and b = −(s_j g + Σ_z ln p_jz)/V.
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
    """W* at each pair: ln p_jz minus its mean over the support, shape (n_pairs,); outside it is 0."""
    return centre(supports.row, np.log(supports.probabilities))


def squared_norm(supports: Supports) -> float:
    """‖W^mm‖² = Σ_j s_j (V − s_j) / V, which is also the limit of η · t · (CE − H)."""
    sizes = supports.sizes.astype(np.float64)
    return float((sizes * (supports.n_tokens - sizes)).sum() / supports.n_tokens)


def asymptote(supports: Supports, number: int, step: float, step_size: float) -> Float64:
    """The logits of one context at a large step t, shape (n_tokens,)."""
    pairs = supports.pairs_of(number)
    size = int(supports.sizes[number])
    n_tokens = supports.n_tokens
    logs = np.log(supports.probabilities[pairs])
    gap = np.log(step_size * supports.shares[number] * n_tokens * step / size)  # g
    base = -(size * gap + logs.sum()) / n_tokens  # b
    logits = np.full(n_tokens, base)
    logits[supports.tokens[pairs]] += gap + logs
    return logits
