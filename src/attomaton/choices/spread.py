"""Standard errors with their degrees of freedom, and the quantiles of Student's t."""

from typing import Any, NamedTuple

import numpy as np

from attomaton.base.tables import Float64


class Spread(NamedTuple):
    """Standard errors with their degrees of freedom, NaN where there are none."""

    error: Float64
    degrees: Float64

    def reach(self, tail: float) -> Float64:
        """How far the estimate is off at most but for this probability on each side, by Student's t."""
        return student_quantile(1.0 - tail, self.degrees) * self.error


def student_quantile(probability: float, degrees: Any) -> Any:
    """The quantile of Student's t; of the normal distribution where the degrees of freedom are infinite."""
    from scipy.special import ndtri, stdtrit  # a tenth of the start-up time

    finite = np.isfinite(degrees)
    return np.where(finite, stdtrit(np.where(finite, degrees, 1.0), probability), ndtri(probability))
