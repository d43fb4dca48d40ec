"""Shares of contexts by rule: the batch against explanations one by one, and a tenth that is held out."""

from collections import Counter

import numpy as np
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.automaton.answered import HELD_OUT, MOST_CONTEXTS, measure_answered, measure_held_out
from attomaton.automaton.explanation import Rule
from attomaton.graphs.components import count_evidence

ids = st.lists(st.integers(0, 6), min_size=12, max_size=80)


def shares_one_by_one(automaton, samples):
    """The definition: every context explained by itself."""
    rules = Counter(automaton.explain(list(sample.context)).rule for sample in samples)
    return {rule: rules[rule] / len(samples) for rule in Rule}


@given(ids, st.integers(2, 8))
def test_shares_are_those_of_explanations(tokens, window):
    samples = at.learn([[0, 0, 1, 0, *tokens]], window=window).samples
    cut = max(len(samples) // 2, 2)
    known, new = samples.take(slice(cut)), samples.take(slice(cut, None))
    solved = at.learn(known)
    told, meant = measure_answered(solved, new), shares_one_by_one(solved, new)
    assert told.n_contexts == len(new)
    assert np.isclose(told.determined, meant[Rule.DETERMINED])
    assert np.isclose(told.incomparable, meant[Rule.INCOMPARABLE])
    assert np.isclose(told.unseen_ignored, meant[Rule.UNSEEN_IGNORED])
    assert np.isclose(told.no_evidence, meant[Rule.NO_EVIDENCE])


def test_a_tenth_is_answered_by_what_the_others_teach():
    tokens = np.random.default_rng(2).zipf(1.5, 900).clip(max=30).tolist()
    samples = at.learn([tokens], window=6).samples
    cut = len(samples) - len(samples) // HELD_OUT
    learned = at.learn(samples.take(slice(cut)))
    assert measure_held_out(samples) == measure_answered(learned, samples.take(slice(cut, None)))


def test_of_many_contexts_some_are_asked():
    samples = at.Samples.from_lists([[0, 1]] * (MOST_CONTEXTS + 7), [0] * (MOST_CONTEXTS + 7))
    assert measure_answered(at.learn(samples.take(slice(5))), samples).n_contexts == MOST_CONTEXTS


def test_too_few_samples_hold_nothing_out():
    assert measure_held_out(at.Samples.from_lists([[0, 1]], [0])) is None


@given(ids)
def test_evidence_is_the_support_of_a_tokens_edges(tokens):
    components = at.learn([[0, 0, 1, 0, *tokens]], window=5).components
    edges, counted = components.edges, Counter()
    for query, winner, loser, support in zip(
        *(edges[name].tolist() for name in ("query", "winner", "loser", "support")), strict=True
    ):
        counted[query, winner] += support
        counted[query, loser] += support
    nodes = zip(components.query_of_node.tolist(), components.token_of_node.tolist(), strict=True)
    assert count_evidence(components).tolist() == [counted[node] for node in nodes]


def test_of_equal_components_the_one_with_more_evidence_comes_first():
    rare, common = [[0, 1, 2], [1, 0, 2]], [[3, 4, 5], [4, 3, 5]] * 5
    auto = at.learn(at.Samples.from_lists(rare + common, [0, 1] + [3, 4] * 5))
    assert [one.query for one in auto.coverage.largest] == [5, 2]
