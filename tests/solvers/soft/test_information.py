"""Standard errors: equal to the pseudo-inverse, and right about the spread of repeated draws."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton.base.ragged import centre
from attomaton.solvers.soft.curvature import score_errors
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.solvers.soft.newton import Newton
from tests.drawn import components_of, dense_hessian, luce_problem_of, pick_component
from tests.strategies import embedded, tied_sets


@given(tied_sets(max_tokens=6, max_samples=60), st.sampled_from([0.0, 0.5]))
def test_equal_to_the_pseudo_inverse(samples, ridge):
    problem = luce_problem_of(samples)
    scores = centre(problem.component, Newton().solve(problem, stiffness=ridge))
    errors = score_errors(problem, scores, ridge=ridge)
    for number in range(problem.n_components):
        kept, alone = pick_component(problem, number)
        flat = np.eye(len(kept)) - 1 / len(kept)
        inside = flat @ (dense_hessian(alone, scores[kept]) + ridge * np.eye(len(kept))) @ flat
        exact = np.sqrt(np.diag(np.linalg.pinv(inside, hermitian=True, rcond=1e-12)))
        np.testing.assert_allclose(errors[kept], exact, rtol=1e-6)


def test_components_of_one_size_may_be_inverted_in_several_stacks(monkeypatch):
    entries = np.arange(40).reshape(-1, 2).repeat(2, axis=0).ravel()
    problem = LuceProblem(
        alternative=entries,
        offsets=2 * np.arange(41),
        log_multiplicity=np.zeros(80),
        winner=np.arange(40),
        count=np.arange(1.0, 41.0),
        component=np.arange(40) // 2,
    )
    whole = score_errors(problem, np.zeros(40))
    monkeypatch.setattr("attomaton.solvers.soft.curvature.ENTRIES_AT_ONCE", 13)
    np.testing.assert_array_equal(score_errors(problem, np.zeros(40)), whole)


@pytest.mark.slow  # simulation
def test_estimates_spread_as_the_errors_say():
    """300 draws of 2,000 choices from known scores: estimates differ from them by one standard error."""
    rng, n, n_choices = np.random.default_rng(0), 6, 2_000
    truth = centre(np.zeros(n, np.int64), np.linspace(-1.0, 1.0, n))
    distances = []
    for _ in range(300):
        sets = rng.permuted(np.tile(np.arange(n), (n_choices, 1)), axis=1)[:, :3]
        noisy = truth[sets] + rng.gumbel(size=sets.shape)
        problem = LuceProblem(
            alternative=sets.ravel(),
            offsets=3 * np.arange(n_choices + 1),
            log_multiplicity=np.zeros(sets.size),
            winner=sets[np.arange(n_choices), noisy.argmax(axis=1)],
            count=np.ones(n_choices),
            component=np.zeros(n, np.int64),
        )
        found = centre(problem.component, Newton().solve(problem))
        distances.append((found - truth) / score_errors(problem, found))
    within = np.mean(np.abs(distances) < 1.96, axis=0)
    assert np.abs(np.std(distances, axis=0) - 1.0).max() < 0.15
    assert ((within > 0.91) & (within < 0.99)).all()


@given(embedded(tied_sets(max_tokens=5, max_samples=40), more=3))
def test_one_for_each_score_whatever_the_embeddings(drawn):
    """Tokens alone have none; independent embeddings change nothing."""
    samples, embeddings = drawn
    components = components_of(samples)
    plain = at.solve_luce(samples, components)
    errors = plain.standard_errors()
    alone = components.sizes[components.component_of_node] == 1
    assert (errors[alone] == 0.0).all()
    assert (errors[~alone] > 0.0).all()
    given_them = at.solve_luce(samples, components, embeddings=embeddings)
    np.testing.assert_allclose(given_them.standard_errors(), errors, rtol=1e-4)


def test_dependent_embeddings_have_none():
    samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])
    soft = at.solve_luce(samples, components_of(samples), embeddings=np.eye(3)[:, :2] + 0.5)
    with pytest.raises(UnsupportedOption, match="only for free scores"):
        soft.standard_errors()
    with pytest.raises(UnsupportedOption, match="independent rows"):
        at.solve_luce(samples, components_of(samples), embeddings=np.eye(3)[:, :2] + 0.5, ridge=1.0)


@pytest.mark.parametrize("ridge", [-1.0, np.nan, np.inf])
def test_a_ridge_is_a_number_not_below_zero(ridge):
    samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])
    with pytest.raises(UnsupportedOption, match="ridge is"):
        at.solve_luce(samples, components_of(samples), ridge=ridge)


def test_a_ridge_pulls_towards_zero():
    samples = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    components = components_of(samples)
    size = [
        np.ptp(at.solve_luce(samples, components, ridge=ridge).expect().scores["score"].to_numpy())
        for ridge in (0.0, 0.1, 1.0, 1e6)
    ]
    assert size == sorted(size, reverse=True)
    assert size[-1] < 1e-5
