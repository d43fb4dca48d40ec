"""The course beyond the first steps: its gradients against autograd's, its first order, and training."""

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import InvalidSamples, UnknownToken
from attomaton.theories.beginning.course import follow_course
from tests.claims.first_steps import bigrams_with_copies, forecast_in_loops


def cosine(one, other):
    return float((one * other).sum() / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_its_first_order_is_the_forecast(n_layers):
    corpus = np.random.default_rng(0).integers(0, 6, (12, 7))
    found = follow_course(corpus, 6, step_size=1e-4, steps=6, n_layers=n_layers).at(6)
    told = forecast_in_loops(corpus, 6, 6, 1e-4)
    for layer in range(n_layers):
        for name in ("attention", "positions", "values"):
            np.testing.assert_allclose(
                getattr(found, name)[layer], told[name], rtol=2e-2, atol=2e-3 * np.abs(told[name]).max()
            )
    np.testing.assert_allclose(found.output, told["output"], rtol=1e-2, atol=1e-7)


def test_each_step_of_two_layers_is_nearer_to_training_than_the_forecast():
    corpus = bigrams_with_copies(np.random.default_rng(1), n_tokens=20, shape=(60, 11))
    trace = at.train_deep(corpus, at.DeepModel(n_layers=2), 1.0, steps=40, n_tokens=20)
    course = follow_course(corpus, 20, step_size=1.0, steps=40, n_layers=2)
    told = forecast_in_loops(corpus, 20, 40, 1.0)
    for step in (20, 30, 40):
        trained, followed = trace.at(step), course.at(step)
        for layer in range(2):
            weights = trained.attention[0, layer, 0]
            along = cosine(weights, followed.attention[layer])
            assert along > 0.9
            assert along > cosine(weights, told["attention"])
            assert cosine(trained.values[0, layer, 0], followed.values[layer]) > 0.95
            size = np.linalg.norm(weights) / np.linalg.norm(followed.attention[layer])
            assert 0.5 < size < 2
        assert cosine(trained.output[0], followed.output) > 0.95


def test_one_token_everywhere_moves_nothing_but_the_decoder():
    found = follow_course(np.zeros((2, 4), int), 3, step_size=1.0, steps=5).at(5)
    assert np.abs(found.attention).max() < 1e-12
    assert found.output[0].argmax() == 0


def test_records_and_refusals():
    corpus = np.array([[0, 1, 2, 0]])
    course = follow_course(corpus, 3, step_size=1.0, steps=7, every=3)
    assert course.steps.tolist() == [0, 3, 6, 7]
    assert "Norms at the end" in str(course)
    with pytest.raises(UnknownToken, match="not recorded"):
        course.at(5)
    for wrong in (corpus[0], corpus + 1, corpus * 0.5, corpus - 1):
        with pytest.raises(InvalidSamples):
            follow_course(wrong, 3, step_size=1.0, steps=1)
