"""Small models of every family that is read, with random weights, made by ``transformers`` or by hand."""

import json
from pathlib import Path

import safetensors.torch
import torch

SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "vocab_size": 61}
GPT2 = {"n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": 48, "vocab_size": 61}

CONFIGS = {
    "gpt2": {"model_type": "gpt2", **GPT2},
    "gpt2 otherwise": {
        "model_type": "gpt2",
        **GPT2,
        "n_layer": 3,
        "n_head": 2,
        "n_inner": 40,
        "activation_function": "relu",
        "scale_attn_by_inverse_layer_idx": True,
        "tie_word_embeddings": False,
    },
    "gpt2 unscaled": {
        "model_type": "gpt2",
        **GPT2,
        "scale_attn_weights": False,
        "activation_function": "quick_gelu",
    },
    "gpt_neox": {"model_type": "gpt_neox", **SMALL, "num_attention_heads": 2, "max_position_embeddings": 48},
    "gpt_neox in turn": {
        "model_type": "gpt_neox",
        **SMALL,
        "num_attention_heads": 4,
        "max_position_embeddings": 48,
        "use_parallel_residual": False,
        "rotary_pct": 0.5,
        "attention_bias": False,
        "hidden_act": "gelu_fast",
    },
    "llama": {
        "model_type": "llama",
        **SMALL,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "max_position_embeddings": 48,
    },
    "llama otherwise": {
        "model_type": "llama",
        **SMALL,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 12,
        "max_position_embeddings": 48,
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": True,
        "rope_theta": 500.0,
        "hidden_act": "gelu_pytorch_tanh",
    },
    "mistral": {
        "model_type": "mistral",
        **SMALL,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "max_position_embeddings": 48,
        "sliding_window": 24,
    },
    "qwen2": {
        "model_type": "qwen2",
        **SMALL,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 48,
    },
    "gpt_neo": {
        "model_type": "gpt_neo",
        "num_layers": 3,
        "attention_types": [[["global", "local", "local"], 1]],
        "num_heads": 4,
        "hidden_size": 32,
        "window_size": 7,
        "max_position_embeddings": 48,
        "vocab_size": 61,
    },
    "qwen3": {
        "model_type": "qwen3",
        **SMALL,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 10,
        "max_position_embeddings": 48,
    },
    "gemma3_text": {
        "model_type": "gemma3_text",
        **SMALL,
        "num_hidden_layers": 3,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 12,
        "query_pre_attn_scalar": 20,
        "sliding_window": 9,
        "max_position_embeddings": 48,
    },
    "olmo2": {
        "model_type": "olmo2",
        **SMALL,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 48,
        "pad_token_id": None,
    },
    "phi3": {
        "model_type": "phi3",
        **SMALL,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 48,
        "sliding_window": 11,
        "pad_token_id": None,
    },
    "llama 3": {
        "model_type": "llama",
        **SMALL,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 1e4,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
}


def make(name, *, seed=0, spread=0.2, **changes):
    """A ``transformers`` model of the configuration; all weights are random, biases and gains too."""
    return make_of({**CONFIGS[name], **changes}, seed=seed, spread=spread)


def make_of(settings, *, seed=0, spread=0.2):
    """A ``transformers`` model of settings, as ``make`` has them."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        settings["model_type"], **{k: v for k, v in settings.items() if k != "model_type"}
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for one in model.parameters():
            one.add_(spread * torch.randn_like(one))
    return model


def make_opt(**changes):
    """A ``transformers`` model of a family that attomaton does not read."""
    from transformers import OPTConfig, OPTForCausalLM

    sizes = {
        "hidden_size": 32,
        "ffn_dim": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 61,
    }
    config = OPTConfig(**sizes, max_position_embeddings=64, word_embed_proj_dim=32, pad_token_id=1, **changes)
    torch.manual_seed(0)
    model = OPTForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def names_and_shapes(config):
    """The tensors that a configuration asks for, as our own writer of files needs them (GPT-2 and Llama)."""
    if config["model_type"] == "gpt2":
        dim, inner = config["n_embd"], config.get("n_inner") or 4 * config["n_embd"]
        whole = {"wte.weight": (config["vocab_size"], dim), "wpe.weight": (config["n_positions"], dim)}
        for layer in range(config["n_layer"]):
            stem = f"h.{layer}."
            maps = {"attn.c_attn": (dim, 3 * dim), "attn.c_proj": (dim, dim)}
            maps |= {"mlp.c_fc": (dim, inner), "mlp.c_proj": (inner, dim)}
            for one, shape in maps.items():
                whole |= {f"{stem}{one}.weight": shape, f"{stem}{one}.bias": shape[1:]}
            for one in ("ln_1", "ln_2"):
                whole |= {f"{stem}{one}.weight": (dim,), f"{stem}{one}.bias": (dim,)}
        return whole | {"ln_f.weight": (dim,), "ln_f.bias": (dim,)}
    dim, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    width = dim // heads
    shared = width * config["num_key_value_heads"]
    whole = {"model.embed_tokens.weight": (config["vocab_size"], dim), "model.norm.weight": (dim,)}
    for layer in range(config["num_hidden_layers"]):
        stem = f"model.layers.{layer}."
        sizes = {"self_attn.q_proj": (dim, dim), "self_attn.k_proj": (shared, dim)}
        sizes |= {"self_attn.v_proj": (shared, dim), "self_attn.o_proj": (dim, dim)}
        sizes |= {"mlp.up_proj": (inner, dim), "mlp.gate_proj": (inner, dim), "mlp.down_proj": (dim, inner)}
        sizes |= {"input_layernorm": (dim,), "post_attention_layernorm": (dim,)}
        whole |= {f"{stem}{one}.weight": shape for one, shape in sizes.items()}
    return whole | {"lm_head.weight": (config["vocab_size"], dim)}


def write(folder, name, *, dtype=torch.float32, **changes):
    """A folder with a configuration and random weights, written without ``transformers``; its tensors."""
    config = {**CONFIGS[name], **changes}
    drawn = torch.Generator().manual_seed(0)
    tensors = {
        one: (0.3 * torch.randn(shape, generator=drawn)).to(dtype)
        for one, shape in names_and_shapes(config).items()
    }
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    return tensors
