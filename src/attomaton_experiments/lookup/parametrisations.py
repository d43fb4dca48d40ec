"""How parameters define scores: W itself, one number per pair that occurs, or two factors.

:class:`Dense` (W, orthonormal E), :class:`PerQuery` (the entries of W that contexts need), :class:`Shared`
(the same, plus one number per token), :class:`Factored` (W = K Qᵀ).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from attomaton.base.options import real_number, settle, whole_number
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Float64, Int64
from attomaton_experiments.lookup.lookup import Pairs

Parameters = tuple[Tensor, ...]
"""Each with a leading trial axis of size one, as the steps of :mod:`attomaton.training.steps` expect."""


class Parametrisation(Protocol):
    """Maps parameters to scores of pairs, and derivatives by scores to those by parameters.

    Examples
    --------
    >>> from attomaton.corpora import Samples
    >>> from attomaton.graphs import count_tokens
    >>> from attomaton_experiments.lookup.lookup import find_pairs
    >>> pairs = find_pairs([count_tokens(Samples.from_lists([[0, 1], [1, 2]], [0, 1]))])
    >>> for kind in (Dense(), PerQuery(), Shared(), Factored(rank=2)):
    ...     print(kind, [part.shape for part in kind.draw_start(pairs, np.random.default_rng(0))])
    Dense() [(1, 3, 3)]
    PerQuery() [(1, 1, 4)]
    Shared(scale=1.0) [(1, 1, 4), (1, 1, 3)]
    Factored(rank=2, start=0.1) [(1, 3, 2), (1, 3, 2)]
    >>> kind, start = Shared(), (torch.zeros(1, 1, 4), torch.ones(1, 1, 3))
    >>> kind.scores(start, IndexedPairs.of(pairs)).tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> [part.tolist() for part in kind.pull_back(start, IndexedPairs.of(pairs), torch.arange(4.0))]
    [[[[0.0, 1.0, 2.0, 3.0]]], [[[0.0, 3.0, 3.0]]]]
    """

    def draw_start(self, pairs: Pairs, rng: np.random.Generator) -> tuple[Float64, ...]:
        """The initial parameters."""
        ...

    def scores(self, parameters: Parameters, pairs: "IndexedPairs") -> Tensor:
        """A score per pair, shape (n_pairs,)."""
        ...

    def pull_back(self, parameters: Parameters, pairs: "IndexedPairs", slopes: Tensor) -> Parameters:
        """The gradient by the parameters, from the derivative by the scores, shape (n_pairs,)."""
        ...


@dataclass(frozen=True, eq=False)
class IndexedPairs:
    """Pairs as tensors: query and token of each, int64, shape (n_pairs,).

    Attributes
    ----------
    query, token : Tensor of int64, shape (n_pairs,)
        The query and the token of each pair.

    Examples
    --------
    >>> from attomaton.corpora import Samples
    >>> from attomaton.graphs import count_tokens
    >>> from attomaton_experiments.lookup.lookup import find_pairs
    >>> pairs = find_pairs([count_tokens(Samples.from_lists([[0, 1], [1, 2]], [0, 1]))])
    >>> indexed = IndexedPairs.of(pairs)
    >>> indexed.query.tolist(), indexed.token.tolist(), indexed.flat.tolist()
    ([1, 1, 2, 2], [0, 1, 1, 2], [1, 4, 5, 8])
    """

    query: Tensor
    token: Tensor
    n_tokens: int

    @classmethod
    def of(cls, pairs: Pairs) -> "IndexedPairs":
        """The same pairs as tensors."""
        return cls(
            torch.as_tensor(pairs.query), torch.as_tensor(pairs.token.astype(np.int64)), pairs.n_tokens
        )

    @cached_property
    def first(self) -> Int64:
        """Where the pairs of each query begin, shape (n_tokens + 1,)."""
        return group_borders(self.query.numpy(), self.n_tokens)

    @cached_property
    def flat(self) -> Tensor:
        """The index of each pair in a row-major matrix of (token, query)."""
        return self.token * self.n_tokens + self.query


@dataclass(frozen=True)
class Dense:
    """W of shape (1, n_tokens, n_tokens) with orthonormal embeddings: rows are tokens, columns queries.

    Examples
    --------
    >>> from attomaton.graphs.grouping import pack_pairs
    >>> pairs = Pairs(pack_pairs(np.array([1, 1]), np.array([0, 1])), 2)  # tokens 0 and 1 under the query 1
    >>> kind = Dense()
    >>> [part.shape for part in kind.draw_start(pairs, np.random.default_rng(0))]
    [(1, 2, 2)]
    >>> weights = (torch.tensor([[[5.0, 1.0], [7.0, 2.0]]]),)
    >>> kind.scores(weights, IndexedPairs.of(pairs)).tolist()  # the column of the query 1
    [1.0, 2.0]
    >>> kind.pull_back(weights, IndexedPairs.of(pairs), torch.tensor([-3.0, 3.0]))[0].tolist()
    [[[0.0, -3.0], [0.0, 3.0]]]
    """

    def draw_start(self, pairs: Pairs, rng: np.random.Generator) -> tuple[Float64, ...]:  # noqa: ARG002
        """Zeros."""
        return (np.zeros((1, pairs.n_tokens, pairs.n_tokens)),)

    def scores(self, parameters: Parameters, pairs: IndexedPairs) -> Tensor:
        """W_jk."""
        return parameters[0].view(-1)[pairs.flat]

    def pull_back(self, parameters: Parameters, pairs: IndexedPairs, slopes: Tensor) -> Parameters:
        """Each derivative at its entry; zero elsewhere."""
        gradient = torch.zeros_like(parameters[0])
        gradient.view(-1)[pairs.flat] = slopes
        return (gradient,)


@dataclass(frozen=True)
class PerQuery:
    """One number per pair, shape (1, 1, n_pairs): the entries of W that some context needs.

    Examples
    --------
    >>> from attomaton.graphs.grouping import pack_pairs
    >>> pairs = Pairs(pack_pairs(np.array([1, 1]), np.array([0, 1])), 2)  # tokens 0 and 1 under the query 1
    >>> kind = PerQuery()
    >>> [part.shape for part in kind.draw_start(pairs, np.random.default_rng(0))]
    [(1, 1, 2)]
    >>> kind.scores((torch.tensor([[[1.0, 2.0]]]),), IndexedPairs.of(pairs)).tolist()
    [1.0, 2.0]
    >>> kind.pull_back((), IndexedPairs.of(pairs), torch.tensor([-3.0, 3.0]))[0].tolist()
    [[[-3.0, 3.0]]]
    """

    def draw_start(self, pairs: Pairs, rng: np.random.Generator) -> tuple[Float64, ...]:  # noqa: ARG002
        """Zeros."""
        return (np.zeros((1, 1, len(pairs))),)

    def scores(self, parameters: Parameters, pairs: IndexedPairs) -> Tensor:  # noqa: ARG002
        """The numbers themselves."""
        return parameters[0].view(-1)

    def pull_back(self, parameters: Parameters, pairs: IndexedPairs, slopes: Tensor) -> Parameters:  # noqa: ARG002
        """The derivatives themselves."""
        return (slopes.view(1, 1, -1),)


@dataclass(frozen=True)
class Shared:
    """s_jk = v_jk + scale · u_j: one number per pair and one per token, shared by all queries.

    The same score matrices as :class:`PerQuery`, but tokens never seen with a query still have a score.

    Attributes
    ----------
    scale : float
        The weight of u. The samples of all queries contribute to the gradient of u, so steps suitable for v
        are too long for u unless its weight is smaller: its scores move by scale² times the step.

    Examples
    --------
    >>> from attomaton.graphs.grouping import pack_pairs
    >>> pairs = Pairs(pack_pairs(np.array([1, 1]), np.array([0, 1])), 2)  # tokens 0 and 1 under the query 1
    >>> kind = Shared(scale=0.5)
    >>> [part.shape for part in kind.draw_start(pairs, np.random.default_rng(0))]
    [(1, 1, 2), (1, 1, 2)]
    >>> numbers = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[4.0, 0.0]]])  # v under the query 1, and u
    >>> kind.scores(numbers, IndexedPairs.of(pairs)).tolist()
    [3.0, 2.0]
    >>> [part.tolist() for part in kind.pull_back(numbers, IndexedPairs.of(pairs), torch.tensor([-3.0, 3.0]))]
    [[[[-3.0, 3.0]]], [[[-1.5, 1.5]]]]
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        settle(self, scale=real_number(self.scale, "scale", least=0))

    def draw_start(self, pairs: Pairs, rng: np.random.Generator) -> tuple[Float64, ...]:  # noqa: ARG002
        """Zeros, shapes (1, 1, n_pairs) and (1, 1, n_tokens)."""
        return np.zeros((1, 1, len(pairs))), np.zeros((1, 1, pairs.n_tokens))

    def scores(self, parameters: Parameters, pairs: IndexedPairs) -> Tensor:
        """v_jk + scale · u_j."""
        return parameters[0].view(-1) + self.scale * parameters[1].view(-1).index_select(0, pairs.token)

    def pull_back(self, parameters: Parameters, pairs: IndexedPairs, slopes: Tensor) -> Parameters:
        """The derivatives, and their scaled sums over the pairs of each token."""
        summed = torch.zeros_like(parameters[1])
        summed.view(-1).index_add_(0, pairs.token, slopes)
        return slopes.view(1, 1, -1), self.scale * summed


