"""TransformerLens models, by their ``cfg`` and the names of their weights; the library is never imported.

Up to version 3, the ``state_dict`` of a model (``HookedTransformer``) has the weights under these names. From
version 4 on (``TransformerBridge``) they are attributes computed from a wrapped model, whose settings are not
all in ``cfg``. So the logits of a bridge are compared with those of its weights on a few tokens.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import brief
from attomaton.heads import parts
from attomaton.heads.transformer import Transformer

# Kind of norm → whether it subtracts the mean. Those that end in `Pre` have no gain.
LENS_NORMS = {"LN": True, "LNPre": True, "RMS": False, "RMSPre": False}

# Settings that change what a model computes → the supported values.
SUPPORTED_SETTINGS = {
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

BRIDGE_TOLERANCE = 1e-3  # largest difference of logits, relative to the largest or to 1
PROBE_TOKENS = 16  # tokens on which the logits of a bridge are compared


def read_lens(model: Any, *, name: str = "TransformerLens", dtype: torch.dtype | None = None) -> Transformer:
    """A ``HookedTransformer``, or any object with its ``cfg`` and ``state_dict``, with its weights."""
    cfg = model.cfg
    for setting, allowed in SUPPORTED_SETTINGS.items():
        value = getattr(cfg, setting, allowed[0])
        if value not in allowed:
            raise UnreadableModel(
                f"its {setting} is {brief(repr(value))}, which attomaton does not support; give the "
                "transformers model that it was made from, or attention patterns (PatternModel.from_function)"
            )
    weights = _Weights(model)
    kind = getattr(cfg, "positional_embedding_type", "standard")
    if kind not in ("standard", "rotary"):
        raise UnreadableModel(f"its positions are {brief(repr(kind))}; supported are 'standard' and 'rotary'")
    rotary = None
    if kind == "rotary":
        rotary = parts.Rotary(int(getattr(cfg, "rotary_dim", None) or cfg.d_head), float(cfg.rotary_base))
    transformer = Transformer(
        name,
        n_heads=cfg.n_heads,
        n_groups=len(weights.take("blocks.0.attn._W_K", "blocks.0.attn.W_K")),
        embedding=weights.take("embed.W_E"),
        layers=tuple(_layer(cfg, weights, number) for number in range(cfg.n_layers)),
        decoder=parts.Linear(weights.take("unembed.W_U"), weights.get("unembed.b_U")),
        final_norm=_norm(cfg, weights, "ln_final", "final"),
        position_embeddings=None if rotary else weights.take("pos_embed.W_pos"),
        rotary=rotary,
        parallel=bool(getattr(cfg, "parallel_attn_mlp", False)),
        longest=int(cfg.n_ctx),
        dtype=torch.float32 if dtype is None else dtype,
    )
    if hasattr(model, "original_model"):
        _check_logits(model, transformer)
    return transformer


@dataclass(frozen=True, eq=False)
class _Weights:
    """Tensors by name: from the ``state_dict``, or from attributes if its names differ."""

    model: Any

    @cached_property
    def named(self) -> dict[str, Any]:
        return self.model.state_dict()

    def get(self, name: str) -> Tensor | None:
        """The tensor with this name, or None; a name such as blocks.0.ln1.w is also a path of attributes."""
        value = self.named.get(name)
        if value is None:
            value = self.model
            for step in name.split("."):
                value = value[int(step)] if step.isdecimal() else getattr(value, step, None)
                if value is None:
                    return None
        return value.detach().cpu() if isinstance(value, Tensor) else None

    def take(self, *names: str) -> Tensor:
        """The first of these tensors that exists."""
        for name in names:
            tensor = self.get(name)
            if tensor is not None:
                return tensor
        raise UnreadableModel(f"its state_dict has no tensor {names[-1]!r}")


# Refuse a bridge whose logits are not those of its weights, since `cfg` lacks settings.
def _check_logits(model: Any, transformer: Transformer) -> None:
    ids = torch.arange(PROBE_TOKENS)[: transformer.shape.longest].remainder(transformer.shape.n_tokens)[None]
    with torch.no_grad():
        theirs: Tensor = model(ids).detach().cpu().double()
    ours = transformer.watch(ids).logits.double()
    difference = float((theirs - ours).abs().max() / theirs.abs().max().clamp_min(1.0))
    if not difference <= BRIDGE_TOLERANCE:
        raise UnreadableModel(
            f"its logits differ from those of its weights by {difference:.1e} of the largest; give the "
            "transformers model that it was made from"
        )


def _norm(cfg: Any, weights: _Weights, name: str, role: str) -> parts.Normalisation | None:
    kind = getattr(cfg, "normalization_type", None)
    if kind is None:
        return None
    if kind not in LENS_NORMS:
        raise UnreadableModel(
            f"its {role} norm is {brief(repr(kind))}; supported are {', '.join(LENS_NORMS)}"
        )
    return parts.Normalisation(
        LENS_NORMS[kind], float(cfg.eps), weights.get(f"{name}.w"), weights.get(f"{name}.b")
    )


def _layer(cfg: Any, weights: _Weights, number: int) -> parts.Layer:
    stem = f"blocks.{number}."

    def join_heads(letter: str) -> parts.Linear:
        """(n_heads, dim, width) → (dim, n_heads · width); shared weights have names with an underscore."""
        weight = weights.take(f"{stem}attn._W_{letter}", f"{stem}attn.W_{letter}")
        bias = weights.get(f"{stem}attn._b_{letter}")
        bias = weights.get(f"{stem}attn.b_{letter}") if bias is None else bias
        return parts.Linear(weight.permute(1, 0, 2).flatten(1), None if bias is None else bias.flatten())

    output = parts.Linear(weights.take(f"{stem}attn.W_O").flatten(0, 1), weights.get(f"{stem}attn.b_O"))
    query, key, value = (join_heads(letter) for letter in "QKV")
    root = (query.weight.shape[1] / cfg.n_heads) ** 0.5  # √width
    divisor = float(getattr(cfg, "attn_scale", root))  # below 0 means the root
    scale = 1.0 / (divisor if divisor > 0 else root) if getattr(cfg, "use_attn_scale", True) else 1.0
    scale /= number + 1 if getattr(cfg, "scale_attn_by_inverse_layer_idx", False) else 1
    attention = parts.AttentionMaps(query, key, value, output, scale)
    norm = _norm(cfg, weights, f"{stem}ln1", "first")
    if getattr(cfg, "attn_only", False):
        return parts.Layer(attention, norm)
    if cfg.act_fn not in parts.ACTIVATIONS:
        raise UnreadableModel(
            f"its act_fn is {brief(repr(cfg.act_fn))}; supported are {', '.join(parts.ACTIVATIONS)}"
        )
    feed = _feed(cfg, weights, f"{stem}mlp.")
    return parts.Layer(attention, norm, feed, _norm(cfg, weights, f"{stem}ln2", "second"))


# The MLP; with a gate, the first bias is added to the product, so it belongs to the second map.
def _feed(cfg: Any, weights: _Weights, stem: str) -> parts.FeedForward:
    into, out = weights.take(f"{stem}W_in"), weights.take(f"{stem}W_out")
    bias_in, bias_out = weights.get(f"{stem}b_in"), weights.get(f"{stem}b_out")
    gate = weights.get(f"{stem}W_gate")
    if gate is None:
        return parts.FeedForward(parts.Linear(into, bias_in), parts.Linear(out, bias_out), cfg.act_fn)
    if bias_in is not None:
        bias_out = bias_in @ out if bias_out is None else bias_out + bias_in @ out
    return parts.FeedForward(parts.Linear(into), parts.Linear(out, bias_out), cfg.act_fn, parts.Linear(gate))
