"""Models trained with attomaton, whose heads can be recorded: the theory's layer, and deep attention.

``watch_trace`` opens a trace, ``open_checkpoint`` a file that ``attomaton train`` wrote. Both call
``watch_weights``, which makes a ``TheoryLayer`` from attention as in the theory, and a ``Transformer`` from
deep attention.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from attomaton.base.artifacts import MANIFEST, TRAINING, read_manifest
from attomaton.base.errors import CorruptRun, MismatchedParts, UnreadableModel
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
from attomaton.training import checkpoints
from attomaton.training.models.attention import combine_factors
from attomaton.training.models.deep import DeepModel, LayerParameters, group_parameters, split_parameters
from attomaton.training.models.heads import Tied, TokenId, Untied
from attomaton.training.trace import DeepTrace, Trace


@dataclass(frozen=True, eq=False)
class TheoryLayer:
    """The theory's layer f_W(X) = Xᵀ softmax(X W x̄) with its decoder, at every position of a context.

    ``embeddings`` (n_tokens, dim) are E, ``weights`` (dim, dim) is W. With attention a over a context of
    tokens x_i, the layer writes the masses u = Σ_i a_i · decoder[x_i], one for each next token: row x of
    ``decoder`` (n_tokens, n_tokens) is what key token x writes. Logits are u / ``temperature``; without a
    temperature they are ln u, −∞ where u is zero.
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
        """The layer with O W O' for W, where O and O' are random rotations."""
        draw = make_generator(seed)
        dim = len(self.weights)
        left, right = (draw_frame(dim, dim, draw) for _ in range(2))
        name = f"{self.name} with rotated heads, seed {seed}"
        return replace(self, name=name, weights=left @ self.weights @ right)

    def watch(
        self,
        tokens: Integers | Tensor,
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
    ) -> Watched:
        """Run the layer, see :class:`~attomaton.heads.model.HeadModel`; the head outputs the masses u."""
        ids = check_contexts(tokens, self.shape)
        read = self.embeddings[ids]
        # scores[n, 0, q, k] = x_kᵀ W x_q; axis 1 is the only head
        scores = (read @ self.weights.T @ read.transpose(1, 2))[:, None]
        positions = torch.arange(ids.shape[1])
        is_later = positions > positions[:, None]
        pattern = torch.softmax(scores.masked_fill(is_later, -torch.inf), -1)
        applied = pattern
        if edit_patterns is not None:
            applied = keep_shape(edit_patterns(0, pattern), pattern, "edit_patterns")
        outputs = applied @ self.decoder[ids][:, None]
        if edit_outputs is not None:
            outputs = keep_shape(edit_outputs(0, outputs), outputs, "edit_outputs")
        return Watched(self._find_logits(outputs[:, 0]), (pattern,))

    def score_tokens(self, head: Head, queries: Integers, keys: Integers, *, lag: int = 0) -> Float64:  # noqa: ARG002
        # kᵀ W q of embeddings, shape (n_keys, n_queries); the layer has no positions
        check_head(head, self.shape)
        query_rows, key_rows = (
            self.embeddings[check_tokens(tokens, self.shape)] for tokens in (queries, keys)
        )
        return (key_rows @ self.weights @ query_rows.T).numpy()

    def project_tokens(self, layer: int, *, lag: int = 0) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Queries E Wᵀ and keys E, shape (n_tokens, 1, dim) each."""
        check_head(Head(layer, 0), self.shape)
        return (self.embeddings @ self.weights.T)[:, None], self.embeddings[:, None]

    def write_logits(self, head: Head, tokens: Integers) -> Float64:
        """What the head adds to the logits for each of n tokens: u, divided by the temperature."""
        check_head(head, self.shape)
        written = self.decoder[check_tokens(tokens, self.shape)]
        return (written if self.temperature is None else written / self.temperature).numpy()

    def _find_logits(self, masses: Tensor) -> Tensor:
        # logits from the masses u, both of shape (n, length, n_tokens)
        if self.temperature is not None:
            return masses / self.temperature
        is_positive = masses > 0
        # the inner where keeps ln 0 out of the gradient, in which 0 · ∞ would be NaN
        return torch.where(is_positive, torch.where(is_positive, masses, 1.0).log(), -torch.inf)


def watch_trace(
    trace: Trace | DeepTrace, *, trial: int = 0, step: int | None = None
) -> "TheoryLayer | Transformer":
    """The model of a trial at a recorded step of ``attomaton train``; None means the last step."""
    step = int(trace.steps[-1]) if step is None else whole_number(step, "step")
    recorded = trace.numbers if isinstance(trace, DeepTrace) else trace.weights
    return watch_weights(trace, recorded[trace.row_of(step)], step=step, trial=trial)


def watch_weights(
    trace: Trace | DeepTrace, weights: Float64, *, step: int, trial: int = 0
) -> "TheoryLayer | Transformer":
    """The model of a trial with given weights of all trials, in the form in which the trace records them."""
    trial = whole_number(trial, "trial", most=trace.n_trials - 1)
    shape = (trace.numbers if isinstance(trace, DeepTrace) else trace.weights).shape[1:]  # of one step
    if np.shape(weights) != shape:
        raise MismatchedParts(
            f"the weights have shape {np.shape(weights)}, but this run has weights of shape {shape}; give "
            "weights of this run"
        )
    moment = f"trial {trial} at step {step:,}"
    if isinstance(trace, DeepTrace):
        name = f"DeepModel, {moment}"
        return watch_deep(trace.model, weights[trial], trace.n_tokens, window=trace.window, name=name)
    table = trace.embeddings[trial]
    return watch_layer(table, weights[trial], trace.model.head, name=f"AttentionModel, {moment}")


def watch_layer(
    embeddings: Float64, weights: Float64, readout: Any = None, *, name: str = "AttentionModel"
) -> TheoryLayer:
    """The layer with embeddings (n_tokens, dim), W (dim, dim) and a readout, ``TokenId()`` by default."""
    table = torch.tensor(np.asarray(embeddings, np.float64))
    if table.ndim != 2 or np.shape(weights) != (table.shape[1],) * 2:
        raise MismatchedParts(
            f"embeddings have shape {tuple(table.shape)} and weights {np.shape(weights)}; give embeddings of "
            "shape (n_tokens, dim) and weights of shape (dim, dim)"
        )
    readout = TokenId() if readout is None else readout
    # the decoder of a readout is E Cᵀ: row x has c_y · e_x for each next token y
    if isinstance(readout, TokenId):
        decoder = torch.eye(len(table), dtype=torch.float64)
    elif isinstance(readout, Tied):  # C Eᵀ = I, so Cᵀ is the pseudoinverse of E
        decoder = table @ torch.as_tensor(np.linalg.pinv(table.numpy()))
    elif isinstance(readout, Untied):  # C = E
        decoder = table @ table.T
    else:
        raise MismatchedParts(
            f"the readout is a {type(readout).__name__}, which has no decoder; give TokenId, Tied or Untied"
        )
    temperature = None if isinstance(readout, TokenId) else readout.temperature
    return TheoryLayer(name, table, torch.tensor(np.asarray(weights, np.float64)), decoder, temperature)


def watch_deep(
    model: DeepModel, numbers: Float64, n_tokens: int, *, window: int, name: str = "DeepModel"
) -> Transformer:
    """A deep model as a :class:`Transformer`, from the numbers of a trial as ``DeepTrace`` records them."""
    matrices = split_parameters(model, np.asarray(numbers, np.float64)[None], n_tokens, window)
    layers, output = group_parameters(model, [torch.as_tensor(matrix[0]) for matrix in matrices])
    # Tokens are one-hot, so W and V act on the stream h itself: with identities as key maps, the query map W
    # gives the scores h W hᵀ, and identities as output map add the values h V of the heads.
    identity = torch.eye(n_tokens, dtype=torch.float64)

    def build(layer: LayerParameters[Tensor]) -> Layer:
        lags = [head.positions for head in layer.heads if head.positions is not None]
        attention = AttentionMaps(
            query=Linear(torch.cat([head.attention for head in layer.heads], 1)),
            key=Linear(identity.repeat(1, model.n_heads)),
            value=Linear(torch.cat([head.values for head in layer.heads], 1)),
            output=Linear(identity.repeat(model.n_heads, 1)),
            scale=1.0,
            lag_biases=torch.cat(lags) if lags else None,
        )
        if layer.feed_forward is None:
            return Layer(attention)
        into, out = layer.feed_forward
        return Layer(attention, feed=FeedForward(Linear(into), Linear(out), "relu"))

    return Transformer(
        name,
        n_heads=model.n_heads,
        n_groups=model.n_heads,
        embedding=identity,
        layers=tuple(map(build, layers)),
        decoder=Linear(output),
        longest=window if model.positions else None,
        dtype=torch.float64,
    )


def is_run(folder: Path) -> bool:
    # a run folder of attomaton, with or without a training; a config.json means a model of another library
    if (folder / "config.json").exists():
        return False
    return (folder / checkpoints.TRAINING_FOLDER).is_dir() or (folder / MANIFEST).is_file()


def read_any_trace(folder: str | PathLike[str]) -> Trace | DeepTrace:
    # the trace in a run folder; the manifest of the training names its model, and so the kind of the trace
    training = Path(folder) / checkpoints.TRAINING_FOLDER
    if (training / checkpoints.TRACE_FILE).is_file():
        settings = read_manifest(training, TRAINING).get("settings")
        model = cast("dict[str, object]", settings).get("model") if isinstance(settings, dict) else None
        kind = cast("dict[str, object]", model).get("kind") if isinstance(model, dict) else None
        if kind == "DeepModel":
            return DeepTrace.load(training / checkpoints.TRACE_FILE)
    return checkpoints.read_trace(folder if isinstance(folder, str) else Path(folder))


def open_checkpoint(
    file: str | PathLike[str], *, read: Callable[[Path], Trace | DeepTrace] = read_any_trace
) -> "TheoryLayer | Transformer":
    """The first trial of a run at the step of a checkpoint; ``read`` returns the trace of the run folder."""
    path = Path(file).absolute()
    if path.parent.name != checkpoints.CHECKPOINTS or path.parent.parent.name != checkpoints.TRAINING_FOLDER:
        raise UnreadableModel(
            f"{file} is a file; give a folder with config.json and safetensors files, or a checkpoint "
            "RUN/training/checkpoints/STEP.safetensors of attomaton"
        )
    trace = read(path.parents[2])  # RUN
    checkpoint = checkpoints.read_checkpoint(path)
    parameters = [torch.as_tensor(parameter) for parameter in checkpoint.parameters]
    if not parameters:
        raise CorruptRun(f"{file} contains no parameters; restore it, or train again")
    try:
        if isinstance(trace, DeepTrace):
            weights = torch.cat([parameter.flatten(1) for parameter in parameters], 1)
        else:
            weights = combine_factors(parameters)
    except (RuntimeError, IndexError, ValueError) as error:
        raise CorruptRun(
            f"the shapes of the parameters in {file} do not fit; restore the file, or train again"
        ) from error
    return watch_weights(trace, cast("Float64", weights.numpy()), step=checkpoint.step)
