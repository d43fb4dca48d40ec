"""Conjugate gradients for many systems against one dense solve each."""

import numpy as np
from hypothesis import given, strategies as st
from scipy.linalg import block_diag

from attomaton.solvers.soft.damped import solve_systems
from tests.strategies import vectors


@st.composite
def systems(draw):
    """A positive definite matrix and a right side of any magnitude."""
    size = draw(st.integers(1, 6))
    factor, right, magnitude = draw(vectors(size, size)), draw(vectors(size)), draw(st.integers(-8, 8))
    return factor @ factor.T + 0.1 * np.eye(size), right * 10.0**magnitude


@given(st.lists(systems(), min_size=1, max_size=8))
def test_each_system_is_solved_as_if_alone(drawn):
    sizes = [len(right) for _, right in drawn]
    matrix, right = block_diag(*(block for block, _ in drawn)), np.concatenate([right for _, right in drawn])
    system = np.repeat(np.arange(len(sizes)), sizes)
    found = solve_systems(
        lambda v: matrix @ v, right, np.diag(matrix).copy(), system, rtol=1e-13, max_steps=100
    )
    scale = np.maximum.reduceat(np.abs(right), np.cumsum([0, *sizes[:-1]]))[system]
    assert (np.abs(matrix @ found - right) <= 1e-8 * scale).all()
