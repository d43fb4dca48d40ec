"""Shrinkage: probabilities that minimise the penalised loss, found again by Newton steps of our own."""

from collections import Counter

import numpy as np

import attomaton as at
from tests.adversary.draws import describe, draw_corpus
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.luce import fit_doubles

ATOL = 1e-6
"""The largest entry of the gradient that the product leaves."""


def draw(rng):
    """A corpus with a strength and a ridge over six orders of magnitude."""
    strength, ridge = (float(10 ** rng.uniform(-3, 3)) for _ in range(2))
    return (*draw_corpus(rng, most_tokens=7, unrealisable=0.1), strength, ridge)


def attack(rng) -> Finding:
    """``shrink`` on contexts of known and unknown queries."""
    contexts, labels, n_tokens, strength, ridge = draw(rng)
    kept = [(c, y) for c, y in zip(contexts, labels, strict=True) if y in c]
    if not kept:
        return unjudged("no realisable sample")
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    told = at.shrink(samples, strength=strength, ridge=ridge)
    pooled = fit_doubles(n_tokens, [(y, Counter(c), 1) for c, y in kept], stiffness=ridge)
    slack = ATOL * np.sqrt(n_tokens) * (1 / strength + 1 / ridge)  # gradient over curvature, twice
    checks = [("background", float(np.abs(told.background - pooled).max()), slack + 1e-9)]
    for query in {context[-1] for context, _ in kept}:
        own = [(label, Counter(context), 1) for context, label in kept if context[-1] == query]
        scores = fit_doubles(n_tokens, own, anchor=pooled, stiffness=strength)
        context = [*rng.integers(0, n_tokens, int(rng.integers(1, 6))).tolist(), query]
        seen = {token for _, held, _ in own for token in held}
        values = np.where(np.isin(np.arange(n_tokens), list(seen)), scores, pooled)
        odds = np.bincount(context, minlength=n_tokens) * np.exp(values - values.max())
        apart = np.abs(told.predict_proba(context) - odds / odds.sum()).max()
        checks.append(("probability", float(apart), 2 * slack + 1e-9))
    case = describe(contexts, labels, n_tokens, strength=strength, ridge=ridge)
    return worst_of(checks, len(contexts), case)
