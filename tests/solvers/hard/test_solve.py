"""The Graph-SVM: errors and edge cases."""

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import InvalidEmbeddings, UncertifiedSolution
from attomaton.solvers.hard.certify import certify_forces
from attomaton.solvers.hard.problem import embedded_problem
from attomaton.solvers.hard.reference import Clarabel
from tests.drawn import components_of, embeddings_for, paper_draw


def components():
    return at.find_components(at.extract_edges(paper_draw(0)))


def test_unusable_embeddings_are_refused():
    with pytest.raises(InvalidEmbeddings, match=r"shape \(5, 8\), not \(6, dim\); give one row"):
        at.solve_graph_svm(components(), embeddings=embeddings_for(0, 5, 8))
    with pytest.raises(InvalidEmbeddings, match=r"lengths of about 1e\+90.*rescale the embeddings"):
        at.solve_graph_svm(components(), embeddings=1e90 * np.eye(6))
    broken = embeddings_for(0, 6, 8)
    broken[3, 0] = np.nan
    with pytest.raises(InvalidEmbeddings, match="embedding of token 3 is not finite"):
        at.solve_luce(paper_draw(0), components(), embeddings=broken)


@pytest.mark.parametrize("embeddings", [None, embeddings_for(0, 6, 8)])
def test_a_solver_that_stops_early_is_not_certified(embeddings):
    hard = at.solve_graph_svm(components(), embeddings=embeddings, solver=Clarabel(max_steps=2))
    assert hard.status is at.base.Status.UNCERTIFIED
    with pytest.raises(UncertifiedSolution, match="relative gap"):
        hard.expect()


@pytest.mark.parametrize("embeddings", [None, np.eye(3)])
def test_without_priorities_the_direction_is_zero(embeddings):
    samples = at.Samples.from_lists([[0, 0], [1, 2, 1], [2, 2, 1]], [0, 1, 2])
    hard = at.solve_graph_svm(at.find_components(at.extract_edges(samples)), embeddings=embeddings).expect()
    assert not hard.scores.column("score").to_numpy().any()
    assert hard.certificate.upper == hard.certificate.lower == 0


def test_no_samples_at_all():
    auto = at.learn(at.Samples.from_lists([], [], n_tokens=3))
    assert auto.explain([0, 1]).rule is at.automaton.Rule.NO_EVIDENCE
    assert auto.predict_proba([0, 1]).tolist() == [0.5, 0.5, 0.0]
    assert auto.coverage.realisable == 0


@pytest.mark.slow  # campaign
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nearly_dependent_embeddings_end_without_an_error():
    contexts = [
        [4, 4, 0, 0],
        [3, 1, 5, 0],
        [3, 2, 0, 0],
        [0, 5, 1, 1],
        [1, 2, 1, 0],
        [4, 5, 0, 1],
        [3, 4, 3, 1],
    ]
    samples = at.Samples.from_lists([*contexts, [5, 1, 2, 0]], [0, 1, 3, 0, 0, 5, 3, 5])
    for seed in range(10):
        table = embeddings_for(seed, 6, 8)
        table[1], table[3] = table[0] + 1e-4 * table[1], table[2] + 1e-4 * table[3]
        hard = at.solve_graph_svm(components_of(samples), embeddings=table)
        assert hard.certificate.lower <= hard.certificate.upper


@pytest.mark.parametrize("size", [1e155, 1e200, np.inf, np.nan])
def test_forces_that_diverged_are_not_certified(size):
    problem = embedded_problem(components(), embeddings_for(0, 6, 8))
    forces, flow = np.full(len(problem.component), size), np.full(len(problem.order.above), size)
    assert not certify_forces(problem, forces, flow, rtol=1e-6).certified
