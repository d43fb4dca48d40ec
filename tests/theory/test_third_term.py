"""The third term against training, at the sizes and settings of the theory."""

import numpy as np
import pytest

import attomaton as at
from tests.drawn import embeddings_for
from tests.trajectory.test_expansion import automaton_of, scores

STEPS = 200_000


def one_query(seed):
    """K = 6, n = 8, T = 4, tokens may repeat, one query."""
    rng = np.random.default_rng(seed)
    contexts = rng.integers(0, 6, (8, 4))
    contexts[:, -1] = rng.integers(6)
    labels = [int(rng.choice(context)) for context in contexts]
    return at.Samples.from_lists(contexts.tolist(), labels, n_tokens=6)


def two_queries(seed):
    """K = 6, n = 8, T = 4, two queries, tokens without repetition; random unit embeddings in 8 dimensions."""
    rng = np.random.default_rng(seed)
    asked = rng.permutation(6)[:2]
    contexts = [
        [*rng.permutation(np.setdiff1d(np.arange(6), [query]))[:3].tolist(), int(query)]
        for query in asked[rng.integers(0, 2, 8)]
    ]
    samples = at.Samples.from_lists(contexts, [int(rng.choice(c)) for c in contexts], n_tokens=6)
    return samples, embeddings_for(seed + 100, 6, 8)


def third_terms(n_instances):
    """The first instances whose third term data alone determine and that have one at all."""
    seed = 0
    while n_instances:
        samples = one_query(seed)
        expansion = at.expand(automaton_of(samples), samples)
        seed += 1
        if not expansion.caveat and np.abs(expansion.third.scores).max() > 1e-3:
            n_instances -= 1
            yield samples, expansion


def errors_at(samples, expansion, reached):
    """Largest error of any score at 200,000 steps, with and without the third term."""
    predicted = scores(expansion.scores_at(STEPS))
    third = expansion.third.scores[expansion.loss.nodes]
    return np.abs(predicted - reached).max(), np.abs(predicted - third - reached).max()


@pytest.mark.slow
def test_twenty_instances_against_plain_descent():
    """Within 5e-3 wherever the rate is above 1/2; slower ones within what they say of themselves."""
    from attomaton.trajectory.forward import _prepare_orthonormal

    gains, quick = [], 0
    for samples, expansion in third_terms(20):
        piece = _prepare_orthonormal(expansion.loss, None)[1][0]
        reached = piece.flow.descend(piece.start, 1.0, STEPS)
        with_it, without = errors_at(samples, expansion, reached)
        assert with_it <= (5e-3 if expansion.rate > 0.5 else 1.5 * expansion.error_at(STEPS))
        quick += with_it <= 5e-3
        gains.append(without / with_it)
    assert np.median(gains) >= 100
    assert quick >= 18


def test_the_same_instances_fast_forwarded():
    gains = []
    for samples, expansion in third_terms(20):
        trajectory = at.fast_forward(samples, to=1e12)
        with_it, without = errors_at(samples, expansion, scores(trajectory.scores_at(STEPS)))
        gains.append(without / with_it)
        late = np.abs(scores(expansion.scores_at(1e12)) - scores(trajectory.scores_at(1e12))).max()
        assert late <= 5e-3  # also where 200,000 steps were not enough
    assert np.median(gains) >= 100


@pytest.mark.slow
def test_with_embeddings_the_error_falls_at_the_predicted_rate():
    """Between 10^8 and 10^10, within 20 %, where tight directions span everything and λ ≥ 0.1.

    Most are within 6 %. In another seeding one of 19 was 49 % off: hardly any of its slowest part was in it.
    """
    found, within, seed = 0, 0, 0
    while found < 20:
        samples, embeddings = two_queries(seed)
        expansion = at.expand(automaton_of(samples, embeddings), samples, embeddings=embeddings)
        seed += 1
        if expansion.caveat or expansion.settling < 0.1:
            continue
        trajectory = at.fast_forward(samples, embeddings=embeddings, to=1e10, rtol=1e-11)
        early, late = (
            np.linalg.norm(trajectory.weights_at(step) - expansion.weights_at(step)) for step in (1e8, 1e10)
        )
        slope = np.log(early / late) / np.log(100)
        found += 1
        within += abs(slope / expansion.rate - 1) <= 0.2
    assert within == 20


def test_where_the_path_matters_it_says_so_and_the_error_stays():
    found, seed = 0, 0
    while found < 4:
        samples, embeddings = two_queries(seed)
        expansion = at.expand(automaton_of(samples, embeddings), samples, embeddings=embeddings)
        seed += 1
        if "path" not in expansion.caveat:
            continue
        found += 1
        assert expansion.error_at(1e9) == np.inf
        trajectory = at.fast_forward(samples, embeddings=embeddings, to=1e12)
        early, late = (
            np.linalg.norm(trajectory.weights_at(step) - expansion.weights_at(step)) for step in (1e10, 1e12)
        )
        assert late > 0.5 * early
        assert late > 1e-2
