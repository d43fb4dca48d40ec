"""Fits of random tables of pairs (ties, position, a feature, counts) against linear programs and BFGS."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

import attomaton as at
from attomaton.base.errors import UndeterminedChoice


def draw(rng):
    """A table, and the utility rows of each game: items, position, feature, tie."""
    n_items, n_games = int(rng.integers(2, 6)), int(rng.integers(1, 16))
    first = rng.integers(0, n_items, n_games)
    second = (first + rng.integers(1, n_items, n_games)) % n_items
    moved, x = rng.choice([-1, 1], n_games), rng.integers(-2, 3, n_games).astype(float)
    outcome, counts = rng.integers(0, rng.choice([2, 3]), n_games), rng.integers(0, 4, n_games)
    counts[0] += 1
    table = {
        "a": [f"item {k}" for k in first],
        "b": [f"item {k}" for k in second],
        "won": [("A", "B", "tie")[end] for end in outcome],
        "times": counts,
    }
    more, columns = {}, [np.eye(n_items)[first] - np.eye(n_items)[second]]
    if rng.random() < 0.3:
        table["moved"] = [
            row if way > 0 else other for row, other, way in zip(table["a"], table["b"], moved, strict=True)
        ]
        more["moved_first"] = "moved"
        columns.append(moved[:, None])
    if rng.random() < 0.3:
        table["x"], more["features"] = x, ["x"]
        columns.append(x[:, None])
    half = 0.5 * np.hstack(columns)
    rows = np.stack([half, -half], axis=1)
    if (outcome[counts > 0] == 2).any():
        tie = np.zeros((n_games, 3, half.shape[1] + 1))
        tie[:, :2, :-1], tie[:, 2, -1] = rows, 1.0
        rows = tie
    made = counts > 0
    return table, more, rows[made], outcome[made], counts[made]


class Reference:
    def __init__(self, rows, outcome, counts):
        self.rows, self.outcome, self.counts = rows, outcome, counts
        chosen = rows[np.arange(len(rows)), outcome]
        differences = (chosen[:, None] - rows).reshape(-1, rows.shape[2])
        self.differences, size = differences, len(differences)
        cost = np.concatenate([np.zeros(rows.shape[2]), -np.ones(size)])
        bounds = [(None, None)] * rows.shape[2] + [(0, 1)] * size
        wide = np.hstack([-differences, np.eye(size)])
        rises = linprog(cost, A_ub=wide, b_ub=np.zeros(size), bounds=bounds).x[rows.shape[2] :] > 0.5
        self.alive = ~rises.reshape(rows.shape[:2])
        self.finite, self.known = self.span(differences[~rises]), self.span(differences)
        place = np.zeros(self.finite.shape[1])
        if len(place):
            place = minimize(self.loss, place, jac=True, options={"gtol": 1e-9}).x
        self.beta, self.log_likelihood = self.finite @ place, -self.loss(place)[0]

    def span(self, vectors):
        _, sizes, right = np.linalg.svd(np.vstack([vectors, np.zeros(vectors.shape[1])]), full_matrices=False)
        return right[sizes > 1e-9].T

    def loss(self, place):
        utility = np.where(self.alive, self.rows @ (self.finite @ place), -np.inf)
        share = np.exp(utility - utility.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        own = np.arange(len(share)), self.outcome
        slope = self.rows[own] - (share[..., None] * self.rows).sum(axis=1)
        return -float(self.counts @ np.log(share[own])), -self.finite.T @ (self.counts @ slope)

    def value(self, contrast):
        """The estimate; infinite, or NaN where the data leave it open."""
        if not np.allclose(self.known @ (self.known.T @ contrast), contrast, atol=1e-8):
            return np.nan
        if np.allclose(self.finite @ (self.finite.T @ contrast), contrast, atol=1e-8):
            return float(contrast @ self.beta)
        for sign in (1.0, -1.0):
            cone = linprog(np.zeros(len(self.differences)), A_eq=self.differences.T, b_eq=sign * contrast)
            if cone.status == 0:
                return sign * np.inf
        return np.nan


@pytest.mark.parametrize("seeds", [range(20), range(20, 40), range(40, 60)])
def test_differences_are_those_of_linear_programs_and_an_optimiser(seeds):
    for seed in seeds:
        table, more, rows, outcome, counts = draw(np.random.default_rng(seed))
        fit = at.fit_choices(table, first="a", second="b", outcome="won", count="times", **more).expect()
        if any(one.kind.value == "not identified" for one in fit.coefficients.values()):
            continue  # a feature that follows from other columns is left out
        reference = Reference(rows, outcome, counts)
        assert fit.log_likelihood == pytest.approx(reference.log_likelihood, abs=1e-5)
        for k, item in enumerate(fit.items):
            for other in fit.items[:k]:
                contrast = np.zeros(rows.shape[2])
                contrast[[int(item[5:]), int(other[5:])]] = 1.0, -1.0
                try:
                    ours = fit.difference(item, other).value
                except UndeterminedChoice:
                    ours = np.nan
                assert ours == pytest.approx(reference.value(contrast), abs=1e-4, nan_ok=True)
