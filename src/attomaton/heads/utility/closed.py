"""Utility in closed form, from counts of a text and the weights of a model; no context is run.

*Utility* is how much more attention to a token would lower the loss. Let z be the logits at a position, e_y
the unit vector of the label y, a_i the attention on token x_i, and ω(x) what the head adds to the logits if
it attends to x. Then −∂loss/∂a_i = ⟨e_y − softmax(z), ω(x_i)⟩. Its mean over positions with query k is
⟨P(·|k) − p(·|k), ω(x)⟩, with P from the text and p from the model, if

- labels do not depend on the other tokens of the context: P(y | k, x in it) = P(y | k);
- the probabilities of the model are those at the mean input of its heads: p(·|k) is that of the *mean
  field*, in which every head outputs its mean value over the text, with a share for the query, always in its
  context;
- ω is the same at every position, and everything after the head (norms, MLPs, later layers) is linear
  around the mean field: it is differentiated there, so nothing else of it is dropped.

``copies`` lifts the first assumption where it matters most: for the label that is the attended token.

:func:`find_closed_utility` needs the counts of the text (:func:`count_pairs`); it finds the mean field first.
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
from attomaton.base.tables import Float64, Int64, table_of
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import count_all_tokens
from attomaton.heads.model import Head, HeadModel, check_heads
from attomaton.heads.utility.measured import UtilityTable

LONE_TOKENS = 512  # tokens that are run at once, each in a context of its own

PRODUCTS_AT_ONCE = 1 << 18  # pairs of a slope and a value that are multiplied at once

_torch: Any = torch  # its type stubs leave some functions partly unknown


@dataclass(frozen=True, eq=False)
class PairCounts:
    """The counts of a text that the closed form needs; nothing larger than the pairs that occur.

    ``shares`` (n_tokens,) is the share of each token in all contexts, ``length`` the mean length of a
    context, and ``labels`` (n_tokens, n_tokens) is P(y | k), with a row for each query k. ``queries`` and
    ``tokens`` (n_pairs,) are the pairs of a query and a token of its context, sorted. For each pair,
    ``containing`` counts the contexts with the query that contain the token, and ``times`` how often they
    contain it in total; ``copied`` and ``copied_times`` count these in contexts whose label is the token.
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
    """Count the pairs of a query and a token of its context in samples of the text."""
    n_tokens = samples.n_tokens
    # A bag entry is a token of one context: its query, whether it is the label, and how often it occurs.
    bags = count_all_tokens(samples)
    query = samples.queries.astype(np.int64)[bags.sample]
    is_label = bags.token == samples.labels.astype(np.int64)[bags.sample]
    times = bags.multiplicity.astype(np.float64)
    keys, pair = np.unique(query * n_tokens + bags.token, return_inverse=True)

    def sum_by_pair(weights: Float64) -> Float64:
        return np.bincount(pair, weights, len(keys)).astype(np.float64)

    token_counts = np.bincount(bags.token, weights=times, minlength=n_tokens)
    # Row k of P(y | k): the counts of labels, divided by how often k is the query.
    labels = csr_array((np.ones(len(samples)), (samples.queries, samples.labels)), shape=(n_tokens, n_tokens))
    labels.sum_duplicates()
    query_counts = np.maximum(np.asarray(labels.sum(axis=1)).ravel(), 1)
    labels.data /= np.repeat(query_counts, np.diff(labels.indptr))
    return PairCounts(
        shares=token_counts / max(token_counts.sum(), 1),
        labels=labels,
        queries=keys // n_tokens,
        tokens=keys % n_tokens,
        containing=sum_by_pair(np.ones(len(pair))),
        times=sum_by_pair(times),
        copied=sum_by_pair(is_label.astype(np.float64)),
        copied_times=sum_by_pair(times * is_label),
        length=float(token_counts.sum() / max(len(samples), 1)),
    )


@dataclass(frozen=True, eq=False)
class MeanField:
    """A model in which every head outputs the mean of its values over a text.

    Both lists are by layer; arrays have shape (n_tokens, n_heads, head width).
    """

    values: list[Float64]  # the output of a head that attends to the token only
    slopes: list[Float64]  # −∂/∂output of the cross-entropy with P(·|k), k the token; 0 if k is no query


