"""Which edges a head's token scores obey, compared with model-free scores: frequency, bigrams, random heads.

Scores are computed only for the (query, token) pairs of edges, in blocks of whole queries; nothing has the
size of the vocabulary squared.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from attomaton.base import Tabular
from attomaton.base.errors import MismatchedParts
from attomaton.base.machine import divide_work
from attomaton.base.native import count_obeyed, score_pairs
from attomaton.base.tables import Float64, Int32, Int64, table_of
from attomaton.corpora import Samples
from attomaton.graphs import Components, EdgeTable, find_components
from attomaton.graphs.grouping import count_keys, find_rows, pack_pairs
from attomaton.heads import Head
from attomaton.heads.model import HeadModel
from attomaton.heads.parts import Layer, Linear
from attomaton.heads.transformer import Transformer

BLOCK = 1 << 17
"""(query, token) pairs whose scores a thread holds at once."""

Float32 = NDArray[np.float32]


class ProjectsTokens(HeadModel, Protocol):
    """A model that gives queries and keys of every token, as all readers and adapters here do.

    Examples
    --------
    >>> from attomaton.heads.trained import watch_layer
    >>> layer: ProjectsTokens = watch_layer(np.eye(3), np.zeros((3, 3)))
    >>> queries, keys = layer.project_tokens(0)
    >>> queries.shape, keys.shape
    (torch.Size([3, 1, 3]), torch.Size([3, 1, 3]))
    """

    def project_tokens(self, layer: int, *, lag: int = 0) -> tuple[Tensor, Tensor]:
        """Queries (n_tokens, n_heads, width), scaled, and keys (n_tokens, n_groups, width)."""
        ...


@dataclass(frozen=True, eq=False)
class ObeyedEdges(Tabular):
    """The share of edges between components, weighted by support, whose winner scores above the loser.

    A share alone means little: compare it with the others here, which do not depend on the head.

    Attributes
    ----------
    heads : tuple of Head
        In the order of the model.
    obeyed : float64 array, shape (n_heads,)
        For each head; an edge whose tokens have equal scores counts half.
    random : float64 array, shape (n_heads,)
        For random heads with the same spectrum, if they were given.
    frequency, bigram : float
        For the scores "how often is this token a label" and "how often does it follow the query".
    n_edges : int
        Edges between components.

    Examples
    --------
    >>> shares = ObeyedEdges((Head(0, 0),), np.array([0.6]), np.array([0.5]), 0.7, 0.9, 10)
    >>> shares.table().to_pylist()
    [{'head': '0.0', 'obeyed': 0.6, 'random': 0.5, 'frequency': 0.7, 'bigram': 0.9}]
    """

    heads: tuple[Head, ...]
    obeyed: Float64
    random: Float64
    frequency: float
    bigram: float
    n_edges: int

    def _table(self) -> pa.Table:
        count = len(self.heads)
        return table_of(
            {
                "head": [str(head) for head in self.heads],
                "obeyed": self.obeyed,
                "random": self.random,
                "frequency": np.full(count, self.frequency),
                "bigram": np.full(count, self.bigram),
            }
        )


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Edges between components as indices of (query, token) pairs, and pairs cut at whole queries."""

    query: Int32
    token: Int32
    winner: Int64
    loser: Int64
    support: Int64
    cuts: list[tuple[int, int, int, int]]