@dataclass(frozen=True)
class Factored:
    """W = K Qᵀ with orthonormal embeddings: s_jk = K_j · Q_k, two tables of shape (1, n_tokens, rank).

    Attributes
    ----------
    rank : int
        Columns of each factor (the width of the head).
    start : float
        Entries start normal with standard deviation start/√rank: at zero both gradients vanish.

    Examples
    --------
    >>> from attomaton.graphs.grouping import pack_pairs
    >>> pairs = Pairs(pack_pairs(np.array([1, 1]), np.array([0, 1])), 2)  # tokens 0 and 1 under the query 1
    >>> kind = Factored(rank=1)
    >>> [part.shape for part in kind.draw_start(pairs, np.random.default_rng(0))]
    [(1, 2, 1), (1, 2, 1)]
    >>> keys, queries = torch.tensor([[[3.0], [1.0]]]), torch.tensor([[[0.0], [2.0]]])
    >>> kind.scores((keys, queries), IndexedPairs.of(pairs)).tolist()  # 3 · 2 and 1 · 2
    [6.0, 2.0]
    >>> slopes = torch.tensor([-1.0, 1.0])
    >>> [part.tolist() for part in kind.pull_back((keys, queries), IndexedPairs.of(pairs), slopes)]
    [[[[-2.0], [2.0]]], [[[0.0], [-2.0]]]]
    """

    rank: int
    start: float = 0.1

    def __post_init__(self) -> None:
        rank = whole_number(self.rank, "rank", least=1)
        settle(self, rank=rank, start=real_number(self.start, "start", least=0))

    def draw_start(self, pairs: Pairs, rng: np.random.Generator) -> tuple[Float64, ...]:
        """K(0) and Q(0)."""
        shape = (1, pairs.n_tokens, self.rank)
        keys, queries = rng.normal(0.0, self.start / np.sqrt(self.rank), (2, *shape))
        return keys, queries

    def scores(self, parameters: Parameters, pairs: IndexedPairs) -> Tensor:
        """K_j · Q_k."""
        keys, queries = (parameter[0] for parameter in parameters)
        return (keys.index_select(0, pairs.token) * queries.index_select(0, pairs.query)).sum(1)

    def pull_back(self, parameters: Parameters, pairs: IndexedPairs, slopes: Tensor) -> Parameters:
        """Σ_k slope_jk Q_k and Σ_j slope_jk K_j, by products with a sparse matrix (rows queries)."""
        keys, queries = (parameter[0] for parameter in parameters)
        shape = (pairs.n_tokens, pairs.n_tokens)
        matrix = csr_array((slopes.numpy(), pairs.token.numpy(), pairs.first), shape=shape)
        by_token, by_query = matrix.T @ queries.numpy(), matrix @ keys.numpy()
        return torch.as_tensor(by_token)[None], torch.as_tensor(by_query)[None]
