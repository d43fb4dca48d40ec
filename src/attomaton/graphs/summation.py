"""Sums by group that do not lose digits, for certificates over millions of terms."""

import numpy as np

from attomaton.graphs.compiled import compiled
from attomaton.tables import Float64, Integers


@compiled
def sum_precisely(index: Integers, values: Float64, size: int) -> Float64:
    """The sum of ``values`` at each index 0 … size − 1, shape (size,), with the rounding carried along.

    Neumaier's compensated sum: the error does not grow with the number of terms.
    """
    total, lost = np.zeros(size), np.zeros(size)
    for at in range(len(values)):
        place, value = index[at], values[at]
        raised = total[place] + value
        if abs(total[place]) >= abs(value):
            lost[place] += (total[place] - raised) + value
        else:
            lost[place] += (value - raised) + total[place]
        total[place] = raised
    return total + lost
