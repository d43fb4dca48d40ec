"""The rule of many contexts at once: the same as context by context."""

from hypothesis import given

import attomaton as at
from attomaton.automaton.rules import RULES, answer_bags
from attomaton.graphs.bags import count_all_tokens
from tests.drawn import learn_parts
from tests.strategies import embedded, sample_sets


@given(embedded(sample_sets(max_samples=30), perhaps=True), sample_sets(max_samples=20))
def test_rules_are_those_of_explain(drawn, asked):
    samples, embeddings = drawn
    auto = at.Automaton(*learn_parts(samples, embeddings))
    inside = [[token % samples.n_tokens for token in context] for context, _ in asked]
    asked = samples + at.Samples.from_lists(inside, [0] * len(inside), n_tokens=samples.n_tokens)
    _, rules = answer_bags(auto, count_all_tokens(asked))
    assert [RULES[number] for number in rules] == [auto.explain(context).rule for context, _ in asked]
