"""Deep attention over one-hot tokens: layers, heads, relative positions, values and a decoder.

hˡ = hˡ⁻¹ + Σ_heads softmax(mask(hˡ⁻¹ W hˡ⁻¹ᵀ + D(P))) hˡ⁻¹ V, logits = hᴸ W_O (arXiv 2601.19208); with a
feed-forward layer hˡ ← hˡ + relu(hˡ U) U' after each layer if enabled. h⁰ are the one-hot tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.options import Checked, checked, real_number, show, whole_number
from attomaton.base.tables import Float64, Int64, Integers

MOST_LAYERS = 1_000
"""The largest number of layers, or of heads per layer."""

BLOCK_NUMBERS = 3_000_000
"""Numbers of one activation in memory at once; longer corpora are processed in blocks of sequences."""


@dataclass(frozen=True, eq=False)
class DeepWeights:
    """The weights of all trials at one step.

    Attributes
    ----------
    attention : float64 array, shape (n_trials, n_layers, n_heads, n_tokens, n_tokens)
        W: rows are queries, columns keys.
    positions : float64 array, shape (n_trials, n_layers, n_heads, window)
        P: added to the score of the key at each lag before the query; zero without positions.
    values : float64 array, shape (n_trials, n_layers, n_heads, n_tokens, n_tokens)
        V: rows are tokens read, columns tokens written.
    output : float64 array, shape (n_trials, n_tokens, n_tokens)
        W_O: rows are entries of the last layer's stream, columns next tokens.
    """

    attention: Float64
    positions: Float64
    values: Float64
    output: Float64


@dataclass(frozen=True)
class DeepModel(Checked):
    """A deep attention-only model, optionally with feed-forward layers.

    Attributes
    ----------
    n_layers : int
        L.
    n_heads : int
        Heads per layer, whose outputs are summed. Heads with equal initial weights stay equal: they get
        the same gradient.
    hidden : int, optional
        Width of a feed-forward layer after each attention layer. None means no such layer. If both of its
        factors start at zero, they stay zero.
    positions : bool
        Whether relative positions P are trained.
    start : float
        Standard deviation of the Gaussian initial weights; with 0 all weights start at zero.
    device : str
        The PyTorch device; all numbers are float64.

    Examples
    --------
    >>> model = DeepModel(n_layers=2, n_heads=2)
    >>> len(model.shapes(n_tokens=5, window=3))  # W, P and V of four heads, and W_O
    13
    """

    n_layers: int = field(default=1, metadata=checked(whole_number, least=1, most=MOST_LAYERS))
    n_heads: int = field(default=1, metadata=checked(whole_number, least=1, most=MOST_LAYERS))
    hidden: int | None = field(default=None, metadata=checked(whole_number, least=1))
    positions: bool = True
    start: float = field(default=0.0, metadata=checked(real_number, least=0))
    device: str = "cpu"

    def shapes(self, n_tokens: int, window: int) -> list[tuple[int, int]]:
        """The shape of each parameter in order: layer by layer, and W_O last.

        A layer has W, P and V of each head, and the two factors of its feed-forward layer.
        """
        square = (n_tokens, n_tokens)
        head = [square, (1, window), square] if self.positions else [square, square]
        fed = [] if self.hidden is None else [(n_tokens, self.hidden), (self.hidden, n_tokens)]
        return [*(head * self.n_heads + fed) * self.n_layers, square]

    def draw_start(self, n_tokens: int, window: int, rng: np.random.Generator) -> list[Float64]:
        """The initial parameters, in the order of :meth:`shapes`."""
        shapes = self.shapes(n_tokens, window)
        return [rng.normal(0.0, self.start, shape) if self.start else np.zeros(shape) for shape in shapes]

    def unpack(self, numbers: Float64, *, n_tokens: int, window: int) -> DeepWeights:
        """The weights from all numbers of each trial, parameter after parameter.

        Parameters
        ----------
        numbers : float64 array, shape (n_trials, n_numbers)
            As in :attr:`DeepTrace.numbers <attomaton.training.loop.DeepTrace>`.
        n_tokens, window : int
            Sizes of the vocabulary and of the longest context.
        """
        shapes = self.shapes(n_tokens, window)
        ends = np.cumsum([rows * columns for rows, columns in shapes])
        if numbers.ndim != 2 or numbers.shape[1] != ends[-1]:
            raise UnsupportedOption(
                f"numbers have shape {numbers.shape}; this model has {ends[-1]:,} per trial"
            )
        matrices = [
            matrix.reshape(len(numbers), *shape)
            for matrix, shape in zip(np.split(numbers, ends[:-1], axis=1), shapes, strict=True)
        ]
        kinds = 3 if self.positions else 2
        every = kinds * self.n_heads + (0 if self.hidden is None else 2)
        grid = (len(numbers), self.n_layers, self.n_heads)

        def gather(kind: int) -> Float64:
            firsts = [
                every * layer + kinds * head for layer in range(self.n_layers) for head in range(self.n_heads)
            ]
            return np.stack([matrices[first + kind] for first in firsts], axis=1)

        lags = gather(1).reshape(*grid, window) if self.positions else np.zeros((*grid, window))
        square = (*grid, n_tokens, n_tokens)
        return DeepWeights(gather(0).reshape(square), lags, gather(kinds - 1).reshape(square), matrices[-1])


@dataclass(frozen=True, eq=False)
class DeepTrials:
    """The sequences of all trials as tensors; each trial has its own, all of one shape.

    In ``tokens`` (n_trials, n_sequences, window + 1) every token but the last of a sequence is a query, and
    every token but the first a label.
    """

    model: DeepModel
    tokens: Tensor
    n_tokens: int

    @property
    def device(self) -> torch.device:
        return self.tokens.device

    def recorded(self, parameters: Sequence[Tensor]) -> Tensor:
        """All parameters one after the other, shape (n_trials, n_numbers)."""
        return torch.cat([parameter.flatten(1) for parameter in parameters], dim=1)

    @property
    def window(self) -> int:
        return self.tokens.shape[2] - 1

    @cached_property
    def _lags(self) -> Tensor:
        """The distance of each key before the query, shape (window, window); undefined for later keys."""
        positions = torch.arange(self.window, device=self.tokens.device)
        return positions[:, None] - positions

    def evaluate(self, parameters: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], Callable[[], Tensor]]:
        """∇L with respect to each parameter, and the mean losses, shape (n_trials,), if called; in blocks."""
        trials, count, _ = self.tokens.shape
        size = max(BLOCK_NUMBERS // (trials * self.window * self.n_tokens), 1)
        total = torch.zeros(trials, dtype=torch.float64, device=self.tokens.device)
        summed: tuple[Tensor, ...] = ()
        for first in range(0, count, size):
            with torch.enable_grad():
                leaves = tuple(parameter.detach().requires_grad_() for parameter in parameters)
                losses = self._losses(leaves, self.tokens[:, first : first + size]) / (count * self.window)
                gradients = torch.autograd.grad(losses.sum(), leaves)
            summed = tuple(map(torch.add, summed, gradients)) if summed else gradients
            total = total + losses.detach()
        return summed, lambda: total

    def _losses(self, parameters: Sequence[Tensor], tokens: Tensor) -> Tensor:
        """The sum over positions of −ln p(label) of each trial, shape (n_trials,)."""
        stream = self.run(parameters, tokens[:, :, :-1])
        logits = _multiply(stream, parameters[-1])
        right = logits.gather(3, tokens[:, :, 1:, None])[..., 0]
        return (logits.logsumexp(3) - right).sum((1, 2))

    def run(self, parameters: Sequence[Tensor], tokens: Tensor) -> Tensor:
        """The stream after the last layer, shape (n_trials, n, t, n_tokens), for tokens (n_trials, n, t)."""
        stream = torch.nn.functional.one_hot(tokens, self.n_tokens).to(parameters[0].dtype)
        remaining, first = list(parameters), True
        for _ in range(self.model.n_layers):
            written = stream
            for _ in range(self.model.n_heads):
                weights = remaining.pop(0)
                lags = remaining.pop(0) if self.model.positions else None
                values = remaining.pop(0)
                scores = (
                    _pair_scores(weights, tokens)
                    if first
                    else _multiply(stream, weights) @ stream.transpose(2, 3)
                )
                read = _look_up_rows(values, tokens) if first else _multiply(stream, values)
                written = written + self._attend(scores, lags) @ read
            if self.model.hidden is not None:
                written = written + _multiply(
                    torch.relu(_multiply(written, remaining.pop(0))), remaining.pop(0)
                )
            stream, first = written, False
        return stream

    def _attend(self, scores: Tensor, lags: Tensor | None) -> Tensor:
        """softmax over the keys up to the query, shape (n_trials, n, t, t)."""
        distance = self._lags[: scores.shape[2], : scores.shape[2]]
        if lags is not None:
            scores = scores + lags[:, 0][:, distance.clamp(min=0)][:, None]
        return torch.softmax(scores.masked_fill(distance < 0, -torch.inf), 3)


def _multiply(stream: Tensor, matrix: Tensor) -> Tensor:
    """Each row of (b, n, t, k) times the trial's matrix (b, k, m)."""
    b, n, t, k = stream.shape
    return (stream.reshape(b, n * t, k) @ matrix).reshape(b, n, t, -1)


