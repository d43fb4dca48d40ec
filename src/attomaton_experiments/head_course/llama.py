"""A small language model of the Llama family, with the parameter names of ``LlamaForCausalLM``."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import settle, whole_number

_torch: Any = torch  # its type stubs leave some functions partly unknown

THETA = 10_000.0
"""The base of the rotary angles."""

EPSILON = 1e-5
"""Added to mean squares before their roots are taken."""


@dataclass(frozen=True)
class LlamaShape:
    """The sizes of a model.

    Attributes
    ----------
    n_tokens : int
        The vocabulary.
    longest : int
        Tokens in a training context.
    width, inner : int
        Width of the residual stream and of the MLPs.
    n_layers, n_heads : int
        Layers, and heads per layer.

    Examples
    --------
    >>> LlamaShape(512).config()["model_type"]
    'llama'
    """

    n_tokens: int
    longest: int = 128
    width: int = 64
    inner: int = 128
    n_layers: int = 4
    n_heads: int = 4

    def __post_init__(self) -> None:
        settle(self, **{name: whole_number(value, name, least=1) for name, value in vars(self).items()})
        if self.width % (2 * self.n_heads):
            raise UnsupportedOption(
                f"rotary positions turn pairs of numbers, so the width {self.width} must be a multiple of "
                f"{2 * self.n_heads}, twice the number of heads"
            )

    def config(self) -> dict[str, Any]:
        """The content of ``config.json``."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": self.n_tokens,
            "max_position_embeddings": self.longest,
            "hidden_size": self.width,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.n_layers,
            "num_attention_heads": self.n_heads,
            "num_key_value_heads": self.n_heads,
            "hidden_act": "silu",
            "rms_norm_eps": EPSILON,
            "rope_theta": THETA,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
        }


class SmallLlama(nn.Module):
    """The model, with random weights from PyTorch's generator.

    Examples
    --------
    >>> model = SmallLlama(LlamaShape(5, longest=4, width=8, inner=8, n_layers=1, n_heads=2))
    >>> model.loss(torch.tensor([[0, 1, 2, 1, 0]])).shape  # four positions, each with its label
    torch.Size([1, 4])
    """

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(shape.n_tokens, shape.width),
                "layers": nn.ModuleList(LlamaLayer(shape) for _ in range(shape.n_layers)),
                "norm": nn.RMSNorm(shape.width, EPSILON),
            }
        )
        nn.init.normal_(self._module("embed_tokens").weight, std=0.02)
        self._turns: tuple[Tensor, Tensor] = _turns(shape)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits, shape (n, length, n_tokens)."""
        embedding = self._module("embed_tokens")
        stream: Tensor = embedding(tokens)
        turns = self._turns[0][: tokens.shape[1]], self._turns[1][: tokens.shape[1]]
        for layer in self._module("layers"):
            stream = layer(stream, turns)
        return self._module("norm")(stream) @ embedding.weight.T

    def loss(self, tokens: Tensor) -> Tensor:
        """−ln p(next token) at every position, shape (n, length), for rows of shape (n, length + 1)."""
        logits, label = self(tokens[:, :-1]), tokens[:, 1:]
        losses = functional.cross_entropy(logits.flatten(0, 1), label.flatten(), reduction="none")
        return losses.view(label.shape)

    def _module(self, name: str) -> Any:
        return self.model[name]


class LlamaLayer(nn.Module):
    """Attention and an MLP, each reading the normalised stream and adding to it."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        width, inner, self.n_heads = shape.width, shape.inner, shape.n_heads
        sizes = {"q_proj": (width, width), "k_proj": (width, width), "v_proj": (width, width)}
        self.self_attn = nn.ModuleDict(_linears(sizes | {"o_proj": (width, width)}))
        sizes = {"gate_proj": (width, inner), "up_proj": (width, inner), "down_proj": (inner, width)}
        self.mlp = nn.ModuleDict(_linears(sizes))
        self.input_layernorm = nn.RMSNorm(width, EPSILON)
        self.post_attention_layernorm = nn.RMSNorm(width, EPSILON)
        with torch.no_grad():
            for output in (self.self_attn["o_proj"], self.mlp["down_proj"]):
                output.get_parameter("weight").mul_((2 * shape.n_layers) ** -0.5)

    def forward(self, stream: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """The stream after the layer."""
        read = self.input_layernorm(stream)
        query, key, value = (
            self._split(self.self_attn[name](read)) for name in ("q_proj", "k_proj", "v_proj")
        )
        output = functional.scaled_dot_product_attention(
            _turn(query, turns), _turn(key, turns), value, is_causal=True
        )
        stream = stream + self.self_attn["o_proj"](output.transpose(1, 2).flatten(2))
        read = self.post_attention_layernorm(stream)
        inner = functional.silu(self.mlp["gate_proj"](read)) * self.mlp["up_proj"](read)
        return stream + self.mlp["down_proj"](inner)

    def _split(self, stream: Tensor) -> Tensor:
        """Shape (n, length, width) to (n, n_heads, length, head width)."""
        return stream.view(*stream.shape[:2], self.n_heads, -1).transpose(1, 2)


def _linears(sizes: dict[str, tuple[int, int]]) -> dict[str, nn.Module]:
    """Maps without bias that preserve the mean square of their input at first."""
    maps: dict[str, nn.Module] = {}
    for name, (read, written) in sizes.items():
        linear = nn.Linear(read, written, bias=False)
        nn.init.normal_(linear.weight, std=read**-0.5)
        maps[name] = linear
    return maps


def _turns(shape: LlamaShape) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary angles, each of shape (longest, head width)."""
    width = shape.width // shape.n_heads
    rates = THETA ** (-torch.arange(0, width, 2) / width)
    angles = _torch.outer(torch.arange(shape.longest), rates).repeat(1, 2)
    return angles.cos(), angles.sin()


def _turn(vectors: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Vectors turned by their positions' angles; the two halves of a vector are its coordinates."""
    left, right = vectors.chunk(2, -1)
    return vectors * turns[0] + torch.cat([-right, left], -1) * turns[1]
