"""Bounds hold: gradient from above, curvature from below, and the error of the scores, near and far."""

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy.optimize import brentq

import attomaton as at
from attomaton.base.ragged import centre
from attomaton.solvers.soft.certify import bound_distance, certify_coordinates, certify_scores
from attomaton.solvers.soft.curvature import measure_slopes
from attomaton.solvers.soft.damped import Subspace
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.solvers.soft.newton import Newton
from tests.drawn import cycle_problem, dense_hessian, luce_problem_of, pick_component
from tests.strategies import luce_problems, tied_sets, vectors

sizes = st.sampled_from([1e-9, 1e-4, 0.03, 0.3, 1.0, 5.0])


@given(tied_sets(max_tokens=6, max_samples=60), st.data(), sizes)
def test_the_optimum_is_within_the_bound(samples, data, size):
    problem = luce_problem_of(samples)
    best = centre(problem.component, Newton(atol=1e-13).solve(problem))
    away = centre(problem.component, best + size * data.draw(vectors(len(best))))
    slopes = measure_slopes(problem, away)
    bounds = bound_distance(slopes.gradient, slopes.curvature)
    distance = np.zeros(problem.n_components)
    np.maximum.at(distance, problem.component, np.abs(away - best))
    assert (distance <= bounds * (1 + 1e-9) + 1e-11).all()


@given(tied_sets(max_tokens=6, max_samples=60), st.data(), sizes, st.sampled_from([0.0, 0.1]))
def test_with_a_ridge_too(samples, data, size, ridge):
    problem = luce_problem_of(samples)
    best = Newton(atol=1e-13).solve(problem, stiffness=ridge)
    away = centre(problem.component, best + size * data.draw(vectors(len(best))))
    bound = certify_scores(problem, away, atol=1e-8, ridge=ridge).error_bound
    farthest = np.abs(away - centre(problem.component, best)).max()
    assert bound is None or farthest <= bound * (1 + 1e-9) + 1e-11


@given(luce_problems(), vectors(8), st.sampled_from([0.0, 1.0, 8.0]))
def test_slopes_bound_the_definition(problem, drawn, size):
    """Also for groups that are not connected: then no curvature is claimed."""
    scores = size * drawn[: problem.n_alternatives]
    slopes = measure_slopes(problem, scores)
    gradient = np.bincount(problem.component, problem.gradient(scores) ** 2) ** 0.5
    entries = np.abs(problem.gradient(scores))
    for number in range(problem.n_components):
        kept, alone = pick_component(problem, number)
        if len(kept) > 1:
            eigenvalues = np.linalg.eigvalsh(dense_hessian(alone, scores[kept]))
            assert slopes.curvature[number] <= eigenvalues[1] + 1e-12
            assert abs(slopes.largest[number] - entries[kept].max()) <= 1e-12
            assert slopes.gradient[number] <= gradient[number] * (1 + 1e-9) + 1e-9 * alone.count.sum()


def test_rounding_does_not_grow_with_the_number_of_items():
    """Ten times the items: ten times the height of v, and the same error of each entry of the gradient."""
    bounds = list[float]()
    for n_items in (1_000, 10_000):
        rng = np.random.default_rng(0)
        first = rng.integers(0, n_items, 10 * n_items)
        second = (first + rng.integers(1, n_items, len(first))) % n_items
        won = rng.random(len(first)) < 0.5
        fit = at.fit_choices(np.where(won, first, second), losers=np.where(won, second, first))
        bounds.append(fit.soft.certificate.error_bound)
    assert bounds[1] < 100 * bounds[0]
    assert bounds[1] < 1e-8  # 2e-7 with the length of the gradient, 1.5e-6 for 20,000 items


@given(tied_sets(max_tokens=6, max_samples=60))
def test_the_curvature_bound_is_not_idle(samples):
    """It is positive at the optimum, and no worse than what grounding one token costs."""
    problem = luce_problem_of(samples)
    scores = Newton().solve(problem)
    slopes = measure_slopes(problem, scores)
    for number in range(problem.n_components):
        kept, alone = pick_component(problem, number)
        exact = np.linalg.eigvalsh(dense_hessian(alone, scores[kept]))[1]
        assert exact / (4 * len(kept) ** 1.5) <= slopes.curvature[number] <= exact * (1 + 1e-9)


@given(tied_sets(max_tokens=5, max_samples=40), st.data(), vectors(2), sizes)
def test_coordinates_are_within_the_bound(samples, data, direction, size):
    problem = luce_problem_of(samples)
    features = centre_columns(problem, data.draw(vectors(problem.n_alternatives, 2)))
    assume(np.linalg.matrix_rank(features, tol=1e-6) == 2)
    best = Subspace(atol=1e-12).solve(problem, features)
    away = best + size * direction
    bound = certify_coordinates(problem, features, away, atol=1e-8).error_bound
    assert bound is None or np.abs(features @ (away - best)).max() <= bound * (1 + 1e-6) + 1e-9
    assert certify_coordinates(problem, features, best, atol=1e-8).certified