def _pair_scores(weights: Tensor, tokens: Tensor) -> Tensor:
    """X W Xᵀ of one-hot tokens, shape (b, n, t, t)."""
    b, n, t = tokens.shape
    pairs = tokens[..., :, None] * weights.shape[2] + tokens[..., None, :]
    return weights.flatten(1).gather(1, pairs.reshape(b, -1)).reshape(b, n, t, t)


def _look_up_rows(values: Tensor, tokens: Tensor) -> Tensor:
    """X V of one-hot tokens, shape (b, n, t, k)."""
    b, n, t = tokens.shape
    shifts = torch.arange(b, device=tokens.device)[:, None, None] * values.shape[1]
    return torch.nn.functional.embedding(tokens + shifts, values.flatten(0, 1)).reshape(b, n, t, -1)


def lay_out_sequences(model: DeepModel, sequences: Sequence[Integers], n_tokens: int) -> DeepTrials:
    """The sequences of each trial, arrays of shape (n_sequences, window + 1), as tensors."""
    tables = [
        _check_sequences(array, f"the sequences of trial {trial}") for trial, array in enumerate(sequences)
    ]
    if len({table.shape for table in tables}) != 1:
        raise InvalidSamples("the trials have sequences of different shapes; cut all to one shape")
    for trial, table in enumerate(tables):
        if table.max() >= n_tokens:
            raise InvalidSamples(
                f"the sequences of trial {trial} hold token {table.max()}, but n_tokens is {n_tokens}; "
                "give a larger n_tokens"
            )
    return DeepTrials(model, torch.as_tensor(np.stack(tables), device=model.device), n_tokens)


def _check_sequences(sequences: object, name: str) -> Int64:
    table = np.asarray(sequences)
    if table.ndim != 2 or not np.issubdtype(table.dtype, np.integer) or min(table.shape, default=0) < 1:
        raise InvalidSamples(
            f"{name} are {show(sequences)}; give whole numbers, shape (n_sequences, window + 1)"
        )
    if table.shape[1] < 2:
        raise InvalidSamples(f"{name} have {table.shape[1]} token each; give at least 2, a query and a label")
    if table.min() < 0:
        raise InvalidSamples(f"{name} hold {table.min()}; tokens must be whole numbers from 0")
    return table.astype(np.int64)
