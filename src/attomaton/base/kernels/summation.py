"""Sums that do not lose digits, for certificates over millions of terms.

Neumaier's compensated sum: what rounding loses is carried along, so the error does not grow with the number
of terms.
"""

from typing import Any

from attomaton.base.kernels import compiled


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
