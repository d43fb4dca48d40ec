"""Training one layer of the Y/Z model on counts of random sequences.

All trials are in one tensor, each with its own rates and generator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attomaton.base.options import settle, whole_number
from attomaton.base.progress import Advance, silent
from attomaton.base.tables import Float64, Int64
from attomaton.theories.scansnap.reduced import ReducedCorpus
from attomaton.training import GradientDescent, Step
from attomaton.training.steps import Parameters
from attomaton_experiments.scansnap_model.draws import draw_counts
from attomaton_experiments.scansnap_model.forward import logits_of_counts

CHUNK = 40
"""Trials processed together: more do not fit the processor's caches."""

MOMENTUM = GradientDescent(1.0, momentum=0.9)
"""The optimiser of the authors."""


@dataclass(frozen=True)
class Setup:
    """Training settings.

    Attributes
    ----------
    n_steps, batch_size, length : int
        Steps, sequences per step, tokens of a sequence including its query.
    optimiser : Step
        The optimiser; each trial multiplies its steps by its own rates, so ``step_size`` is 1.
    random_start : bool
        Y and Z drawn uniformly in ±1/√M, like torch's linear layers; else from 0.
    every : int
        Steps between records; the last step is recorded too.

    Examples
    --------
    >>> from attomaton.theories import draw_linear_classes
    >>> from attomaton.training import Adam
    >>> setup = Setup(n_steps=20, batch_size=64, optimiser=Adam(1.0), every=10)
    >>> trace = train_classes(ReducedCorpus(draw_linear_classes(2)), np.array([[0.1, 0.1]]), setup)
    >>> trace.steps.tolist(), trace.losses.shape
    ([0, 10, 20], (20, 1))
    """

    n_steps: int = 100
    batch_size: int = 128
    length: int = 128
    optimiser: Step = MOMENTUM
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
    """Trials over training.

    Attributes
    ----------
    steps : int64 array, shape (n_records,)
        The steps of the records.
    losses : float64 array, shape (n_steps, n_trials)
        The loss of each step's batch, before the step.
    scores : float64 array, shape (n_records, n_trials, n_queries, n_keys)
        Z.

    Examples
    --------
    >>> from attomaton.theories import draw_linear_classes
    >>> reduced = ReducedCorpus(draw_linear_classes(2))
    >>> trace = train_classes(reduced, np.array([[1.0, 1.0], [10.0, 1.0]]), Setup(n_steps=20))
    >>> trace.losses[0].round(2).tolist(), bool((trace.losses[-1] < 1).all())  # ln 34 at first
    ([3.53, 3.53], True)
    >>> scores = trace.scores[-1, 0, 0]  # of the first query, in the first trial, at the end
    >>> bool(scores[reduced.is_distinct[0]].min() > scores[:10].max())  # distinct tokens above common ones
    True
    """

    steps: Int64
    losses: Float64
    scores: Float64


def train_classes(
    reduced: ReducedCorpus,
    rates: Float64,
    setup: Setup,
    *,
    seed: int = 0,
    progress: Advance = silent,
) -> ScanTrace:
    """Train one layer, one trial per row of ``rates``.

    Large batches without momentum follow the expected gradient for this sequence length.

    Parameters
    ----------
    reduced : ReducedCorpus
        The corpus.
    rates : array, shape (n_trials, 2)
        η_Y and η_Z of each trial.
    seed : int
        Trial i uses the i-th child of this seed, so it does not depend on the other trials.
    progress : callable
        Called at intervals with the number of trials done and the total.

    Examples
    --------
    >>> from attomaton.theories import draw_linear_classes
    >>> reduced = ReducedCorpus(draw_linear_classes(2))
    >>> trace = train_classes(reduced, np.array([[1.0, 1.0]]), Setup(n_steps=20))
    >>> attention = reduced.attention(trace.scores[:, 0])  # at each record
    >>> bool(np.diff(reduced.distinct_entropy(attention)[[0, -1]]) < 0)  # attention on fewer distinct tokens
    True
    """
    pace = np.asarray(rates, np.float64)
    generators = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(len(pace))]
    chunks: list[tuple[Float64, Float64]] = []
    for first in range(0, len(pace), CHUNK):
        trials = slice(first, first + CHUNK)
        chunks.append(_train_chunk(reduced, pace[trials], setup, generators[trials]))
        progress(min(first + CHUNK, len(pace)), len(pace))
    losses, scores = (np.concatenate([chunk[at] for chunk in chunks], axis=1) for at in (0, 1))
    return ScanTrace(np.asarray(_recorded(setup), np.int64), losses, scores)


def _train_chunk(
    reduced: ReducedCorpus, rates: Float64, setup: Setup, generators: Sequence[np.random.Generator]
) -> tuple[Float64, Float64]:
    """Losses, shape (n_steps, n_trials), and Z at every record."""
    shapes = ((len(reduced.keys), reduced.classes.n_tokens), reduced.shapes[1])
    weights = tuple(_draw_start(shape, reduced.classes.n_tokens, setup, generators) for shape in shapes)
    paces = [torch.as_tensor(rates[:, kind, None, None], dtype=torch.float32) for kind in (0, 1)]
    still = tuple(torch.zeros_like(weight) for weight in weights)  # a step from 0 equals the update
    state = setup.optimiser.begin(weights)
    recorded = set(_recorded(setup))
    losses: list[Float64] = []
    records: list[Float64] = []
    for step in range(setup.n_steps):
        if step in recorded:
            records.append(_to_array(weights[1]))
        missed = _mean_losses(reduced, weights, setup, generators)
        slopes = torch.autograd.grad(missed.sum(), weights)
        losses.append(_to_array(missed))
        with torch.no_grad():
            moves, state = setup.optimiser.move(still, slopes, state, step)
            for matrix, pace, move in zip(weights, paces, moves, strict=True):
                matrix.add_(pace * move)
    records.append(_to_array(weights[1]))
    return np.stack(losses), np.stack(records)


def _draw_start(
    shape: tuple[int, int], n_tokens: int, setup: Setup, generators: Sequence[np.random.Generator]
) -> Tensor:
    """One matrix per trial, shape (n_trials, *shape): zero, or uniform in ±1/√M."""
    most = 1 / np.sqrt(n_tokens) if setup.random_start else 0.0
    drawn = np.stack([rng.uniform(-most, most, shape) for rng in generators])
    return torch.as_tensor(drawn, dtype=torch.float32).requires_grad_()


def _mean_losses(
    reduced: ReducedCorpus, weights: Parameters, setup: Setup, generators: Sequence[np.random.Generator]
) -> Tensor:
    """Mean log-loss of every trial on a new batch, shape (n_trials,)."""
    drawn = [draw_counts(reduced, (setup.batch_size,), setup.length, rng) for rng in generators]
    number = np.stack([drawn_trial.classes for drawn_trial in drawn])
    counts = torch.as_tensor(np.stack([drawn_trial.counts for drawn_trial in drawn]), dtype=torch.float32)
    decoder, scores = weights
    logits = logits_of_counts(decoder, scores, counts, torch.as_tensor(reduced.query_index[number]))
    labels = torch.as_tensor(reduced.classes.labels.astype(np.int64)[number])
    return -torch.log_softmax(logits, dim=2).gather(2, labels[:, :, None]).mean(dim=(1, 2))


def _recorded(setup: Setup) -> list[int]:
    return sorted({*range(0, setup.n_steps, setup.every), setup.n_steps})


def _to_array(values: Tensor) -> Float64:
    return values.detach().numpy().astype(np.float64)
