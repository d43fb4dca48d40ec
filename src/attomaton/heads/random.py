"""Random heads with the spectrum of a model's own: what a measure says where nothing was learned."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from attomaton.heads.parts import AttentionMaps, Layer, Linear
from attomaton.heads.transformer import Transformer


def randomise_heads(model: Transformer, rng: np.random.Generator) -> Transformer:
    """The model with random queries and keys: of every head Q Kᵀ keeps its singular values and nothing else.

    Both sets of singular vectors are drawn uniformly, and biases of queries and keys are left out. Heads that
    shared keys get keys of their own; values, outputs and all other parts stay. This is enough for token
    scores at one lag. :func:`~attomaton.heads.audit.randomised.rotate_heads`, which an audit uses, keeps the
    singular values at every lag, shared keys and biases.
    """
    layers = tuple(_randomise(model, layer, rng) for layer in model.layers)
    return replace(model, name=f"{model.name}, random heads", layers=layers, n_groups=model.n_heads)


def _randomise(model: Transformer, layer: Layer, rng: np.random.Generator) -> Layer:
    attention, heads = layer.attention, model.n_heads
    same = heads // model.n_groups
    dim = attention.query.weight.shape[0]
    asked = attention.query.weight.double().reshape(dim, heads, -1)
    offered = attention.key.weight.double().reshape(dim, model.n_groups, -1).repeat_interleave(same, 1)
    drawn = [_draw(asked[:, head], offered[:, head], rng) for head in range(heads)]
    query, key = (torch.cat([pair[side] for pair in drawn], 1) for side in range(2))
    value = attention.value
    width = value.weight.shape[1] // model.n_groups
    spread = value.weight.reshape(dim, model.n_groups, width).repeat_interleave(same, 1).flatten(1)
    bias = value.bias
    if bias is not None:
        bias = bias.reshape(model.n_groups, width).repeat_interleave(same, 0).flatten()
    dtype = attention.query.weight.dtype
    made = AttentionMaps(
        Linear(query.to(dtype)),
        Linear(key.to(dtype)),
        Linear(spread, bias),
        attention.output,
        attention.scale,
        attention.lags,
    )
    return replace(layer, attention=made)


def _draw(asked: Tensor, offered: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Random maps (dim, width) whose product has the singular values of the product of these."""
    triangles = [np.linalg.qr(one.numpy())[1] for one in (asked, offered)]
    sizes = np.sqrt(np.linalg.svd(triangles[0] @ triangles[1].T, compute_uv=False))
    dim, width = asked.shape
    padded = np.zeros(width)
    padded[: len(sizes)] = sizes
    sides: list[Tensor] = []
    for _ in range(2):
        basis = np.zeros((dim, width))
        basis[:, : min(dim, width)] = np.linalg.qr(rng.normal(size=(dim, min(dim, width))))[0]
        sides.append(torch.as_tensor(basis * padded))
    return sides[0], sides[1]
