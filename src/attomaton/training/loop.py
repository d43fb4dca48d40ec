"""The training loop: many trials in one tensor program."""

import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike
from typing import Any, Protocol, TypeVar, Unpack, cast

import numpy as np
import torch
from torch import Tensor

from attomaton.base.artifacts import digest_arrays
from attomaton.base.errors import (
    CorruptRun,
    InvalidSamples,
    StepBeyondEdge,
    UncertifiedSolution,
    UnsupportedOption,
)
from attomaton.base.options import (
    MOST_TRAINING_STEPS,
    MOST_TRIALS,
    Checked,
    checked,
    real_number,
    show,
    whole_number,
)
from attomaton.base.tables import Float64, Integers
from attomaton.corpora.readers.corpus import ReadingOptions, check_options, read_samples
from attomaton.corpora.samples import Samples
from attomaton.training.callbacks import Callback
from attomaton.training.checkpoints import Checkpoint, Store, TrainingFiles, open_training
from attomaton.training.configuration import describe, digest_corpora, versions
from attomaton.training.models.attention import AttentionModel, lay_out
from attomaton.training.models.deep import DeepModel, lay_out_sequences
from attomaton.training.models.heads import reads_mass
from attomaton.training.models.losses import LogLoss
from attomaton.training.steps import GradientDescent, Parameters, Step, as_step
from attomaton.training.trace import DeepTrace, StepRecord, Trace
from attomaton.trajectory.sharpness import find_passed

AnyTrace = TypeVar("AnyTrace", Trace, DeepTrace)


def describe_unstable(
    model: AttentionModel, step: Step, corpora: Sequence[Samples], tables: Sequence[Float64]
) -> str:
    """A sentence on trials whose plain gradient steps exceed the edge of stability; empty if none known.

    The edge is known for log-loss, a head that reads the attention mass on the label, and unfactored W.
    """
    if not isinstance(step, GradientDescent) or step.normalized or step.momentum or step.schedule is not None:
        return ""
    mass_head = reads_mass(model.head)
    if not isinstance(model.loss, LogLoss) or not mass_head or model.rank is not None:
        return ""
    try:
        passed = list(find_passed(corpora, tables, step.step_size))
    except (UncertifiedSolution, UnsupportedOption):  # too large, or not certified
        return ""
    if not passed:
        return ""
    trial, edge = min(passed, key=lambda pair: pair[1].largest)
    most = (
        f" in {len(passed)} of {len(corpora)} trials (the smallest stability limit is that of trial {trial})"
    )
    return f"{edge}{most if len(corpora) > 1 else ''}; choose a step size below {edge.largest:.6g}"


SMALL_BATCH, SMALL_DEEP = 200_000, 400_000
"""Up to this many positions, or numbers in a deep activation, one thread is faster than several."""


