"""Real models: a Llama that writes stories, a minGPT that sorts; against computations of their own."""

import base64
import itertools
import json

import numpy as np
import pytest
import torch

from attomaton.corpora.tokenizers import Vocabulary
from attomaton.heads.deviation import compare_logits
from attomaton.heads.model import Head
from attomaton.heads.opening import open_model


def in_doubles(folder):
    """Embedding, first norm, queries and keys of the stories model, read by the format's own library."""
    from safetensors.numpy import load_file

    held = {
        name: one.astype(np.float64) for name, one in load_file(folder / "hf" / "model.safetensors").items()
    }
    stem = "model.layers.0."
    table = held["model.embed_tokens.weight"]
    normed = table / np.sqrt((table**2).mean(1, keepdims=True) + 1e-5) * held[f"{stem}input_layernorm.weight"]
    query = (normed @ held[f"{stem}self_attn.q_proj.weight"].T).reshape(-1, 8, 8)
    key = (normed @ held[f"{stem}self_attn.k_proj.weight"].T).reshape(-1, 4, 8)
    return query, key


def test_token_scores_of_the_stories_model(stories_model):
    model = open_model(stories_model / "hf")
    query, key = in_doubles(stories_model)
    turns = 10_000.0 ** -(np.arange(0, 8, 2) / 8)
    for lag, head in itertools.product((0, 1, 100), range(8)):
        angle = np.exp(1j * lag * turns)
        asked = (query[:, head, :4] + 1j * query[:, head, 4:]) * angle
        offered = key[:, head // 2, :4] + 1j * key[:, head // 2, 4:]
        real = (offered @ asked.conj().T).real / np.sqrt(8)
        ours = model.score_tokens(Head(0, head), np.arange(512), np.arange(512), lag=lag)
        assert np.abs(ours - real).max() < 1e-6 * np.abs(real).max()


def test_logits_of_the_stories_model(stories_model):
    library = pytest.importorskip("transformers", reason="listed in tests/SKIPS.md")
    original = library.AutoModelForCausalLM.from_pretrained(stories_model / "hf")
    model = open_model(stories_model / "hf")
    deviation = compare_logits(model, original, np.random.default_rng(0).integers(3, 512, (2, 256)))
    assert deviation.logits < 1e-4, deviation


def test_the_stories_model_knows_stories(stories_model, tinystories):
    stories = json.loads(tinystories.read_text(encoding="utf-8"))
    vocabulary = Vocabulary.fixed(str(stories_model / "tok512.bin"))
    model = open_model(stories_model / "hf")
    losses = []
    for story in stories[:6]:
        ids = np.r_[1, vocabulary.encode(" ".join(story.split()))][None, :200]
        probabilities = model.watch(ids).logits[0].log_softmax(-1)
        losses.append(
            -float(probabilities[torch.arange(ids.shape[1] - 1), torch.as_tensor(ids[0, 1:])].mean())
        )
    assert np.mean(losses) < 1.7, losses  # 6.2 without a model


def test_the_sorting_model_sorts(sort_model):
    model = open_model(sort_model)
    given = np.array(list(itertools.product(range(3), repeat=6)))
    ordered = np.sort(given, 1)
    seen = model.watch(np.concatenate([given, ordered[:, :5]], 1))
    assert (seen.logits[:, 5:].argmax(-1).numpy() == ordered).all()
    assert len(seen.patterns) == 3
    assert model.shape.n_heads == 3


def test_what_another_program_kept_of_the_sorting_model(sort_model):
    """Attention of its first layer and logits for three inputs, as they came with the model."""
    kept = json.loads(sort_model.with_name("gpt-nano-sort-t0-partials.json").read_text())
    held = {
        name: np.frombuffer(base64.b64decode(kept[name]["data"]), np.float32).reshape(kept[name]["shape"])
        for name in ("idx", "attSm", "lm_head")
    }
    seen = open_model(sort_model).watch(held["idx"].astype(np.int64))
    np.testing.assert_allclose(seen.patterns[0].numpy(), held["attSm"], atol=1e-5)
    np.testing.assert_allclose(seen.logits.numpy(), held["lm_head"], atol=1e-4)
