"""Small transformers for the adversary: the product's, of its parts, and the same by definition."""

import torch

from attomaton.heads.parts import AttentionMaps, FeedForward, Layer, Linear, Normalisation, Rotary
from attomaton.heads.transformer import Transformer
from tests.adversary.reference.forward import Plain

NAMES = ("query", "key", "value", "output", "into", "out", "gate")


def draw_plain(rng, *, most_layers=2):
    """A model of a few heads: any norm, any positions, shared keys, biases, perceptrons; also degenerate."""

    def drawn(*shape, scale=1.0):
        return torch.tensor(rng.normal(size=shape) * scale)

    groups, width, dim = (int(rng.choice(some)) for some in ((1, 2), (2, 4), (3, 6, 10)))
    heads = groups * int(rng.choice([1, 2, 3]))
    n_tokens, n_layers = int(rng.choice([2, 3, 5, 9])), int(rng.integers(1, most_layers + 1))
    norm = str(rng.choice(["none", "rms", "layer", "layer"]))
    positions = str(rng.choice(["none", "rotary", "learned", "lags"]))
    feed = str(rng.choice(["", "relu", "silu", "gelu"]))
    gated, biased = bool(feed) and rng.random() < 0.4, rng.random() < 0.5
    inner = int(rng.integers(1, 8))
    sizes = {
        "query": (dim, heads * width), "key": (dim, groups * width), "value": (dim, groups * width),
        "output": (heads * width, dim),
    }  # fmt: skip
    sizes |= {"into": (dim, inner), "out": (inner, dim)} if feed else {}
    sizes |= {"gate": (dim, inner)} if gated else {}
    scale = float(rng.choice([0.3, 1.0, 3.0])) / dim**0.5
    maps = [{name: drawn(*size, scale=scale) for name, size in sizes.items()} for _ in range(n_layers)]
    biases = [{name: drawn(size[1], scale=0.3) for name, size in sizes.items() if biased} for _ in maps]
    large = float(rng.choice([1.0, 1.0, 1e-6, 1e6])) if norm != "none" else 1.0
    embedding = drawn(n_tokens, dim, scale=large)
    if rng.random() < 0.1:
        embedding[:] = embedding[:1]  # all tokens alike
    if rng.random() < 0.1:
        maps[0]["value"][:] = 0.0
    count = 2 * n_layers + 1
    return Plain(
        n_layers, heads, groups, width, norm, float(rng.choice([1e-5, 1e-6])), embedding,
        embedding.T / large if rng.random() < 0.5 else drawn(dim, n_tokens), maps, biases,
        [1.0 + drawn(dim, scale=0.5) for _ in range(count)], [drawn(dim, scale=0.5) for _ in range(count)],
        places=drawn(12, dim, scale=large) if positions == "learned" else None,
        turned=int(rng.choice([2, width])) if positions == "rotary" else 0,
        activation=feed, gated=gated, parallel=rng.random() < 0.3,
        lags=[drawn(heads, 12) for _ in range(n_layers)] if positions == "lags" else None,
    )  # fmt: skip


def build(plain):
    """The product's model of the same weights."""

    def norm(at):
        if plain.norm == "none":
            return None
        centred = plain.norm == "layer"
        return Normalisation(centred, plain.eps, plain.gains[at], plain.shifts[at] if centred else None)

    layers = []
    for at, (maps, biases) in enumerate(zip(plain.maps, plain.biases, strict=True)):
        made = {name: Linear(maps[name], biases.get(name)) for name in NAMES if name in maps}
        looks = (made[name] for name in ("query", "key", "value", "output"))
        lags = None if plain.lags is None else plain.lags[at]
        feed = None
        if plain.activation:
            feed = FeedForward(made["into"], made["out"], plain.activation, made.get("gate"))
        attention = AttentionMaps(*looks, scale=plain.width**-0.5, lag_biases=lags)
        layers.append(Layer(attention, norm(2 * at), feed, norm(2 * at + 1) if feed else None))
    return Transformer(
        "drawn", plain.n_heads, plain.n_groups, plain.embedding, tuple(layers), Linear(plain.decoder),
        norm(2 * plain.n_layers), plain.places, Rotary(plain.turned, plain.theta) if plain.turned else None,
        plain.parallel, 12, torch.float64,
    )  # fmt: skip


def kind_of(plain):
    """What kind of model it is, for counts by kind."""
    shared = "shared keys" if plain.n_groups < plain.n_heads else "own keys"
    places = "learned places" if plain.places is not None else "lags" if plain.lags is not None else ""
    places = "rotary" if plain.turned else places or "no positions"
    return f"{plain.norm} norm, {places}, {shared}"


def describe(plain):
    """The weights as lists."""
    held = {name: value for name, value in vars(plain).items() if not isinstance(value, list)}
    return {name: one.tolist() if isinstance(one, torch.Tensor) else one for name, one in held.items()}
