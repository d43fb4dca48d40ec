"""Uncertainty over documents, and multiple testing: intervals, z, Benjamini and Hochberg.

Errors are the jackknife's: everything is measured again without each document in turn. Documents are often
few, so their spread is known only roughly; intervals and z use Student's distribution for this reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from attomaton.base.errors import InvalidSamples
from attomaton.base.tables import Bool, Float64, Int64, Integers
from attomaton.heads.model import Head

FEWEST_DOCUMENTS = 8
"""Documents that an interval over documents needs at least."""

SMALLEST_TAIL = 1e-300
"""The smallest probability that is distinguished from 0: a finite distance has |z| of at most 37."""


@dataclass(frozen=True, eq=False)
class Resampled:
    """Documents to be left out one by one, in the same way for every head and every measure.

    ``document`` is the index of each row's document among the distinct ones.
    """

    document: Int64
    n_documents: int

    @classmethod
    def over(cls, documents: Integers) -> "Resampled":
        """The documents of rows, shape (n_rows,)."""
        distinct, indices = np.unique(documents, return_inverse=True)
        n = len(distinct)
        if n < FEWEST_DOCUMENTS:
            raise InvalidSamples(
                f"{n} documents are too few to tell how they vary; give at least "
                f"{FEWEST_DOCUMENTS}, or cut long ones"
            )
        return cls(indices.astype(np.int64), n)

    def sums(self, values: Float64) -> Float64:
        """Sums over the rows of each document, shape (n_documents, ...), of values of shape (n_rows, ...)."""
        summed = np.zeros((self.n_documents, *values.shape[1:]))
        np.add.at(summed, self.document, values)
        return summed

    def ratio(self, above: Float64, below: Float64) -> "Estimates":
        """Σ above / Σ below over all rows, for each column, shapes (n_rows, n)."""
        top, bottom = self.sums(above), self.sums(below)
        above_all, below_all = top.sum(0), bottom.sum(0)
        return Estimates(above_all / below_all, (above_all - top) / (below_all - bottom))

    def mean(self, values: Float64) -> "Estimates":
        """The mean over rows of each column, shape (n_rows, n)."""
        return self.ratio(values, np.ones_like(values))


@dataclass(frozen=True, eq=False)
class Estimates:
    """One number per head, and the same number without each document in turn.

    Attributes
    ----------
    value : float64 array, shape (n,)
        The estimates.
    without : float64 array, shape (n_documents, n)
        The estimates without each document.
    """

    value: Float64
    without: Float64

    @property
    def error(self) -> Float64:
        """The standard error, shape (n,)."""
        return np.sqrt((len(self.without) - 1) * self.without.var(0))

    @property
    def z(self) -> Float64:
        """Value / error, as the equally rare normal deviate, shape (n,); 0 where both are 0."""
        return as_rare(divide(self.value, self.error), len(self.without) - 1.0)

    @property
    def low(self) -> Float64:
        """The lower end of the 95 % interval, shape (n,)."""
        return self.value - self._reach

    @property
    def high(self) -> Float64:
        """The upper end of the 95 % interval, shape (n,)."""
        return self.value + self._reach

    @property
    def _reach(self) -> Float64:
        return stdtrit(len(self.without) - 1.0, 0.975) * self.error

    def over(self, documents: Bool) -> Float64:
        """The estimate from some of the documents, shape (n,): the mean of their jackknife pseudo-values."""
        n = len(self.without)
        return n * self.value - (n - 1) * self.without[documents].mean(0)

    def minus(self, subtrahend: "Estimates") -> "Estimates":
        """The difference, document by document."""
        return Estimates(self.value - subtrahend.value, self.without - subtrahend.without)


def as_rare(student: Float64, freedom: Float64 | float) -> Float64:
    """Student's t with this many degrees of freedom, as the equally rare normal deviate."""
    tails = stdtr(freedom, -np.abs(student))
    tails = np.where(np.isfinite(student), np.maximum(tails, SMALLEST_TAIL), tails)
    return np.where(student == 0, 0.0, np.copysign(ndtri(tails), student))


