"""``config.json``: the supported models, and their settings, each checked."""

# `parse_settings` calls `_read_sizes` for the keys that all families have, and `_parse_gpt2`, `_parse_llama`
# and so on for the others. `_read_windows` reads sliding windows, and `_read_rotary` reads RoPE.

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import VOCABULARY_SIZE, brief
from attomaton.heads.parts import Rotary, RotaryBands
from attomaton.heads.reading.values import IN_MEMORY, ConfigObject, check_real


class _Family(NamedTuple):
    """The keys of the sizes of a family, and the values that ``transformers`` uses for missing keys.

    ``eps`` and ``activation`` are a key and its default. With ``inner_default``, the feed-forward layer is by
    default four times as wide as the residual stream. ``groups`` and ``width`` are the defaults of the number
    of key groups and of the width of a head; None means that they follow from the other sizes.
    """

    layers: str = "num_hidden_layers"
    heads: str = "num_attention_heads"
    dim: str = "hidden_size"
    inner: str = "intermediate_size"
    longest: str = "max_position_embeddings"
    eps: tuple[str, float] = ("rms_norm_eps", 1e-6)
    activation: tuple[str, str] = ("hidden_act", "silu")
    tied: bool = False
    inner_default: bool = False
    groups: int | None = None
    width: int | None = None


_GPT_NEO = _Family(
    layers="num_layers",
    heads="num_heads",
    eps=("layer_norm_epsilon", 1e-5),
    activation=("activation_function", "gelu_new"),
    tied=True,
    inner_default=True,
)
# The supported values of `model_type`, and the keys of their sizes.
FAMILIES = {
    "gemma3_text": _Family(
        activation=("hidden_activation", "gelu_pytorch_tanh"), tied=True, groups=4, width=256
    ),
    "gpt2": _GPT_NEO._replace(
        layers="n_layer", heads="n_head", dim="n_embd", inner="n_inner", longest="n_positions"
    ),
    "gpt_neo": _GPT_NEO,
    "gpt_neox": _Family(eps=("layer_norm_eps", 1e-5), activation=("hidden_act", "gelu")),
    "llama": _Family(),
    "mistral": _Family(groups=8),
    "olmo2": _Family(eps=("rms_norm_eps", 1e-5)),
    "phi3": _Family(eps=("rms_norm_eps", 1e-5)),
    "qwen2": _Family(groups=32),
    "qwen3": _Family(groups=32, width=128),
}

# Limits of heads in a layer, and of how many times as wide as the residual stream the heads together or the
# feed-forward layer are. The largest models have 232 and 8. Attention patterns and hidden layers take memory
# that the size of a file does not show.
MOST_HEADS = 1 << 10
WIDEST = 256


