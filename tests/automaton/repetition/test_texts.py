"""Texts that a layer writes: counts near the limit grow like t^ρ, and a window ends in a predicted loop."""

import numpy as np

import attomaton as at
from attomaton.automaton.repetition.counts import draw_counts
from attomaton.automaton.repetition.loops import find_loops

LAYER = [[0.2, 1.0, 0.4], [1.0, 0.1, 0.5], [1.0, 1.0, 0.2]]


def test_counts_near_the_limit_grow_like_powers_of_the_length():
    prompt = [0] * 10_000 + [1] * 10_000 + [2] * 200
    found = at.winners(LAYER, prompt)
    counts = draw_counts(LAYER, prompt, lengths=[20_200, 400_000], runs=3)
    assert found.first.certified
    fades = ~found.first.winners
    assert fades.tolist() == [False, False, True]
    slopes = counts.slopes(20_200)
    np.testing.assert_allclose(counts.shares[-1], found.shares_at([400_000])[0], atol=0.05)
    np.testing.assert_allclose(slopes[fades], found.slopes_between(20_200, 400_000)[fades], atol=0.05)
    np.testing.assert_allclose(slopes[fades], found.exponents[fades], atol=0.05)


def test_texts_of_a_window_end_in_a_predicted_loop():
    rng, window = np.random.default_rng(3), 4
    for _ in range(5):
        samples = at.synthetic.draw_ordered(
            rng, n_tokens=5, n_samples=30, window=window, n_queries=5, cyclic=True
        )
        auto = at.learn(samples)
        found = find_loops(auto, window=window)
        for _ in range(3):
            text = list(auto.generate(rng.integers(0, 5, 4).tolist(), 400, seed=1, window=window).tokens)
            last = text[-2 * window :]
            period = next(n for n in range(1, len(last)) if last[n:] == last[:-n])
            lowest = last.index(min(last[-period:]))
            assert period <= window
            assert tuple(last[lowest : lowest + period]) in found.loops
