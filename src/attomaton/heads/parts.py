"""Parts of transformers: linear maps, norms, rotary positions (RoPE), feed-forward layers, attention."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import show

Module = TypeVar("Module")


def _gelu_by_tanh(values: Tensor) -> Tensor:
    return functional.gelu(values, approximate="tanh")


def _quick_gelu(values: Tensor) -> Tensor:
    return values * torch.sigmoid(1.702 * values)


# Name of an activation in configurations → the function.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_fast": _gelu_by_tanh,
    "gelu_new": _gelu_by_tanh,
    "gelu_pytorch_tanh": _gelu_by_tanh,
    "quick_gelu": _quick_gelu,
    "relu": functional.relu,
    "silu": functional.silu,
    "swish": functional.silu,
}


@dataclass(frozen=True, eq=False)
class Linear:
    """x W + b, with ``weight`` W of shape (n_in, n_out) and ``bias`` b of shape (n_out,), or None."""

    weight: Tensor
    bias: Tensor | None = None

    def apply(self, inputs: Tensor) -> Tensor:
        """Apply the map along the last axis."""
        outputs = inputs @ self.weight
        return outputs if self.bias is None else outputs + self.bias


@dataclass(frozen=True, eq=False)
class Normalisation:
    """x / √(mean(x²) + eps) · gain + shift; LayerNorm subtracts the mean of x first, RMSNorm does not.

    ``centred`` means LayerNorm, and ``eps`` keeps the root from zero. ``gain`` and ``shift`` have shape
    (dim,); None means one and zero.
    """

    centred: bool
    eps: float
    gain: Tensor | None = None
    shift: Tensor | None = None

    def apply(self, inputs: Tensor) -> Tensor:
        """Normalise along the last axis."""
        if self.centred:
            return functional.layer_norm(inputs, inputs.shape[-1:], self.gain, self.shift, self.eps)
        inputs = inputs * torch.rsqrt(inputs.square().mean(-1, keepdim=True) + self.eps)
        inputs = inputs if self.gain is None else inputs * self.gain
        return inputs if self.shift is None else inputs + self.shift

    def apply_unscaled(self, written: Tensor) -> Tensor:
        """What an addend contributes to the norm at a scale of one: centred and times the gain, no shift."""
        written = written - written.mean(-1, keepdim=True) if self.centred else written
        return written if self.gain is None else written * self.gain


def normalise(norm: Normalisation | None, inputs: Tensor) -> Tensor:
    return inputs if norm is None else norm.apply(inputs)


@dataclass(frozen=True)
class RotaryBands:
    """The scaling of RoPE in Llama 3: frequencies of slow coordinate pairs are divided by ``factor``.

    Slow pairs make fewer than ``low`` rotations over ``length`` positions. Pairs with more than ``high``
    rotations keep their frequency; between the two it is interpolated.
    """

    factor: float
    low: float
    high: float
    length: float

    def apply(self, frequencies: Tensor) -> Tensor:
        """The scaled frequencies of all pairs."""
        waves = 2 * torch.pi / frequencies  # positions in a rotation
        slow = torch.where(waves > self.length / self.low, frequencies / self.factor, frequencies)
        share = (self.length / waves - self.low) / (self.high - self.low)
        between = (waves >= self.length / self.high) & (waves <= self.length / self.low)
        return torch.where(between, (1 - share) * slow / self.factor + share * slow, slow)


@dataclass(frozen=True)
class Rotary:
    """RoPE: of the first ``width`` coordinates of a head, i of the first half is paired with i of the second.

    Pair i is rotated by position·``theta``^(−2i/width). In models scaled for longer contexts, ``divisors``
    divide the angles of the pairs, and ``bands`` are the scaling of Llama 3.
    """

    width: int
    theta: float
    divisors: tuple[float, ...] = ()
    bands: RotaryBands | None = None

    def rotate(self, vectors: Tensor, positions: Tensor) -> Tensor:
        """Vectors along the last axis, rotated by the positions, which belong to the axis before it."""
        # Angles are computed in the type of ``vectors``, since models are trained with angles in float32.
        frequencies = 1.0 / self.theta ** (torch.arange(0, self.width, 2, dtype=vectors.dtype) / self.width)
        if self.divisors:
            frequencies = frequencies / torch.tensor(self.divisors, dtype=vectors.dtype)
        if self.bands is not None:
            frequencies = self.bands.apply(frequencies)
        angles = positions.to(vectors.dtype)[..., None] * frequencies
        cosines, sines = angles.cos(), angles.sin()
        # the pair (first[i], second[i]) is rotated by angle i; other coordinates stay
        half = self.width // 2
        first, second = vectors[..., :half], vectors[..., half : self.width]
        rotated = (first * cosines - second * sines, second * cosines + first * sines)
        return torch.cat([*rotated, vectors[..., self.width :]], -1)


@dataclass(frozen=True, eq=False)
class FeedForward:
    """act(x into) out, or (act(x gate) · (x into)) out.

    ``into`` and ``out`` map to the inner width and back, ``activation`` is the name of act in
    ``ACTIVATIONS``, and models such as Llama have a ``gate``.
    """

    into: Linear
    out: Linear
    activation: str
    gate: Linear | None = None

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise UnsupportedOption(
                f"activation is {show(self.activation)}; choose one of {', '.join(ACTIVATIONS)}"
            )

    def apply(self, inputs: Tensor) -> Tensor:
        """The output for inputs along the last axis."""
        act = ACTIVATIONS[self.activation]
        inner = self.into.apply(inputs)
        return self.out.apply(act(inner) if self.gate is None else act(self.gate.apply(inputs)) * inner)


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """The maps of all heads of a layer, one beside the other.

    ``query`` (dim, n_heads · width), ``key`` and ``value`` (dim, n_groups · width) and ``output`` (n_heads ·
    width, dim) are W_Q, W_K, W_V and W_O; head h uses group h·n_groups//n_heads. ``scale`` multiplies
    query·key, usually 1/√width. ``lag_biases`` (n_heads, window) are added to the score of the key at each
    lag before the query. ``query_norm`` and ``key_norm`` are applied before RoPE, to each head or to all
    heads together, as the length of their gain says. Keys ``window`` positions or more before the query are
    masked. ``rotary`` is the RoPE of this layer, if it differs from that of the model.
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    scale: float
    lag_biases: Tensor | None = None
    query_norm: Normalisation | None = None
    key_norm: Normalisation | None = None
    window: int | None = None
    rotary: Rotary | None = None

    def project_queries(self, read: Tensor) -> Tensor:
        """Queries of all heads side by side, normed where the layer does so, without RoPE."""
        return _norm_heads(self.query_norm, self.query.apply(read))

    def project_keys(self, read: Tensor) -> Tensor:
        """Keys of all groups side by side, normed where the layer does so, without RoPE."""
        return _norm_heads(self.key_norm, self.key.apply(read))


