"""Models of every family that is read give the logits and the attention of ``transformers``."""

import numpy as np
import pytest
import torch

from attomaton.base.errors import UnreadableModel
from attomaton.heads.deviation import compare_logits
from attomaton.heads.model import Head
from attomaton.heads.opening import open_model
from tests.heads import made

AutoModelForCausalLM = pytest.importorskip(
    "transformers", reason="transformers is not installed (listed in tests/SKIPS.md)"
).AutoModelForCausalLM
FAMILIES = list(made.CONFIGS)


def draw(model, length=20, n=3, seed=0):
    return np.random.default_rng(seed).integers(0, model.shape.n_tokens, (n, length))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_saved_model_gives_the_logits_and_the_attention_of_transformers(name, tmp_path):
    original = made.make(name)
    original.save_pretrained(tmp_path)
    model = open_model(tmp_path)
    ids = draw(model)
    deviation = compare_logits(model, original, ids)
    assert deviation.logits < 1e-4 * max(1.0, deviation.largest / 10), deviation
    with torch.no_grad():
        theirs = original(torch.as_tensor(ids), output_attentions=True).attentions
    for ours, other in zip(model.watch(ids).patterns, theirs, strict=True):
        torch.testing.assert_close(ours, other, atol=2e-5, rtol=0)
        torch.testing.assert_close(ours.sum(-1), torch.ones(ours.shape[:-1]))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_in_memory_is_read_alike(name, tmp_path):
    original = made.make(name, seed=1)
    original.save_pretrained(tmp_path)
    given, saved = open_model(original), open_model(tmp_path)
    ids = draw(given, seed=1)
    assert given.name == type(original).__name__
    assert torch.equal(given.watch(ids).logits, saved.watch(ids).logits)
    assert compare_logits(given, original, ids).logits < 1e-4


@pytest.mark.parametrize("name", FAMILIES)
def test_doubles_are_closer_to_doubles(name):
    original = made.make(name)
    ids = draw(open_model(original))
    single, double = (open_model(original, dtype=one).watch(ids).logits for one in ("float32", "float64"))
    assert double.dtype == torch.float64
    assert (single - double).abs().max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_half_and_double_weights_are_read(dtype, tmp_path):
    made.make("llama").to(dtype).save_pretrained(tmp_path)
    original = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    model = open_model(tmp_path)
    ids = draw(model)
    assert model.layers[0].attention.query.weight.dtype == dtype
    assert compare_logits(model, original, ids).logits < 1e-4


def test_shards_are_one_model(tmp_path):
    original = made.make("gpt_neox")
    original.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert compare_logits(open_model(tmp_path), original, draw(open_model(tmp_path))).logits < 1e-4


def real_scores(original, ids, layer=0):
    """The scores before the softmax, up to one number for each query, in doubles: ln of the attention."""
    with torch.no_grad():
        return original(torch.as_tensor(ids), output_attentions=True).attentions[layer].double().log().numpy()


@pytest.mark.parametrize(("name", "bar"), [("gpt2", 1e-6), ("llama", 1e-6), ("gpt_neox", 5e-6)])
def test_token_scores_are_those_of_the_first_layer(name, bar):
    original = made.make(name).double()
    model = open_model(original)
    ids = draw(model, length=24, n=1)
    real = real_scores(original, ids)[0]
    for head in range(model.n_heads):
        for query in (7, 23):
            place = query if model.places is not None else None
            ours = np.array(
                [
                    model.score_tokens(
                        Head(0, head),
                        ids[0, query : query + 1],
                        ids[0, key : key + 1],
                        lag=query - key,
                        **({} if place is None else {"place": place}),
                    )[0, 0]
                    for key in range(query + 1)
                ]
            )
            apart = (ours - ours.max()) - (real[head, query, : query + 1] - real[head, query, ours.argmax()])
            assert np.abs(apart).max() < bar * np.abs(ours).max()


def test_scaled_positions_are_refused_by_name():
    with pytest.raises(UnreadableModel, match=r"scaled .'llama3'.*only plain RoPE"):
        open_model(
            made.make(
                "llama",
                rope_parameters={
                    "rope_type": "llama3",
                    "rope_theta": 1e4,
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 16,
                },
            )
        )


def test_a_sliding_window_bounds_the_context():
    model = open_model(made.make("mistral"))
    assert model.shape.longest == 24
