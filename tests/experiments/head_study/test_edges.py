"""Edges obeyed: the blocks count what the definition counts, beside what needs no model."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import MismatchedParts
from attomaton.base.native import count_obeyed, score_pairs
from attomaton.heads.opening import open_model
from attomaton.heads.trained import watch_layer
from attomaton_experiments.head_study import edges as counting
from attomaton_experiments.head_study.edges import measure_edges, obeyed_by_definition, randomise_heads
from tests.heads import made


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    return at.Samples.from_windows((61 * rng.random(1500) ** 3).astype(np.int32), window=6, n_tokens=61)


@pytest.mark.slow  # slow definition on whole models
@pytest.mark.parametrize("block", [1, 50, 1 << 17])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_blocks_count_what_the_definition_counts(family, block, samples, tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "BLOCK", block)
    made.write(tmp_path, family)
    model = open_model(tmp_path)
    components = at.find_components(at.extract_edges(samples))
    found = measure_edges(model, components, samples)
    for head, share in list(zip(found.heads, found.obeyed, strict=True))[:: 3 if block > 1 else 20]:
        assert abs(share - obeyed_by_definition(model, components, head)) < 1e-4  # singles may turn near ties


@given(seed=st.integers(0, 10**9))
def test_scores_and_counts_are_those_of_the_definition(seed):
    """Whole numbers, so that sums are exact and scores tie."""
    rng = np.random.default_rng(seed)
    n_tokens, width, n_heads, n_pairs = rng.integers(1, 7, 4)
    asked, offered = rng.integers(-3, 4, (2, n_tokens, width, n_heads)).astype(np.float32)
    query, token = rng.integers(0, n_tokens, (2, n_pairs)).astype(np.int32)
    scores = np.zeros((n_pairs, n_heads), np.float32)
    score_pairs(asked, offered, query, token, scores)
    np.testing.assert_array_equal(scores, (asked[query] * offered[token]).sum(1))
    winner, loser, support = rng.integers(0, n_pairs, (3, 9))
    won = np.sign(scores[winner] - scores[loser]).astype(np.int64) + 1
    np.testing.assert_array_equal(count_obeyed(scores, winner, loser, support), support @ won)


def test_counts_and_the_solution_obey_as_they_should(samples):
    """The Graph-SVM's weights obey every edge between components; a head of zeros obeys half."""
    auto = at.learn(samples)
    weights = np.zeros((61, 61))
    scores = auto.hard.scores
    weights[scores["token"].to_numpy(), scores["query"].to_numpy()] = scores["score"].to_numpy()
    found = measure_edges(watch_layer(np.eye(61), weights), auto.components, samples)
    assert found.obeyed.tolist() == [1.0]
    assert found.bigram > found.frequency > 0.5
    assert (
        measure_edges(watch_layer(np.eye(61), np.zeros((61, 61))), auto.components, samples).obeyed[0] == 0.5
    )
    assert np.isnan(found.random).all()


def test_random_heads_obey_about_half(samples, tmp_path):
    made.write(tmp_path, "llama")
    model = open_model(tmp_path)
    drawn = randomise_heads(model, np.random.default_rng(0))
    found = measure_edges(model, at.extract_edges(samples), samples, against=drawn)
    assert drawn.n_groups == drawn.n_heads == 8
    assert 0.3 < found.random.mean() < 0.7
    ids = np.array([[1, 2, 3]])
    np.testing.assert_allclose(drawn.watch(ids).patterns[0].sum(-1), 1.0, atol=1e-5)


def test_another_vocabulary_is_named(samples):
    with pytest.raises(MismatchedParts, match="tokenise the corpus with the model's own tokenizer"):
        measure_edges(watch_layer(np.eye(3), np.zeros((3, 3))), at.extract_edges(samples), samples)
