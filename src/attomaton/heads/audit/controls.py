"""What heads do by chance: the same measures of heads with random weights.

An interval over documents says that a number would come up again on other text. It does not say that training
made it: a head of random weights prefers some tokens to others, by accident and on every text. So numbers are
held against those of random heads of the same layer.

Random heads are few, so their spread is known roughly. Student's distribution allows for that: a z of 2 is
as rare by chance with eight random heads behind it as with eighty. Few random heads cannot show how rare a
number far outside is, so the fewer they are, the more slowly z grows with the number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.tables import Float64, Int64
from attomaton.heads.audit.jackknife import Estimates, as_rare, divide
from attomaton.heads.model import Head

FEWEST_HEADS = 8
"""Random heads of a layer from which its spread is told; with fewer, those of all layers are taken."""

MANY_HEADS = 16
"""Random heads of a layer that tell its spread alone; of fewer it is at least that inside all layers."""


@dataclass(frozen=True, eq=False)
class Chance:
    """How a measure lies for random heads.

    Attributes
    ----------
    heads : tuple of Head
        The random heads, of all models that were drawn.
    values, errors : float64 array, shape (n,)
        The measure of each, and its standard error over documents.

    Examples
    --------
    >>> heads = tuple(Head(0, number) for number in range(8))
    >>> chance = Chance(heads, np.arange(8) - 3.5, np.full(8, 1.0))
    >>> one = Estimates(np.array([7.0]), np.zeros((2, 1)))
    >>> chance.z((Head(0, 0),), one).round(2).tolist()
    [2.16]
    >>> Chance.of([((Head(0, 0),), one)] * 2).values.tolist()
    [7.0, 7.0]
    """

    heads: tuple[Head, ...]
    values: Float64
    errors: Float64

    @classmethod
    def of(cls, measured: Sequence[tuple[Sequence[Head], Estimates]]) -> "Chance":
        """From the heads and measures of several models with random heads."""
        if not measured:
            raise InvalidSamples("chance is told from random heads; measure at least one random model")
        return cls(
            tuple(head for heads, _ in measured for head in heads),
            np.concatenate([told.value for _, told in measured]),
            np.concatenate([told.error for _, told in measured]),
        )

    def z(self, heads: Sequence[Head], told: Estimates) -> Float64:
        """How far each head lies from random heads of its layer, shape (n_heads,), in normal deviations.

        (value − mean of random heads) / their spread, as Student's t of so many random heads, told as the
        normal deviation that is as rare. Where the own error over documents is larger than theirs, the spread
        is made larger by as much.
        """
        layers = np.array([head.layer for head in self.heads])
        inside = _spread_inside(self.values, layers)
        centre, spread, usual, behind = (np.empty(len(heads)) for _ in range(4))
        for place, head in enumerate(heads):
            mine = layers == head.layer
            if mine.sum() < FEWEST_HEADS:
                mine = np.ones(len(layers), bool)
            values, errors = self.values[mine], self.errors[mine]
            centre[place], behind[place] = values.mean(), len(values)
            own = _spread(values - centre[place])
            spread[place] = (own if len(values) >= MANY_HEADS else max(own, inside)) ** 2
            usual[place] = np.mean(errors**2)
        beyond = np.maximum(told.error**2 - usual, 0.0)
        return as_normal(divide(told.value - centre, np.sqrt(spread + beyond)), behind)


def as_normal(apart: Float64, behind: Float64) -> Float64:
    """Distances from the mean of a sample, in its deviations, as normal deviations that are as rare."""
    return as_rare(apart / np.sqrt(1.0 + 1.0 / behind), np.maximum(behind - 1.0, 1.0))


def _spread_inside(values: Float64, layers: Int64) -> float:
    """The deviation of random heads from the mean of their own layer, over all layers."""
    _, place, counts = np.unique(layers, return_inverse=True, return_counts=True)
    apart = values - (np.bincount(place, values) / counts)[place]
    return float(np.sqrt(np.sum(apart**2) / max(len(values) - len(counts), 1)))


def _spread(apart: Float64) -> float:
    """The deviation of random heads; more where tails are heavy: within twice of it lie 95.45 % of them."""
    plain = float(np.sqrt(np.mean(apart**2) * len(apart) / max(len(apart) - 1, 1)))
    return max(plain, float(np.quantile(np.abs(apart), 0.9545)) / 2.0)