@dataclass(frozen=True)
class Watch(Checked):
    """When a run is recorded, and what happens at each record.

    Callbacks and the stop condition receive the number of steps and the mean loss of each trial, shape
    (n_trials,).

    Attributes
    ----------
    callbacks : sequence of callables
        Each is called with ``(step, losses)``: ``TensorBoard(…)``, ``WandB(…)``, ``Trackio(…)`` or your own.
        A resumed run repeats the calls for records after its last checkpoint.
    stop : callable, optional
        The run ends with this record if ``stop(step, losses)`` is true.
    every : int, optional
        Steps between records; None means 200 records in total.

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
    every: int | None = field(default=None, metadata=checked(whole_number, least=1))

    def interval(self, steps: int) -> int:
        """Steps between records in a run of ``steps`` steps."""
        return max(steps // 200, 1) if self.every is None else self.every


class _Options(ReadingOptions, total=False):
    """Options for reading a source, and an alias of a parameter of :func:`train`."""

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
    """Train one layer of attention on the samples of every trial, all trials in parallel.

    Parameters
    ----------
    samples : Samples, sequence of Samples, or any source that :func:`~attomaton.learn` reads
        One corpus for all trials, or one per trial.
    model : AttentionModel
        Embeddings, head, loss; trial i draws its embeddings and W(0) from the generator (seed, i), so its
        result depends on the other trials by rounding only. It also sets PyTorch's device; all numbers are
        float64.
    step : Step or float
        ``GradientDescent(step_size, normalized=…, momentum=…)`` or ``Adam(step_size)``; a number is the step
        size of plain gradient descent, as is ``step_size=0.5``.
    steps : int
        Number of steps.
    trials : int, optional
        Number of trials for one corpus. None means 1.
    seed : int
        Random seed.
    watch : Watch, optional
        Steps between records (``Watch(every=10)``), callbacks, and a condition to stop early. None
        means 200 records and nothing else.
    out : Store or path, optional
        Store trace and checkpoints in this run folder; ``Store(path, resume=True)`` resumes from the last
        checkpoint, bit for bit like a run that was never interrupted. Schedules, stop conditions and
        embeddings of your own classes are compared by name when a run is resumed.
    **options
        For a source other than samples: ``window`` (32), ``tokenizer`` and ``reading``, as in
        :func:`~attomaton.learn`.

    Warns
    -----
    StepBeyondEdge
        If plain gradient descent on log-loss will not converge in some trial: its step size is above 2/λ_max.

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
    run, seed = TrainingRun.of(steps, _chosen_step(step, options), watch, out), whole_number(seed, "seed")
    if not isinstance(cast("Any", model), AttentionModel):
        raise UnsupportedOption(
            f"model is {show(model)}; give AttentionModel(), or AttentionModel(embeddings=…) with a table"
        )
    corpora = _corpora_of_trials(samples, trials, options)
    rngs = [np.random.default_rng([seed, trial]) for trial in range(len(corpora))]
    tables = [model.embeddings.draw(corpus.n_tokens, rng) for corpus, rng in zip(corpora, rngs, strict=True)]
    starts = [model.draw_start(table.shape[1], rng) for table, rng in zip(tables, rngs, strict=True)]
    batch = lay_out(model, corpora, tables)  # errors are raised before anything is written
    if run.steps and (unstable := describe_unstable(model, run.step, corpora, tables)):
        warnings.warn(unstable, StepBeyondEdge, stacklevel=2)
    settings = run.describe(model, seed, samples=digest_corpora(corpora))
    return run.go(
        batch,
        starts,
        settings,
        lambda records: Trace.from_records(records, np.stack(tables), corpora, settings),
        corpora=corpora,
        threads=1 if batch.filled.numel() <= SMALL_BATCH else torch.get_num_threads(),
    )


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
    """Train layers of attention with values, positions and a decoder on the sequences of every trial.

    The loss is the mean of −ln p(next token) over all positions of all sequences; each step uses all of
    them. Trials are trained in parallel.

    Parameters
    ----------
    sequences : int array, shape (n_sequences, window + 1), or sequence of such arrays
        One corpus, or one per trial, all of the same shape; a corpus that is listed several times is trained
        from several initial weights.
    model : DeepModel, optional
        Layers, heads, initial weights. None means one layer with one head, starting from zero.
    step : Step or float
        ``GradientDescent(step_size, …)``, ``Adam(step_size)`` or another step; a number is the step size of
        plain gradient descent.
    steps : int
        Number of steps.
    n_tokens : int, optional
        Size of the vocabulary. None means one more than the largest token.
    watch : Watch, optional
        Steps between records, callbacks, and a condition to stop early. A record holds all weights.
    out : Store or path, optional
        Store trace and checkpoints in this run folder; ``Store(path, resume=True)`` resumes from the last
        checkpoint, bit for bit like a run that was never interrupted.
    seed : int
        Trial i draws its initial weights from the generator (seed, i).

    Examples
    --------
    >>> from attomaton.training.models.deep import DeepModel
    >>> sequences = np.array([[0, 1, 2, 0, 1], [2, 0, 1, 2, 0]])
    >>> trace = train_deep(sequences, DeepModel(n_layers=2), 1.0, steps=20)
    >>> trace.losses[[0, -1], 0].round(2).tolist()
    [1.1, 0.02]
    >>> trace.at(20).output[0].argmax(axis=1).tolist()  # the successor of each token
    [1, 2, 0]
    """
    model = DeepModel() if model is None else model
    if not isinstance(cast("Any", model), DeepModel):
        raise UnsupportedOption(f"model is {show(model)}; give DeepModel(n_layers=2) or similar")
    corpora = _sequences_of_trials(sequences)
    if n_tokens is None:
        size = max(int(np.max(rows, initial=0)) for rows in corpora) + 1
    else:
        size = whole_number(n_tokens, "n_tokens", least=1)
    batch = lay_out_sequences(model, corpora, size)
    run, seed = TrainingRun.of(steps, as_step(step), watch, out), whole_number(seed, "seed")
    rngs = [np.random.default_rng([seed, trial]) for trial in range(len(corpora))]
    starts = [model.draw_start(size, batch.window, rng) for rng in rngs]
    tokens = batch.tokens.cpu().numpy()
    settings = run.describe(model, seed, sequences=digest_arrays(tokens), n_tokens=size)
    small = tokens[..., :-1].size * size <= SMALL_DEEP
    return run.go(
        batch,
        starts,
        settings,
        lambda records: DeepTrace.from_records(records, tokens, size, settings),
        threads=1 if small else torch.get_num_threads(),
    )


