"""Uncertainty over documents and over random heads: intervals, z, and multiple testing.

Errors over documents are those of the jackknife: everything is measured again without each document in turn.
Documents and random heads are often few, so intervals and z use Student's distribution; z is the normal
deviate that is equally rare.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from attomaton.base.errors import InvalidSamples
from attomaton.base.tables import Bool, Float64, Int64, Integers
from attomaton.heads.model import Head

FEWEST_DOCUMENTS = 8  # documents that an interval over documents needs at least

# The smallest probability that is distinguished from 0: a finite distance has |z| of at most 37.
SMALLEST_TAIL = 1e-300


@dataclass(frozen=True, eq=False)
class Resampled:
    """The ``document`` of each row, an index below ``n_documents``, for leaving out one by one."""

    document: Int64
    n_documents: int

    @classmethod
    def over(cls, documents: Integers) -> "Resampled":
        distinct, indices = np.unique(documents, return_inverse=True)
        n = len(distinct)
        if n < FEWEST_DOCUMENTS:
            raise InvalidSamples(f"{n} documents are too few for intervals; give {FEWEST_DOCUMENTS} or more")
        return cls(indices.astype(np.int64), n)

    def sums(self, values: Float64) -> Float64:
        """Sums of values (n_rows, …) over the rows of each document, shape (n_documents, …)."""
        summed = np.zeros((self.n_documents, *values.shape[1:]))
        np.add.at(summed, self.document, values)
        return summed

    def ratio(self, numerator: Float64, denominator: Float64) -> "Estimates":
        """Σ numerator / Σ denominator over all rows, for each column, from arrays (n_rows, n_heads)."""
        above, below = self.sums(numerator), self.sums(denominator)
        total_above, total_below = above.sum(0), below.sum(0)
        return Estimates(total_above / total_below, (total_above - above) / (total_below - below))

    def mean(self, values: Float64) -> "Estimates":
        """The mean over rows of each column, from values (n_rows, n_heads)."""
        return self.ratio(values, np.ones_like(values))


@dataclass(frozen=True, eq=False)
class Estimates:
    """A number per head, ``value`` (n_heads,), and ``without`` each document (n_documents, n_heads)."""

    value: Float64
    without: Float64

    @property
    def error(self) -> Float64:
        """The standard error, shape (n_heads,)."""
        return np.sqrt((len(self.without) - 1) * self.without.var(0))

    @property
    def z(self) -> Float64:
        """Value / error as the equally rare normal deviate, shape (n_heads,); 0 where both are 0."""
        return as_rare(divide(self.value, self.error), len(self.without) - 1.0)

    @property
    def low(self) -> Float64:
        """The lower end of the 95 % interval, shape (n_heads,)."""
        return self.value - self._half_width

    @property
    def high(self) -> Float64:
        """The upper end of the 95 % interval, shape (n_heads,)."""
        return self.value + self._half_width

    @property
    def _half_width(self) -> Float64:
        return stdtrit(len(self.without) - 1.0, 0.975) * self.error

    def over(self, documents: Bool) -> Float64:
        """The estimate from some of the documents: the mean of their jackknife pseudo-values."""
        # The pseudo-value of document d is n · value − (n − 1) · value without d.
        n = len(self.without)
        return n * self.value - (n - 1) * self.without[documents].mean(0)

    def minus(self, subtrahend: "Estimates") -> "Estimates":
        """The difference of two estimates from the same documents."""
        return Estimates(self.value - subtrahend.value, self.without - subtrahend.without)


def as_rare(student: Float64, freedom: Float64 | float) -> Float64:
    """Student's t with ``freedom`` degrees of freedom, as the equally rare normal deviate."""
    tails = stdtr(freedom, -np.abs(student))
    # A finite t never becomes infinite because its tail rounds to 0.
    tails = np.where(np.isfinite(student), np.maximum(tails, SMALLEST_TAIL), tails)
    return np.where(student == 0, 0.0, np.copysign(ndtri(tails), student))


