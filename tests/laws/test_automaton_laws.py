"""Laws of the automaton."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import attomaton as at
from tests.drawn import learn_parts
from tests.strategies import embedded, ordered_sets, paper_draws, sample_sets

pytestmark = pytest.mark.costly("200 examples each")

CONTEXTS = st.lists(st.integers(0, 5), min_size=1, max_size=6)


def softmax_at(context, scores):
    """Attention mass per token id of softmax scores under the context's query."""
    logits = np.array([scores[token, context[-1]] for token in context])
    mass = np.exp(logits - logits.max())
    return np.bincount(context, mass / mass.sum(), minlength=len(scores))


@given(embedded(paper_draws(n_samples=12, repeats=True), perhaps=True), CONTEXTS)
def test_the_automaton_is_the_limit_of_a_softmax_on_determined_contexts(drawn, context):
    samples, embeddings = drawn
    components, hard, soft = learn_parts(samples, embeddings)
    weights = 60 * hard.weights + soft.weights
    scores = weights.toarray() if embeddings is None else embeddings @ weights @ embeddings.T
    auto = at.Automaton(components, hard, soft)
    context = [token % samples.n_tokens for token in context]
    tried = [context] + [list(sample.context) for sample in samples]
    determined = [c for c in tried if auto.explain(c).rule is at.automaton.Rule.DETERMINED]
    assume(determined)
    for one in determined:
        np.testing.assert_allclose(auto.predict_proba(one), softmax_at(one, scores), atol=1e-9)


@given(sample_sets(max_samples=30), CONTEXTS)
def test_answers_are_consistent_with_each_other(samples, context):
    auto = at.Automaton(*learn_parts(samples))
    context = [token % samples.n_tokens for token in context]
    probabilities, attention = auto.predict_proba(context), auto.attention(context)
    assert probabilities.shape == (samples.n_tokens,)
    np.testing.assert_allclose([probabilities.sum(), attention.sum()], 1.0, atol=1e-12)
    np.testing.assert_allclose(np.bincount(context, attention, samples.n_tokens), probabilities, atol=1e-12)
    assert auto.retrieve(context).tolist() == np.flatnonzero(probabilities).tolist()
    assert auto.sample(context, np.random.default_rng(0)) in auto.retrieve(context)
    explanation = auto.explain(context)
    np.testing.assert_allclose(
        [explanation.probabilities[t] for t in auto.retrieve(context)], probabilities[probabilities > 0]
    )
    groups = [*explanation.retrieved, *explanation.incomparable, *(b.tokens for b in explanation.beaten)]
    known = [token for group in groups for token in group]
    if explanation.rule is not at.automaton.Rule.NO_EVIDENCE:
        assert sorted([*known, *explanation.unseen]) == sorted(set(context))


@given(
    sample_sets(max_tokens=9, max_samples=30, min_samples=8),
    st.lists(st.integers(0, 8), min_size=1, max_size=6),
)
def test_the_rule_is_the_one_of_the_theory(samples, context):
    """Theory §3.3, in plain Python over reachability."""
    auto = at.Automaton(*learn_parts(samples))
    components, context = auto.components, [token % samples.n_tokens for token in context]
    order = nx.DiGraph()
    order.add_nodes_from(range(len(components)))
    order.add_edges_from((row["above"], row["below"]) for row in components.order.to_pylist())
    number = {(row["query"], row["token"]): row["component"] for row in components.nodes.to_pylist()}
    query = context[-1]
    present = {number[query, token] for token in context if (query, token) in number}
    unseen = {token for token in context if (query, token) not in number}
    winners = [top for top in present if present - {top} <= nx.descendants(order, top)]
    if not present:
        expected = at.automaton.Rule.NO_EVIDENCE
    elif not winners:
        expected = at.automaton.Rule.INCOMPARABLE
    else:
        expected = at.automaton.Rule.UNSEEN_IGNORED if unseen else at.automaton.Rule.DETERMINED
    explanation = auto.explain(context)
    assert explanation.rule is expected
    if winners:
        tokens = {token for token in context if number.get((query, token)) == winners[0]}
        assert set(explanation.retrieved[0]) == tokens
        assert len(explanation.beaten) == len(present) - 1


@given(ordered_sets(max_samples=30), CONTEXTS)
def test_explanations_cite_edges_that_are_in_the_data(samples, context):
    auto = at.Automaton(*learn_parts(samples))
    context = [token % samples.n_tokens for token in context]
    explanation = auto.explain(context)

    def component_of(token):
        return auto.components.component(context[-1], token)

    record = explanation.to_dict()
    assert record["unseen"] == list(explanation.unseen)
    assert record["rule"] == explanation.rule.name.lower()
    assert len(record["beaten"]) == len(explanation.beaten)
    for beaten in explanation.beaten:
        assert beaten.steps
        assert beaten.support == min(sum(edge.support for edge in step) for step in beaten.steps)
        supports = [[edge.support for edge in step] for step in beaten.steps]
        assert all(step == sorted(step, reverse=True) for step in supports)
        path = [component_of(beaten.steps[0][0].winner)]
        for step in beaten.steps:
            assert {component_of(edge.winner) for edge in step} == {path[-1]}
            below = {component_of(edge.loser) for edge in step}
            assert len(below) == 1
            path += below
        assert path[0] == component_of(explanation.retrieved[0][0])
        assert path[-1] == component_of(beaten.tokens[0])
        for step in beaten.steps:
            for winner, loser, support in step:
                shown = [
                    label == winner and loser in past and past[-1] == context[-1] and label in past
                    for past, label in samples
                ]
                assert sum(shown) == support > 0


@settings(max_examples=60)  # each is written to disk and read again
@given(drawn=embedded(paper_draws(n_samples=12, repeats=True), perhaps=True), context=CONTEXTS)
def test_saved_and_loaded_predictions_are_the_same_bytes(tmp_path_factory, drawn, context):
    samples, embeddings = drawn
    words = at.Vocabulary(("a", "b", "</script>", "é", '"', "\u202e")[: samples.n_tokens])
    auto = at.Automaton(*learn_parts(samples, embeddings), vocabulary=words)
    loaded = at.Automaton.load(auto.save(tmp_path_factory.mktemp("run")))
    context = [token % samples.n_tokens for token in context]
    for one in [context] + [list(sample.context) for sample in samples]:
        assert loaded.predict_proba(one).tobytes() == auto.predict_proba(one).tobytes()
        assert loaded.explain(one) == auto.explain(one)
    assert loaded.vocabulary == auto.vocabulary
    assert loaded.coverage == auto.coverage
    assert loaded.hard.certificate == auto.hard.certificate
    ours, theirs = auto.hard.weights, loaded.hard.weights
    assert (ours != theirs).nnz == 0 if embeddings is None else np.array_equal(ours, theirs)


def test_an_empty_context_is_refused():
    auto = at.learn([0, 1, 0, 1], window=2)
    with pytest.raises(at.AttomatonError, match="context is empty"):
        auto.predict_proba([])


def test_sampling_follows_the_probabilities():
    samples = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    auto = at.Automaton(*learn_parts(samples))
    rng = np.random.default_rng(0)
    drawn = np.bincount([auto.sample([1, 0, 2], rng) for _ in range(4_000)], minlength=3) / 4_000
    np.testing.assert_allclose(drawn, [0.75, 0.25, 0.0], atol=0.03)
