"""Laws of the Graph-SVM."""

import clarabel
import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csc_array, eye_array

import attomaton as at
from attomaton.graphs.components import find_components
from attomaton.graphs.reduction import find_ties
from attomaton.hard.certify import certify_multipliers, certify_positions
from attomaton.hard.constraints import embedded_problem, order_problem
from tests.drawn import edge_table, embeddings_for, networkx_graph, paper_draw, sample_sets, scores_of, seeds


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
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    size = embeddings.shape[1] ** 2
    solver = clarabel.DefaultSolver(
        csc_array(eye_array(size)), np.zeros(size), csc_array(np.array(rows)), bounds, cones, settings
    )
    return np.array(solver.solve().x).reshape(embeddings.shape[1], -1)


@given(sample_sets(max_samples=40))
def test_hard_scores_satisfy_every_pair(samples):
    edges = at.extract_edges(samples)
    hard = at.solve_graph_svm(find_components(edges)).expect()
    scores = scores_of(hard)
    ties, strict = all_pairs(edges)
    assert all(scores[a] == scores[b] for a, b in ties)
    assert all(scores[a] - scores[b] >= 1 - 1e-9 for a, b in strict)


@given(st.integers(1, 200))
def test_a_chain_has_its_closed_form(n_tokens):
    steps = np.arange(n_tokens - 1)
    components = find_components(edge_table(np.full(n_tokens - 1, n_tokens - 1), steps, steps + 1, n_tokens))
    hard = at.solve_graph_svm(components).expect()
    scores = hard.scores.column("score").to_numpy()
    np.testing.assert_allclose(np.sum(scores**2), n_tokens * (n_tokens**2 - 1) / 12, rtol=1e-8, atol=1e-12)
    if n_tokens > 1:
        np.testing.assert_allclose(scores, (n_tokens - 1) / 2 - np.arange(n_tokens), atol=1e-6)


@given(st.integers(1, 200))
def test_a_star_has_its_closed_form(n_losers):
    losers = np.arange(1, n_losers + 1)
    table = edge_table(np.full(n_losers, n_losers), np.zeros(n_losers, int), losers, n_losers + 1)
    scores = at.solve_graph_svm(find_components(table)).expect().scores.column("score").to_numpy()
    np.testing.assert_allclose(scores[0], n_losers / (n_losers + 1), atol=1e-8)
    np.testing.assert_allclose(scores[1:], -1 / (n_losers + 1), atol=1e-8)


@given(sample_sets(max_samples=40), seeds)
def test_any_flow_and_any_feasible_point_bound_the_optimum(samples, seed):
    """The certificate is sound: no flow's lower bound exceeds any feasible point's upper bound."""
    rng = np.random.default_rng(seed)
    components = find_components(at.extract_edges(samples))
    problem = order_problem(components, components.order)
    feasible = components.heights * (1 + rng.random())
    certificate = certify_positions(problem, feasible, rng.normal(size=len(problem.above)), rtol=1e-6)
    best = at.solve_graph_svm(components).certificate
    assert certificate.lower <= best.upper * (1 + 1e-9) + 1e-12
    assert certificate.upper >= best.lower * (1 - 1e-9) - 1e-12
    assert certificate.violation == 0


@given(seeds)
def test_token_space_and_weight_space_agree(seed):
    samples, embeddings = paper_draw(seed), embeddings_for(seed + 1, 6, 8)
    edges = at.extract_edges(samples)
    hard = at.solve_graph_svm(find_components(edges), embeddings=embeddings).expect()
    by_definition = solve_in_weight_space(edges, embeddings)
    np.testing.assert_allclose(hard.weights, by_definition, atol=1e-6)
    expected = embeddings @ hard.weights @ embeddings.T
    for (query, token), score in scores_of(hard).items():
        assert abs(score - expected[token, query]) < 1e-9


@given(seeds)
def test_no_embeddings_mean_the_identity(seed):
    components = find_components(at.extract_edges(paper_draw(seed)))
    sparse = at.solve_graph_svm(components).expect().weights.toarray()
    dense = at.solve_graph_svm(components, embeddings=np.eye(6)).expect().weights
    np.testing.assert_allclose(sparse, dense, atol=1e-6)


@given(seeds)
def test_the_direction_is_orthogonal_to_the_cyclic_subspace(seed):
    rng = np.random.default_rng(seed)
    samples, embeddings = at.synthetic.draw_cyclic(rng), embeddings_for(seed + 1, 6, 8)
    components = find_components(at.extract_edges(samples))
    hard = at.solve_graph_svm(components, embeddings=embeddings).expect()
    left, right = find_ties(components)
    assert len(left)
    for one, other in zip(left, right, strict=True):
        query = components.query_of_node[one]
        difference = embeddings[components.token_of_node[one]] - embeddings[components.token_of_node[other]]
        assert abs(difference @ hard.weights @ embeddings[query]) < 1e-9


@given(seeds)
def test_dual_bounds_of_random_multipliers_never_exceed_the_optimum(seed):
    rng = np.random.default_rng(seed)
    embeddings = embeddings_for(seed + 1, 6, 8)
    components = find_components(at.extract_edges(paper_draw(seed)))
    problem = embedded_problem(components, components.order, embeddings @ embeddings.T)
    best = at.solve_graph_svm(components, embeddings=embeddings).expect().certificate
    guess = rng.normal(size=len(problem.query))
    assert certify_multipliers(problem, guess, guess, rtol=1e-6).lower <= best.upper * (1 + 1e-9) + 1e-12
