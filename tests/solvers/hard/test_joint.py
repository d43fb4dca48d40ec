"""The solvers for given embeddings where they have a hard time."""

import numpy as np
import pytest
from benchmarks.orders import random_corpus

import attomaton as at
from attomaton.solvers.hard.certify import certify_forces, repair_forces
from attomaton.solvers.hard.dense import LeastDistance
from attomaton.solvers.hard.joint import Joint
from attomaton.solvers.hard.problem import embedded_problem
from attomaton.solvers.hard.reference import Clarabel
from attomaton.solvers.hard.solve import Kind
from tests.drawn import components_of, embeddings_for, paper_draw


def problem_for(seed, sizes, condition=None):
    n_tokens, dim, n_samples, window = sizes
    components, embeddings = random_corpus(n_tokens, dim, n_samples, window, np.random.default_rng(seed))
    if condition is not None:
        left, _, right = np.linalg.svd(embeddings, full_matrices=False)
        embeddings = left * np.geomspace(1, 1 / condition, n_tokens) @ right
    return embedded_problem(components, embeddings)


def certificate_of(problem, solver, rtol):
    forces, flow = solver.solve_embedded(problem)
    return certify_forces(problem, repair_forces(problem, forces), flow, rtol=rtol)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("condition", [None, 10, 100])
def test_joint_is_certified_on_ill_conditioned_embeddings(seed, condition):
    """Plain Newton steps circle on many of these."""
    certificate = certificate_of(problem_for(seed, (12, 16, 40, 5), condition), Joint(), 1e-8)
    assert certificate.certified, certificate


@pytest.mark.slow  # scale
@pytest.mark.parametrize("sizes", [(48, 64, 300, 8), (48, 48, 300, 8), (30, 31, 400, 6)])
def test_joint_is_certified_at_the_size_of_the_paper_and_above(sizes):
    certificate = certificate_of(problem_for(0, sizes), Joint(), 1e-9)
    assert certificate.certified, certificate


@pytest.mark.parametrize("seed", range(10))
def test_three_solvers_agree(seed):
    problem = problem_for(seed, (8, 10, 20, 4))
    joint, dense, reference = (
        certificate_of(problem, solver, 1e-6) for solver in (Joint(), LeastDistance(), Clarabel())
    )
    assert joint.certified
    assert dense.certified
    assert joint.upper == pytest.approx(dense.upper, rel=1e-9)
    assert joint.upper == pytest.approx(reference.upper, rel=1e-5)


def test_scores_are_the_kernel_times_the_forces():
    """The matrix-free product against the dense definition."""
    problem = problem_for(0, (12, 16, 40, 5))
    forces = np.random.default_rng(0).normal(size=len(problem.token))
    np.testing.assert_allclose(problem.scores(forces), problem.kernel() @ forces, atol=1e-12)


def test_an_impossible_accuracy_comes_back_uncertified():
    """Condition number 1e6: the kernel's is 1e24. No answer may pass for proved."""
    problem = problem_for(0, (12, 16, 40, 5), 1e6)
    for solver in (Joint(max_stages=3), LeastDistance()):
        certificate = certificate_of(problem, solver, 1e-12)
        assert not certificate.certified or certificate.gap <= 1e-12


def test_tokens_with_the_same_embedding_cannot_be_told_apart():
    components = components_of(at.Samples.from_lists([[0, 1, 2]], [0], n_tokens=3))
    table = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    hard = at.solve_graph_svm(components, embeddings=table).expect()
    assert hard.kind is Kind.GENERALISED
    assert hard.certificate.inseparable == 1
    scores = hard.scores.column("score").to_numpy()
    assert scores[0] == pytest.approx(scores[1], abs=1e-9)
    assert scores[0] - scores[2] == pytest.approx(1.0)


def test_a_direction_for_a_wrong_solver_is_refused():
    with pytest.raises(at.AttomatonError, match="cannot use embeddings; with embeddings, use Joint"):
        at.solve_graph_svm(components_of(paper_draw(0)), embeddings=embeddings_for(0, 6, 8), solver=3)


def test_what_is_not_a_number_is_not_certified():
    problem = problem_for(0, (6, 8, 8, 4))
    forces, flow = Joint().solve_embedded(problem)
    assert not certify_forces(problem, np.full_like(forces, np.nan), flow, rtol=1e-6).certified
    assert not certify_forces(problem, forces, np.full_like(flow, np.inf), rtol=1e-6).certified
    assert certify_forces(problem, -forces, flow, rtol=1e-6).gap == np.inf
