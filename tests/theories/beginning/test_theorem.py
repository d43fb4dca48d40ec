"""The forecast against gradient descent, and the theorem's bounds."""

from math import comb

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import UnsupportedOption
from attomaton.theories.beginning.theorem import Coefficients, Setting
from tests.theories.beginning.corpora import draw_bigrams

torch = pytest.importorskip("torch")

from tests.theories.beginning.descent import descend  # noqa: E402

NAMES = ("attention", "positions", "values", "output")


def cosine(one, other):
    return float(np.vdot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other)))


def forecast(tokens, n_tokens, step_size, steps, n_layers=1, start=0.0):
    documents = [*tokens.tolist(), [n_tokens - 1]]  # the last names the vocabulary's size, and is no sequence
    begun = at.begin(documents, window=tokens.shape[1] - 1)
    return begun.weights_at(steps, step_size, n_layers=n_layers, start="small" if start else "zero")


def test_one_layer_is_where_the_forecast_says():
    tokens = draw_bigrams(np.random.default_rng(0), n_tokens=40, window=12, n_sequences=400)
    trained = descend(tokens, n_tokens=40, n_layers=1, step_size=0.1, steps=10)
    weights = forecast(tokens, 40, 0.1, 10)
    for name in NAMES:
        real, said = trained[name].reshape(getattr(weights, name).shape), getattr(weights, name)
        assert cosine(real, said) >= 0.99999, name
        assert np.linalg.norm(real) / np.linalg.norm(said) == pytest.approx(1, abs=0.005), name


def test_every_layer_of_three_is_where_the_forecast_says():
    tokens = draw_bigrams(np.random.default_rng(1), n_tokens=40, window=12, n_sequences=400)
    trained = descend(tokens, n_tokens=40, n_layers=3, step_size=1.0, steps=10)
    weights = forecast(tokens, 40, 1.0, 10, n_layers=3)
    for name in NAMES:
        layers = trained[name][None] if name == "output" else trained[name]
        assert min(cosine(layer, getattr(weights, name)) for layer in layers) >= 0.9999, name


def assert_within_bounds(tokens, n_tokens, step_size, steps, n_layers, start=0.0):
    given = {"n_tokens": n_tokens, "n_layers": n_layers, "step_size": step_size, "steps": steps}
    trained = descend(tokens, **given, start=start)
    weights = forecast(tokens, n_tokens, step_size, steps, n_layers, start)
    for name in NAMES:
        layers = trained[name][None] if name == "output" else trained[name]
        far = max(float(np.linalg.norm(layer - getattr(weights, name))) for layer in layers)
        assert far <= getattr(weights.bounds, name), (name, far)
    return weights


@pytest.mark.parametrize("seed", range(4))
def test_the_bounds_of_one_layer_hold(seed):
    rng = np.random.default_rng(seed)
    window = int(rng.integers(3, 9))
    n_tokens = int(rng.choice([500, 520]))
    tokens = draw_bigrams(rng, n_tokens=n_tokens, window=window, n_sequences=4)
    step_size = float(rng.uniform(0.01, 0.1))
    steps = Setting(window, n_tokens, step_size).valid_until
    weights = assert_within_bounds(tokens, n_tokens, step_size, min(steps, 12), 1)
    assert weights.bounds.hold


@pytest.mark.slow
def test_the_bounds_hold_on_200_random_corpora():
    rng = np.random.default_rng(7)
    for trial in range(200):
        n_layers, start = [(1, 0.0), (3, 0.0), (3, 1e-7)][trial % 3]
        window = int(rng.integers(3, 12)) if n_layers == 1 else int(rng.integers(144, 150))
        n_tokens = 500 if n_layers == 1 else int(rng.integers(5, 40))
        n_sequences = int(rng.integers(1, 6))
        tokens = draw_bigrams(rng, n_tokens=n_tokens, window=window, n_sequences=n_sequences)
        least = 0.02 if n_layers == 1 else 1 / window
        step_size = float(rng.uniform(least, 2 * least))
        steps = Setting(window, n_tokens, step_size, n_layers).valid_until
        weights = assert_within_bounds(tokens, n_tokens, step_size, steps, n_layers, start)
        assert steps >= 1
        assert weights.bounds.hold, weights.bounds.reasons


def test_the_coefficient_of_attention_is_a_sum():
    for steps in range(12):
        found = Coefficients.at(steps, 0.5)
        assert found.attention == pytest.approx(0.5**4 * sum(r * comb(r, 2) for r in range(steps)))


@pytest.mark.parametrize(
    ("setting", "until", "missing"),
    [
        (Setting(32, 5001, 0.01), 10, ()),
        (Setting(2, 5001, 0.01), 0, ("sequences need at least 3 tokens, not 2",)),
        (Setting(32, 40, 0.01), 0, ("the vocabulary needs at least 500 tokens, not 40",)),
        (Setting(200, 40, 0.005, 3), 5, ()),
        (Setting(16, 40, 0.1, 1, "small"), 0, ()),
        (Setting(16, 40, 1 / 16, 1, "small"), 1, ()),
        (Setting(16, 40, 0.01, 1, "small"), 0, ("the step size must be at least 1/16, but is 0.01",)),
        (
            Setting(100, 40, 0.1, 3),
            0,
            ("3 layers need sequences of at least 144 tokens, but these have 100",),
        ),
    ],
)
def test_where_the_theorem_ends(setting, until, missing):
    assert setting.valid_until == until
    assert setting.missing == missing


@pytest.mark.parametrize("wrong", [{"step_size": 0}, {"n_layers": 0}, {"start": "large"}])
def test_wrong_options_are_refused(wrong):
    beginning = at.begin([[0, 1, 2, 0]], window=3)
    with pytest.raises(UnsupportedOption):
        beginning.weights_at(3, **{"step_size": 0.1, **wrong})
