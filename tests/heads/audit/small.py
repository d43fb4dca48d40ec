"""A small model on disk beside its text, as token ids, and the same at several steps."""

import json

import numpy as np
from safetensors.numpy import load_file, save_file

CONFIG = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "vocab_size": 12,
    "hidden_act": "silu",
}


def write_model(folder):
    """The folder ``model`` and the file ``story.jsonl``."""
    rng = np.random.default_rng(0)
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(CONFIG))
    stem = "model.layers.0."
    sizes = {
        "model.embed_tokens.weight": (12, 8),
        "model.norm.weight": (8,),
        f"{stem}input_layernorm.weight": (8,),
        f"{stem}post_attention_layernorm.weight": (8,),
        f"{stem}self_attn.q_proj.weight": (8, 8),
        f"{stem}self_attn.k_proj.weight": (4, 8),
        f"{stem}self_attn.v_proj.weight": (4, 8),
        f"{stem}self_attn.o_proj.weight": (8, 8),
        f"{stem}mlp.gate_proj.weight": (12, 8),
        f"{stem}mlp.up_proj.weight": (12, 8),
        f"{stem}mlp.down_proj.weight": (8, 12),
    }
    weights = {name: rng.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    save_file(weights, str(folder / "model" / "model.safetensors"))
    documents = [rng.integers(0, 12, 24).tolist() for _ in range(24)]
    lines = "".join(json.dumps({"text": ids}) + "\n" for ids in documents)
    (folder / "story.jsonl").write_text(lines)


def write_steps(folder, steps=(3, 20, 100)):
    """The folders ``steps/checkpoint-N``: the model, its queries growing."""
    weights = load_file(folder / "model" / "model.safetensors")
    queries = "model.layers.0.self_attn.q_proj.weight"
    for step in steps:
        place = folder / "steps" / f"checkpoint-{step}"
        place.mkdir(parents=True)
        (place / "config.json").write_text(json.dumps(CONFIG))
        save_file(
            weights | {queries: weights[queries] * np.float32(step / 100)}, str(place / "model.safetensors")
        )
