"""The contexts that a model is asked about, checked before it sees them."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples, MismatchedParts, TokenOutOfRange
from attomaton.base.options import show
from attomaton.base.tables import Integers
from attomaton.heads.model import Head, ModelShape


def check_contexts(tokens: Integers | Tensor, shape: ModelShape) -> Tensor:
    """Contexts of one length as a tensor of int64, shape (n, length), if the model takes them."""
    try:
        given: Any = tokens.detach().cpu().numpy() if isinstance(tokens, Tensor) else np.asarray(tokens)
    except ValueError:  # lists of unequal lengths
        given = np.empty(0)
    if given.ndim != 2 or not np.issubdtype(given.dtype, np.integer) or not given.size:
        raise InvalidSamples(
            f"contexts are {show(tokens)}; give whole numbers, shape (n, length), one token or more each"
        )
    if shape.longest is not None and given.shape[1] > shape.longest:
        raise InvalidSamples(
            f"contexts have {given.shape[1]:,} tokens, and the model takes {shape.longest:,}; cut them"
        )
    out = np.argwhere((given < 0) | (given >= shape.n_tokens))
    if len(out):
        row, place = (int(one) for one in out[0])
        raise TokenOutOfRange(
            f"token {given[row, place]} at place {place} of context {row} is not in 0 … "
            f"{shape.n_tokens - 1}; give ids of the model's own tokenizer"
        )
    return torch.as_tensor(given.astype(np.int64))


def check_tokens(tokens: Integers | Sequence[int], shape: ModelShape) -> Tensor:
    """Token ids in a row as a tensor of int64, shape (n,)."""
    given = np.asarray(tokens)
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise InvalidSamples(f"tokens are {show(tokens)}; give whole numbers, shape (n,)")
    if given.size and not 0 <= given.min() <= given.max() < shape.n_tokens:
        wrong = int(given.min() if given.min() < 0 else given.max())
        raise TokenOutOfRange(
            f"token {wrong} is not in 0 … {shape.n_tokens - 1}; give ids of the model's own tokenizer"
        )
    return torch.as_tensor(given.astype(np.int64))


def check_head(head: Head, shape: ModelShape) -> Head:
    """The head, if the model has it."""
    given = cast("Any", head)
    pair: tuple[Any, ...] = tuple(cast("tuple[Any, ...]", given)) if isinstance(given, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(one, int | np.integer) for one in pair):
        raise MismatchedParts(f"{show(head)} is no head; give Head(layer, number)")
    layer, number = pair
    if not (0 <= layer < shape.n_layers and 0 <= number < shape.n_heads):
        raise MismatchedParts(
            f"there is no head {layer}.{number}; layers are 0 … {shape.n_layers - 1} and heads 0 … "
            f"{shape.n_heads - 1}"
        )
    return Head(int(layer), int(number))


def check_heads(heads: Iterable[Head], shape: ModelShape) -> list[Head]:
    """The heads, if the model has them and each is there once."""
    found = [check_head(one, shape) for one in heads]
    twice = [one for place, one in enumerate(found) if one in found[:place]]
    if twice:
        raise MismatchedParts(f"head {twice[0]} is there twice; give each head once")
    return found


def keep_shape(edited: Tensor, given: Tensor, what: str) -> Tensor:
    """What an edit returned, if it has the shape of what it was given."""
    if edited.shape != given.shape:
        raise MismatchedParts(
            f"{what} returned shape {tuple(edited.shape)} for shape {tuple(given.shape)}; "
            "return the same shape"
        )
    return edited.to(given.dtype)