# Normalise each stretch of the last axis that is as long as the gain of the norm.
def _norm_heads(norm: Normalisation | None, projected: Tensor) -> Tensor:
    if norm is None or norm.gain is None:
        return projected
    return norm.apply(projected.reshape(*projected.shape[:-1], -1, len(norm.gain))).flatten(-2)


@dataclass(frozen=True, eq=False)
class Layer:
    """``attention`` and a feed-forward layer, ``feed``.

    They read the residual stream through ``norm`` and ``feed_norm``; ``output_norm`` and ``feed_output_norm``
    are applied to their outputs, before these are added to the residual stream.
    """

    attention: AttentionMaps
    norm: Normalisation | None = None
    feed: FeedForward | None = None
    feed_norm: Normalisation | None = None
    output_norm: Normalisation | None = None
    feed_output_norm: Normalisation | None = None


def in_dtype(module: Module, dtype: torch.dtype) -> Module:
    """The module with all its tensors as ``dtype``; tensors that have this type are not copied."""
    if isinstance(module, Tensor):
        return cast("Module", module.to(dtype))
    if not is_dataclass(module) or isinstance(module, type):
        return module
    values = {field.name: in_dtype(getattr(module, field.name), dtype) for field in fields(module)}
    return replace(cast("Any", module), **values)
