"""What heads became and when: types over steps, rises of attention, and what utility predicted."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import rankdata

from attomaton.base.tables import Float64, Int64
from attomaton_experiments.head_course.targets import target_column
from attomaton_experiments.head_study.run import find_interval

Record = dict[str, Any]
"""One head at one step of one seed: ``type``, ``seeks``, and attention and utility at each place."""


@dataclass(frozen=True, eq=False)
class History:
    """Every head at every step, for every seed.

    Attributes
    ----------
    records : sequence of dict
        They have ``seed``, ``step``, ``layer``, ``number``, ``type`` and, for each place,
        ``attention_PLACE`` and ``utility_PLACE``; sorted by seed, step, layer and number, and complete.
    """

    records: Sequence[Record]

    @cached_property
    def steps(self) -> list[int]:
        """The steps, ascending."""
        return sorted({record["step"] for record in self.records})

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Numbers of seeds, steps, layers and heads per layer."""
        names = ("seed", "step", "layer", "number")
        n_seeds, n_steps, n_layers, n_heads = (
            len({record[name] for record in self.records}) for name in names
        )
        return n_seeds, n_steps, n_layers, n_heads

    def values(self, name: str) -> Any:
        """A number or text of every record, shape (n_seeds, n_steps, n_layers, n_heads)."""
        return np.array([record[name] for record in self.records]).reshape(self.sizes)

    @cached_property
    def types(self) -> Any:
        """The types, shape (n_seeds, n_steps, all heads)."""
        return self.values("type").reshape(*self.sizes[:2], -1)

    @property
    def names(self) -> list[str]:
        """The types that occur, those of most heads at the end first."""
        names, indices = np.unique(self.types, return_inverse=True)
        at_end = indices.reshape(self.types.shape)[:, -1].ravel()
        counts = np.bincount(at_end, minlength=len(names))
        return [str(names[index]) for index in np.argsort(-counts, kind="stable")]

    def count(self, kind: str) -> Float64:
        """How many heads have a type, shape (n_seeds, n_steps)."""
        return (self.types == kind).sum(-1).astype(np.float64)

    def settled(self) -> Int64:
        """The step from which each head has the type it has at the end, shape (n_seeds, all heads)."""
        differs = self.types != self.types[:, -1:]
        last_other = np.where(differs.any(1), len(self.steps) - 1 - differs[:, ::-1].argmax(1), -1)
        return np.array(self.steps, np.int64)[last_other + 1]

    def first_settled(self, kind: str) -> Float64:
        """The first step from which some head has a type for good, shape (n_seeds,); NaN if none has."""
        of_kind = self.types[:, -1] == kind
        steps = np.where(of_kind, self.settled(), np.inf).min(1)
        return np.where(np.isfinite(steps), steps, np.nan)

    def half_rise(self, target: str) -> Float64:
        """The step at which the head that attends most to a place is halfway to its end, shape (n_seeds,).

        Halfway between the largest attention at the first step and that at the last, interpolated on the
        logarithm of 1 + step.
        """
        most = self.values(target_column("attention", target)).max((2, 3))
        half = (most[:, 0] + most[:, -1]) / 2
        time = np.log1p(np.array(self.steps, np.float64))
        return np.array([_crossing(time, values, level) for values, level in zip(most, half, strict=True)])

    def predicted(self, target: str, step: int, *, within: bool) -> Float64:
        """Rank correlation of utility at a step with attention at the end, shape (n_seeds,).

        Over the heads of each layer if ``within``, whose ranks are then compared layer by layer; else over
        all heads.
        """
        useful, attended = self._ranks(target, step, within=within)
        return _correlate(useful, attended)

    def test_predicted(self, target: str, step: int, n_permutations: int, seed: int) -> float:
        """Two-sided p of the mean correlation within layers: heads permuted within their layers."""
        useful, attended = self._ranks(target, step, within=True)
        observed = abs(float(_correlate(useful, attended).mean()))
        rng = np.random.default_rng(seed)
        beyond = 0
        for _ in range(n_permutations):
            permuted = rng.permuted(attended, axis=-1)
            beyond += abs(float(_correlate(useful, permuted).mean())) >= observed - 1e-12
        return (1 + beyond) / (1 + n_permutations)

    def _ranks(self, target: str, step: int, *, within: bool) -> tuple[Float64, Float64]:
        """Centred ranks of utility at a step and attention at the end, shape (n_seeds, groups, heads)."""
        n_seeds, _, n_layers, n_heads = self.sizes
        shape = (n_seeds, n_layers, n_heads) if within else (n_seeds, 1, n_layers * n_heads)
        useful = self.values(target_column("utility", target))[:, self.steps.index(step)].reshape(shape)
        attended = self.values(target_column("attention", target))[:, -1].reshape(shape)
        first, second = (rankdata(values, axis=-1) for values in (useful, attended))
        return first - first.mean(-1, keepdims=True), second - second.mean(-1, keepdims=True)


def _correlate(first: Float64, second: Float64) -> Float64:
    """Correlations of centred ranks, shape (n_seeds,), of shapes (n_seeds, groups, heads)."""
    above = (first * second).sum((1, 2))
    return above / np.sqrt((first**2).sum((1, 2)) * (second**2).sum((1, 2)))


def _crossing(time: Float64, values: Float64, level: float) -> float:
    """The step where values first reach a level; they end on its other side or on it."""
    rises = values[-1] >= values[0]
    beyond = values >= level if rises else values <= level
    record = int(np.argmax(beyond))
    if record == 0:
        return float(np.expm1(time[0]))
    share = (level - values[record - 1]) / (values[record] - values[record - 1])
    return float(np.expm1(time[record - 1] + share * (time[record] - time[record - 1])))


def tell_interval(values: Float64, least: float, most: float, form: str = "{:.2f}") -> str:
    """A mean with its 95 % interval over seeds, cut where values cannot be.

    Examples
    --------
    >>> tell_interval(np.array([0.8, 0.9, 1.0]), 0.0, 1.0)
    '0.90 [0.65, 1.00]'
    """
    mean, half = find_interval(values)
    ends = max(mean - half, least), mean, min(mean + half, most)
    low, middle, high = (form.format(end) for end in ends)
    return f"{middle} [{low}, {high}]" if len(values) > 1 else middle


def tell_steps(steps: Float64, last: int) -> str:
    """Steps of seeds as a geometric mean with its 95 % interval, cut at the last; seeds with one are counted.

    Examples
    --------
    >>> tell_steps(np.array([100.0, 200.0, 400.0]), 1000)
    '200 [36, 1,000]'
    >>> tell_steps(np.array([np.nan, 200.0]), 1000)
    '200 in 1 of 2 seeds'
    """
    reached = steps[np.isfinite(steps)]
    if not len(reached):
        return "never"
    mean, half = find_interval(np.log(np.maximum(reached, 1.0)))
    ends = np.clip(np.exp([mean, mean - half, mean + half]), 0.0, last)
    middle, low, high = (f"{end:,.0f}" for end in ends)
    if len(reached) < len(steps):
        return f"{middle} in {len(reached)} of {len(steps)} seeds"
    return f"{middle} [{low}, {high}]" if len(reached) > 1 else middle