def find_mean_field(model: HeadModel, counts: PairCounts, *, repeated: int = 1) -> MeanField:
    """Run every token alone, layer by layer; the heads of earlier layers have their mean outputs."""
    if model.shape.n_tokens != len(counts.shares):
        raise MismatchedParts(
            f"the vocabulary of the model has {model.shape.n_tokens} tokens, but the counted text has "
            f"{len(counts.shares)}; tokenise the text with the tokenizer of the model"
        )
    whole_number(repeated, "repeated", least=1)
    batches = _batches_of_tokens(model, repeated)
    shares = _torch.from_numpy(counts.shares)
    values = list[Float64]()
    means = list[Tensor]()  # by layer, shape (n_heads, head width)
    for _ in range(model.shape.n_layers):
        of_layer = torch.cat([_find_outputs(model, batch, counts.length, means) for batch in batches])
        values.append(of_layer.double().numpy())
        means.append(torch.einsum("x,xhd->hd", shares.to(of_layer.dtype), of_layer))
    slopes_of_batches = [_find_slopes(model, batch, counts.length, means, counts.labels) for batch in batches]
    slopes = [torch.cat(of_layer).double().numpy() for of_layer in zip(*slopes_of_batches, strict=True)]
    return MeanField(values, slopes)


# Outputs at the query of the first layer without ``means``, shape (n, n_heads, head width).
def _find_outputs(model: HeadModel, contexts: Int64, length: float, means: Sequence[Tensor]) -> Tensor:
    collected: list[Tensor] = []

    def edit(layer: int, outputs: Tensor) -> Tensor:
        at_query = outputs[:, :, -1].detach()
        if layer == len(means):
            collected.append(at_query)
        if layer >= len(means):  # later layers do not matter
            return outputs
        return _mix(at_query, means[layer], length)[:, :, None].expand(outputs.shape)

    model.watch(contexts, edit_patterns=_flat, edit_outputs=edit)
    return collected[0]


# −∂/∂output of the cross-entropy with the labels, by layer, shape (n, n_heads, head width).
def _find_slopes(
    model: HeadModel, contexts: Int64, length: float, means: Sequence[Tensor], labels: csr_array
) -> list[Tensor]:
    leaves: list[Tensor] = []

    def edit(layer: int, outputs: Tensor) -> Tensor:
        mixed = _mix(outputs[:, :, -1].detach(), means[layer], length)
        leaves.append(mixed.requires_grad_(True))
        return leaves[-1][:, :, None].expand(outputs.shape)

    logits = model.watch(contexts, edit_patterns=_flat, edit_outputs=edit).logits[:, -1]
    labelled = _torch.from_numpy(labels[contexts[:, 0]].toarray()).to(logits.dtype)
    gain = (labelled * _torch.log_softmax(logits, -1)).sum()
    return list(_torch.autograd.grad(gain, leaves))


def _mix(at_query: Tensor, mean: Tensor, length: float) -> Tensor:
    share = 1 / length  # of the query, which is one token of its context
    return share * at_query + (1 - share) * mean.to(at_query)


# Uniform patterns, so that the last position reads the mean value of a repeated token.
def _flat(_: int, pattern: Tensor) -> Tensor:
    length = pattern.shape[-1]
    flat = torch.ones(length, length).tril().to(pattern)
    return (flat / flat.sum(1, keepdim=True)).expand(pattern.shape)


