"""Laws of the Luce model inside components."""

import choix
import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.linalg import orth
from scipy.optimize import minimize

import attomaton as at
from attomaton.graphs.choices import choices_by_definition
from attomaton.graphs.components import find_components
from tests.drawn import embeddings_for, paper_draw, scores_of, seeds, tied_sets


def one_component(seed, *, n_tokens=4, n_samples=40):
    """Multiplicity-free choices under one query that tie all tokens but perhaps the query itself."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(size=n_tokens)
    contexts, labels = [], []
    for _ in range(n_samples):
        context = rng.permutation(n_tokens)[: rng.integers(2, n_tokens + 1)]
        odds = np.exp(strength[context])
        labels.append(int(rng.choice(context, p=odds / odds.sum())))
        contexts.append([*context.tolist(), n_tokens])
    return at.Samples.from_lists(contexts, labels, n_tokens=n_tokens + 1)


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
            chance = odds[token] / sum(odds.values())
            surplus[query, token] = surplus.get((query, token), 0.0) + count * (chance - (token == winner))
        loss -= count * np.log(odds[winner] / sum(odds.values()))
    assert all(abs(value) < 1e-7 for value in surplus.values())
    assert abs(loss - soft.loss) < 1e-9 * max(1.0, loss)


@given(seeds)
def test_equal_to_choix_where_choix_applies(seed):
    samples = one_component(seed)
    components = find_components(at.extract_edges(samples))
    query = 4
    assume(len({components.component(query, token) for token in range(4)}) == 1)
    data = [(label, [t for t in context if t not in (label, query)]) for context, label in samples]
    theirs = choix.opt_top1(4, [row for row in data if row[1]], alpha=0.0, tol=1e-12)
    scores = scores_of(at.solve_luce(samples, components).expect())
    ours = np.array([scores[query, token] for token in range(4)])
    np.testing.assert_allclose(ours, theirs - theirs.mean(), atol=1e-5)


@given(seeds, st.booleans())
def test_token_space_and_weight_space_agree(seed, repeats):
    """W_fin by definition: minimise the reduced loss over a basis of the cyclic subspace."""
    rng = np.random.default_rng(seed)
    samples = paper_draw(seed, repeats=repeats, n_samples=12) if repeats else at.synthetic.draw_cyclic(rng)
    embeddings = embeddings_for(seed + 1, 6, 8)
    components = find_components(at.extract_edges(samples))
    assume(not components.is_acyclic)
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
        weights = (basis @ point).reshape(8, 8)
        scores, total, slope = embeddings @ weights @ embeddings.T, 0.0, np.zeros((6, 6))
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
