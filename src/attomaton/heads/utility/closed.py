"""Utility in closed form, from counts of a text and the weights of a model; no context is run.

With z the logits at a position, −∂loss/∂a_i = ⟨e_y − softmax(z), ω(x_i)⟩, where y is the label and ω(x) is
what the head writes if it attends to x. Its mean over positions with query k is ⟨P(·|k) − p(·|k), ω(x)⟩ if

- labels do not depend on the other tokens of the context: P(y | k, x in it) = P(y | k);
- the model's probabilities are those at the mean input of its heads: p(·|k) is the mean field's, in which
  every head outputs its mean value over the text, with a share for the query, always in its context;
- ω is the same at every position, and everything after the head (norms, MLPs, later layers) is linear
  around the mean field: it is differentiated there, so nothing else of it is dropped.

``copies`` lifts the first assumption where it matters most: for the label that is the attended token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from attomaton.base.errors import MismatchedParts
from attomaton.base.options import whole_number
from attomaton.base.solutions import score_table
from attomaton.base.tables import Float64, Int64, Integers, table_of
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import count_all_tokens
from attomaton.heads.model import Head, HeadModel, check_heads
from attomaton.heads.utility.measured import UtilityTable

LONE_TOKENS = 512
"""Tokens that are run at once."""

_torch: Any = torch  # its type stubs leave some functions partly unknown


@dataclass(frozen=True, eq=False)
class PairCounts:
    """The counts of a text that the closed form needs; nothing larger than the pairs that occur.

    Attributes
    ----------
    shares : float64 array, shape (n_tokens,)
        The share of each token in all contexts.
    labels : csr_array, shape (n_tokens, n_tokens)
        P(y | k): one row per query.
    queries, tokens : int64 arrays, shape (n_pairs,)
        The pairs of a query and a token of its context, sorted.
    containing, times : float64 arrays, shape (n_pairs,)
        How many contexts with the query contain the token, and how often they contain it in total.
    copied, copied_times : float64 arrays, shape (n_pairs,)
        ``containing`` and ``times`` for contexts whose label is the token.
    length : float
        The mean length of a context.
    """

    shares: Float64
    labels: csr_array
    queries: Int64
    tokens: Int64
    containing: Float64
    times: Float64
    copied: Float64
    copied_times: Float64
    length: float


def count_pairs(samples: Samples) -> PairCounts:
    """Count what the closed form needs."""
    size, bags = samples.n_tokens, count_all_tokens(samples)
    query = samples.queries.astype(np.int64)[bags.sample]
    label = samples.labels.astype(np.int64)[bags.sample]
    keys, pair = np.unique(query * size + bags.token, return_inverse=True)
    weights, inside = bags.multiplicity.astype(np.float64), (bags.token == label).astype(np.float64)
    counted_once = np.ones(len(weights))
    containing, times, copied, copied_times = (
        np.bincount(pair, weights_of_bags, len(keys)).astype(np.float64)
        for weights_of_bags in (counted_once, weights, inside, weights * inside)
    )
    total = np.bincount(bags.token, weights=weights, minlength=size)
    labels = csr_array((np.ones(len(samples)), (samples.queries, samples.labels)), shape=(size, size))
    labels.sum_duplicates()
    rows = np.maximum(np.asarray(labels.sum(axis=1)).ravel(), 1)
    labels.data /= np.repeat(rows, np.diff(labels.indptr))
    return PairCounts(
        total / max(total.sum(), 1),
        labels,
        keys // size,
        keys % size,
        containing,
        times,
        copied,
        copied_times,
        float(total.sum() / max(len(samples), 1)),
    )


@dataclass(frozen=True, eq=False)
class MeanField:
    """A model in which every head outputs the mean of its values over a text.

    By layer, shape (n_tokens, n_heads, head width): head outputs if they attend to each token only, and
    −∂/∂output of the cross-entropy with P(·|k) for each query k, 0 for queries that never occur.
    """

    values: list[Float64]
    slopes: list[Float64]


def find_mean_field(model: HeadModel, counts: PairCounts, *, repeated: int = 1) -> MeanField:
    """Run every token alone, layer by layer, with the means of the layers before."""
    if model.shape.n_tokens != len(counts.shares):
        raise MismatchedParts(
            f"the model has {model.shape.n_tokens} tokens but the text {len(counts.shares)}; give a text in "
            "the model's tokens"
        )
    whole_number(repeated, "repeated", least=1)
    means: list[Tensor] = []
    values: list[Tensor] = []
    shares = _torch.from_numpy(counts.shares)
    for layer in range(model.shape.n_layers):
        outputs = [
            _LonePass(counts.length, means, wanted=layer).values(model, batch, repeated)
            for batch in _batches_of_tokens(model, repeated)
        ]
        values.append(torch.cat(outputs))
        means.append(torch.einsum("x,xhd->hd", shares.to(values[-1].dtype), values[-1]))
    slopes: list[list[Tensor]] = []
    for batch in _batches_of_tokens(model, repeated):
        alone = _LonePass(counts.length, means)
        slopes.append(alone.slopes(model, batch, repeated, counts.labels))
    joined = [torch.cat([slope[layer] for slope in slopes]) for layer in range(model.shape.n_layers)]
    return MeanField(
        [value.double().numpy() for value in values], [slope.double().numpy() for slope in joined]
    )


def find_closed_utility(
    model: HeadModel,
    counts: PairCounts,
    *,
    repeated: int = 1,
    copies: bool = False,
    heads: Sequence[Head] | None = None,
) -> list[UtilityTable]:
    """Utility in closed form for the pairs in the text; elsewhere the token's mean over queries.

    Parameters
    ----------
    model : HeadModel
        The trained model.
    counts : PairCounts
        Counts of the text that the model was trained on.
    repeated : int
        How often each token is repeated when it is run alone. For models with positions
        give more than one: values are then means over that many positions, and the query is the last.
    copies : bool
        Whether only contexts that contain a token count towards the probability that it is the label.
    heads : sequence of Head, optional
        The heads. None means all.

    Examples
    --------
    >>> from attomaton.heads.arrays import from_arrays
    >>> counts = count_pairs(Samples.from_windows([0, 1, 2, 0, 1, 2, 0], window=3))
    >>> model = from_arrays(np.eye(3), *np.random.default_rng(0).normal(size=(4, 1, 1, 3, 3)))
    >>> [table] = find_closed_utility(model, counts)
    >>> table.dense().shape
    (3, 3)
    """
    field = find_mean_field(model, counts, repeated=repeated)
    tables: list[UtilityTable] = []
    for head in model.shape.heads if heads is None else check_heads(heads, model.shape):
        values, slopes = field.values[head.layer][:, head.number], field.slopes[head.layer][:, head.number]
        raw = _pair_products(slopes, values, counts)
        if copies:
            raw = raw + correct_copies(model, head, counts)
        tables.append(_centred(head, raw, slopes @ (counts.shares @ values), counts))
    return tables


def correct_copies(model: HeadModel, head: Head, counts: PairCounts) -> Float64:
    """The correction for each pair if contexts with x have the label x at their own rate r, not P(x|k).

    P′(x) = r and P′(y) = P(y|k)·(1 − r)/(1 − P(x|k)) elsewhere, so ⟨P′ − P, ω(x)⟩ is
    (r − P(x|k))·(ω_x(x) − ⟨P(·|k), ω(x)⟩)/(1 − P(x|k)).
    """
    size = len(counts.shares)
    probability = np.asarray(counts.labels[counts.queries, counts.tokens]).ravel()
    rate = (counts.copied_times + probability) / (counts.times + 1)
    self_logit, mean = np.empty(size), np.empty(len(counts.tokens))
    order = np.argsort(counts.tokens, kind="stable")
    borders = np.searchsorted(counts.tokens[order], np.arange(size + 1))
    for tokens in np.array_split(np.arange(size), -(-size // LONE_TOKENS)):
        written = model.write_logits(head, tokens)
        self_logit[tokens] = written[np.arange(len(tokens)), tokens]
        rows = order[borders[tokens[0]] : borders[tokens[-1] + 1]]
        expected = counts.labels @ written.T
        mean[rows] = expected[counts.queries[rows], counts.tokens[rows] - tokens[0]]
    return (rate - probability) * (self_logit[counts.tokens] - mean) / np.maximum(1 - probability, 1e-9)


class _LonePass:
    """Runs tokens alone, with the means of the layers before in place of the heads' input."""

    def __init__(self, length: float, means: list[Tensor], *, wanted: int | None = None) -> None:
        self.length, self.means, self.wanted = length, means, wanted
        self.outputs: list[Tensor] = []
        self.leaves: list[Tensor] = []

    def values(self, model: HeadModel, tokens: Int64, repeated: int) -> Tensor:
        """Outputs of the heads of the wanted layer, shape (n, n_heads, head width)."""
        model.watch(_repeat(tokens, repeated), edit_patterns=_flat, edit_outputs=self._edit)
        return self.outputs[0]

    def slopes(self, model: HeadModel, tokens: Int64, repeated: int, labels: csr_array) -> list[Tensor]:
        """−∂/∂output of the cross-entropy with the labels, by layer."""
        watched = model.watch(_repeat(tokens, repeated), edit_patterns=_flat, edit_outputs=self._edit)
        logits = watched.logits[:, -1]
        labelled = _torch.from_numpy(labels[tokens].toarray()).to(logits.dtype)
        gain = (labelled * _torch.log_softmax(logits, -1)).sum()
        return list(_torch.autograd.grad(gain, self.leaves))

    def _edit(self, layer: int, outputs: Tensor) -> Tensor:
        at_query = outputs[:, :, -1].detach()
        if layer == self.wanted:
            self.outputs.append(at_query)
        if layer >= len(self.means):
            return outputs
        share = 1 / self.length
        mixed = share * at_query + (1 - share) * self.means[layer].to(at_query)
        if self.wanted is None:
            self.leaves.append(mixed.requires_grad_(True))
            mixed = self.leaves[-1]
        return mixed[:, :, None].expand(outputs.shape)


