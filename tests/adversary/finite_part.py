"""The finite part with given embeddings, dependent ones among them: W_fin in the span of the ties."""

from collections import Counter

import numpy as np

import attomaton as at
from attomaton.base.errors import AttomatonError
from tests.adversary.draws import describe, draw_corpus, draw_embeddings
from tests.adversary.finding import Finding, unjudged, worst_of

KINDS = ("condition 1e0", "condition 1e3", "few dimensions", "a row twice", "unequal rows 1e3", "near 1e-4")


def draw(rng):
    """Corpora with many ties, and embeddings of some kinds."""
    contexts, labels, n_tokens = draw_corpus(rng, most_tokens=6, most_samples=12, most_length=5)
    while n_tokens < 3:
        contexts, labels, n_tokens = draw_corpus(rng, most_tokens=6, most_samples=12, most_length=5)
    kind = str(rng.choice(KINDS))
    return contexts, labels, n_tokens, kind, np.asarray(draw_embeddings(rng, n_tokens, kind), float)


def attack(rng) -> Finding:
    """Gaps of scores inside components, and that W_fin gives them and lies in the span of the ties."""
    contexts, labels, n_tokens, kind, table = draw(rng)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    try:
        soft = at.solve_luce(samples, at.find_components(at.extract_edges(samples)), embeddings=table)
    except AttomatonError as error:
        return unjudged(f"refused: {type(error).__name__}", kind)
    if soft.status is not at.base.Status.CERTIFIED:
        return unjudged("not certified", kind)
    components = soft.components
    nodes = zip(components.query_of_node.tolist(), components.token_of_node.tolist(), strict=True)
    part = dict(zip(nodes, components.component_of_node.tolist(), strict=True))
    directions = _ties(part, table)
    if not len(directions):
        return worst_of([("weights without ties", float(np.abs(soft.weights).max()), 0.0)], 0, {}, kind=kind)
    weights = _minimise(contexts, labels, part, table, directions)
    if weights is None:
        return unjudged("the reference did not settle", kind)
    told = {(row["query"], row["token"]): row["score"] for row in soft.scores.to_pylist()}
    bound, apart, given, scale = soft.certificate.error_bound, 0.0, 0.0, 1.0
    mine, theirs = table @ weights @ table.T, table @ np.asarray(soft.weights) @ table.T
    for one, number in part.items():
        for other in part:
            if part[other] == number:
                gap = told[one] - told[other]
                apart = max(apart, abs(gap - (mine[one[1], one[0]] - mine[other[1], one[0]])))
                given = max(given, abs(gap - (theirs[one[1], one[0]] - theirs[other[1], one[0]])))
                scale = max(scale, abs(gap))
    flat = np.asarray(soft.weights).ravel()
    outside = np.linalg.norm(flat - directions.T @ (directions @ flat))
    checks = [
        ("gap of scores", apart, 2 * bound + 1e-7 * scale),
        ("gap by the weights", given, 1e-6 * scale),
        ("outside the span of ties", float(outside), 1e-7 * (1 + np.linalg.norm(flat))),
    ]
    case = describe(contexts, labels, n_tokens, kind=kind, embeddings=table)
    return worst_of(checks, len(contexts), case, kind=kind)


def _ties(part, table):
    """An orthonormal basis of the span of (e_i − e_j) e_kᵀ over ties, shape (size, dim²)."""
    rows = [
        np.outer(table[one[1]] - table[other[1]], table[one[0]]).ravel()
        for one in part
        for other in part
        if one < other and part[one] == part[other]
    ]
    if not rows:
        return np.zeros((0, table.shape[1] ** 2))
    _, singular, axes = np.linalg.svd(np.array(rows), full_matrices=False)
    return axes[singular > 1e-10 * singular.max()] if singular.max() > 0 else axes[:0]


def _minimise(contexts, labels, part, table, directions):
    """Newton's method over the span, on contexts cut down to the label's component."""
    choices = []
    for context, label in zip(contexts, labels, strict=True):
        query = context[-1]
        if label in context:
            own = part[query, label]
            held = Counter(token for token in context if part.get((query, token)) == own)
            items = [label, *(token for token in held if token != label)]
            features = np.array([directions @ np.outer(table[item], table[query]).ravel() for item in items])
            choices.append((features, np.array([held[item] for item in items], float)))
    place = np.zeros(len(directions))
    for _ in range(300):
        gradient, hessian = np.zeros(len(place)), np.zeros((len(place),) * 2)
        for features, times in choices:
            value = features @ place
            odds = times * np.exp(value - value.max())
            probability = odds / odds.sum()
            mean = probability @ features
            gradient += mean - features[0]
            hessian += (features * probability[:, None]).T @ features - np.outer(mean, mean)
        step = np.linalg.lstsq(hessian, -gradient, rcond=1e-15)[0]
        moved = max((np.ptp(features @ step) for features, _ in choices), default=0.0)
        place = place + step * min(1.0, 1.0 / moved if moved > 0 else 1.0)
        if moved < 1e-11:
            return (place @ directions).reshape((table.shape[1],) * 2)
    return None
