"""Real TransformerLens models: of version 4 a bridge over transformers, before that a HookedTransformer."""

from importlib.metadata import version

import numpy as np
import pytest
import torch

from attomaton.heads.opening import open_model

lens = pytest.importorskip("transformer_lens")
IDS = np.random.default_rng(0).integers(0, 50, (3, 12))
SIZES = {"n_layers": 2, "d_model": 32, "n_ctx": 16, "d_head": 8, "n_heads": 4, "d_vocab": 50, "d_mlp": 64}


pytestmark = pytest.mark.filterwarnings("ignore")  # its own, and those of what it brings
VERSION = int(version("transformer_lens").split(".")[0])


@pytest.mark.skipif(VERSION >= 4, reason="HookedTransformer was removed in version 4")
@pytest.mark.parametrize(
    "kind",
    [
        {"positional_embedding_type": "standard", "normalization_type": "LN", "act_fn": "gelu_new"},
        {
            "positional_embedding_type": "rotary",
            "rotary_dim": 8,
            "normalization_type": "RMS",
            "act_fn": "silu",
            "gated_mlp": True,
            "n_key_value_heads": 2,
            "final_rms": True,
        },
        {
            "positional_embedding_type": "rotary",
            "rotary_dim": 4,
            "normalization_type": "LNPre",
            "act_fn": "gelu",
            "parallel_attn_mlp": True,
        },
        {"attn_only": True, "normalization_type": None},
    ],
)
def test_hooked_transformers_have_our_logits_and_patterns(kind):
    torch.manual_seed(0)
    model = lens.HookedTransformer(lens.HookedTransformerConfig(**SIZES, **kind))
    for parameter in model.parameters():
        parameter.data = 0.2 * torch.randn_like(parameter)
    with torch.no_grad():
        logits, kept = model.run_with_cache(torch.tensor(IDS))
    found = open_model(model).watch(IDS)
    torch.testing.assert_close(found.logits, logits, rtol=0, atol=1e-4)
    for layer, pattern in enumerate(found.patterns):
        torch.testing.assert_close(pattern, kept["pattern", layer], rtol=0, atol=1e-5)


@pytest.mark.skipif(VERSION < 4, reason="bridges are read from version 4 on")
@pytest.mark.parametrize("folded", [False, True])
def test_bridges_have_our_logits(folded, tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=50, n_positions=16)
    original = transformers.GPT2LMHeadModel(config).eval()
    original.save_pretrained(tmp_path)
    bridge = lens.TransformerBridge.boot_transformers(str(tmp_path), hf_model=original)
    if folded:
        bridge.enable_compatibility_mode()
    with torch.no_grad():
        logits = bridge(torch.tensor(IDS))
    torch.testing.assert_close(open_model(bridge).watch(IDS).logits, logits, rtol=0, atol=1e-4)
