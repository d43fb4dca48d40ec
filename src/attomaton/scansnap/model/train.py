"""Training the Y/Z model on drawn sequences: all trials in one batch, each with its own rates."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from attomaton.scansnap.draws import draw_sequences
from attomaton.scansnap.model.forward import logits_of_counts
from attomaton.scansnap.reduced import Reduced
from attomaton.tables import Float64, Int64

CHUNK = 40
"""Trials worked on together: more do not fit the processor's caches."""


@dataclass(frozen=True)
class Momentum:
    """SGD with momentum: v ← μ v + ∇, W ← W − η v."""

    momentum: float = 0.9

    def start(self, weights: Tensor) -> dict[str, Tensor]:
        """Nothing gathered yet."""
        return {"velocity": torch.zeros_like(weights)}

    def move(self, weights: Tensor, slope: Tensor, rate: Tensor, state: dict[str, Tensor]) -> None:
        """One step, in place."""
        state["velocity"].mul_(self.momentum).add_(slope)
        weights.sub_(rate * state["velocity"])


@dataclass(frozen=True)
class Adam:
    """Adam with the usual constants."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def start(self, weights: Tensor) -> dict[str, Tensor]:
        """Nothing gathered yet."""
        zero = torch.zeros_like(weights)
        return {"mean": zero, "square": zero.clone(), "step": torch.zeros((), dtype=torch.float64)}

    def move(self, weights: Tensor, slope: Tensor, rate: Tensor, state: dict[str, Tensor]) -> None:
        """One step, in place."""
        first, second = self.betas
        step = state["step"].add_(1)
        state["mean"].mul_(first).add_(slope, alpha=1 - first)
        state["square"].mul_(second).addcmul_(slope, slope, value=1 - second)
        spread = (state["square"] / (1 - second**step)).sqrt_().add_(self.eps)
        weights.sub_(rate * (state["mean"] / (1 - first**step)) / spread)


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
    """

    n_steps: int = 100
    batch_size: int = 128
    length: int = 128
    optimiser: Momentum | Adam = field(default_factory=Momentum)
    random_start: bool = False
    every: int = 1


@dataclass(frozen=True, eq=False, repr=False)
class ScanTrace:
    """Trials along training.

    Attributes
    ----------
    steps : int64 array, shape (n_records,)
        After how many steps.
    losses : float64 array, shape (n_steps, n_trials)
        Of each step's batch, before the step.
    scores : float64 array, shape (n_records, n_trials, n_queries, n_used)
        Z.
    """

    steps: Int64
    losses: Float64
    scores: Float64


def train_classes(
    reduced: Reduced,
    rates: Float64,
    setup: Setup,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ScanTrace:
    """Train one trial for each row of ``rates``.

    Parameters
    ----------
    reduced : Reduced
        The corpus.
    rates : array, shape (n_trials, 2)
        η_Y and η_Z of each trial.
    setup : Setup
        How to train.
    seed : int
        Trial i draws by the i-th child of this seed, whatever else is trained beside it.
    """
    pace = np.asarray(rates, np.float64)
    generators = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(len(pace))]
    parts: list[tuple[Float64, Float64]] = []
    for first in range(0, len(pace), CHUNK):
        some = slice(first, first + CHUNK)
        parts.append(_train_some(reduced, pace[some], setup, generators[some]))
        if progress is not None:
            progress(min(first + CHUNK, len(pace)), len(pace))
    losses, scores = (np.concatenate([part[at] for part in parts], axis=1) for at in (0, 1))
    return ScanTrace(np.asarray(_recorded(setup), np.int64), losses, scores)


def _recorded(setup: Setup) -> list[int]:
    return sorted({*range(0, setup.n_steps, setup.every), setup.n_steps})


def _train_some(
    reduced: Reduced, rates: Float64, setup: Setup, generators: list[np.random.Generator]
) -> tuple[Float64, Float64]:
    """Losses, of shape (n_steps, n_trials), and Z at every record."""
    weights = _start(reduced, setup, generators)
    paces = [torch.as_tensor(rates[:, part, None, None], dtype=torch.float32) for part in (0, 1)]
    states = [setup.optimiser.start(one) for one in weights]
    kept = set(_recorded(setup))
    losses: list[Float64] = []
    records: list[Float64] = []
    for step in range(setup.n_steps):
        if step in kept:
            records.append(weights[1].detach().numpy().astype(np.float64))
        missed = _miss(reduced, weights, setup, generators)
        slopes = torch.autograd.grad(missed.sum(), weights)
        losses.append(missed.detach().numpy().astype(np.float64))
        with torch.no_grad():
            for one, slope, pace, state in zip(weights, slopes, paces, states, strict=True):
                setup.optimiser.move(one, slope, pace, state)
    records.append(weights[1].detach().numpy().astype(np.float64))
    return np.stack(losses), np.stack(records)


def _miss(
    reduced: Reduced, weights: list[Tensor], setup: Setup, generators: list[np.random.Generator]
) -> Tensor:
    """Mean log-loss of a new batch for every trial, shape (n_trials,)."""
    drawn = [draw_sequences(reduced, (setup.batch_size,), setup.length, rng) for rng in generators]
    number = np.stack([one.classes for one in drawn])
    counts = torch.as_tensor(np.stack([one.counts for one in drawn]), dtype=torch.float32)
    decoder, scores = weights
    logits = logits_of_counts(decoder, scores, counts, torch.as_tensor(reduced.query_of[number]))
    labels = torch.as_tensor(reduced.classes.labels.astype(np.int64)[number])
    told = torch.log_softmax(logits, dim=2).gather(2, labels[:, :, None])
    return -told.mean(dim=(1, 2))


def _start(reduced: Reduced, setup: Setup, generators: list[np.random.Generator]) -> list[Tensor]:
    """Y and Z of every trial before the first step."""
    n_tokens = reduced.classes.n_tokens
    shapes = [(len(reduced.used), n_tokens), reduced.shapes[1]]
    most = 1 / np.sqrt(n_tokens) if setup.random_start else 0.0
    return [
        torch.as_tensor(
            np.stack([rng.uniform(-most, most, shape) for rng in generators]), dtype=torch.float32
        ).requires_grad_()
        for shape in shapes
    ]
