"""attomaton's own trained models as ``HeadModel``: the theory's layer, and deep attention."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import MismatchedParts
from attomaton.base.options import whole_number
from attomaton.base.tables import Float64, Integers
from attomaton.heads.model import (
    Head,
    ModelShape,
    OutputEdit,
    PatternEdit,
    Watched,
    check_contexts,
    check_head,
    check_tokens,
    keep_shape,
)
from attomaton.heads.parts import AttentionMaps, FeedForward, Layer, Linear
from attomaton.heads.rotations import draw_frame, make_generator
from attomaton.heads.transformer import Transformer
from attomaton.training.models.deep import DeepModel
from attomaton.training.models.heads import Tied, TokenId, Untied
from attomaton.training.trace import DeepTrace, Trace


@dataclass(frozen=True, eq=False)
class TheoryLayer:
    """The theory's layer f_W(X) = Xᵀ softmax(X W x̄) with its decoder, at every position of a context.

    Logits are ln u, where u is the value that the layer's head gives to each token (for the token-id head,
    the attention mass on it), and −∞ if u is zero. With ``Untied(temperature)`` they are E f / temperature.

    Attributes
    ----------
    name : str
        What it is called.
    embeddings : Tensor, shape (n_tokens, dim)
        E.
    weights : Tensor, shape (dim, dim)
        W.
    decoder : Tensor, shape (n_tokens, dim)
        What each token writes, one row per key token: u = Σ a_i · decoder[x_i].
    temperature : float, optional
        The temperature of the softmax; None means that u is a mass.
    """

    name: str
    embeddings: Tensor = field(repr=False)
    weights: Tensor = field(repr=False)
    decoder: Tensor = field(repr=False)
    temperature: float | None = None

    @property
    def shape(self) -> ModelShape:
        return ModelShape(1, 1, len(self.embeddings))

    def rotate(self, *, seed: int) -> "TheoryLayer":
        """The layer with O W O' for W: embeddings are read, which no head writes to."""
        draw, size = make_generator(seed), len(self.weights)
        left, right = (draw_frame(size, size, draw) for _ in range(2))
        name = f"{self.name} with rotated heads, seed {seed}"
        return replace(self, name=name, weights=left @ self.weights @ right)

    def watch(
        self,
        tokens: Integers | Tensor,
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
    ) -> Watched:
        """Run the layer on contexts, see :class:`~attomaton.heads.model.HeadModel`; outputs are u."""
        ids = check_contexts(tokens, self.shape)
        read = self.embeddings[ids]
        scores = (read @ self.weights.T @ read.transpose(1, 2))[:, None]
        positions = torch.arange(ids.shape[1])
        pattern = torch.softmax(scores.masked_fill(positions > positions[:, None], -torch.inf), -1)
        used = pattern
        if edit_patterns is not None:
            used = keep_shape(edit_patterns(0, pattern), pattern, "edit_patterns")
        outputs = used @ self.decoder[ids][:, None]
        if edit_outputs is not None:
            outputs = keep_shape(edit_outputs(0, outputs), outputs, "edit_outputs")
        return Watched(self._logits(outputs[:, 0]), (pattern,))

    def score_tokens(self, head: Head, queries: Integers, keys: Integers, *, lag: int = 0) -> Float64:  # noqa: ARG002
        """E_keys W E_queriesᵀ, shape (n_keys, n_queries); there are no positions."""
        check_head(head, self.shape)
        of_queries, of_keys = (
            self.embeddings[check_tokens(tokens, self.shape)] for tokens in (queries, keys)
        )
        return (of_keys @ self.weights @ of_queries.T).numpy()

    def project_tokens(self, layer: int, *, lag: int = 0) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Queries E Wᵀ and keys E, shape (n_tokens, 1, dim) each."""
        check_head(Head(layer, 0), self.shape)
        return (self.embeddings @ self.weights.T)[:, None], self.embeddings[:, None]

    def write_logits(self, head: Head, tokens: Integers) -> Float64:
        """What each token alone gives u, shape (n, n_tokens); divided by the temperature if there is one."""
        check_head(head, self.shape)
        written = self.decoder[check_tokens(tokens, self.shape)]
        return (written if self.temperature is None else written / self.temperature).numpy()

    def _logits(self, masses: Tensor) -> Tensor:
        if self.temperature is not None:
            return masses / self.temperature
        is_positive = masses > 0
        return torch.where(is_positive, torch.where(is_positive, masses, 1.0).log(), -torch.inf)


def watch_trace(
    trace: Trace | DeepTrace, *, trial: int = 0, step: int | None = None
) -> "TheoryLayer | Transformer":
    """A training run of attomaton as a model whose heads can be recorded."""
    step = int(trace.steps[-1]) if step is None else whole_number(step, "step")
    recorded = trace.numbers if isinstance(trace, DeepTrace) else trace.weights
    return watch_weights(trace, recorded[trace.row_of(step)], step=step, trial=trial)


def watch_weights(
    trace: Trace | DeepTrace, weights: Float64, *, step: int, trial: int = 0
) -> "TheoryLayer | Transformer":
    """A training run of attomaton with given weights, as a model whose heads can be recorded."""
    trial = whole_number(trial, "trial", most=trace.n_trials - 1)
    shape = (trace.numbers if isinstance(trace, DeepTrace) else trace.weights).shape[1:]
    if np.shape(weights) != shape:
        raise MismatchedParts(
            f"weights have shape {np.shape(weights)}, but those of this run {shape}; give weights of this run"
        )
    moment = f"trial {trial} at step {step:,}"
    if isinstance(trace, DeepTrace):
        n_tokens, window = trace.n_tokens, trace.window
        return watch_deep(trace.model, weights[trial], n_tokens, window=window, name=f"DeepModel, {moment}")
    table = trace.embeddings[trial]
    return watch_layer(table, weights[trial], trace.model.head, name=f"AttentionModel, {moment}")


def watch_layer(
    embeddings: Float64, weights: Float64, head: Any = None, *, name: str = "AttentionModel"
) -> TheoryLayer:
    """The theory's layer with embeddings, weights and head (default ``TokenId()``) as a ``HeadModel``."""
    table = torch.tensor(np.asarray(embeddings, np.float64))
    if table.ndim != 2 or np.shape(weights) != (table.shape[1],) * 2:
        raise MismatchedParts(
            f"embeddings have shape {tuple(table.shape)} and weights {np.shape(weights)}; give "
            "(n_tokens, dim) and (dim, dim)"
        )
    head = TokenId() if head is None else head
    temperature = None
    if isinstance(head, TokenId):
        written = torch.eye(len(table), dtype=torch.float64)
    elif isinstance(head, Tied):
        written = table @ torch.as_tensor(np.linalg.pinv(table.numpy()))
        temperature = head.temperature
    elif isinstance(head, Untied):
        written, temperature = table @ table.T, head.temperature
    else:
        raise MismatchedParts(f"unknown head type {type(head).__name__}; give one of models.heads")
    return TheoryLayer(name, table, torch.tensor(np.asarray(weights, np.float64)), written, temperature)


