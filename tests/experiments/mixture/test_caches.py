"""The cache against its definition."""

import numpy as np
import pytest

from attomaton_experiments.mixture import caches


@pytest.mark.parametrize("flatness", [0.0, 0.3])
@pytest.mark.parametrize("size", [1, 7, 500])
def test_equals_the_definition_over_borders_of_blocks(monkeypatch, flatness, size):
    monkeypatch.setattr(caches, "BLOCK", 16)
    rng = np.random.default_rng(size)
    text, states = rng.integers(0, 6, 90), rng.normal(size=(90, 4)).astype(np.float32)
    probabilities, sure = caches.read_cache(states, text, flatness, size)
    laws = np.array([caches.cache_law(states, text, place, flatness, size, 6) for place in range(90)])
    np.testing.assert_allclose(probabilities, laws[np.arange(90), text], rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(laws.sum(1), sure, atol=1e-12)
