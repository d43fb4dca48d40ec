"""The supported models, built from tensors by the names that files and ``transformers`` give them."""

# `build_model` makes a `Transformer` from settings and tensors. A function such as `_llama_layer` makes the
# layers of a family. The weight of a linear map has shape (n_out, n_in) in most files, but shape (n_in,
# n_out) in GPT-2 and in `Linear`.

import re
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import brief
from attomaton.heads.parts import AttentionMaps, FeedForward, Layer, Linear, Normalisation
from attomaton.heads.reading.configs import Settings, parse_settings
from attomaton.heads.transformer import Transformer

# Masks and frequencies that old files store beside the weights; they follow from the configuration.
BUFFERS = re.compile(r"\.(attn|attention)\.(masked_)?bias$|rotary_emb\.inv_freq$")

NORM_NAMES = ("input_layernorm", "post_attention_layernorm")

# Family → the norms before attention and before the feed-forward layer, and after each of the two.
FOUR_NORMS = {
    "gemma3_text": (
        "input_layernorm",
        "pre_feedforward_layernorm",
        "post_attention_layernorm",
        "post_feedforward_layernorm",
    ),
    "olmo2": (None, None, "post_attention_layernorm", "post_feedforward_layernorm"),
}

CHECKED_AT_ONCE = 1 << 24  # numbers of a tensor that are checked at once, to bound memory


class NamedTensors:
    """Tensors by name: each is checked when it is used, and at the end all must have been used."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self._unused = set(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor with this name, if it has this shape and is of finite floats."""
        if name not in self._tensors:
            raise UnreadableModel(f"there is no tensor {name!r}, which the configuration requires")
        tensor = self._tensors[name].detach()
        self._unused.discard(name)
        if tuple(tensor.shape) != shape:
            raise UnreadableModel(
                f"tensor {name!r} has shape {list(tensor.shape)} but the configuration requires {list(shape)}"
            )
        if not tensor.dtype.is_floating_point:
            raise UnreadableModel(f"tensor {name!r} has the type {tensor.dtype}; weights must be floats")
        flat = tensor.reshape(-1)
        for first in range(0, len(flat), CHECKED_AT_ONCE):
            if not bool(torch.isfinite(flat[first : first + CHECKED_AT_ONCE]).all()):
                raise UnreadableModel(f"tensor {name!r} contains numbers that are not finite")
        return tensor

    def linear(self, name: str, n_in: int, n_out: int, *, biased: bool) -> Linear:
        """A map in PyTorch's layout, shape (n_out, n_in)."""
        weight = self.take(f"{name}.weight", n_out, n_in).T
        return Linear(weight, self.take(f"{name}.bias", n_out) if biased else None)

    def norm(self, name: str, settings: Settings, size: int | None = None) -> Normalisation:
        """A LayerNorm in GPT families, otherwise an RMSNorm, which has no shift. Gemma stores gain − 1."""
        centred = settings.family in ("gpt2", "gpt_neo", "gpt_neox")
        gain = self.take(f"{name}.weight", settings.dim if size is None else size)
        if settings.family == "gemma3_text":
            gain = 1.0 + gain.to(torch.promote_types(gain.dtype, torch.float32))
        shift = self.take(f"{name}.bias", settings.dim) if centred else None
        return Normalisation(centred=centred, eps=settings.eps, gain=gain, shift=shift)

    def decoder(self, name: str, embedding: Tensor, settings: Settings) -> Linear:
        """The map to logits: the transposed embedding if it is tied, otherwise the tensor with this name."""
        if name in self and not settings.tied:
            return Linear(self.take(name, settings.n_tokens, settings.dim).T)
        if not settings.tied:
            raise UnreadableModel(f"there is no tensor {name!r}, but tie_word_embeddings is not true")
        if name in self and not torch.equal(self.take(name, settings.n_tokens, settings.dim), embedding):
            raise UnreadableModel(f"tie_word_embeddings is true, but tensor {name!r} is not the embedding")
        return Linear(embedding.T)

    def finish(self) -> None:
        """Raise an error if a tensor was not used: the model would differ from the trained model."""
        unused = sorted(name for name in self._unused if not BUFFERS.search(name))
        if unused:
            raise UnreadableModel(
                f"tensor {brief(unused[0])!r} does not belong to a model of this configuration "
                f"({len(unused)} such tensors)"
            )


