"""Checked access to the values of a ``config.json``: a key that is not understood is refused by name."""

import math
from collections.abc import Mapping
from typing import Any, cast

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import brief
from attomaton.heads.parts import ACTIVATIONS

# What can be done with a model that is not supported.
IN_MEMORY = "load it with transformers and give the model itself, which then runs its own code"

LARGEST_SIZE = 1 << 20  # of layers, heads and widths: above any real model, small enough to multiply

# Keys that do not change a forward pass: names, training, generation, classification.
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

HARMLESS_ENDINGS = ("_token_id", "dropout", "dropout_prob", "_pdrop")

# Key → the value that changes nothing, in families that do not read the key.
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


class ConfigObject:
    """An object of a configuration, which knows which of its keys were read; ``path`` leads to it."""

    def __init__(self, entries: Mapping[str, Any], path: str = "") -> None:
        self.entries, self.path = entries, path
        self._read = set[str]()
        self._inner = list[ConfigObject]()

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a key, which is now read; a missing key has the default."""
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
        """A whole number; ``null`` is what null means, and without a default also a missing key."""
        value = self.get(name, default)
        value = null if value is None else value
        if type(value) is not int or not least <= value <= most:
            raise UnreadableModel(
                f"{self.path}{name} is {brief(repr(value))}; it must be whole, from {least} to {most:,}"
            )
        return value

    def real(self, name: str, *, default: float | None = None, most: float = 1e12) -> float:
        # a number above 0; without a default, a missing key is refused
        return check_real(self.get(name, default), f"{self.path}{name}", most)

    def flag(self, name: str, *, default: bool) -> bool:
        # true or false, not null
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise UnreadableModel(f"{name} is {brief(repr(value))}; it must be true or false")
        return value

    def activation(self, name: str, *, default: str) -> str:
        # the name of a supported activation
        value = self.get(name, default)
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise UnreadableModel(f"{name} is {brief(repr(value))}; supported are {', '.join(ACTIVATIONS)}")
        return value

    def inner(self, name: str) -> "ConfigObject":
        """The object that is the value of a key, empty if the key is missing or null."""
        entries = self.get(name)
        if not isinstance(entries, dict | None):
            raise UnreadableModel(f"{self.path}{name} is {brief(repr(entries))}; it must be an object")
        self._inner.append(ConfigObject(cast("dict[str, Any]", entries) or {}, f"{self.path}{name}."))
        return self._inner[-1]

    def finish(self, family: str) -> None:
        """Raise if a key was not read and may change what the model computes."""
        for name, value in self.entries.items():
            is_harmless = name in self._read or name in HARMLESS_KEYS or name.endswith(HARMLESS_ENDINGS)
            if not is_harmless and not (name in NEUTRAL_VALUES and value == NEUTRAL_VALUES[name]):
                raise UnreadableModel(
                    f"{self.path}{brief(name)} is {brief(repr(value))}, which is not supported for {family} "
                    f"and may change what the model computes; {IN_MEMORY}"
                )
        for inner in self._inner:
            inner.finish(family)


def check_real(value: Any, name: str, most: float) -> float:
    # the value as float, if it is a number above 0 and at most `most`; true and false are no numbers
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise UnreadableModel(f"{name} is {brief(repr(value))}; it must be above 0 and at most {most:g}")
    return math.fsum([value])
