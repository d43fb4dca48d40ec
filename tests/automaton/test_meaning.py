"""Do orders of tokens say anything about meaning, and what does W_fin add: the studies' own functions."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import rankdata

import attomaton as at
from tests.drawn import paper_draw

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # for timing.py
from benchmarks.bench_automaton_heldout import without_soft
from benchmarks.bench_automaton_meaning import FEWEST, compare, find_ranks, measure_pair

N_TOKENS, N_QUERIES = 400, 400


def draw_ranks(rng, *, shift):
    """Every token has a rank under half of the queries; those of one kind are moved towards a profile."""
    shown = rng.random((N_TOKENS, N_QUERIES)) < 0.5
    ranks = rng.uniform(0.01, 1.0, (N_TOKENS, N_QUERIES))
    kinds = [list(range(start, start + 6)) for start in (50, 150, 250)]
    for kind in kinds:
        ranks[kind] = (1 - shift) * ranks[kind] + shift * rng.uniform(0.01, 1.0, N_QUERIES)
    return csr_array(np.where(shown, ranks, 0.0)), kinds


def test_ranks_and_distances_are_their_definition():
    rng = np.random.default_rng(0)
    contexts = [[*rng.choice(60, 8, replace=False).tolist(), 60] for _ in range(40)]
    samples = at.Samples.from_lists(contexts, [context[0] for context in contexts])
    scores = at.learn(samples).hard.scores
    ranks = find_ranks(scores, 61)
    tokens, values = scores.column("token").to_numpy(), scores.column("score").to_numpy()
    expected = (rankdata(np.round(values, 9)) - 0.5) / len(values)
    found = ranks.toarray()
    np.testing.assert_allclose(found[tokens, 60], expected)
    assert (found[:, :60] == 0).all()
    table, _ = draw_ranks(rng, shift=0.0)
    both = (table.toarray()[3] > 0) & (table.toarray()[7] > 0)
    assert both.sum() > FEWEST
    gaps = np.abs(table.toarray()[3] - table.toarray()[7])[both]
    assert measure_pair(table, 3, 7) == pytest.approx(gaps.mean())
    assert np.isnan(measure_pair(ranks, 0, 1))  # one shared query


def test_level_and_power():
    """Kinds without a profile are found in about a tenth of the draws at p ≤ 0.1, kinds with one always."""
    counts = np.arange(N_TOKENS, 0, -1)
    found = []
    for seed in range(20):
        ranks, kinds = draw_ranks(np.random.default_rng(seed), shift=0.0)
        found.append(compare(ranks, kinds, counts, 39, seed)["all"][2])
    assert 0 <= np.mean(np.array(found) <= 0.1) <= 0.3
    ranks, kinds = draw_ranks(np.random.default_rng(99), shift=0.3)
    strong = compare(ranks, kinds, counts, 99)
    assert strong["all"][2] == 0.01
    assert all(near < far for near, far in zip(strong["within"], strong["as_frequent"], strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_without_w_fin_the_retrieved_tokens_share_equally(seed):
    samples = paper_draw(seed, repeats=True)
    auto = at.learn(samples)
    hard = without_soft(auto)
    for context, _ in samples:
        retrieved = auto.retrieve(context)
        times = np.array([context.count(token) for token in range(samples.n_tokens)])
        times[~np.isin(np.arange(samples.n_tokens), retrieved)] = 0
        np.testing.assert_allclose(hard.predict_proba(context), times / times.sum())
