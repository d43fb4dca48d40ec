"""Random heads: attention heads whose queries and keys read the residual stream through random rotations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attomaton.base.options import whole_number
from attomaton.heads.parts import AttentionMaps, Linear

_torch: Any = torch  # its type stubs leave some functions partly unknown


def make_generator(seed: int) -> torch.Generator:
    generator = torch.Generator()
    generator.manual_seed(whole_number(seed, "seed"))
    return generator


def draw_frame(size: int, width: int, draw: torch.Generator) -> Tensor:
    """A random matrix with orthonormal columns, min(size, width) of them, uniformly distributed."""
    drawn = torch.randn(size, min(size, width), generator=draw, dtype=torch.float64)
    q, r = _torch.linalg.qr(drawn)
    return q * _torch.sign(_torch.diagonal(r))


def rotate_weight(weight: Tensor, draw: torch.Generator) -> Tensor:
    """O W for a random rotation O, from W of shape (dim, width), in float64."""
    # If W = Q R with orthonormal columns Q, then O Q is uniformly distributed among the matrices with
    # orthonormal columns. So a random frame times R is enough.
    r: Tensor = _torch.linalg.qr(weight.double()).R
    return draw_frame(weight.shape[0], weight.shape[1], draw) @ r


def rotate_maps(
    layers: Sequence[AttentionMaps], n_heads: int, n_groups: int, *, seed: int
) -> tuple[AttentionMaps, ...]:
    """Attention maps with the queries of each head, and the keys of each group, rotated."""
    draw = make_generator(seed)

    def rotate(linear: Linear, count: int) -> Linear:
        heads = [rotate_weight(head, draw) for head in linear.weight.chunk(count, 1)]
        return replace(linear, weight=torch.cat(heads, 1).to(linear.weight.dtype))

    return tuple(
        replace(maps, query=rotate(maps.query, n_heads), key=rotate(maps.key, n_groups)) for maps in layers
    )
