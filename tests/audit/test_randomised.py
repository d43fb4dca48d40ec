"""Models with random heads."""

import numpy as np
import pytest
import torch

from attomaton.audit.randomised import permute_weights, rotate_heads
from attomaton.errors import UnsupportedOption
from attomaton.heads.arrays import from_arrays
from tests.audit.standin import StandIn

RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = RNG.normal(size=(3, 2, 2, 6, 3))
MODEL = from_arrays(RNG.normal(size=(5, 6)), QUERY, KEY, VALUE, RNG.normal(size=(2, 2, 3, 6)))


def spectra(model, layer):
    attention = model.layers[layer].attention
    pairs = zip(attention.query.weight.chunk(2, 1), attention.key.weight.chunk(2, 1), strict=True)
    return [torch.linalg.svdvals(query.double() @ key.double().T)[:3] for query, key in pairs]


def test_rotation_keeps_the_spectrum_and_nothing_else():
    rotated = rotate_heads(MODEL, seed=1)
    for layer in range(2):
        for old, new in zip(spectra(MODEL, layer), spectra(rotated, layer), strict=True):
            torch.testing.assert_close(old, new, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(
            MODEL.layers[layer].attention.query.weight, rotated.layers[layer].attention.query.weight
        )
        assert torch.equal(
            MODEL.layers[layer].attention.value.weight, rotated.layers[layer].attention.value.weight
        )


def test_permutation_keeps_the_entries():
    permuted = permute_weights(MODEL, seed=1)
    old, new = MODEL.layers[1].attention.output.weight, permuted.layers[1].attention.output.weight
    assert not torch.equal(old, new)
    assert torch.equal(old.flatten().sort().values, new.flatten().sort().values)
    assert torch.equal(MODEL.embedding, permuted.embedding)


def test_seeds_matter_and_are_kept():
    contexts = np.array([[0, 1, 2, 3]])
    one, two, other = (rotate_heads(MODEL, seed=seed).watch(contexts).logits for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_models_without_weights_are_refused():
    with pytest.raises(UnsupportedOption, match="stand-in"):
        rotate_heads(StandIn(), seed=0)
