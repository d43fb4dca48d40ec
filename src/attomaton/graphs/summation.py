"""Sums that do not lose digits, for certificates over millions of terms.

Neumaier's compensated sum: what rounding loses is carried along, so the error does not grow with the number
of terms.
"""

from typing import Any

import numpy as np

from attomaton.graphs.compiled import compiled
from attomaton.tables import Float64, Integers


@compiled
def add_precisely(total: Any, lost: Any, place: int, value: float) -> None:
    """Add ``value`` to the sum ``total[place]`` and what rounding loses to ``lost[place]``."""
    before = total[place]
    raised = before + value
    if abs(before) >= abs(value):
        lost[place] += (before - raised) + value
    else:
        lost[place] += (value - raised) + before
    total[place] = raised


@compiled
def sum_precisely(index: Integers, values: Float64, size: int) -> Float64:
    """The sum of ``values`` at each index 0 … size − 1, shape (size,)."""
    total, lost = np.zeros(size), np.zeros(size)
    for at in range(len(values)):
        add_precisely(total, lost, index[at], values[at])
    return total + lost
