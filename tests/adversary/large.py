"""Embedded problems on both sides of 600 nodes, where solvers change, with an answer that is known.

Orthogonal embeddings of unequal lengths: under one query, a chain of tokens is one block about its mean, each
token weighing 1/‖e‖², and the score of the query's own length scales ‖W‖² alone.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np

import attomaton as at
from attomaton.base.errors import AttomatonError
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.hard import bound_checks

PRINTED = 1e-12


def draw(rng):
    """A chain's tokens in order, the query last, and the length of each embedding (powers of two)."""
    n_tokens = int(rng.choice([5, 20, 60, 100, 600, 601], p=[0.3, 0.3, 0.2, 0.18, 0.01, 0.01]))
    spread = int(rng.choice([0, 2, 10]))
    lengths = 2.0 ** rng.integers(-spread, spread, n_tokens, endpoint=True)
    return n_tokens, rng.permutation(n_tokens).tolist(), lengths


def attack(rng) -> Finding:
    """A chain with a diagonal table of embeddings, each token of it twice: as a row and under the query."""
    n_tokens, line, lengths = draw(rng)
    query = line[-1]
    contexts = [[one, other, query] for one, other in pairwise(line[:-1])]
    contexts.append([line[-2], query])
    samples = at.Samples.from_lists(contexts, line[:-1], n_tokens=n_tokens)
    components = at.find_components(at.extract_edges(samples))
    try:
        hard = at.solve_graph_svm(components, embeddings=np.diag(lengths))
    except AttomatonError as error:
        return unjudged(f"refused: {type(error).__name__}")
    if hard.status is not at.base.Status.CERTIFIED:
        return unjudged("not certified")
    weights = [1 / Fraction(lengths[token]) ** 2 for token in line]
    places = range(n_tokens, 0, -1)
    mean = sum(w * p for w, p in zip(weights, places, strict=True)) / sum(weights)
    exact = {token: p - mean for token, p in zip(line, places, strict=True)}
    square = sum(w * exact[token] ** 2 for w, token in zip(weights, line, strict=True))
    square /= Fraction(lengths[query]) ** 2
    checks = bound_checks(hard.certificate, square, PRINTED)
    width = max(hard.certificate.upper - hard.certificate.lower, PRINTED * hard.certificate.upper)
    tokens, scores = (hard.scores.column(name).to_pylist() for name in ("token", "score"))
    for token, score in zip(tokens, scores, strict=True):
        allowed = lengths[token] * lengths[query] * width**0.5 + 1e-9 * n_tokens
        checks.append(("score", abs(float(Fraction(score) - exact[token])), allowed))
    return worst_of(checks, n_tokens, {"line": line, "lengths": lengths.tolist()})
