"""``config.json``: the supported models, and their settings, each checked."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import VOCABULARY, shown
from attomaton.heads.parts import ACTIVATIONS, Rotary, RotaryBands

FAMILIES = (
    "gemma3_text",
    "gpt2",
    "gpt_neo",
    "gpt_neox",
    "llama",
    "mistral",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen3",
)
"""The supported values of ``model_type``."""

PATTERNS_ONLY = (
    "load it with transformers (attn_implementation='eager') and give the model itself: the ladder and label "
    "seeking need nothing but its attention patterns"
)
"""The way round for unsupported models."""

LARGEST = 1 << 20
"""Limit of layers, heads and widths: above any real model, and small enough to multiply."""


@dataclass(frozen=True)
class Settings:
    """The settings of a configuration that change what a model computes.

    ``dim``, ``width`` and ``inner`` are the widths of the residual stream, of a head, and of the feed-forward
    layer; heads share the keys of ``n_groups``. ``tied``: the decoder is the embedding. ``parallel``:
    attention and feed-forward layer read the same stream. ``scaled``, ``scaled_by_layer`` (GPT-2): scores are
    divided by √width, and by the layer's number from one. ``score_scale`` multiplies scores instead of
    1/√width. ``windows`` has the sliding window of each layer, None for no window; layers with a window use
    ``local_rotary``, if it is not None. ``embedding_scale`` multiplies embeddings.
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
    score_scale: float | None = None
    windows: tuple[int | None, ...] = ()
    local_rotary: Rotary | None = None
    embedding_scale: float = 1.0

    def window_of(self, layer: int) -> int | None:
        """The sliding window of a layer, if it has one."""
        return self.windows[layer] if self.windows else None

    def rotary_of(self, layer: int) -> Rotary | None:
        """RoPE of a layer, if it is not the model's."""
        return None if self.window_of(layer) is None else self.local_rotary


def parse_settings(config: Mapping[str, Any]) -> Settings:
    """The settings of a configuration of one of ``FAMILIES``; ``auto_map`` and the like are ignored."""
    values = _Said(config)
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise UnreadableModel(
            f"model_type is {shown(str(family))!r}; supported are {', '.join(FAMILIES)}; for another causal "
            f"model, {PATTERNS_ONLY}"
        )
    if config.get("quantization_config") is not None:
        raise UnreadableModel(
            "its weights are quantised (quantization_config), but must be floats; give the unquantised "
            f"model, or {PATTERNS_ONLY}"
        )
    if config.get("quantization") is not None:
        raise UnreadableModel(
            "its weights are quantised by MLX (quantization), but must be floats; give the unquantised "
            "model, a GGUF file of it, or the output of `mlx_lm.convert --dequantize --hf-path FOLDER "
            "--mlx-path OUTPUT`"
        )
    parsers = {"gpt2": _parse_gpt2, "gpt_neo": _parse_gpt_neo, "gpt_neox": _parse_neox}
    return parsers[family](values) if family in parsers else _parse_llama(values, family)


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


def _parse_gpt_neo(values: "_Said") -> Settings:
    dim, heads, layers = values.whole("hidden_size"), values.whole("num_heads"), values.whole("num_layers")
    window = values.whole("window_size", default=256)
    return Settings(
        "gpt_neo",
        n_layers=layers,
        n_heads=heads,
        n_groups=heads,
        dim=dim,
        width=_divide(dim, heads, "hidden_size", "num_heads"),
        inner=values.whole("intermediate_size", default=4 * dim),
        n_tokens=values.whole("vocab_size", most=VOCABULARY),
        longest=values.whole("max_position_embeddings"),
        eps=values.real("layer_norm_epsilon", default=1e-5),
        activation=values.activation("activation_function", default="gelu_new"),
        tied=values.flag("tie_word_embeddings", default=True),
        score_scale=1.0,
        windows=tuple(window if local else None for local in values.local_layers(layers)),
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
        rotary=values.rotary(
            width, share, values.real("rotary_emb_base", default=10_000.0), values.scaling()
        ),
        parallel=values.flag("use_parallel_residual", default=True),
        biased=values.flag("attention_bias", default=True),
    )


