"""``config.json``: the supported models, and their settings, each checked."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import VOCABULARY, shown
from attomaton.heads.parts import ACTIVATIONS, Rotary

FAMILIES = ("gpt2", "gpt_neox", "llama", "mistral", "qwen2")
"""The supported values of ``model_type``."""

LARGEST = 1 << 20
"""Limit of layers, heads and widths: above any real model, and small enough to multiply."""


@dataclass(frozen=True)
class Settings:
    """The settings of a configuration that change what a model computes.

    ``dim``, ``width`` and ``inner`` are the widths of the residual stream, of a head, and of the feed-forward
    layer; heads share the keys of ``n_groups``. ``tied``: the decoder is the embedding. ``parallel``:
    attention and feed-forward layer read the same stream. ``scaled``, ``scaled_by_layer`` (GPT-2): scores are
    divided by √width, and by the layer's number from one.
    """

    family: str
    n_layers: int
    n_heads: int
    n_groups: int
    dim: int
    width: int
    inner: int
    n_tokens: int
    longest: int
    eps: float
    activation: str
    tied: bool
    rotary: Rotary | None = None
    parallel: bool = False
    biased: bool = True
    feed_biased: bool = True
    scaled: bool = True
    scaled_by_layer: bool = False


def parse_settings(config: Mapping[str, Any]) -> Settings:
    """The settings of a configuration of one of ``FAMILIES``; ``auto_map`` and the like are ignored."""
    values = _Said(config)
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise UnreadableModel(f"model_type is {shown(str(family))!r}; supported are {', '.join(FAMILIES)}")
    if config.get("quantization_config") is not None:
        raise UnreadableModel("its weights are quantised (quantization_config), but must be floats")
    if family == "gpt2":
        return _parse_gpt2(values)
    return _parse_neox(values) if family == "gpt_neox" else _parse_llama(values, family)


def _parse_gpt2(values: "_Said") -> Settings:
    dim, heads = values.whole("n_embd"), values.whole("n_head")
    if values.flag("add_cross_attention", default=False):
        raise UnreadableModel("cross-attention (add_cross_attention) is not supported")
    return Settings(
        "gpt2",
        n_layers=values.whole("n_layer"),
        n_heads=heads,
        n_groups=heads,
        dim=dim,
        width=_divide(dim, heads, "n_embd", "n_head"),
        inner=values.whole("n_inner", default=4 * dim),
        n_tokens=values.whole("vocab_size", most=VOCABULARY),
        longest=values.whole("n_positions"),
        eps=values.real("layer_norm_epsilon", default=1e-5),
        activation=values.activation("activation_function", default="gelu_new"),
        tied=values.flag("tie_word_embeddings", default=True),
        scaled=values.flag("scale_attn_weights", default=True),
        scaled_by_layer=values.flag("scale_attn_by_inverse_layer_idx", default=False),
    )


def _parse_neox(values: "_Said") -> Settings:
    dim, heads = values.whole("hidden_size"), values.whole("num_attention_heads")
    width = _divide(dim, heads, "hidden_size", "num_attention_heads")
    share = values.real("rotary_pct", default=0.25, most=1.0)
    return Settings(
        "gpt_neox",
        n_layers=values.whole("num_hidden_layers"),
        n_heads=heads,
        n_groups=heads,
        dim=dim,
        width=width,
        inner=values.whole("intermediate_size"),
        n_tokens=values.whole("vocab_size", most=VOCABULARY),
        longest=values.whole("max_position_embeddings"),
        eps=values.real("layer_norm_eps", default=1e-5),
        activation=values.activation("hidden_act", default="gelu"),
        tied=values.flag("tie_word_embeddings", default=False),
        rotary=values.rotary(width, share, values.real("rotary_emb_base", default=10_000.0)),
        parallel=values.flag("use_parallel_residual", default=True),
        biased=values.flag("attention_bias", default=True),
    )


def _parse_llama(values: "_Said", family: str) -> Settings:
    dim, heads = values.whole("hidden_size"), values.whole("num_attention_heads")
    groups = values.whole("num_key_value_heads", default=8 if family == "mistral" else heads)
    _divide(heads, groups, "num_attention_heads", "num_key_value_heads")
    width = values.whole("head_dim", default=0) or _divide(dim, heads, "hidden_size", "num_attention_heads")
    return Settings(
        family,
        n_layers=values.whole("num_hidden_layers"),
        n_heads=heads,
        n_groups=groups,
        dim=dim,
        width=width,
        inner=values.whole("intermediate_size"),
        n_tokens=values.whole("vocab_size", most=VOCABULARY),
        longest=min(values.whole("max_position_embeddings"), values.window()),
        eps=values.real("rms_norm_eps", default=1e-6),
        activation=values.activation("hidden_act", default="silu"),
        tied=values.flag("tie_word_embeddings", default=False),
        rotary=values.rotary(width, 1.0, values.real("rope_theta", default=10_000.0)),
        biased=family == "llama" and values.flag("attention_bias", default=False),
        feed_biased=family == "llama" and values.flag("mlp_bias", default=False),
    )


def _divide(whole: int, parts: int, whole_name: str, parts_name: str) -> int:
    if whole % parts:
        raise UnreadableModel(f"{whole_name} {whole} is not a multiple of {parts_name} {parts}")
    return whole // parts


class _Said:
    """A configuration with checked access to its values; null counts as missing."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def whole(self, name: str, *, default: int | None = None, most: int = LARGEST) -> int:
        value = self.config.get(name)
        value = default if value is None else value
        if type(value) is not int or not (1 <= value <= most or value == default):
            raise UnreadableModel(f"{name} is {shown(repr(value))}; it must be whole, from 1 to {most:,}")
        return value

    def real(self, name: str, *, default: float, most: float = 1e12) -> float:
        value = self.config.get(name)
        return check_real(default if value is None else value, name, most)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.config.get(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise UnreadableModel(f"{name} is {shown(repr(value))}; it must be true or false")
        return value

    def activation(self, name: str, *, default: str) -> str:
        value = self.config.get(name)
        value = default if value is None else value
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise UnreadableModel(f"{name} is {shown(repr(value))}; supported are {', '.join(ACTIVATIONS)}")
        return value

    def window(self) -> int:
        """The longest context that a sliding window does not truncate."""
        kinds = self.config.get("layer_types")
        kinds = cast("list[Any]", kinds) if isinstance(kinds, list) else []
        slides = any(kind != "full_attention" for kind in kinds)
        if self.config.get("use_sliding_window") is False and not slides:
            return LARGEST
        return self.whole("sliding_window", default=LARGEST)

    def rotary(self, width: int, share: float, theta: float) -> Rotary:
        """RoPE without scaling for contexts longer than in training."""
        scaling: dict[str, Any] = {}
        for name in ("rope_scaling", "rope_parameters"):
            record = self.config.get(name)
            if record is not None and not isinstance(record, dict):
                raise UnreadableModel(f"{name} is {shown(repr(record))}; it must be an object")
            scaling.update(cast("dict[str, Any]", record) or {})
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind not in ("default", None):
            raise UnreadableModel(
                f"its rotary positions are scaled ({shown(repr(kind))}), but only plain RoPE is supported"
            )
        share = check_real(scaling.get("partial_rotary_factor", share), "partial_rotary_factor", 1.0)
        turned = int(width * share)
        if turned < 2 or turned % 2:
            raise UnreadableModel(
                f"RoPE rotates {turned} of {width} coordinates of a head; the number must be even"
            )
        return Rotary(turned, check_real(scaling.get("rope_theta", theta), "rope_theta", 1e12))


def check_real(value: Any, name: str, most: float) -> float:
    """The number, if it is above zero and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise UnreadableModel(f"{name} is {shown(repr(value))}; it must be above 0 and at most {most:g}")
    return math.fsum([value])
