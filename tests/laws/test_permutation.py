"""Renaming tokens renames every answer."""

import numpy as np
import pytest
from hypothesis import given

import attomaton as at
from tests.drawn import as_counter, parts_of, scores_of
from tests.relabelling import relabel
from tests.strategies import orderings, paper_draws

pytestmark = pytest.mark.costly("200 examples each")


@given(paper_draws(repeats=True), orderings(6))
def test_permuting_token_ids_permutes_everything(samples, order):
    names = order[order < samples.n_tokens]
    renamed = relabel(samples, names)
    edges, new_edges = at.extract_edges(samples), at.extract_edges(renamed)
    assert as_counter(new_edges) == {tuple(names[list(key)]): n for key, n in as_counter(edges).items()}
    components, new_components = at.find_components(edges), at.find_components(new_edges)
    assert parts_of(new_components) == {
        (int(names[query]), frozenset(names[list(tokens)].tolist())) for query, tokens in parts_of(components)
    }
    hard, new_hard = at.solve_graph_svm(components), at.solve_graph_svm(new_components)
    soft, new_soft = at.solve_luce(samples, components), at.solve_luce(renamed, new_components)
    for old, new in ((hard, new_hard), (soft, new_soft)):
        moved = {
            (int(names[query]), int(names[token])): score for (query, token), score in scores_of(old).items()
        }
        assert moved.keys() == scores_of(new).keys()
        assert all(abs(moved[key] - score) < 1e-6 for key, score in scores_of(new).items())
    auto, new_auto = at.Automaton(components, hard, soft), at.Automaton(new_components, new_hard, new_soft)
    for context, _ in samples:
        old_probabilities, new_probabilities = (
            auto.predict_proba(context),
            new_auto.predict_proba(names[list(context)]),
        )
        np.testing.assert_allclose(new_probabilities[names], old_probabilities, atol=1e-6)
        assert auto.explain(context).rule is new_auto.explain(names[list(context)]).rule
