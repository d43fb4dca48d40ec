"""Compensated sums against exact fractions."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attomaton.compiled.summation import add_precisely
from tests.drawn import seeds


def sum_precisely(index, values, size):
    total, lost = np.zeros(size), np.zeros(size)
    for place, value in zip(index.tolist(), values.tolist(), strict=True):
        add_precisely(total, lost, place, value)
    return total + lost


@given(seeds, st.integers(1, 5), st.integers(0, 400))
def test_sums_equal_exact_ones(seed, size, n_values):
    rng = np.random.default_rng(seed)
    index = rng.integers(0, size, n_values)
    values = rng.normal(size=n_values) * 10.0 ** rng.integers(-12, 12, n_values)
    found = sum_precisely(index, values, size)
    for place in range(size):
        exact = sum((Fraction(value) for value in values[index == place].tolist()), Fraction(0))
        largest = float(np.abs(values[index == place]).max(initial=0.0))
        assert abs(float(exact) - found[place]) <= 4e-16 * abs(float(exact)) + 1e-28 * largest


def test_a_million_equal_terms_lose_nothing():
    assert sum_precisely(np.zeros(1_000_000, np.int64), np.full(1_000_000, 0.1), 1)[0] == 100_000.0
