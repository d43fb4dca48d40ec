"""The training loop: gradient, record, step, and a checkpoint at intervals."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from attomaton.base.errors import CorruptRun
from attomaton.base.options import MOST_TRAINING_STEPS, whole_number
from attomaton.base.tables import Float64
from attomaton.corpora.samples import Samples
from attomaton.training.callbacks import Watch
from attomaton.training.checkpoints import Checkpoint, Store, TrainingFiles, open_training
from attomaton.training.configuration import describe, versions
from attomaton.training.steps import Parameters, Step
from attomaton.training.trace import DeepTrace, StepRecord, Trace

AnyTrace = TypeVar("AnyTrace", Trace, DeepTrace)


class TrainingProblem(Protocol):
    """What is trained: it gives the gradient at parameters, and the numbers that a record stores."""

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
    """How many steps are taken by which rule, when they are recorded, and where the run is stored."""

    n_steps: int
    step: Step
    watch: Watch
    store: Store | None

    @classmethod
    def of(cls, steps: int, step: Step, watch: Watch | None, out: Store | str | PathLike[str] | None) -> Self:
        """The run from the arguments of `train`, which are checked."""
        n_steps = whole_number(steps, "steps", most=MOST_TRAINING_STEPS)
        return cls(n_steps, step, Watch() if watch is None else watch, Store.of(out))

    def describe(self, model: object, seed: int, **corpora: Any) -> dict[str, Any]:
        """Everything that determines the weights, as a JSON record."""
        return {
            "model": describe(model),
            "step": describe(self.step),
            **corpora,
            "steps": self.n_steps,
            "seed": seed,
            "every": self.watch.interval(self.n_steps),
            "stop": describe(self.watch.stop),
            "versions": versions(),
        }

    def train(
        self,
        problem: TrainingProblem,
        starts: Sequence[Sequence[Float64]],
        settings: dict[str, Any],  # what `describe` returned
        assemble: Callable[[list[StepRecord]], AnyTrace],  # makes the trace of all records
        *,
        corpora: Sequence[Samples] = (),
        threads: int,
    ) -> AnyTrace:
        """Train from the initial parameters of each trial or the last checkpoint, and store the trace."""
        stacked = [np.stack(arrays) for arrays in zip(*starts, strict=True)]
        with open_training(self.store, settings, corpora) as (files, checkpoint):
            with _use_threads(threads), torch.no_grad():
                start = self._start(problem, stacked)
                if checkpoint is not None:
                    self._check(checkpoint, start, problem)
                    start = checkpoint
                records = list(start.records) if start.finished else self._iterate(problem, start, files)
            trace = assemble(records)
            if files is not None:
                files.finish(trace)
        return trace

    # As a checkpoint after 0 steps, so that a new run and a resumed run continue in the same way.
    def _start(self, problem: TrainingProblem, arrays: Sequence[Float64]) -> Checkpoint:
        parameters = _to_tensors(arrays, problem.device)
        state = self.step.begin(parameters)
        return Checkpoint(0, _to_arrays(parameters), _to_arrays(state), records=(), finished=False)

    # Refuse a checkpoint that cannot belong to the run that begins with ``start``.
    def _check(self, checkpoint: Checkpoint, start: Checkpoint, problem: TrainingProblem) -> None:
        shape = problem.recorded(_to_tensors(start.parameters, problem.device)).shape
        types = [(array.shape, array.dtype) for array in (*checkpoint.parameters, *checkpoint.state)]
        expected = [(array.shape, array.dtype) for array in (*start.parameters, *start.state)]
        fits = types == expected and all(record.weights.shape == shape for record in checkpoint.records)
        steps = [record.step for record in checkpoint.records]
        # Records ascend, and the last is at most at the checkpoint's step.
        rises = all(0 <= before < after for before, after in pairwise([*steps, checkpoint.step + 1]))
        if not fits or not rises or checkpoint.step > self.n_steps:
            raise CorruptRun(
                f"the checkpoint after step {checkpoint.step} belongs to another run: its arrays, records or "
                "steps do not match; restore the file, or train again without resume"
            )

    # Take all steps after ``start``; return all records, also those before it.
    def _iterate(
        self, problem: TrainingProblem, start: Checkpoint, files: TrainingFiles | None
    ) -> list[StepRecord]:
        parameters = _to_tensors(start.parameters, problem.device)
        state = _to_tensors(start.state, problem.device)
        records = list(start.records)
        n_saved = len(records)  # records in a checkpoint
        n_taken = start.step  # steps
        record_every = self.watch.interval(self.n_steps)
        save_every = 1 if self.store is None else self.store.interval(self.n_steps)
        while True:
            gradients, find_losses = problem.evaluate(parameters)
            ends = n_taken == self.n_steps
            # Record the weights before the step, so that the first record is the start.
            if ends or n_taken % record_every == 0:
                numbers = problem.recorded(parameters).cpu().numpy()
                records.append(StepRecord(n_taken, numbers, find_losses().cpu().numpy()))
                ends = self._report(records[-1], files) or ends
            if not ends:
                parameters, state = self.step.move(parameters, gradients, state, n_taken)
                n_taken += 1
            is_due = n_taken < self.n_steps and n_taken % save_every == 0
            if files is not None and (ends or is_due):
                new = tuple(records[n_saved:])
                files.save(Checkpoint(n_taken, _to_arrays(parameters), _to_arrays(state), new, finished=ends))
                n_saved = len(records)
            if ends:
                return records

    # Pass a record to the log and the callbacks; true if the stop condition is met.
    def _report(self, record: StepRecord, files: TrainingFiles | None) -> bool:
        if files is not None:
            files.log(record)
        for callback in self.watch.callbacks:
            callback(record.step, record.losses)
        return self.watch.stop is not None and bool(self.watch.stop(record.step, record.losses))


# Set the number of PyTorch's threads inside a with block: sums depend on it by rounding.
@contextmanager
def _use_threads(n_threads: int) -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# Copies in memory allocated by PyTorch: sums may round differently under another alignment.
def _to_tensors(arrays: Sequence[Float64], device: torch.device) -> Parameters:
    return tuple(torch.tensor(array, device=device) for array in arrays)


def _to_arrays(tensors: Parameters) -> tuple[Float64, ...]:
    return tuple(tensor.cpu().numpy() for tensor in tensors)
