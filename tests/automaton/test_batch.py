"""Many contexts at once: the same answers as the definition gives one by one."""

import numpy as np
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.automaton.prediction import predict_by_definition
from attomaton.graphs.bags import count_all_tokens
from tests.drawn import learn_parts
from tests.strategies import embedded, sample_sets


@given(embedded(sample_sets(max_samples=30), perhaps=True), sample_sets(max_samples=20))
def test_a_batch_equals_the_definition_context_by_context(drawn, asked):
    samples, embeddings = drawn
    auto = at.Automaton(*learn_parts(samples, embeddings))
    inside = [[token % samples.n_tokens for token in context] for context, _ in asked]
    labels = [label % samples.n_tokens for _, label in asked]
    asked = samples + at.Samples.from_lists(inside, labels, n_tokens=samples.n_tokens)
    predicted = auto.predict_samples(asked)
    dense = np.zeros((len(asked), samples.n_tokens))
    dense[predicted.bags.sample, predicted.bags.token] = predicted.probabilities
    alone = np.zeros_like(dense)
    for number, sample in enumerate(asked):
        for token, probability in predict_by_definition(auto, sample.context).items():
            alone[number, token] = probability
        np.testing.assert_allclose(auto.predict_proba(sample.context), alone[number], rtol=1e-13, atol=0)
    np.testing.assert_allclose(dense, alone, rtol=1e-13, atol=0)
    np.testing.assert_allclose(predicted.of_labels(), alone[np.arange(len(asked)), asked.labels], rtol=1e-13)
    where, token = predicted.most_likely()
    assert where.tolist() == list(range(len(asked)))
    assert token.tolist() == dense.argmax(axis=1).tolist()
    no_evidence = [auto.explain(sample.context).rule is at.automaton.Rule.NO_EVIDENCE for sample in asked]
    assert predicted.no_evidence.tolist() == no_evidence


@given(sample_sets(max_samples=30), st.sets(st.integers(0, 5)))
def test_leaving_tokens_out_is_conditioning_on_the_others(samples, left_out):
    """Against a softmax whose hard part is multiplied so far that only the limit is left."""
    auto = at.Automaton(*learn_parts(samples))
    allowed = ~np.isin(np.arange(samples.n_tokens), list(left_out))
    bags = count_all_tokens(samples)
    predicted = auto.predict_bags(bags.keep(allowed[bags.token]))
    scores = (1e4 * auto.hard.weights + auto.soft.weights).toarray()
    nodes = {(row["query"], row["token"]) for row in auto.components.nodes.to_pylist()}
    for number, (context, _) in enumerate(samples):
        mine, query = predicted.bags.sample == number, context[-1]
        tokens = predicted.bags.token[mine].tolist()
        assert tokens == sorted({token for token in context if allowed[token]})
        known = [token for token in tokens if (query, token) in nodes]
        top = max((scores[token, query] for token in known), default=0.0)
        mass = {
            token: context.count(token) * (np.exp(scores[token, query] - top) if known else 1.0)
            for token in known or tokens
        }
        expected = [mass.get(token, 0.0) / sum(mass.values()) for token in tokens]
        np.testing.assert_allclose(predicted.probabilities[mine], expected, atol=1e-9)


def test_ids_beyond_the_vocabulary_are_unseen():
    auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1]))
    predicted = auto.predict_samples(at.Samples.from_lists([[0, 7, 2], [7, 7, 8]], [0, 0]))
    assert predicted.is_node.tolist() == [True, True, False, False, False]
    np.testing.assert_allclose(predicted.probabilities, [1, 0, 0, 2 / 3, 1 / 3])
    assert predicted.no_evidence.tolist() == [False, True]
