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
        shapes = [(8, 8)] * variant.n_layers + [(16, 8), (8, 16)] * variant.mlp
        parameters = [torch.tensor(rng.normal(size=(3, *shape))) for shape in shapes]
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