def _parse_llama(values: "_Said", family: str) -> Settings:
    """Llama and what was made after it."""
    gemma = family == "gemma3_text"
    for name in ("attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"):
        if gemma and values.config.get(name):
            raise UnreadableModel(f"its {name} is set, which is not supported; {PATTERNS_ONLY}")
    dim, heads = values.whole("hidden_size"), values.whole("num_attention_heads")
    groups = values.whole("num_key_value_heads", default={"mistral": 8, "gemma3_text": 4}.get(family, heads))
    _divide(heads, groups, "num_attention_heads", "num_key_value_heads")
    default = {"qwen3": 128, "gemma3_text": 256}.get(family, 0)
    width = values.whole("head_dim", default=default) or _divide(
        dim, heads, "hidden_size", "num_attention_heads"
    )
    layers = values.whole("num_hidden_layers")
    scaling = values.scaling()
    whole, local = scaling.get("full_attention", {}), scaling.get("sliding_attention", {})
    if not gemma:
        whole = scaling
    elif not (isinstance(whole, dict) and isinstance(local, dict)):
        raise UnreadableModel("rope_parameters of full_attention or sliding_attention are not an object")
    elif "full_attention" not in scaling and "sliding_attention" not in scaling:
        whole = scaling  # older files say it so, of the layers that see all
    theta = values.real("rope_theta", default=1e6 if gemma else 1e4)
    share = values.real("partial_rotary_factor", default=1.0, most=1.0) if family == "phi3" else 1.0
    return Settings(
        family,
        n_layers=layers,
        n_heads=heads,
        n_groups=groups,
        dim=dim,
        width=width,
        inner=values.whole("intermediate_size"),
        n_tokens=values.whole("vocab_size", most=VOCABULARY),
        longest=values.whole("max_position_embeddings"),
        eps=values.real("rms_norm_eps", default=1e-5 if family in ("olmo2", "phi3") else 1e-6),
        activation=values.activation(
            "hidden_activation" if gemma else "hidden_act", default="gelu_pytorch_tanh" if gemma else "silu"
        ),
        tied=values.flag("tie_word_embeddings", default=gemma),
        rotary=values.rotary(width, share, theta, cast("dict[str, Any]", whole)),
        biased=family in ("llama", "qwen3", "gemma3_text", "olmo2")
        and values.flag("attention_bias", default=False),
        feed_biased=family == "llama" and values.flag("mlp_bias", default=False),
        score_scale=values.real("query_pre_attn_scalar", default=256.0) ** -0.5 if gemma else None,
        windows=values.windows(family, layers),
        local_rotary=values.rotary(
            width, 1.0, values.real("rope_local_base_freq", default=1e4), cast("dict[str, Any]", local)
        )
        if gemma
        else None,
        embedding_scale=dim**0.5 if gemma else 1.0,
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

    def local_layers(self, layers: int) -> list[bool]:
        """Which layers of GPT-Neo attend locally."""
        kinds = self.config.get("attention_layers")
        if kinds is None:
            kinds = list[Any]()
            groups = self.config.get("attention_types") or [[["global", "local"], 12]]
            for group in cast("list[Any]", groups) if isinstance(groups, list | tuple) else []:
                pair = cast("list[Any]", group) if isinstance(group, list | tuple) else []
                if len(pair) != 2 or not isinstance(pair[0], list | tuple) or type(pair[1]) is not int:
                    raise UnreadableModel("attention_types is not a list of kinds, each with a count")
                some = list(cast("list[Any]", pair[0]))
                kinds += some * min(max(pair[1], 0), layers // max(len(some), 1))
        names = cast("list[Any]", kinds) if isinstance(kinds, list | tuple) else []
        if len(names) != layers or not all(name in ("global", "local") for name in names):
            raise UnreadableModel(f"attention_layers are not {layers} times 'global' or 'local'")
        return [name == "local" for name in names]

    def windows(self, family: str, layers: int) -> tuple[int | None, ...]:
        """The sliding window of each layer; empty if no layer has one."""
        if family not in ("mistral", "phi3", "qwen2", "qwen3", "gemma3_text"):
            return ()
        usual = {"mistral": 4096, "gemma3_text": 4096}.get(family)
        if self.config.get("sliding_window", usual) is None:
            return ()
        if family in ("qwen2", "qwen3") and not self.flag("use_sliding_window", default=False):
            return ()
        window = self.whole("sliding_window", default=usual)
        if family in ("mistral", "phi3"):
            return (window,) * layers
        kinds = self.config.get("layer_types")
        if kinds is None and family == "gemma3_text":
            every = self.whole("sliding_window_pattern", default=6)
            return tuple(window if (layer + 1) % every else None for layer in range(layers))
        if kinds is None:
            first = self.whole("max_window_layers", default=28)
            return tuple(window if layer >= first else None for layer in range(layers))
        names = cast("list[Any]", kinds) if isinstance(kinds, list | tuple) else []
        if len(names) != layers or not all(name in ("full_attention", "sliding_attention") for name in names):
            raise UnreadableModel(
                f"layer_types are not {layers} times 'full_attention' or 'sliding_attention'; {PATTERNS_ONLY}"
            )
        return tuple(window if name == "sliding_attention" else None for name in names)

    def scaling(self) -> dict[str, Any]:
        """The settings of RoPE, under either of their names."""
        scaling: dict[str, Any] = {}
        for name in ("rope_scaling", "rope_parameters"):
            record = self.config.get(name)
            if record is not None and not isinstance(record, dict):
                raise UnreadableModel(f"{name} is {shown(repr(record))}; it must be an object")
            scaling.update(cast("dict[str, Any]", record) or {})
        return scaling

    def rotary(self, width: int, share: float, theta: float, scaling: dict[str, Any]) -> Rotary:
        """RoPE, possibly scaled for contexts longer than in training."""
        share = check_real(scaling.get("partial_rotary_factor", share), "partial_rotary_factor", 1.0)
        turned = int(width * share)
        if turned < 2 or turned % 2:
            raise UnreadableModel(
                f"RoPE rotates {turned} of {width} coordinates of a head; the number must be even"
            )
        plain = Rotary(turned, check_real(scaling.get("rope_theta", theta), "rope_theta", 1e12))
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind in ("default", None):
            return plain
        if kind not in ("linear", "llama3"):
            raise UnreadableModel(
                f"its rotary positions are scaled ({shown(repr(kind))}), but only 'linear' and 'llama3' are "
                f"supported; {PATTERNS_ONLY}"
            )
        factor = check_real(scaling.get("factor"), "factor", 1e6)
        if kind == "linear":
            return replace(plain, divisors=(factor,) * (turned // 2))
        length = self.config.get("original_max_position_embeddings")
        length = scaling.get("original_max_position_embeddings") if length is None else length
        length = self.config.get("max_position_embeddings") if length is None else length
        low, high, trained = (
            check_real(value, name, 1e12)
            for name, value in (
                ("low_freq_factor", scaling.get("low_freq_factor")),
                ("high_freq_factor", scaling.get("high_freq_factor")),
                ("original_max_position_embeddings", length),
            )
        )
        if low >= high:
            raise UnreadableModel(f"low_freq_factor {low:g} is not below high_freq_factor {high:g}")
        return replace(plain, bands=RotaryBands(factor, low, high, trained))


def check_real(value: Any, name: str, most: float) -> float:
    """The number, if it is above zero and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise UnreadableModel(f"{name} is {shown(repr(value))}; it must be above 0 and at most {most:g}")
    return math.fsum([value])
