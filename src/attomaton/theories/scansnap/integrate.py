"""Following a differential equation from zero."""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.tables import Float64

MAX_STATE = 20_000
"""Numbers that can be followed together: stiff steps hold a square matrix of them."""


def follow(
    slope: Callable[[Float64], Float64],
    size: int,
    times: ArrayLike,
    *,
    rtol: float,
    atol: float,
    most_slopes: int | None = None,
) -> Float64:
    """States at rising times, shape (n_times, size), of ẋ = slope(x), x(0) = 0.

    By scipy's LSODA, which turns to stiff steps where they are needed. With ``most_slopes`` it gives up
    after this number of slopes: some equations would take hours.
    """
    from scipy.integrate import solve_ivp

    if size > MAX_STATE:
        raise UnsupportedOption(
            f"the state holds {size:,} numbers; at most {MAX_STATE:,} can be followed: take fewer tokens, "
            "labels or queries"
        )
    asked = np.asarray(times, np.float64)
    span = (0.0, float(asked[-1]))
    taken = count(1)

    def slope_at(_: float, state: Float64) -> Float64:
        if most_slopes is not None and next(taken) > most_slopes:
            raise UncertifiedSolution(
                f"the flow was not followed to t = {asked[-1]:g} in {most_slopes:,} slopes; change the rates"
            )
        return slope(state)

    found: Any = solve_ivp(slope_at, span, np.zeros(size), "LSODA", asked, rtol=rtol, atol=atol)
    if not found.success:
        raise UncertifiedSolution(f"the flow could not be followed to t = {asked[-1]:g}: {found.message}")
    return found.y.T
