"""The held-out table: every model over all positions of a text with its cost, and the rule per position."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attomaton.base.artifacts.arrays import digest_arrays
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.graphs.bags import find_realisable
from attomaton_experiments.mixture.caches import read_cache
from attomaton_experiments.mixture.experts import MixtureExpert, Uniform
from attomaton_experiments.mixture.judged import Judged, blend, judge, keep
from attomaton_experiments.mixture.kneser_ney import learn_kneser_ney
from attomaton_experiments.mixture.learn import DECODERS, STRENGTH, learn_copies, learn_decoded, learn_writes
from attomaton_experiments.mixture.reading import MixtureText
from attomaton_experiments.mixture.texts import SplitTexts
from attomaton_experiments.mixture.transformer import TrainedLayer, TransformerPlan, train_transformer

LIMITS = (*DECODERS, "copies", "writes successors")
MIXTURE = "mixture of the limits"


@dataclass(frozen=True)
class TablePlan:
    """Settings of the models in the table.

    Attributes
    ----------
    window : int
        Tokens per context when the heads learn.
    reach : int
        Tokens that the copying head reads.
    strength : float
        The shrinkage of attention scores.
    pull : float
        The weight of the overall weights in each cell of a mixture, in positions.
    cache : int
        Words in a cache.
    flatness : tuple of float
        The values of θ for the neural cache that are tried on the held-out text.
    transformer : TransformerPlan
        The layer to train.
    """

    window: int = 32
    reach: int = 128
    strength: float = STRENGTH
    pull: float = 50.0
    cache: int = 2000
    flatness: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2)
    transformer: TransformerPlan = TransformerPlan()  # noqa: RUF009  frozen


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The table.

    Attributes
    ----------
    rows : tuple of Judged
        The models, in display order.
    inside : bool array, shape (n,)
        Where the window before a token contains it: where the theory of attention applies.
    experts : tuple of str
        The experts of the mixture.
    shares : float64 array, shape (n, n_experts)
        The share of each expert of the mixture in each token's probability.
    trained : TrainedLayer
        The transformer.
    flatness : float
        The θ chosen on the held-out text.
    """

    rows: tuple[Judged, ...]
    inside: Bool
    experts: tuple[str, ...]
    shares: Float64
    trained: TrainedLayer
    flatness: float

    @property
    def rules(self) -> Int64:
        """The expert of the mixture with the largest share in each token's probability, shape (n,)."""
        return self.shares.argmax(1)

    def find(self, name: str) -> Judged:
        """The row of this name."""
        return next(row for row in self.rows if row.name == name)


def judge_all(
    texts: SplitTexts, plan: TablePlan, *, folder: Path | None = None, progress: Progress = silent
) -> HeldOut:
    """Make every row; results of an earlier call with the same texts and plan are read from ``folder``."""
    judging = _Judging(texts, plan, folder, progress)
    floor, limits, smooth, counted = judging.floor(), judging.limits(), judging.smooth(), judging.counted()
    trained, networks, flatness = judge_networks(texts, plan, folder, progress)
    progress("mixing", 0, 0)

    def mix(name: str, *models: Judged) -> Judged:
        return blend(name, models, pull=plan.pull)[0]

    mixture, shares = blend(MIXTURE, [floor, *limits], pull=plan.pull)
    heads = limits[len(DECODERS) :]
    rows = (
        mix("unigram", floor, limits[0]),
        *smooth,
        mix("trigram, Kneser–Ney, and a unigram cache", smooth[1], counted),
        networks[0],
        mix("transformer and neural cache", *networks),
        *(mix(f"{limit.name}, else unigram", floor, limits[0], limit) for limit in limits[1:]),
        mix("decoder: unigram, bigram, trigram", floor, *limits[: len(DECODERS)]),
        mixture,
        mix("trigram, Kneser–Ney, and both heads", smooth[1], *heads),
        mix("all of them", floor, *limits, smooth[1], counted, *networks),
    )
    inside = find_realisable(judging.valid.all_samples(plan.window))
    return HeldOut(rows, inside, ("uniform", *LIMITS), shares, trained, flatness)


