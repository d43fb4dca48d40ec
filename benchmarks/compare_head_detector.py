"""TransformerLens' head detector beside an audit, on the same GGUF model and stories, as one JSON line.

    python benchmarks/compare_head_detector.py MODEL.gguf STORIES.json 200

Needs transformer_lens < 3 (later versions have no HookedTransformer) and gguf. The detector scores the mean
attention on the pattern of a kind of head, without a null and without a threshold; the usual reading is a
list of the largest scores. Both run on one thread; times are CPU seconds, the audit's with opening the file.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from attomaton.heads import audit_heads
from attomaton.heads.reading.gguf_tokenizer import read_tokenizer

KINDS = {
    "previous token": "previous_token_head",
    "duplicate": "duplicate_token_head",
    "induction": "induction_head",
}
TOP = 10


def open_hooked(path: Path) -> Any:
    """The model and tokenizer of a GGUF file of the Llama family as a HookedTransformer."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig
    from transformer_lens.pretrained.weight_conversions import convert_llama_weights
    from transformers import AutoModelForCausalLM

    source: Any = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    )
    own = source.config
    theta = getattr(own, "rope_theta", None) or own.rope_parameters["rope_theta"]
    config = HookedTransformerConfig(
        n_layers=own.num_hidden_layers, d_model=own.hidden_size, n_ctx=2048,
        d_head=own.hidden_size // own.num_attention_heads, n_heads=own.num_attention_heads,
        n_key_value_heads=own.num_key_value_heads, d_vocab=own.vocab_size, d_mlp=own.intermediate_size,
        act_fn="silu", normalization_type="RMS", positional_embedding_type="rotary",
        rotary_dim=own.hidden_size // own.num_attention_heads, rotary_base=int(theta), gated_mlp=True,
        final_rms=True, eps=own.rms_norm_eps, default_prepend_bos=False, device="cpu",
    )  # fmt: skip
    config.original_architecture = "LlamaForCausalLM"
    model = HookedTransformer(config, move_to_device=False)
    state = convert_llama_weights(source, config)
    model.load_and_process_state_dict(
        state, fold_ln=False, center_writing_weights=False, center_unembed=False, fold_value_biases=False
    )
    tokenizer = read_tokenizer(path)
    model.to_tokens = lambda text: torch.as_tensor(tokenizer.encode(text).astype("int64"))[None]
    return model, source


def main() -> None:
    torch.set_num_threads(1)
    path, stories, many = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    texts = [text[:900] for text in json.loads(stories.read_text())[:many]]
    model, source = open_hooked(path)
    ids = model.to_tokens(texts[0])
    apart = float((model(ids) - source(ids).logits).detach().abs().max())
    from transformer_lens.head_detector import detect_head

    began = time.process_time()
    scores = {
        kind: torch.stack([detect_head(model, text, name) for text in texts]).mean(0)
        for kind, name in KINDS.items()
    }
    detector = time.process_time() - began
    del model, source
    began = time.process_time()
    audit = audit_heads(path, texts)
    ours = time.process_time() - began
    typed = {
        kind: [str(h) for h, one in zip(audit.heads, audit.types, strict=True) if one.name == kind]
        for kind in KINDS
    }
    top = {}
    for kind, table in scores.items():
        order = table.flatten().argsort(descending=True)[:TOP].tolist()
        width = table.shape[1]
        top[kind] = [(f"{at // width}.{at % width}", round(float(table.flatten()[at]), 3)) for at in order]
    print(
        json.dumps(
            {
                "logits_apart": apart, "documents": many,
                "detector_seconds": round(detector, 1), "audit_seconds": round(ours, 1),
                "detector_top": top, "typed": typed,
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
