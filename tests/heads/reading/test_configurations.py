"""Keys of a configuration: read as ``transformers`` reads them, or refused by name.

The target ``configurations`` of the adversary draws such configurations at random.
"""

import numpy as np
import pytest
import safetensors.torch

from attomaton.base.errors import UnreadableModel
from attomaton.heads import open_model
from tests.adversary.configurations import BASES, apart, build, run, write

pytest.importorskip("transformers", reason="transformers is not installed (listed in tests/SKIPS.md)")

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}
DEFAULT = {"rope_type": "default", "rope_theta": 1e4}
IDS = np.random.default_rng(0).integers(0, 12, (2, 24))


def save(folder, family, changes):
    """The model that ``transformers`` makes of a changed configuration, with its files in a folder."""
    write(folder, {"model_type": family, **BASES[family], **changes})
    original = build(folder, 0)
    tensors = {name: tensor.clone() for name, tensor in original.state_dict().items()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    return original


READ = {
    "linear beside default": (
        "llama",
        {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_parameters": DEFAULT},
    ),
    "default beside linear": (
        "qwen3",
        {
            "rope_scaling": DEFAULT,
            "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 50.0},
        },
    ),
    "theta of the one that is left out": (
        "qwen2",
        {
            "rope_scaling": {"rope_type": "default"},
            "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
        },
    ),
    "an empty one": (
        "olmo2",
        {"rope_scaling": {}, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
    ),
    "RoPE of transformers 4": (
        "gpt_neox",
        {"rotary_pct": 0.5, "partial_rotary_factor": 0.5, "rotary_emb_base": 50, "rope_theta": 50},
    ),
    "part of the coordinates": ("phi3", {"rope_parameters": {**DEFAULT, "partial_rotary_factor": 0.5}}),
    "null for the sizes": ("llama", {"head_dim": None, "num_key_value_heads": None, "rope_scaling": None}),
    "windows of some layers": (
        "qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": 5,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "a window from the first layer": (
        "qwen3",
        {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0},
    ),
}


@pytest.mark.parametrize("name", READ)
def test_settings_are_read_as_transformers_reads_them(name, tmp_path):
    original = save(tmp_path, *READ[name])
    ours, (logits, patterns) = open_model(tmp_path).watch(IDS), run(original, IDS)
    assert apart(ours.logits, logits) < 1e-4
    assert max(map(apart, ours.patterns, patterns)) < 1e-5


REFUSED = {
    "null that makes a model attend to later tokens": ("mistral", {"is_causal": None}, "is_causal"),
    "yarn beside rope_parameters, qwen2": (
        "qwen2",
        {"rope_scaling": YARN, "rope_parameters": DEFAULT},
        "'yarn'",
    ),
    "yarn beside rope_parameters, qwen3": (
        "qwen3",
        {"rope_scaling": YARN, "rope_parameters": DEFAULT},
        "'yarn'",
    ),
    "layer_types of ministral": (
        "mistral",
        {"layer_types": BASES["gemma3_text"]["layer_types"]},
        "layer_types",
    ),
    "partial_rotary_factor that is ignored": (
        "llama",
        {"rope_parameters": {**DEFAULT, "partial_rotary_factor": 0.5}},
        r"rope_parameters\.partial_rotary_factor is 0\.5",
    ),
    "one name for layers of two kinds": (
        "gemma3_text",
        {"rope_parameters": {**DEFAULT, "factor": 4.0}},
        "rope_",
    ),
    "an old key that Gemma 3 leaves out": (
        "gemma3_text",
        {"rope_scaling": {"type": "linear", "factor": 4.0}},
        "type",
    ),
    "logits that are capped at zero": (
        "gemma3_text",
        {"final_logit_softcapping": 0.0},
        "final_logit_softcapping",
    ),
    "attention in both directions": ("llama", {"is_causal": False}, "is_causal is False"),
    "a head's width for RoPE alone": ("gpt_neox", {"head_dim": 8}, "head_dim is 8"),
    "an alias": ("gpt2", {"num_attention_heads": 2}, "num_attention_heads is 2"),
    "a multiplier": ("llama", {"logits_scaling": 2.0}, "logits_scaling is 2.0"),
    "a setting of some layers": ("qwen3", {"per_layer_config": {"0": {"head_dim": 8}}}, "per_layer_config"),
    "an unknown key": ("olmo2", {"clip_qkv": 0.1}, "clip_qkv is 0.1, which is not supported for olmo2"),
    "layers of another configuration": ("llama", {"text_config": {"hidden_act": "relu"}}, "text_config"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_keys_that_are_not_read_are_refused_by_name(name, tmp_path):
    family, changes, match = REFUSED[name]
    write(tmp_path, {"model_type": family, **BASES[family]})
    tensors = {key: tensor.clone() for key, tensor in build(tmp_path, 0).state_dict().items()}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    assert open_model(tmp_path).shape.n_layers == 2
    write(tmp_path, {"model_type": family, **BASES[family], **changes})
    with pytest.raises(UnreadableModel, match=match):
        open_model(tmp_path)


NULLS = {
    "gpt2": ("scale_attn_weights", "tie_word_embeddings", "activation_function", "layer_norm_epsilon"),
    "gpt_neo": ("attention_layers", "window_size"),
    "gpt_neox": ("rotary_pct", "rotary_emb_base", "use_parallel_residual", "attention_bias"),
    "llama": ("rope_theta", "hidden_act", "rms_norm_eps", "mlp_bias"),
    "mistral": ("num_key_value_heads",),
    "qwen2": ("head_dim", "use_sliding_window", "max_window_layers"),
    "gemma3_text": ("sliding_window", "rope_local_base_freq", "query_pre_attn_scalar"),
    "phi3": ("partial_rotary_factor", "head_dim", "original_max_position_embeddings"),
}
"""Family → keys in which ``transformers`` refuses null."""


@pytest.mark.parametrize(("family", "key"), [(family, key) for family in NULLS for key in NULLS[family]])
def test_null_is_refused_where_transformers_refuses_it(family, key, tmp_path):
    config = {"model_type": family, **BASES[family]}
    write(tmp_path, config)
    tensors = {name: tensor.clone() for name, tensor in build(tmp_path, 0).state_dict().items()}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    write(tmp_path, {**config, key: None})
    with pytest.raises(Exception):  # noqa: B017, PT011  of several kinds
        run(build(tmp_path, 0), IDS)
    with pytest.raises(UnreadableModel):
        open_model(tmp_path)


PUBLISHED = {
    "gpt2": {
        "n_ctx": 32,
        "n_special": 0,
        "predict_special_tokens": True,
        "output_past": True,
        "summary_use_proj": True,
        "summary_first_dropout": 0.1,
        "task_specific_params": {"text-generation": {"do_sample": True}},
        "reorder_and_upcast_attn": True,
        "_num_labels": 1,
        "pruned_heads": {},
        "finetuning_task": None,
    },
    "gpt_neo": {
        "gradient_checkpointing": False,
        "embed_dropout": 0,
        "intermediate_size": None,
        "attention_layers": ["global", "local"],
        "tokenizer_class": "GPT2Tokenizer",
        "summary_type": "cls_index",
    },
    "gpt_neox": {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "rotary_emb_base": 10000},
    "llama": {
        "is_llama_config": True,
        "rope_interleaved": False,
        "pretraining_tp": 1,
        "rope_scaling": None,
        "transformers.js_config": {"kv_cache_dtype": {"fp16": "float16"}},
        "max_sequence_length": 32,
        "unsloth_fixed": True,
        "_attn_implementation_autoset": True,
    },
    "mistral": {"attention_dropout": 0.0, "rope_theta": 1e6, "sliding_window": None, "head_dim": None},
    "qwen2": {
        "max_window_layers": 28,
        "sliding_window": 131072,
        "use_sliding_window": False,
        "use_mrope": False,
    },
    "qwen3": {"attention_bias": False, "max_window_layers": 36, "sliding_window": None, "rope_scaling": None},
    "gemma3_text": {
        "cache_implementation": "hybrid",
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "sliding_window_pattern": 6,
        "_sliding_window_pattern": 6,
        "use_bidirectional_attention": False,
    },
    "olmo2": {"rope_theta": 500000, "use_cache": False, "eos_token_id": [1, 2]},
    "phi3": {
        "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
        "attention_bias": False,
        "embd_pdrop": 0.0,
        "original_max_position_embeddings": 4096,
        "rope_scaling": None,
        "resid_pdrop": 0.0,
        "sliding_window": 2047,
    },
}
"""Keys that configurations on the hub have."""


@pytest.mark.parametrize("family", BASES)
def test_what_published_configurations_say_is_read(family, tmp_path):
    changes = {"torch_dtype": "bfloat16", "transformers_version": "4.40.1", "bos_token_id": 0}
    original = save(tmp_path, family, PUBLISHED[family] | changes)
    ours, (_, patterns) = open_model(tmp_path).watch(IDS), run(original, IDS)
    assert max(map(apart, ours.patterns, patterns)) < 1e-5