def measure_edges(
    model: ProjectsTokens,
    edges: EdgeTable | Components,
    samples: Samples,
    *,
    against: ProjectsTokens | None = None,
    lag: int = 0,
    threads: int | None = None,
) -> ObeyedEdges:
    """The share of edges that each head's token scores obey, and the same for scores without the model.

    Parameters
    ----------
    model : HeadModel with ``project_tokens``
        Its scores come from the tokens' own embeddings, in every layer.
    edges : EdgeTable or Components
        Edges inside components are ties and left out.
    samples : Samples
        Samples for counting labels and followers, for the scores by frequency and by bigrams.
    against : HeadModel, optional
        The same model with random heads (``randomise_heads``); NaN in the
        results if not given.
    lag : int
        The distance of keys before the query.
    threads : int, optional
        None means all processors.

    Examples
    --------
    >>> from attomaton.graphs import extract_edges
    >>> from attomaton.heads.trained import watch_layer
    >>> samples = Samples.from_lists([[1, 0, 2], [0, 1, 2], [1, 2]], [0, 0, 1])  # 0 beats 1 and 2, 1 beats 2
    >>> likes_small = np.zeros((3, 3))
    >>> likes_small[:, 2] = [2.0, 1.0, 0.0]
    >>> layer = watch_layer(np.eye(3), likes_small)
    >>> measure_edges(layer, extract_edges(samples), samples).obeyed.tolist()
    [1.0]
    """
    components = find_components(edges) if isinstance(edges, EdgeTable) else edges
    if not model.shape.n_tokens == components.edges.n_tokens == samples.n_tokens:
        raise MismatchedParts(
            f"the model has {model.shape.n_tokens:,} tokens, the edges {components.edges.n_tokens:,} and the "
            f"samples {samples.n_tokens:,}; tokenise the corpus with the model's own tokenizer"
        )
    blocks = _cut(components)
    if not len(blocks.support):
        raise MismatchedParts("there is no edge between components, so none can be obeyed; give more text")
    frequency, bigram = _score_by_counts(samples, blocks)
    random = np.full(len(model.shape.heads), np.nan)
    return ObeyedEdges(
        tuple(model.shape.heads),
        _measure(model, blocks, lag, threads),
        random if against is None else _measure(against, blocks, lag, threads),
        _share(blocks, frequency),
        _share(blocks, bigram),
        len(blocks.support),
    )


def obeyed_by_definition(model: HeadModel, components: Components, head: Head) -> float:
    """The definition, edge by edge."""
    won = Counter[str]()
    edges = components.edges
    for query, winner, loser, support in zip(
        *(edges[name].tolist() for name in ("query", "winner", "loser", "support")), strict=True
    ):
        if components.component(query, winner) != components.component(query, loser):
            high, low = model.score_tokens(head, np.array([query]), np.array([winner, loser]))[:, 0]
            won["obeyed"] += support * (2 if high > low else 1 if high == low else 0)
            won["all"] += 2 * support
    return won["obeyed"] / won["all"]


def _cut(components: Components) -> _Blocks:
    edges, nodes = components.edges, components.node_keys
    nodes_of = [find_rows(nodes, pack_pairs(edges["query"], edges[end]))[0] for end in ("winner", "loser")]
    number = components.component_of_node
    strict = number[nodes_of[0]] != number[nodes_of[1]]
    winner, loser = (nodes_of_end[strict] for nodes_of_end in nodes_of)
    query = components.query_of_node
    firsts = (
        np.flatnonzero(np.r_[True, query[1:] != query[:-1], True]) if len(query) else np.zeros(1, np.int64)
    )
    borders = [0]
    for stop in firsts[1:].tolist():  # one iteration per query, to cut whole ones
        if stop - borders[-1] >= BLOCK or stop == len(query):
            borders.append(stop)
    rows = np.searchsorted(winner, borders).tolist() if len(winner) else [0] * len(borders)
    cuts = list(zip(borders[:-1], borders[1:], rows[:-1], rows[1:], strict=True))
    return _Blocks(query, components.token_of_node, winner, loser, edges["support"][strict], cuts)


def _score_by_counts(samples: Samples, blocks: _Blocks) -> tuple[Float32, Float32]:
    """How often each pair's token is a label, and how often it follows the query, shape (n_pairs,) each."""
    labels = np.bincount(samples.labels, minlength=samples.n_tokens)
    keys, counts = count_keys(pack_pairs(samples.queries, samples.labels))
    rows, is_counted = find_rows(keys, pack_pairs(blocks.query, blocks.token))
    followed = np.where(is_counted, counts[np.minimum(rows, len(counts) - 1)], 0)
    return labels[blocks.token].astype(np.float32), followed.astype(np.float32)


def _share(blocks: _Blocks, scores: Float32) -> float:
    """The share that one score per pair obeys."""
    won = np.sign(scores[blocks.winner] - scores[blocks.loser]) + 1
    return float((won * blocks.support).sum() / (2 * blocks.support.sum()))


