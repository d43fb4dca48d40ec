"""Games on their graph: fates and ranks against fractions, estimates and errors against a plain fit by scipy.

Small tables with ties, a position and features that are integers, some of which follow from the items.
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from attomaton.choices.logit import ChoiceProblem, LogitState, fit_logit
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.cones import ExactFace

FEW = 15
"""Battles up to which fractions decide what is finite."""


def draw(rng):
    """Items and outcome of each battle, and features of the first less those of the second."""
    n_items, n_battles = int(rng.integers(2, 7)), int(rng.integers(1, 15))
    if rng.random() < 0.5:  # no fractions there
        n_items, n_battles = int(rng.integers(2, 30)), int(rng.integers(60, 400))
    first = rng.integers(0, n_items, n_battles)
    second = (first + rng.integers(1, n_items, n_battles)) % n_items
    n_features = int(rng.integers(0, 3))
    features = rng.integers(-2, 3, (n_battles, n_features)).astype(float)
    if n_features and rng.random() < 0.6:
        features[:, 0] = 1.0
    if n_features > 1 and rng.random() < 0.2:
        values = rng.integers(-2, 3, n_items)
        features[:, 1] = values[first] - values[second]
    half = 0.5 * (
        rng.normal(size=n_items)[first] - rng.normal(size=n_items)[second] + 0.3 * features.sum(axis=1)
    )
    draws = rng.random() < 0.6
    level = np.full(n_battles, float(rng.integers(-2, 2)) if draws else -np.inf)
    outcome = (np.stack([half, -half, level], axis=1) + rng.gumbel(size=(n_battles, 3))).argmax(axis=1)
    counts = rng.choice([1, 1, 1, 2, 50], n_battles)
    return n_items, first, second, features, np.eye(3)[outcome][:, : 2 + draws] * counts[:, None]


def rows_of(n_items, first, second, features, n_outcomes):
    """The rows x_a, x_b and their mean with a 1 for the tie, by the definition."""
    eye, blocks = np.eye(n_items), []
    for a, b, z in zip(first, second, features, strict=True):
        sides = [np.concatenate([eye[a], z / 2]), np.concatenate([eye[b], -z / 2])]
        tie = [np.append(sum(sides) / 2, 1.0)]
        blocks.append([*(np.append(side, 0.0) for side in sides), *tie] if n_outcomes == 3 else sides)
    return np.array(blocks)


def fit_plainly(rows, counts, alive):
    """The maximum over what is alive by scipy: log-likelihood, β, and the inverse of the information."""

    def values(beta, order):
        logits = np.where(alive, rows @ beta, -np.inf)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        share = odds / odds.sum(axis=1, keepdims=True)
        if order == 0:
            return -(counts * np.log(np.where(counts > 0, share, 1.0))).sum()
        totals = counts.sum(axis=1)
        if order == 1:
            return -np.einsum("ij,ijk->k", counts - totals[:, None] * share, rows)
        away = rows - np.einsum("ij,ijk->ik", share, rows)[:, None]
        return np.einsum("i,ij,ijk,ijl->kl", totals, share, away, away)

    zero = np.zeros(rows.shape[2])
    beta = minimize(
        values,
        zero,
        (0,),
        jac=lambda b, _: values(b, 1),
        hess=lambda b, _: values(b, 2),
        method="trust-exact",
        options={"gtol": 1e-9, "max_trust_radius": 5.0},
    ).x
    for _ in range(3):
        beta = beta - np.linalg.pinv(values(beta, 2), rcond=1e-12, hermitian=True) @ values(beta, 1)
    return -values(beta, 0), beta, np.linalg.pinv(values(beta, 2), rcond=1e-12, hermitian=True)


def attack(rng) -> Finding:
    """One table, on its graph; the dense matrices may take over where nothing is proved there."""
    n_items, first, second, features, counts = draw(rng)
    names = [f"z{k}" for k in range(features.shape[1])]
    problem = ChoiceProblem.from_battles(
        first,
        second,
        counts,
        items=[f"i{k}" for k in range(n_items)],
        features=features,
        names=names,
        merge=False,
    )
    fit = fit_logit(replace(problem, dense=False))
    kind = f"{'graph' if fit.problem.graph else 'dense'}, {counts.shape[1]} outcomes"
    if fit.state is not LogitState.CERTIFIED:
        return unjudged("not certified", kind)
    rows = rows_of(n_items, first, second, features, counts.shape[1])
    case = [
        [(row, int(count)) for row, count in zip(*one, strict=True)] for one in zip(rows, counts, strict=True)
    ]
    alive, checks = np.ones(counts.shape, bool), []
    exact = ExactFace(case) if len(case) <= FEW else None
    if exact is None and fit.dying.any():
        return unjudged("separated, and too large for fractions", kind)
    for (battle, outcome), dies in [] if exact is None else zip(exact.pairs, exact.dies, strict=True):
        alive[battle, outcome] = not dies
    if exact is not None:
        checks += [
            ("rows with another fate", float((alive.ravel() == fit.dying).sum()), 0.0),
            ("rank of S", abs(float(fit.finite.rank - exact.rank)), 0.0),
            ("rank of R", abs(float(fit.identified.rank - exact.identified)), 0.0),
        ]
    top, beta, inverse = fit_plainly(rows, counts, alive)
    checks.append(("log-likelihood", abs(fit.log_likelihood - top) / max(1.0, abs(top)), 1e-8))
    size = len(fit.problem.names)
    vectors = [*np.eye(size)[n_items:], np.eye(size)[first[0]] - np.eye(size)[second[0]]]
    for vector in vectors:
        contrast = fit.contrast(dict(zip(fit.problem.names, vector, strict=True)))
        if exact is not None:
            wrong = contrast.kind.value != exact.classify(vector)
            checks.append((f"class of {vector.tolist()}", float(wrong), 0.0))
        if contrast.kind.value == "finite":
            error = float(vector @ inverse @ vector) ** 0.5
            checks.append(
                ("estimate, in errors", abs(contrast.value - vector @ beta) / max(error, 1e-3), 1e-4)
            )
            checks.append(("standard error", abs(contrast.standard_error / max(error, 1e-12) - 1.0), 1e-5))
    told = {"first": first.tolist(), "second": second.tolist(), "features": features.tolist()}
    return worst_of(checks, len(first), {**told, "counts": counts.tolist()}, kind=kind)
