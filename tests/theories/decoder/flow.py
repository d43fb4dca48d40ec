"""The gradient flow of a decoder to any time, written out: dW/dτ = −∇CE(W) from W = 0, by implicit steps.

Each step is the minimum of CE(X) + ‖X − W‖²/(2Δ), a convex problem that Newton's method solves, so steps may
grow with τ. Gradient descent with step size η is near W(ηt).
"""

import numpy as np


def follow_flow(features, law, shares, times, growth=1.4):
    """W at these times, shape (n_tokens, dim) each; Δ is at least 0.3 and at most (growth − 1) τ."""
    weights, now, kept = np.zeros((law.shape[1], features.shape[1])), 0.0, []
    for end in times:
        while now < end:
            width = min(max(0.3, now * (growth - 1)), end - now)
            weights, now = step_implicitly(weights, features, law, shares, width), now + width
        kept.append(weights)
    return kept


def step_implicitly(weights, features, law, shares, width):
    """The minimum of CE(X) + ‖X − W‖²/(2Δ)."""
    found = weights
    for _ in range(60):
        value, probabilities = measure(found, weights, features, law, shares, width)
        pull = (shares[:, None] * (probabilities - law)).T @ features + (found - weights) / width
        if np.abs(pull).max() * width < 1e-10 * max(1, np.abs(found).max()):
            break
        move = np.linalg.solve(curve(probabilities, features, shares, width), pull.ravel()).reshape(
            found.shape
        )
        size, slope = 1.0, (pull * move).sum()
        while size > 1e-6:
            tried = measure(found - size * move, weights, features, law, shares, width)[0]
            if tried <= value - 0.1 * size * slope + 1e-15 * abs(value):
                break
            size /= 2
        found = found - size * move
    return found


def measure(found, weights, features, law, shares, width):
    """The value to be minimised, and the probabilities there."""
    logits = features @ found.T
    logits = logits - logits.max(axis=1, keepdims=True)
    raised = np.exp(logits)
    totals = raised.sum(axis=1, keepdims=True)
    loss = shares @ (np.log(totals[:, 0]) - (law * logits).sum(axis=1))
    return loss + ((found - weights) ** 2).sum() / (2 * width), raised / totals


def curve(probabilities, features, shares, width):
    """The matrix of second derivatives."""
    inner = (
        probabilities[:, :, None] * np.eye(probabilities.shape[1])
        - probabilities[:, :, None] * probabilities[:, None, :]
    )
    outer = features[:, :, None] * features[:, None, :] * shares[:, None, None]
    size = probabilities.shape[1] * features.shape[1]
    return np.einsum("jab,jce->acbe", inner, outer).reshape(size, size) + np.eye(size) / width
