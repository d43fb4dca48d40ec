"""The models that are supported, built of tensors by the names that files and ``transformers`` give them."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import shown
from attomaton.heads.parts import AttentionMaps, FeedForward, Layer, Linear, Norm
from attomaton.heads.reading.configs import Settings
from attomaton.heads.transformer import Transformer

BUFFERS = re.compile(r"\.(attn|attention)\.(masked_)?bias$|rotary_emb\.inv_freq$")
"""Masks and frequencies that old files carry beside the weights; they follow from the configuration."""

CHUNK = 1 << 24
"""Numbers that are looked at together."""


class NamedTensors:
    """Tensors by name, each checked when it is taken, and none left over at the end."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self._left = set(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor of this shape, whose numbers are finite floats."""
        if name not in self._tensors:
            raise UnreadableModel(f"there is no tensor {name!r}, which its configuration asks for")
        found = self._tensors[name].detach()
        self._left.discard(name)
        if tuple(found.shape) != shape:
            raise UnreadableModel(
                f"tensor {name!r} has shape {list(found.shape)}, and the configuration asks for {list(shape)}"
            )
        if not found.dtype.is_floating_point:
            raise UnreadableModel(f"tensor {name!r} holds {found.dtype}; weights are floats")
        flat = found.reshape(-1)
        for first in range(0, len(flat), CHUNK):
            if not bool(torch.isfinite(flat[first : first + CHUNK]).all()):
                raise UnreadableModel(f"tensor {name!r} holds numbers that are not finite")
        return found

    def linear(self, name: str, n_in: int, n_out: int, *, biased: bool) -> Linear:
        """A map stored as PyTorch stores them, shape (n_out, n_in)."""
        weight = self.take(f"{name}.weight", n_out, n_in).T
        return Linear(weight, self.take(f"{name}.bias", n_out) if biased else None)

    def layer_norm(self, name: str, settings: Settings) -> Norm:
        """A LayerNorm."""
        gain, shift = (self.take(f"{name}.{one}", settings.dim) for one in ("weight", "bias"))
        return Norm(centred=True, eps=settings.eps, gain=gain, shift=shift)

    def decoder(self, name: str, embedding: Tensor, settings: Settings) -> Linear:
        """The decoder, or the embedding where both are one."""
        if name in self and not settings.tied:
            return Linear(self.take(name, settings.n_tokens, settings.dim).T)
        if not settings.tied:
            raise UnreadableModel(f"there is no tensor {name!r}, and tie_word_embeddings is not true")
        if name in self and not torch.equal(self.take(name, settings.n_tokens, settings.dim), embedding):
            raise UnreadableModel(f"tie_word_embeddings is true, and tensor {name!r} is not the embedding")
        return Linear(embedding.T)

    def finish(self) -> None:
        """Raise if a tensor was not used: the model would be another than the one that was trained."""
        left = sorted(name for name in self._left if not BUFFERS.search(name))
        if left:
            raise UnreadableModel(
                f"tensor {shown(left[0])!r} has no place in a model of this configuration "
                f"({len(left)} such tensors)"
            )


def build_model(
    settings: Settings, tensors: Mapping[str, Tensor], name: str, dtype: torch.dtype = torch.float32
) -> Transformer:
    """The model of these settings and tensors."""
    weights = NamedTensors(tensors)
    build = {"gpt2": _build_gpt2, "gpt_neox": _build_neox}.get(settings.family, _build_llama)
    model = build(settings, weights, name, dtype)
    weights.finish()
    return model


def _build_gpt2(settings: Settings, weights: NamedTensors, name: str, dtype: torch.dtype) -> Transformer:
    stem = "transformer." if "transformer.wte.weight" in weights else ""
    dim, heads = settings.dim, settings.n_heads
    embedding = weights.take(f"{stem}wte.weight", settings.n_tokens, dim)
    places = weights.take(f"{stem}wpe.weight", settings.longest, dim)
    layers = tuple(
        _gpt2_layer(settings, weights, f"{stem}h.{number}.", number) for number in range(settings.n_layers)
    )
    last, decoder = (
        weights.layer_norm(f"{stem}ln_f", settings),
        weights.decoder("lm_head.weight", embedding, settings),
    )
    return Transformer(
        name, heads, heads, embedding, layers, decoder, last, places, longest=settings.longest, dtype=dtype
    )


