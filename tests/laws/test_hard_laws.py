"""Laws of the Graph-SVM."""

from dataclasses import replace

import clarabel
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csc_array, eye_array

import attomaton as at
from attomaton.graphs.components import find_components, find_ties
from attomaton.solvers.hard.certify import HardCertificate, certify_forces, certify_positions, check_exactly
from attomaton.solvers.hard.placement import Placement
from attomaton.solvers.hard.problem import OrderProblem, embedded_problem, order_problem
from attomaton.solvers.hard.reference import Clarabel
from tests.drawn import components_of, edge_table, networkx_graph, scores_of
from tests.strategies import embedded, ordered_sets, orders, paper_draws, vectors

pytestmark = pytest.mark.costly("200 examples each")


def all_pairs(edges):
    """Every constraint of the definition: ties (i ≍ j) and strict pairs (i ⇒ j), through paths too."""
    graph = networkx_graph(edges)
    reach = nx.transitive_closure(graph, reflexive=False)
    ties = [(a, b) for a, b in reach.edges if a < b and reach.has_edge(b, a)]
    strict = [(a, b) for a, b in reach.edges if not reach.has_edge(b, a)]
    return ties, strict


def solve_in_weight_space(edges, embeddings):
    """The definition: min ‖W‖ over dim × dim matrices under every tie and every strict pair."""
    ties, strict = all_pairs(edges)
    if not strict:
        return np.zeros((embeddings.shape[1],) * 2)
    rows = [
        -np.outer(embeddings[i] - embeddings[j], embeddings[query]).ravel()
        for (query, i), (_, j) in ties + strict
    ]
    bounds = np.array([0.0] * len(ties) + [-1.0] * len(strict))
    cones = [clarabel.ZeroConeT(len(ties)), clarabel.NonnegativeConeT(len(strict))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    size = embeddings.shape[1] ** 2
    solver = clarabel.DefaultSolver(
        csc_array(eye_array(size)), np.zeros(size), csc_array(np.array(rows)), bounds, cones, settings
    )
    return np.array(solver.solve().x).reshape(embeddings.shape[1], -1)


@given(ordered_sets().filter(lambda samples: not components_of(samples).is_acyclic))
def test_hard_scores_satisfy_every_pair(samples):
    edges = at.extract_edges(samples)
    hard = at.solve_graph_svm(find_components(edges)).expect()
    scores = scores_of(hard)
    ties, strict = all_pairs(edges)
    assert all(scores[a] == scores[b] for a, b in ties)
    assert all(scores[a] - scores[b] >= 1 - 1e-9 for a, b in strict)


@given(st.integers(1, 400))
def test_a_chain_has_its_closed_form(n_tokens):
    steps = np.arange(n_tokens - 1)
    components = find_components(edge_table(np.full(n_tokens - 1, n_tokens - 1), steps, steps + 1, n_tokens))
    hard = at.solve_graph_svm(components).expect()
    scores = hard.scores.column("score").to_numpy()
    np.testing.assert_allclose(np.sum(scores**2), n_tokens * (n_tokens**2 - 1) / 12, rtol=1e-8, atol=1e-12)
    if n_tokens > 1:
        np.testing.assert_allclose(scores, (n_tokens - 1) / 2 - np.arange(n_tokens), atol=1e-6)


@given(st.integers(1, 400))
def test_a_star_has_its_closed_form(n_losers):
    losers = np.arange(1, n_losers + 1)
    table = edge_table(np.full(n_losers, n_losers), np.zeros(n_losers, int), losers, n_losers + 1)
    scores = at.solve_graph_svm(find_components(table)).expect().scores.column("score").to_numpy()
    np.testing.assert_allclose(scores[0], n_losers / (n_losers + 1), atol=1e-8)
    np.testing.assert_allclose(scores[1:], -1 / (n_losers + 1), atol=1e-8)


@given(ordered_sets(), st.floats(1, 2), st.data())
def test_any_flow_and_any_feasible_point_bound_the_optimum(samples, stretch, data):
    """The certificate is sound: no flow's lower bound exceeds any feasible point's upper bound."""
    components = find_components(at.extract_edges(samples))
    problem = order_problem(components)
    flow = data.draw(vectors(len(problem.above)))
    certificate = certify_positions(problem, components.heights * stretch, flow, rtol=1e-6)
    best = at.solve_graph_svm(components).certificate
    assert certificate.lower <= best.upper * (1 + 1e-9) + 1e-12
    assert certificate.upper >= best.lower * (1 - 1e-9) - 1e-12
    assert certificate.violation == 0


@given(ordered_sets(max_tokens=8))
def test_multipliers_press_on_tight_edges_only_and_prove_the_norm(samples):
    """Complementary slackness, stationarity and strong duality, from the tables that are returned."""
    components = components_of(samples)
    hard = at.solve_graph_svm(components).expect()
    rows, score = hard.multipliers.to_pylist(), scores_of(hard)
    position = {
        c: score[int(components.query_of[c]), int(components.tokens(c)[0])] for c in range(len(components))
    }
    pressed = dict.fromkeys(position, 0.0)
    for row in rows:
        assert row["multiplier"] >= 0
        pressed[row["above"]] += row["multiplier"]
        pressed[row["below"]] -= row["multiplier"]
        if row["multiplier"] > 1e-9:
            assert abs(position[row["above"]] - position[row["below"]] - 1) < 1e-9
    for c, size in enumerate(components.sizes):
        assert abs(pressed[c] - size * position[c]) < 1e-9
    norm = float((components.sizes * np.array([position[c] for c in range(len(components))]) ** 2).sum())
    assert abs(sum(row["multiplier"] for row in rows) - norm) < 1e-9 * max(1.0, norm)


@given(ordered_sets(max_tokens=8, max_samples=60))
def test_the_block_solver_agrees_with_the_reference(samples):
    components = components_of(samples)
    blocks = at.solve_graph_svm(components).expect()
    reference = at.solve_graph_svm(components, solver=Clarabel(), rtol=1e-6).expect()
    np.testing.assert_allclose(blocks.scores.column("score"), reference.scores.column("score"), atol=1e-5)


@given(ordered_sets())
def test_a_query_alone_gets_the_same_scores(samples):
    edges = at.extract_edges(samples)
    together = scores_of(at.solve_graph_svm(find_components(edges)).expect())
    for query in np.unique(edges["query"]).tolist():
        alone = at.solve_graph_svm(find_components(edges.filter(queries=[query]))).expect()
        assert all(abs(together[key] - score) < 1e-12 for key, score in scores_of(alone).items())


@given(orders(heaviest=5) | orders(heaviest=10**9))
def test_positions_equal_exact_rational_arithmetic(problem):
    """The tight edges that the solver names, worked out in fractions, meet every optimality condition."""
    positions, flow = Placement().solve_order(problem)
    check = check_exactly(problem, flow)
    assert check.optimal, check.reason
    assert certify_positions(problem, positions, flow, rtol=1e-12, exact=True).exact
    np.testing.assert_allclose(positions, [float(value) for value in check.positions], rtol=1e-12, atol=1e-12)


@given(
    embedded(paper_draws(), more=2)
    | embedded(paper_draws(n_tokens=12, n_samples=40, window=5), more=4)
    | embedded(paper_draws(n_tokens=12, n_samples=30, window=5), more=0)
)
def test_the_joint_solver_agrees_with_the_reference(drawn):
    """Unit embeddings: certified to 1e-9, and the scores that an interior-point method finds."""
    samples, embeddings = drawn
    components = components_of(samples)
    joint = at.solve_graph_svm(components, embeddings=embeddings, rtol=1e-9).expect()
    reference = at.solve_graph_svm(components, embeddings=embeddings, solver=Clarabel(), rtol=1e-6)
    assert joint.certificate.upper <= reference.certificate.upper * (1 + 1e-9)
    if reference.certificate.certified:
        np.testing.assert_allclose(joint.scores.column("score"), reference.scores.column("score"), atol=1e-3)


@given(embedded(paper_draws()))
def test_token_space_and_weight_space_agree(drawn):
    samples, embeddings = drawn
    edges = at.extract_edges(samples)
    hard = at.solve_graph_svm(find_components(edges), embeddings=embeddings).expect()
    by_definition = solve_in_weight_space(edges, embeddings)
    np.testing.assert_allclose(hard.weights, by_definition, atol=1e-6)
    expected = embeddings @ hard.weights @ embeddings.T
    for (query, token), score in scores_of(hard).items():
        assert abs(score - expected[token, query]) < 1e-9


@given(embedded(paper_draws()), st.integers(-65, 65))
def test_the_length_of_embeddings_scales_the_weights_only(drawn, exponent):
    (samples, embeddings), factor = drawn, 10.0**exponent
    components = find_components(at.extract_edges(samples))
    for solve in (
        lambda table: at.solve_graph_svm(components, embeddings=table).expect(),
        lambda table: at.solve_luce(samples, components, embeddings=table).expect(),
    ):
        one, other = solve(embeddings), solve(factor * embeddings)
        np.testing.assert_allclose(other.scores.column("score"), one.scores.column("score"), atol=1e-5)
        np.testing.assert_allclose(other.weights * factor * factor, one.weights, atol=1e-5)
    norm = at.solve_graph_svm(components, embeddings=2 * embeddings).expect()
    square = np.sum(norm.weights**2)  # upper is that, and what rounding may hide
    assert -1e-12 <= norm.certificate.upper - square <= 1e-7 * max(1.0, norm.certificate.upper)
    total = norm.multipliers.column("multiplier").to_numpy().sum()
    assert abs(total - norm.certificate.upper) <= 1e-6 * max(1.0, norm.certificate.upper)


def test_no_certificate_for_what_is_not_a_number_or_not_feasible():
    good = HardCertificate(lower=1.0, upper=1.0, gap=0.0, violation=0.0, rtol=1e-6)
    assert good.certified
    nan = float("nan")
    for bad in ({"gap": nan}, {"upper": nan}, {"violation": nan}, {"gap": 1e-3}, {"violation": 1e-3}):
        assert not replace(good, **bad).certified
    problem = OrderProblem(np.ones(2, np.int64), np.array([0]), np.array([1]), np.zeros(2, np.int64))
    for positions in ([nan, 0.0], [0.4, -0.4]):
        assert not certify_positions(problem, np.array(positions), np.array([0.5]), rtol=1e-6).certified


def test_a_small_query_does_not_hide_behind_a_large_one():
    """A star whose scores are 15 times too large, beside a chain whose norm dwarfs it."""
    chain, star = np.arange(1999), np.full(3, 2000)
    above, below = np.concatenate([chain, star]), np.concatenate([chain + 1, [2001, 2002, 2003]])
    problem = OrderProblem(np.ones(2004, np.int64), above, below, (np.arange(2004) >= 2000).astype(np.int64))
    positions, flow = Placement().solve_order(problem)
    assert certify_positions(problem, positions, flow, rtol=1e-12).certified
    positions[2000:] *= 15
    assert not certify_positions(problem, positions, flow, rtol=1e-6).certified


@given(paper_draws())
def test_no_embeddings_mean_the_identity(samples):
    components = components_of(samples)
    sparse = at.solve_graph_svm(components).expect().weights.toarray()
    dense = at.solve_graph_svm(components, embeddings=np.eye(samples.n_tokens)).expect().weights
    np.testing.assert_allclose(sparse, dense, atol=1e-6)


@given(embedded(paper_draws().filter(lambda samples: not components_of(samples).is_acyclic)))
def test_the_direction_is_orthogonal_to_the_cyclic_subspace(drawn):
    samples, embeddings = drawn
    components = components_of(samples)
    hard = at.solve_graph_svm(components, embeddings=embeddings).expect()
    left, right = find_ties(components)
    assert len(left)
    for one, other in zip(left, right, strict=True):
        query = components.query_of_node[one]
        difference = embeddings[components.token_of_node[one]] - embeddings[components.token_of_node[other]]
        assert abs(difference @ hard.weights @ embeddings[query]) < 1e-9


@given(embedded(paper_draws()), st.data())
def test_dual_bounds_of_any_multipliers_never_exceed_the_optimum(drawn, data):
    samples, embeddings = drawn
    components = components_of(samples)
    problem = embedded_problem(components, embeddings)
    best = at.solve_graph_svm(components, embeddings=embeddings).expect().certificate
    forces, flow = (data.draw(vectors(len(one))) for one in (problem.token, problem.order.above))
    assert certify_forces(problem, forces, flow, rtol=1e-6).lower <= best.upper * (1 + 1e-9) + 1e-12
