"""Training of deep attention-only models: the loop of :mod:`attomaton.training.loop` over other gradients."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from attomaton.base.artifacts import digest_arrays
from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.options import MOST_STEPS, show, whole_number
from attomaton.base.tables import Float64, Integers
from attomaton.training.checkpoints import Store
from attomaton.training.configuration import describe, versions
from attomaton.training.deep_trace import DeepTrace
from attomaton.training.loop import TrainingRun, Watch, as_store, checkpoint_interval, open_store, use_threads
from attomaton.training.models.deep import DeepModel, DeepTrials, lay_out_sequences
from attomaton.training.steps import Parameters, Step, as_step

SMALL = 400_000
"""Up to this many numbers in an activation one thread is faster."""


def train_deep(
    sequences: Integers | Sequence[Integers],
    model: DeepModel | None = None,
    step: Step | float = 1.0,
    *,
    steps: int,
    n_tokens: int | None = None,
    watch: Watch | None = None,
    out: Store | str | PathLike[str] | None = None,
    seed: int = 0,
) -> DeepTrace:
    """Train layers of attention with values, positions and a decoder on every trial's sequences.

    The loss is the mean of −ln p(next token) over all positions of all sequences, and each step takes all of
    them. Trials are trained side by side.

    Parameters
    ----------
    sequences : int array, shape (n_sequences, window + 1), or sequence of such arrays
        One corpus, or one for each trial, all of one shape; a corpus that is listed several times is trained
        from several starts.
    model : DeepModel, optional
        Layers, heads, start; one layer and one head from zero if not given.
    step : Step or float
        ``GradientDescent(step_size, …)``, ``Adam(step_size)`` or another step; a number is the step size of
        plain gradient descent.
    steps : int
        Number of steps.
    n_tokens : int, optional
        Size of the vocabulary; one more than the largest token if not given.
    watch : Watch, optional
        After how many steps to record, callbacks, and a condition to stop early. A record holds all weights.
    out : Store or path, optional
        Keep trace and checkpoints in this run folder; ``Store(path, resume=True)`` goes on from the last
        checkpoint, with the same bits as a run that was never interrupted.
    seed : int
        Trial i draws its start from the generator (seed, i).

    Examples
    --------
    >>> from attomaton.training.models.deep import DeepModel
    >>> sequences = np.array([[0, 1, 2, 0, 1], [2, 0, 1, 2, 0]])
    >>> trace = train_deep(sequences, DeepModel(n_layers=2), 1.0, steps=20)
    >>> trace.losses[[0, -1], 0].round(2).tolist()
    [1.1, 0.02]
    >>> trace.at(20).output[0].argmax(axis=1).tolist()  # what follows each token
    [1, 2, 0]
    """
    model = DeepModel() if model is None else _checked(model)
    corpora = _per_trial(sequences)
    size = _n_tokens(corpora, n_tokens)
    batch = lay_out_sequences(model, corpora, size)
    steps, watch = whole_number(steps, "steps", most=MOST_STEPS), Watch() if watch is None else watch
    chosen, seed, every = as_step(step), whole_number(seed, "seed"), watch.interval(steps)
    starts = _draw(batch, seed)
    tokens = batch.tokens.cpu().numpy()
    asked = {
        "model": describe(model),
        "step": describe(chosen),
        "sequences": digest_arrays(tokens),
        "n_tokens": size,
        "steps": steps,
        "seed": seed,
        "every": every,
        "stop": describe(watch.stop),
        "versions": versions(),
    }
    with open_store(as_store(out), asked, ()) as (files, checkpoint):
        run = TrainingRun(_Deep(batch), chosen, watch, steps, every, files, checkpoint_interval(out, steps))
        small = tokens[..., :-1].size * size <= SMALL
        with use_threads(1 if small else torch.get_num_threads()), torch.no_grad():
            records = run.go(starts, checkpoint)
        trace = DeepTrace.from_records(records, tokens, size, asked)
        if files is not None:
            files.finish(trace)
    return trace


@dataclass(frozen=True, eq=False)
class _Deep:
    """A deep model as the loop sees it: a record keeps every parameter."""

    batch: DeepTrials

    @property
    def device(self) -> torch.device:
        return self.batch.tokens.device

    def evaluate(self, parameters: Parameters) -> tuple[Parameters, Tensor]:
        return self.batch.gradient(parameters)

    def recorded(self, parameters: Parameters) -> Tensor:
        return torch.cat([one.flatten(1) for one in parameters], dim=1)


def _n_tokens(corpora: Sequence[Integers], asked: int | None) -> int:
    """The size of the vocabulary; one more than the largest token if none is asked for."""
    if asked is not None:
        return whole_number(asked, "n_tokens", least=1)
    return max(int(np.max(one, initial=0)) for one in corpora) + 1


def _draw(batch: DeepTrials, seed: int) -> list[Float64]:
    """The parameters of all trials at the start; each trial draws from a generator of its own."""
    rngs = [np.random.default_rng([seed, trial]) for trial in range(len(batch.tokens))]
    drawn = [batch.model.draw_start(batch.n_tokens, batch.window, rng) for rng in rngs]
    return [np.stack(one) for one in zip(*drawn, strict=True)]


def _checked(model: Any) -> DeepModel:
    if not isinstance(model, DeepModel):
        raise UnsupportedOption(f"model is {show(model)}; give DeepModel(n_layers=2) or similar")
    return model


def _per_trial(sequences: Any) -> list[Integers]:
    """The arrays of a list, or the one that is given itself."""
    listed = isinstance(sequences, list | tuple | np.ndarray)
    given = list(cast("Sequence[Any]", sequences)) if listed else []
    depths = {np.ndim(one) for one in given}
    if depths == {1}:
        return [np.asarray(given)]
    if depths != {2}:
        told = show(cast("object", sequences))
        raise InvalidSamples(
            f"sequences are {told}; give an array of whole numbers, shape (n_sequences, window + 1), or a "
            "list of one such array for each trial"
        )
    return [np.asarray(one) for one in given]
