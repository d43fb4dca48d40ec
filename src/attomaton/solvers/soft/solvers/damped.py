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

    Parameters
    ----------
    slope : callable
        Place → gradient there, shape (n,) → (n,).
    find_step : callable
        Place and gradient → Newton's step, shape (n,), and d: one number, or one for each entry.
    start : float64 array, shape (n,)
        Where to begin.
    atol : float
        Largest entry of the gradient to be left.
    max_steps : int
        Steps, at most.
    patience : int, optional
        Steps that need not lower the largest entry; after more of them in a row the search ends.

    Returns
    -------
    place : float64 array, shape (n,)
    largest : float
        The largest absolute entry of the gradient there.

    Notes
    -----
    The search also ends where a step is not finite.

    Examples
    --------
    >>> def step_of(place, gradient):  # of e^x − 3 x: its curvature is e^x
    ...     step = -gradient / np.exp(place)
    ...     return step, float(np.abs(step).max())
    >>> place, _ = minimise(lambda x: np.exp(x) - 3.0, step_of, np.zeros(1), atol=1e-12, max_steps=50)
    >>> round(float(np.exp(place[0])), 6)
    3.0
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
    """ln(1 + d)/d, the share of a step that is taken if logits differ by at most d along it.

    Examples
    --------
    >>> [round(float(damping(reach)), 4) for reach in (0.0, 1.0, 100.0)]
    [1.0, 0.6931, 0.0462]
    """
    reach = np.maximum(reach, LEAST_REACH)
    return np.log1p(reach) / reach