def divide(above: Float64, below: Float64) -> Float64:
    """above / below, and 0 where both are 0 up to rounding."""
    above, below = np.broadcast_arrays(np.asarray(above, np.float64), np.asarray(below, np.float64))
    is_zero = np.abs(below) <= 1e-15
    over_zero = np.where(np.abs(above) <= 1e-12, 0.0, np.copysign(np.inf, above))
    return np.where(is_zero, over_zero, above / np.where(is_zero, 1.0, below))


def above_null(z: Float64) -> Bool:
    """Which one-sided tests pass at a false discovery rate of 5 % (Benjamini and Hochberg)."""
    from scipy.stats import false_discovery_control

    return false_discovery_control(1.0 - ndtr(np.nan_to_num(z, nan=0.0))) <= 0.05


# Random heads that a layer needs for an estimate of its spread; with fewer, those of all layers are used.
FEWEST_HEADS = 8

# Random heads from which the spread of a layer is known; with fewer, it is at least that within layers.
MANY_HEADS = 16


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """The distribution of a measure among random heads: their ``layers``, ``values`` and standard ``errors``.

    ``n_draws`` is 0 if these heads are independent. If those of a draw share a rotation, only the draws are
    independent, and ``n_draws`` is their number.
    """

    layers: Int64
    values: Float64
    errors: Float64
    n_draws: int = 0

    @classmethod
    def of(cls, measured: Sequence[tuple[Sequence[Head], Estimates]], *, shared: bool = False) -> Self:
        """From the heads and measures of each draw; ``shared`` if the heads of a draw share a rotation."""
        if not measured:
            raise InvalidSamples("a null distribution needs random heads; measure at least one random model")
        return cls(
            np.array([head.layer for heads, _ in measured for head in heads], np.int64),
            np.concatenate([estimates.value for _, estimates in measured]),
            np.concatenate([estimates.error for _, estimates in measured]),
            len(measured) if shared else 0,
        )

    def z(self, heads: Sequence[Head], measured: Estimates) -> Float64:
        """How far each head is from random heads of its layer, in normal deviates, shape (n_heads,).

        This is Student's t of (value − mean of random heads) / spread. The spread is increased if the error
        of the head over documents is larger than that of random heads.
        """
        within_layers = _spread_within_layers(self.values, self.layers)
        centre, variance, error_variance, sizes = np.empty((4, len(heads)))
        for index, head in enumerate(heads):
            chosen = self.layers == head.layer
            if chosen.sum() < FEWEST_HEADS:
                chosen = np.ones(len(self.layers), bool)
            values = self.values[chosen]
            centre[index] = values.mean()
            sizes[index] = self.n_draws or len(values)
            spread = _spread(values - centre[index])
            variance[index] = (spread if len(values) >= MANY_HEADS else max(spread, within_layers)) ** 2
            error_variance[index] = np.mean(self.errors[chosen] ** 2)
        added_variance = np.maximum(measured.error**2 - error_variance, 0.0)
        return as_normal(divide(measured.value - centre, np.sqrt(variance + added_variance)), sizes)


def as_normal(deviations: Float64, sizes: Float64) -> Float64:
    """Standard deviations from the mean of samples of these sizes, as equally rare normal deviates."""
    return as_rare(deviations / np.sqrt(1.0 + 1.0 / sizes), np.maximum(sizes - 1.0, 1.0))


# The standard deviation of random heads from the mean of their layer, over all layers.
def _spread_within_layers(values: Float64, layers: Int64) -> float:
    # Of each head, the index of its layer; and how many heads each layer has.
    _, indices, counts = np.unique(layers, return_inverse=True, return_counts=True)
    deviations = values - (np.bincount(indices, values) / counts)[indices]
    return float(np.sqrt(np.sum(deviations**2) / max(len(values) - len(counts), 1)))


# The spread of random heads; larger for heavy tails, so that 95.45 % are within twice the spread.
def _spread(deviations: Float64) -> float:
    n = len(deviations)
    standard = float(np.sqrt(np.mean(deviations**2) * n / max(n - 1, 1)))
    return max(standard, float(np.quantile(np.abs(deviations), 0.9545)) / 2.0)
