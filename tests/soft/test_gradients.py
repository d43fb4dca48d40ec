"""Conjugate gradients for many systems against one dense solve each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag

from attomaton.soft.solvers.gradients import solve_systems
from tests.drawn import seeds


@given(seeds, st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_each_system_is_solved_as_if_alone(seed, sizes):
    rng = np.random.default_rng(seed)
    blocks = [(factor := rng.normal(size=(size, size))) @ factor.T + 0.1 * np.eye(size) for size in sizes]
    matrix, system = block_diag(*blocks), np.repeat(np.arange(len(sizes)), sizes)
    right = rng.normal(size=len(system)) * 10.0 ** rng.integers(-8, 8, len(sizes))[system]
    found = solve_systems(
        lambda v: matrix @ v, right, np.diag(matrix).copy(), system, rtol=1e-13, max_steps=100
    )
    scale = np.maximum.reduceat(np.abs(right), np.cumsum([0, *sizes[:-1]]))[system]
    np.testing.assert_allclose((matrix @ found - right) / scale, 0.0, atol=1e-8)
