"""The training loop: many trials in one tensor program."""

import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any, Protocol, Unpack, cast

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import (
    CorruptRun,
    InvalidSamples,
    StepBeyondEdge,
    UncertifiedSolution,
    UnsupportedOption,
)
from attomaton.base.options import MOST_STEPS, MOST_TRIALS, real_number, settle, show, whole_number
from attomaton.base.tables import Float64
from attomaton.corpora.readers.given import ReadingOptions, check_options, read_samples
from attomaton.corpora.samples import Samples
from attomaton.training.callbacks import Callback
from attomaton.training.checkpoints import (
    Checkpoint,
    Store,
    TrainingFiles,
    as_store,
    checkpoint_interval,
    open_store,
)
from attomaton.training.configuration import describe, digest_corpora, versions
from attomaton.training.models.attention import AttentionModel, Trials, lay_out
from attomaton.training.models.heads import Tied, TokenId
from attomaton.training.models.losses import LogLoss
from attomaton.training.steps import GradientDescent, Parameters, Step, as_step
from attomaton.training.trace import Record, Trace
from attomaton.trajectory.sharpness import find_passed


def describe_unstable(
    model: AttentionModel, step: Step, corpora: Sequence[Samples], tables: Sequence[Float64]
) -> str:
    """Which trials take plain steps beyond the edge of stability, in a sentence; empty if none is known to.

    The edge is known for log-loss, a head that reads the attention mass on the label, and W trained itself.
    """
    if not isinstance(step, GradientDescent) or step.normalized or step.momentum or step.schedule is not None:
        return ""
    mass_head = isinstance(model.head, TokenId | Tied)
    if not isinstance(model.loss, LogLoss) or not mass_head or model.rank is not None:
        return ""
    try:
        passed = list(find_passed(corpora, tables, step.step_size))
    except (UncertifiedSolution, UnsupportedOption):  # too large to tell, or no certain answer
        return ""
    if not passed:
        return ""
    trial, edge = min(passed, key=lambda one: one[1].largest)
    most = f" in {len(passed)} of {len(corpora)} trials (the lowest edge is that of trial {trial})"
    return f"{edge}{most if len(corpora) > 1 else ''}; take a step size below {edge.largest:.6g}"


SMALL = 200_000
"""Up to this many positions one thread is faster: threads would wait for each other at every operation."""


