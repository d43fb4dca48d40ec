"""Training at corpus size: one corpus, scores looked up, full batch or mini-batches, measured on the way.

A corpus has millions of scores, so records hold measurements rather than the scores themselves.
"""

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np
import torch

from attomaton.base.options import real_number, settle, whole_number
from attomaton.base.tables import Float64
from attomaton.graphs.bags import Bags
from attomaton.training import Step
from attomaton.training.steps import Parameters
from attomaton_experiments.lookup.lookup import Lookups, Pairs, lay_out_lookups
from attomaton_experiments.lookup.parametrisations import IndexedPairs, Parametrisation

Measure = Callable[[Float64], Mapping[str, float]]
"""The measurement at each record: a score per pair, shape (n_pairs,) → named numbers."""


@dataclass(frozen=True)
class LookupRecord:
    """A record of a run.

    Attributes
    ----------
    epochs : float
        How often each sample was read, on average.
    seconds : float
        Training time, without preparing the corpus and measuring.
    measured : mapping of str to float
        The measurements.

    Examples
    --------
    >>> from attomaton.corpora import Samples
    >>> from attomaton.graphs import count_tokens
    >>> from attomaton_experiments.lookup.lookup import find_pairs
    >>> from attomaton_experiments.lookup.parametrisations import PerQuery
    >>> from attomaton.training import Adam
    >>> bags = count_tokens(Samples.from_lists([[0, 1]] * 4, [0] * 4))
    >>> training = LookupTraining(PerQuery(), Adam(0.1), batch_size=2)
    >>> measure = lambda scores: {"largest": scores.max()}
    >>> _, moment = training.run(bags, find_pairs([bags]), records=AtSteps((0, 6)), measure=measure)
    >>> moment.step, moment.epochs, moment.seconds > 0, list(moment.measured)
    (6, 3.0, True, ['largest'])
    """

    step: int
    epochs: float
    seconds: float
    measured: Mapping[str, float]


