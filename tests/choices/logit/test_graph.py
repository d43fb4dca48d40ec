"""The graph of games against matrices of all parameters, which are the definition."""

from dataclasses import replace

import numpy as np
import pytest

from attomaton.base.errors import UnsupportedOption
from attomaton.choices.logit import ChoiceProblem, fit_logit
from attomaton.choices.logit.curvature import GraphCurvature
from attomaton.choices.logit.fit import restore_fit
from attomaton.choices.logit.folders import pack_fit
from attomaton.graphs.strong import measure_heights


def draw_games(rng, n_items, n_battles, *, ties=True, n_features=1, local=0):
    """A problem of games between any two items, or between those at most ``local`` apart on a circle."""
    first = rng.integers(0, n_items, n_battles)
    second = (first + rng.integers(1, local or n_items, n_battles, endpoint=bool(local))) % n_items
    features = rng.normal(size=(n_battles, n_features))
    strength = rng.normal(size=n_items)
    half = 0.5 * (strength[first] - strength[second] + 0.3 * features.sum(axis=1))
    level = np.full(n_battles, -1.0 if ties else -np.inf)
    outcome = (np.stack([half, -half, level], axis=1) + rng.gumbel(size=(n_battles, 3))).argmax(axis=1)
    names = [f"z{number}" for number in range(n_features)]
    items = [f"item {number}" for number in range(n_items)]
    return ChoiceProblem.from_battles(
        first, second, np.eye(3)[outcome][:, : 2 + ties], items=items, features=features, names=names
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_graph_finds_what_matrices_find(seed):
    rng = np.random.default_rng(seed)
    n_items = int(rng.integers(2, 15))
    options = {"ties": bool(rng.random() < 0.6), "n_features": int(rng.integers(0, 3))}
    problem = draw_games(rng, n_items, int(rng.integers(1, 70)), **options)
    fit, definition = (fit_logit(replace(problem, dense=dense)) for dense in (False, True))
    assert definition.certificate.certified
    assert fit.certificate.certified
    assert (fit.dying == definition.dying).all()
    assert (fit.finite.rank, fit.identified.rank) == (definition.finite.rank, definition.identified.rank)
    np.testing.assert_allclose(
        fit.finite.project(fit.evidence.beta), definition.finite.project(definition.evidence.beta), atol=1e-7
    )
    np.testing.assert_allclose(fit.scaled_covariance, definition.scaled_covariance, rtol=1e-6, atol=1e-7)
    contrasts = [*problem.names[n_items:], ("item 0", "item 1")]
    for name in contrasts:
        names = (name,) if isinstance(name, str) else name
        one, other = fit.contrast(*names), definition.contrast(*names)
        assert one.kind is other.kind
        for value in ("value", "standard_error", "robust_error", "bound"):
            given, expected = getattr(one, value), getattr(other, value)
            assert (given is None) == (expected is None)
            assert given is None or given == pytest.approx(expected, rel=1e-5, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("local", [0, 1, 3])  # any two items; a long chain, on which elimination takes over
def test_curvature_on_the_graph_is_the_matrix(local):
    rng = np.random.default_rng(local)
    problem = draw_games(rng, 700, 2500, local=local, n_features=2)
    probability = problem.probabilities(problem.utilities(rng.normal(size=703) * problem.scale), None)[0]
    curvature, matrix = problem.curvature(probability), problem.information(probability)
    assert isinstance(curvature, GraphCurvature)
    vector = rng.normal(size=703)
    np.testing.assert_allclose(curvature.times(vector), matrix @ vector, atol=1e-12 * np.abs(matrix).sum())
    np.testing.assert_allclose(curvature.diagonal, np.diag(matrix), rtol=1e-12)
    values = np.linalg.eigvalsh(matrix)
    assert 0 < curvature.least * values[-1] <= 1.001 * values[values > 1e-9 * values[-1]][0] * 703
    for gradient in (matrix @ vector, matrix @ np.eye(703)[-1]):
        step = curvature.solve(gradient)
        np.testing.assert_allclose(matrix @ step, gradient, atol=1e-9 * np.abs(gradient).max())
        error = float(gradient @ np.linalg.pinv(matrix, rcond=1e-11, hermitian=True) @ gradient) ** 0.5
        assert error <= curvature.bound(np.abs(gradient)) * (1 + 1e-9)


def test_one_tie_among_many_games_is_quick():
    """What took 38 s for 2,000 items: here only that matrices are not needed."""
    problem = draw_games(np.random.default_rng(1), 3_000, 30_000, n_features=1)
    fit = fit_logit(problem).expect()
    assert fit.problem.graph is not None
    assert fit.known_covariance is None
    assert fit.contrast("tie").standard_error < 0.1
    again = restore_fit(pack_fit(fit.problem, fit.evidence, fit.method, fit.program_rows))
    assert again.certificate.certified


def test_matrices_of_very_many_parameters_are_refused():
    fit = fit_logit(draw_games(np.random.default_rng(1), 6_000, 60_000, n_features=0)).expect()
    with pytest.raises(UnsupportedOption, match="a dense matrix of all 6,001 parameters"):
        fit.covariance  # noqa: B018
    assert fit.contrast("item 0", "item 1").standard_error > 0


def test_a_feature_that_separates_is_left_to_matrices():
    """The graph proves nothing where a coefficient is infinite."""
    items = [f"item {number}" for number in range(3)]
    first, second = np.array([0, 1, 1, 2, 2, 0]), np.array([1, 0, 2, 1, 0, 2])
    always = np.ones((6, 1))
    problem = ChoiceProblem.from_battles(
        first, second, np.eye(2)[np.zeros(6, int)], items=items, features=always, names=["first"]
    )
    fit = fit_logit(replace(problem, dense=False)).expect()
    assert fit.problem.graph is None
    assert fit.contrast("first").kind.value == "+inf"


def test_heights_fall_along_a_chain():
    assert measure_heights(np.array([2, 0, 3]), np.array([0, 3, 1]), 4).tolist() == [2, 0, 3, 1]
