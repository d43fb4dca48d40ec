"""Damped Newton's method without a line search: the loop, once, for every solver in numpy.

Along a step on which logits differ by at most d, the curvature of sums of powers of e changes at most by the
factor e^d (generalised self-concordance). So the share ln(1 + d)/d of Newton's step lowers the function; it
tends to 1.

Compiled solvers (``soft/solvers/newton``, ``trajectory/flow``) write the loop again, each around its own
step: numba would compile it anew for every function handed in, and keep none of that on disk. What is not of
this form has a loop of its own: ``training/frames`` searches along the step, because its losses need not be
convex; ``hard/solvers/joint`` changes its equations from step to step; ``hard/factored/interior`` follows a
path.
"""

from collections.abc import Callable

import numpy as np

from attomaton.base.tables import Float64

LEAST_REACH = 1e-12


def minimise(
    slope: Callable[[Float64], Float64],
    find_step: Callable[[Float64, Float64], tuple[Float64, Float64 | float]],
    start: Float64,
    *,
    atol: float,
    max_steps: int,
    patience: int | None = None,
) -> tuple[Float64, float]:
    """The place where no entry of the slope exceeds ``atol``, or else the best of those that were met.

    Notes
    -----
    The search also ends where a step is not finite.
    """
    place = best = start.copy()
    least, stuck = np.inf, 0
    for number in range(max_steps + 1):
        gradient = slope(place)
        largest = float(np.abs(gradient).max(initial=0.0))
        stuck = 0 if largest < least else stuck + 1
        if largest < least:
            least, best = largest, place
        if largest <= atol or number == max_steps or (patience is not None and stuck > patience):
            break
        step, reach = find_step(place, gradient)
        if not np.isfinite(step).all():
            break
        place = place + damping(reach) * step
    return best, least


def damping(reach: Float64 | float) -> Float64 | float:
    """ln(1 + d)/d, the share of a step that is taken if logits differ by at most d along it."""
    reach = np.maximum(reach, LEAST_REACH)
    return np.log1p(reach) / reach
