"""The Graph-SVM in the max norm and the spectral norm: definitions, proofs, independent solvers, refusals."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import linprog

import attomaton as at
from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.solvers.norms.certify import measure_norm
from attomaton.solvers.norms.solve import solve_normed
from tests.drawn import components_of, embeddings_for, paper_draw
from tests.solvers.norms.test_factored import constraints_of, explicit, with_any_rows
from tests.strategies import sample_sets


def longest_by_definition(components):
    """min ‖W‖_max for orthonormal embeddings, as the linear program that it is: min t, −t ≤ W_ik ≤ t."""
    nodes = {(row["query"], row["token"]): place for place, row in enumerate(components.nodes.to_pylist())}
    part = components.component_of_node
    priorities, ties = [], []
    for row in components.edges.rows.to_pylist():
        winner, loser = (nodes[row["query"], row[name]] for name in ("winner", "loser"))
        difference = np.zeros(len(nodes) + 1)
        difference[winner], difference[loser] = 1.0, -1.0
        (ties if part[winner] == part[loser] else priorities).append(difference)
    identity, ones = np.eye(len(nodes)), np.ones((len(nodes), 1))
    above = -np.array(priorities).reshape(-1, len(nodes) + 1)
    limits = np.concatenate([np.hstack([identity, -ones]), np.hstack([-identity, -ones]), above])
    levels = np.concatenate([np.zeros(2 * len(nodes)), -np.ones(len(priorities))])
    equal = {"A_eq": np.array(ties), "b_eq": np.zeros(len(ties))} if ties else {}
    bounds = [*([(None, None)] * len(nodes)), (0, None)]
    return float(linprog(np.eye(len(nodes) + 1)[-1], limits, levels, bounds=bounds, **equal).fun)


def dense(weights):
    return weights if isinstance(weights, np.ndarray) else weights.toarray()


@given(sample_sets(max_tokens=7))
def test_the_max_norm_is_half_the_longest_path_as_its_linear_program_says(samples):
    components = components_of(samples)
    solution = solve_normed(components, norm="max").expect()
    longest = int(components.heights.max(initial=0))
    assert solution.certificate.lower == solution.certificate.upper == longest / 2
    assert longest_by_definition(components) == pytest.approx(longest / 2, abs=1e-9)
    assert solution.best_margin == (2 / longest if longest else np.inf)
    assert measure_norm(dense(solution.weights), "max") == longest / 2
    assert solution.multipliers.column("multiplier").to_numpy().sum() == longest / 2


@pytest.mark.parametrize("norm", ["max", "spectral"])
@given(drawn=with_any_rows(sample_sets(max_tokens=6)))
def test_every_draw_is_certified_and_meets_every_constraint(norm, drawn):
    samples, embeddings = drawn
    components = components_of(samples)
    solution = solve_normed(components, norm=norm, embeddings=embeddings).expect()
    priorities, ties = constraints_of(components, explicit(embeddings, samples.n_tokens))
    flat = dense(solution.weights).ravel()
    assert np.all(priorities @ flat >= 1 - 1e-9)
    assert np.all(np.abs(ties @ flat) <= 1e-9)
    certificate = solution.certificate
    assert certificate.lower <= certificate.upper * (1 + 1e-12)
    assert certificate.upper == pytest.approx(measure_norm(dense(solution.weights), norm), rel=1e-9)
    total = solution.multipliers.column("multiplier").to_numpy().sum()
    assert total == pytest.approx(certificate.lower, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("norm", ["max", "spectral"])
@pytest.mark.parametrize(("seed", "n_tokens", "extra"), [(0, 4, None), (1, 5, 0), (2, 5, 3)])
def test_an_independent_solver_agrees(norm, seed, n_tokens, extra):
    components = components_of(paper_draw(seed, n_tokens=n_tokens, window=3))
    embeddings = None if extra is None else embeddings_for(seed, n_tokens, n_tokens + extra)
    found = solve_normed(components, norm=norm, embeddings=embeddings).expect().certificate.upper
    table = explicit(embeddings, n_tokens)
    priorities, ties = constraints_of(components, table)
    weights = cp.Variable((table.shape[1],) * 2)
    flat = cp.reshape(weights, (weights.size,), order="C")
    limits = [priorities @ flat >= 1, *([ties @ flat == 0] if len(ties) else [])]
    size = cp.max(cp.abs(weights)) if norm == "max" else cp.sigma_max(weights)
    known = cp.Problem(cp.Minimize(size), limits).solve(solver=cp.CLARABEL)
    assert found == pytest.approx(known, rel=1e-4)


@pytest.mark.parametrize(("n_tokens", "n_samples", "window"), [(12, 40, 5), (20, 80, 6), (32, 60, 6)])
def test_the_spectral_norm_is_certified_for_up_to_32_tokens(n_tokens, n_samples, window):
    draws = {"n_tokens": n_tokens, "n_samples": n_samples, "window": window}
    certificate = solve_normed(components_of(paper_draw(1, **draws)), norm="spectral").expect().certificate
    assert certificate.gap <= 1e-6


@given(sample_sets(max_tokens=6))
def test_norms_bound_each_other(samples):
    """‖W‖_max ≤ ‖W‖_op ≤ ‖W‖_F ≤ ‖W‖_*, so their least values over one set of W are in the same order."""
    components = components_of(samples)
    largest, spectral = (solve_normed(components, norm=norm).certificate for norm in ("max", "spectral"))
    frobenius = at.solve_graph_svm(components).certificate
    assert largest.lower <= spectral.upper * (1 + 1e-9)
    assert spectral.lower <= np.sqrt(frobenius.upper) * (1 + 1e-9)


def test_contradictions_are_not_certified():
    samples = at.Samples.from_lists([[0, 1, 0], [0, 1, 1]], [0, 0])
    for norm in ("max", "spectral"):
        with pytest.raises(UncertifiedSolution):
            solve_normed(components_of(samples), norm=norm, embeddings=[[1.0], [-1.0]]).expect()


def test_a_tolerance_above_one_is_refused():
    with pytest.raises(UnsupportedOption, match="rtol"):
        solve_normed(components_of(paper_draw(0)), norm="spectral", rtol=2.0)


def test_another_norm_is_refused_by_name():
    with pytest.raises(UnsupportedOption, match="give 'max' or 'spectral'"):
        solve_normed(components_of(paper_draw(0)), norm="nuclear")
    with pytest.raises(UnsupportedOption, match="solve_normed has 'max' and 'spectral'"):
        at.solve_graph_svm(components_of(paper_draw(0)), norm="max")
