"""Models with random heads."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attomaton.base.errors import UnsupportedOption
from attomaton.heads.arrays import from_arrays
from attomaton.heads.audit.randomised import permute_weights, rotate_beside, rotate_heads
from attomaton.heads.trained import watch_layer
from tests.heads.audit.standin import StandIn

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


def test_heads_beside_read_the_trained_stream_and_write_nothing():
    contexts = RNG.integers(0, 5, (3, 6))
    own, beside, rotated = MODEL.watch(contexts), rotate_beside(MODEL, seed=1), rotate_heads(MODEL, seed=1)
    seen = beside.watch(contexts)
    assert torch.equal(seen.logits, own.logits)
    for number in range(2):  # as if this layer alone were rotated
        layers = [rotated.layers[one] if one == number else MODEL.layers[one] for one in range(2)]
        alone = replace(MODEL, layers=tuple(layers)).watch(contexts)
        assert torch.equal(seen.patterns[number], alone.patterns[number])
    assert not torch.allclose(seen.patterns[1], rotated.watch(contexts).patterns[1])
    applied = []
    beside.watch(contexts, edit_patterns=lambda _, pattern: applied.append(pattern) or pattern)
    assert all(torch.equal(one, two) for one, two in zip(applied, own.patterns, strict=True))


def test_the_theorys_layer_reads_what_no_head_writes():
    layer, contexts = watch_layer(RNG.normal(size=(5, 4)), RNG.normal(size=(4, 4))), np.array([[0, 1, 4, 2]])
    one, two = (make(layer, seed=2).watch(contexts).patterns[0] for make in (rotate_beside, rotate_heads))
    assert torch.equal(one, two)
    assert not torch.allclose(one, layer.watch(contexts).patterns[0])


def test_models_without_weights_are_refused():
    with pytest.raises(UnsupportedOption, match="stand-in"):
        rotate_heads(StandIn(), seed=0)
