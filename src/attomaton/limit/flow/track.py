"""One flow followed through time: plain steps first, then the integration, a state kept for every decade."""

from collections.abc import Iterator

import numpy as np

from attomaton.limit.flow.integrate import Flow, State, last, warm_up
from attomaton.tables import Float64

WARM_UP = 1_000
"""Plain steps before the flow takes over, if a step can move scores by about 1."""

FEWEST = 20
"""Plain steps before the flow takes over in any case."""


class Track:
    """Where plain gradient descent stands at any step.

    Parameters
    ----------
    flow : Flow
        The loss.
    start : float64 array, shape (n_coordinates,)
        Step 0.
    step_size : float
        η.
    rtol : float
        See :func:`~attomaton.limit.flow.integrate.integrate`.
    reach : float
        About how far one step can move a score; small steps are a flow already and need less warm-up.
    """

    def __init__(
        self, flow: Flow, start: Float64, *, step_size: float, rtol: float, reach: float = 1.0
    ) -> None:
        self._flow = flow
        self._start = start
        self._pace = {"step_size": step_size, "rtol": rtol}
        self._n_plain = int(np.ceil(np.clip(WARM_UP * reach, FEWEST, WARM_UP)))
        self._states = [warm_up(flow, start, self._n_plain, **self._pace)]

    @property
    def reached(self) -> float:
        """The last step computed so far."""
        return self._states[-1].step

    def at(self, step: float) -> State:
        """The state at a step; up to the end of the warm-up that is plain descent, to whole steps."""
        if step < self._n_plain:
            place = self._flow.descend(self._start, self._pace["step_size"], int(step))
            return State(step, place, np.zeros_like(self._states[0].error), self._states[0].width)
        before = [state for state in self._states if state.step <= step][-1]
        if before is self._states[-1]:
            return self.advance(step)
        return last(self._flow, before, step, **self._pace)

    def advance(self, to: float) -> State:
        """Go on to step ``to``, keeping the states at powers of ten and at the end."""
        for goal in _goals(self.reached, to):
            self._states.append(last(self._flow, self._states[-1], goal, **self._pace))
        return self._states[-1]


def _goals(first: float, last: float) -> Iterator[float]:
    """The powers of ten between two steps, and the last one."""
    decade = 10.0 ** (np.floor(np.log10(first)) + 1.0)
    while decade < last:
        yield decade
        decade *= 10.0
    if last > first:
        yield last