class TrainingProblem(Protocol):
    """The problem to train: the gradient at given parameters, and the recorded ones."""

    @property
    def device(self) -> torch.device: ...

    def evaluate(self, parameters: Parameters) -> tuple[Parameters, Callable[[], Tensor]]:
        """The gradient by each parameter, and a function that computes the mean losses, shape (n_trials,)."""
        ...

    def recorded(self, parameters: Parameters) -> Tensor:
        """The numbers of a record, shape (n_trials, …)."""
        ...


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """The loop: gradient, record, move, and a checkpoint at intervals."""

    steps: int
    step: Step
    watch: Watch
    every: int
    store: Store | None

    @classmethod
    def of(
        cls, steps: int, step: Step, watch: Watch | None, out: Store | str | PathLike[str] | None
    ) -> "TrainingRun":
        """The run defined by these parameters of ``train``."""
        steps, watch = (
            whole_number(steps, "steps", most=MOST_TRAINING_STEPS),
            Watch() if watch is None else watch,
        )
        return cls(steps, step, watch, watch.interval(steps), Store.of(out))

    def describe(self, model: object, seed: int, **corpora: Any) -> dict[str, Any]:
        """Everything that determines the weights, as a JSON record."""
        return {
            "model": describe(model),
            "step": describe(self.step),
            **corpora,
            "steps": self.steps,
            "seed": seed,
            "every": self.every,
            "stop": describe(self.watch.stop),
            "versions": versions(),
        }

    def go(
        self,
        problem: TrainingProblem,
        starts: Sequence[Sequence[Float64]],
        settings: dict[str, Any],
        assemble: Callable[[list[StepRecord]], AnyTrace],
        *,
        corpora: Sequence[Samples] = (),
        threads: int,
    ) -> AnyTrace:
        """Train from the initial weights of all trials, or from the last checkpoint, and store the trace."""
        stacked = [np.stack(arrays) for arrays in zip(*starts, strict=True)]
        with open_training(self.store, settings, corpora) as (files, checkpoint):
            with _use_threads(threads), torch.no_grad():
                records = self._resume(problem, stacked, files, checkpoint)
            trace = assemble(records)
            if files is not None:
                files.finish(trace)
        return trace

    def _resume(
        self,
        problem: TrainingProblem,
        starts: Sequence[Float64],
        files: TrainingFiles | None,
        checkpoint: Checkpoint | None,
    ) -> list[StepRecord]:
        """All records, those of the checkpoint first."""
        parameters = _tensors(starts, problem.device)
        first = Checkpoint(0, _arrays(parameters), _arrays(self.step.begin(parameters)), (), finished=False)
        if checkpoint is None:
            checkpoint = first
        else:
            self._check(checkpoint, first, problem.recorded(parameters).shape)
        if checkpoint.finished:
            return list(checkpoint.records)
        return self._walk(problem, files, checkpoint)

    def _check(self, checkpoint: Checkpoint, first: Checkpoint, shape: Sequence[int]) -> None:
        """Refuse a checkpoint that cannot belong to this run, whose weights have this shape."""
        arrays = (checkpoint.parameters + checkpoint.state, first.parameters + first.state)
        kinds, expected = ([(array.shape, array.dtype) for array in state] for state in arrays)
        steps = [record.step for record in checkpoint.records]
        fits = all(record.weights.shape == tuple(shape) for record in checkpoint.records)
        rising = all(0 <= before < after for before, after in pairwise([*steps, checkpoint.step + 1]))
        if kinds != expected or not fits or not rising or checkpoint.step > self.steps:
            raise CorruptRun(
                f"the checkpoint after step {checkpoint.step} belongs to another run: its arrays, records or "
                "steps do not match; restore it, or train again without resume"
            )

    def _walk(
        self, problem: TrainingProblem, files: TrainingFiles | None, checkpoint: Checkpoint
    ) -> list[StepRecord]:
        parameters, state = (
            _tensors(arrays, problem.device) for arrays in (checkpoint.parameters, checkpoint.state)
        )
        records, n_saved, number = list(checkpoint.records), len(checkpoint.records), checkpoint.step
        save_every = max(self.steps // 20, 1) if self.store is None else self.store.interval(self.steps)
        while True:
            gradients, find_losses = problem.evaluate(parameters)
            last = number == self.steps
            if last or number % self.every == 0:
                weights = problem.recorded(parameters).cpu().numpy()
                records.append(StepRecord(number, weights, find_losses().cpu().numpy()))
                last = self._tell(records[-1], files) or last
            if not last:
                parameters, state = self.step.move(parameters, gradients, state, number)
                number += 1
            due = number % save_every == 0 and number < self.steps
            if files is not None and (last or due):
                new = tuple(records[n_saved:])
                files.save(Checkpoint(number, _arrays(parameters), _arrays(state), new, finished=last))
                n_saved = len(records)
            if last:
                return records

    def _tell(self, record: StepRecord, files: TrainingFiles | None) -> bool:
        """Pass on a record; true if the stop condition is met."""
        if files is not None:
            files.tell(record)
        for callback in self.watch.callbacks:
            callback(record.step, record.losses)
        return self.watch.stop is not None and bool(self.watch.stop(record.step, record.losses))


def _chosen_step(step: Step | float | None, options: _Options) -> Step:
    """The step, given as such or as a step size."""
    if "step_size" not in options:
        return as_step(step)
    if step is not None:
        raise UnsupportedOption("both step and step_size are given; give one of them")
    return as_step(real_number(options["step_size"], "step_size", above=0))


def _corpora_of_trials(samples: Any, trials: int | None, options: _Options) -> list[Samples]:
    """The samples of each trial: those listed, or those of one source for all."""
    reading = cast("ReadingOptions", {name: value for name, value in options.items() if name != "step_size"})
    check_options(reading)
    listed = isinstance(samples, list | tuple)
    corpora: list[Any] = list(cast("Sequence[Any]", samples)) if listed else [None]
    if not all(isinstance(corpus, Samples) for corpus in corpora):
        n_trials = 1 if trials is None else whole_number(trials, "trials", least=1, most=MOST_TRIALS)
        return [read_samples(samples, **reading)] * n_trials
    if not corpora:
        raise InvalidSamples("the list of corpora is empty; give one Samples, or a list of at least one")
    if trials is not None and trials != len(corpora):
        raise UnsupportedOption(
            f"{len(corpora)} corpora for {trials} trials; give one per trial, or one for all"
        )
    return corpora


def _sequences_of_trials(sequences: Any) -> list[Integers]:
    listed = isinstance(sequences, list | tuple | np.ndarray)
    rows = list(cast("Sequence[Any]", sequences)) if listed else []
    depths = {np.ndim(row) for row in rows}
    if depths == {1}:
        return [np.asarray(rows)]
    if depths != {2}:
        raise InvalidSamples(
            f"sequences are {show(cast('object', sequences))}; give an array of whole numbers, shape "
            "(n_sequences, window + 1), or a list with one such array per trial"
        )
    return [np.asarray(row) for row in rows]


@contextmanager
def _use_threads(number: int) -> Generator[None]:
    """Let PyTorch use this number of threads, and restore the previous number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tensors(arrays: Sequence[Float64], device: torch.device) -> Parameters:
    """Copies in memory allocated by PyTorch: sums may round differently under another alignment."""
    return tuple(torch.tensor(array, device=device) for array in arrays)


def _arrays(tensors: Parameters) -> tuple[Float64, ...]:
    return tuple(tensor.cpu().numpy() for tensor in tensors)