def _flat(_: int, pattern: Tensor) -> Tensor:
    """Uniform patterns, so that the last position reads the mean value of a repeated token."""
    length = pattern.shape[-1]
    flat = torch.ones(length, length).tril().to(pattern)
    return (flat / flat.sum(1, keepdim=True)).expand(pattern.shape)


def _repeat(tokens: Int64, repeated: int) -> Integers:
    return np.repeat(tokens[:, None], repeated, axis=1)


def _batches_of_tokens(model: HeadModel, repeated: int) -> list[Int64]:
    every = np.arange(model.shape.n_tokens, dtype=np.int64)
    few = min(LONE_TOKENS, model.shape.batch_of(repeated))
    return np.array_split(every, -(-len(every) // few))


def _pair_products(slopes: Float64, values: Float64, counts: PairCounts) -> Float64:
    """⟨slope of the query, value of the token⟩ for each pair, in batches."""
    products = np.empty(len(counts.queries))
    for start in range(0, len(products), 1 << 18):
        batch = slice(start, start + (1 << 18))
        products[batch] = np.einsum("nd,nd->n", slopes[counts.queries[batch]], values[counts.tokens[batch]])
    return products


def _centred(head: Head, raw: Float64, expected: Float64, counts: PairCounts) -> UtilityTable:
    """The table minus the average over a context of the text's tokens, for each query.

    ``expected`` is that average. In a context of T tokens with x, x itself is one of those subtracted.
    """
    share = 1 / counts.length
    score = (raw - expected[counts.queries]) * (1 - share)
    total = np.bincount(counts.tokens, weights=score * counts.containing, minlength=len(counts.shares))
    times = np.bincount(counts.tokens, weights=counts.containing, minlength=len(counts.shares))
    pairs = table_of({"query": counts.queries.astype(np.int32), "token": counts.tokens.astype(np.int32)})
    table = score_table(pairs, score)
    return UtilityTable(head, table, total / np.maximum(times, 1), counts.containing.astype(np.int64))
