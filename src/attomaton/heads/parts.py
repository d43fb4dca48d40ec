"""The parts of transformers: norms, linear maps, attention, feed-forward layers, RoPE."""

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
"""Name of an activation in configurations → the function."""


@dataclass(frozen=True, eq=False)
class Linear:
    """x W + b.

    ``weight`` has shape (n_in, n_out), ``bias`` (n_out,).
    """

    weight: Tensor
    bias: Tensor | None = None

    def apply(self, inputs: Tensor) -> Tensor:
        """Apply the map along the last axis."""
        outputs = inputs @ self.weight
        return outputs if self.bias is None else outputs + self.bias


@dataclass(frozen=True, eq=False)
class Normalisation:
    """x / √(mean(x²) + eps) · gain + shift; LayerNorm subtracts the mean of x first, RMSNorm does not.

    ``centred`` means LayerNorm. ``gain`` and ``shift`` have shape (dim,); None means one and zero.

    Attributes
    ----------
    centred : bool
        Whether it is LayerNorm.
    eps : float
        What keeps the root from zero.
    gain, shift : Tensor, shape (dim,), optional
        None means one and zero.
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
        """The norm of one addend with a scale of one: centred, times the gain, without shift."""
        written = written - written.mean(-1, keepdim=True) if self.centred else written
        return written if self.gain is None else written * self.gain


def normalise(norm: Normalisation | None, inputs: Tensor) -> Tensor:
    """The inputs through a norm, or as they are if there is none."""
    return inputs if norm is None else norm.apply(inputs)


@dataclass(frozen=True)
class RotaryBands:
    """The scaling of RoPE in Llama 3: slow coordinate pairs are slowed further, by ``factor``.

    Slow pairs make fewer than ``low`` rotations over ``length`` positions. Pairs with more than ``high``
    rotations keep their frequency; between the two it is interpolated.
    """

    factor: float
    low: float
    high: float
    length: float

    def apply(self, frequencies: Tensor) -> Tensor:
        """The scaled frequencies of all pairs."""
        waves = 2 * torch.pi / frequencies  # in positions
        slow = torch.where(waves > self.length / self.low, frequencies / self.factor, frequencies)
        share = (self.length / waves - self.low) / (self.high - self.low)
        between = (waves >= self.length / self.high) & (waves <= self.length / self.low)
        return torch.where(between, (1 - share) * slow / self.factor + share * slow, slow)


@dataclass(frozen=True)
class Rotary:
    """RoPE: coordinate i of the first half of ``width`` is rotated with coordinate i of the second half.

    Attributes
    ----------
    width : int
        How many coordinates of a head are rotated, from the first on.
    theta : float
        Coordinate pair i is rotated by position·theta^(−2i/width).
    divisors : tuple of float
        Divisor of the angle of each pair, in models scaled for longer contexts; empty means 1.
    bands : RotaryBands, optional
        The scaling of Llama 3.
    """

    width: int
    theta: float
    divisors: tuple[float, ...] = ()
    bands: RotaryBands | None = None

    def rotate(self, vectors: Tensor, positions: Tensor) -> Tensor:
        """The last axis rotated by the positions, which run along the axis before, and others if need be.

        Angles are computed in the type of ``vectors``, since models are trained with angles in float32.
        """
        frequencies = 1.0 / self.theta ** (torch.arange(0, self.width, 2, dtype=vectors.dtype) / self.width)
        if self.divisors:
            frequencies = frequencies / torch.tensor(self.divisors, dtype=vectors.dtype)
        if self.bands is not None:
            frequencies = self.bands.apply(frequencies)
        angles = positions.to(vectors.dtype)[..., None] * frequencies
        cosines, sines = angles.cos(), angles.sin()
        half = self.width // 2
        first, second = vectors[..., :half], vectors[..., half : self.width]
        rotated = (first * cosines - second * sines, second * cosines + first * sines)
        return torch.cat([*rotated, vectors[..., self.width :]], -1)


@dataclass(frozen=True, eq=False)
class FeedForward:
    """act(x into) out, or (act(x gate) · (x into)) out.

    ``into`` and ``out`` map to the inner width and back, ``activation`` is one of ``ACTIVATIONS``, and Llama
    has a ``gate``.
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
        """The output, which is added to the residual stream."""
        act, inner = ACTIVATIONS[self.activation], self.into.apply(inputs)
        return self.out.apply(act(inner) if self.gate is None else act(self.gate.apply(inputs)) * inner)


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """The maps of all heads of a layer, side by side.

    Attributes
    ----------
    query : Linear, (dim, n_heads · width)
        W_Q.
    key, value : Linear, (dim, n_groups · width)
        W_K and W_V. Head h uses group h·n_groups//n_heads; usually there are as many groups as heads.
    output : Linear, (n_heads · width, dim)
        W_O.
    scale : float
        Multiplies query·key, usually 1/√width.
    lag_biases : Tensor, shape (n_heads, window), optional
        Added to the score of the key at each lag before the query.
    query_norm, key_norm : Normalisation, optional
        Applied to queries and keys before RoPE: to each head, or to all heads together, depending on the
        length of its gain.
    window : int, optional
        Size of the sliding window: keys at this lag or further back are masked. None means no window.
    rotary : Rotary, optional
        RoPE of this layer, if it differs from the model's.
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


def _norm_heads(norm: Normalisation | None, projected: Tensor) -> Tensor:
    """Normalise each part of the last axis that is as long as the norm's gain."""
    if norm is None or norm.gain is None:
        return projected
    return norm.apply(projected.reshape(*projected.shape[:-1], -1, len(norm.gain))).flatten(-2)


@dataclass(frozen=True, eq=False)
class Layer:
    """Attention and a feed-forward layer, each after its norm; None means absent.

    Attributes
    ----------
    attention : AttentionMaps
        The maps of its heads.
    norm : Normalisation, optional
        What attention reads the residual stream through.
    feed : FeedForward, optional
        The feed-forward layer.
    feed_norm : Normalisation, optional
        What the feed-forward layer reads the residual stream through.
    output_norm, feed_output_norm : Normalisation, optional
        Applied to the outputs of both before they are added to the residual stream.
    """

    attention: AttentionMaps
    norm: Normalisation | None = None
    feed: FeedForward | None = None
    feed_norm: Normalisation | None = None
    output_norm: Normalisation | None = None
    feed_output_norm: Normalisation | None = None


def in_dtype(module: Module, dtype: torch.dtype) -> Module:
    """The same module with all its tensors as ``dtype``; tensors that already are so are not copied."""
    if isinstance(module, Tensor):
        return cast("Module", module.to(dtype))
    if not is_dataclass(module) or isinstance(module, type):
        return module
    values: dict[str, Any] = {member.name: getattr(module, member.name) for member in fields(module)}
    whole: Any = module
    return replace(whole, **{name: in_dtype(value, dtype) for name, value in values.items()})
