"""A small causal model with given or random weights, for tests of what is asked of any model."""

import numpy as np
import torch

from attomaton.heads.model import Head, ModelShape, Watched


class StandIn:
    """Tokens have random vectors; heads score by random matrices and a slope by lag; residual stream."""

    def __init__(self, *, n_layers=2, n_heads=2, n_tokens=12, width=8, longest=64, seed=0, slope=0.0):
        rng = np.random.default_rng(seed)
        self.shape = ModelShape(n_layers, n_heads, n_tokens, longest)
        self.name = f"stand-in {seed}"
        draw = lambda *size: torch.tensor(rng.normal(size=size) / np.sqrt(size[-2]))  # noqa: E731
        self.embedding = draw(n_tokens, width) * np.sqrt(n_tokens)
        self.qk = draw(n_layers, n_heads, width, width)
        self.values = draw(n_layers, n_heads, width, width)
        self.decoder = draw(width, n_tokens)
        self.slope = slope

    def watch(self, tokens, *, edit_patterns=None, edit_outputs=None):
        stream = self.embedding[torch.as_tensor(np.asarray(tokens), dtype=torch.long)]
        length = stream.shape[1]
        lags = torch.arange(length)[:, None] - torch.arange(length)
        patterns = []
        for layer in range(self.shape.n_layers):
            scores = torch.einsum("nqd,hde,nke->nhqk", stream, self.qk[layer], stream) - self.slope * lags
            pattern = torch.softmax(scores.masked_fill(lags < 0, -torch.inf), -1)
            patterns.append(pattern)
            applied = pattern if edit_patterns is None else edit_patterns(layer, pattern)
            outputs = torch.einsum("nhqk,nkd,hde->nhqe", applied, stream, self.values[layer])
            outputs = outputs if edit_outputs is None else edit_outputs(layer, outputs)
            stream = stream + outputs.sum(1)
        return Watched(stream @ self.decoder, tuple(patterns))

    def score_tokens(self, head: Head, queries, keys, *, lag=0):
        scores = self.embedding[keys] @ self.qk[head.layer, head.number].T @ self.embedding[queries].T
        return (scores - self.slope * lag).numpy()

    def write_logits(self, head: Head, tokens):
        return (self.embedding[tokens] @ self.values[head.layer, head.number] @ self.decoder).numpy()


def draw_documents(n=20, *, n_tokens=12, length=40, seed=0):
    """Documents in which tokens tend to come again."""
    rng = np.random.default_rng(seed)
    documents = []
    for _ in range(n):
        ids = list(rng.integers(0, n_tokens, 6))
        while len(ids) < length:
            ids.append(int(rng.choice(ids)) if rng.random() < 0.7 else int(rng.integers(n_tokens)))
        documents.append(np.array(ids))
    return documents
