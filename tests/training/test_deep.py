"""Training of deep models: steps are those of the definition, and a run that was cut short goes on."""

import numpy as np
import pytest
import torch

import attomaton as at
from attomaton.base.errors import CorruptRun, InvalidSamples, MismatchedParts, UnsupportedOption
from attomaton.training.checkpoints import Store
from attomaton.training.loop import Watch, train_deep
from attomaton.training.models.deep import DeepModel, lay_out_sequences
from attomaton.training.steps import Adam, GradientDescent
from attomaton.training.trace import DeepTrace


def corpus(seed=0, shape=(6, 5), n_tokens=4):
    return np.random.default_rng(seed).integers(0, n_tokens, shape)


def test_plain_descent_takes_the_gradient_of_every_parameter():
    model, sequences = DeepModel(n_layers=2, start=0.1), corpus()
    trace = train_deep(sequences, model, 0.5, steps=3, n_tokens=4)
    batch = lay_out_sequences(model, [sequences], 4)
    start = model.draw_start(4, 4, np.random.default_rng([0, 0]))
    parameters = [torch.tensor(one)[None] for one in start]
    for _ in range(3):
        gradients, _ = batch.evaluate(parameters)
        parameters = [one - 0.5 * move for one, move in zip(parameters, gradients, strict=True)]
    flat = torch.cat([one.flatten(1) for one in parameters], 1)
    np.testing.assert_allclose(trace.numbers[-1], flat.numpy(), rtol=1e-12)
    assert trace.step == GradientDescent(0.5)


def test_trials_do_not_touch_each_other():
    together = train_deep([corpus(0), corpus(1)], DeepModel(start=0.1), Adam(0.05), steps=5, n_tokens=4)
    alone = train_deep([corpus(0)], DeepModel(start=0.1), Adam(0.05), steps=5, n_tokens=4)
    np.testing.assert_allclose(together.numbers[:, 0], alone.numbers[:, 0], rtol=1e-9, atol=1e-14)
    assert together.n_trials == 2


def test_heads_that_start_equal_stay_equal():
    trace = train_deep(corpus(), DeepModel(n_layers=2, n_heads=3), 2.0, steps=30, n_tokens=4)
    weights = trace.at(30)
    for part in (weights.attention, weights.positions, weights.values):
        assert np.abs(part).max() > 0
        for head in (1, 2):
            np.testing.assert_allclose(part[:, :, head], part[:, :, 0], rtol=1e-9, atol=1e-15)


def test_a_feed_forward_part_does_not_leave_zero_and_learns_from_elsewhere():
    still = train_deep(corpus(), DeepModel(hidden=8), 1.0, steps=10, n_tokens=4)
    plain = train_deep(corpus(), DeepModel(), 1.0, steps=10, n_tokens=4)
    np.testing.assert_allclose(still.losses, plain.losses, rtol=1e-13)
    fed = train_deep(corpus(), DeepModel(hidden=8, start=0.5), 0.2, steps=50, n_tokens=4)
    assert fed.losses[-1, 0] < fed.losses[0, 0]


@pytest.mark.parametrize("step", [GradientDescent(0.5, momentum=0.5), Adam(0.05)], ids=["descent", "adam"])
def test_a_run_that_was_cut_short_goes_on_with_the_same_bits(tmp_path, step):
    def fail(number, _):
        if number == 13:
            raise KeyboardInterrupt

    settings = {"steps": 20, "n_tokens": 4}
    model, watch = DeepModel(n_layers=2, start=0.1), Watch(every=1)
    whole = train_deep(corpus(), model, step, watch=watch, **settings)
    store = Store(tmp_path / "run", every=5)
    with pytest.raises(KeyboardInterrupt):
        train_deep(corpus(), model, step, watch=Watch([fail], every=1), out=store, **settings)
    resumed = Store(tmp_path / "run", resume=True, every=5)
    again = train_deep(corpus(), model, step, watch=watch, out=resumed, **settings)
    np.testing.assert_array_equal(again.numbers, whole.numbers)
    np.testing.assert_array_equal(again.losses, whole.losses)
    read = train_deep(corpus(), model, step, watch=watch, out=resumed, **settings)
    np.testing.assert_array_equal(read.numbers, whole.numbers)
    loaded = DeepTrace.load(tmp_path / "run" / "training" / "trace.safetensors")
    np.testing.assert_array_equal(loaded.numbers, whole.numbers)
    assert (loaded.model, loaded.step) == (model, step)
    with pytest.raises(MismatchedParts, match="has other settings"):
        train_deep(corpus(1), model, step, watch=watch, out=resumed, **settings)


def test_a_deep_trace_is_no_trace_of_one_layer(tmp_path):
    path = train_deep(corpus(), steps=2).save(tmp_path / "deep.safetensors")
    from attomaton.training.trace import Trace

    with pytest.raises(CorruptRun, match="is not a trace"):
        Trace.load(path)
    other = at.train(at.Samples.from_lists([[0, 1]], [0]), at.AttentionModel(), 1.0, steps=2)
    with pytest.raises(CorruptRun, match="is not a deep trace"):
        DeepTrace.load(other.save(tmp_path / "other.safetensors"))


def test_it_prints_and_is_a_table():
    trace = train_deep(corpus(), steps=4, n_tokens=9)
    assert "sequences per trial" in str(trace)
    assert trace.table().column_names == ["step", "trial", "loss", "norm"]
    assert trace.n_tokens == 9
    np.testing.assert_allclose(trace.losses[0], np.log(9))


def test_what_is_wrong_is_said():
    with pytest.raises(UnsupportedOption, match="DeepModel"):
        train_deep(corpus(), at.AttentionModel(), steps=1)
    for wrong in (3, [], np.zeros(3), "text"):
        with pytest.raises(InvalidSamples):
            train_deep(wrong, steps=1)
    with pytest.raises(UnsupportedOption, match="n_layers"):
        DeepModel(n_layers=0)
