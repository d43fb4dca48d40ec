"""The Newton solver of groups against its definitions: equal to the reference, and minimal where anchored."""

import numpy as np
from hypothesis import given, strategies as st
from scipy.optimize import minimize

from attomaton.base.ragged import centre
from attomaton.solvers.soft.likelihood import LuceProblem
from attomaton.solvers.soft.newton import Newton, sort_by_group
from tests.drawn import any_problem, luce_problem_of
from tests.solvers.soft.plain_newton import DampedNewton
from tests.strategies import luce_problems, tied_sets, vectors


@given(tied_sets(max_tokens=6, max_samples=60))
def test_equal_to_the_reference(samples):
    problem = luce_problem_of(samples)
    ours, plain = (centre(problem.component, solver.solve(problem)) for solver in (Newton(), DampedNewton()))
    np.testing.assert_allclose(ours, plain, atol=1e-7)


@given(luce_problems(), vectors(8), st.sampled_from([0.01, 1.0, 100.0]))
def test_equal_to_the_reference_when_anchored(problem, drawn, stiffness):
    anchor = drawn[: problem.n_alternatives]
    ours, plain = (
        solver.solve(problem, anchor=anchor, stiffness=stiffness) for solver in (Newton(), DampedNewton())
    )
    np.testing.assert_allclose(ours, plain, atol=1e-7)


@given(luce_problems(), vectors(8), st.sampled_from([1e-3, 1.0, 1e6]))
def test_anchored_scores_are_a_minimum(problem, drawn, stiffness):
    """No connection is needed then: groups that are not strongly connected are pulled to the anchor."""
    anchor = drawn[: problem.n_alternatives]
    scores = Newton().solve(problem, anchor=anchor, stiffness=stiffness)
    slope = problem.gradient(scores) + stiffness * (scores - anchor)
    assert np.abs(slope).max() <= 1e-9 + 1e-14 * stiffness * np.abs(anchor).max()


def test_anchored_scores_equal_a_general_minimiser():
    problem = any_problem(5)
    anchor = np.linspace(-1.0, 1.0, problem.n_alternatives)

    def function(scores):
        pull = scores - anchor
        return problem.loss(scores) + 0.25 * pull @ pull, problem.gradient(scores) + 0.5 * pull

    found = minimize(function, anchor, jac=True, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(Newton().solve(problem, anchor=anchor, stiffness=0.5), found.x, atol=1e-7)


@given(luce_problems())
def test_every_group_is_in_one_share(problem):
    shares = sort_by_group(problem).shares(threads=2)
    assert sorted(np.concatenate(shares).tolist()) == list(range(problem.n_components))
    assert all(len(share) for share in shares)


def test_nothing_to_solve():
    nothing = np.zeros(0, np.int64)
    problem = LuceProblem(nothing, np.zeros(1, np.int64), np.zeros(0), nothing, np.zeros(0), nothing)
    assert len(Newton().solve(problem)) == 0