def _measure(model: ProjectsTokens, blocks: _Blocks, lag: int, threads: int | None) -> Float64:
    """The share that each head obeys, layer by layer."""
    total = 2 * int(blocks.support.sum())
    shares: list[Float64] = []
    for layer in range(model.shape.n_layers):
        queries, keys = model.project_tokens(layer, lag=lag)
        same = queries.shape[1] // keys.shape[1]
        shared = keys if same == 1 else keys.repeat_interleave(same, 1)
        queried, offered = (_heads_last(vectors) for vectors in (queries, shared))
        counts = divide_work(partial(_measure_block, blocks, queried, offered), blocks.cuts, threads)
        shares.append(np.sum(counts, axis=0) / total)
    return np.concatenate(shares)


def _heads_last(projected: Tensor) -> Float32:
    """(n_tokens, n_heads, width) → (n_tokens, width, n_heads) in float32, to sum over heads side by side."""
    return np.ascontiguousarray(projected.transpose(1, 2).float().numpy())


def _measure_block(blocks: _Blocks, queried: Float32, offered: Float32, cut: Sequence[int]) -> Int64:
    first, stop, first_edge, stop_edge = cut
    scores = np.zeros((stop - first, queried.shape[2]), np.float32)
    score_pairs(queried, offered, blocks.query[first:stop], blocks.token[first:stop], scores)
    edges = slice(first_edge, stop_edge)
    winner, loser = blocks.winner[edges] - first, blocks.loser[edges] - first
    return count_obeyed(scores, winner, loser, blocks.support[edges])


def randomise_heads(model: Transformer, rng: np.random.Generator) -> Transformer:
    """The model with random queries and keys: Q Kᵀ of every head keeps its singular values and nothing else.

    Both sets of singular vectors are drawn uniformly, and biases of queries and keys are dropped. Heads that
    shared keys get their own keys; values, outputs and all other parts stay. This is enough for token
    scores at one lag. :func:`~attomaton.heads.rotate_heads`, which an audit uses, keeps the singular values
    at every lag, shared keys and biases.
    """
    layers = tuple(_randomise(model, layer, rng) for layer in model.layers)
    return replace(model, name=f"{model.name}, random heads", layers=layers, n_groups=model.n_heads)


def _randomise(model: Transformer, layer: Layer, rng: np.random.Generator) -> Layer:
    attention, heads = layer.attention, model.n_heads
    same = heads // model.n_groups
    dim = attention.query.weight.shape[0]
    queries = attention.query.weight.double().reshape(dim, heads, -1)
    offered = attention.key.weight.double().reshape(dim, model.n_groups, -1).repeat_interleave(same, 1)
    drawn = [_draw(queries[:, head], offered[:, head], rng) for head in range(heads)]
    query, key = (torch.cat([pair[side] for pair in drawn], 1) for side in range(2))
    value = attention.value
    width = value.weight.shape[1] // model.n_groups
    spread = value.weight.reshape(dim, model.n_groups, width).repeat_interleave(same, 1).flatten(1)
    bias = value.bias
    if bias is not None:
        bias = bias.reshape(model.n_groups, width).repeat_interleave(same, 0).flatten()
    dtype = attention.query.weight.dtype
    key_norm = attention.key_norm
    if key_norm is not None and key_norm.gain is not None and len(key_norm.gain) > width:
        shared = key_norm.gain.reshape(model.n_groups, -1).repeat_interleave(same, 0).flatten()
        key_norm = replace(key_norm, gain=shared)
    looks = replace(
        attention,
        query=Linear(query.to(dtype)),
        key=Linear(key.to(dtype)),
        value=Linear(spread, bias),
        key_norm=key_norm,
    )
    return replace(layer, attention=looks)


def _draw(query: Tensor, offered: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Random maps (dim, width) whose product has the same singular values as the product of these."""
    triangles = [np.linalg.qr(weights.numpy())[1] for weights in (query, offered)]
    sizes = np.sqrt(np.linalg.svd(triangles[0] @ triangles[1].T, compute_uv=False))
    dim, width = query.shape
    padded = np.zeros(width)
    padded[: len(sizes)] = sizes
    sides: list[Tensor] = []
    for _ in range(2):
        basis = np.zeros((dim, width))
        basis[:, : min(dim, width)] = np.linalg.qr(rng.normal(size=(dim, min(dim, width))))[0]
        sides.append(torch.as_tensor(basis * padded))
    return sides[0], sides[1]
