"""The third term against training, its two solvers against each other, and what it says it cannot tell."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from tests.drawn import components_of, embeddings_for, paper_draw
from tests.strategies import embedded, paper_draws, sample_sets, vectors

import attomaton as at
from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.trajectory import residual
from attomaton.trajectory.residual import Priorities, find_degenerate, find_zero_multipliers


def automaton_of(samples, embeddings=None):
    components = components_of(samples)
    hard = at.solve_graph_svm(components, embeddings=embeddings).expect()
    soft = at.solve_luce(samples, components, embeddings=embeddings).expect()
    return at.Automaton(hard.components, hard, soft)


def scores(table):
    return table.column("score").to_numpy()


@given(sample_sets(min_samples=3, max_samples=20))
def test_both_solvers_agree_without_embeddings(samples):
    """One works on components, the other on W; with the identity as embeddings they must say the same."""
    own = at.expand(automaton_of(samples), samples, step_size=0.3)
    identity = np.eye(samples.n_tokens)
    other = at.expand(automaton_of(samples, identity), samples, step_size=0.3, embeddings=identity)
    assert np.allclose(scores(own.scores_at(1e6)), scores(other.scores_at(1e6)), atol=1e-7)
    assert bool(own.path_dependent.any()) == bool(other.path_dependent.any())
    assert own.degenerate.num_rows == other.degenerate.num_rows
    assert own.settling == pytest.approx(other.settling, abs=1e-6)
    assert own.rate == pytest.approx(other.rate, abs=1e-6)


@given(sample_sets(min_samples=3, max_samples=20))
def test_training_ends_where_the_expansion_says(samples):
    """At step 10^12, wherever data alone tell it; and the flow at R is a set of multipliers."""
    expansion = at.expand(automaton_of(samples), samples)
    assert expansion.third.gradient <= 1e-9
    assume(not expansion.caveat)
    trajectory = at.fast_forward(samples, to=1e12)
    error = np.linalg.norm((expansion.weights_at(1e12) - trajectory.weights_at(1e12)).toarray())
    assert error <= 3 * expansion.error_at(1e12) + trajectory.error_at(1e12)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(embedded(sample_sets(min_samples=3, max_samples=20), perhaps=True))
def test_where_data_alone_do_not_tell_nothing_is_promised(drawn):
    samples, table = drawn
    expansion = at.expand(automaton_of(samples, table), samples, embeddings=table)
    assume(expansion.caveat)
    assert expansion.third.gradient <= 1e-9
    assert expansion.error_at(1e12) == np.inf


@settings(max_examples=20)
@given(embedded(sample_sets(min_samples=3, max_samples=12, max_tokens=5)), vectors(7, 7))
def test_what_stays_of_a_start_is_outside_the_span_of_the_edges(drawn, start):
    samples, table = drawn
    start = start[: table.shape[1], : table.shape[1]] / 3
    expansion = at.expand(automaton_of(samples, table), samples, embeddings=table, start=start)
    predicted = expansion.weights_at(1e12)
    assume(not expansion.caveat)
    trajectory = at.fast_forward(samples, embeddings=table, start=start, to=1e12)
    error = np.linalg.norm(predicted - trajectory.weights_at(1e12))
    assert error <= 3 * expansion.error_at(1e12) + trajectory.error_at(1e12)
    np.testing.assert_allclose(
        scores(expansion.scores_at(1e12)),
        [table[row["token"]] @ predicted @ table[row["query"]] for row in expansion.loss.pairs.to_pylist()],
        atol=1e-6,
    )


@given(sample_sets(min_samples=3, max_samples=20))
def test_the_third_term_is_perpendicular_to_the_cyclic_subspace_and_sums_to_zero(samples):
    automaton = automaton_of(samples)
    residual = at.expand(automaton, samples).third.scores
    component = automaton.components.component_of_node
    for number in np.unique(component):
        assert np.ptp(residual[component == number]) <= 1e-9
    graph = nx.Graph()
    graph.add_nodes_from(range(len(automaton.components)))
    order = automaton.components.order
    graph.add_edges_from(
        zip(order.column("above").to_pylist(), order.column("below").to_pylist(), strict=True)
    )
    for part in nx.connected_components(graph):
        assert abs(residual[np.isin(component, list(part))].sum()) <= 1e-8


@given(paper_draws())
def test_loss_and_norm_follow_the_expansion(samples):
    assume(len(samples))
    automaton = automaton_of(samples)
    expansion = at.expand(automaton, samples, step_size=0.5)
    assume(not expansion.caveat and expansion.rate >= 0.3)
    steps = [1e9, 1e11]
    trajectory = at.fast_forward(samples, step_size=0.5, to=1e11)
    predicted = expansion.curves(steps, automaton.hard.weights)
    measured = trajectory.curves(steps, automaton.hard.weights)
    for name in ("norm", "correlation", "loss"):
        assert np.allclose(predicted.column(name).to_numpy(), measured.column(name).to_numpy(), atol=2e-2)
    limit = automaton.soft.loss / automaton.components.edges.n_samples
    assert (predicted.column("loss").to_numpy() >= limit - 1e-12).all()


def test_a_tight_edge_is_degenerate_if_no_circle_can_raise_it():
    ones = np.ones(3, bool)
    triangle = Priorities(np.array([0, 0, 1]), np.array([1, 2, 2]), np.zeros(3), ones, np.ones(3))
    # 1 → 2 carries nothing, but can: more along 0 → 1 → 2, less along 0 → 2
    assert not find_degenerate(triangle, np.array([1.0, 1.0, 0.0]), 3).any()
    # 0 → 2 cannot be raised: nothing along 0 → 1 → 2 could be taken back
    assert find_degenerate(triangle, np.array([0.0, 0.0, 1.0]), 3).tolist() == [True, True, False]


def test_wrong_use_is_told():
    samples = paper_draw(0)
    automaton = automaton_of(samples)
    with pytest.raises(UnsupportedOption, match="step_size"):
        at.expand(automaton, samples, step_size=-1)
    with pytest.raises(UnsupportedOption, match="step of an expansion is"):
        at.expand(automaton, samples).weights_at(0.5)
    with pytest.raises(MismatchedParts, match="embeddings"):
        at.expand(automaton, samples, embeddings=np.eye(6))
    with pytest.raises(MismatchedParts, match="no edges left out"):
        at.expand(automaton, paper_draw(1))
    contradicting = at.Samples.from_lists(
        [[1, 2, 0]] * 3 + [[2, 3, 0]] * 3 + [[3, 1, 0]], [1] * 3 + [2] * 3 + [3], n_tokens=4
    )
    with pytest.raises(MismatchedParts, match="min_support=1"):
        at.expand(at.learn(contradicting, keep=at.Selection(min_support=2)), contradicting)
    with pytest.raises(MismatchedParts, match="min_support=1"):
        at.expand(automaton, samples.take(slice(0, 2)))
    with pytest.raises(MismatchedParts, match="not the embeddings"):
        at.expand(automaton_of(samples, np.eye(6)), samples, embeddings=2 * np.eye(6))
    assert "expansion" in repr(at.expand(automaton, samples)).lower()


def test_embeddings_of_any_length_give_the_same_in_other_units():
    samples, embeddings = paper_draw(11, n_samples=8), embeddings_for(3, 6, 8)
    one = at.expand(automaton_of(samples, embeddings), samples, embeddings=embeddings)
    longer = 3.0 * embeddings
    other = at.expand(automaton_of(samples, longer), samples, step_size=1 / 81, embeddings=longer)
    assert np.allclose(one.weights_at(1e8), 9.0 * other.weights_at(1e8), atol=1e-5)
    assert one.error_at(1e8) == pytest.approx(9.0 * other.error_at(1e8), rel=1e-6)


def test_only_an_automaton_is_expanded():
    samples = at.Samples.from_lists([[0, 1]], [0])
    with pytest.raises(MismatchedParts, match="the automaton is of type Samples"):
        at.expand(samples, samples)


@pytest.mark.parametrize("repeats", [1, 2])  # independent directions, and a linear program
def test_degenerate_directions_are_those_without_a_multiplier(repeats):
    directions, multipliers = (
        np.random.default_rng(4).normal(size=(5, 8)),
        np.array([1.0, 0.0, 2.0, 0.0, 0.5]),
    )
    found = find_zero_multipliers(np.repeat(directions, repeats, axis=0), multipliers @ directions)
    assert found.tolist() == np.repeat(multipliers == 0, repeats).tolist()


def test_the_rate_of_a_large_block_is_that_of_the_dense_matrix_and_the_same_in_every_run(monkeypatch):
    above = np.arange(599)
    flow = np.random.default_rng(4).uniform(0.5, 2, 599)
    block = above, above + 1, flow, np.sqrt(np.random.default_rng(5).uniform(0.5, 2, 600))
    sparse = [residual._second_eigenvalue(*block) for _ in range(3)]
    monkeypatch.setattr(residual, "DENSE_COMPONENTS", 600)
    np.testing.assert_allclose(sparse[0], residual._second_eigenvalue(*block), rtol=1e-6)
    assert len(set(sparse)) == 1
