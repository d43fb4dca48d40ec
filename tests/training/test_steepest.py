"""Steepest descent in other norms, Adam without ε, and schedules: against their definitions and PyTorch."""

import contextlib

import numpy as np
import pytest
import torch

from attomaton.base.errors import UnsupportedOption
from attomaton.training.checkpoints import Store
from attomaton.training.configuration import describe, restore_settings
from attomaton.training.loop import Watch, train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import Orthonormal, RandomUnit
from attomaton.training.steps import (
    Adam,
    Decay,
    GradientDescent,
    Muon,
    SignDescent,
    SpectralDescent,
    approximate_polar_factor,
    polar_factor,
)
from tests.drawn import paper_draw

STEPS = [
    SignDescent(0.1),
    SignDescent(0.1, momentum=0.9, schedule=Decay()),
    SpectralDescent(0.1, schedule=Decay(0.25)),
    SpectralDescent(0.1, momentum=0.5),
    Muon(0.1, schedule=Decay()),
    Muon(0.1, nesterov=False),
    Adam(0.1, epsilon=0.0, schedule=Decay()),
    GradientDescent(0.3, normalized=True, schedule=Decay()),
]


def moves(step, gradients):
    """The moves that a step makes of a list of gradients, from W = 0."""
    weights, state, found = torch.zeros_like(gradients[0]), None, []
    state = step.begin((weights,))
    for number, gradient in enumerate(gradients):
        (moved,), state = step.move((weights,), (gradient,), state, number)
        found.append((moved - weights).numpy())
        weights = moved
    return found


def drawn(n_steps=6, shape=(3, 5, 4), scale=1.0):
    rng = np.random.default_rng(0)
    return [torch.tensor(scale * rng.normal(size=shape)) for _ in range(n_steps)]


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_stored_step_comes_back(step):
    assert restore_settings(describe(step)) == step


@pytest.mark.parametrize("step", [one for one in STEPS if not isinstance(one, Muon)], ids=str)
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e3])
def test_the_size_of_gradients_does_not_matter(step, scale):
    for one, other in zip(moves(step, drawn()), moves(step, drawn(scale=scale)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_muon_moves_the_same_however_small_gradients_are():
    for one, other in zip(moves(Muon(0.1), drawn()), moves(Muon(0.1), drawn(scale=1e-120)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("shape", [(3, 5, 4), (2, 4, 5), (1, 6, 6)])
def test_spectral_moves_have_singular_values_of_one_and_the_steepest_slope(shape):
    gradient = drawn(1, shape)[0]
    (move,) = moves(SpectralDescent(1.0), [gradient])
    for one, slope in zip(move, gradient.numpy(), strict=True):
        np.testing.assert_allclose(np.linalg.svd(one, compute_uv=False), 1.0)
        assert np.sum(one * slope) == pytest.approx(-np.linalg.norm(slope, "nuc"))


def test_a_matrix_of_low_rank_keeps_its_rank_and_zero_stays_zero():
    low = torch.tensor(np.outer([1.0, 2.0, 3.0], [1.0, -1.0]))[None]
    values = np.linalg.svd(polar_factor(low)[0].numpy(), compute_uv=False)
    np.testing.assert_allclose(values, [1.0, 0.0], atol=1e-12)
    for make in (polar_factor, approximate_polar_factor):
        assert not make(torch.zeros(2, 3, 3, dtype=torch.float64)).any()


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("shape", [(3, 5, 4), (2, 4, 5), (1, 6, 6)])
def test_muon_is_that_of_torch_but_for_bfloat16(shape, nesterov):
    gradients = drawn(6, shape)
    own = moves(Muon(0.1, nesterov=nesterov), gradients)
    parameters = [torch.nn.Parameter(torch.zeros(shape[1:], dtype=torch.float64)) for _ in range(shape[0])]
    theirs = torch.optim.Muon(parameters, lr=0.1, weight_decay=0.0, nesterov=nesterov)
    for gradient, one in zip(gradients, own, strict=True):
        before = [parameter.detach().clone() for parameter in parameters]
        for parameter, slope in zip(parameters, gradient, strict=True):
            parameter.grad = slope.clone()
        theirs.step()
        known = torch.stack([now.detach() - old for now, old in zip(parameters, before, strict=True)])
        np.testing.assert_allclose(one, known.numpy(), atol=0.02 * 0.1 * 5)


def test_adam_without_epsilon_leaves_alone_what_has_no_gradient():
    gradients = [torch.tensor([[[1e-200, 0.0, -3.0]]], dtype=torch.float64) for _ in range(4)]
    for move in moves(Adam(0.1, epsilon=0.0), gradients):
        np.testing.assert_allclose(move, [[[-0.1, 0.0, 0.1]]])


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_run_is_resumed_with_the_same_bits_and_trials_do_not_see_each_other(step, tmp_path):
    corpora = [paper_draw(seed, n_tokens=5, n_samples=4, window=3) for seed in range(3)]
    model = AttentionModel(RandomUnit(6), start=1.0)
    whole = train(corpora, model, step, steps=30, watch=Watch(every=5))
    with contextlib.suppress(KeyboardInterrupt):
        train(
            corpora, model, step, steps=30, watch=Watch([_stop_at(20)], every=5), out=Store(tmp_path, every=7)
        )
    again = train(
        corpora, model, step, steps=30, watch=Watch(every=5), out=Store(tmp_path, resume=True, every=7)
    )
    np.testing.assert_array_equal(again.weights, whole.weights)
    assert again.step == step
    alone = train(corpora[:1], model, step, steps=30, watch=Watch(every=5))
    np.testing.assert_allclose(alone.weights[:, 0], whole.weights[:, 0], atol=1e-9)


def _stop_at(last):
    def interrupt(step, _):
        if step == last:
            raise KeyboardInterrupt

    return interrupt


def test_step_sizes_fall_as_scheduled():
    gradients = drawn(9)
    for number, move in enumerate(moves(SignDescent(0.5, schedule=Decay()), gradients)):
        np.testing.assert_allclose(np.abs(move), 0.5 / np.sqrt(number + 1))


@pytest.mark.parametrize("kind", [SignDescent, SpectralDescent, Muon])
def test_nonsense_is_refused(kind):
    for options in ({"step_size": 0.0}, {"step_size": 1.0, "momentum": 1.0}):
        with pytest.raises(UnsupportedOption):
            kind(**options)
    with pytest.raises(UnsupportedOption):
        Decay(1.5)


def test_a_layer_trained_by_each_attends_to_what_wins():
    samples = paper_draw(0)
    for step in STEPS:
        trace = train(samples, AttentionModel(Orthonormal()), step, steps=200)
        assert trace.losses[-1, 0] < 0.7 * trace.losses[0, 0]
