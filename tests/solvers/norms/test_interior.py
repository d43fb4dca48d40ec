"""The compiled matrix of the interior-point method against its definition."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from attomaton.base.native import assemble_equations
from attomaton.solvers.norms.interior import ConstraintProducts


@given(st.integers(0, 10**9))
def test_newtons_equations_are_those_of_the_definition(seed):
    """2 H_cd = tr(A_c P A_d Y) with A_c = [[0, u_c v_cᵀ], [v_c u_cᵀ, 0]], for any symmetric P and Y."""
    rng = np.random.default_rng(seed)
    size, n_tokens, n_queries, n_rows, n_columns = rng.integers(1, 7, 5)
    tokens, queries = rng.normal(size=(n_tokens, n_rows)), rng.normal(size=(n_queries, n_columns))
    above, below = rng.integers(0, n_tokens, (2, size))
    asked = rng.integers(0, n_queries, size)
    left, right = tokens[above] - tokens[below], queries[asked]
    matrices = rng.normal(size=(2, n_rows + n_columns, n_rows + n_columns))
    primal, dual = matrices + matrices.transpose(0, 2, 1)

    def see(matrix):
        cross = left @ matrix[:n_rows, n_rows:] @ queries.T
        return ConstraintProducts(
            left @ matrix[:n_rows, :n_rows] @ tokens.T, cross, queries @ matrix[n_rows:, n_rows:] @ queries.T
        )

    across = np.zeros((size, n_rows + n_columns, n_rows + n_columns))
    across[:, :n_rows, n_rows:] = left[:, :, None] * right[:, None, :]
    across += across.transpose(0, 2, 1)
    expected = np.einsum("cij,jk,dkl,li->cd", across, primal, across, dual) / 2
    found = assemble_equations(see(primal), see(dual), (above, below), asked)
    assert found == pytest.approx(np.tril(expected), rel=1e-9, abs=1e-9)