@dataclass(frozen=True)
class Watch:
    """When a run is recorded, and what happens at each record.

    Callbacks and the condition to stop are given the steps taken and the mean loss of each trial, shape
    (n_trials,).

    Attributes
    ----------
    callbacks : sequence of callables
        Each is called with ``(step, losses)``: ``TensorBoard(…)``, ``WandB(…)``, ``Trackio(…)`` or your own.
        A run that was killed and resumed calls again what it had recorded after its last checkpoint.
    stop : callable, optional
        ``stop(step, losses)`` ends the run with this record if it is true.
    every : int, optional
        Number of steps between records; None means 200 records in all.

    Examples
    --------
    >>> from attomaton.training.steps import GradientDescent
    >>> corpus, seen = Samples.from_lists([[0, 1]], [0]), []
    >>> note, low = lambda step, losses: seen.append(step), lambda step, losses: losses.max() < 0.1
    >>> watch = Watch([note], stop=low, every=10)
    >>> trace = train(corpus, AttentionModel(), GradientDescent(1.0), steps=1000, watch=watch)
    >>> trace.steps[-1] < 1000, seen == trace.steps.tolist()
    (np.True_, True)
    """

    callbacks: Sequence[Callback] = ()
    stop: Callable[[int, Float64], bool] | None = None
    every: int | None = None

    def __post_init__(self) -> None:
        settle(self, every=None if self.every is None else whole_number(self.every, "every", least=1))

    def interval(self, steps: int) -> int:
        """Steps from one record to the next in a run of ``steps`` steps.

        Examples
        --------
        >>> Watch().interval(4000), Watch(every=7).interval(4000)
        (20, 7)
        """
        return max(steps // 200, 1) if self.every is None else self.every


class _Options(ReadingOptions, total=False):
    """How a source is read, and a parameter of :func:`train` with another name."""

    step_size: float


def train(
    samples: Any,
    model: AttentionModel,
    step: Step | float | None = None,
    *,
    steps: int,
    trials: int | None = None,
    seed: int = 0,
    watch: Watch | None = None,
    out: Store | str | PathLike[str] | None = None,
    **options: Unpack[_Options],
) -> Trace:
    """Train one layer of attention on every trial's samples, all trials side by side.

    Parameters
    ----------
    samples : Samples, sequence of Samples, or what :func:`~attomaton.learn` reads
        One corpus for all trials, or one for each.
    model : AttentionModel
        Embeddings, head, loss; trial i draws its embeddings and W(0) from the generator (seed, i), so it is
        the same alone and among others. It also says where PyTorch computes, in doubles.
    step : Step or float
        ``GradientDescent(step_size, normalized=…, momentum=…)`` or ``Adam(step_size)``; a number is the step
        size of plain gradient descent, and ``step_size=0.5`` says the same.
    steps : int
        Number of steps.
    trials : int, optional
        Number of trials for one corpus. None means one, or one for each of the samples given.
    seed : int
        Random seed.
    watch : Watch, optional
        After how many steps to record (``Watch(every=10)``), callbacks, and a condition to stop early. None
        means 200 records and nothing else.
    out : Store or path, optional
        Keep trace and checkpoints in this run folder; ``Store(path, resume=True)`` goes on from the last
        checkpoint, with the same bits as a run that was never interrupted. Schedules, stop conditions and
        embeddings of your own classes are compared by name when a run is resumed.
    **options
        For a source that is not samples yet: ``window`` (32), ``tokenizer``, ``column``, ``documents`` and
        ``reading``, as in :func:`~attomaton.learn`.

    Warns
    -----
    StepBeyondEdge
        If plain descent on log-loss will not settle in some trial, because its step size is beyond 2/λ_max.

    Examples
    --------
    >>> from attomaton.training.models.embeddings import Orthonormal
    >>> from attomaton.training.steps import GradientDescent
    >>> corpus = Samples.from_lists([[0, 1]], [0])
    >>> trace = train(corpus, AttentionModel(Orthonormal()), GradientDescent(1.0), steps=1000)
    >>> weights = trace.at(1000)[0]
    >>> float((weights[0, 1] - weights[1, 1]).round(2))  # ln(2 η t)
    7.6
    """
    steps, seed = whole_number(steps, "steps", most=MOST_STEPS), whole_number(seed, "seed")
    step, model = chosen_step(step, options), _checked_model(model)
    watch = Watch() if watch is None else watch
    corpora = _per_trial(_read(samples, options), trials)
    every = watch.interval(steps)
    store, checkpoint_every = as_store(out), checkpoint_interval(out, steps)
    tables, starts = _draw(model, corpora, seed)
    batch = lay_out(model, corpora, tables)  # whatever is wrong is found before anything is written
    if steps and (unstable := describe_unstable(model, step, corpora, tables)):
        warnings.warn(unstable, StepBeyondEdge, stacklevel=2)
    asked = _asked(model, step, corpora, steps=steps, seed=seed, every=every, stop=watch.stop)
    with open_store(store, asked, corpora) as (files, checkpoint):
        run = TrainingRun(_OneLayer(batch), step, watch, steps, every, files, checkpoint_every)
        with use_threads(1 if batch.there.numel() <= SMALL else torch.get_num_threads()), torch.no_grad():
            records = run.go(starts, checkpoint)
        trace = Trace.from_records(records, np.stack(tables), corpora, asked)
        if files is not None:
            files.finish(trace)
    return trace


class TrainingProblem(Protocol):
    """What is trained: the gradient at some parameters, and what a record keeps of them."""

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        ...

    def evaluate(self, parameters: Parameters) -> tuple[Parameters, Tensor]:
        """The gradient by each parameter, and the mean losses, shape (n_trials,)."""
        ...

    def recorded(self, parameters: Parameters) -> Tensor:
        """The numbers of a record, shape (n_trials, …)."""
        ...


@dataclass(frozen=True, eq=False)
class _OneLayer:
    """One layer: parameters are W, or K and Q; records keep W."""

    batch: Trials

    @property
    def device(self) -> torch.device:
        return self.batch.keys.device

    def evaluate(self, parameters: Parameters) -> tuple[Parameters, Tensor]:
        gradient, losses = self.batch.gradient(combine(parameters))
        return split(parameters, gradient), losses

    def recorded(self, parameters: Parameters) -> Tensor:
        return combine(parameters)


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """The loop itself: gradient, record, move, now and then a checkpoint."""

    problem: TrainingProblem
    step: Step
    watch: Watch
    steps: int
    every: int
    files: TrainingFiles | None
    checkpoint_every: int

    def go(self, starts: Sequence[Float64], checkpoint: Checkpoint | None) -> list[Record]:
        """All records, those of the checkpoint first."""
        place = self.problem.device
        parameters = _tensors(starts, place)
        begun = Checkpoint(
            0, _arrays(parameters), _arrays(self.step.begin(parameters)), (), finished=self.steps < 0
        )
        if checkpoint is None:
            checkpoint = begun
        else:
            self._check(checkpoint, begun, self.problem.recorded(parameters).shape)
            parameters = _tensors(checkpoint.parameters, place)
        if checkpoint.finished:
            return list(checkpoint.records)
        return self._walk(parameters, _tensors(checkpoint.state, place), checkpoint)

    def _check(self, checkpoint: Checkpoint, begun: Checkpoint, shape: Sequence[int]) -> None:
        """Refuse a checkpoint that cannot be one of this run, whose weights have this shape."""
        arrays = (checkpoint.parameters + checkpoint.state, begun.parameters + begun.state)
        kinds, wanted = ([(one.shape, one.dtype) for one in some] for some in arrays)
        steps = [record.step for record in checkpoint.records]
        fits = all(record.weights.shape == tuple(shape) for record in checkpoint.records)
        rising = all(0 <= one < other for one, other in pairwise([*steps, checkpoint.step + 1]))
        if kinds != wanted or not fits or not rising or checkpoint.step > self.steps:
            raise CorruptRun(
                f"the checkpoint after step {checkpoint.step} is of another run: its arrays, records or "
                "steps do not fit; restore it, or train again without resume"
            )

    def _walk(self, parameters: Parameters, state: Parameters, begun: Checkpoint) -> list[Record]:
        records, kept, number = list(begun.records), len(begun.records), begun.step
        while True:
            gradients, losses = self.problem.evaluate(parameters)
            last = number == self.steps
            if last or number % self.every == 0:
                records.append(_record(number, self.problem.recorded(parameters), losses))
                last = self._tell(records[-1]) or last
            if last:
                self._save(number, parameters, state, records[kept:], finished=True)
                return records
            parameters, state = self.step.move(parameters, gradients, state, number)
            number += 1
            if number % self.checkpoint_every == 0 and number < self.steps:
                self._save(number, parameters, state, records[kept:], finished=False)
                kept = len(records)

    def _tell(self, record: Record) -> bool:
        """Whether the record is the last one wanted."""
        if self.files is not None:
            self.files.tell(record)
        for callback in self.watch.callbacks:
            callback(record.step, record.losses)
        return self.watch.stop is not None and bool(self.watch.stop(record.step, record.losses))

    def _save(
        self, number: int, parameters: Parameters, state: Parameters, new: Sequence[Record], *, finished: bool
    ) -> None:
        if self.files is not None:
            self.files.save(Checkpoint(number, _arrays(parameters), _arrays(state), tuple(new), finished))


def chosen_step(step: Step | float | None, options: _Options) -> Step:
    """The step, given by itself or as a step size."""
    if "step_size" not in options:
        return as_step(step)
    if step is not None:
        raise UnsupportedOption("both step and step_size are given; give one of them")
    return as_step(real_number(options["step_size"], "step_size", above=0))


def _checked_model(model: Any) -> AttentionModel:
    if not isinstance(model, AttentionModel):
        raise UnsupportedOption(
            f"model is {show(model)}; give AttentionModel(), or AttentionModel(embeddings=…) with a table"
        )
    return model


def _read(samples: Any, options: _Options) -> Samples | Sequence[Samples]:
    """The samples of each trial, or those of a source."""
    reading = cast("ReadingOptions", {name: one for name, one in options.items() if name != "step_size"})
    check_options(reading)
    listed = isinstance(samples, list | tuple) and all(
        isinstance(one, Samples) for one in cast("Sequence[Any]", samples)
    )
    return cast("Sequence[Samples]", samples) if listed else read_samples(samples, **reading)


def _asked(model: AttentionModel, step: Step, corpora: Sequence[Samples], **settings: Any) -> dict[str, Any]:
    """Everything that decides the weights, as a JSON record."""
    parts = {"model": describe(model), "step": describe(step), "samples": digest_corpora(corpora)}
    return {**parts, **{name: describe(one) for name, one in settings.items()}, "versions": versions()}


@contextmanager
def use_threads(number: int) -> Generator[None]:
    """Let PyTorch use this number of threads; afterwards it has the number it had before."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _record(number: int, weights: Tensor, losses: Tensor) -> Record:
    return Record(number, weights.cpu().numpy(), losses.cpu().numpy())


def _tensors(arrays: Sequence[Float64], device: torch.device) -> Parameters:
    """Copies in PyTorch's own memory: sums may round differently where memory is aligned differently."""
    return tuple(torch.tensor(one, device=device) for one in arrays)


def _arrays(tensors: Parameters) -> tuple[Float64, ...]:
    return tuple(one.cpu().numpy() for one in tensors)


def _per_trial(samples: Samples | Sequence[Samples], trials: int | None) -> list[Samples]:
    if isinstance(samples, Samples):
        return [samples] * (
            1 if trials is None else whole_number(trials, "trials", least=1, most=MOST_TRIALS)
        )
    if not len(samples):
        raise InvalidSamples("no corpora are given; give samples, or a list of at least one")
    if trials is not None and trials != len(samples):
        raise UnsupportedOption(
            f"{len(samples)} corpora for {trials} trials; give one for each, or one for all"
        )
    return list(samples)


def _draw(
    model: AttentionModel, corpora: Sequence[Samples], seed: int
) -> tuple[list[Float64], list[Float64]]:
    """Embeddings of every trial, each from a generator of its own, and W(0), or K(0) and Q(0), of all."""
    tables: list[Float64] = []
    starts: list[tuple[Float64, ...]] = []
    for number, corpus in enumerate(corpora):
        rng = np.random.default_rng([seed, number])
        tables.append(model.embeddings.draw(corpus.n_tokens, rng))
        starts.append(model.draw_start(tables[-1].shape[1], rng))
    return tables, [np.stack(part) for part in zip(*starts, strict=True)]


def combine(parameters: Parameters) -> Tensor:
    """W, shape (b, d, d): itself, or K Qᵀ."""
    return parameters[0] if len(parameters) == 1 else parameters[0] @ parameters[1].transpose(1, 2)


def split(parameters: Parameters, gradient: Tensor) -> Parameters:
    """The gradient by the parameters, from that by W."""
    if len(parameters) == 1:
        return (gradient,)
    keys, queries = parameters
    return gradient @ queries, gradient.transpose(1, 2) @ keys
