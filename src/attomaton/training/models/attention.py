"""The layer: f_W(X) = Xᵀ softmax(X W x̄), its loss and gradient for many trials in one tensor program."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import real_number, settle, whole_number
from attomaton.base.tables import Float64, Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import find_realisable
from attomaton.training.models.embeddings import Embeddings, RandomUnit, as_embeddings
from attomaton.training.models.heads import Readout, TokenId, as_head
from attomaton.training.models.losses import LogLoss, Loss, as_loss

FEWEST_ROWS = 8
"""Distinct tokens and queries are padded to this many: PyTorch multiplies smaller matrices more slowly."""

PAIRS_PER_POSITION = 24
"""Up to this many pairs of token and query for each position, scores by pair are faster."""


@dataclass(frozen=True)
class AttentionModel:
    """One layer of self-attention, with an output head (which reads the prediction) and a loss.

    Attributes
    ----------
    embeddings : Embeddings
        ``Orthonormal()``, ``RandomUnit(dim)``, ``Equicorrelated(dim, correlation)`` or a table, shape
        (n_tokens, dim), as such or in ``EmbeddingTable``; ``"orthonormal"`` or None means the first.
    head : Readout
        ``TokenId()`` (the attention mass on the label), ``Tied()`` (assumption A), ``Untied(temperature)``;
        or ``"token-id"``, ``"tied"``, ``"untied"``.
    loss : Loss
        ``LogLoss()``, ``SquaredLoss()`` or ``CorrelationLoss()`` of the head's value; or ``"log"``,
        ``"squared"``, ``"correlation"``.
    rank : int, optional
        W = K Qᵀ with factors of this many columns. None means that W itself is trained.
    start : float
        W(0), or K(0) and Q(0) with ``rank``, is uniform in ±start/√dim; ``start=1`` is the default of
        PyTorch's linear layers; with 0 all weights start at zero.
    device : str
        The PyTorch device.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.training.models.embeddings import Orthonormal
    >>> model = AttentionModel(Orthonormal(), rank=2, start=1.0)
    >>> [factor.shape for factor in model.draw_start(3, np.random.default_rng(0))]  # K(0) and Q(0)
    [(3, 2), (3, 2)]
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])  # 0 and 1 tie: half the mass each
    >>> trace = at.train(samples, model, at.GradientDescent(1.0), steps=2000)
    >>> trace.losses[-1].round(2).tolist()
    [0.69]
    >>> AttentionModel(embeddings="orthonormal", loss="squared").loss
    SquaredLoss()
    """

    embeddings: Embeddings = field(default_factory=lambda: RandomUnit(8))
    head: Readout = field(default_factory=TokenId)
    loss: Loss = field(default_factory=LogLoss)
    rank: int | None = None
    start: float = 0.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        rank = None if self.rank is None else whole_number(self.rank, "rank", least=1)
        settle(
            self,
            embeddings=as_embeddings(self.embeddings),
            head=as_head(self.head),
            loss=as_loss(self.loss),
            rank=rank,
            start=real_number(self.start, "start", least=0),
        )

    def draw_start(self, dim: int, rng: np.random.Generator) -> tuple[Float64, ...]:
        """W(0), or K(0) and Q(0): shape (dim, dim), or (dim, rank) each."""
        reach = self.start / np.sqrt(dim)
        shapes = [(dim, dim)] if self.rank is None else [(dim, self.rank)] * 2
        return tuple(rng.uniform(-reach, reach, shape) if reach else np.zeros(shape) for shape in shapes)


@dataclass(frozen=True, eq=False)
class Trials:
    """The realisable samples of all trials as tensors, short contexts padded on the left.

    Shapes: trials b, samples n, positions t, tokens k, dimensions d. ``table`` (b, k, d) are embeddings,
    ``tokens`` (b, n, t) contexts, the query last, ``keys`` (b, n, t, d) their embeddings, ``filled``
    (b, n, t) which positions are filled, ``weight`` (b, n) is 1/n for each of the n samples of a trial and 0
    for padding, and ``prepared`` what the head needs.
    """

    model: AttentionModel
    table: Tensor
    tokens: Tensor
    keys: Tensor
    filled: Tensor
    weight: Tensor
    prepared: tuple[Tensor, ...]

    @cached_property
    def _blocked(self) -> Tensor | None:
        """−∞ at padded positions, shape (t, b, n), if there are any."""
        if bool(self.filled.all()):
            return None
        empty = ~self.filled.permute(2, 0, 1)
        return torch.zeros(empty.shape, dtype=self.keys.dtype, device=empty.device).masked_fill_(
            empty, -torch.inf
        )

    @cached_property
    def _absent(self) -> Tensor | None:
        """Where samples are padding, shape (b, n), if there are any."""
        absent = self.weight == 0
        return absent if bool(absent.any()) else None

    @cached_property
    def _pairs(self) -> "_Pairs | None":
        """Scores by distinct token and query; None if they are many more than positions.

        Not on a GPU either, which would sum positions in a different order each time.
        """
        if self.device.type != "cpu":
            return None
        pairs = _Pairs.of(self.tokens.numpy(), self.table)
        return pairs if math.prod(pairs.shape) <= PAIRS_PER_POSITION * self.tokens.numel() else None

    def attention(self, weights: Tensor) -> Tensor:
        """softmax(X W x̄) for W of shape (b, d, d), shape (b, n, t)."""
        return self._attend(weights).permute(1, 2, 0)

    @property
    def device(self) -> torch.device:
        return self.keys.device

    def evaluate(self, parameters: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], Callable[[], Tensor]]:
        """∇L with respect to W, or to K and Q, and a function that computes the mean losses, shape (b,)."""
        gradient, right = self._descend(combine(parameters))
        return split(parameters, gradient), partial(self._mean_loss, right)

    def recorded(self, parameters: Sequence[Tensor]) -> Tensor:
        """W, shape (b, d, d)."""
        return combine(parameters)

    def loss(self, weights: Tensor) -> Tensor:
        """The mean loss of each trial, shape (b,)."""
        right, _ = self.model.head.read(self._attend(weights), self.prepared)
        return self._mean_loss(right)

    def gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """∇L, shape (b, d, d), and the mean losses, shape (b,)."""
        gradient, right = self._descend(weights)
        return gradient, self._mean_loss(right)

    def hessian(self, weights: Tensor, moved: Tensor | None = None) -> Tensor:
        """∇²L with respect to W as a vector, shape (b, d·d, d·d), or along m axes ``moved``, (b, m, m).

        ``moved`` is :meth:`moved_scores` of the axes. It is constant in W, and Hessians can share
        it. Samples do not interact, so one derivative of their slopes per position is enough.
        """
        moved = self.moved_scores() if moved is None else moved
        b, n, t, _ = self.keys.shape
        with torch.enable_grad():
            scores = self._scores(weights).detach().requires_grad_()
            right, derivative = self.model.head.read(self._softmax(scores), self.prepared)
            slope = self._without_padding(self.model.loss.slope(right)) * self.weight
            pressed = (slope * derivative).sum((1, 2))
            rows = [torch.autograd.grad(total, scores, retain_graph=True)[0] for total in pressed]
        pulled = torch.stack(rows).permute(2, 3, 0, 1) @ moved.reshape(b, n, t, -1)
        return moved.transpose(1, 2) @ pulled.reshape(b, n * t, -1)

    def moved_scores(self, axes: Tensor | None = None) -> Tensor:
        """The change of all scores X W x̄ along m axes (b, m, d·d), or entries of W: (b, n·t, m or d·d)."""
        b, n, t, d = self.keys.shape
        features = (self.keys[..., None] * self.keys[:, :, -1:, None, :]).reshape(b, n * t, d * d)
        return features if axes is None else features @ axes.transpose(1, 2)

    def _descend(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """∇L, shape (b, d, d), and the value of each label, shape (b, n)."""
        right, derivative = self.model.head.read(self._attend(weights), self.prepared)
        slope = self._without_padding(self.model.loss.slope(right)) * self.weight
        return self._collect(slope * derivative), right

    def _mean_loss(self, right: Tensor) -> Tensor:
        return (self._without_padding(self.model.loss.value(right)) * self.weight).sum(-1)

    def _without_padding(self, values: Tensor) -> Tensor:
        """Zero for padded samples."""
        return values if self._absent is None else values.masked_fill(self._absent, 0.0)

    def _attend(self, weights: Tensor) -> Tensor:
        """softmax(X W x̄) with positions first, shape (t, b, n), so that the softmax runs over whole rows."""
        return self._softmax(self._scores(weights))

    def _softmax(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores if self._blocked is None else scores + self._blocked, 0)

    def _scores(self, weights: Tensor) -> Tensor:
        """X W x̄, shape (t, b, n)."""
        if self._pairs is not None:
            return self._pairs.scores(weights)
        queries = self.keys[:, :, -1] @ weights.transpose(1, 2)
        return (self.keys @ queries[..., None])[..., 0].permute(2, 0, 1)

    def _collect(self, pressed: Tensor) -> Tensor:
        """Σ pressed_t x_t x̄ᵀ, shape (b, d, d), from (t, b, n)."""
        if self._pairs is not None:
            return self._pairs.collect(pressed)
        pulled = (pressed.permute(1, 2, 0)[..., None, :] @ self.keys)[..., 0, :]
        return pulled.transpose(1, 2) @ self.keys[:, :, -1]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The distinct tokens and queries of every trial: positions with the same pair share its score.

    ``words`` (b, k, d) and ``queries`` (b, q, d) are their embeddings. ``cells`` says where in the flat table
    of scores, whose ``shape`` is (b, k, q), each position of ``layout`` (t, b, n) has its own.
    """

    words: Tensor
    queries: Tensor
    cells: Tensor
    shape: tuple[int, int, int]
    layout: tuple[int, int, int]

    @classmethod
    def of(cls, tokens: Int64, table: Tensor) -> "_Pairs":
        """Find the pairs of contexts (b, n, t) with embeddings (b, tokens, d)."""
        b, n, t = tokens.shape
        words, word = _distinct_tokens(tokens, table.shape[1])
        queries, query = _distinct_tokens(tokens[..., -1:], table.shape[1])
        shape = b, words.shape[1], queries.shape[1]
        trial = np.arange(b, dtype=np.int64)[:, None, None]
        cells: Int64 = (trial * shape[1] + word) * shape[2] + query
        rows = (torch.as_tensor(ids)[..., None] for ids in (words, queries))
        first, second = (torch.take_along_dim(table, row, dim=1) for row in rows)
        return cls(first, second, torch.as_tensor(cells.transpose(2, 0, 1).reshape(-1)), shape, (t, b, n))

    @cached_property
    def _columns(self) -> Tensor:
        """The queries as columns, shape (b, d, q), in this order in memory, which is twice as fast."""
        return self.queries.transpose(1, 2).contiguous()

    def scores(self, weights: Tensor) -> Tensor:
        """X W x̄, shape (t, b, n)."""
        products = torch.bmm(self.words, torch.bmm(weights, self._columns))
        return products.view(-1).index_select(0, self.cells).view(self.layout)

    def collect(self, pressed: Tensor) -> Tensor:
        """Σ pressed_t x_t x̄ᵀ, shape (b, d, d), from (t, b, n)."""
        sums = pressed.new_zeros(math.prod(self.shape)).scatter_add_(0, self.cells, pressed.reshape(-1))
        return torch.bmm(torch.bmm(self.words.transpose(1, 2), sums.view(self.shape)), self.queries)


