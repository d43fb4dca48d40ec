"""One layer of self-attention, f_W(X) = Xᵀ softmax(X W x̄): its loss and gradients for many trials at once.

The rows of X (t, d) are the embeddings of a context's tokens, x̄ is the last of them, and W (d, d) is trained,
as it is or as a product K Qᵀ. :func:`lay_out` makes :class:`Trials` from samples and tables of embeddings;
the training loop calls ``evaluate``, Newton's method ``gradient`` and ``hessian``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import real_number, settle, whole_number
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import find_realisable
from attomaton.training.models.embeddings import Embeddings, RandomUnit, as_embeddings
from attomaton.training.models.heads import Readout, TokenId, as_head
from attomaton.training.models.losses import LogLoss, Loss, as_loss

FEWEST_ROWS = 8  # tokens and queries are padded to this: PyTorch is slower with smaller matrices

# Scores are computed once per pair of token and query if the table of all pairs has at most this many cells
# per position. With more cells, most of which no position has, one product per position is faster.
PAIRS_PER_POSITION = 24


@dataclass(frozen=True)
class AttentionModel:
    """One layer of self-attention, with a readout (the prediction from attention) and a loss.

    Attributes
    ----------
    embeddings : Embeddings
        ``Orthonormal()`` (``"orthonormal"`` or None), ``RandomUnit(dim)``, ``Equicorrelated(dim,
        correlation)``, or a table of your own, shape (n_tokens, dim).
    head : Readout
        The readout: ``TokenId()`` (the attention mass on the label), ``Tied()`` (assumption A),
        ``Untied(temperature)``; or ``"token-id"``, ``"tied"``, ``"untied"``.
    loss : Loss
        ``LogLoss()``, ``SquaredLoss()`` or ``CorrelationLoss()`` of the value that the readout gives to the
        label; or ``"log"``, ``"squared"``, ``"correlation"``.
    rank : int, optional
        W = K Qᵀ with factors of this many columns. None means that W itself is trained.
    start : float
        W(0), or K(0) and Q(0), is uniform in ±start/√dim; 1 is the default of PyTorch's linear layers.
    device : str
        The PyTorch device.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])  # 0 and 1 tie: half the mass each
    >>> model = AttentionModel("orthonormal", rank=2, start=1.0)
    >>> at.train(samples, model, at.GradientDescent(1.0), steps=2000).losses[-1].round(2).tolist()
    [0.69]
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
        limit = self.start / np.sqrt(dim)
        shapes = [(dim, dim)] if self.rank is None else [(dim, self.rank)] * 2
        return tuple(rng.uniform(-limit, limit, shape) if limit else np.zeros(shape) for shape in shapes)


