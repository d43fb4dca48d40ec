"""A causal transformer by its definition, head by head: norms, positions, shared keys, perceptrons."""

from dataclasses import dataclass
from itertools import product

import torch
from torch.nn import functional

ACTIVATIONS = {
    "relu": lambda x: x.clamp(min=0.0),
    "silu": lambda x: x * torch.sigmoid(x),
    "gelu": lambda x: 0.5 * x * (1.0 + torch.erf(x / 2**0.5)),
}


@dataclass
class Plain:
    """Sizes and weights: ``maps`` names those of each layer, (n_in, n_out), ``biases`` those that it has."""

    n_layers: int
    n_heads: int
    n_groups: int
    width: int
    norm: str
    eps: float
    embedding: torch.Tensor
    decoder: torch.Tensor
    maps: list
    biases: list
    gains: list
    shifts: list
    places: torch.Tensor | None = None
    turned: int = 0
    theta: float = 100.0
    activation: str = ""
    gated: bool = False
    parallel: bool = False
    lags: list | None = None

    @property
    def heads(self):
        return list(product(range(self.n_layers), range(self.n_heads)))

    def apply_norm(self, x, at):
        """Norm number ``at``: two of each layer, and the last."""
        if self.norm == "none":
            return x
        if self.norm == "layer":
            size = x.shape[-1]
            return functional.layer_norm(x, (size,), self.gains[at], self.shifts[at], self.eps)
        return x / torch.sqrt((x**2).mean(-1, keepdim=True) + self.eps) * self.gains[at]

    def map(self, layer, name, x):
        given = x @ self.maps[layer][name]
        return given + self.biases[layer][name] if name in self.biases[layer] else given

    def turn(self, x):
        """Number i of the first half and of the second, as a complex number, times e^{i·place·θ^(−2i/r)}."""
        if not self.turned:
            return x
        half = self.turned // 2
        pair = torch.complex(x[..., :half], x[..., half : self.turned])
        speeds = [self.theta ** (-2 * i / self.turned) for i in range(half)]
        speed = torch.tensor(speeds, dtype=torch.float64)
        angle = torch.arange(x.shape[-2]).double()[:, None] * speed
        pair = pair * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([pair.real, pair.imag, x[..., self.turned :]], -1)

    def run(self, tokens, patterns=None, outputs=None):
        """Logits, and the patterns and outputs of every head before those given take their places."""
        patterns, outputs, seen, given = patterns or {}, outputs or {}, {}, {}
        x = self.embedding[tokens]
        length = tokens.shape[1]
        if self.places is not None:
            x = x + self.places[:length]
        for layer in range(self.n_layers):
            read = self.apply_norm(x, 2 * layer)
            query, key, value = (self.map(layer, name, read) for name in ("query", "key", "value"))
            parts = []
            for head in range(self.n_heads):
                group = head // (self.n_heads // self.n_groups)
                own = slice(head * self.width, (head + 1) * self.width)
                shared = slice(group * self.width, (group + 1) * self.width)
                asked, offered = self.turn(query[..., own]), self.turn(key[..., shared])
                scores = torch.einsum("nqd,nkd->nqk", asked, offered) / self.width**0.5
                behind = torch.arange(length)[:, None] - torch.arange(length)
                if self.lags is not None:
                    scores = scores + self.lags[layer][head][behind.clamp(min=0)]
                raised = torch.where(behind >= 0, scores, -torch.inf)
                here = layer, head
                seen[here] = torch.softmax(raised, -1)
                given[here] = patterns.get(here, seen[here]) @ value[..., shared]
                parts.append(outputs.get(here, given[here]).expand(given[here].shape))
            after = x + self.map(layer, "output", torch.cat(parts, -1))
            if self.activation:
                source = self.apply_norm(x if self.parallel else after, 2 * layer + 1)
                act, inner = ACTIVATIONS[self.activation], self.map(layer, "into", source)
                inner = act(self.map(layer, "gate", source)) * inner if self.gated else act(inner)
                after = after + self.map(layer, "out", inner)
            x = after
        return self.apply_norm(x, 2 * self.n_layers) @ self.decoder, seen, given
