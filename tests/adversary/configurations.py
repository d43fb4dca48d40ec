"""Configurations that were changed: read as ``transformers`` reads them, or refused.

A configuration of one of the ten families loses keys, gets others, or null in their place. ``transformers``
builds a model of it from the same ``config.json``. Ours has its attention and its logits, or is refused.
"""

import contextlib
import copy
import json
import logging
import tempfile
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from attomaton.base.errors import UnreadableModel
from attomaton.heads import open_model
from tests.adversary.finding import Finding, unjudged, worst_of

SIZES = {
    "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 20, "vocab_size": 17,
    "num_attention_heads": 4, "max_position_embeddings": 32,
}  # fmt: skip
SHARED = {**SIZES, "num_key_value_heads": 2, "pad_token_id": None}
BASES = {
    "gpt2": {"n_layer": 2, "n_head": 4, "n_embd": 16, "n_positions": 32, "vocab_size": 17},
    "gpt_neo": {
        "num_layers": 2, "num_heads": 4, "hidden_size": 16, "window_size": 5, "vocab_size": 17,
        "max_position_embeddings": 32, "attention_types": [[["global", "local"], 1]],
    },
    "gpt_neox": {**SIZES, "rotary_pct": 0.5},
    "llama": SHARED,
    "mistral": {**SHARED, "sliding_window": 7},
    "qwen2": SHARED,
    "qwen3": {**SHARED, "head_dim": 6},
    "gemma3_text": {
        **SHARED, "head_dim": 6, "sliding_window": 7, "query_pre_attn_scalar": 9,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "olmo2": SHARED,
    "phi3": SHARED,
}  # fmt: skip
"""The smallest configuration of each family."""

KINDS = ("full_attention", "sliding_attention")
FLAGS = (True, False)
ACTIVATIONS = ("silu", "gelu", "gelu_new", "gelu_fast", "quick_gelu", "relu", "relu2", "mish")
ROPES = ("rope_scaling", "rope_parameters")

VALUES = {
    "activation_function": ACTIVATIONS,
    "add_cross_attention": FLAGS,
    "attention_bias": FLAGS,
    "attention_chunk_size": (8,),
    "attention_layers": (["local", "local"], ["global", "local"], ["global"]),
    "attention_multiplier": (2.0,),
    "attention_types": ([[["global"], 2]], [[["local"], 1], [["global"], 1]], [[["local"], 5]], []),
    "attn_logit_softcapping": (None, 0.0, 3.0),
    "clip_qkv": (0.1,),
    "embedding_multiplier": (2.0,),
    "final_logit_softcapping": (None, 0.0, 3.0),
    "head_dim": (4, 6, 8, 5),
    "hidden_act": ACTIVATIONS,
    "hidden_activation": ACTIVATIONS,
    "hidden_size": (16, 24),
    "intermediate_size": (12,),
    "is_causal": (False, None, True),
    "is_encoder_decoder": FLAGS,
    "layer_norm_eps": (1e-2,),
    "layer_norm_epsilon": (1e-2,),
    "layer_types": (["sliding_attention", "full_attention"], ["full_attention"] * 2, ["attention"] * 2),
    "logit_scale": (2.0,),
    "logits_scaling": (2.0,),
    "max_position_embeddings": (24, 40),
    "max_window_layers": (0, 1, 2),
    "mlp_bias": FLAGS,
    "n_ctx": (8,),
    "n_inner": (None, 12),
    "no_rope_layers": ([0, 1],),
    "num_attention_heads": (2, 4),
    "num_hidden_layers": (1, 2),
    "num_key_value_heads": (1, 2, 4, 3),
    "original_max_position_embeddings": (8, 64, None),
    "partial_rotary_factor": (0.5, 1.0, None),
    "per_layer_config": ({"0": {"sliding_window": 3}},),
    "pretraining_tp": (1, 2),
    "qk_norm": (True,),
    "query_pre_attn_scalar": (3, 16),
    "reorder_and_upcast_attn": FLAGS,
    "residual_multiplier": (2.0,),
    "rms_norm_eps": (1e-2,),
    "rope_local_base_freq": (50.0,),
    "rope_theta": (50.0, 5e5, 100),
    "rotary_emb_base": (50.0, 100),
    "rotary_pct": (0.25, 0.5, 1.0),
    "scale_attn_by_inverse_layer_idx": FLAGS,
    "scale_attn_weights": FLAGS,
    "sliding_window": (3, 9, None),
    "sliding_window_pattern": (1, 2, 3),
    "text_config": ({"hidden_act": "relu", "rope_theta": 50.0}, None),
    "tie_word_embeddings": FLAGS,
    "torch_dtype": ("bfloat16", "float32"),
    "use_bidirectional_attention": (False, None, True),
    "use_cache": FLAGS,
    "use_parallel_residual": FLAGS,
    "use_sliding_window": FLAGS,
    "window_size": (1, 3, 20),
}
"""Key → values that it is set to, whether its family has it or not."""

ADDED_TO_ROPE = {
    "attention_factor": 0.5, "beta_fast": 16.0, "factor": 3.0, "mrope_section": [1, 1], "mscale": 2.0,
    "original_max_position_embeddings": 12, "partial_rotary_factor": 0.5, "rope_theta": 70.0,
    "truncate": False,
}  # fmt: skip

LARGE, LARGEST = ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size"), 64
"""Sizes of a model that ``transformers`` is asked to build; what a missing one stands for may be larger."""

LENGTH = 24


def pick(rng, options):
    return copy.deepcopy(options[int(rng.integers(len(options)))])


def draw_rope(rng, width):
    """The settings of RoPE, with keys that belong to its kind or not, and now and then null."""
    kind = pick(rng, ["default", "linear", "linear", "llama3", "llama3", "yarn", "dynamic", "longrope"])
    rope = {pick(rng, ["rope_type", "rope_type", "type"]): kind}
    if rng.random() < 0.5:
        rope["rope_theta"] = float(pick(rng, [50.0, 1e4, 5e5]))
    if kind in ("linear", "llama3", "yarn", "dynamic"):
        rope["factor"] = pick(rng, [2.0, 4, 7.5])
    if kind == "llama3":
        rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if kind in ("llama3", "yarn", "longrope") and rng.random() < 0.7:
        rope["original_max_position_embeddings"] = pick(rng, [8, 16])
    if kind == "longrope":
        rope |= {"short_factor": [1.5] * (width // 2), "long_factor": [3.0] * (width // 2)}
    if rng.random() < 0.2:
        name = pick(rng, list(ADDED_TO_ROPE))
        rope[name] = ADDED_TO_ROPE[name]
    if rng.random() < 0.1:
        rope[pick(rng, list(rope))] = None
    if rng.random() < 0.1:
        del rope[pick(rng, list(rope))]
    return rope


def change_rope(rng, config):
    """Settings of RoPE under one name or both, for each kind of layer or for all."""
    for name in pick(rng, [ROPES[:1], ROPES[1:], ROPES]):
        config[name] = draw_rope(rng, 6 if "head_dim" in config else 4)
        if rng.random() < (0.7 if config["model_type"] == "gemma3_text" and name == ROPES[1] else 0.1):
            kinds = pick(rng, [KINDS, KINDS, KINDS[:1], KINDS[1:]])
            config[name] = {kind: pick(rng, [draw_rope(rng, 6), {"rope_type": "default"}]) for kind in kinds}


def draw_config(rng):
    """A configuration of a family, as ``transformers`` writes it or with the sizes only, and changed."""
    from transformers import AutoConfig

    family = pick(rng, list(BASES))
    config = {"model_type": family, **copy.deepcopy(BASES[family])}
    if rng.random() < 0.5:
        config |= AutoConfig.for_model(**config).to_dict()
    changes = ["set", "set", "set", "remove", "null", "rope", "rope"]
    for change in rng.choice(changes[: 5 if family in ("gpt2", "gpt_neo") else 7], rng.integers(1, 4)):
        own = [name for name in config if name not in ("model_type", "pad_token_id")]
        if change == "set":
            mine = [name for name in VALUES if name in config]
            name = pick(rng, mine if mine and rng.random() < 0.5 else list(VALUES))
            config[name] = pick(rng, VALUES[name])
        elif change == "remove":
            del config[pick(rng, own)]
        elif change == "null":
            read = {*VALUES, *BASES[family], *ROPES} - {"reorder_and_upcast_attn", "use_cache"}
            config[pick(rng, [name for name in own if name in read])] = None
        else:
            change_rope(rng, config)
    return config


def build(folder, seed):
    """The model that ``transformers`` makes of ``config.json``, all weights random; None if it is large."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    if any((getattr(config, size, None) or 0) > LARGEST for size in LARGE):
        return None
    torch.manual_seed(seed)
    config.dtype = None
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for one in model.parameters():
            one.add_(0.2 * torch.randn_like(one))
    return model


def run(model, ids):
    """Logits and patterns."""
    with torch.no_grad():
        out = model(torch.as_tensor(ids), output_attentions=True, use_cache=False)
    return out.logits, out.attentions


def apart(one, other):
    """The largest difference of tensors; infinite if their shapes differ."""
    if one.shape != other.shape:
        return np.inf
    return float((one - other).abs().max().nan_to_num(torch.inf))


def attack(rng) -> Finding:
    """One changed configuration; no promise is made where it is refused and ``transformers`` reads it."""
    checks, original, theirs = [], None, None
    with contextlib.ExitStack() as stack:
        logging.disable()  # transformers warns of most of them
        stack.callback(logging.disable, logging.NOTSET)
        config, seed = draw_config(rng), int(rng.integers(1 << 30))
        ids = rng.integers(0, 12, (2, min(LENGTH, config.get("max_position_embeddings") or LENGTH)))
        family = config["model_type"]
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write(folder, config)
        with contextlib.suppress(Exception):  # of any kind: transformers refuses this configuration
            original = build(folder, seed)
            theirs = None if original is None else run(original, ids)
        if theirs is None:  # weights that fit, if the change is not to sizes
            write(folder, {"model_type": family, **BASES[family]})
            weights = build(folder, seed).state_dict()
            write(folder, config)
        else:
            weights = original.state_dict()
        safetensors.torch.save_file({k: v.clone() for k, v in weights.items()}, folder / "model.safetensors")
        for name, source in {"file": folder, **({} if theirs is None else {"memory": original})}.items():
            try:
                model = open_model(source)
            except UnreadableModel:
                continue
            if theirs is None:
                checks.append((f"{name}: transformers refuses what is read", np.inf, 1.0))
                continue
            ours = model.watch(ids)
            largest = max(1.0, float(theirs[0].abs().max()) / 10)
            checks.append((f"{name}: logits", apart(ours.logits, theirs[0]), 1e-4 * largest))
            pairs = zip(ours.patterns, theirs[1], strict=True)
            checks += [(f"{name}: patterns", apart(*pair), 1e-5) for pair in pairs]
    if theirs is None and not checks:
        checks.append(("refused by both", 0.0, 1.0))
    found = worst_of(checks, len(json.dumps(config)), {"config": config}, kind=family)
    if found.violated or any(what.startswith(("file", "refused")) for what, _, _ in checks):
        return found
    return unjudged("refused", family)


def write(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