@dataclass(frozen=True, eq=False)
class Trials:
    """The realisable samples of all trials as tensors, short contexts padded on the left.

    Sizes are b trials, n samples, t positions, k tokens and d dimensions.
    """

    model: AttentionModel
    table: Tensor  # (b, k, d): the embeddings of each trial
    tokens: Tensor  # (b, n, t): the contexts, with the query last
    keys: Tensor  # (b, n, t, d): the embeddings of the contexts' tokens
    filled: Tensor  # (b, n, t): false for padded positions
    weight: Tensor  # (b, n): 1/(number of samples of the trial), 0 for padded samples
    prepared: tuple[Tensor, ...]  # what the readout computed from these

    @property
    def device(self) -> torch.device:
        return self.keys.device

    # −∞ at padded positions, zero elsewhere, shape (t, b, n); None without padding.
    @cached_property
    def _padding_scores(self) -> Tensor | None:
        if bool(self.filled.all()):
            return None
        padding = ~self.filled.permute(2, 0, 1)
        zeros = torch.zeros(padding.shape, dtype=self.keys.dtype, device=padding.device)
        return zeros.masked_fill_(padding, -torch.inf)

    # Which samples are padding, shape (b, n); None without such samples.
    @cached_property
    def _padding_samples(self) -> Tensor | None:
        is_padding = self.weight == 0
        return is_padding if bool(is_padding.any()) else None

    # The distinct pairs of token and query; None if they are many, or on a GPU.
    @cached_property
    def _pairs(self) -> "_Pairs | None":
        # A GPU would sum the gradients of equal pairs in a different order each time.
        if self.device.type != "cpu":
            return None
        pairs = _Pairs.of(self.tokens.numpy(), self.table)
        return pairs if math.prod(pairs.shape) <= PAIRS_PER_POSITION * self.tokens.numel() else None

    def attention(self, weights: Tensor) -> Tensor:
        """softmax(X W x̄) for W of shape (b, d, d), shape (b, n, t)."""
        return self._attend(weights).permute(1, 2, 0)

    def evaluate(self, parameters: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], Callable[[], Tensor]]:
        """∇L by W, or by K and Q, and a function that computes the mean losses, shape (b,)."""
        gradient, label_values = self._differentiate(combine_factors(parameters))
        return split_gradient(parameters, gradient), partial(self._mean_loss, label_values)

    def recorded(self, parameters: Sequence[Tensor]) -> Tensor:
        """W, shape (b, d, d)."""
        return combine_factors(parameters)

    def loss(self, weights: Tensor) -> Tensor:
        """The mean losses, shape (b,), at W of shape (b, d, d)."""
        label_values, _ = self.model.head.read(self._attend(weights), self.prepared)
        return self._mean_loss(label_values)

    def gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """∇L, shape (b, d, d), and the mean losses, shape (b,)."""
        gradient, label_values = self._differentiate(weights)
        return gradient, self._mean_loss(label_values)

    def hessian(self, weights: Tensor, score_changes: Tensor | None = None) -> Tensor:
        """∇²L by W as a vector, shape (b, d·d, d·d), or along m axes, (b, m, m).

        ``score_changes`` is what :meth:`score_changes` returned for the axes; it does not depend on W. With C
        the score changes and H_s the second derivative by the scores of a sample, ∇²L = Σ_samples Cᵀ H_s C.
        """
        changes = self.score_changes() if score_changes is None else score_changes
        b, n, t, _ = self.keys.shape
        with torch.enable_grad():
            scores = self._scores(weights).detach().requires_grad_()
            gradient, _ = self._score_gradient(self._softmax(scores))
            # Samples do not interact: the derivative of a sum over all samples has row i of every H_s.
            by_position = gradient.sum((1, 2))
            rows = [torch.autograd.grad(total, scores, retain_graph=True)[0] for total in by_position]
        curvature = torch.stack(rows).permute(2, 3, 0, 1)  # H_s, shape (b, n, t, t)
        curvature_changes = curvature @ changes.reshape(b, n, t, -1)
        return changes.transpose(1, 2) @ curvature_changes.reshape(b, n * t, -1)

    def score_changes(self, axes: Tensor | None = None) -> Tensor:
        """The change of all scores X W x̄ along m axes (b, m, d·d), shape (b, n·t, m).

        Without axes it is the change along each entry of W, shape (b, n·t, d·d).
        """
        b, n, t, d = self.keys.shape
        # The score x_tᵀ W x̄ is linear in W, with the coefficients x_t x̄ᵀ.
        features = (self.keys[..., None] * self.keys[:, :, -1:, None, :]).reshape(b, n * t, d * d)
        return features if axes is None else features @ axes.transpose(1, 2)

    # ∇L, shape (b, d, d), and the value u of each label, shape (b, n).
    def _differentiate(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        score_gradient, label_values = self._score_gradient(self._attend(weights))
        return self._pull_back(score_gradient), label_values

    # ∂L/∂score, shape (t, b, n), and the value u of each label, shape (b, n).
    def _score_gradient(self, attention: Tensor) -> tuple[Tensor, Tensor]:
        label_values, derivative = self.model.head.read(attention, self.prepared)
        slope = self._without_padding(self.model.loss.slope(label_values)) * self.weight
        return slope * derivative, label_values

    # The mean losses, shape (b,), from the value u of each label, shape (b, n).
    def _mean_loss(self, label_values: Tensor) -> Tensor:
        return (self._without_padding(self.model.loss.value(label_values)) * self.weight).sum(-1)

    # Values (b, n) with 0 for padded samples, whose losses may be infinite, and ∞ · 0 is not 0.
    def _without_padding(self, values: Tensor) -> Tensor:
        return values if self._padding_samples is None else values.masked_fill(self._padding_samples, 0.0)

    # softmax(X W x̄) with positions first, shape (t, b, n), so that the softmax runs over whole rows.
    def _attend(self, weights: Tensor) -> Tensor:
        return self._softmax(self._scores(weights))

    # Attention, shape (t, b, n), from scores (t, b, n); padded positions get none.
    def _softmax(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores if self._padding_scores is None else scores + self._padding_scores, 0)

    # X W x̄ of every context, shape (t, b, n).
    def _scores(self, weights: Tensor) -> Tensor:
        if self._pairs is not None:
            return self._pairs.scores(weights)
        queries = self.keys[:, :, -1] @ weights.transpose(1, 2)
        return (self.keys @ queries[..., None])[..., 0].permute(2, 0, 1)

    # ∇L = Σ score_gradient_t x_t x̄ᵀ, shape (b, d, d), from a gradient by scores (t, b, n).
    def _pull_back(self, score_gradient: Tensor) -> Tensor:
        if self._pairs is not None:
            return self._pairs.pull_back(score_gradient)
        weighted_keys = (score_gradient.permute(1, 2, 0)[..., None, :] @ self.keys)[..., 0, :]  # (b, n, d)
        return weighted_keys.transpose(1, 2) @ self.keys[:, :, -1]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """A table of the scores of all pairs of a token and a query, which positions look up.

    Every trial has k distinct tokens and q distinct queries, the smaller numbers padded with token 0.
    """

    keys: Tensor  # (b, k, d): embeddings of the distinct tokens
    queries: Tensor  # (b, q, d): embeddings of the distinct queries
    cells: Tensor  # (t · b · n,): the flat index in the table of each position, in the order of ``layout``
    shape: tuple[int, int, int]  # (b, k, q), of the table
    layout: tuple[int, int, int]  # (t, b, n), of the scores of all positions

    @classmethod
    def of(cls, tokens: Int64, table: Tensor) -> "_Pairs":
        """The pairs in contexts ``tokens`` (b, n, t), with the embeddings ``table`` (b, n_tokens, d)."""
        b, n, t = tokens.shape
        key_tokens, key = _number_tokens(tokens, table.shape[1])
        query_tokens, query = _number_tokens(tokens[..., -1:], table.shape[1])
        k, q = key_tokens.shape[1], query_tokens.shape[1]
        trial = np.arange(b, dtype=np.int64)[:, None, None]
        # Row-major index of (trial, key, query) in the table, shape (b, n, t); one query per context.
        cells: Int64 = (trial * k + key) * q + query
        keys = torch.take_along_dim(table, torch.as_tensor(key_tokens)[..., None], dim=1)
        queries = torch.take_along_dim(table, torch.as_tensor(query_tokens)[..., None], dim=1)
        positions_first = torch.as_tensor(cells.transpose(2, 0, 1).reshape(-1))
        return cls(keys, queries, positions_first, shape=(b, k, q), layout=(t, b, n))

    # The queries as columns, shape (b, d, q), in this order in memory, which is twice as fast.
    @cached_property
    def _query_columns(self) -> Tensor:
        return self.queries.transpose(1, 2).contiguous()

    def scores(self, weights: Tensor) -> Tensor:
        """X W x̄ of every context, shape (t, b, n)."""
        products = torch.bmm(self.keys, torch.bmm(weights, self._query_columns))
        return products.view(-1).index_select(0, self.cells).view(self.layout)

    def pull_back(self, score_gradient: Tensor) -> Tensor:
        """Σ score_gradient_t x_t x̄ᵀ, shape (b, d, d), from (t, b, n): gradients are summed by pair first."""
        sums = score_gradient.new_zeros(math.prod(self.shape))
        sums = sums.scatter_add_(0, self.cells, score_gradient.reshape(-1))
        return torch.bmm(torch.bmm(self.keys.transpose(1, 2), sums.view(self.shape)), self.queries)


# The distinct tokens of each trial, (b, k), padded with token 0, and their index at each position.
def _number_tokens(tokens: Int64, n_tokens: int) -> tuple[Int64, Int64]:
    flat = tokens.reshape(len(tokens), -1)
    occurs = np.zeros((len(tokens), n_tokens), bool)
    np.put_along_axis(occurs, flat, values=True, axis=1)
    index = occurs.cumsum(axis=1) - 1  # of each token of the vocabulary that occurs, in its trial
    distinct = np.zeros((len(tokens), max(FEWEST_ROWS, int(index[:, -1].max()) + 1)), np.int64)
    trial, token = occurs.nonzero()
    distinct[trial, index[trial, token]] = token
    return distinct, np.take_along_axis(index, flat, axis=1).reshape(tokens.shape)


def combine_factors(parameters: Sequence[Tensor]) -> Tensor:
    """W, shape (b, d, d), from the parameters: W itself, or K and Q with W = K Qᵀ."""
    return parameters[0] if len(parameters) == 1 else parameters[0] @ parameters[1].transpose(1, 2)


def split_gradient(parameters: Sequence[Tensor], gradient: Tensor) -> tuple[Tensor, ...]:
    """∇L by each parameter, from ∇L by W, shape (b, d, d)."""
    if len(parameters) == 1:
        return (gradient,)
    keys, queries = parameters
    return gradient @ queries, gradient.transpose(1, 2) @ keys


# Contexts (b, n, t), labels (b, n), and ``filled`` and ``weight`` as in :class:`Trials`.
def _pad(corpora: Sequence[Samples]) -> tuple[Int64, Int64, Bool, Float64]:
    b, n = len(corpora), max(map(len, corpora))
    t = max(int(corpus.lengths.max()) for corpus in corpora)
    # Contexts are padded on the left with token 0; the last position is filled, also in padded samples.
    tokens, filled = np.zeros((b, n, t), np.int64), np.zeros((b, n, t), bool)
    labels, weight = np.zeros((b, n), np.int64), np.zeros((b, n))
    from_end = np.arange(t, 0, -1)  # t for the first position, 1 for the last
    for trial, corpus in enumerate(corpora):
        size = len(corpus)
        is_filled = from_end <= corpus.lengths[:, None]
        # Contexts end before `stops` in `values`; at padded positions the index is unused, but must exist.
        index = np.maximum(corpus.stops[:, None] - from_end, 0)
        tokens[trial, :size] = np.where(is_filled, corpus.values[index], 0)
        filled[trial, :size] = is_filled
        labels[trial, :size] = corpus.labels
        weight[trial, :size] = 1.0 / size
    filled[..., -1] = True  # a softmax over no position would be NaN
    return tokens, labels, filled, weight


def lay_out(model: AttentionModel, samples: Sequence[Samples], tables: Sequence[Float64]) -> Trials:
    """The realisable samples of each trial, with the embeddings of the trial, as float64 tensors."""
    realisable = [corpus.take(find_realisable(corpus)) for corpus in samples]
    empty = [trial for trial, corpus in enumerate(realisable) if not len(corpus)]
    if empty:
        raise InvalidSamples(
            f"trial {empty[0]} has no sample whose label is in its context, so there is nothing to train; "
            "leave the trial out"
        )
    tokens, labels, filled, weight = (torch.as_tensor(item, device=model.device) for item in _pad(realisable))
    table = torch.as_tensor(np.stack(tables), dtype=torch.float64, device=model.device)
    keys = torch.take_along_dim(table[:, None], tokens[..., None], dim=2)
    is_label = (tokens == labels[..., None]) & filled
    prepared = model.head.prepare(keys, is_label, table, labels)
    return Trials(model, table, tokens, keys, filled, weight, prepared)


def measure_curvatures(
    model: AttentionModel, samples: Sequence[Samples], tables: Sequence[Float64], weights: Float64
) -> Float64:
    """∇²L of each trial at its weights, shape (n_trials, dim², dim²), from W (n_trials, dim, dim)."""
    return lay_out(model, samples, tables).hessian(torch.as_tensor(weights)).numpy()
