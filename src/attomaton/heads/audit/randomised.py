"""The same model with random heads: the null distribution of what heads do on this text.

Rotation keeps the singular values of query times key of every head, at every lag, and rotates the input
randomly; all else stays as trained. If every layer is rotated (``rotate_heads``), heads deep in the model
read the output of random heads, vary too little, and let too many heads pass the test. So audits use heads
that read the trained residual stream (``rotate_beside``): :func:`draw_random_heads` is called by the audit.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.options import whole_number
from attomaton.heads.model import HeadModel, RotatableModel
from attomaton.heads.parts import Linear
from attomaton.heads.rotations import make_generator
from attomaton.heads.trained import TheoryLayer
from attomaton.heads.transformer import Transformer

MOST_DRAWS = 100  # the largest number of draws of random heads in an audit


def rotate_heads(model: HeadModel, *, seed: int) -> HeadModel:
    """Rotate what the queries and keys of each head read, at random; all else stays as trained.

    W_Q becomes O W_Q with a random orthogonal matrix O for each head. W_K is rotated in the same way, with
    one matrix for each group of heads that share keys. So the singular values of W_Q R W_Kᵀ stay for every
    rotation R of RoPE. In a ``TheoryLayer``, W becomes O W O' with a second rotation O'.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> rotate_heads(example_audit()[0], seed=0).name
    'arrays with rotated heads, seed 0'
    """
    if isinstance(model, TheoryLayer):
        return model.rotate(seed=seed)
    whole = need_weights(model)
    rotated = whole.rotate(seed=seed).recorded or ()
    return replace(
        whole,
        name=f"{whole.name} with rotated heads, seed {seed}",
        layers=tuple(
            replace(layer, attention=maps) for layer, maps in zip(whole.layers, rotated, strict=True)
        ),
    )


def rotate_beside(model: HeadModel, *, seed: int) -> HeadModel:
    """Add random heads to a model: their attention is recorded, but they write nothing.

    The added heads are rotated as by :func:`rotate_heads`, but in every layer they read the residual stream
    of the trained model. Edits of patterns and outputs apply to the trained heads only. A theory layer reads
    embeddings, which no head changes, so it is rotated as by ``rotate_heads``.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> rotate_beside(example_audit()[0], seed=0).name
    'arrays with rotated heads beside its own, seed 0'
    """
    return model.rotate(seed=seed) if isinstance(model, RotatableModel) else need_weights(model)


class RandomHeads(NamedTuple):
    """Models with random heads."""

    models: Sequence[HeadModel]
    null: str = "intact"  # how they were made, as in ``HeadAudit``
    note: str = ""  # for readers of the audit


def draw_random_heads(model: HeadModel, random: int | Sequence[HeadModel], *, seed: int) -> RandomHeads:
    """Draw random heads this many times, or take models with random heads, if they fit the model."""
    drawn = _draw(model, random, seed)
    for control in drawn.models:
        if control.shape.heads != model.shape.heads:
            raise MismatchedParts(
                f"{control.name} and {model.name} have different layers or heads; give models with "
                "random heads of the same shape"
            )
    if len(drawn.models) * len(model.shape.heads) == 1:
        raise UnsupportedOption(
            f"{model.name} gets one random head, which is too few for a comparison; "
            "give random=2 or more, or random=0 for no comparison"
        )
    return drawn


# If random heads cannot be made, there are none, with a note that says why.
def _draw(model: HeadModel, random: int | Sequence[HeadModel], seed: int) -> RandomHeads:
    if isinstance(random, Sequence) and not isinstance(random, str):
        return RandomHeads(random, "given")
    count = whole_number(random, "random", most=MOST_DRAWS)
    if count and not isinstance(model, RotatableModel):
        note = (
            f"No head is compared with random heads, because these are made from weights, and "
            f"attomaton cannot read the weights of {model.name}; give models with random heads as random."
        )
        return RandomHeads((), note=note)
    try:
        models = [rotate_beside(model, seed=seed + draw) for draw in range(count)]
    except UnsupportedOption as error:
        return RandomHeads((), note=f"No head is compared with random heads: {error}.")
    if not any(getattr(drawn, "shares_rotations", False) for drawn in models):
        return RandomHeads(models)
    note = (
        f"The query and key weights of {model.name} cannot be changed (quantised, offloaded, or no linear "
        "map for each head). So all random heads of a layer share one rotation, and each draw counts as one "
        "sample; use random=8 or more."
    )
    return RandomHeads(models, "inputs", note)


def permute_weights(model: HeadModel, *, seed: int) -> HeadModel:
    """Shuffle the entries of each weight matrix in the layers; embeddings, decoder, norms and biases stay.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> permute_weights(example_audit()[0], seed=0).name
    'arrays with permuted weights, seed 0'
    """
    whole = need_weights(model)
    draw = make_generator(seed)

    def shuffle(weight: Tensor) -> Tensor:
        return weight.reshape(-1)[torch.randperm(weight.numel(), generator=draw)].reshape(weight.shape)

    return replace(
        whole,
        name=f"{whole.name} with permuted weights, seed {seed}",
        layers=tuple(_change_maps(layer, shuffle) for layer in whole.layers),
    )


def need_weights(model: HeadModel) -> Transformer:
    """The model, or an error if its weights cannot be read."""
    if isinstance(model, Transformer):
        return model
    raise UnsupportedOption(
        f"random heads are made from weights, and {model.name} gives no access to them; open a folder, a "
        "file or arrays, or use open_model(model, dtype='float32')"
    )


# A copy of a layer with changed weights in all its linear maps, at any depth of its dataclasses.
def _change_maps(module: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(module, Linear):
        return replace(module, weight=change(module.weight))
    if not is_dataclass(module) or isinstance(module, type):
        return module
    inner = {member.name: _change_maps(getattr(module, member.name), change) for member in fields(module)}
    return replace(module, **inner)
