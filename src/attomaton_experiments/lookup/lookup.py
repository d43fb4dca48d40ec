"""Attention at corpus size: scores are looked up by (query, token), and no context is ever embedded.

With the token-id head the layer is p(y | X) = m_y e^{s_yk} / Σ_{j∈X} m_j e^{s_jk}, k the query: it needs
only the scores of the (query, token) pairs that occur. How parameters define these scores is specified in
:mod:`attomaton_experiments.lookup.parametrisations`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples, MismatchedParts
from attomaton.base.ragged import run_starts
from attomaton.base.tables import Int32, Int64
from attomaton.graphs.bags import Bags
from attomaton.graphs.grouping import distinct_keys, find_rows, pack_pairs, unpack_pairs


@dataclass(frozen=True, eq=False)
class Pairs:
    """The distinct (query, token) pairs of some contexts, sorted.

    Attributes
    ----------
    keys : int64 array, shape (n_pairs,)
        Query and token packed, ascending.

    Examples
    --------
    >>> from attomaton.corpora import Samples
    >>> from attomaton.graphs import count_tokens
    >>> bags = count_tokens(Samples.from_lists([[1, 0, 1], [2, 1]], [0, 2]))
    >>> pairs = find_pairs([bags])
    >>> list(zip(pairs.query.tolist(), pairs.token.tolist()))
    [(1, 0), (1, 1), (1, 2)]
    >>> pairs.find(bags).tolist()  # tokens 0 and 1 of the first context, 1 and 2 of the second
    [0, 1, 1, 2]
    """

    keys: Int64
    n_tokens: int

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def query(self) -> Int64:
        """The query of each pair."""
        return unpack_pairs(self.keys)[0]

    @cached_property
    def token(self) -> Int32:
        """The token of each pair."""
        return unpack_pairs(self.keys)[1]

    def find(self, bags: Bags) -> Int64:
        """The pair of each entry of the bags, shape (n_entries,)."""
        rows, has_score = find_rows(self.keys, _keys(bags))
        if not has_score.all():
            raise MismatchedParts(
                f"{int((~has_score).sum())} (query, token) pairs of these contexts have no score; "
                "find the pairs of all contexts together: find_pairs([trained, held_out])"
            )
        return rows


def find_pairs(bags: Sequence[Bags]) -> Pairs:
    """The pairs of all these contexts. Those in held-out contexts only keep their initial score.

    Examples
    --------
    >>> from attomaton.corpora import Samples
    >>> from attomaton.graphs import count_tokens
    >>> pairs = find_pairs([count_tokens(Samples.from_lists([[1, 0, 1], [0, 2, 1]], [0, 2]))])
    >>> pairs.query.tolist(), pairs.token.tolist()
    ([1, 1, 1], [0, 1, 2])
    """
    keys = distinct_keys(np.concatenate([distinct_keys(_keys(bags_of_corpus)) for bags_of_corpus in bags]))
    return Pairs(keys, max(each.samples.n_tokens for each in bags))


def _keys(bags: Bags) -> Int64:
    return pack_pairs(bags.samples.queries[bags.sample], bags.token)


@dataclass(frozen=True, eq=False)
class Lookups:
    """Realisable contexts as rows of indices into a vector of scores, short rows padded.

    Shapes: samples n, most distinct tokens of a context t.

    Attributes
    ----------
    pair : Tensor of int64, shape (n, t)
        The pair of each distinct token; arbitrary where padded.
    log_multiplicity : Tensor, shape (n, t)
        ln m of each; −∞ where padded.
    label : Tensor of int64, shape (n, 1)
        The column of the label.

    Examples
    --------
    >>> from attomaton.corpora import Samples
    >>> from attomaton.graphs import count_tokens
    >>> bags = count_tokens(Samples.from_lists([[0, 1], [2, 1]], [0, 2]))
    >>> lookups = lay_out_lookups(bags, find_pairs([bags]))
    >>> scores = torch.tensor([0.0, 0.0, np.log(3)], dtype=torch.float64)  # of 0, 1 and 2 under 1
    >>> round(lookups.loss(scores).exp().item() ** 2, 6)  # 1/(½ · ¾)
    2.666667
    >>> lookups.slopes(scores)[0].round(decimals=6).tolist()
    [-0.25, 0.375, -0.125]
    >>> round(lookups.take(torch.tensor([1])).loss(scores).item(), 6)  # −ln ¾
    0.287682
    """

    pair: Tensor
    log_multiplicity: Tensor
    label: Tensor

    def __len__(self) -> int:
        return len(self.label)

    def take(self, rows: Tensor) -> "Lookups":
        """Some of the samples."""
        return Lookups(self.pair[rows], self.log_multiplicity[rows], self.label[rows])

    def loss(self, scores: Tensor) -> Tensor:
        """The mean of −ln p(label), from a score per pair, shape (n_pairs,)."""
        return -self._log_masses(scores).gather(1, self.label).mean()

    def slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The derivative of the loss by each score, Σ (p − [label])/n, shape (n_pairs,), and the loss."""
        logs = self._log_masses(scores)
        right = logs.gather(1, self.label)
        masses = logs.exp_()
        masses.scatter_add_(1, self.label, torch.full_like(right, -1.0))
        pulled = torch.zeros_like(scores).index_add_(0, self.pair.view(-1), masses.view(-1))
        return pulled / len(self), -right.mean()

    def _log_masses(self, scores: Tensor) -> Tensor:
        looked_up = scores.index_select(0, self.pair.view(-1)).view(self.pair.shape)
        return torch.log_softmax(looked_up.add_(self.log_multiplicity), 1)


