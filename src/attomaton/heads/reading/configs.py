"""``config.json``: the supported models, and their settings, each checked."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import VOCABULARY_SIZE, brief
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

IN_MEMORY = "load it with transformers and give the model itself, which then runs its own code"
"""The way round for unsupported models."""

LARGEST_SIZE = 1 << 20
"""Limit of layers, heads and widths: above any real model, and small enough to multiply."""

MOST_HEADS, WIDEST = 1 << 10, 256
"""Limits of heads in a layer, and of how many times as wide as the residual stream its parts are: the largest
models have 232 and 8. Attention patterns and hidden layers take memory that a file does not show."""

HARMLESS_KEYS = frozenset(
    """
    _attn_implementation _attn_implementation_autoset _commit_hash _name_or_path _num_labels
    _sliding_window_pattern architectures attn_implementation auto_map bad_words_ids base_model_name_or_path
    begin_suppress_tokens bf16 cache_implementation chunk_size_feed_forward custom_pipelines
    diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size
    exponential_decay_length_penalty finetuning_task fp16 gradient_checkpointing id2label ignore_data_skip
    initializer_range is_decoder is_llama_config label2id length_penalty max_length max_sequence_length
    mergekit_version min_length model_max_length n_ctx n_special name_or_path no_repeat_ngram_size
    num_beam_groups num_beams num_labels num_return_sequences output_attentions output_hidden_states
    output_past output_scores predict_special_tokens prefix pretraining_tp problem_type
    remove_invalid_values reorder_and_upcast_attn repetition_penalty return_dict return_dict_in_generate
    seq_length summary_activation summary_proj_to_labels summary_type summary_use_proj suppress_tokens
    task_specific_params temperature tf_legacy_loss tokenizer_class top_k top_p torch_dtype torchscript
    transformers.js_config transformers_version trust_remote_code typical_p unsloth_fixed unsloth_version
    use_bfloat16 use_cache use_flash_attention_2 use_flash_attn
    """.split()  # noqa: SIM905  a name a line would be a page
)
"""Keys that change no number of a forward pass: names, training, generation, classification."""

HARMLESS_ENDINGS = ("_token_id", "dropout", "dropout_prob", "_pdrop")

NEUTRAL_VALUES: dict[str, Any] = {
    "add_cross_attention": False,
    "attention_bias": False,
    "clip_qkv": None,
    "cross_attention_hidden_size": None,
    "is_causal": True,
    "is_encoder_decoder": False,
    "lm_head_bias": False,
    "mlp_bias": False,
    "output_router_logits": False,
    "partial_rotary_factor": 1.0,
    "pruned_heads": {},
    "rope_interleaved": False,
    "sliding_window": None,
    "tie_encoder_decoder": False,
    "use_mrope": False,
    "use_sliding_window": False,
}
"""Key → the value with which a family that does not read the key may have it."""


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


def parse_settings(config: Mapping[str, Any]) -> Settings:
    """The settings of a configuration of one of ``FAMILIES``, as ``transformers`` reads them.

    A key that is neither read nor harmless is refused by name: it may change what the model computes.
    """
    values = _ConfigObject(config)
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
    values.finish(family)
    if settings.n_heads > MOST_HEADS:
        raise UnreadableModel(f"it has {settings.n_heads:,} heads in a layer, more than {MOST_HEADS:,}")
    if max(settings.inner, settings.n_heads * settings.width) > WIDEST * settings.dim:
        raise UnreadableModel(
            f"its heads or feed-forward layers are more than {WIDEST} times as wide as its residual stream, "
            f"{settings.dim}"
        )
    return settings


def _parse_gpt2(values: "_ConfigObject") -> Settings:
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
        inner=values.whole("n_inner", null=4 * dim),
        n_tokens=values.whole("vocab_size", most=VOCABULARY_SIZE),
        longest=values.whole("n_positions"),
        eps=values.real("layer_norm_epsilon", default=1e-5),
        activation=values.activation("activation_function", default="gelu_new"),
        tied=values.flag("tie_word_embeddings", default=True),
        scaled=values.flag("scale_attn_weights", default=True),
        scaled_by_layer=values.flag("scale_attn_by_inverse_layer_idx", default=False),
    )


def _parse_gpt_neo(values: "_ConfigObject") -> Settings:
    dim, heads, layers = values.whole("hidden_size"), values.whole("num_heads"), values.whole("num_layers")
    window = values.whole("window_size", default=256)
    return Settings(
        "gpt_neo",
        n_layers=layers,
        n_heads=heads,
        n_groups=heads,
        dim=dim,
        width=_divide(dim, heads, "hidden_size", "num_heads"),
        inner=values.whole("intermediate_size", null=4 * dim),
        n_tokens=values.whole("vocab_size", most=VOCABULARY_SIZE),
        longest=values.whole("max_position_embeddings"),
        eps=values.real("layer_norm_epsilon", default=1e-5),
        activation=values.activation("activation_function", default="gelu_new"),
        tied=values.flag("tie_word_embeddings", default=True),
        score_scale=1.0,
        windows=tuple(window if local else None for local in values.local_layers(layers)),
    )


def _parse_neox(values: "_ConfigObject") -> Settings:
    dim, heads = values.whole("hidden_size"), values.whole("num_attention_heads")
    width = _divide(dim, heads, "hidden_size", "num_attention_heads")
    rope, share = values.rope(), values.real("rotary_pct", default=0.25, most=1.0)
    theta = values.real("rotary_emb_base", default=1e4)
    copies = {"partial_rotary_factor": ("rotary_pct", share), "rope_theta": ("rotary_emb_base", theta)}
    for copy, (name, value) in copies.items():  # transformers 4 wrote these too, and 5 does not read them
        if values.get(copy, value) != value:
            raise UnreadableModel(f"{copy} differs from {name}, which is {value:g}; give both the same value")
    return Settings(
        "gpt_neox",
        n_layers=values.whole("num_hidden_layers"),
        n_heads=heads,
        n_groups=heads,
        dim=dim,
        width=width,
        inner=values.whole("intermediate_size"),
        n_tokens=values.whole("vocab_size", most=VOCABULARY_SIZE),
        longest=values.whole("max_position_embeddings"),
        eps=values.real("layer_norm_eps", default=1e-5),
        activation=values.activation("hidden_act", default="gelu"),
        tied=values.flag("tie_word_embeddings", default=False),
        rotary=values.rotary(rope, width, theta, rope.real("partial_rotary_factor", default=share, most=1.0)),
        parallel=values.flag("use_parallel_residual", default=True),
        biased=values.flag("attention_bias", default=True),
    )


def _parse_llama(values: "_ConfigObject", family: str) -> Settings:
    """Llama and what was made after it."""
    gemma = family == "gemma3_text"
    for name in ("attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"):
        if gemma and (value := values.get(name)) is not None and value is not False:
            raise UnreadableModel(f"its {name} is set, which is not supported; {IN_MEMORY}")
    dim, heads = values.whole("hidden_size"), values.whole("num_attention_heads")
    groups = values.whole(
        "num_key_value_heads",
        default={"mistral": 8, "gemma3_text": 4, "qwen2": 32, "qwen3": 32}.get(family),
        null=None if family in ("mistral", "gemma3_text") else heads,
    )
    _divide(heads, groups, "num_attention_heads", "num_key_value_heads")
    width = {"qwen3": 128, "gemma3_text": 256}.get(family)
    if width is None and values.get("head_dim") is None:
        width = _divide(dim, heads, "hidden_size", "num_attention_heads")
    width = values.whole(
        "head_dim", default=width, null=dim // heads if family in ("llama", "mistral") else None
    )
    layers = values.whole("num_hidden_layers")
    theta, local_rotary = values.real("rope_theta", default=1e6 if gemma else 1e4), None
    if gemma:
        parameters, scaling = values.inner("rope_parameters"), values.inner("rope_scaling")
        if values.get("rope_parameters") is not None and values.get("rope_scaling") is not None:
            raise UnreadableModel("it has both rope_parameters and rope_scaling; give one of them")
        rope, local = parameters.inner("full_attention"), parameters.inner("sliding_attention")
        rope = scaling if scaling.entries else rope
        local_rotary = values.rotary(local, width, values.real("rope_local_base_freq", default=1e4))
    else:
        rope = values.rope()
    share = 1.0
    if family == "phi3":
        values.whole("original_max_position_embeddings", default=4096)  # of no use to RoPE as it is
        share = values.real("partial_rotary_factor", default=1.0, most=1.0)
        share = rope.real("partial_rotary_factor", default=share, most=1.0)
    return Settings(
        family,
        n_layers=layers,
        n_heads=heads,
        n_groups=groups,
        dim=dim,
        width=width,
        inner=values.whole("intermediate_size"),
        n_tokens=values.whole("vocab_size", most=VOCABULARY_SIZE),
        longest=values.whole("max_position_embeddings"),
        eps=values.real("rms_norm_eps", default=1e-5 if family in ("olmo2", "phi3") else 1e-6),
        activation=values.activation(
            "hidden_activation" if gemma else "hidden_act", default="gelu_pytorch_tanh" if gemma else "silu"
        ),
        tied=values.flag("tie_word_embeddings", default=gemma),
        rotary=values.rotary(rope, width, theta, share),
        biased=family in ("llama", "qwen3", "gemma3_text", "olmo2")
        and values.flag("attention_bias", default=False),
        feed_biased=family == "llama" and values.flag("mlp_bias", default=False),
        score_scale=values.whole("query_pre_attn_scalar", default=256) ** -0.5 if gemma else None,
        windows=values.windows(family, layers),
        local_rotary=local_rotary,
        embedding_scale=dim**0.5 if gemma else 1.0,
    )


def _divide(whole: int, divisor: int, whole_name: str, parts_name: str) -> int:
    if whole % divisor:
        raise UnreadableModel(f"{whole_name} {whole} is not a multiple of {parts_name} {divisor}")
    return whole // divisor


class _ConfigObject:
    """An object of a configuration, with checked access to its values; it remembers which keys were read."""

    def __init__(self, entries: Mapping[str, Any], path: str = "") -> None:
        self.entries, self.path = entries, path
        self._read, self._inner = set[str](), list[_ConfigObject]()

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return self.entries.get(name, default)

    def whole(
        self,
        name: str,
        *,
        default: int | None = None,
        null: int | None = None,
        least: int = 1,
        most: int = LARGEST_SIZE,
    ) -> int:
        """A whole number; ``null`` is what null stands for, and without a default a missing key too."""
        value = self.get(name, default)
        value = null if value is None else value
        if type(value) is not int or not least <= value <= most:
            raise UnreadableModel(
                f"{self.path}{name} is {brief(repr(value))}; it must be whole, from {least} to {most:,}"
            )
        return value

    def real(self, name: str, *, default: float | None = None, most: float = 1e12) -> float:
        return check_real(self.get(name, default), f"{self.path}{name}", most)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise UnreadableModel(f"{name} is {brief(repr(value))}; it must be true or false")
        return value

    def activation(self, name: str, *, default: str) -> str:
        value = self.get(name, default)
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise UnreadableModel(f"{name} is {brief(repr(value))}; supported are {', '.join(ACTIVATIONS)}")
        return value

    def inner(self, name: str) -> "_ConfigObject":
        """An object in this one; null and a missing key count as empty."""
        entries = self.get(name)
        if not isinstance(entries, dict | None):
            raise UnreadableModel(f"{self.path}{name} is {brief(repr(entries))}; it must be an object")
        self._inner.append(_ConfigObject(cast("dict[str, Any]", entries) or {}, f"{self.path}{name}."))
        return self._inner[-1]

    def finish(self, family: str) -> None:
        """Raise if a key was not read and may change what the model computes."""
        for name, value in self.entries.items():
            is_known = name in self._read or name in HARMLESS_KEYS or name.endswith(HARMLESS_ENDINGS)
            if not is_known and not (name in NEUTRAL_VALUES and value == NEUTRAL_VALUES[name]):
                raise UnreadableModel(
                    f"{self.path}{brief(name)} is {brief(repr(value))}, which is not supported for {family} "
                    f"and may change what the model computes; {IN_MEMORY}"
                )
        for inner in self._inner:
            inner.finish(family)

    def local_layers(self, layers: int) -> list[bool]:
        """Which layers of GPT-Neo attend locally."""
        kinds, groups = list[Any](), self.get("attention_types")
        groups = [[["global", "local"], 12]] if groups is None else groups
        for group in cast("list[Any]", groups) if isinstance(groups, list | tuple) else []:
            pair = cast("list[Any]", group) if isinstance(group, list | tuple) else []
            if len(pair) != 2 or not isinstance(pair[0], list | tuple) or type(pair[1]) is not int:
                raise UnreadableModel(
                    'attention_types is not a list of kinds with a count, such as [[["global", "local"], 12]]'
                )
            group_kinds = list(cast("list[Any]", pair[0]))
            if len(kinds) <= layers:  # more are refused below, however many
                kinds += group_kinds * min(max(pair[1], 0), layers // max(len(group_kinds), 1) + 1)
        kinds = self.get("attention_layers", kinds)
        names = cast("list[Any]", kinds) if isinstance(kinds, list | tuple) else []
        if len(names) != layers or not all(name in ("global", "local") for name in names):
            raise UnreadableModel(f"attention_layers are not {layers} times 'global' or 'local'")
        return [name == "local" for name in names]

    def windows(self, family: str, layers: int) -> tuple[int | None, ...]:
        """The sliding window of each layer; empty if no layer has one."""
        if family in ("llama", "olmo2"):
            return ()
        window = self.get("sliding_window", None if family == "phi3" else 4096)
        window = None if window is None else self.whole("sliding_window", default=4096)
        if family in ("mistral", "phi3"):
            return () if window is None else (window,) * layers
        if family == "gemma3_text":
            every = self.whole("sliding_window_pattern", default=6)
            slides = [(layer + 1) % every > 0 for layer in range(layers)]
        else:
            window = window if self.flag("use_sliding_window", default=False) else None
            first = self.whole("max_window_layers", default=28, least=0)
            slides = [window is not None and layer >= first for layer in range(layers)]
        kinds = self.get("layer_types")
        if kinds is not None:
            names = cast("list[Any]", kinds) if isinstance(kinds, list | tuple) else []
            slides = [name == "sliding_attention" for name in names]
            if len(names) != layers or not all(
                name in ("full_attention", "sliding_attention") for name in names
            ):
                raise UnreadableModel(
                    f"layer_types are not {layers} times 'full_attention' or 'sliding_attention'; {IN_MEMORY}"
                )
        if window is None and (any(slides) or family == "gemma3_text"):
            raise UnreadableModel("layers have a sliding window, but sliding_window has no size")
        return tuple(window if slide else None for slide in slides) if any(slides) else ()

    def rope(self) -> "_ConfigObject":
        """The settings of RoPE; where both names are used, ``transformers`` takes ``rope_scaling`` alone."""
        names = [name for name in ("rope_scaling", "rope_parameters") if self.get(name)]
        return self.inner(names[0] if names else "rope_parameters")

    def rotary(self, rope: "_ConfigObject", width: int, theta: float, share: float = 1.0) -> Rotary:
        """RoPE, possibly scaled for contexts longer than in training."""
        n_rotated = int(width * share)
        if n_rotated < 2 or n_rotated % 2:
            raise UnreadableModel(
                f"RoPE rotates {n_rotated} of {width} coordinates of a head; the number must be even"
            )
        plain = Rotary(n_rotated, rope.real("rope_theta", default=theta))
        kind, family = rope.get("rope_type", "default"), self.get("model_type")
        length = rope.get("original_max_position_embeddings", self.get("max_position_embeddings"))
        if family != "gemma3_text":
            kind = rope.get("rope_type", rope.get("type", "default"))
            length = self.get("original_max_position_embeddings", length)
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
        trained = check_real(length, "original_max_position_embeddings", 1e12)
        return replace(plain, bands=RotaryBands(factor, low, high, trained))


def check_real(value: Any, name: str, most: float) -> float:
    """The number, if it is above zero and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise UnreadableModel(f"{name} is {brief(repr(value))}; it must be above 0 and at most {most:g}")
    return math.fsum([value])
