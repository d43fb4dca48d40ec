"""Small models of many architectures with random weights, and a table of what can be audited of each.

Run ``python -m tests.heads.architectures`` for the table of docs/heads-models.md, or name some architectures.
"""

import sys

import numpy as np
import torch

SMALL = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OLD = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "n_ctx": 64,
    "n_inner": 48,
    "vocab_size": 96,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_sparse_step": 1}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
WIDE = {"head_dim": 16}
LATENT = {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
}
MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
}

CHANGES = {
    "llama": {},
    "mistral": {},
    "ministral": {
        "head_dim": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 8,
    },
    "ministral3": WIDE,
    "gemma": WIDE,
    "gemma2": WIDE | {"sliding_window": 8, "query_pre_attn_scalar": 16},
    "gemma3_text": WIDE | {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "gemma3n_text": WIDE
    | {
        "sliding_window": 8,
        "num_kv_shared_layers": 0,
        "vocab_size_per_layer_input": 96,
        "hidden_size_per_layer_input": 8,
        "laurel_rank": 4,
        "layer_types": ["sliding_attention", "full_attention"],
        "activation_sparsity_pattern": [0.0, 0.0],
        "intermediate_size": [48, 48],
    },
    "gemma4_text": WIDE
    | {
        "sliding_window": 8,
        "global_head_dim": 16,
        "vocab_size_per_layer_input": 96,
        "hidden_size_per_layer_input": 8,
        "num_kv_shared_layers": 0,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "qwen2": {},
    "qwen3": WIDE,
    "qwen2_moe": EXPERTS | {"shared_expert_intermediate_size": 24},
    "qwen3_moe": EXPERTS | WIDE,
    "mixtral": LOCAL,
    "gpt_oss": LOCAL | WIDE | {"sliding_window": 8},
    "olmo": {},
    "olmo2": {},
    "olmo3": {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "flex_olmo": {"num_experts": 4, "num_experts_per_tok": 2},
    "smollm3": {"layer_types": ["full_attention", "full_attention"], "no_rope_layers": [1, 0]},
    "phi": {},
    "phi3": {},
    "phimoe": LOCAL,
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "gpt2": OLD,
    "gpt_neo": {
        "vocab_size": 96,
        "max_position_embeddings": 64,
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 8,
    },
    "gpt_neox": {name: size for name, size in SMALL.items() if name != "num_key_value_heads"},
    "gptj": OLD | {"rotary_dim": 4},
    "codegen": OLD | {"rotary_dim": 4},
    "falcon": {"alibi": False, "new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon:multi-query": {"alibi": False, "multi_query": True},
    "falcon:alibi": {"alibi": True, "multi_query": False, "new_decoder_architecture": False},
    "bloom": {"n_layer": 2, "n_head": 4},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "expansion_ratio": 2},
    "gpt_bigcode": OLD,
    "xglm": {"d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4},
    "openai-gpt": OLD,
    "biogpt": {},
    "gpt_neox_japanese": {"intermediate_multiple_size": 2},
    "stablelm": {},
    "starcoder2": {},
    "cohere": {},
    "cohere2": {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "granite": {},
    "granitemoe": LOCAL,
    "granitemoeshared": LOCAL | {"shared_intermediate_size": 24},
    "nemotron": {},
    "persimmon": {},
    "helium": {"head_dim": 8},
    "arcee": {},
    "seed_oss": {"head_dim": 8},
    "exaone4": {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8, "num_experts": 4, "moe_topk": 2},
    "ernie4_5": {"head_dim": 8},
    "ernie4_5_moe": {
        "moe_num_experts": 4,
        "moe_k": 2,
        "moe_intermediate_size": 24,
        "moe_layer_start_index": 0,
    },
    "apertus": {},
    "diffllama": {},
    "doge": {"keep_window_size": 64},
    "bitnet": {},
    "deepseek_v2": LATENT
    | {
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
        "n_shared_experts": 1,
    },
    "deepseek_v3": LATENT
    | {
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
        "n_shared_experts": 1,
    },
    "minicpm3": LATENT,
    "glm": {"head_dim": 8},
    "glm4": {"head_dim": 8},
    "glm4_moe": {
        "head_dim": 8,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
    },
    "dots1": {
        "head_dim": 8,
        "n_shared_experts": 1,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
    },
    "llama4_text": {
        "head_dim": 8,
        "num_local_experts": 2,
        "intermediate_size_mlp": 48,
        "attention_chunk_size": 16,
    },
    "minimax": LOCAL
    | {"head_dim": 8, "layer_types": ["linear_attention", "full_attention"], "block_size": 8},
    "jetmoe": {"num_local_experts": 4, "num_experts_per_tok": 2, "kv_channels": 8, "num_key_value_heads": 4},
    "jamba": {
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "num_experts": 2,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "mamba_d_state": 8,
        "use_mamba_kernels": False,
    },
    "bamba": MAMBA | {"attn_layer_indices": [1]},
    "zamba2": {
        "num_hidden_layers": 4,
        "hybrid_layer_ids": [1, 3],
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
        "n_mamba_heads": 8,
        "mamba_ngroups": 1,
        "mamba_d_state": 8,
        "adapter_rank": 4,
        "num_mem_blocks": 1,
        "num_key_value_heads": 4,
        "attention_head_dim": 16,
        "use_mem_rope": True,
    },
    "falcon_h1": {
        "mamba_d_ssm": 64,
        "mamba_n_heads": 8,
        "mamba_d_head": 8,
        "mamba_d_state": 8,
        "mamba_n_groups": 1,
        "head_dim": 8,
    },
    "granitemoehybrid": MAMBA
    | LOCAL
    | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 24},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "qwen3_next": EXPERTS
    | WIDE
    | {
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 24,
    },
    "nemotron_h": {
        "layers_block_type": ["mamba", "attention", "mlp"],
        "mamba_num_heads": 8,
        "mamba_head_dim": 8,
        "ssm_state_size": 8,
        "n_groups": 1,
        "head_dim": 8,
    },
    "recurrent_gemma": {
        "lru_width": 32,
        "attention_window_size": 16,
        "block_types": ["recurrent", "attention"],
        "head_dim": 8,
    },
    "dbrx": {
        "d_model": 32,
        "n_heads": 4,
        "n_layers": 2,
        "max_seq_len": 64,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10_000.0},
        "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "vaultgemma": WIDE | {"sliding_window": 8, "query_pre_attn_scalar": 16},
    "olmo_hybrid": {},
}
"""Architecture → what differs from ``SMALL``, or all settings if it has a vocabulary; a colon separates
variants."""


def make(name, *, spread=0.2, attention="eager"):
    """A model of an architecture; all its weights are random."""
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = CHANGES[name] if "vocab_size" in CHANGES[name] else SMALL | CHANGES[name]
    config = AutoConfig.for_model(name.partition(":")[0], **settings)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point():
                weight.add_(spread * torch.randn_like(weight))
    return model


def audit(name):
    """A row of the table: the route, and how far rows, logits and causal value are off."""
    from attomaton.heads.audit.causal import replace_heads
    from attomaton.heads.audit.replacing import LabelledContexts
    from attomaton.heads.live import LiveModel
    from attomaton.heads.reading.configs import FAMILIES
    from attomaton.heads.reading.families import read_object
    from attomaton.heads.taps import uses_interface

    model, ids = make(name), np.random.default_rng(0).integers(3, 96, (2, 24))
    with torch.no_grad():
        eager = model(torch.as_tensor(ids), output_attentions=True, use_cache=False, return_dict=True)
    theirs = [pattern for pattern in eager.attentions if pattern.ndim == 4 and pattern.shape[-1] == 24]
    live = LiveModel.of(model)
    seen = live.watch(ids, edit_patterns=lambda _, pattern: pattern)
    rows = "–"
    if len(theirs) == len(seen.patterns):
        pairs = zip(seen.patterns, theirs, strict=True)
        rows = f"{max(float((ours - other).abs().max()) for ours, other in pairs):.0e}"
    logits = float((seen.logits - eager.logits).abs().max())
    drawn = "none"
    if live.attends_once:
        drawn = "rotated inputs" if live.rotate(seed=0).shares_rotations else "per head"
    causal = ""
    if name in FAMILIES:
        documents = np.random.default_rng(1).integers(3, 96, (9, 13))
        contexts = LabelledContexts.of(documents, length=12, n_tokens=96)
        both = [replace_heads(one, contexts) for one in (live, read_object(model))]
        apart = (
            getattr(both[0], kind).value - getattr(both[1], kind).value for kind in ("pattern", "ablation")
        )
        causal = f"{max(float(np.abs(one).max()) for one in apart):.0e}"
    route = "interface" if uses_interface(model) else "written out"
    return name, route, rows, f"{logits:.0e}", drawn, causal


def main():
    """Print the table."""
    from transformers import logging

    logging.set_verbosity_error()
    lines = ["| architecture | attention | rows | logits | random heads | causal value |", "|---" * 6 + "|"]
    for name in (None, *(sys.argv[1:] or CHANGES)):
        sys.stdout.write("\n".join(lines) if name is None else f"| {' | '.join(audit(name))} |")
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
