"""The flow of embedded tokens against its definition in numpy, one choice at a time."""

import numpy as np
from hypothesis import given, strategies as st

from attomaton.base.ragged import offsets_of
from attomaton.trajectory.flow.embedded import EmbeddedFlow, Losers, LossExpansion


def expand_by_definition(losers, point):
    slope, curvature = np.zeros(len(point)), np.zeros((len(point), len(point)))
    for weight, begin, end in zip(losers.weight, losers.offsets[:-1], losers.offsets[1:], strict=True):
        directions = losers.directions[begin:end]
        odds = np.exp(directions @ point + losers.log_odds[begin:end])
        probability = odds / (1.0 + odds.sum())
        mean = probability @ directions
        slope += weight * mean
        curvature += weight * (
            directions.T @ (probability[:, np.newaxis] * directions) - np.outer(mean, mean)
        )
    return slope, curvature


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(0, 9), st.integers(0, 2**32 - 1))
def test_slope_and_curvature_are_those_of_the_definition(lengths, size, seed):
    rng, offsets = np.random.default_rng(seed), offsets_of(np.array(lengths, np.int64))
    log_odds = np.log(rng.integers(1, 4, offsets[-1]))
    losers = Losers(rng.normal(size=(offsets[-1], size)), log_odds, offsets, rng.random(len(lengths)))
    point = rng.normal(size=size)
    slope, curvature = expand_by_definition(losers, point)
    found = LossExpansion(losers).at(point)
    np.testing.assert_allclose(found[0], slope, atol=1e-12)
    np.testing.assert_allclose(found[1], curvature, atol=1e-12)
    moved = EmbeddedFlow(losers).descend(point, 0.5, 2)
    once = point - 0.5 * slope
    np.testing.assert_allclose(moved, once - 0.5 * expand_by_definition(losers, once)[0], atol=1e-12)
    damped = EmbeddedFlow(losers).damp(point, 2.0, once)
    np.testing.assert_allclose(damped + curvature @ damped / 2.0, once, atol=1e-10)
