"""Attention against the automaton on any contexts."""

import numpy as np
from hypothesis import given

import attomaton as at
from attomaton.automaton.rules import RULES
from attomaton.graphs.bags import count_tokens
from attomaton_experiments.retrieval import attend, read_retrieval
from tests.drawn import learn_parts
from tests.strategies import realisable_sets, vectors


def agreement_by_definition(auto, samples, scores):
    """(rule, top in what is retrieved, mass on it, same top, distance) of each context, one by one."""
    rows = []
    for context, _ in samples:
        query, tokens = context[-1], sorted(set(context))
        odds = np.array([context.count(token) * np.exp(scores[token, query]) for token in tokens])
        masses, probabilities = odds / odds.sum(), auto.predict_proba(context)[tokens]
        top = masses >= masses.max() * (1 - 1e-9)
        best = probabilities >= probabilities.max() * (1 - 1e-9)
        chosen = np.isin(tokens, auto.retrieve(context))
        distance = 0.5 * np.abs(masses - probabilities).sum()
        rows.append(
            (auto.explain(context).rule, chosen[top].mean(), masses[chosen].sum(), best[top].mean(), distance)
        )
    return rows


@given(realisable_sets(), realisable_sets(), vectors(6, 6))
def test_agreement_is_that_of_single_contexts(samples, asked, drawn):
    auto = at.Automaton(*learn_parts(samples))
    inside = [[token % samples.n_tokens for token in context] for context, _ in asked]
    labels = [context[0] for context in inside]
    bags = count_tokens(samples + at.Samples.from_lists(inside, labels, n_tokens=samples.n_tokens))
    scores = (drawn / 2).round(0)  # many of them equal
    retrieval = read_retrieval(auto, bags)
    masses = attend(bags, scores[bags.token, bags.samples.queries[bags.sample]])
    found = retrieval.compare(masses)
    rows = agreement_by_definition(auto, bags.samples, scores)
    for rule in (None, *RULES):
        mine = [row[1:] for row in rows if rule in (None, row[0])]
        name = "all" if rule is None else rule.name.lower()
        assert (name in found) == bool(mine)
        if mine:
            one = found[name]
            assert one.n_contexts == len(mine)
            np.testing.assert_allclose(
                [one.retrieved, one.mass, one.same_top, one.distance], np.mean(mine, axis=0), atol=1e-9
            )
    assert np.isclose(sum(retrieval.shares().values()), 1.0)


@given(realisable_sets())
def test_the_automaton_agrees_with_itself(samples):
    auto = at.Automaton(*learn_parts(samples))
    retrieval = read_retrieval(auto, count_tokens(samples))
    own = retrieval.compare(retrieval.prediction.probabilities)
    assert set(own) == {"all", "determined"}  # what was learned from is determined
    assert np.allclose([own["all"].retrieved, own["all"].mass, own["all"].same_top], 1.0)
    assert own["all"].distance == 0.0