class _Judging:
    """The experts that are judged alone, each stored as soon as it is done."""

    def __init__(self, texts: SplitTexts, plan: TablePlan, folder: Path | None, progress: Progress) -> None:
        self.texts, self.plan, self.folder, self.progress = texts, plan, folder, progress
        self.fitted, self.held_out, self.valid = (
            MixtureText(text, texts.end, len(texts.tokens))
            for text in (texts.fitted, texts.held_out, texts.valid)
        )
        self.digest = digest_arrays(texts.fitted, texts.held_out, texts.valid)

    def floor(self) -> Judged:
        """All types with equal probability."""
        return self._take("uniform", Uniform)

    def limits(self) -> list[Judged]:
        """The decoder's limits, then both heads, in the order of :data:`LIMITS`."""
        sizes = self.plan.window, self.plan.strength
        decoders = [
            self._take(name, partial(learn_decoded, self.fitted, width))
            for width, name in enumerate(DECODERS)
        ]
        copies = partial(learn_copies, self.fitted, *sizes, self.plan.reach)
        writes = partial(learn_writes, self.fitted, *sizes)
        return [
            *decoders,
            self._take("copies", copies, *sizes, self.plan.reach),
            self._take("writes successors", writes, *sizes),
        ]

    def smooth(self) -> list[Judged]:
        """Kneser–Ney of two and of three tokens."""
        names = {2: "bigram, Kneser–Ney", 3: "trigram, Kneser–Ney"}
        return [self._take(name, partial(learn_kneser_ney, self.fitted, n)) for n, name in names.items()]

    def counted(self) -> Judged:
        """The unigram cache."""
        self.progress("counting the last words", 0, 0)
        texts, size = self.texts, self.plan.cache
        blank = (np.zeros((len(texts.held_out), 1), np.float32), np.zeros((len(texts.valid), 1), np.float32))
        make = partial(remember, blank, texts, 0.0, size)
        return keep(self.folder, "unigram cache", [self.digest, size], make)

    def _take(self, name: str, learn: Callable[[], MixtureExpert], *settings: Any) -> Judged:
        self.progress(name, 0, 0)
        make = partial(judge, name, learn, self.held_out, self.valid)
        return keep(self.folder, name, [self.digest, *settings], make)


def judge_networks(
    texts: SplitTexts, plan: TablePlan, folder: Path | None, progress: Progress
) -> tuple[TrainedLayer, list[Judged], float]:
    """The transformer, and the cache over its states with the θ that fits the held-out text best."""
    trained = train_transformer(
        texts.fitted, len(texts.tokens), plan.transformer, folder=folder, progress=progress
    )
    progress("reading with the transformer", 0, 0)
    began = time.process_time()
    held_out, valid = (trained.read(text, texts.end) for text in (texts.held_out, texts.valid))
    spent = trained.processor_seconds + time.process_time() - began
    alone = Judged(
        "transformer of one layer",
        *((np.exp(logs), _constant(logs)) for logs, _ in (held_out, valid)),
        seconds=spent,
    )
    progress("remembering", 0, 0)
    digest = digest_arrays(held_out[1], valid[1], texts.held_out, texts.valid)
    tried = [
        keep(
            folder,
            f"neural cache {flatness}",
            [digest, plan.cache, flatness],
            partial(remember, (held_out[1], valid[1]), texts, flatness, plan.cache),
        )
        for flatness in plan.flatness
    ]
    losses = [-np.log(blend("", [alone, cache], pull=plan.pull)[0].held_out[0]).mean() for cache in tried]
    best = int(np.argmin(losses))
    return trained, [alone, tried[best]], plan.flatness[best]


def remember(
    states: tuple[NDArray[np.float32], NDArray[np.float32]], texts: SplitTexts, flatness: float, size: int
) -> Judged:
    """A cache over the states before the words of the held-out and of the judged text."""
    began = time.process_time()
    held_out = read_cache(states[0], texts.held_out, flatness, size)
    valid = read_cache(states[1], texts.valid, flatness, size)
    return Judged("cache", held_out, valid, time.process_time() - began)


def _constant(values: Float64) -> Int64:
    return np.ones(len(values), np.int64)
