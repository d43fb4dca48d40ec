"""Utility: how much attending to a token lowers the loss of a model, measured on text.

The utility of key i for a head at one position is −∂loss/∂a_i there (a_i is the attention on the key), with
attention that ignores content: uniform, or the mean of the head at each position. (At the trained attention
this gradient has vanished.) The loss is that of the whole window. Utility is centred within each context,
since attention moved to one key is taken from others. A table has its mean for each pair of query and token,
shrunk to the mean of the token over all queries. :func:`measure_utility` makes the tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.options import choice, real_number, whole_number
from attomaton.base.solutions import score_table
from attomaton.base.tables import Bool, Float64, Int64, Integers, column, table_of
from attomaton.graphs.grouping import find_rows
from attomaton.heads.model import Head, HeadModel, check_contexts, check_heads

# The attention at which utility is measured: uniform, or the head's mean pattern.
Baseline = Literal["uniform", "position"]

MEAN_STRENGTH = 5.0  # the weight of a token's mean over all queries, in occurrences

CONTEXTS_AT_ONCE = 64  # contexts that are run at once, at most

_torch: Any = torch  # its type stubs leave some functions partly unknown


@dataclass(frozen=True, eq=False)
class UtilityTable:
    """The utility of tokens for one ``head``: a score for each pair of query and token that occurs.

    ``scores`` has the columns query, token (int32) and score (float64), sorted, and ``counts`` how often each
    pair occurs. ``background`` (n_tokens,) is the score of each token under all other queries.
    """

    head: Head
    scores: pa.Table
    background: Float64
    counts: Int64

    def at(self, queries: Integers, tokens: Integers) -> Float64:
        """The scores of pairs, in the broadcast shape of queries and tokens."""
        query, token = np.broadcast_arrays(queries, tokens)
        indices, occurs = find_rows(self._keys, self._number(query.ravel(), token.ravel()))
        scores = self.background[token.ravel()]
        scores[occurs] = column(self.scores, "score")[indices[occurs]]
        return scores.reshape(query.shape)

    def dense(self) -> Float64:
        """Every score, shape (n_tokens, n_tokens): rows are queries. For small vocabularies."""
        tokens = np.arange(len(self.background))
        return self.at(tokens[:, None], tokens[None, :])

    @cached_property
    def _keys(self) -> Int64:
        return self._number(column(self.scores, "query"), column(self.scores, "token"))

    # One number for each pair, in the order of the rows of ``scores``.
    def _number(self, query: Integers, token: Integers) -> Int64:
        return query.astype(np.int64) * len(self.background) + token


@dataclass(frozen=True, eq=False)
class Gains:
    """Gains of heads in contexts. A gain is the centred utility of one key at one position."""

    rows: Int64  # (n, length + 1): contexts, each with the label of its last position
    values: dict[Head, Float64]  # (n, length, length): by context, query and key; 0 for later keys

    @property
    def tokens(self) -> Int64:
        """The contexts, shape (n, length)."""
        return self.rows[:, :-1]

    @property
    def copies(self) -> Bool:
        """Whether the label of a position is among the tokens up to it, shape (n, length)."""
        return np.tril(self.tokens[:, None, :] == self.rows[:, 1:, None]).any(-1)

    def counted(self, first: int, *, copies: bool) -> Bool:
        """Which positions count: from ``first`` on, and of these only :attr:`copies` if set."""
        is_late: Bool = np.arange(int(self.tokens.shape[1])) >= first
        return self.copies & is_late if copies else np.broadcast_to(is_late, self.tokens.shape)


def measure_utility(
    model: HeadModel,
    rows: Integers,
    *,
    baseline: Baseline = "uniform",
    alone: bool = False,
    first: int = 1,
    copies: bool = False,
    strength: float = MEAN_STRENGTH,
    heads: Sequence[Head] | None = None,
) -> list[UtilityTable]:
    """Measure on text how much attention to a token lowers the loss, for each head and query token.

    Parameters
    ----------
    model : HeadModel
    rows : integers, shape (n, length + 1)
        Windows of text that the model was trained on. The last token of each is a label only.
    baseline : "uniform" or "position"
        The attention at which utility is measured: uniform, or the head's mean attention at each position.
    alone : bool
        True gives the baseline attention to one head at a time, which needs one run per head. False gives it
        to all heads at once.
    first : int
        The first position that is used as a query.
    copies : bool
        Whether to use only positions whose label is in the context, for models trained in this way.
    strength : float
        The weight, in occurrences, of a token's mean over queries, to which the score of a pair is shrunk.
    heads : sequence of Head, optional
        The heads to measure. None means all.

    Examples
    --------
    >>> from attomaton.heads.arrays import from_arrays
    >>> model = from_arrays(np.eye(5), *np.random.default_rng(0).normal(size=(4, 1, 2, 5, 5)))
    >>> tables = measure_utility(model, np.array([[0, 1, 2, 1, 0], [3, 2, 1, 1, 4]]))
    >>> [str(table.head) for table in tables]
    ['0.0', '0.1']
    """
    checked = model.shape.heads if heads is None else check_heads(heads, model.shape)
    if not checked:
        raise UnsupportedOption("heads is empty; name at least one head")
    real_number(strength, "strength", least=0.0)
    whole_number(first, "first")
    n_tokens = model.shape.n_tokens
    batches = list[PairSums]()
    for gains in find_gains(model, rows, baseline=baseline, alone=alone, heads=checked):
        length = gains.tokens.shape[1]
        counted = gains.counted(first, copies=copies)
        # (n, query, key): counted queries, and keys that are not later
        causal = np.tril(np.repeat(counted[:, :, None], length, axis=2))
        pairs = (gains.tokens[:, :, None] * n_tokens + gains.tokens[:, None, :])[causal]
        values = np.stack([gains.values[head][causal] for head in checked])
        batches.append(_add_equal(pairs, np.ones(len(pairs), np.int64), values))
    keys, counts, sums = (np.concatenate(arrays, axis=-1) for arrays in zip(*batches, strict=True))
    total = _add_equal(keys, counts, sums)
    return [
        shrink_to_means(head, total.keys, total.counts, sums_of_head, n_tokens, strength)
        for head, sums_of_head in zip(checked, total.sums, strict=True)
    ]


def find_gains(
    model: HeadModel, rows: Integers, *, baseline: Baseline, alone: bool, heads: Sequence[Head]
) -> Iterator[Gains]:
    """Yield the gains of ``heads``, batch by batch; the arguments are those of :func:`measure_utility`."""
    longest = model.shape.longest
    with_label = replace(model.shape, longest=None if longest is None else longest + 1)
    table: Int64 = check_contexts(rows, with_label).numpy()
    if table.shape[1] < 3:
        raise MismatchedParts(f"rows has shape {table.shape}; give at least three columns")
    patterns = _baseline_patterns(model, table[:, :-1], baseline)
    size = min(CONTEXTS_AT_ONCE, model.shape.batch_of(table.shape[1]))
    for start in range(0, len(table), size):
        batch = table[start : start + size]
        values: dict[Head, Float64] = {}
        if alone:
            for head in heads:
                values |= _differentiate(model, batch, patterns, replaced=[head], measured=[head])
        else:
            values = _differentiate(model, batch, patterns, replaced=model.shape.heads, measured=heads)
        yield Gains(batch, values)


def find_mean_patterns(model: HeadModel, contexts: Integers) -> list[Tensor]:
    """The mean attention of heads over contexts, by layer, shape (n_heads, length, length)."""
    total: list[Tensor] = []
    size = min(CONTEXTS_AT_ONCE, model.shape.batch_of(np.shape(contexts)[1]))
    for start in range(0, len(contexts), size):
        patterns = model.watch(np.asarray(contexts[start : start + size])).patterns
        sums = [pattern.detach().sum(0) for pattern in patterns]
        total = [old + new for old, new in zip(total, sums, strict=True)] if total else sums
    return [total_of_layer / len(contexts) for total_of_layer in total]


def shrink_to_means(
    head: Head, keys: Int64, counts: Int64, sums: Float64, n_tokens: int, strength: float
) -> UtilityTable:
    """The table of one head, from keys, counts and its sums as in :class:`PairSums`."""
    # score = (sum + strength · m) / (count + strength), where m is the mean of the token over all queries
    query = keys // n_tokens
    token = keys % n_tokens
    total = np.bincount(token, weights=sums, minlength=n_tokens)
    mean = total / np.maximum(np.bincount(token, weights=counts, minlength=n_tokens), 1)
    score = (sums + strength * mean[token]) / (counts + strength)
    named = table_of({"query": query.astype(np.int32), "token": token.astype(np.int32)})
    return UtilityTable(head, score_table(named, score), mean, counts)


# The patterns at which utility is measured, by layer, shape (n_heads, length, length).
def _baseline_patterns(model: HeadModel, contexts: Int64, baseline: Baseline) -> list[Tensor]:
    if choice(baseline, "baseline", options=get_args(Baseline)) == "position":
        return find_mean_patterns(model, contexts)
    length = contexts.shape[1]
    pattern = torch.ones(length, length, dtype=torch.float64).tril()
    pattern = pattern / pattern.sum(1, keepdim=True)
    return [pattern.expand(model.shape.n_heads, -1, -1)] * model.shape.n_layers


# Centred −∂loss/∂a of the ``measured`` heads if the ``replaced`` heads have their baseline patterns.
def _differentiate(
    model: HeadModel,
    rows: Int64,
    baseline: list[Tensor],
    *,
    replaced: Sequence[Head],
    measured: Sequence[Head],
) -> dict[Head, Float64]:
    leaves: dict[int, Tensor] = {}  # the patterns a, by layer, which torch differentiates by

    def edit(layer: int, pattern: Tensor) -> Tensor:
        numbers = [head.number for head in replaced if head.layer == layer]
        if not numbers:
            return pattern
        changed = pattern.detach().clone()
        changed[:, numbers] = baseline[layer][numbers].to(pattern)
        leaves[layer] = changed.requires_grad_(True)
        return leaves[layer]

    tokens = _torch.from_numpy(rows)
    logits = model.watch(tokens[:, :-1], edit_patterns=edit).logits
    loss = _torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")
    layers = sorted({head.layer for head in measured})
    slopes = dict(zip(layers, _torch.autograd.grad(loss, [leaves[layer] for layer in layers]), strict=True))
    gains: dict[Head, Float64] = {}
    for head in measured:
        weights = baseline[head.layer][head.number].double().numpy()
        gains[head] = _centre(-slopes[head.layer][:, head.number].cpu().double().numpy(), weights)
    return gains


# Gains minus their mean under the baseline, in each row; later keys get 0.
def _centre(gains: Float64, weights: Float64) -> Float64:
    mean = (gains * weights).sum(-1, keepdims=True)
    return np.tril(gains - mean)


class PairSums(NamedTuple):
    """Counts, and sums of gains by head, for each distinct pair of query and token."""

    keys: Int64  # (n_pairs,): query · n_tokens + token, ascending
    counts: Int64  # (n_pairs,): how often the pair occurs
    sums: Float64  # (n_heads, n_pairs)


# Add the counts and the values (n_heads, n) of equal keys.
def _add_equal(keys: Int64, counts: Int64, values: Float64) -> PairSums:
    distinct, inverse = np.unique(keys, return_inverse=True)
    number = inverse.ravel()  # of each key among the distinct ones
    total_counts = np.bincount(number, weights=counts, minlength=len(distinct))
    sums = [np.bincount(number, weights=row, minlength=len(distinct)) for row in values]
    return PairSums(distinct, np.rint(total_counts).astype(np.int64), np.array(sums, np.float64))
