"""The loop that trains the Y/Z model: all trials in one tensor, each with its own rates and generator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from attomaton.options import settle, whole_number
from attomaton.scansnap.model.steps import Adam, Momentum
from attomaton.tables import Float64, Int64

CHUNK = 40
"""Trials worked on together: more do not fit the processor's caches."""


@dataclass(frozen=True)
class Setup:
    """How to train.

    Attributes
    ----------
    n_steps, batch_size, length : int
        Steps, sequences in a step, tokens of a sequence with its query.
    optimiser : Momentum or Adam
        By what steps.
    random_start : bool
        Y and Z drawn evenly between ±1/√M, as torch's linear layers begin; else from 0.
    every : int
        A record is kept every so many steps, and after the last.

    Examples
    --------
    >>> from attomaton.scansnap.classes import draw_linear_classes
    >>> from attomaton.scansnap.model.train import train_classes
    >>> from attomaton.scansnap.reduced import Reduced
    >>> setup = Setup(n_steps=20, batch_size=64, optimiser=Adam(), every=10)
    >>> trace = train_classes(Reduced(draw_linear_classes(2)), np.array([[0.1, 0.1]]), setup)
    >>> trace.steps.tolist(), trace.losses.shape
    ([0, 10, 20], (20, 1))
    """

    n_steps: int = 100
    batch_size: int = 128
    length: int = 128
    optimiser: Momentum | Adam = field(default_factory=Momentum)
    random_start: bool = False
    every: int = 1

    def __post_init__(self) -> None:
        sizes = {"n_steps": 1, "batch_size": 1, "length": 2, "every": 1}
        settle(
            self,
            **{name: whole_number(getattr(self, name), name, least=least) for name, least in sizes.items()},
        )


@dataclass(frozen=True, eq=False, repr=False)
class ScanTrace:
    """Trials along training.

    Attributes
    ----------
    steps : int64 array, shape (n_records,)
        After how many steps.
    losses : float64 array, shape (n_steps, n_trials)
        Of each step's batch, before the step.
    scores : float64 array, shape (n_records, n_trials, ...)
        Z: (n_queries, n_used) for one layer, (n_layers, n_tokens, n_tokens) for a stack.

    Examples
    --------
    >>> from attomaton.scansnap.classes import draw_linear_classes
    >>> from attomaton.scansnap.model.train import train_classes
    >>> from attomaton.scansnap.reduced import Reduced
    >>> reduced = Reduced(draw_linear_classes(2))
    >>> trace = train_classes(reduced, np.array([[1.0, 1.0], [10.0, 1.0]]), Setup(n_steps=20))
    >>> trace.losses[0].round(2).tolist(), bool((trace.losses[-1] < 1).all())  # ln 34 at first
    ([3.53, 3.53], True)
    >>> scores = trace.scores[-1, 0, 0]  # of the first query, in the first trial, at the end
    >>> bool(scores[reduced.is_own[0]].min() > scores[:10].max())  # distinct tokens against common ones
    True
    """

    steps: Int64
    losses: Float64
    scores: Float64


@dataclass(frozen=True)
class Task:
    """What is trained: its start, the loss of a new batch, and Z among the weights.

    Attributes
    ----------
    start : callable
        Weights of all trials before the first step, given a generator for each: Y and Z in turn.
    miss : callable
        Loss of every trial on a new batch, shape (n_trials,), given the weights and the generators.
    read : callable
        Z of all trials, given the weights.
    """

    start: Callable[[Sequence[np.random.Generator]], list[Tensor]]
    miss: Callable[[list[Tensor], Sequence[np.random.Generator]], Tensor]
    read: Callable[[list[Tensor]], Tensor]


def descend(
    task: Task,
    rates: Float64,
    setup: Setup,
    *,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> ScanTrace:
    """Train one trial for each row (η_Y, η_Z) of ``rates``.

    Trial i draws by the i-th child of ``seed``, whatever else is trained beside it.
    """
    pace = np.asarray(rates, np.float64)
    generators = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(len(pace))]
    parts: list[tuple[Float64, Float64]] = []
    for first in range(0, len(pace), CHUNK):
        some = slice(first, first + CHUNK)
        parts.append(_descend_some(task, pace[some], setup, generators[some]))
        if progress is not None:
            progress(min(first + CHUNK, len(pace)), len(pace))
    losses, scores = (np.concatenate([part[at] for part in parts], axis=1) for at in (0, 1))
    return ScanTrace(np.asarray(_recorded(setup), np.int64), losses, scores)


def draw_start(
    shape: tuple[int, int], n_tokens: int, setup: Setup, generators: Sequence[np.random.Generator]
) -> Tensor:
    """One matrix for each trial, shape (n_trials, *shape): zero, or evenly between ±1/√M."""
    most = 1 / np.sqrt(n_tokens) if setup.random_start else 0.0
    drawn = np.stack([rng.uniform(-most, most, shape) for rng in generators])
    return torch.as_tensor(drawn, dtype=torch.float32).requires_grad_()


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean log-loss of every trial, shape (n_trials,), of logits (n_trials, n_samples, n_tokens)."""
    return -torch.log_softmax(logits, dim=2).gather(2, labels[:, :, None]).mean(dim=(1, 2))


def _recorded(setup: Setup) -> list[int]:
    return sorted({*range(0, setup.n_steps, setup.every), setup.n_steps})


def _descend_some(
    task: Task, rates: Float64, setup: Setup, generators: Sequence[np.random.Generator]
) -> tuple[Float64, Float64]:
    """Losses, of shape (n_steps, n_trials), and Z at every record."""
    weights = task.start(generators)
    paces = [torch.as_tensor(rates[:, part, None, None], dtype=torch.float32) for part in (0, 1)]
    states = [setup.optimiser.start(one) for one in weights]
    kept = set(_recorded(setup))
    losses: list[Float64] = []
    records: list[Float64] = []
    for step in range(setup.n_steps):
        if step in kept:
            records.append(_read(task, weights))
        missed = task.miss(weights, generators)
        slopes = torch.autograd.grad(missed.sum(), weights)
        losses.append(missed.detach().numpy().astype(np.float64))
        with torch.no_grad():
            for at, (one, slope, state) in enumerate(zip(weights, slopes, states, strict=True)):
                setup.optimiser.move(one, slope, paces[at % 2], state)
    records.append(_read(task, weights))
    return np.stack(losses), np.stack(records)


def _read(task: Task, weights: list[Tensor]) -> Float64:
    return task.read(weights).detach().numpy().astype(np.float64)
