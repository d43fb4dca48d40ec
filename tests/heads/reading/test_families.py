"""Models of every family that is read give the logits and the attention of ``transformers``."""

import numpy as np
import pytest
import torch

from attomaton.base.errors import UnreadableModel, UnsupportedOption
from attomaton.heads.deviation import compare_logits
from attomaton.heads.model import Head
from attomaton.heads.opening import open_model
from attomaton.heads.reading.configs import FAMILIES as SUPPORTED
from attomaton.heads.reading.families import read_object
from attomaton.heads.transformer import Transformer
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
        torch.testing.assert_close(ours, other, atol=1e-5, rtol=0)
        torch.testing.assert_close(ours.sum(-1), torch.ones(ours.shape[:-1]))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_in_memory_is_read_alike(name, tmp_path):
    original = made.make(name, seed=1)
    original.save_pretrained(tmp_path)
    given, saved = read_object(original), open_model(tmp_path)
    ids = draw(given, seed=1)
    assert given.name == type(original).__name__
    assert torch.equal(given.watch(ids).logits, saved.watch(ids).logits)
    assert compare_logits(given, original, ids).logits < 1e-4


@pytest.mark.parametrize("name", FAMILIES)
def test_doubles_are_closer_to_doubles(name):
    original = made.make(name)
    ids = draw(read_object(original))
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


@pytest.mark.parametrize(("name", "bar"), [("llama", 1e-6), ("gpt_neox", 5e-6)])
def test_token_scores_are_those_of_the_first_layer(name, bar):
    original = made.make(name).double()
    model = read_object(original)
    ids = draw(model, length=24, n=1)
    real = real_scores(original, ids)[0]
    for head in range(model.n_heads):
        for query in (7, 23):
            ours = np.array(
                [
                    model.score_tokens(
                        Head(0, head),
                        ids[0, query : query + 1],
                        ids[0, key : key + 1],
                        lag=query - key,
                    )[0, 0]
                    for key in range(query + 1)
                ]
            )
            apart = (ours - ours.max()) - (real[head, query, : query + 1] - real[head, query, ours.argmax()])
            assert np.abs(apart).max() < bar * np.abs(ours).max()


def test_scaled_positions_are_refused_by_name(tmp_path):
    made.write(tmp_path, "llama", rope_scaling={"rope_type": "yarn", "factor": 4.0})
    with pytest.raises(UnreadableModel, match=r"scaled .'yarn'.*'linear' and 'llama3'.*load it with transf"):
        open_model(tmp_path)


def test_layers_with_a_sliding_window_see_no_further():
    model = read_object(made.make("mistral"))
    assert model.shape.longest == 48
    for layer in model.watch(draw(model, length=40)).patterns:
        assert layer.tril(-24).abs().max() == 0
        assert layer.tril(-23).abs().max() > 0
    with pytest.raises(UnsupportedOption, match="lag"):
        model.score_tokens(Head(0, 0), np.array([0]), np.array([1]), lag=24)


def draw_config(kind, rng):
    """A configuration of odd sizes, with whatever of the family's settings changes what is computed."""

    def whole(low, high):
        return int(rng.integers(low, high + 1))

    def flip():
        return bool(rng.integers(2))

    heads, groups = [(1, 1), (3, 1), (3, 3), (6, 2), (5, 5), (4, 2)][whole(0, 5)]
    width, layers, size = 2 * whole(1, 7), whole(1, 4), whole(11, 97)
    inner, longest = whole(3, 50), whole(48, 90)
    if kind == "gpt2":
        own = {"n_layer": layers, "n_head": heads, "n_embd": heads * width, "n_positions": longest}
        activation = ["gelu_new", "relu"][whole(0, 1)]
        own |= {"vocab_size": size, "n_inner": inner, "activation_function": activation}
        return own | {"scale_attn_by_inverse_layer_idx": flip()}
    if kind == "gpt_neo":
        kinds = [["global", "local"][whole(0, 1)] for _ in range(layers)]
        own = {"num_layers": layers, "attention_types": [[kinds, 1]], "num_heads": heads}
        own |= {"hidden_size": heads * width, "intermediate_size": inner, "window_size": whole(1, 20)}
        return own | {"max_position_embeddings": longest, "vocab_size": size}
    own = {"num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": heads * width}
    own |= {"intermediate_size": inner, "vocab_size": size, "max_position_embeddings": longest}
    own |= {"tie_word_embeddings": flip()}
    if kind == "gpt_neox":
        share = [1.0, 0.5][whole(0, 1)] if width % 4 == 0 else 1.0
        return own | {"rotary_pct": share, "use_parallel_residual": flip(), "attention_bias": flip()}
    own |= {"num_key_value_heads": groups, "pad_token_id": None}
    theta = float(rng.choice([100.0, 1e4, 5e5]))
    if kind == "gemma3_text":
        kinds = [["full_attention", "sliding_attention"][whole(0, 1)] for _ in range(layers)]
        own |= {"sliding_window": whole(2, 30), "query_pre_attn_scalar": whole(3, 90), "layer_types": kinds}
        own |= {"rope_theta": 3 * theta, "rope_local_base_freq": float(rng.choice([100.0, 1e4]))}
        own |= {"rope_scaling": {"rope_type": "linear", "factor": 7.0}} if flip() else {}
    else:
        own["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    if kind in ("llama", "qwen2", "qwen3", "olmo2", "mistral"):
        factor = {"factor": float(rng.uniform(1, 30)), "rope_theta": theta}
        bands = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
        bands |= {"original_max_position_embeddings": whole(8, 40)}
        own["rope_parameters"] = [
            own["rope_parameters"],
            {"rope_type": "linear", **factor},
            {"rope_type": "llama3", **factor, **bands},
        ][whole(0, 2)]
    if kind in ("llama", "qwen3", "mistral", "gemma3_text"):
        own["head_dim"] = 2 * whole(1, 9)
    if kind in ("llama", "qwen3", "olmo2", "gemma3_text"):
        own["attention_bias"] = flip()
    if kind == "llama":
        own["mlp_bias"] = flip()
    if kind in ("mistral", "phi3"):
        own["sliding_window"] = [None, whole(2, 30)][whole(0, 1)]
    if kind == "phi3" and width % 4 == 0 and flip():
        own["rope_parameters"]["partial_rotary_factor"] = 0.5
    if kind in ("qwen2", "qwen3") and flip():
        own |= {"use_sliding_window": True, "sliding_window": whole(2, 30), "max_window_layers": whole(1, 3)}
    return own


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", SUPPORTED)
def test_configurations_of_odd_sizes_give_what_transformers_gives(kind, seed, tmp_path):
    rng = np.random.default_rng(seed)
    original = made.make_of({"model_type": kind, **draw_config(kind, rng)}, seed=seed)
    if seed % 2:
        original.save_pretrained(tmp_path)
    model = open_model(tmp_path) if seed % 2 else read_object(original)
    assert isinstance(model, Transformer)
    ids = draw(model, length=45, n=2, seed=seed)
    with torch.no_grad():
        theirs = original(torch.as_tensor(ids), output_attentions=True)
    ours = model.watch(ids)
    torch.testing.assert_close(ours.logits, theirs.logits, atol=1e-4, rtol=0)
    for pattern, other in zip(ours.patterns, theirs.attentions, strict=True):
        torch.testing.assert_close(pattern, other, atol=1e-5, rtol=0)
