"""Laws of the Luce model inside components."""

import choix
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy.linalg import orth
from scipy.optimize import minimize

import attomaton as at
from attomaton.graphs.choices import choices_by_definition
from attomaton.graphs.components import find_components
from tests.drawn import components_of, scores_of
from tests.strategies import embedded, many, paper_draws, read_samples, tied_sets

pytestmark = pytest.mark.costly("200 examples each")


def is_tied(samples):
    return not components_of(samples).is_acyclic


@st.composite
def one_component(draw, n_tokens=4, max_samples=40):
    """Multiplicity-free choices under one query that tie all tokens but the query itself."""
    rows = draw(many(st.binary(min_size=3, max_size=n_tokens + 1), max_samples, fewest=2))
    drawn = read_samples(rows, n_tokens, n_tokens, distinct=True)
    contexts = [[*context, n_tokens] for context, _ in drawn]
    samples = at.Samples.from_lists(contexts, drawn.labels.tolist(), n_tokens=n_tokens + 1)
    assume(components_of(samples).sizes.tolist() == [n_tokens, 1])
    return samples


@given(tied_sets(max_tokens=5, max_samples=60))
def test_the_gradient_vanishes_and_scores_are_centred(samples):
    components = find_components(at.extract_edges(samples))
    soft = at.solve_luce(samples, components).expect()
    assert soft.certificate.gradient_norm <= 1e-8
    scores = scores_of(soft)
    for number in range(len(components)):
        query, tokens = int(components.query_of[number]), components.tokens(number).tolist()
        assert abs(sum(scores[query, token] for token in tokens)) < 1e-9


@given(tied_sets(max_tokens=4, max_samples=60))
def test_gradient_and_loss_equal_the_definition(samples):
    """Expected wins equal observed wins, and the loss is −Σ ln p, both counted in plain Python."""
    components = find_components(at.extract_edges(samples))
    soft = at.solve_luce(samples, components).expect()
    scores, surplus, loss = scores_of(soft), {}, 0.0
    for (query, winner, members), count in choices_by_definition(samples, components).items():
        odds = {token: m * np.exp(scores[query, token]) for token, m in members}
        for token in odds:
            probability = odds[token] / sum(odds.values())
            surplus[query, token] = surplus.get((query, token), 0.0) + count * (
                probability - (token == winner)
            )
        loss -= count * np.log(odds[winner] / sum(odds.values()))
    assert all(abs(value) < 1e-7 for value in surplus.values())
    assert abs(loss - soft.loss) < 1e-9 * max(1.0, loss)


@given(one_component())
def test_equal_to_choix_where_choix_applies(samples):
    components, query = components_of(samples), 4
    data = [(label, [t for t in context if t not in (label, query)]) for context, label in samples]
    theirs = choix.opt_top1(4, [row for row in data if row[1]], alpha=0.0, tol=1e-12)
    scores = scores_of(at.solve_luce(samples, components).expect())
    ours = np.array([scores[query, token] for token in range(4)])
    np.testing.assert_allclose(ours, theirs - theirs.mean(), atol=1e-5)


@given(embedded((paper_draws() | paper_draws(n_samples=12, repeats=True)).filter(is_tied)))
def test_token_space_and_weight_space_agree(drawn):
    """W_fin by definition: minimise the reduced loss over a basis of the cyclic subspace."""
    samples, embeddings = drawn
    components, n_tokens = components_of(samples), samples.n_tokens
    rows = components.nodes.to_pylist()
    span = [
        np.outer(embeddings[a["token"]] - embeddings[b["token"]], embeddings[a["query"]]).ravel()
        for a in rows
        for b in rows
        if a["component"] == b["component"] and a["token"] < b["token"]
    ]
    basis = orth(np.array(span).T)
    reduced = list(choices_by_definition(samples, components).items())

    def loss(point):
        weights = (basis @ point).reshape(n_tokens + 2, n_tokens + 2)
        scores, total, slope = embeddings @ weights @ embeddings.T, 0.0, np.zeros((n_tokens, n_tokens))
        for (query, winner, members), count in reduced:
            tokens = np.array([token for token, _ in members])
            odds = np.array([m for _, m in members]) * np.exp(scores[tokens, query])
            total -= count * np.log(odds[tokens == winner] / odds.sum())[0]
            slope[tokens, query] += count * odds / odds.sum()
            slope[winner, query] -= count
        return total, basis.T @ (embeddings.T @ slope @ embeddings).ravel()

    found = minimize(
        loss, np.zeros(basis.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000}
    )
    soft = at.solve_luce(samples, components, embeddings=embeddings).expect()
    np.testing.assert_allclose(soft.weights.ravel(), basis @ found.x, atol=1e-6)
    assert np.linalg.norm(soft.weights.ravel() - basis @ (basis.T @ soft.weights.ravel())) < 1e-9
