"""Deep attention over one-hot tokens: layers, heads, relative positions, values and a decoder.

The stream of a sequence begins as its one-hot tokens h⁰, shape (t, n_tokens). Layer l adds what its heads
read, hˡ = hˡ⁻¹ + Σ_heads softmax(hˡ⁻¹ W hˡ⁻¹ᵀ + D(P)) hˡ⁻¹ V. D(P) adds P_{i−j} to the score of key j for
query i, and masks later keys. A feed-forward layer then makes it hˡ + relu(hˡ U) U'. The logits of the next
token are hᴸ W_O (arXiv 2601.19208).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.options import Checked, checked, real_number, show, whole_number
from attomaton.base.tables import Float64, Int64, Integers

MOST_LAYERS = 1_000  # the largest number of layers, or of heads per layer
BLOCK_NUMBERS = 3_000_000  # numbers of an activation in memory (24 MB); larger corpora are cut into blocks

Matrix = TypeVar("Matrix", Tensor, Float64)


class HeadParameters(NamedTuple, Generic[Matrix]):
    """W and V of a head, shape (…, n_tokens, n_tokens), and P, shape (…, 1, window), if it has positions."""

    attention: Matrix
    positions: Matrix | None
    values: Matrix


class LayerParameters(NamedTuple, Generic[Matrix]):
    """The heads of a layer, and the two factors (U, U') of its feed-forward layer, if it has one."""

    heads: list[HeadParameters[Matrix]]
    feed_forward: tuple[Matrix, Matrix] | None


@dataclass(frozen=True, eq=False)
class DeepWeights:
    """The weights of all trials at one step, as float64 arrays.

    ``attention`` has W (rows are queries, columns keys) and ``values`` has V (rows are tokens read, columns
    tokens written), shape (n_trials, n_layers, n_heads, n_tokens, n_tokens). ``positions`` has P, shape
    (n_trials, n_layers, n_heads, window): what is added to the score of the key at each lag before the query,
    zero without positions. ``output`` has W_O, shape (n_trials, n_tokens, n_tokens): its rows are entries of
    the last layer's stream, its columns next tokens.
    """

    attention: Float64
    positions: Float64
    values: Float64
    output: Float64


@dataclass(frozen=True)
class DeepModel(Checked):
    """A deep attention-only model, optionally with feed-forward layers.

    It has ``n_layers`` layers of ``n_heads`` heads, whose outputs are summed; heads that start equal stay
    equal. ``hidden`` is the width of a feed-forward layer after each attention layer, None means no such
    layer; if both of its factors start at zero, they stay zero. ``positions`` says whether relative positions
    P are trained, ``start`` is the standard deviation of the Gaussian initial weights, and ``device`` the
    PyTorch device. All numbers are float64.

    Examples
    --------
    >>> DeepModel(n_layers=2, n_heads=2, hidden=16).hidden
    16
    """

    n_layers: int = field(default=1, metadata=checked(whole_number, least=1, most=MOST_LAYERS))
    n_heads: int = field(default=1, metadata=checked(whole_number, least=1, most=MOST_LAYERS))
    hidden: int | None = field(default=None, metadata=checked(whole_number, least=1))
    positions: bool = True
    start: float = field(default=0.0, metadata=checked(real_number, least=0))
    device: str = "cpu"

    def shapes(self, n_tokens: int, window: int) -> list[tuple[int, int]]:
        """The shape of each parameter: in each layer W, P and V of every head, then U and U'; W_O last."""
        square = (n_tokens, n_tokens)
        head = [square, (1, window), square] if self.positions else [square, square]
        feed_forward = [] if self.hidden is None else [(n_tokens, self.hidden), (self.hidden, n_tokens)]
        return [*(head * self.n_heads + feed_forward) * self.n_layers, square]

    def draw_start(self, n_tokens: int, window: int, rng: np.random.Generator) -> list[Float64]:
        """The initial parameters, in the order of :meth:`shapes`."""
        shapes = self.shapes(n_tokens, window)
        return [rng.normal(0.0, self.start, shape) if self.start else np.zeros(shape) for shape in shapes]

    def unpack(self, numbers: Float64, *, n_tokens: int, window: int) -> DeepWeights:
        """The weights by name, from all numbers of each trial, shape (n_trials, n_numbers)."""
        layers, output = group_parameters(self, split_parameters(self, numbers, n_tokens, window))
        heads = [head for layer in layers for head in layer.heads]
        grid = (len(numbers), self.n_layers, self.n_heads)
        square = (*grid, n_tokens, n_tokens)
        lags = [head.positions for head in heads if head.positions is not None]
        return DeepWeights(
            attention=np.stack([head.attention for head in heads], axis=1).reshape(square),
            positions=np.stack(lags, axis=1).reshape(*grid, window) if lags else np.zeros((*grid, window)),
            values=np.stack([head.values for head in heads], axis=1).reshape(square),
            output=output,
        )


def group_parameters(
    model: DeepModel, parameters: Sequence[Matrix]
) -> tuple[list[LayerParameters[Matrix]], Matrix]:
    """Parameters in the order of :meth:`DeepModel.shapes`, grouped by layer and head; and W_O."""
    following = iter(parameters)
    layers: list[LayerParameters[Matrix]] = []
    for _ in range(model.n_layers):
        heads = [  # arguments are evaluated from left to right, as the parameters follow each other
            HeadParameters(next(following), next(following) if model.positions else None, next(following))
            for _ in range(model.n_heads)
        ]
        feed_forward = None if model.hidden is None else (next(following), next(following))
        layers.append(LayerParameters(heads, feed_forward))
    return layers, next(following)


def split_parameters(model: DeepModel, numbers: Float64, n_tokens: int, window: int) -> list[Float64]:
    """The parameters, shape (n_trials, rows, columns) each, from all numbers (n_trials, n_numbers)."""
    shapes = model.shapes(n_tokens, window)
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    if numbers.ndim != 2 or numbers.shape[1] != ends[-1]:
        raise UnsupportedOption(
            f"numbers have shape {numbers.shape}, but this model has {ends[-1]:,} numbers per trial; give "
            f"an array of shape (n_trials, {ends[-1]})"
        )
    flat = np.split(numbers, ends[:-1], axis=1)
    return [matrix.reshape(-1, *shape) for matrix, shape in zip(flat, shapes, strict=True)]


@dataclass(frozen=True, eq=False)
class DeepTrials:
    """The sequences of all trials as tensors; each trial has its own, all of one shape."""

    model: DeepModel
    # (n_trials, n_sequences, window + 1): every token but the last of a sequence is a query, and every token
    # but the first is the label of the query before it.
    tokens: Tensor
    n_tokens: int

    @property
    def device(self) -> torch.device:
        return self.tokens.device

    @property
    def window(self) -> int:
        return self.tokens.shape[2] - 1

    def recorded(self, parameters: Sequence[Tensor]) -> Tensor:
        """All parameters one after the other, shape (n_trials, n_numbers)."""
        return torch.cat([parameter.flatten(1) for parameter in parameters], dim=1)

    def evaluate(self, parameters: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], Callable[[], Tensor]]:
        """∇L by each parameter, and a function that returns the mean losses, shape (n_trials,)."""
        n_trials, n_sequences, _ = self.tokens.shape
        n_at_once = max(BLOCK_NUMBERS // (n_trials * self.window * self.n_tokens), 1)
        mean_losses = torch.zeros(n_trials, dtype=torch.float64, device=self.device)
        gradients: tuple[Tensor, ...] = ()
        for first in range(0, n_sequences, n_at_once):  # losses and gradients are sums over blocks
            block = self.tokens[:, first : first + n_at_once]
            with torch.enable_grad():
                leaves = tuple(parameter.detach().requires_grad_() for parameter in parameters)
                losses = self._sum_losses(leaves, block) / (n_sequences * self.window)
                # Trials do not interact: the gradient of their sum contains the gradient of each.
                block_gradients = torch.autograd.grad(losses.sum(), leaves)
            gradients = tuple(map(torch.add, gradients, block_gradients)) if gradients else block_gradients
            mean_losses = mean_losses + losses.detach()
        return gradients, lambda: mean_losses

    # Σ −ln p(next token) over sequences and positions, shape (n_trials,); W_O is the last parameter.
    def _sum_losses(self, parameters: Sequence[Tensor], tokens: Tensor) -> Tensor:
        logits = _multiply(self.run(parameters, tokens[:, :, :-1]), parameters[-1])
        label_logits = logits.gather(3, tokens[:, :, 1:, None])[..., 0]
        return (logits.logsumexp(3) - label_logits).sum((1, 2))

    def run(self, parameters: Sequence[Tensor], tokens: Tensor) -> Tensor:
        """The stream after the last layer, shape (n_trials, n, t, n_tokens), for tokens (n_trials, n, t)."""
        stream = torch.nn.functional.one_hot(tokens, self.n_tokens).to(parameters[0].dtype)
        layers, _ = group_parameters(self.model, parameters)
        for depth, layer in enumerate(layers):
            written = stream
            for head in layer.heads:
                if depth == 0:  # rows of the stream are one-hot: look up what a product would give
                    scores = _look_up_pairs(head.attention, tokens)
                    values = _look_up_rows(head.values, tokens)
                else:
                    scores = _multiply(stream, head.attention) @ stream.transpose(2, 3)
                    values = _multiply(stream, head.values)
                written = written + _attend(scores, head.positions) @ values
            if layer.feed_forward is not None:
                into, out = layer.feed_forward
                written = written + _multiply(torch.relu(_multiply(written, into)), out)
            stream = written
        return stream


# softmax(scores + D(P)) over the keys up to each query, shape (n_trials, n, t, t).
def _attend(scores: Tensor, positions: Tensor | None) -> Tensor:
    index = torch.arange(scores.shape[2], device=scores.device)
    lags = index[:, None] - index  # i − j for query i and key j, (t, t): negative for later keys
    if positions is not None:  # (n_trials, 1, window) → P_{i−j}, (n_trials, 1, t, t); P_0 is masked below
        scores = scores + positions[:, 0][:, lags.clamp(min=0)][:, None]
    return torch.softmax(scores.masked_fill(lags < 0, -torch.inf), 3)


# Each row of (b, n, t, k) times the trial's matrix (b, k, m).
def _multiply(stream: Tensor, matrix: Tensor) -> Tensor:
    b, n, t, k = stream.shape
    return (stream.reshape(b, n * t, k) @ matrix).reshape(b, n, t, -1)


# X W Xᵀ of one-hot tokens X, shape (b, n, t, t).
def _look_up_pairs(weights: Tensor, tokens: Tensor) -> Tensor:
    b, n, t = tokens.shape
    pairs = tokens[..., :, None] * weights.shape[2] + tokens[..., None, :]  # flat index of (query, key) in W
    return weights.flatten(1).gather(1, pairs.reshape(b, -1)).reshape(b, n, t, t)


# X V of one-hot tokens X, shape (b, n, t, k).
def _look_up_rows(values: Tensor, tokens: Tensor) -> Tensor:
    b, n, t = tokens.shape
    # The rows of all trials in one table: those of trial i begin at row i · n_tokens.
    shifts = torch.arange(b, device=tokens.device)[:, None, None] * values.shape[1]
    return torch.nn.functional.embedding(tokens + shifts, values.flatten(0, 1)).reshape(b, n, t, -1)


def lay_out_sequences(model: DeepModel, sequences: Sequence[Integers], n_tokens: int) -> DeepTrials:
    """The sequences of each trial, arrays of shape (n_sequences, window + 1), as tensors."""
    tables = [_check_sequences(array, trial, n_tokens) for trial, array in enumerate(sequences)]
    if len({table.shape for table in tables}) != 1:
        raise InvalidSamples(
            "the trials have sequence arrays of different shapes; give arrays of equal shape, or train the "
            "trials one by one"
        )
    return DeepTrials(model, torch.as_tensor(np.stack(tables), device=model.device), n_tokens)


# The sequences of a trial as int64, if they are a table of at least two columns of tokens below n_tokens.
def _check_sequences(sequences: object, trial: int, n_tokens: int) -> Int64:
    table = np.asarray(sequences)
    if table.ndim != 2 or not np.issubdtype(table.dtype, np.integer) or min(table.shape, default=0) < 1:
        raise InvalidSamples(
            f"the sequences of trial {trial} are {show(sequences)}; give an array of whole numbers, shape "
            "(n_sequences, window + 1)"
        )
    if table.shape[1] < 2:
        raise InvalidSamples(
            f"the sequences of trial {trial} have a single token each; give at least 2, a query and a label"
        )
    wrong = table[(table < 0) | (table >= n_tokens)]
    if len(wrong):
        raise InvalidSamples(
            f"the sequences of trial {trial} contain token {wrong[0]}, which is not in 0 … {n_tokens - 1}; "
            "number tokens from 0, or give a larger n_tokens"
        )
    return table.astype(np.int64)