def build_model(
    settings: Settings, tensors: Mapping[str, Tensor], name: str, dtype: torch.dtype = torch.float32
) -> Transformer:
    """The model with these settings and tensors, which have the names that ``transformers`` gives them."""
    weights = NamedTensors(tensors)
    names = FAMILY_NAMES.get(settings.family, LLAMA)
    # a model that was saved without its decoder has names without the prefix
    stem = names.stem if f"{names.stem}{names.embedding}" in weights else ""
    embedding = weights.take(f"{stem}{names.embedding}", settings.n_tokens, settings.dim)
    position_embeddings = None
    if settings.family in ("gpt2", "gpt_neo"):
        position_embeddings = weights.take(f"{stem}wpe.weight", settings.longest, settings.dim)
    layers = tuple(
        names.build(settings, weights, f"{stem}{names.layers}.{number}.", number)
        for number in range(settings.n_layers)
    )
    is_old_neox = settings.family == "gpt_neox" and "lm_head.weight" not in weights
    model = Transformer(
        name,
        n_heads=settings.n_heads,
        n_groups=settings.n_groups,
        embedding=embedding,
        layers=layers,
        decoder=weights.decoder("embed_out.weight" if is_old_neox else "lm_head.weight", embedding, settings),
        final_norm=weights.norm(f"{stem}{names.final_norm}", settings),
        position_embeddings=position_embeddings,
        rotary=settings.rotary,
        parallel=settings.parallel,
        longest=settings.longest,
        dtype=dtype,
        embedding_scale=settings.embedding_scale,
    )
    weights.finish()
    return model


def _gpt2_layer(settings: Settings, weights: NamedTensors, stem: str, number: int) -> Layer:
    dim, inner = settings.dim, settings.inner

    def linear(name: str, n_in: int, n_out: int) -> Linear:  # stored as (n_in, n_out) here
        return Linear(
            weights.take(f"{stem}{name}.weight", n_in, n_out), weights.take(f"{stem}{name}.bias", n_out)
        )

    query, key, value = _split(linear("attn.c_attn", dim, 3 * dim), [dim, dim, dim])
    scale = settings.width**-0.5 if settings.scaled else 1.0
    scale /= number + 1 if settings.scaled_by_layer else 1  # layers count from 1 here
    attention = AttentionMaps(query, key, value, linear("attn.c_proj", dim, dim), scale)
    feed = FeedForward(linear("mlp.c_fc", dim, inner), linear("mlp.c_proj", inner, dim), settings.activation)
    norms = [weights.norm(f"{stem}{name}", settings) for name in ("ln_1", "ln_2")]
    return Layer(attention, norms[0], feed, norms[1])


def _neox_layer(settings: Settings, weights: NamedTensors, stem: str, _: int) -> Layer:
    dim, inner, width = settings.dim, settings.inner, settings.width
    joint = weights.linear(f"{stem}attention.query_key_value", dim, 3 * dim, biased=settings.biased)
    by_head = joint.weight.reshape(dim, settings.n_heads, 3, width)  # query, key and value of each head
    biases = None if joint.bias is None else joint.bias.reshape(settings.n_heads, 3, width)
    query, key, value = (
        Linear(by_head[:, :, role].flatten(1), None if biases is None else biases[:, role].flatten())
        for role in range(3)
    )
    output = weights.linear(f"{stem}attention.dense", dim, dim, biased=settings.biased)
    feed = FeedForward(
        weights.linear(f"{stem}mlp.dense_h_to_4h", dim, inner, biased=True),
        weights.linear(f"{stem}mlp.dense_4h_to_h", inner, dim, biased=True),
        settings.activation,
    )
    norms = [weights.norm(f"{stem}{name}", settings) for name in NORM_NAMES]
    return Layer(AttentionMaps(query, key, value, output, width**-0.5), norms[0], feed, norms[1])


def _gpt_neo_layer(settings: Settings, weights: NamedTensors, stem: str, number: int) -> Layer:
    dim, inner = settings.dim, settings.inner
    query, key, value = (
        weights.linear(f"{stem}attn.attention.{letter}_proj", dim, dim, biased=False) for letter in "qkv"
    )
    output = weights.linear(f"{stem}attn.attention.out_proj", dim, dim, biased=True)
    attention = AttentionMaps(query, key, value, output, 1.0, window=settings.window_of(number))
    into = weights.linear(f"{stem}mlp.c_fc", dim, inner, biased=True)
    out = weights.linear(f"{stem}mlp.c_proj", inner, dim, biased=True)
    norms = [weights.norm(f"{stem}{name}", settings) for name in ("ln_1", "ln_2")]
    return Layer(attention, norms[0], FeedForward(into, out, settings.activation), norms[1])


