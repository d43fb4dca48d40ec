"""TransformerLens models by their names: an object with the same ``cfg`` and weights stands for one."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attomaton.base.errors import UnreadableModel
from attomaton.heads.opening import open_model
from tests.heads import made


def as_lens(model, **changes):
    """One of our models, spelt as TransformerLens spells its own."""
    heads, groups, dim = model.n_heads, model.n_groups, model.embedding.shape[1]
    width = model.layers[0].attention.query.weight.shape[1] // heads
    weights = {
        "embed.W_E": model.embedding,
        "unembed.W_U": model.decoder.weight,
        "ln_final.w": model.final_norm.gain,
    }
    if model.final_norm.shift is not None:
        weights["ln_final.b"] = model.final_norm.shift
    if model.position_embeddings is not None:
        weights["pos_embed.W_pos"] = model.position_embeddings
    for number, layer in enumerate(model.layers):
        stem, attention = f"blocks.{number}.", layer.attention
        for letter, part, count in (
            ("Q", attention.query, heads),
            ("K", attention.key, groups),
            ("V", attention.value, groups),
        ):
            sign = "_" if count < heads else ""
            weights[f"{stem}attn.{sign}W_{letter}"] = part.weight.reshape(dim, count, width).permute(1, 0, 2)
            if part.bias is not None:
                weights[f"{stem}attn.{sign}b_{letter}"] = part.bias.reshape(count, width)
        weights[f"{stem}attn.W_O"] = attention.output.weight.reshape(heads, width, dim)
        weights[f"{stem}attn.mask"] = torch.ones(2, 2)
        parts = {"attn.b_O": attention.output.bias, "ln1.w": layer.norm.gain, "ln1.b": layer.norm.shift}
        parts |= {"ln2.w": layer.feed_norm.gain, "ln2.b": layer.feed_norm.shift}
        parts |= {"mlp.W_in": layer.feed.into.weight, "mlp.b_in": layer.feed.into.bias}
        parts |= {"mlp.W_out": layer.feed.out.weight, "mlp.b_out": layer.feed.out.bias}
        parts |= {"mlp.W_gate": None if layer.feed.gate is None else layer.feed.gate.weight}
        weights |= {f"{stem}{name}": one for name, one in parts.items() if one is not None}
    cfg = {
        "n_layers": len(model.layers),
        "n_heads": heads,
        "n_key_value_heads": groups if groups < heads else None,
        "n_ctx": model.longest,
        "act_fn": model.layers[0].feed.activation,
        "normalization_type": "LN" if model.final_norm.centred else "RMS",
        "eps": model.final_norm.eps,
        "attn_scale": width**0.5,
        "use_attn_scale": True,
        "positional_embedding_type": "rotary" if model.position_embeddings is None else "standard",
        "rotary_dim": model.rotary and model.rotary.width,
        "rotary_base": model.rotary and model.rotary.theta,
        "parallel_attn_mlp": model.parallel,
        "attention_dir": "causal",
    }
    return SimpleNamespace(cfg=SimpleNamespace(**cfg | changes), state_dict=lambda: weights)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_same_model_by_other_names(family, tmp_path):
    made.write(tmp_path, family)
    model = open_model(tmp_path)
    ids = np.random.default_rng(0).integers(0, 61, (2, 9))
    lens = open_model(as_lens(model))
    torch.testing.assert_close(lens.watch(ids).logits, model.watch(ids).logits)
    assert lens.shape == model.shape


def test_the_first_bias_of_a_gated_perceptron_is_added_to_the_product(tmp_path):
    """out(act(x · gate) · (x · in) + b) is the same perceptron with the bias b · out at its end."""
    made.write(tmp_path, "llama")
    model = open_model(tmp_path)
    ids = np.random.default_rng(0).integers(0, 61, (2, 9))
    biases = torch.randn(len(model.layers), model.layers[0].feed.into.weight.shape[1])
    first, last = as_lens(model), as_lens(model)
    for number, (layer, bias) in enumerate(zip(model.layers, biases, strict=True)):
        first.state_dict()[f"blocks.{number}.mlp.b_in"] = bias
        last.state_dict()[f"blocks.{number}.mlp.b_out"] = bias @ layer.feed.out.weight
    torch.testing.assert_close(*(open_model(one).watch(ids).logits for one in (first, last)))


class Bridge:
    """A model with its weights as attributes, as TransformerLens has from version 4 on, that can be run."""

    def __init__(self, lens, model, error=0.0):
        self.cfg, self.original_model, self.model, self.error = lens.cfg, object(), model, error
        for name, tensor in lens.state_dict().items():
            *path, last = name.replace("._W", ".W").replace("._b", ".b").split(".")
            here = self
            for part in path:
                if part.isdecimal():
                    here = here.setdefault(int(part), SimpleNamespace())
                else:
                    if not hasattr(here, part):
                        setattr(here, part, {} if part == "blocks" else SimpleNamespace())
                    here = getattr(here, part)
            setattr(here, last, tensor)

    def state_dict(self):
        return {}

    def __call__(self, ids):
        return self.model.watch(ids).logits + self.error


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_bridges_are_read_by_their_attributes_and_asked_for_logits(family, tmp_path):
    made.write(tmp_path, family)
    model = open_model(tmp_path)
    ids = np.random.default_rng(0).integers(0, 61, (2, 9))
    lens = as_lens(model, attn_scale=-1.0)
    torch.testing.assert_close(open_model(Bridge(lens, model)).watch(ids).logits, model.watch(ids).logits)
    with pytest.raises(UnreadableModel, match="give the transformers model that it was made from"):
        open_model(Bridge(lens, model, error=1.0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"positional_embedding_type": "alibi"}, "positions are 'alibi'"),
        ({"normalization_type": "Batch"}, "norm is 'Batch'"),
        ({"act_fn": "solu_ln"}, "act_fn is 'solu_ln'"),
        ({"use_local_attn": True}, "use_local_attn is True"),
        (
            {"attention_dir": "bidirectional"},
            "is 'bidirectional', which attomaton does not support; give",
        ),
        ({"n_layers": 3}, r"no tensor 'blocks\.2"),
    ],
)
def test_what_is_not_supported_is_named(changes, words, tmp_path):
    made.write(tmp_path, "gpt2")
    with pytest.raises(UnreadableModel, match=words):
        open_model(as_lens(open_model(tmp_path), **changes))
