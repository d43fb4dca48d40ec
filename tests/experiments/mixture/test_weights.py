"""Weights against the definition of expectation and maximisation, and what they promise."""

from itertools import pairwise

import numpy as np
import pytest

from attomaton.base.errors import MismatchedParts
from attomaton_experiments.mixture.weights import fit_weights


def draw(seed, n=300):
    rng = np.random.default_rng(seed)
    sure = rng.integers(0, 3, (n, 3))
    sure[:, 0] = 1
    return np.where(sure > 0, rng.random((n, 3)), 0.0), sure


def fit_slowly(probabilities, sure, overall, pull, rounds):
    """Each cell alone, in plain loops."""
    found = {}
    for cell in {tuple(row) for row in sure.tolist()}:
        rows = [
            one
            for one, level in zip(probabilities.tolist(), sure.tolist(), strict=True)
            if tuple(level) == cell
        ]
        prior = [one if level else 0.0 for one, level in zip(overall, cell, strict=True)]
        prior = [one / sum(prior) for one in prior]
        weights = list(prior)
        for _ in range(rounds):
            sums = [pull * one for one in prior]
            for row in rows:
                together = sum(w * p for w, p in zip(weights, row, strict=True))
                for k in range(3):
                    sums[k] += weights[k] * row[k] / together
            weights = [one / sum(sums) for one in sums]
        found[cell] = weights
    return found


@pytest.mark.parametrize("seed", range(5))
def test_equal_the_definition(seed):
    probabilities, sure = draw(seed)
    weights = fit_weights(probabilities, sure, pull=4.0, rounds=20)
    slow = fit_slowly(probabilities, sure, weights.overall.tolist(), 4.0, 20)
    np.testing.assert_allclose(weights.of(sure), [slow[tuple(row)] for row in sure.tolist()], atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_sum_to_one_and_give_silent_parts_nothing_in_every_cell_seen_or_not(seed):
    probabilities, sure = draw(seed, 20)
    asked = np.array([[1, a, b] for a in range(9) for b in range(9)])
    found = fit_weights(probabilities, sure).of(asked)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    assert (found[asked == 0] == 0).all()
    assert (found[asked > 0] >= 0).all()


def test_what_is_maximised_rises_with_every_round():
    probabilities, sure = draw(9)
    one = np.ones_like(sure)
    probabilities = np.maximum(probabilities, 1e-3)

    def loss(rounds):
        weights = fit_weights(probabilities, one, pull=1e-9, rounds=rounds).of(one)
        return -np.log((weights * probabilities).sum(1)).mean()

    losses = [loss(rounds) for rounds in (1, 2, 4, 8, 16, 64)]
    assert all(after <= before + 1e-12 for before, after in pairwise(losses))
    assert losses[-1] <= min(-np.log(probabilities).mean(0)) + 1e-9


def test_a_silent_part_with_a_probability_is_refused():
    with pytest.raises(MismatchedParts, match="silent"):
        fit_weights(np.array([[0.5, 0.5]]), np.array([[1, 0]]))
    with pytest.raises(MismatchedParts, match="never silent"):
        fit_weights(np.array([[0.0, 0.0]]), np.array([[1, 1]]))
