"""The one loop of damped Newton's method."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from attomaton.solvers.soft.damped import minimise
from tests.strategies import vectors


def sum_of_powers(drawn, other_way):
    """Σ e^{a·x} over directions of both signs: a minimum exists. Its value, slope and step."""
    along = np.concatenate([drawn, -other_way * drawn])

    def find_step(place, gradient):
        powers = np.exp(along @ place)
        step = -np.linalg.solve((along.T * powers) @ along, gradient)
        return step, float(np.abs(along @ step).max())

    return (
        lambda place: float(np.exp(along @ place).sum()),
        lambda place: np.exp(along @ place) @ along,
        find_step,
    )


@given(st.integers(1, 4).flatmap(lambda size: vectors(size + 3, size)), st.floats(0.1, 1.0))
def test_every_step_goes_down_and_the_end_is_flat(drawn, other_way):
    start, directions = drawn[0] / 8, drawn[1:]  # far away the powers span more digits than doubles have
    assume(np.linalg.svd(directions, compute_uv=False)[-1] > 0.1)
    value, slope, find_step = sum_of_powers(directions, other_way)
    met = []

    def record(place):
        met.append(value(place))
        return slope(place)

    atol = 1e-9 * float(np.abs(slope(start)).max())
    place, left = minimise(record, find_step, start, atol=atol, max_steps=500)
    assert left <= atol
    assert left == np.abs(slope(place)).max()
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(met))


def test_the_best_place_is_returned_where_the_search_ends_early():
    slopes = {0.0: 3.0, 1.0: 1.0, 2.0: 2.0, 3.0: 2.0, 4.0: 0.5}

    def slope(place):
        return np.array([slopes[round(float(place[0]), 9)]])

    def one(place, _):
        return np.ones_like(place), 0.0

    start = np.zeros(1)
    assert minimise(slope, one, start, atol=0.0, max_steps=3)[1] == 1.0
    assert minimise(slope, one, start, atol=0.0, max_steps=4)[1] == 0.5
    place, left = minimise(slope, one, start, atol=0.0, max_steps=4, patience=1)
    assert (place.tolist(), left) == (pytest.approx([1.0]), 1.0)
    assert start.tolist() == [0.0]


def test_a_step_that_is_not_finite_ends_the_search():
    place, left = minimise(
        lambda place: place + 1.0,
        lambda place, _: (np.full_like(place, np.nan), np.nan),
        np.zeros(2),
        atol=0.0,
        max_steps=9,
    )
    assert (place.tolist(), left) == ([0.0, 0.0], 1.0)
