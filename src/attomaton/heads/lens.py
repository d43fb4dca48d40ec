"""TransformerLens models, by their ``cfg`` and the names of their weights; the library is never imported."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attomaton.corpora.budgets import shown
from attomaton.errors import UnreadableModel
from attomaton.heads.parts import ACTIVATIONS, Attention, FeedForward, Layer, Linear, Norm, Rotary
from attomaton.heads.transformer import Transformer

NORMS = {"LN": True, "LNPre": True, "RMS": False, "RMSPre": False}
"""Kind of a norm → whether it takes the mean away. Those that end in ``Pre`` have no gain."""

PLAIN = {
    "attention_dir": ("causal",),
    "attn_scores_soft_cap": (-1, -1.0, None),
    "num_experts": (None,),
    "output_logits_soft_cap": (-1, -1.0, None),
    "post_embedding_ln": (False, None),
    "rotary_adjacent_pairs": (False, None),
    "use_NTK_by_parts_rope": (False, None),
    "use_local_attn": (False, None),
    "use_normalization_before_and_after": (False, None),
    "use_qk_norm": (False, None),
}
"""Settings that change what a model computes → the values that are supported."""


def read_lens(model: Any, *, name: str = "TransformerLens", dtype: torch.dtype | None = None) -> Transformer:
    """A ``HookedTransformer``, or whatever has its ``cfg`` and ``state_dict``, with its weights as they are.

    Parameters
    ----------
    model : HookedTransformer
        With learned or turned positions (``"standard"``, ``"rotary"``), LayerNorm, RMSNorm or no norm, folded
        or not; other settings are an error that names them.
    name : str
        What it is called.
    dtype : torch.dtype, optional
        In which ours computes; float32 if not given.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> read_lens(SimpleNamespace(cfg=SimpleNamespace(attention_dir="bidirectional"), state_dict=dict))
    Traceback (most recent call last):
        ...
    attomaton.errors.UnreadableModel: its attention_dir is 'bidirectional'; supported is 'causal'
    """
    cfg = model.cfg
    for setting, allowed in PLAIN.items():
        value = getattr(cfg, setting, allowed[0])
        if value not in allowed:
            raise UnreadableModel(f"its {setting} is {shown(repr(value))}; supported is {allowed[0]!r}")
    weights = {one: tensor.detach().cpu() for one, tensor in model.state_dict().items()}
    groups = getattr(cfg, "n_key_value_heads", None) or cfg.n_heads
    kind = getattr(cfg, "positional_embedding_type", "standard")
    if kind not in ("standard", "rotary"):
        raise UnreadableModel(f"its positions are {shown(repr(kind))}; supported are 'standard' and 'rotary'")
    places = _take(weights, "pos_embed.W_pos") if kind == "standard" else None
    rotary = Rotary(int(cfg.rotary_dim), float(cfg.rotary_base)) if kind == "rotary" else None
    layers = tuple(_layer(cfg, weights, number) for number in range(cfg.n_layers))
    return Transformer(
        name,
        cfg.n_heads,
        groups,
        _take(weights, "embed.W_E"),
        layers,
        Linear(_take(weights, "unembed.W_U"), weights.get("unembed.b_U")),
        _norm(cfg, weights, "ln_final", "final"),
        places,
        rotary,
        bool(getattr(cfg, "parallel_attn_mlp", False)),
        int(cfg.n_ctx),
        torch.float32 if dtype is None else dtype,
    )


def _take(weights: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in weights:
        raise UnreadableModel(f"there is no tensor {name!r} in its state_dict")
    return weights[name]


def _norm(cfg: Any, weights: Mapping[str, Tensor], name: str, what: str) -> Norm | None:
    kind = getattr(cfg, "normalization_type", None)
    if kind is None:
        return None
    if kind not in NORMS:
        raise UnreadableModel(f"its {what} norm is {shown(repr(kind))}; supported are {', '.join(NORMS)}")
    return Norm(NORMS[kind], float(cfg.eps), weights.get(f"{name}.w"), weights.get(f"{name}.b"))


def _layer(cfg: Any, weights: Mapping[str, Tensor], number: int) -> Layer:
    stem = f"blocks.{number}."

    def side_by_side(letter: str) -> Linear:
        """(n_heads, dim, width) → (dim, n_heads · width); shared keys have a name with a stroke before."""
        shared = f"{stem}attn._W_{letter}" in weights
        sign = "_" if shared else ""
        weight = _take(weights, f"{stem}attn.{sign}W_{letter}")
        bias = weights.get(f"{stem}attn.{sign}b_{letter}")
        return Linear(weight.permute(1, 0, 2).flatten(1), None if bias is None else bias.flatten())

    output = Linear(_take(weights, f"{stem}attn.W_O").flatten(0, 1), weights.get(f"{stem}attn.b_O"))
    scale = 1.0 / float(cfg.attn_scale) if getattr(cfg, "use_attn_scale", True) else 1.0
    scale /= number + 1 if getattr(cfg, "scale_attn_by_inverse_layer_idx", False) else 1
    query, key, value = (side_by_side(letter) for letter in "QKV")
    attention = Attention(query, key, value, output, scale)
    norm = _norm(cfg, weights, f"{stem}ln1", "first")
    if getattr(cfg, "attn_only", False):
        return Layer(attention, norm)
    if cfg.act_fn not in ACTIVATIONS:
        raise UnreadableModel(
            f"its act_fn is {shown(repr(cfg.act_fn))}; supported are {', '.join(ACTIVATIONS)}"
        )
    into = Linear(_take(weights, f"{stem}mlp.W_in"), weights.get(f"{stem}mlp.b_in"))
    out = Linear(_take(weights, f"{stem}mlp.W_out"), weights.get(f"{stem}mlp.b_out"))
    gate = Linear(weights[f"{stem}mlp.W_gate"]) if f"{stem}mlp.W_gate" in weights else None
    feed = FeedForward(into, out, cfg.act_fn, gate)
    return Layer(attention, norm, feed, _norm(cfg, weights, f"{stem}ln2", "second"))
