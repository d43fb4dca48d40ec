"""The transformer's likelihood is exact, and a training that was cut short goes on."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from attomaton.base.artifacts import read_arrays  # noqa: E402
from attomaton_experiments.mixture import transformer  # noqa: E402
from attomaton_experiments.mixture.transformer import OneLayer, TransformerPlan, train_transformer  # noqa: E402

PLAN = TransformerPlan(
    seconds=0.6, width=16, heads=2, window=8, batch_size=4, cuts=(5, 9), rate=0.01, save_every=0.2
)


def test_probabilities_add_up_to_one_and_are_those_of_the_labels():
    layer = OneLayer(20, PLAN).eval()
    states = layer(torch.arange(16).view(2, 8)).flatten(0, 1)
    every = torch.stack([layer.log_probabilities(states, torch.full((16,), token)) for token in range(20)], 1)
    np.testing.assert_allclose(every.exp().sum(1).detach(), 1, atol=1e-5)
    labels = torch.arange(16) + 4
    found = layer.log_probabilities(states, labels)
    np.testing.assert_allclose(found.detach(), every.gather(1, labels[:, None])[:, 0].detach(), atol=1e-5)


def test_it_sees_only_what_stands_before():
    layer = OneLayer(20, PLAN).eval()
    ids = torch.arange(8)[None]
    changed = ids.clone()
    changed[0, 5:] = 19
    torch.testing.assert_close(layer(ids)[0, :5], layer(changed)[0, :5])


def test_reading_in_windows_keeps_every_position_and_its_state():
    text = np.arange(50) % 7
    trained = train_transformer(text, 9, PLAN)
    probabilities, states = trained.read(text, 0)
    assert probabilities.shape == (50,)
    assert states.shape == (50, 16)
    assert (probabilities < 0).all()
    assert np.abs(states).sum(1).min() > 0
    assert -probabilities.mean() < np.log(9)


@pytest.mark.slow  # trains
def test_a_training_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    text = np.arange(400) % 7
    clock = iter(np.arange(0, 1e6, 0.05).tolist())
    monkeypatch.setattr(transformer.time, "perf_counter", lambda: next(clock))
    whole = train_transformer(text, 9, PLAN)
    stopped = []

    def stop(what, done, total):
        stopped.append(done)
        if len(stopped) == 2:
            raise KeyboardInterrupt

    clock = iter(np.arange(0, 1e6, 0.05).tolist())
    with pytest.raises(KeyboardInterrupt):
        train_transformer(text, 9, PLAN, folder=tmp_path, progress=stop)
    kept = read_arrays(tmp_path / transformer.CHECKPOINT)[1]
    assert '"step"' in kept["about"]
    clock = iter(np.arange(0, 1e6, 0.05).tolist())
    resumed = train_transformer(text, 9, PLAN, folder=tmp_path)
    again = train_transformer(text, 9, PLAN, folder=tmp_path)
    assert resumed.steps >= whole.steps - 2
    assert again.steps == resumed.steps
    for one, other in zip(resumed.layer.parameters(), again.layer.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    other = train_transformer(text[:300], 9, PLAN, folder=tmp_path)
    assert other.losses != resumed.losses


def test_what_comes_later_changes_nothing_before_it():
    text = np.arange(60) % 7
    trained = train_transformer(text, 9, PLAN)
    changed = np.where(np.arange(60) < 33, text, 8)
    (probabilities, states), (others, other_states) = trained.read(text, 0), trained.read(changed, 0)
    np.testing.assert_allclose(others[:33], probabilities[:33], atol=1e-6)
    np.testing.assert_allclose(other_states[:34], states[:34], atol=1e-6)
