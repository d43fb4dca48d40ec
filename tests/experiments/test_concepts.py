"""Concepts: the sparse decomposition is the dense one, and equal supports fall together."""

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton_experiments import concepts as module
from attomaton_experiments.concepts import define_matrix, find_concepts, group_supports
from tests.theories.decoder.draws import draw_supports


def test_the_sparse_decomposition_equals_the_dense_one(monkeypatch):
    monkeypatch.setattr(module, "DENSE", 3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        supports = draw_supports(rng, n_tokens=12, n_contexts=9)
        found = find_concepts(supports, 3)
        matrix = define_matrix(supports)
        singular = np.linalg.svd(matrix, compute_uv=False)
        assert np.allclose(found.values, singular[:3])
        assert np.allclose(matrix @ found.contexts, found.words * found.values)
        assert np.allclose(found.words.T @ found.words, np.eye(3), atol=1e-8)
        assert found.explained == pytest.approx((singular[:3] ** 2).sum() / (singular**2).sum())


def test_contexts_with_equal_supports_fall_together():
    limit = at.learn_decoder(["a x b x c y a z b z d y e x f z", "a x"])
    groups = group_supports(limit.supports)
    found = find_concepts(limit.supports, 3, vocabulary=limit.vocabulary)
    for group in np.unique(groups):
        rows = found.contexts[groups == group]
        assert np.allclose(rows, rows[:1])
        tokens = {
            tuple(limit.supports.tokens[limit.supports.pairs_of(one)])
            for one in np.flatnonzero(groups == group)
        }
        assert len(tokens) == 1
    assert len(np.unique(groups)) < len(limit.supports)


def test_concepts_print_and_refuse():
    limit = at.learn_decoder(["a x b x a y b y c z c w"])
    found = find_concepts(limit.supports, 2, vocabulary=limit.vocabulary)
    assert "words" in str(found)
    assert "Concepts" in found._repr_html_()
    assert found.table().num_rows == 2 * 2 * 6
    for wrong in (0, 6, 99, 1.5):
        with pytest.raises(UnsupportedOption):
            find_concepts(limit.supports, wrong)
    with pytest.raises(UnsupportedOption):
        found.leading_words(2)


def test_a_limit_stands_for_its_supports_and_its_words():
    limit = at.learn_decoder(["a x b x a y b y c x c y"])
    direct = find_concepts(limit.supports, 2, vocabulary=limit.vocabulary)
    assert find_concepts(limit, 2).rows() == direct.rows()
