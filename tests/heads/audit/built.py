"""Heads that are built by hand, and text in which nothing can be sought."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from attomaton.heads.audit.ceiling import OwnScores, find_ceiling
from attomaton.heads.audit.explanations import Position
from attomaton.heads.audit.ladder import climb
from attomaton.heads.audit.recording import record
from attomaton.heads.model import Watched
from attomaton.heads.parts import AttentionMaps, Layer, Linear, Normalisation
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
        position_embeddings=first, longest=longest, dtype=torch.float64,
    )  # fmt: skip


def draw_deep(rng, *, n_layers=12, n_heads=8, n_tokens=40, dim=32, width=8, heavy=False):
    """A deep model whose weights are all drawn, each layer behind its norm; heavy tails are Student's t₃."""

    def draw(*shape):
        drawn = rng.standard_t(3, size=shape) if heavy else rng.normal(size=shape)
        return Linear(torch.as_tensor(drawn / np.sqrt(shape[0])))

    wide = n_heads * width
    layers = tuple(
        Layer(
            AttentionMaps(draw(dim, wide), draw(dim, wide), draw(dim, wide), draw(wide, dim), 1.0),
            Normalisation(centred=False, eps=1e-6),
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
    """A model some of whose heads give a share of their mass in the window to the token that comes next."""

    model: Transformer
    window: int = 16
    shares: tuple[tuple[int, int, float], ...] = ((0, 0, 0.1),)
    """Layer, number and share of each of these heads."""

    @property
    def name(self):
        return f"{self.model.name} with heads that seek"

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
        patterns = [one.numpy().copy() for one in seen.patterns]
        for layer, head, share in self.shares:
            own = patterns[layer][:, head] * near
            sought = label * own.sum(2, keepdims=True) / np.maximum(there, 1)
            patterns[layer][:, head] += np.where(there > 0, share * (sought - own), 0.0)
        return Watched(seen.logits, tuple(map(torch.as_tensor, patterns)))

    def score_tokens(self, head, queries, keys, *, lag=0):
        return self.model.score_tokens(head, queries, keys, lag=lag)

    def write_logits(self, head, tokens):
        return self.model.write_logits(head, tokens)


TEXTS = (".", ",", "\n", "!", *(f"w{number}" for number in range(36)))
"""The tokens of :func:`draw_sentences`: four delimiters, and words."""

LONGEST = 64
"""Positions of the models of :func:`build_typed`."""


def draw_sentences(rng, n=60, *, length=LONGEST + 1):
    """Documents of sentences: words by a Markov chain, commas, ends, and earlier passages that come again."""
    words = len(TEXTS) - 4
    after = rng.dirichlet(np.full(words, 0.3), size=words)
    documents = []
    for _ in range(n):
        ids, left = [4 + int(rng.integers(words))], int(rng.integers(4, 11))
        while len(ids) < length:
            if left <= 0:
                ids.append(int(rng.choice([0, 2, 3], p=[0.6, 0.2, 0.2])))
                left = int(rng.integers(4, 11))
            elif ids[-1] >= 4 and rng.random() < 0.08:
                ids.append(1)
            elif len(ids) > 12 and rng.random() < 0.1:
                start = len(ids) - int(rng.integers(5, 13))
                ids += ids[start : start + int(rng.integers(3, 6))]
            else:
                odds = after[ids[-1] - 4] if ids[-1] >= 4 else None
                ids.append(4 + int(rng.choice(words, p=odds)))
                left -= 1
        documents.append(np.array(ids[:length]))
    return documents


_N = len(TEXTS)
BLOCKS = {
    "token": slice(0, _N),
    "place": slice(_N, _N + LONGEST),
    "before": slice(_N + LONGEST, 2 * _N + LONGEST),
    "two before": slice(2 * _N + LONGEST, 3 * _N + LONGEST),
}
"""Parts of the residual stream: the token, its place, and, once layer 0 wrote them, the tokens before it."""
DIM = 3 * _N + LONGEST


def score_places(profile):
    """The form that gives each lag its score."""
    form = np.zeros((LONGEST, LONGEST))
    for lag, score in enumerate(profile):
        form += np.diag(np.full(LONGEST - lag, score), -lag)
    return form


def draw_profile(rng):
    """A profile by lag that is not the previous token's: near ones, the query itself, one lag, waves."""
    lags, kind = np.arange(LONGEST), int(rng.integers(4))
    if kind == 0:
        return -rng.uniform(0.15, 0.5) * lags
    if kind == 1:
        return rng.uniform(4, 8) * (lags == 0)
    if kind == 2:
        return rng.uniform(4, 8) * (lags == rng.integers(2, 8))
    steps = rng.normal(size=LONGEST)
    smooth = np.convolve(steps, np.ones(3) / np.sqrt(3), "same")
    return rng.uniform(1.2, 2.5) * smooth


def build_form(kind, rng, *, noise):
    """A head's scores as a form of two residual streams: its type's, and Gaussian noise of token pairs."""
    form, strength = np.zeros((DIM, DIM)), rng.uniform(4, 9)
    token, place = BLOCKS["token"], BLOCKS["place"]
    before, two = BLOCKS["before"], BLOCKS["two before"]
    form[token, token] = noise * rng.normal(size=(_N, _N))
    rest = rng.uniform(0, 0.7) * strength
    if kind == "sink":
        form[place, place.start] = strength
    elif kind == "previous token":
        form[place, place] = score_places(strength * (np.arange(LONGEST) == 1))
    elif kind == "position":
        form[place, place] = score_places(draw_profile(rng))
    elif kind == "induction":
        form[token, before] += strength * np.eye(_N)
        form[place, place.start] = rest
    elif kind == "duplicate":
        form[token, token] += strength * np.eye(_N)
        form[place, place] = score_places(-strength * (np.arange(LONGEST) == 0))
        form[place, place.start] += rest
    elif kind == "delimiter":
        form[token, :4] += rng.uniform(3, 6)
    elif kind == "token-specific":
        size = (1, _N) if rng.random() < 0.5 else (_N, _N)
        form[token, token] += rng.uniform(1.5, 3) * rng.normal(size=size)
    elif kind == "contextual":
        size = (1, _N) if rng.random() < 0.5 else (_N, _N)
        form[token, two] = rng.uniform(2, 4) * rng.normal(size=size)
    elif kind == "mixed":
        size = rng.uniform(0.8, 1.4)
        form[place, place] = score_places(size * rng.normal(size=LONGEST))
        form[token, token] += size * rng.normal(size=_N)
        form[token, two] = size * rng.normal(size=_N)
    return form


BUILT = ("sink", "previous token", "position", "induction", "duplicate", "delimiter", "token-specific",
         "contextual", "mixed")  # fmt: skip


def build_typed(rng, *, n_layers=2, n_heads=9, noise=0.5, written=0.02):
    """A model with known heads, and their types, layer by layer.

    In layer 0 one head attends to the previous token and one two tokens back; they write what they find into
    the residual stream, which induction and contextual heads of later layers read. Every other head writes
    noise: its value times a random matrix of size ``written``.
    """
    needed = [kind for kind in BUILT if kind not in ("induction", "contextual", "mixed")]
    types, layers = [], []
    for number in range(n_layers):
        own = [str(one) for one in rng.permutation(BUILT)[:n_heads]]
        if number == 0:
            own = ["previous token", "position", *(str(one) for one in rng.choice(needed, n_heads - 2))]
        forms = [build_form(kind, rng, noise=noise) for kind in own]
        outputs = [written / np.sqrt(DIM) * rng.normal(size=(DIM, DIM)) for _ in own]
        if number == 0:
            for at, (lag, block) in enumerate(((1, "before"), (2, "two before"))):
                forms[at][:] = 0.0
                forms[at][BLOCKS["place"], BLOCKS["place"]] = score_places(20.0 * (np.arange(LONGEST) == lag))
                outputs[at][:] = 0.0
                outputs[at][BLOCKS["token"], BLOCKS[block]] = np.eye(_N)
        axes = torch.eye(DIM, dtype=torch.float64)
        layers.append(
            Layer(
                AttentionMaps(
                    Linear(torch.as_tensor(np.concatenate(forms, 1))),
                    Linear(axes.repeat(1, n_heads)),
                    Linear(axes.repeat(1, n_heads)),
                    Linear(torch.as_tensor(np.concatenate(outputs))),
                    1.0,
                )
            )
        )
        types += own
    axes = torch.eye(DIM, dtype=torch.float64)
    model = Transformer(
        "built", n_heads, n_heads, axes[BLOCKS["token"]], tuple(layers), Linear(axes[:, :_N].contiguous()),
        position_embeddings=axes[BLOCKS["place"]], longest=LONGEST, dtype=torch.float64,
    )  # fmt: skip
    return model, types


def build_seekers(rng, *, n_layers=2, n_heads=9, least=0.4, noise=0.5):
    """A model some of whose heads seek the next token beside pair noise, the same without, and their types.

    Each gives between ``least`` and .9 of its mass to the next token where the window has it; the others
    are token-specific.
    """
    model, _ = build_typed(rng, n_layers=n_layers, n_heads=n_heads, noise=noise)
    half = n_heads // 2
    kinds = rng.permutation(["none"] * half + ["token-specific"] * (n_heads - half)).tolist()
    layers = []
    for layer in model.layers:
        forms = [build_form(kind, rng, noise=noise) for kind in kinds]
        maps = replace(layer.attention, query=Linear(torch.as_tensor(np.concatenate(forms, 1))))
        layers.append(replace(layer, attention=maps))
    model = replace(model, layers=tuple(layers))
    shares = tuple(
        (layer, head, float(rng.uniform(least, 0.9)))
        for layer in range(n_layers)
        for head in range(n_heads)
        if kinds[head] == "none"
    )
    types = ["next-token seeking" if kind == "none" else kind for kind in kinds] * n_layers
    return Seeker(model, 16, shares), model, types


def split_ceiling(model, documents, *, weights=True):
    """The ceiling of every head, fitted on the first 60 % of documents, and what position alone explains."""
    cut = round(0.6 * len(documents))
    seen = record(model, documents, window=12, reads_of=range(cut))
    fitted, scored = (
        seen.rows.take(part) for part in (seen.rows.documents < cut, seen.rows.documents >= cut)
    )
    found = find_ceiling(fitted, scored, OwnScores(model, seen.reads) if weights else None)
    return found.pairs.value, climb(fitted, scored, [Position()]).shares[0]


def build_pairs(rng, *, n_heads=4, n_tokens=14):
    """A layer whose heads score by tables of pairs alone: two of rank 2, the others of full rank."""
    model = build_heads("random", rng, n_heads=n_heads, n_tokens=n_tokens)
    width, forms = n_tokens + 1, []
    for head in range(n_heads):
        left, right = rng.normal(size=(2, width, 2 if head < 2 else width))
        form = left @ right.T
        forms.append(rng.uniform(1.5, 3) * form / form.std())
    maps = replace(model.layers[0].attention, query=Linear(torch.as_tensor(np.concatenate(forms, 1))))
    return replace(
        model, layers=(Layer(maps),), position_embeddings=torch.zeros_like(model.position_embeddings)
    )


def build_two_before(rng, *, n_heads=4):
    """Two layers; heads of the second score by lag and the token two before the key, and skip the first."""
    model, _ = build_typed(rng, n_heads=n_heads, noise=0.0)
    place, forms = BLOCKS["place"], []
    for _ in range(n_heads):
        form = build_form("contextual", rng, noise=0.0)
        form[place, place] = score_places(rng.uniform(0, 2) * rng.normal(size=LONGEST))
        form[place, place.start] = -20.0
        forms.append(form)
    maps = replace(model.layers[1].attention, query=Linear(torch.as_tensor(np.concatenate(forms, 1))))
    return replace(model, layers=(model.layers[0], Layer(maps)))


def measure_ceilings(rng, *, n=100):
    """Ceilings and the truth, by what is built: n documents of 60 independent tokens, 20 rows of each."""
    pairs, text = build_pairs(rng), draw_text(rng, n)
    two = build_two_before(rng)
    found, position = split_ceiling(two, draw_text(rng, n, n_tokens=40))
    return {
        "pairs with weights": (split_ceiling(pairs, text)[0], np.ones(4)),
        "pairs from patterns": (split_ceiling(pairs, text, weights=False)[0], np.ones(4)),
        "two before the key": (found[4:], position[4:]),
    }
