"""The ceiling where it is known, and the slopes of its tables."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from attomaton.heads.audit.ceiling import OwnScores, RowPairs
from tests.heads.audit.built import build_heads, build_pairs, build_two_before, draw_text, split_ceiling


@given(st.integers(0, 10_000), st.integers(1, 3))
@settings(max_examples=10)
def test_slopes_are_those_of_finite_differences(seed, rank):
    rng = np.random.default_rng(seed)
    queries, tokens = rng.integers(0, 3, 7), rng.integers(0, 4, (7, 6))  # the last of five places has two
    pairs = RowPairs.of(queries, 3, tokens, 4)
    table, fixed = rng.normal(size=(7, rank)), rng.normal(size=(7, 5))
    attention = rng.dirichlet(np.ones(5), 7)
    _, slopes = pairs.loss(table, fixed, attention)
    for at in np.ndindex(table.shape):
        step = np.zeros_like(table)
        step[at] = 1e-5
        ends = [pairs.loss(table + sign * step, fixed, attention)[0] for sign in (1, -1)]
        assert slopes[at] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


def test_scores_of_a_table_are_products_of_factors():
    rng = np.random.default_rng(0)
    queries, tokens = rng.integers(0, 3, 7), rng.integers(0, 4, (7, 6))
    table = rng.normal(size=(7, 2))
    scores = RowPairs.of(queries, 3, tokens, 4).scores(table)
    for row in range(7):
        own = [table[3 + token] @ table[queries[row]] for token in tokens[row]]
        np.testing.assert_allclose(scores[row], [*own[:4], own[4] + own[5]])


@pytest.mark.parametrize("weights", [True, False])
def test_pairs_explain_all_of_a_head_that_scores_pairs(weights):
    """60 documents of 60 tokens out of 14; without weights the tables are found from attention."""
    rng = np.random.default_rng(1)
    found, _ = split_ceiling(build_pairs(rng), draw_text(rng), weights=weights)
    assert found.min() > (1 - 1e-6 if weights else 0.97)


def test_pairs_explain_only_position_where_scores_depend_on_a_token_before_the_key():
    rng = np.random.default_rng(2)
    found, position = split_ceiling(build_two_before(rng), draw_text(rng, 100, n_tokens=20))
    np.testing.assert_allclose(found[4:], position[4:], atol=0.03)
    np.testing.assert_allclose(found[:2], 1.0, atol=1e-4)


@pytest.mark.parametrize("kind", ["first token", "random"])
def test_a_constant_added_to_the_scores_of_a_row_changes_no_ceiling(kind, monkeypatch):
    """Logarithms of patterns, which a model that runs its own code gives, have such a constant."""
    rng = np.random.default_rng(3)
    model, documents = build_heads(kind, rng, n_heads=2), draw_text(rng, 40)
    ceilings = [split_ceiling(model, documents)[0]]
    whole = OwnScores.score

    def shifted(own_scores, rows):
        return whole(own_scores, rows) + rng.normal(0, 10, (len(rows), len(rows.heads), 1))

    monkeypatch.setattr(OwnScores, "score", shifted)
    ceilings.append(split_ceiling(model, documents)[0])
    np.testing.assert_allclose(*ceilings, atol=1e-6)
