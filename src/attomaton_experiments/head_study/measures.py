"""The share of a head's attention that a score explains, and the edges of the data that a head obeys."""

import numpy as np

from attomaton.base.tables import Float64
from attomaton.graphs import Components

STEPS = 40
"""Newton steps for the scale of a score, each at most 1 long."""


def fit_scale(scores: Float64, attention: Float64, offset: Float64 | None = None) -> float:
    """The β that minimises the mean KL(attention ‖ softmax(offset + β·scores)), by Newton's method.

    Examples
    --------
    >>> scores = np.array([[0.0, 1.0], [1.0, -1.0]])
    >>> attention = np.exp(2 * scores) / np.exp(2 * scores).sum(1, keepdims=True)
    >>> round(fit_scale(scores, attention), 6)
    2.0
    """
    size = float(scores.std()) or 1.0
    scaled, start = scores / size, np.zeros_like(scores) if offset is None else offset
    beta = 0.0
    for _ in range(STEPS):
        probability = _softmax(start + beta * scaled)
        slope = float(((probability - attention) * scaled).sum(1).mean())
        bend = float(((probability * scaled**2).sum(1) - (probability * scaled).sum(1) ** 2).mean())
        beta -= float(np.clip(slope / (bend + 1e-9), -1.0, 1.0))
    return beta / size


def explain_share(attention: Float64, scores: Float64, scale: float, offset: Float64 | None = None) -> float:
    """1 − KL(attention ‖ softmax(offset + scale·scores)) / KL(attention ‖ uniform), over all rows.

    Examples
    --------
    >>> attention = np.array([[0.25, 0.75]])
    >>> round(explain_share(attention, np.log(attention), 1.0), 9)
    1.0
    >>> explain_share(attention, np.log(attention), 0.0)
    0.0
    """
    logits = scale * scores if offset is None else offset + scale * scores
    cross = float(-(attention * _log_softmax(logits)).sum(1).mean())
    entropy = float(-(attention * np.log(np.maximum(attention, 1e-300))).sum(1).mean())
    return 1 - (cross - entropy) / max(float(np.log(attention.shape[1])) - entropy, 1e-12)


def correlate(first: Float64, second: Float64, weights: Float64) -> float:
    """The weighted correlation of two scores; 0 if one of them does not vary.

    Examples
    --------
    >>> round(correlate(np.array([0.0, 1.0, 5.0]), np.array([1.0, 3.0, 0.0]), np.array([1.0, 1.0, 0.0])), 9)
    1.0
    """
    share = weights / weights.sum()
    left, right = (values - (share * values).sum() for values in (first, second))
    size = float(np.sqrt((share * left**2).sum() * (share * right**2).sum()))
    return float((share * left * right).sum()) / size if size > 0 else 0.0


def share_obeyed(components: Components, scores: Float64) -> float:
    """The share of strict edges, by support, whose winner has the higher score with their query.

    An edge is strict if winner and loser are in different components. ``scores`` has the shape
    (n_tokens, n_tokens), rows keys, columns queries.
    """
    edges = components.edges
    query, winner, loser = (edges[name] for name in ("query", "winner", "loser"))
    component = np.full(scores.shape, -1, np.int64)
    component[components.token_of_node, components.query_of_node] = components.component_of_node
    strict = component[winner, query] != component[loser, query]
    obeyed = scores[winner, query] > scores[loser, query]
    weight = edges["support"] * strict
    return float((obeyed * weight).sum() / max(weight.sum(), 1))


def _softmax(logits: Float64) -> Float64:
    return np.exp(_log_softmax(logits))


def _log_softmax(logits: Float64) -> Float64:
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
