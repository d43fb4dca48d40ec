"""What heads do by chance: the same measures of heads with random weights.

An interval over documents says that a number would come up again on other text. It does not say that training
made it: a head of random weights prefers some tokens to others, by accident and on every text. So numbers are
held against those of random heads of the same layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.audit.bootstrap import Estimates, divide
from attomaton.errors import InvalidSamples
from attomaton.heads.model import Head
from attomaton.tables import Float64

FEWEST_HEADS = 8
"""Random heads of a layer from which its spread is told; with fewer, those of all layers are taken."""


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
    [2.86]
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
        """(value − mean of random heads) / spread of random heads of the layer, shape (n_heads,).

        Where the own error over documents is larger than theirs, the spread is made larger by as much.
        """
        layers = np.array([head.layer for head in self.heads])
        centre, spread, usual = (np.empty(len(heads)) for _ in range(3))
        for place, head in enumerate(heads):
            mine = layers == head.layer
            if mine.sum() < FEWEST_HEADS:
                mine = np.ones(len(layers), bool)
            values, errors = self.values[mine], self.errors[mine]
            centre[place] = values.mean()
            spread[place] = _spread(values - centre[place]) ** 2
            usual[place] = np.mean(errors**2)
        beyond = np.maximum(told.error**2 - usual, 0.0)
        return divide(told.value - centre, np.sqrt(spread + beyond))


def _spread(apart: Float64) -> float:
    """The deviation of random heads; more where tails are heavy: within twice of it lie 95.45 % of them."""
    plain = float(np.sqrt(np.mean(apart**2) * len(apart) / max(len(apart) - 1, 1)))
    return max(plain, float(np.quantile(np.abs(apart), 0.9545)) / 2.0)