def _distinct_tokens(tokens: Int64, n_tokens: int) -> tuple[Int64, Int64]:
    """The distinct tokens of each trial, (b, k), padded with token 0, and their index at each position."""
    flat = tokens.reshape(len(tokens), -1)
    occurs = np.zeros((len(tokens), n_tokens), bool)
    np.put_along_axis(occurs, flat, values=True, axis=1)
    number = occurs.cumsum(axis=1) - 1
    distinct = np.zeros((len(tokens), max(FEWEST_ROWS, int(number[:, -1].max()) + 1)), np.int64)
    trial, token = occurs.nonzero()
    distinct[trial, number[trial, token]] = token
    return distinct, np.take_along_axis(number, flat, axis=1).reshape(tokens.shape)


def combine(parameters: Sequence[Tensor]) -> Tensor:
    """W, shape (b, d, d): itself, or K Qᵀ."""
    return parameters[0] if len(parameters) == 1 else parameters[0] @ parameters[1].transpose(1, 2)


def split(parameters: Sequence[Tensor], gradient: Tensor) -> tuple[Tensor, ...]:
    """The gradient with respect to the parameters, from that with respect to W."""
    if len(parameters) == 1:
        return (gradient,)
    keys, queries = parameters
    return gradient @ queries, gradient.transpose(1, 2) @ keys


