"""Compensated sums of the kernels against exact fractions."""

from fractions import Fraction

import numpy as np
from hypothesis import given, strategies as st

from attomaton.base.native import sum_groups
from tests.strategies import many


def sum_flows(flows):
    """Σ|f|, and (Σf)² at both ends, of flows between two nodes; a negative flow runs backwards."""
    forwards, sums = (flows > 0).astype(np.int64), np.zeros((3, 1))
    borders = np.array([0, 2]), np.array([0, len(flows)])
    sum_groups(np.ones(2, np.int64), (1 - forwards, forwards), borders, (np.zeros(2), np.abs(flows)), sums)
    return sums[1, 0], sums[2, 0]


@given(many(st.floats(-1e13, 1e13), 100))
def test_sums_equal_exact_ones(terms):
    flows = np.array(terms, float)
    total, squares = sum_flows(flows)
    exact = [Fraction(value) for value in flows.tolist()]
    assert abs(float(sum(map(abs, exact), Fraction(0))) - total) <= 4e-16 * total
    net = float(sum(exact, Fraction(0)))
    assert abs(np.sqrt(squares / 2) - abs(net)) <= 1e-15 * abs(net) + 1e-28 * np.abs(flows).max(initial=0.0)


def test_a_million_equal_terms_lose_nothing():
    assert sum_flows(np.full(1_000_000, 0.1))[0] == 100_000.0
