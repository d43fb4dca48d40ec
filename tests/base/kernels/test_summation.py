"""Compensated sums against exact fractions."""

from fractions import Fraction

import numpy as np
from hypothesis import given, strategies as st

from attomaton.base.kernels import add_precisely
from tests.strategies import many


def sum_precisely(index, values, size):
    total, lost = np.zeros(size), np.zeros(size)
    for place, value in zip(index.tolist(), values.tolist(), strict=True):
        add_precisely(total, lost, place, value)
    return total + lost


TERMS = st.tuples(st.integers(0, 4), st.floats(-1e13, 1e13))


@given(many(TERMS, 100))
def test_sums_equal_exact_ones(terms):
    index = np.array([place for place, _ in terms], np.int64)
    values = np.array([value for _, value in terms], float)
    found = sum_precisely(index, values, 5)
    for place in range(5):
        exact = sum((Fraction(value) for value in values[index == place].tolist()), Fraction(0))
        largest = float(np.abs(values[index == place]).max(initial=0.0))
        assert abs(float(exact) - found[place]) <= 4e-16 * abs(float(exact)) + 1e-28 * largest


def test_a_million_equal_terms_lose_nothing():
    assert sum_precisely(np.zeros(1_000_000, np.int64), np.full(1_000_000, 0.1), 1)[0] == 100_000.0