def _gpt2_layer(settings: Settings, weights: NamedTensors, stem: str, number: int) -> Layer:
    dim, inner = settings.dim, settings.inner

    def linear(name: str, n_in: int, n_out: int) -> Linear:  # stored as (n_in, n_out) here
        return Linear(
            weights.take(f"{stem}{name}.weight", n_in, n_out), weights.take(f"{stem}{name}.bias", n_out)
        )

    whole = linear("attn.c_attn", dim, 3 * dim)
    assert whole.bias is not None  # noqa: S101  made above
    thirds = [slice(first, first + dim) for first in (0, dim, 2 * dim)]
    query, key, value = (Linear(whole.weight[:, one], whole.bias[one]) for one in thirds)
    scale = (settings.width**-0.5 if settings.scaled else 1.0) / (
        number + 1 if settings.scaled_by_layer else 1
    )
    attention = AttentionMaps(query, key, value, linear("attn.c_proj", dim, dim), scale)
    feed = FeedForward(linear("mlp.c_fc", dim, inner), linear("mlp.c_proj", inner, dim), settings.activation)
    norms = [weights.layer_norm(f"{stem}{one}", settings) for one in ("ln_1", "ln_2")]
    return Layer(attention, norms[0], feed, norms[1])


def _build_neox(settings: Settings, weights: NamedTensors, name: str, dtype: torch.dtype) -> Transformer:
    stem = "gpt_neox." if "gpt_neox.embed_in.weight" in weights else ""
    embedding = weights.take(f"{stem}embed_in.weight", settings.n_tokens, settings.dim)
    decoder = "lm_head.weight" if "lm_head.weight" in weights else "embed_out.weight"  # in memory, in files
    layers = tuple(
        _neox_layer(settings, weights, f"{stem}layers.{number}.") for number in range(settings.n_layers)
    )
    last, decoder = (
        weights.layer_norm(f"{stem}final_layer_norm", settings),
        weights.decoder(decoder, embedding, settings),
    )
    return Transformer(
        name,
        settings.n_heads,
        settings.n_heads,
        embedding,
        layers,
        decoder,
        last,
        rotary=settings.rotary,
        parallel=settings.parallel,
        longest=settings.longest,
        dtype=dtype,
    )


def _neox_layer(settings: Settings, weights: NamedTensors, stem: str) -> Layer:
    dim, inner, width, biased = settings.dim, settings.inner, settings.width, settings.biased
    whole = weights.linear(f"{stem}attention.query_key_value", dim, 3 * dim, biased=biased)
    by_head = whole.weight.reshape(dim, settings.n_heads, 3, width)  # of each head all three, side by side
    biases = None if whole.bias is None else whole.bias.reshape(settings.n_heads, 3, width)
    query, key, value = (
        Linear(by_head[:, :, one].flatten(1), None if biases is None else biases[:, one].flatten())
        for one in range(3)
    )
    output = weights.linear(f"{stem}attention.dense", dim, dim, biased=biased)
    feed = FeedForward(
        weights.linear(f"{stem}mlp.dense_h_to_4h", dim, inner, biased=True),
        weights.linear(f"{stem}mlp.dense_4h_to_h", inner, dim, biased=True),
        settings.activation,
    )
    names = ("input_layernorm", "post_attention_layernorm")
    norms = [weights.layer_norm(f"{stem}{one}", settings) for one in names]
    return Layer(AttentionMaps(query, key, value, output, width**-0.5), norms[0], feed, norms[1])


def _build_llama(settings: Settings, weights: NamedTensors, name: str, dtype: torch.dtype) -> Transformer:
    stem = "model." if "model.embed_tokens.weight" in weights else ""
    embedding = weights.take(f"{stem}embed_tokens.weight", settings.n_tokens, settings.dim)
    layers = tuple(
        _llama_layer(settings, weights, f"{stem}layers.{number}.") for number in range(settings.n_layers)
    )
    last = Norm(centred=False, eps=settings.eps, gain=weights.take(f"{stem}norm.weight", settings.dim))
    return Transformer(
        name,
        settings.n_heads,
        settings.n_groups,
        embedding,
        layers,
        weights.decoder("lm_head.weight", embedding, settings),
        last,
        rotary=settings.rotary,
        longest=settings.longest,
        dtype=dtype,
    )


def _llama_layer(settings: Settings, weights: NamedTensors, stem: str) -> Layer:
    dim, inner, width = settings.dim, settings.inner, settings.width
    asked, shared = settings.n_heads * width, settings.n_groups * width
    biased = settings.biased or settings.family == "qwen2"  # which has none behind its heads
    sizes = {"query": asked, "key": shared, "value": shared}
    query, key, value = (
        weights.linear(f"{stem}self_attn.{one[0]}_proj", dim, size, biased=biased)
        for one, size in sizes.items()
    )
    output = weights.linear(f"{stem}self_attn.o_proj", asked, dim, biased=settings.biased)
    into, gate = (
        weights.linear(f"{stem}mlp.{one}_proj", dim, inner, biased=settings.feed_biased)
        for one in ("up", "gate")
    )
    out = weights.linear(f"{stem}mlp.down_proj", inner, dim, biased=settings.feed_biased)
    norms = [
        Norm(centred=False, eps=settings.eps, gain=weights.take(f"{stem}{one}.weight", dim))
        for one in ("input_layernorm", "post_attention_layernorm")
    ]
    attention = AttentionMaps(query, key, value, output, width**-0.5)
    return Layer(attention, norms[0], FeedForward(into, out, settings.activation, gate), norms[1])
