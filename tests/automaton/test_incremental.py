"""A corpus learned in pieces, and edges asked for more than one sample."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.graphs.choices import choices_by_definition
from tests.drawn import learn_parts
from tests.strategies import sample_sets, tied_sets


def learn_in_pieces(pieces):
    """The two passes over the pieces one by one: edges first, then choices inside the merged components."""
    edges = at.extract_edges(pieces[0])
    for piece in pieces[1:]:
        edges = edges + at.extract_edges(piece)
    components = at.find_components(edges)
    choices = at.extract_choices(pieces[0], components)
    for piece in pieces[1:]:
        choices = choices + at.extract_choices(piece, components)
    return at.Automaton(components, at.solve_graph_svm(components), at.solve_luce(choices, components))


@pytest.mark.filterwarnings("ignore::attomaton.base.errors.NothingRealisable")
@given(sample_sets(max_samples=30), st.lists(st.integers(0, 30), min_size=1, max_size=3))
def test_learning_the_pieces_of_a_corpus_is_learning_the_whole(samples, cuts):
    borders = [0, *sorted(cuts), None]
    pieces = [samples.take(slice(*borders[place : place + 2])) for place in range(len(borders) - 1)]
    whole, merged = at.learn(samples), learn_in_pieces(pieces)
    assert merged.components.edges.rows.equals(whole.components.edges.rows)
    assert merged.components.edges.queries.equals(whole.components.edges.queries)
    assert merged.components.nodes.equals(whole.components.nodes)
    assert merged.components.order.equals(whole.components.order)
    assert merged.soft.choices.rows.equals(whole.soft.choices.rows)
    assert merged.hard.scores.equals(whole.hard.scores)
    assert merged.soft.scores.equals(whole.soft.scores)
    assert merged.coverage == whole.coverage


@given(sample_sets(max_samples=20), sample_sets(max_samples=20))
def test_a_new_corpus_may_bring_new_tokens_ties_and_priorities(old, new):
    merged, whole = learn_in_pieces([old, new]), at.Automaton(*learn_parts(old + new))
    assert merged.n_tokens == whole.n_tokens == max(old.n_tokens, new.n_tokens)
    for context, _ in [*old, *new]:
        assert merged.predict_proba(context).tobytes() == whole.predict_proba(context).tobytes()


@given(tied_sets(max_samples=50, max_tokens=5), st.integers(2, 5))
def test_min_support_leaves_choices_that_fit_the_components_left(samples, min_support):
    """An edge inside a component is shown by choices of that component, so these still connect it."""
    auto = at.learn(samples, keep=at.Selection(min_support=min_support))
    components, choices = auto.components, auto.soft.choices
    assert (components.edges["support"] >= min_support).all()
    found = {
        (row["query"], row["winner"], tuple(zip(row["tokens"], row["multiplicities"], strict=True))): row[
            "count"
        ]
        for row in choices.rows.to_pylist()
    }
    assert found == dict(choices_by_definition(samples, components))
    auto.hard.expect()
    auto.soft.expect()
    tied = components.sizes[components.component_of_node] > 1
    shown = {(query, token) for query, _, pairs in found for token, _ in pairs}
    nodes = zip(components.query_of_node[tied].tolist(), components.token_of_node[tied].tolist(), strict=True)
    assert shown == set(nodes)
    for context, _ in samples:
        np.testing.assert_allclose(auto.predict_proba(context).sum(), 1.0, atol=1e-12)


def test_a_priority_that_one_sample_contradicts_comes_back_with_min_support():
    samples = at.Samples.from_lists([[0, 1, 2]] * 9 + [[0, 1, 2]], [0] * 9 + [1])
    np.testing.assert_allclose(at.learn(samples).predict_proba([1, 0, 2]), [0.9, 0.1, 0], atol=1e-9)
    assert at.learn(samples, keep=at.Selection(min_support=2)).predict_proba([1, 0, 2]).tolist() == [1, 0, 0]