@dataclass(frozen=True)
class Settings:
    """The settings of a configuration that change what a model computes.

    ``dim``, ``width`` and ``inner`` are the widths of the residual stream, of a head, and of the feed-forward
    layer; heads share the keys of ``n_groups``. ``tied``: the decoder is the embedding. ``parallel``:
    attention and feed-forward layer read the same stream. ``scaled``, ``scaled_by_layer`` (GPT-2): scores are
    divided by √width, and by the number of the layer, from 1. ``score_scale`` multiplies scores instead of
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
        """The sliding window of a layer, None for no window."""
        return self.windows[layer] if self.windows else None


def parse_settings(config: Mapping[str, Any]) -> Settings:
    """The settings of a configuration of one of ``FAMILIES``, as ``transformers`` reads them."""
    values = ConfigObject(config)
    family = values.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise UnreadableModel(
            f"model_type is {brief(str(family))!r}; supported are {', '.join(FAMILIES)}; for another causal "
            f"model, {IN_MEMORY}"
        )
    if values.get("quantization_config") is not None:
        raise UnreadableModel(
            "its weights are quantised (quantization_config), but must be floats; give the unquantised "
            f"model, or {IN_MEMORY}"
        )
    if values.get("quantization") is not None:
        raise UnreadableModel(
            "its weights are quantised by MLX (quantization), but must be floats; give the unquantised "
            "model, a GGUF file of it, or the output of `mlx_lm.convert --dequantize --hf-path FOLDER "
            "--mlx-path OUTPUT`"
        )
    parsers = {"gpt2": _parse_gpt2, "gpt_neo": _parse_gpt_neo, "gpt_neox": _parse_neox}
    settings = parsers[family](values) if family in parsers else _parse_llama(values, family)
    values.finish(family)  # refuses a key that is neither read nor harmless
    if settings.n_heads > MOST_HEADS:
        raise UnreadableModel(f"it has {settings.n_heads:,} heads in a layer, more than {MOST_HEADS:,}")
    if max(settings.inner, settings.n_heads * settings.width) > WIDEST * settings.dim:
        raise UnreadableModel(
            f"its heads or feed-forward layers are more than {WIDEST} times as wide as its residual stream, "
            f"{settings.dim}"
        )
    return settings


# The settings that every family has; the others keep their defaults.
def _read_sizes(values: ConfigObject, name: str) -> Settings:
    family = FAMILIES[name]
    dim = values.whole(family.dim)
    n_heads = values.whole(family.heads)
    n_groups = n_heads
    width = family.width
    if name not in ("gpt2", "gpt_neo", "gpt_neox"):
        # transformers refuses null in two families; in the others it means a group for each head
        null_groups = None if name in ("mistral", "gemma3_text") else n_heads
        n_groups = values.whole("num_key_value_heads", default=family.groups, null=null_groups)
        _divide(n_heads, n_groups, family.heads, "num_key_value_heads")
        if width is None and values.get("head_dim") is None:
            width = _divide(dim, n_heads, family.dim, family.heads)
        null_width = dim // n_heads if name in ("llama", "mistral") else None
        width = values.whole("head_dim", default=width, null=null_width)
    return Settings(
        name,
        n_layers=values.whole(family.layers),
        n_heads=n_heads,
        n_groups=n_groups,
        dim=dim,
        width=_divide(dim, n_heads, family.dim, family.heads) if width is None else width,
        inner=values.whole(family.inner, null=4 * dim if family.inner_default else None),
        n_tokens=values.whole("vocab_size", most=VOCABULARY_SIZE),
        longest=values.whole(family.longest),
        eps=values.real(family.eps[0], default=family.eps[1]),
        activation=values.activation(family.activation[0], default=family.activation[1]),
        tied=values.flag("tie_word_embeddings", default=family.tied),
    )


def _divide(size: int, divisor: int, size_key: str, divisor_key: str) -> int:
    # size / divisor, or an error that names their keys
    if size % divisor:
        raise UnreadableModel(f"{size_key} {size} is not a multiple of {divisor_key} {divisor}")
    return size // divisor


def _parse_gpt2(values: ConfigObject) -> Settings:
    if values.flag("add_cross_attention", default=False):
        raise UnreadableModel("cross-attention (add_cross_attention) is not supported")
    return replace(
        _read_sizes(values, "gpt2"),
        scaled=values.flag("scale_attn_weights", default=True),
        scaled_by_layer=values.flag("scale_attn_by_inverse_layer_idx", default=False),
    )


def _parse_gpt_neo(values: ConfigObject) -> Settings:
    sizes = _read_sizes(values, "gpt_neo")
    window = values.whole("window_size", default=256)
    is_local = _read_local_layers(values, sizes.n_layers)
    return replace(sizes, score_scale=1.0, windows=tuple(window if local else None for local in is_local))


def _parse_neox(values: ConfigObject) -> Settings:
    sizes = _read_sizes(values, "gpt_neox")
    rope = _find_rope(values)
    rotated_share = values.real("rotary_pct", default=0.25, most=1.0)
    theta = values.real("rotary_emb_base", default=1e4)
    copies = {
        "partial_rotary_factor": ("rotary_pct", rotated_share),
        "rope_theta": ("rotary_emb_base", theta),
    }
    for copy, (name, value) in copies.items():  # transformers 4 wrote these too, and 5 does not read them
        if values.get(copy, value) != value:
            raise UnreadableModel(f"{copy} differs from {name}, which is {value:g}; give both the same value")
    rotated_share = rope.real("partial_rotary_factor", default=rotated_share, most=1.0)
    return replace(
        sizes,
        rotary=_read_rotary(values, rope, sizes.width, theta, rotated_share),
        parallel=values.flag("use_parallel_residual", default=True),
        biased=values.flag("attention_bias", default=True),
    )


# Llama and the families that follow it.
def _parse_llama(values: ConfigObject, family: str) -> Settings:
    if family == "gemma3_text":
        return _parse_gemma(values)
    sizes = _read_sizes(values, family)
    rope = _find_rope(values)
    rotated_share = 1.0
    if family == "phi3":
        values.whole("original_max_position_embeddings", default=4096)  # only scaled RoPE reads it
        rotated_share = values.real("partial_rotary_factor", default=1.0, most=1.0)
        rotated_share = rope.real("partial_rotary_factor", default=rotated_share, most=1.0)
    theta = values.real("rope_theta", default=1e4)
    return replace(
        sizes,
        rotary=_read_rotary(values, rope, sizes.width, theta, rotated_share),
        biased=family in ("llama", "qwen3", "olmo2") and values.flag("attention_bias", default=False),
        feed_biased=family == "llama" and values.flag("mlp_bias", default=False),
        windows=_read_windows(values, family, sizes.n_layers),
    )


def _parse_gemma(values: ConfigObject) -> Settings:
    for name in ("attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"):
        if (value := values.get(name)) is not None and value is not False:
            raise UnreadableModel(f"its {name} is set, which is not supported; {IN_MEMORY}")
    sizes = _read_sizes(values, "gemma3_text")
    # transformers 5 writes RoPE for each kind of layer to rope_parameters; version 4 writes rope_scaling for
    # the layers with full attention
    parameters, scaling = values.inner("rope_parameters"), values.inner("rope_scaling")
    if values.get("rope_parameters") is not None and values.get("rope_scaling") is not None:
        raise UnreadableModel("it has both rope_parameters and rope_scaling; give one of them")
    full, local = parameters.inner("full_attention"), parameters.inner("sliding_attention")
    rope = scaling if scaling.entries else full
    local_theta = values.real("rope_local_base_freq", default=1e4)
    return replace(
        sizes,
        rotary=_read_rotary(values, rope, sizes.width, values.real("rope_theta", default=1e6)),
        biased=values.flag("attention_bias", default=False),
        feed_biased=False,
        score_scale=values.whole("query_pre_attn_scalar", default=256) ** -0.5,
        windows=_read_windows(values, "gemma3_text", sizes.n_layers),
        local_rotary=_read_rotary(values, local, sizes.width, local_theta),
        embedding_scale=sizes.dim**0.5,
    )


# Whether each layer of GPT-Neo has a sliding window. `attention_layers` has the kind of each layer.
# Without it, `attention_types` has groups [kinds, count], whose kinds are repeated:
# [["global", "local"], 2] means global, local, global, local.
def _read_local_layers(values: ConfigObject, n_layers: int) -> list[bool]:
    groups = values.get("attention_types")
    groups = [[["global", "local"], 12]] if groups is None else groups
    kinds = list[Any]()
    for group in cast("list[Any]", groups) if isinstance(groups, list | tuple) else []:
        pair = cast("list[Any]", group) if isinstance(group, list | tuple) else []
        if len(pair) != 2 or not isinstance(pair[0], list | tuple) or type(pair[1]) is not int:
            raise UnreadableModel(
                'attention_types is not a list of kinds with a count, such as [[["global", "local"], 12]]'
            )
        group_kinds = list(cast("list[Any]", pair[0]))
        if len(kinds) <= n_layers:  # more are refused below, so a huge count need not fill the memory
            enough = n_layers // max(len(group_kinds), 1) + 1
            kinds += group_kinds * min(max(pair[1], 0), enough)
    names = _read_kinds(values, "attention_layers", kinds, n_layers, ("global", "local"))
    return [name == "local" for name in names]


# The kind of each layer from a list in the configuration; `allowed` are the two kinds of this key.
def _read_kinds(
    values: ConfigObject, key: str, default: Any, n_layers: int, allowed: tuple[str, str]
) -> list[str]:
    kinds = values.get(key, default)
    names = cast("list[Any]", kinds) if isinstance(kinds, list | tuple) else []
    if len(names) != n_layers or not all(name in allowed for name in names):
        raise UnreadableModel(
            f"{key} does not have {allowed[0]!r} or {allowed[1]!r} for each of {n_layers} layers; {IN_MEMORY}"
        )
    return names


# The sliding window of each layer; empty if no layer has one.
def _read_windows(values: ConfigObject, family: str, n_layers: int) -> tuple[int | None, ...]:
    if family in ("llama", "olmo2"):
        return ()
    window = values.get("sliding_window", None if family == "phi3" else 4096)
    if window is not None:
        window = values.whole("sliding_window", default=4096)
    if family in ("mistral", "phi3"):
        return () if window is None else (window,) * n_layers
    if family == "gemma3_text":
        period = values.whole("sliding_window_pattern", default=6)
        slides = [(layer + 1) % period > 0 for layer in range(n_layers)]  # a period ends with a full layer
    else:
        window = window if values.flag("use_sliding_window", default=False) else None
        first_sliding = values.whole("max_window_layers", default=28, least=0)
        slides = [window is not None and layer >= first_sliding for layer in range(n_layers)]
    if values.get("layer_types") is not None:
        kinds = _read_kinds(values, "layer_types", None, n_layers, ("full_attention", "sliding_attention"))
        slides = [kind == "sliding_attention" for kind in kinds]
    if window is None and (any(slides) or family == "gemma3_text"):
        raise UnreadableModel("layers have a sliding window, but sliding_window has no size")
    return tuple(window if slide else None for slide in slides) if any(slides) else ()


# The settings of RoPE; if both names are used, `transformers` reads `rope_scaling` alone.
def _find_rope(values: ConfigObject) -> ConfigObject:
    names = [name for name in ("rope_scaling", "rope_parameters") if values.get(name)]
    return values.inner(names[0] if names else "rope_parameters")


# RoPE for heads of this width, a share of which is rotated. Settings in `rope` come before their
# defaults: `theta`, and for the length on which the model was trained a key of the whole configuration.
def _read_rotary(
    values: ConfigObject, rope: ConfigObject, width: int, theta: float, rotated_share: float = 1.0
) -> Rotary:
    n_rotated = int(width * rotated_share)
    if n_rotated < 2 or n_rotated % 2:
        raise UnreadableModel(
            f"RoPE rotates {n_rotated} of {width} coordinates of a head; the number must be even"
        )
    plain = Rotary(n_rotated, rope.real("rope_theta", default=theta))
    family = values.get("model_type")
    kind = rope.get("rope_type", "default")
    length = rope.get("original_max_position_embeddings", values.get("max_position_embeddings"))
    if family != "gemma3_text":  # which knows neither of these older names
        kind = rope.get("rope_type", rope.get("type", "default"))
        length = values.get("original_max_position_embeddings", length)
    if kind == "default":
        return plain
    if kind not in ("linear", "llama3") or family == "phi3":
        raise UnreadableModel(
            f"its rotary positions are scaled ({brief(repr(kind))}), but only 'linear' and 'llama3' are "
            f"supported, and neither for phi3; {IN_MEMORY}"
        )
    factor = rope.real("factor", most=1e6)
    if kind == "linear":
        return replace(plain, divisors=(factor,) * (n_rotated // 2))
    low, high = rope.real("low_freq_factor"), rope.real("high_freq_factor")
    if low >= high:
        raise UnreadableModel(f"low_freq_factor {low:g} is not below high_freq_factor {high:g}")
    trained_length = check_real(length, "original_max_position_embeddings", 1e12)
    return replace(plain, bands=RotaryBands(factor, low, high, trained_length))