def lay_out_lookups(bags: Bags, pairs: Pairs, *, dtype: torch.dtype = torch.float64) -> Lookups:
    """The contexts as tensors, sorted by query, so that neighbours look up neighbouring scores.

    Parameters
    ----------
    bags : Bags
        Contexts that contain their labels (:func:`~attomaton.graphs.count_tokens`).
    pairs : Pairs
        The pairs with a score; they must include all pairs of these contexts.
    dtype : torch.dtype
        The type of the computation.

    Examples
    --------
    >>> from attomaton.corpora import Samples
    >>> from attomaton.graphs import count_tokens
    >>> bags = count_tokens(Samples.from_lists([[1, 0, 1], [2, 1]], [0, 2]))
    >>> lookups = lay_out_lookups(bags, find_pairs([bags]))
    >>> lookups.pair.tolist(), lookups.label.tolist()  # rows of find_pairs; the column of each label
    ([[0, 1], [1, 2]], [[0], [1]])
    >>> lookups.log_multiplicity.exp().tolist()
    [[1.0, 2.0], [1.0, 1.0]]
    """
    size = len(bags.samples)
    bags = _sort_by_query(bags)
    is_label = bags.token == bags.samples.labels[bags.sample]
    if not size or int(is_label.sum()) != size:
        raise InvalidSamples(
            f"{size} samples, {int(is_label.sum())} of them with their label in the context; training needs "
            "one or more, and only such samples: count_tokens leaves the others out"
        )
    column = np.arange(len(bags.sample)) - run_starts(bags.sample)[bags.sample]
    pair_rows = np.zeros((size, int(column.max()) + 1), np.int64)
    pair_rows[bags.sample, column] = pairs.find(bags)
    log_multiplicity = np.full(pair_rows.shape, -np.inf)
    log_multiplicity[bags.sample, column] = np.log(bags.multiplicity)
    return Lookups(
        torch.as_tensor(pair_rows),
        torch.as_tensor(log_multiplicity, dtype=dtype),
        torch.as_tensor(column[is_label][:, None]),
    )


def _sort_by_query(bags: Bags) -> Bags:
    """The same contexts, sorted by query."""
    order = np.argsort(bags.samples.queries, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    entries = np.argsort(rank[bags.sample], kind="stable")
    return Bags(
        bags.samples.take(order),
        rank[bags.sample][entries],
        bags.token[entries],
        bags.multiplicity[entries],
    )
