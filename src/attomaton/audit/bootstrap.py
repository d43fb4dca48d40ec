"""Uncertainty over documents, and what is left of many tests: intervals, z, Benjamini and Hochberg."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from attomaton.errors import InvalidSamples
from attomaton.options import make_rng
from attomaton.tables import Bool, Float64, Int64, Integers

DRAWS = 1_000
"""How often documents are drawn anew."""

FEWEST = 8
"""Documents that an interval over documents needs."""


@dataclass(frozen=True, eq=False)
class Resampled:
    """How often each document is drawn, for all draws: the same draws for every head and every measure.

    Attributes
    ----------
    document : int64 array, shape (n_rows,)
        The place of each row's document among the distinct ones.
    weights : float64 array, shape (n_draws, n_documents)
        How often each document is drawn.

    Examples
    --------
    >>> drawn = Resampled.over(np.repeat(np.arange(20), 3), seed=0)
    >>> drawn.weights.shape, set(drawn.weights.sum(1).tolist())
    ((1000, 20), {20.0})
    >>> ratio = drawn.ratio(np.ones((60, 1)), np.full((60, 1), 2.0))
    >>> ratio.value.tolist(), ratio.low.tolist(), ratio.error.tolist()
    ([0.5], [0.5], [0.0])
    """

    document: Int64
    weights: Float64

    @classmethod
    def over(cls, documents: Integers, *, seed: int = 0, draws: int = DRAWS) -> "Resampled":
        """Draws of the documents that rows are of, shape (n_rows,)."""
        distinct, place = np.unique(documents, return_inverse=True)
        n = len(distinct)
        if n < FEWEST:
            raise InvalidSamples(
                f"{n} documents are too few to say how much differs between documents; give at least "
                f"{FEWEST}, by cutting long ones if need be"
            )
        weights = make_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=draws).astype(np.float64)
        return cls(place.astype(np.int64), weights)

    def sums(self, values: Float64) -> Float64:
        """Sums over the rows of each document, shape (n_documents, ...) of values of shape (n_rows, ...)."""
        summed = np.zeros((self.weights.shape[1], *values.shape[1:]))
        np.add.at(summed, self.document, values)
        return summed

    def ratio(self, above: Float64, below: Float64) -> "Estimates":
        """Σ above / Σ below over all rows, for each column, shapes (n_rows, n)."""
        top, bottom = self.sums(above), self.sums(below)
        drawn = (self.weights @ top) / (self.weights @ bottom)
        return Estimates(top.sum(0) / bottom.sum(0), drawn)

    def mean(self, values: Float64) -> "Estimates":
        """The mean over rows of each column, shape (n_rows, n)."""
        return self.ratio(values, np.ones_like(values))


@dataclass(frozen=True, eq=False)
class Estimates:
    """Numbers, one for each head, and the same of every draw of documents.

    Attributes
    ----------
    value : float64 array, shape (n,)
        The estimates.
    drawn : float64 array, shape (n_draws, n)
        The same of each draw.

    Examples
    --------
    >>> one = Estimates(np.array([1.0]), np.array([[0.5], [1.0], [1.5]]))
    >>> one.error.round(3).tolist(), one.z.round(2).tolist()
    ([0.5], [2.0])
    >>> one.minus(one).value.tolist(), one.low.round(3).tolist(), one.high.round(3).tolist()
    ([0.0], [0.525], [1.475])
    """

    value: Float64
    drawn: Float64

    @property
    def error(self) -> Float64:
        """The standard error, shape (n,)."""
        return self.drawn.std(0, ddof=1)

    @property
    def z(self) -> Float64:
        """Value by error, shape (n,); 0 where both are 0."""
        return divide(self.value, self.error)

    @property
    def low(self) -> Float64:
        """The lower end of the 95 % interval, shape (n,)."""
        return np.quantile(self.drawn, 0.025, axis=0)

    @property
    def high(self) -> Float64:
        """The upper end of the 95 % interval, shape (n,)."""
        return np.quantile(self.drawn, 0.975, axis=0)

    def minus(self, other: "Estimates") -> "Estimates":
        """The difference, drawn together."""
        return Estimates(self.value - other.value, self.drawn - other.drawn)


def divide(above: Float64, below: Float64) -> Float64:
    """above / below, and 0 where both are 0 up to rounding.

    Examples
    --------
    >>> divide(np.array([1.0, 0.0]), np.array([2.0, 0.0])).tolist()
    [0.5, 0.0]
    """
    above, below = np.broadcast_arrays(np.asarray(above, np.float64), np.asarray(below, np.float64))
    small = np.abs(below) <= 1e-15
    endless = np.where(np.abs(above) <= 1e-12, 0.0, np.copysign(np.inf, above))
    return np.where(small, endless, above / np.where(small, 1.0, below))


def above_chance(z: Float64, *, share: float = 0.05) -> Bool:
    """Which of many one-sided tests hold when at most this share of those found may be false.

    Benjamini and Hochberg's rule on the upper tail of each z.

    Examples
    --------
    >>> above_chance(np.array([5.0, 1.0, 2.3, -6.0])).tolist()
    [True, False, True, False]
    """
    chances = 1.0 - ndtr(np.nan_to_num(z, nan=0.0))
    order = np.argsort(chances)
    good = np.flatnonzero(chances[order] <= share * np.arange(1, len(z) + 1) / len(z))
    found = np.zeros(len(z), bool)
    if len(good):
        found[order[: good[-1] + 1]] = True
    return found
