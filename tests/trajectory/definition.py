"""Plain gradient descent, step by step: what ``fast_forward`` and ``train`` are compared with."""

import numpy as np


def descend_by_definition(samples, embeddings, *, step_size, n_steps, start=None):
    """W after ``n_steps`` of W ← W − η ∇L(W), shape (dim, dim).

    L(W) = −(1/n) Σ ln(Σ_{t: x_t = y} a_t) over the realisable samples, with the attention a = softmax(X W x̄)
    and the query x̄, the last row of X. All contexts form one numpy array; short ones are padded with
    positions of weight zero.
    """
    realisable = [(context, label) for context, label in samples if label in context]
    width = max(len(context) for context, _ in realisable)
    there = np.array([[1.0] * len(context) + [0.0] * (width - len(context)) for context, _ in realisable])
    filled = np.array([(*context, *[context[-1]] * (width - len(context))) for context, _ in realisable])
    hit = there * (filled == np.array([[label] for _, label in realisable]))
    keys, queries = embeddings[filled], embeddings[[context[-1] for context, _ in realisable]]
    weights = np.zeros((embeddings.shape[1],) * 2) if start is None else start.copy()
    for _ in range(n_steps):
        scores = (keys @ (queries @ weights.T)[:, :, None])[:, :, 0]
        odds = there * np.exp(scores - scores.max(axis=1, keepdims=True))
        attention = odds / odds.sum(axis=1, keepdims=True)
        right = hit * odds / (hit * odds).sum(axis=1, keepdims=True)
        excess = (keys.transpose(0, 2, 1) @ (attention - right)[:, :, None])[:, :, 0]
        weights -= step_size / len(realisable) * (excess.T @ queries)
    return weights
