"""The same model with heads of random weights: what heads do by chance on this text.

Two kinds. Rotation keeps the singular values of query times key of every head, at every lag, and turns what
it reads by a random rotation; all else stays as it was trained. Permutation shuffles the entries of every
weight matrix but the embeddings, so that nothing of training is left.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attomaton.errors import UnsupportedOption
from attomaton.heads.model import HeadModel
from attomaton.heads.own import TheoryLayer
from attomaton.heads.parts import Layer, Linear
from attomaton.heads.transformer import Transformer
from attomaton.options import whole_number

_torch: Any = torch  # its types leave some functions partly unknown


def rotate_heads(model: HeadModel, *, seed: int) -> HeadModel:
    """The model with every head's queries and keys reading through random rotations of their own.

    W_Q becomes O W_Q for a random orthogonal O, another for each head, and W_K likewise for each group that
    shares keys: the singular values of W_Q R W_Kᵀ stay for every turn R of positions. Biases stay too.
    :func:`~attomaton.heads.random.randomise_heads` leaves them out and keeps the values for no turn only.
    The W of the theory's layer becomes O W O'.

    Examples
    --------
    >>> import numpy as np
    >>> from attomaton.heads.arrays import from_arrays
    >>> ones = np.ones((1, 1, 2, 2))
    >>> rotate_heads(from_arrays(np.eye(3, 2), ones, ones, ones, ones), seed=0).name
    'arrays with rotated heads, seed 0'
    """
    draw = _generator(seed)
    if isinstance(model, TheoryLayer):
        left, right = (_rotation(len(model.weights), draw) for _ in range(2))
        name = f"{model.name} with rotated heads, seed {seed}"
        return replace(model, name=name, weights=left @ model.weights @ right)
    whole = check_weights(model)

    def turn(part: Linear, count: int) -> Linear:
        weight = part.weight.double()
        turned = [_rotation(len(weight), draw) @ one for one in weight.chunk(count, 1)]
        return replace(part, weight=torch.cat(turned, 1).to(part.weight.dtype))

    def change(layer: Layer) -> Layer:
        attention = layer.attention
        query, key = turn(attention.query, whole.n_heads), turn(attention.key, whole.n_groups)
        return replace(layer, attention=replace(attention, query=query, key=key))

    return replace(
        whole,
        name=f"{whole.name} with rotated heads, seed {seed}",
        layers=tuple(change(layer) for layer in whole.layers),
    )


def permute_weights(model: HeadModel, *, seed: int) -> HeadModel:
    """The model with the entries of every weight matrix of its layers in random order.

    Embeddings, decoder, norms and biases stay.

    Examples
    --------
    >>> import numpy as np
    >>> from attomaton.heads.arrays import from_arrays
    >>> ones = np.ones((1, 1, 2, 2))
    >>> permute_weights(from_arrays(np.eye(3, 2), ones, ones, ones, ones), seed=0).name
    'arrays with permuted weights, seed 0'
    """
    whole, draw = check_weights(model), _generator(seed)

    def shuffle(weight: Tensor) -> Tensor:
        return weight.reshape(-1)[torch.randperm(weight.numel(), generator=draw)].reshape(weight.shape)

    return replace(
        whole,
        name=f"{whole.name} with permuted weights, seed {seed}",
        layers=tuple(_change_maps(layer, shuffle) for layer in whole.layers),
    )


def check_weights(model: HeadModel) -> Transformer:
    """The model, if its weights can be exchanged."""
    if isinstance(model, Transformer):
        return model
    raise UnsupportedOption(
        f"random heads are made of the weights of a model that was read, and {model.name} is none; "
        "give a folder, a file or arrays"
    )


def _change_maps(part: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A part with the weight of every linear map in it changed."""
    if isinstance(part, Linear):
        return replace(part, weight=change(part.weight))
    if not is_dataclass(part) or isinstance(part, type):
        return part
    inner = {one.name: _change_maps(getattr(part, one.name), change) for one in fields(part)}
    return replace(part, **inner)


def _generator(seed: int) -> torch.Generator:
    draw = torch.Generator()
    draw.manual_seed(whole_number(seed, "seed"))
    return draw


def _rotation(size: int, draw: torch.Generator) -> Tensor:
    """A random orthogonal matrix, every one equally likely."""
    q, r = _torch.linalg.qr(torch.randn(size, size, generator=draw, dtype=torch.float64))
    return q * _torch.sign(_torch.diagonal(r))