# Contexts of every token alone, repeated, in batches of shape (n, repeated).
def _batches_of_tokens(model: HeadModel, repeated: int) -> list[Int64]:
    tokens = np.arange(model.shape.n_tokens, dtype=np.int64)
    size = min(LONE_TOKENS, model.shape.batch_of(repeated))
    batches = np.array_split(tokens, -(-len(tokens) // size))
    return [np.repeat(batch[:, None], repeated, axis=1) for batch in batches]


def find_closed_utility(
    model: HeadModel,
    counts: PairCounts,
    *,
    repeated: int = 1,
    copies: bool = False,
    heads: Sequence[Head] | None = None,
) -> list[UtilityTable]:
    """Compute in closed form how much attention to a token lowers the loss, for each head and query token.

    A pair of query and token that the text does not contain gets the mean of its token over all queries.

    Parameters
    ----------
    model : HeadModel
    counts : PairCounts
        Counts of the text that the model was trained on.
    repeated : int
        The length of the context in which each token is run: it repeats the token. Models with positions need
        more than one; values are then means over positions, and the query is the last position.
    copies : bool
        Whether to estimate the probability that a token is the label from contexts that contain the token.
    heads : sequence of Head, optional
        The heads. None means all.

    Returns
    -------
    list of UtilityTable
        A table for each head.

    Examples
    --------
    >>> from attomaton.heads.arrays import from_arrays
    >>> counts = count_pairs(Samples.from_windows([0, 1, 2, 0, 1, 2, 0], window=3))
    >>> model = from_arrays(np.eye(3), *np.random.default_rng(0).normal(size=(4, 1, 1, 3, 3)))
    >>> find_closed_utility(model, counts)[0].dense().shape
    (3, 3)
    """
    field = find_mean_field(model, counts, repeated=repeated)
    tables: list[UtilityTable] = []
    for head in model.shape.heads if heads is None else check_heads(heads, model.shape):
        values = field.values[head.layer][:, head.number]
        slopes = field.slopes[head.layer][:, head.number]
        raw = _pair_products(slopes, values, counts)
        if copies:
            raw = raw + correct_copies(model, head, counts)
        tables.append(_centred(head, raw, slopes @ (counts.shares @ values), counts))
    return tables


def correct_copies(model: HeadModel, head: Head, counts: PairCounts) -> Float64:
    """What is added to each pair (k, x) if contexts with x have the label x at their own rate r, not P(x|k).

    P′(x) = r and P′(y) = P(y|k)·(1 − r)/(1 − P(x|k)) elsewhere, so ⟨P′ − P, ω(x)⟩ is
    (r − P(x|k))·(ω_x(x) − ⟨P(·|k), ω(x)⟩)/(1 − P(x|k)).
    """
    n_tokens = len(counts.shares)
    probability = np.asarray(counts.labels[counts.queries, counts.tokens]).ravel()  # P(x|k)
    rate = (counts.copied_times + probability) / (counts.times + 1)  # r, with one pseudo-count at P(x|k)
    self_logit = np.empty(n_tokens)  # ω_x(x)
    mean_logit = np.empty(len(counts.tokens))  # ⟨P(·|k), ω(x)⟩
    # In ``order``, the pairs of token x are at borders[x] … borders[x + 1] − 1.
    order = np.argsort(counts.tokens, kind="stable")
    borders = np.searchsorted(counts.tokens[order], np.arange(n_tokens + 1))
    for tokens in np.array_split(np.arange(n_tokens), -(-n_tokens // LONE_TOKENS)):
        written = model.write_logits(head, tokens)  # ω, shape (len(tokens), n_tokens)
        self_logit[tokens] = written[np.arange(len(tokens)), tokens]
        pairs = order[borders[tokens[0]] : borders[tokens[-1] + 1]]
        expected = counts.labels @ written.T
        mean_logit[pairs] = expected[counts.queries[pairs], counts.tokens[pairs] - tokens[0]]
    # If the label of query k is always x, the two logits are equal: the correction is 0, not 0 / 0.
    remaining = np.maximum(1 - probability, 1e-9)
    return (rate - probability) * (self_logit[counts.tokens] - mean_logit) / remaining


# ⟨slope of the query, value of the token⟩ for each pair, shape (n_pairs,).
def _pair_products(slopes: Float64, values: Float64, counts: PairCounts) -> Float64:
    products = np.empty(len(counts.queries))
    for start in range(0, len(products), PRODUCTS_AT_ONCE):
        batch = slice(start, start + PRODUCTS_AT_ONCE)
        products[batch] = np.einsum("nd,nd->n", slopes[counts.queries[batch]], values[counts.tokens[batch]])
    return products


# The table minus its average over a context of the text, which is ``expected`` for each query.
def _centred(head: Head, raw: Float64, expected: Float64, counts: PairCounts) -> UtilityTable:
    score = (raw - expected[counts.queries]) * (1 - 1 / counts.length)
    n_tokens = len(counts.shares)
    total = np.bincount(counts.tokens, weights=score * counts.containing, minlength=n_tokens)
    times = np.bincount(counts.tokens, weights=counts.containing, minlength=n_tokens)
    pairs = table_of({"query": counts.queries.astype(np.int32), "token": counts.tokens.astype(np.int32)})
    table = score_table(pairs, score)
    return UtilityTable(head, table, total / np.maximum(times, 1), counts.containing.astype(np.int64))
