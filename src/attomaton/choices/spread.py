"""Standard errors with their degrees of freedom (:class:`Spread`), and Student's t."""

from typing import Any, NamedTuple

import numpy as np

from attomaton.base.tables import Float64


class Spread(NamedTuple):
    """Standard errors with their degrees of freedom, NaN where there are none."""

    error: Float64
    degrees: Float64

    def half_width(self, tail: float) -> Float64:
        """Half the width of each confidence interval with probability ``tail`` beyond each end."""
        return student_quantile(1.0 - tail, self.degrees) * self.error


def student_quantile(probability: float, degrees: Any) -> Any:
    """The quantile of Student's t; of the normal distribution where the degrees of freedom are infinite."""
    from scipy.special import ndtri, stdtrit  # a tenth of the start-up time

    finite = np.isfinite(degrees)
    return np.where(finite, stdtrit(np.where(finite, degrees, 1.0), probability), ndtri(probability))


def two_sided(ratio: float, degrees: float) -> float:
    """The p-value of an estimate that is this many standard errors away from 0."""
    from scipy.special import ndtr, stdtr  # a tenth of the start-up time

    return 2.0 * float(stdtr(degrees, -abs(ratio)) if np.isfinite(degrees) else ndtr(-abs(ratio)))
