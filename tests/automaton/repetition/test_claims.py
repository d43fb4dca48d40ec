"""Claims about a layer fed its own output: they hold where they should, and can fail."""

import numpy as np
import pytest

import attomaton as at
from attomaton.automaton.repetition.loops import find_loops
from attomaton.automaton.repetition.odds import TextCounts, draw_counts
from attomaton.claims.repetition import verify_loops, verify_repetition

LAYER = [[0.2, 1.0, 0.4], [1.0, 0.1, 0.5], [1.0, 1.0, 0.2]]


def statuses(found, counts):
    return {
        one.claim.removeprefix("repetition-"): one.status.value for one in verify_repetition(found, counts)
    }


@pytest.fixture(scope="module")
def near():
    prompt = [0] * 10_000 + [1] * 10_000 + [2] * 200
    return at.winners(LAYER, prompt), draw_counts(LAYER, prompt, lengths=[20_200, 400_000], runs=3)


def test_texts_near_the_limit_hold(near):
    assert set(statuses(*near).values()) == {"holds"}


def test_counts_of_another_layer_fail(near):
    found, counts = near
    swapped = TextCounts(counts.tokens, counts.lengths, counts.counts[:, :, [2, 1, 0]])
    told = statuses(found, swapped)
    assert told["shares"] == told["slopes"] == told["exponents"] == "fails"


def test_short_prompts_and_several_ends_are_not_judged():
    counts = draw_counts(LAYER, [0, 1, 2], lengths=[3, 1000])
    assert set(statuses(at.winners(LAYER, [0, 1, 2]), counts).values()) == {"not_applicable"}
    caught = [[0.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    prompt = [1] * 200 + [2] * 200 + [0] * 200
    counts = draw_counts(caught, prompt, lengths=[600, 1000])
    assert set(statuses(at.winners(caught, prompt), counts).values()) == {"not_applicable"}


def test_winners_fail_where_probability_goes_to_another_limit():
    layer = [[4.0, 1.0], [1.0, 4.0]]
    prompt = [0] * 300 + [1] * 200
    found = at.winners(layer, prompt)
    counts = TextCounts(
        found.odds.tokens, np.array([500, 5000]), np.array([[[300.0, 200.0], [1000.0, 4000.0]]])
    )
    assert statuses(found, counts)["winners"] == "fails"


def test_texts_of_a_window_end_in_a_predicted_loop():
    rng = np.random.default_rng(3)
    for _ in range(5):
        samples = at.synthetic.draw_ordered(rng, n_tokens=5, n_samples=30, window=4, n_queries=5, cyclic=True)
        auto = at.learn(samples)
        prompts = [rng.integers(0, 5, 4).tolist() for _ in range(3)]
        texts = [auto.generate(prompt, 400, seed=1, window=4).tokens for prompt in prompts]
        assert verify_loops(find_loops(auto, window=4), texts).status.value == "holds"


def test_a_loop_that_is_not_predicted_fails():
    found = find_loops([[0.0, 1.0], [1.0, 0.0]], window=1)
    assert verify_loops(found, [[0, 1] * 10]).status.value == "not_applicable"
    assert verify_loops(found, [[0, 0, 1, 1]]).status.value == "holds"
    wide = find_loops(np.ones((2, 2)), window=2)
    assert verify_loops(wide, [[0, 1] * 10]).status.value == "fails"
