"""Models beyond one layer: masses are distributions, and one layer is the layer of the theory."""

import numpy as np
import torch

from attomaton_experiments.layers import VARIANTS, gather_trials, predict_masses, run_layers
from attomaton_experiments.settings import read_settings


def few(**changes):
    settings = read_settings("mechanics-layers", trials=3)
    return settings | {"step": settings["step"] | changes}


def test_masses_are_distributions_and_one_layer_is_the_definition():
    settings = few()
    batch = gather_trials(settings)
    rng = np.random.default_rng(0)
    for variant in VARIANTS:
        parameters = [torch.tensor(rng.normal(size=(3, *shape))) for shape in variant.shapes(8, 4)]
        masses, loss = predict_masses(settings, variant, batch, parameters)
        np.testing.assert_allclose(masses.sum(-1), 1.0)
        assert torch.isfinite(loss).all()
    weights = torch.tensor(rng.normal(size=(3, 8, 8)))
    masses, _ = predict_masses(settings, VARIANTS[0], batch, [weights])
    keys = batch.keys[1, 2].numpy()
    odds = np.exp(keys @ weights[1].numpy() @ keys[-1])
    np.testing.assert_allclose(masses[1, 2], odds / odds.sum())


def test_one_layer_retrieves_more_than_it_did_at_the_start():
    page = run_layers(few(steps=200), lambda *_: None)
    rows = [row for row in page.numbers.to_pylist() if row["model"] == "one layer"]
    first, last = (np.mean([row["missed"] for row in rows if row["step"] == step]) for step in (0, 200))
    assert last < 0.7 * first
    assert len(page.record["tables"][0]["rows"]) == len(VARIANTS)


def test_several_layers_and_layer_norm_are_the_definition():
    settings = few()
    batch, variant = gather_trials(settings), VARIANTS[9]
    assert variant.norm
    assert variant.skip
    rng = np.random.default_rng(1)
    parameters = [rng.normal(size=(3, *shape)) for shape in variant.shapes(8, 4)]
    masses, loss = predict_masses(settings, variant, batch, [torch.tensor(one) for one in parameters])
    first, last, gain, bias = (one[2] for one in parameters)
    losses = []
    for sample in range(batch.keys.shape[1]):
        keys = batch.keys[2, sample].numpy()
        pattern = np.exp(keys @ first.T @ keys.T)  # [query, key]: x_query Wᵀ x_key
        pattern /= pattern.sum(axis=1, keepdims=True)
        reach = (pattern + np.eye(4)) / 2
        read = reach @ keys
        read = (read - read.mean()) / np.sqrt(read.var() + 1e-5) * gain + bias
        odds = np.exp(read @ last @ keys[-1])
        odds /= odds.sum()
        np.testing.assert_allclose(masses[2, sample], odds @ reach)
        logits = odds @ read @ batch.head[2].numpy() / settings["temperature"]
        losses.append(np.log(np.exp(logits).sum()) - logits[batch.labels[2, sample]])
    np.testing.assert_allclose(loss[2], np.mean(losses))


def test_a_finished_model_is_read_again(tmp_path):
    settings = few(steps=3) | {"work": tmp_path}
    page = run_layers(settings, lambda *_: None)
    assert len(list(tmp_path.iterdir())) == len(VARIANTS)
    (tmp_path / "two-layers.json").unlink()
    assert run_layers(settings, lambda *_: None).numbers.equals(page.numbers)
