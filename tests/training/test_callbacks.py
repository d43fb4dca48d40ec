"""Trackers: TensorBoard's files are read back; modules with the same calls stand in for W&B and trackio."""

import sys
import warnings
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from attomaton.errors import MissingExtra
from attomaton.models.attention import AttentionModel
from attomaton.training.callbacks import TensorBoard, Trackio, WandB
from attomaton.training.loop import Watch, train
from attomaton.training.steps import GradientDescent
from tests.drawn import paper_draw


def trained(callback):
    watch = Watch([callback])
    return train(
        paper_draw(0), AttentionModel(), GradientDescent(1.0), steps=20, every=5, trials=3, watch=watch
    )


def expected(trace):
    return [
        (int(step), {"loss/mean": losses.mean(), "loss/min": losses.min(), "loss/max": losses.max()})
        for step, losses in zip(trace.steps, trace.losses, strict=True)
    ]


def test_tensorboard_files_hold_the_losses(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorBoard's own
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        with TensorBoard(str(tmp_path)) as tracker:
            trace = trained(tracker)
        events = EventAccumulator(str(tmp_path)).Reload()
    for name in ("loss/mean", "loss/min", "loss/max"):
        read = [(event.step, event.value) for event in events.Scalars(name)]
        assert [step for step, _ in read] == trace.steps.tolist()
        np.testing.assert_allclose(
            [value for _, value in read], [row[name] for _, row in expected(trace)], rtol=1e-6
        )


@pytest.mark.parametrize(("kind", "package"), [(WandB, "wandb"), (Trackio, "trackio")])
def test_trackers_are_begun_told_and_ended(monkeypatch, kind, package):
    calls = []
    run = SimpleNamespace(
        log=lambda values, step: calls.append((step, values)), finish=lambda: calls.append("finished")
    )
    module = ModuleType(package)
    module.init = lambda **settings: calls.append(settings) or run
    monkeypatch.setitem(sys.modules, package, module)
    with kind("attention", {"config": {"dim": 8}}) as tracker:
        trace = trained(tracker)
    assert calls == [{"project": "attention", "config": {"dim": 8}}, *expected(trace), "finished"]


@pytest.mark.parametrize(
    ("callback", "package"),
    [(TensorBoard("x"), "tensorboard"), (WandB("x"), "wandb"), (Trackio("x"), "trackio")],
)
def test_a_missing_package_is_named(monkeypatch, callback, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'attomaton\[{package}\]'"):
        trained(callback)
