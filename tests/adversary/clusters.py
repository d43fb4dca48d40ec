"""Clustered errors: CR2 and its degrees of freedom in the space of residuals, and how often intervals cover.

The reference forms the hat matrix of all games, takes the inverse root of each cluster's block of I − P, and
computes Satterthwaite's degrees of freedom from the vectors whose products are Ω.
"""

from itertools import combinations

import numpy as np

import attomaton as at
from tests.adversary.finding import Finding, unjudged, worst_of


def draw(rng, *, effect):
    """Games of a few items: rows e_a − e_b, which won, and the cluster of each."""
    n_items, n_clusters = int(rng.integers(2, 6)), int(rng.integers(3, 13))
    sizes = rng.integers(2, 25, n_clusters)
    if rng.random() < 0.3:
        sizes[0] *= 6  # one judge with most of the games
    cluster = np.repeat(np.arange(n_clusters), sizes)
    taste = effect * rng.standard_normal((n_clusters, n_items))
    first = rng.integers(0, n_items, len(cluster))
    second = (first + rng.integers(1, n_items, len(cluster))) % n_items
    gap = taste[cluster, first] - taste[cluster, second]
    won = rng.random(len(cluster)) < 1 / (1 + np.exp(-gap))
    return n_items, first, second, won, cluster


def fit_games(first, second, won, cluster):
    """The fit of ``fit_choices``."""
    winner, loser = np.where(won, first, second), np.where(won, second, first)
    return at.fit_choices({"w": winner, "l": loser, "c": cluster}, winner="w", loser="l", cluster="c")


def inverse_root(block):
    """A^(−½) of a symmetric matrix, 0 along its kernel, and whether it has one."""
    values, vectors = np.linalg.eigh(block)
    known = values > 1e-9
    return (vectors[:, known] * values[known] ** -0.5) @ vectors[:, known].T, not known.all()


def attack(rng) -> Finding:
    """Standard errors and degrees of freedom by definition."""
    n_items, first, second, won, cluster = draw(rng, effect=float(rng.choice([0.0, 1.0])))
    fit = fit_games(first, second, won, cluster)
    if len(fit.components) > 1 or len(fit.items) < n_items:
        return unjudged("not connected")
    rows = np.eye(n_items)[first] - np.eye(n_items)[second]
    score = np.array([fit.scores[item] for item in range(n_items)])
    chance = 1 / (1 + np.exp(-rows @ score))
    root = np.sqrt(chance * (1 - chance))
    design, residual = rows * root[:, None], (won - chance) / root
    bread = np.linalg.pinv(design.T @ design, rcond=1e-10)
    annihilator = np.eye(len(rows)) - design @ bread @ design.T
    members = [np.flatnonzero(cluster == number) for number in np.unique(cluster)]
    roots = [inverse_root(annihilator[np.ix_(here, here)]) for here in members]
    checks = []
    case = {"first": first.tolist(), "second": second.tolist(), "won": won.tolist(), "c": cluster.tolist()}
    for a, b in combinations(range(n_items), 2):
        contrast = np.eye(n_items)[a] - np.eye(n_items)[b]
        difference = fit.difference(a, b)
        alone = [
            np.linalg.matrix_rank(np.vstack([rows[cluster != number], contrast]), tol=1e-9)
            > np.linalg.matrix_rank(rows[cluster != number], tol=1e-9)
            for number in np.unique(cluster)
        ]
        if any(alone):
            checks.append(
                ("an error that depends on one cluster", float(difference.standard_error is not None), 0.0)
            )
            continue
        weights = [
            adjust @ design[here] @ bread @ contrast for here, (adjust, _) in zip(members, roots, strict=True)
        ]
        terms = np.array([w @ residual[here] for here, w in zip(members, weights, strict=True)])
        vectors = np.array([annihilator[:, here] @ w for here, w in zip(members, weights, strict=True)])
        omega = vectors @ vectors.T
        degrees = np.trace(omega) ** 2 / (omega**2).sum()
        variance = max(terms @ terms, contrast @ bread @ contrast)
        if difference.standard_error is None:
            checks.append(("no error", 1.0, 0.0))
            continue
        checks.append(("variance by definition", abs(difference.standard_error**2 / variance - 1), 1e-5))
        share = difference.degrees / degrees
        checks.append(("degrees of freedom by definition", abs(share - 1.0), 0.05))  # light clusters: a bound
    return worst_of(checks, len(rows), case)


def attack_coverage(rng) -> Finding:
    """Intervals of a difference of equal items: 1 is at the end of the interval, and 5 % may be beyond."""
    _, first, second, won, cluster = draw(rng, effect=float(rng.choice([0.0, 0.5, 1.5])))
    fit = fit_games(first, second, won, cluster)
    a, b = rng.choice(np.array(fit.items), 2, replace=False).tolist()
    if len(fit.components) > 1 or fit.difference(a, b).standard_error is None:
        return unjudged("no interval")
    low, high = fit.difference(a, b).interval(0.95)
    return Finding(abs(low + high) / (high - low), np.inf, "0 beyond the interval", len(first))