class Records(Protocol):
    """When to record; the run ends with the last record.

    Examples
    --------
    >>> class Doubling:  # any class with these methods will do: after 1, 2, 4, 8 … steps
    ...     def passed(self, step, seconds):
    ...         return step.bit_length()
    ...     def __len__(self):
    ...         return 10
    >>> Doubling().passed(8, 0.1), len(Doubling())
    (4, 10)
    """

    def passed(self, step: int, seconds: float) -> int:
        """How many records are due."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class AtSteps:
    """Record after each of these numbers of steps, ascending.

    Examples
    --------
    >>> records = AtSteps((0, 10, 100))
    >>> records.passed(10, seconds=0.1), len(records)
    (2, 3)
    """

    steps: tuple[int, ...]

    def __post_init__(self) -> None:
        settle(self, steps=tuple(whole_number(step, "a step to record at") for step in self.steps))

    def __len__(self) -> int:
        return len(self.steps)

    def passed(self, step: int, seconds: float) -> int:  # noqa: ARG002
        """How many records are due."""
        return sum(record_step <= step for record_step in self.steps)


@dataclass(frozen=True)
class AtSeconds:
    """Record at the first step that ends after each of these numbers of seconds, ascending.

    Examples
    --------
    >>> records = AtSeconds((1.0, 60.0))
    >>> records.passed(500, seconds=2.5), len(records)
    (1, 2)
    """

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        checked = tuple(real_number(second, "a time to record at", least=0) for second in self.seconds)
        settle(self, seconds=checked)

    def __len__(self) -> int:
        return len(self.seconds)

    def passed(self, step: int, seconds: float) -> int:  # noqa: ARG002
        """How many records are due."""
        return sum(second <= seconds for second in self.seconds)


@dataclass(frozen=True)
class LookupTraining:
    """Training settings.

    Attributes
    ----------
    parametrisation : Parametrisation
        ``Dense()``, ``PerQuery()``, ``Shared()`` or ``Factored(rank)``.
    step : Step
        ``GradientDescent(step_size, …)`` or ``Adam(step_size)``; the loss is the mean over the (mini-)batch.
    batch_size : int, optional
        Samples per mini-batch; each epoch reads all samples once in a new random order. None means all
        samples.
    seed : int
        Seed of the initial parameters and of the mini-batches.
    single : bool
        Compute in float32, as is usual in training, instead of float64.
    clock : callable
        Returns seconds; ``time.process_time`` counts only this process.

    Examples
    --------
    >>> from attomaton.corpora import Samples
    >>> from attomaton.graphs import count_tokens
    >>> from attomaton_experiments.lookup.lookup import find_pairs
    >>> from attomaton_experiments.lookup.parametrisations import PerQuery
    >>> from attomaton.training import GradientDescent
    >>> bags = count_tokens(Samples.from_lists([[0, 1]], [0]))
    >>> training = LookupTraining(PerQuery(), GradientDescent(1.0))
    >>> *_, last = training.run(
    ...     bags, find_pairs([bags]), records=AtSteps((10, 1000)), measure=lambda s: {"gap": s[0] - s[1]}
    ... )
    >>> last.step, float(round(last.measured["gap"], 2))  # ln(2 η t)
    (1000, 7.6)
    """

    parametrisation: Parametrisation
    step: Step
    batch_size: int | None = None
    seed: int = 0
    single: bool = False
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        size = None if self.batch_size is None else whole_number(self.batch_size, "batch_size", least=1)
        settle(self, batch_size=size, seed=whole_number(self.seed, "seed"))

    def run(self, bags: Bags, pairs: Pairs, *, records: Records, measure: Measure) -> list[LookupRecord]:
        """Train on these realisable contexts until the last record.

        Parameters
        ----------
        bags : Bags
            The contexts (:func:`~attomaton.graphs.count_tokens`).
        pairs : Pairs
            The pairs with a score: those of these contexts, and those that ``measure`` needs.
        records : Records
            ``AtSteps((…))`` or ``AtSeconds((…))``.
        measure : callable
            Maps a score per pair to named numbers.
        """
        dtype = torch.float32 if self.single else torch.float64
        lookups, indexed = lay_out_lookups(bags, pairs, dtype=dtype), IndexedPairs.of(pairs)
        drawn = self.parametrisation.draw_start(pairs, np.random.default_rng([self.seed, 0]))
        parameters: Parameters = tuple(torch.tensor(array, dtype=dtype) for array in drawn)
        state = self.step.begin(parameters)
        moments: list[LookupRecord] = []
        clock, read = _Clock(self.clock), 0
        for number, batch in enumerate(self._batches(lookups)):
            if records.passed(number, clock.seconds) > len(moments):
                seconds = clock.stop()
                scores = self.parametrisation.scores(parameters, indexed).double().numpy()
                moments.append(LookupRecord(number, read / len(lookups), seconds, measure(scores)))
                while len(moments) < records.passed(number, seconds):  # a step may span several records
                    moments.append(moments[-1])
                clock.go_on()
            if len(moments) >= len(records):
                break
            slopes, _ = batch.slopes(self.parametrisation.scores(parameters, indexed))
            gradients = self.parametrisation.pull_back(parameters, indexed, slopes)
            parameters, state = self.step.move(parameters, gradients, state, number)
            read += len(batch)
        return _distinct(moments)

    def _batches(self, lookups: Lookups) -> Generator[Lookups]:
        """The samples, epoch after epoch, without end."""
        if self.batch_size is None or self.batch_size >= len(lookups):
            while True:
                yield lookups
        for epoch in count(1):
            order = np.random.default_rng([self.seed, epoch]).permutation(len(lookups))
            for first in range(0, len(order), self.batch_size):
                yield lookups.take(torch.as_tensor(order[first : first + self.batch_size]))


class _Clock:
    """A stopwatch that can be paused with :meth:`stop` and :meth:`go_on`."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._before, self._began = now, 0.0, now()

    @property
    def seconds(self) -> float:
        return self._before + self._now() - self._began

    def stop(self) -> float:
        self._before = self.seconds
        return self._before

    def go_on(self) -> None:
        self._began = self._now()


def _distinct(moments: list[LookupRecord]) -> list[LookupRecord]:
    """One record per step."""
    return list({moment.step: moment for moment in moments}.values())