def watch_deep(
    model: DeepModel, numbers: Float64, n_tokens: int, *, window: int, name: str = "DeepModel"
) -> Transformer:
    """A deep attention model as a ``HeadModel``, from all its weights in a row, as ``DeepTrace`` has them."""
    shapes = model.shapes(n_tokens, window)
    parameters = model.unpack(np.asarray(numbers, np.float64)[None], n_tokens=n_tokens, window=window)
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    matrices = [flat.reshape(shape) for flat, shape in zip(np.split(numbers, ends[:-1]), shapes, strict=True)]
    every = (len(shapes) - 1) // model.n_layers
    same = torch.eye(n_tokens, dtype=torch.float64)
    alike = Linear(same.repeat(1, model.n_heads))

    def layer(number: int) -> Layer:
        query, read = (
            Linear(torch.as_tensor(np.concatenate(list(stacked[0, number]), axis=1)))
            for stacked in (parameters.attention, parameters.values)
        )
        lags = torch.as_tensor(parameters.positions[0, number]) if model.positions else None
        feed = None
        if model.hidden is not None:
            into, out = (
                torch.as_tensor(matrix)
                for matrix in matrices[every * (number + 1) - 2 : every * (number + 1)]
            )
            feed = FeedForward(Linear(into), Linear(out), "relu")
        output = Linear(same.repeat(model.n_heads, 1))
        return Layer(AttentionMaps(query, alike, read, output, 1.0, lags), feed=feed)

    layers = tuple(layer(number) for number in range(model.n_layers))
    longest = window if model.positions else None
    decoder = Linear(torch.as_tensor(parameters.output[0]))
    heads = model.n_heads
    return Transformer(name, heads, heads, same, layers, decoder, longest=longest, dtype=torch.float64)
