"""Heads that are built by hand, and text in which nothing can be sought."""

from dataclasses import dataclass

import numpy as np
import torch

from attomaton.heads.model import Watched
from attomaton.heads.parts import AttentionMaps, Layer, Linear, Norm
from attomaton.heads.transformer import Transformer

KINDS = ("same token", "previous", "key token", "uniform", "first token", "random")


def draw_text(rng, n=60, *, length=60, n_tokens=14, steepness=0.0):
    """Independent tokens; their probabilities fall as rank^−steepness."""
    probabilities = np.arange(1, n_tokens + 1.0) ** -steepness
    return [rng.choice(n_tokens, length, p=probabilities / probabilities.sum()) for _ in range(n)]


def build_heads(kind, rng, *, n_heads=8, n_tokens=14, longest=64):
    """One layer of heads of one kind, of unlike strengths; tokens are axes, and so is the first place."""
    width = n_tokens + 1
    query, lags = np.zeros((n_heads, width, width)), np.zeros((n_heads, longest))
    for head in range(n_heads):
        strength = rng.uniform(2, 20)
        if kind == "same token":
            query[head] = strength * np.eye(width)
        elif kind == "previous":
            lags[head, rng.integers(1, 4)] = strength
        elif kind == "key token":
            query[head] = strength / 5 * rng.normal(size=width)
        elif kind == "first token":
            query[head, :, -1] = strength
        elif kind == "random":
            query[head] = strength / 5 * rng.normal(size=(width, width))
    axes = torch.eye(width, dtype=torch.float64)
    first = torch.zeros(longest, width, dtype=torch.float64)
    first[0, -1] = 1.0
    attention = AttentionMaps(
        Linear(torch.as_tensor(np.concatenate(list(query), 1))),
        Linear(axes.repeat(1, n_heads)),
        Linear(axes.repeat(1, n_heads)),
        Linear(0.01 * axes.repeat(n_heads, 1)),
        1.0,
        torch.as_tensor(lags),
    )
    decoder = Linear(axes[:, :n_tokens].contiguous())
    return Transformer(
        kind, n_heads, n_heads, axes[:n_tokens], (Layer(attention),), decoder,
        places=first, longest=longest, dtype=torch.float64,
    )  # fmt: skip


def draw_deep(rng, *, n_layers=12, n_heads=8, n_tokens=40, dim=32, width=8):
    """A deep model whose weights are all drawn, each layer behind its norm."""

    def draw(*shape):
        return Linear(torch.as_tensor(rng.normal(size=shape) / np.sqrt(shape[0])))

    wide = n_heads * width
    layers = tuple(
        Layer(
            AttentionMaps(draw(dim, wide), draw(dim, wide), draw(dim, wide), draw(wide, dim), 1.0),
            Norm(centred=False, eps=1e-6),
        )
        for _ in range(n_layers)
    )
    tokens = torch.as_tensor(rng.normal(size=(n_tokens, dim)))
    return Transformer("deep", n_heads, n_heads, tokens, layers, draw(dim, n_tokens), dtype=torch.float64)


def draw_chains(rng, n=40, *, length=64, n_tokens=40):
    """Documents in which each token hangs on the one before."""
    after = rng.dirichlet(np.full(n_tokens, 0.1), size=n_tokens)
    documents = []
    for _ in range(n):
        ids = [int(rng.integers(n_tokens))]
        while len(ids) < length:
            ids.append(int(rng.choice(n_tokens, p=after[ids[-1]])))
        documents.append(np.array(ids))
    return documents


@dataclass(frozen=True, eq=False)
class Seeker:
    """A model whose first head gives a share of its mass inside the window to the token that comes next."""

    model: Transformer
    window: int = 16
    share: float = 0.1

    @property
    def name(self):
        return f"{self.model.name} with a head that seeks"

    @property
    def shape(self):
        return self.model.shape

    def watch(self, tokens, **edits):
        seen = self.model.watch(tokens, **edits)
        ids = np.asarray(tokens)
        n, length = ids.shape
        lags = np.arange(length)[:, None] - np.arange(length)
        near = (lags >= 0) & (lags < self.window)
        label = np.zeros((n, length, length))
        label[:, :-1] = (ids[:, 1:, None] == ids[:, None, :]) & near[:-1]
        there = label.sum(2, keepdims=True)
        pattern = seen.patterns[0].numpy().copy()
        own = pattern[:, 0] * near
        sought = label * own.sum(2, keepdims=True) / np.maximum(there, 1)
        pattern[:, 0] += np.where(there > 0, self.share * (sought - own), 0.0)
        return Watched(seen.logits, (torch.as_tensor(pattern), *seen.patterns[1:]))

    def score_tokens(self, head, queries, keys, *, lag=0):
        return self.model.score_tokens(head, queries, keys, lag=lag)

    def write_logits(self, head, tokens):
        return self.model.write_logits(head, tokens)