def divide(above: Float64, below: Float64) -> Float64:
    """above / below, and 0 where both are 0 up to rounding."""
    above, below = np.broadcast_arrays(np.asarray(above, np.float64), np.asarray(below, np.float64))
    small = np.abs(below) <= 1e-15
    endless = np.where(np.abs(above) <= 1e-12, 0.0, np.copysign(np.inf, above))
    return np.where(small, endless, above / np.where(small, 1.0, below))


def above_null(z: Float64) -> Bool:
    """Which of many one-sided tests pass with a false discovery rate of at most 5 %.

    Benjamini and Hochberg's procedure on the upper tail of each z.
    """
    from scipy.stats import false_discovery_control

    return false_discovery_control(1.0 - ndtr(np.nan_to_num(z, nan=0.0))) <= 0.05


FEWEST_HEADS = 8
"""Random heads a layer needs to estimate its spread; with fewer, those of all layers are used."""

MANY_HEADS = 16
"""Random heads that estimate a layer's spread alone; with fewer, it is at least the spread within layers."""


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """The null distribution of a measure, from random heads.

    Attributes
    ----------
    layers : int64 array, shape (n,)
        The layer of each random head, over all draws.
    values, errors : float64 array, shape (n,)
        The measure of each head, and its standard error over documents.
    n_draws : int
        The number of draws if the heads of a draw share a rotation, so that only draws are independent; 0 if
        heads are independent.
    """

    layers: Int64
    values: Float64
    errors: Float64
    n_draws: int = 0

    @classmethod
    def of(
        cls, measured: Sequence[tuple[Sequence[Head], Estimates]], *, shared: bool = False
    ) -> "NullDistribution":
        """From the heads and measures of several models with random heads, which may share rotations."""
        if not measured:
            raise InvalidSamples("a null distribution needs random heads; measure at least one random model")
        return cls(
            np.array([head.layer for heads, _ in measured for head in heads], np.int64),
            np.concatenate([estimates.value for _, estimates in measured]),
            np.concatenate([estimates.error for _, estimates in measured]),
            len(measured) if shared else 0,
        )

    def z(self, heads: Sequence[Head], measured: Estimates) -> Float64:
        """How far each head lies from random heads of its layer, shape (n_heads,), in normal deviates.

        (value − mean of random heads) / their spread, as Student's t for that number of random heads, as
        the equally rare normal deviate. Where a head's own error over documents is larger than theirs, the
        spread is increased accordingly.
        """
        inside = _spread_inside(self.values, self.layers)
        centre, spread, usual, sizes = (np.empty(len(heads)) for _ in range(4))
        for index, head in enumerate(heads):
            in_layer = self.layers == head.layer
            if in_layer.sum() < FEWEST_HEADS:
                in_layer = np.ones(len(self.layers), bool)
            values, errors = self.values[in_layer], self.errors[in_layer]
            centre[index], sizes[index] = values.mean(), self.n_draws or len(values)
            spread_of_layer = _spread(values - centre[index])
            spread[index] = (
                spread_of_layer if len(values) >= MANY_HEADS else max(spread_of_layer, inside)
            ) ** 2
            usual[index] = np.mean(errors**2)
        beyond = np.maximum(measured.error**2 - usual, 0.0)
        return as_normal(divide(measured.value - centre, np.sqrt(spread + beyond)), sizes)


def as_normal(apart: Float64, sizes: Float64) -> Float64:
    """Distances from the mean of a sample, in standard deviations, as equally rare normal deviates."""
    return as_rare(apart / np.sqrt(1.0 + 1.0 / sizes), np.maximum(sizes - 1.0, 1.0))


def _spread_inside(values: Float64, layers: Int64) -> float:
    """The standard deviation of random heads from the mean of their layer, over all layers."""
    _, indices, counts = np.unique(layers, return_inverse=True, return_counts=True)
    apart = values - (np.bincount(indices, values) / counts)[indices]
    return float(np.sqrt(np.sum(apart**2) / max(len(values) - len(counts), 1)))


def _spread(apart: Float64) -> float:
    """The deviation of random heads; larger for heavy tails, so that 95.45 % lie within twice of it."""
    plain = float(np.sqrt(np.mean(apart**2) * len(apart) / max(len(apart) - 1, 1)))
    return max(plain, float(np.quantile(np.abs(apart), 0.9545)) / 2.0)
