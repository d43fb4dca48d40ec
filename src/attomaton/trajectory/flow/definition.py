"""Plain gradient descent, word for word: what the fast paths are held against."""

import numpy as np

from attomaton.base.tables import Float64
from attomaton.corpora.samples import Samples


def descend_by_definition(
    samples: Samples, embeddings: Float64, *, step_size: float, n_steps: int, start: Float64 | None = None
) -> Float64:
    """W after ``n_steps`` of W ← W − η ∇L(W), shape (dim, dim).

    L(W) = −(1/n) Σ ln(Σ_{t: x_t = y} a_t) with the attention a = softmax(X W x̄) and the query x̄, the last row
    of X, over the realisable samples. All contexts side by side in numpy, short ones filled up with positions
    of weight zero.
    """
    kept = [(context, label) for context, label in samples if label in context]
    width = max(len(context) for context, _ in kept)
    there = np.array([[1.0] * len(context) + [0.0] * (width - len(context)) for context, _ in kept])
    filled = np.array([(*context, *[context[-1]] * (width - len(context))) for context, _ in kept])
    hit = there * (filled == np.array([[label] for _, label in kept]))
    keys, asked = embeddings[filled], embeddings[[context[-1] for context, _ in kept]]
    weights = np.zeros((embeddings.shape[1],) * 2) if start is None else start.copy()
    for _ in range(n_steps):
        scores = (keys @ (asked @ weights.T)[:, :, None])[:, :, 0]
        odds = there * np.exp(scores - scores.max(axis=1, keepdims=True))
        attention = odds / odds.sum(axis=1, keepdims=True)
        right = hit * odds / (hit * odds).sum(axis=1, keepdims=True)
        excess = (keys.transpose(0, 2, 1) @ (attention - right)[:, :, None])[:, :, 0]
        weights -= step_size / len(kept) * (excess.T @ asked)
    return weights
