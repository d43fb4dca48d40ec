"""What forecasts compute fast, class by class and dense."""

from collections import defaultdict

import numpy as np


def entries_of(classes, number):
    """Tokens and probabilities of one class."""
    inside = slice(classes.offsets[number], classes.offsets[number + 1])
    return classes.tokens[inside], classes.probabilities[inside]


def define_overlaps(classes):
    """f_n·f_n' of every two classes, dense, shape (n_classes, n_classes)."""
    features = classes.dense / np.linalg.norm(classes.dense, axis=1, keepdims=True)
    return features @ features.T


def define_pull(classes, query):
    """The definition of p_m, class by class and dense, shape (n_tokens,)."""
    features = classes.dense / np.linalg.norm(classes.dense, axis=1, keepdims=True)
    pull = np.zeros(classes.n_tokens)
    for n in range(len(classes)):
        if classes.queries[n] != query:
            continue
        gain = np.zeros(classes.n_tokens)
        for other in range(len(classes)):
            same = float(classes.labels[other] == classes.labels[n])
            gain += (same - 1 / classes.n_tokens) * classes.shares[other] * features[other]
        pull += classes.shares[n] * features[n] * (gain - features[n] * (features[n] @ gain))
    return pull


def define_distinct(classes, tolerance=0.0):
    """Token → class, for tokens with at most ``tolerance`` outside one class."""
    held = defaultdict(dict)
    for number in range(len(classes)):
        for token, probability in zip(*entries_of(classes, number), strict=True):
            held[int(token)][number] = classes.shares[number] * probability
    found = {}
    for token, masses in held.items():
        best = max(masses, key=masses.__getitem__)
        if len(masses) == 1 or masses[best] >= (1 - tolerance) * sum(masses.values()):
            found[token] = best
    return found