def lay_out(model: AttentionModel, samples: Sequence[Samples], tables: Sequence[Float64]) -> Trials:
    """The trials as float64 tensors; each has its own samples and embeddings."""
    realisable = [corpus.take(find_realisable(corpus)) for corpus in samples]
    if not all(map(len, realisable)):
        raise InvalidSamples("a trial has no realisable sample, so it cannot be trained; leave it out")
    n, t = max(map(len, realisable)), max(int(corpus.lengths.max()) for corpus in realisable)
    ids, labels = np.zeros((len(realisable), n, t), np.int64), np.zeros((len(realisable), n), np.int64)
    filled, weight = np.zeros((len(realisable), n, t), bool), np.zeros((len(realisable), n))
    back = np.arange(t, 0, -1)
    for trial, corpus in enumerate(realisable):
        size, inside = len(corpus), back <= corpus.lengths[:, None]
        positions = np.maximum(corpus.stops[:, None] - back, 0)
        ids[trial, :size] = np.where(inside, corpus.values[positions], 0)
        filled[trial, :size], labels[trial, :size], weight[trial, :size] = inside, corpus.labels, 1.0 / size
    filled[..., -1] = True
    device = model.device
    table = torch.as_tensor(np.stack(tables), dtype=torch.float64, device=device)
    tokens, mask, chosen = (torch.as_tensor(array, device=device) for array in (ids, filled, labels))
    keys = torch.take_along_dim(table[:, None], tokens[..., None], dim=2)
    hit = (tokens == chosen[..., None]) & mask
    prepared = model.head.prepare(keys, hit, table, chosen)
    return Trials(model, table, tokens, keys, mask, torch.as_tensor(weight, device=device), prepared)


def measure_curvatures(
    model: AttentionModel, samples: Sequence[Samples], tables: Sequence[Float64], weights: Float64
) -> Float64:
    """∇²L of each trial at its weights, shape (n_trials, dim², dim²), from W (n_trials, dim, dim)."""
    return lay_out(model, samples, tables).hessian(torch.as_tensor(weights)).numpy()
