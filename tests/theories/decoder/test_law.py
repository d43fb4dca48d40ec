"""One-hot contexts: the closed forms and the course against training."""

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton.theories.decoder import course
from attomaton.theories.decoder.closed_form import asymptote, direct_column, find_finite, squared_norm
from attomaton.theories.decoder.course import (
    find_levels,
    follow_decoder,
    follow_levels,
    list_levels,
    logits_of,
)
from attomaton_experiments.decoder_claims import find_excess, train_decoder
from tests.theories.decoder.draws import draw_supports, join_supports


def test_the_course_is_where_training_is():
    rng = np.random.default_rng(0)
    steps = [0, 1, 50, 128, 200, 1000, 3000]
    for _ in range(5):
        supports = draw_supports(rng)
        step_size = float(rng.choice([0.3, 1.0, 2.0]))
        trace = train_decoder(supports, steps, step_size)
        excesses = [one.excess for one in follow_levels(find_levels(supports), steps, step_size)]
        assert np.allclose(excesses, trace.excesses, rtol=1e-5, atol=1e-13)
        for place, step in enumerate(steps):
            assert (
                np.abs(next(follow_decoder(supports, [step], step_size)).weights - trace.weights[place]).max()
                < 1e-5
            )


def test_contexts_with_equal_counts_go_one_way():
    rng = np.random.default_rng(1)
    for _ in range(20):
        supports = draw_supports(rng)
        levels, level = list_levels(supports)
        assert np.array_equal(levels.probabilities[level], supports.probabilities)
        assert int(find_levels(supports).contexts.sum()) == len(supports)
        grouped, each = (
            next(iter(follow_levels(one, [500], 1.0))).excess for one in (find_levels(supports), levels)
        )
        assert grouped == pytest.approx(each, rel=1e-10)
        number = int(rng.integers(len(supports)))
        whole = next(follow_decoder(supports, [500], 1.0)).column(number)
        assert np.allclose(logits_of(supports, number, 500, 1.0), whole, atol=1e-12)


def test_uniform_supports_follow_lamberts_equation():
    """s (eᵘ − 1) + (V − s) u = V τ / s is the flow of the gap u of a support with equal probabilities."""
    supports = join_supports([draw_supports(np.random.default_rng(2), n_tokens=9)])
    supports.counts[:] = 5
    levels, _ = list_levels(supports)
    for moment in follow_levels(levels, [10**4, 10**7], 0.5):
        gap = moment.logits[levels.offsets[:-1]] - moment.logits[levels.offsets[1:] - 1]
        size, outside = supports.sizes, 9 - supports.sizes
        tau = 0.5 * supports.shares * moment.step
        inside = size < 9
        told = (size * np.expm1(gap) + outside * gap) / (9 / size)
        assert np.allclose(told[inside], tau[inside], rtol=1e-3)


@pytest.mark.slow  # long descent
def test_the_course_ends_in_the_law():
    rng = np.random.default_rng(3)
    for _ in range(10):
        supports = draw_supports(rng, even=True)
        for number in range(len(supports)):
            law = asymptote(supports, number, 10**9, 1.0)
            assert np.abs(logits_of(supports, number, 10**9, 1.0) - law).max() < 2e-3
        (moment,) = follow_levels(find_levels(supports), [10**9], 1.0)
        assert 1e9 * moment.excess == pytest.approx(squared_norm(supports), rel=1e-3)


def test_columns_sum_to_zero_and_norms_agree():
    rng = np.random.default_rng(4)
    for _ in range(20):
        supports = draw_supports(rng)
        columns = [direct_column(supports, number) for number in range(len(supports))]
        assert np.allclose(np.sum(columns, axis=1), 0)
        assert sum(one @ one for one in columns) == pytest.approx(squared_norm(supports))
        sums = np.bincount(supports.row, find_finite(supports))
        assert np.allclose(sums, 0, atol=1e-12)


def test_steps_beyond_the_edge_are_refused():
    supports = draw_supports(np.random.default_rng(5), n_contexts=1)
    with pytest.raises(UnsupportedOption, match="unstable"):
        next(iter(follow_levels(find_levels(supports), [10], 4.0)))


def test_the_excess_keeps_its_digits_at_every_step():
    """t · (CE − H) is 3.5 but for ln t / t; from t of 10¹³ on p − q is below the roundings of p."""
    limit = at.learn_decoder([[0, 1, 0, 2, 0, 1, 0, 1, 3, 0]], "bigram")
    assert limit.squared_norm == 3.5
    steps = [10**9, 10**12, 10**15, 10**18]
    assert np.array(steps, float) * limit.excesses_at(steps) == pytest.approx(np.full(4, 3.5), rel=1e-6)
    whole = at.learn_decoder([[0, 0, 1, 1, 0, 1]], "unigram")  # a full support: nothing grows
    assert 0 <= whole.excesses_at(10**9) < 1e-16


def test_a_single_step_is_a_step():
    limit = at.learn_decoder([[0, 1, 0, 2, 0, 1]])
    assert limit.excesses_at(1000) == limit.excesses_at([1000])[0]
    assert limit.losses_at(np.int64(1000)) == limit.loss_at(1000)
    with pytest.raises(UnsupportedOption, match="ascending"):
        limit.excesses_at([3, 2])


@pytest.mark.parametrize("share", [3.9, 3.99, 3.999])
def test_near_the_edge_the_weights_are_those_of_descent(share):
    """Where p is near (½, ½) logits swing back and forth for long, which no flow does."""
    limit = at.learn_decoder([[0] * 9 + [1] * 10], "unigram")
    steps = [100, 129, 200, 1000, 3000]
    trace = train_decoder(limit.supports, steps, share)
    for step, weights in zip(steps, trace.weights, strict=True):
        assert np.abs(limit.weights_at(step, share) - weights).max() < 1e-5
    assert limit.excesses_at(steps, share) == pytest.approx(trace.excesses, rel=1e-4, abs=1e-13)


def test_steps_that_swing_for_too_long_are_refused(monkeypatch):
    monkeypatch.setattr(course, "MOST_SINGLE_STEPS", 1000)
    limit = at.learn_decoder([[0] * 500 + [1] * 499], "unigram")
    with pytest.raises(UnsupportedOption, match="oscillate"):
        limit.excesses_at(10**9, 4.0 - 1e-9)


def train_twenty(steps):
    """Twenty random instances over 20 tokens, trained side by side with η = 1 each."""
    rng = np.random.default_rng(22)
    parts = [draw_supports(rng, n_tokens=20, n_contexts=3, positions=10**6, even=True) for _ in range(20)]
    trace = train_decoder(join_supports(parts), steps, float(len(parts)))
    return parts, trace


@pytest.mark.slow
def test_twenty_instances_at_200_000_steps():
    """Predicted logits within 0.01, and t · (CE − H) within 1 % of its limit."""
    steps = [200_000]
    parts, trace = train_twenty(steps)
    logits, first = trace.logits(0), 0
    for part in parts:
        own = logits[first : first + len(part)]
        first += len(part)
        law = np.array([asymptote(part, number, steps[0], 1.0) for number in range(len(part))])
        course = next(follow_decoder(part, [steps[0]], 1.0)).weights.T
        assert np.abs(own - law).max() < 0.01
        assert np.abs(own - course).max() < 0.001
        (moment,) = follow_levels(find_levels(part), steps, 1.0)
        measured = steps[0] * find_excess(part, own)
        assert measured == pytest.approx(squared_norm(part), rel=0.01)
        assert measured == pytest.approx(steps[0] * moment.excess, rel=0.001)