def centre_columns(problem, features):
    return np.column_stack([centre(problem.component, column) for column in features.T])


def test_a_wrong_answer_is_not_certified():
    problem = cycle_problem([3, 1, 2])
    scores = centre(problem.component, Newton().solve(problem))
    assert certify_scores(problem, scores, atol=1e-8).certified
    nudged = certify_scores(problem, scores + np.array([1e-5, 0.0, -1e-5]), atol=1e-4)
    assert not nudged.certified
    assert 1e-5 <= nudged.error_bound <= 1e-4


@pytest.mark.parametrize("heaviest", [1, 3, 10**9])
def test_very_many_choices(heaviest):
    """Counts up to a billion, of one kind or mixed with single ones."""
    rng = np.random.default_rng(heaviest)
    for count in (np.full(12, heaviest), rng.integers(1, heaviest, 12, endpoint=True)):
        problem = cycle_problem(count)
        scores = centre(problem.component, Newton().solve(problem))
        proof = certify_scores(problem, scores, atol=1e-8)
        assert proof.certified
        tied = np.repeat(problem.count, 2) * problem.probabilities(scores)  # each loses equally often
        np.testing.assert_allclose(tied[1::2], tied[1], rtol=1e-5)


def test_solve_luce_reports_it():
    samples = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    proof = at.solve_luce(samples, at.find_components(at.extract_edges(samples))).expect().certificate
    assert 0.3 <= proof.curvature <= 1.5  # twice 4 · ¾ · ¼, halved by the bound
    assert proof.error_bound < 1e-9
    acyclic = at.Samples.from_lists([[0, 1]], [0])
    nothing = at.solve_luce(acyclic, at.find_components(at.extract_edges(acyclic))).expect().certificate
    assert nothing.curvature is None
    assert nothing.error_bound == 0.0


def solve_cycle(count):
    """The exact answer of a cycle: all lose equally often, which leaves one number to find.

    It is the gap below the token with the fewest choices, because that may be far below zero.
    """
    count = np.asarray(count, float)
    least = int(count.argmin())

    def gaps(gap):
        losses = count[least] / (1.0 + np.exp(gap))
        others = np.log((np.maximum(count - losses, 1e-300)) / losses)
        return np.where(np.arange(len(count)) == least, gap, others)

    found = gaps(brentq(lambda gap: gaps(gap).sum(), -1e6, 50.0, xtol=1e-13))
    return centre(np.zeros(len(count), np.int64), -np.concatenate([[0.0], np.cumsum(found[:-1])]))


@pytest.mark.slow  # scale
@pytest.mark.parametrize("n", [30, 3_000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("heaviest", [1, 3, 10**9])
def test_long_cycles_are_proven_or_not_certified(n, heaviest):
    """The harder the cycle, the weaker the proof; the bound holds whatever it says."""
    count = np.random.default_rng(n).integers(1, heaviest, n, endpoint=True)
    problem = cycle_problem(count)
    scores = centre(problem.component, Newton().solve(problem))
    proof = certify_scores(problem, scores, atol=1e-8)
    if proof.error_bound is None:
        assert not proof.certified
        assert heaviest == 10**9  # some odds are then below the smallest floating-point number
    else:
        assert np.abs(scores - solve_cycle(count)).max() <= proof.error_bound + 1e-10
    assert proof.certified or n > 30


def test_dependent_embeddings_of_some_size_are_certified():
    """Forty tokens in twenty dimensions: hundreds of coordinates, scores of all queries tied together."""
    rng = np.random.default_rng(40)
    samples = at.synthetic.draw_random(rng, n_tokens=40, n_samples=1_500, window=6)
    components = at.find_components(at.extract_edges(samples))
    soft = at.solve_luce(samples, components, embeddings=rng.normal(size=(40, 20))).expect()
    assert not soft.free
    assert soft.certificate.curvature > 0
    assert soft.certificate.error_bound < 1e-6


def test_many_choices_are_solved_to_the_tolerance():
    """Sorted by winner, an entry of the gradient rises to 10⁵ before it falls; what is rounded off counts."""
    rng, n_choices = np.random.default_rng(0), 400_000
    odds = np.exp(rng.normal(size=6))
    sets = np.sort(rng.permuted(np.tile(np.arange(6), (n_choices, 1)), axis=1)[:, :4], axis=1)
    drawn = (odds[sets].cumsum(1) < rng.random((n_choices, 1)) * odds[sets].sum(1, keepdims=True)).sum(1)
    winner = sets[np.arange(n_choices), drawn]
    order = np.argsort(winner, kind="stable")
    entries = sets[order].ravel(), 4 * np.arange(n_choices + 1), np.zeros(4 * n_choices)
    problem = LuceProblem(*entries, winner[order], np.ones(n_choices), np.zeros(6, int))
    assert certify_scores(problem, Newton().solve(problem), atol=1e-8).gradient_norm < 2e-9