# A layer of Llama, and of the families that follow it: Mistral, Qwen, Gemma 3, OLMo 2 and Phi-3.
def _llama_layer(settings: Settings, weights: NamedTensors, stem: str, number: int) -> Layer:
    family = settings.family
    dim, inner, width = settings.dim, settings.inner, settings.width
    query_width, group_width = settings.n_heads * width, settings.n_groups * width
    sizes = [query_width, group_width, group_width]  # of queries, keys and values
    biased = settings.biased or family == "qwen2"  # Qwen 2 has biases for these three, but not for the output
    if family == "phi3":
        joint = weights.linear(f"{stem}self_attn.qkv_proj", dim, sum(sizes), biased=False)
        query, key, value = _split(joint, sizes)
        joint = weights.linear(f"{stem}mlp.gate_up_proj", dim, 2 * inner, biased=False)
        gate, into = _split(joint, [inner, inner])
    else:
        query, key, value = (
            weights.linear(f"{stem}self_attn.{letter}_proj", dim, size, biased=biased)
            for letter, size in zip("qkv", sizes, strict=True)
        )
        gate, into = (
            weights.linear(f"{stem}mlp.{name}_proj", dim, inner, biased=settings.feed_biased)
            for name in ("gate", "up")
        )
    output = weights.linear(f"{stem}self_attn.o_proj", query_width, dim, biased=settings.biased)
    out = weights.linear(f"{stem}mlp.down_proj", inner, dim, biased=settings.feed_biased)
    query_norm = key_norm = None
    if family in ("qwen3", "gemma3_text", "olmo2"):
        # a norm over all heads together in OLMo 2, and over each head in the others
        norm_sizes = sizes[:2] if family == "olmo2" else [width, width]
        query_norm, key_norm = (
            weights.norm(f"{stem}self_attn.{letter}_norm", settings, size)
            for letter, size in zip("qk", norm_sizes, strict=True)
        )
    attention = AttentionMaps(
        query,
        key,
        value,
        output,
        width**-0.5 if settings.score_scale is None else settings.score_scale,
        query_norm=query_norm,
        key_norm=key_norm,
        window=settings.window_of(number),
        rotary=None if settings.window_of(number) is None else settings.local_rotary,
    )
    norm, feed_norm, output_norm, feed_output_norm = (
        None if name is None else weights.norm(f"{stem}{name}", settings)
        for name in FOUR_NORMS.get(family, (*NORM_NAMES, None, None))
    )
    feed = FeedForward(into, out, settings.activation, gate)
    return Layer(attention, norm, feed, feed_norm, output_norm, feed_output_norm)


def _split(joint: Linear, sizes: list[int]) -> list[Linear]:
    # maps with these numbers of outputs from one map that has their outputs side by side
    outputs = [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    return [
        Linear(joint.weight[:, units], None if joint.bias is None else joint.bias[units]) for units in outputs
    ]


class _Names(NamedTuple):
    """The names of tensors in a family, after the prefix ``stem``, and the function that builds a layer."""

    stem: str
    embedding: str
    layers: str
    final_norm: str
    build: Callable[[Settings, NamedTensors, str, int], Layer]


LLAMA = _Names("model.", "embed_tokens.weight", "layers", "norm", _llama_layer)
# Families with other names than Llama.
FAMILY_NAMES = {
    "gpt2": _Names("transformer.", "wte.weight", "h", "ln_f", _gpt2_layer),
    "gpt_neo": _Names("transformer.", "wte.weight", "h", "ln_f", _gpt_neo_layer),
    "gpt_neox": _Names("gpt_neox.", "embed_in.weight", "layers", "final_layer_norm", _neox_layer),
}


def read_object(model: Any, *, dtype: torch.dtype = torch.float32) -> Transformer:
    """A ``transformers`` model in memory, by its ``config`` and ``state_dict``; its code is not run."""
    config: Any = model.config
    settings = parse_settings(cast("Any", config if isinstance(config, dict) else config.to_dict()))
    # shared, not copied
    tensors = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    return build_model(settings, tensors, type(model).__name__, dtype)
