"""One flow followed through time: plain steps first, then the integration, a state kept for every decade.

Plain descent is not a flow. With v = ∇L along the flow, each of its steps differs from it by −(η²/2) H v; as
long as v keeps its direction this adds up to W_descent = W_flow + (η/2) ln(‖v‖/‖v₀‖)·v, v₀ where the flow
began: nothing while the gradient stays, half a step ahead for each factor e by which it has fallen. States
are kept as the flow has them and corrected when they are read.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attomaton.limit.flow.integrate import Flow, State, last
from attomaton.tables import Float64

WARM_UP = 1_000
"""Plain steps before the flow takes over, if a step can move scores by about 1."""

FEWEST = 20
"""Plain steps before the flow takes over in any case."""

FIRST_WIDTH = 0.1
TINY = 1e-300
DOUBT = 1.0
"""How much of the correction counts as its error: gradients turn as they fall, so all of it is doubted."""


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
        self._step_size, self._rtol = step_size, rtol
        self._n_plain = int(np.ceil(np.clip(WARM_UP * reach, FEWEST, WARM_UP)))
        self._states = [self._warm_up()]
        self._latest = self._states[0]

    @property
    def reached(self) -> float:
        """The last step computed so far."""
        return self._states[-1].step

    def at(self, step: float) -> State:
        """Where descent is at a step; up to the end of the warm-up that is plain descent, to whole steps."""
        if self._latest.step != step:
            self._latest = self._find(step)
        return self._latest

    def advance(self, to: float) -> None:
        """Go on to step ``to``, keeping the states at powers of ten and at the end."""
        for goal in _goals(self.reached, to):
            self._states.append(self._follow(self._states[-1], goal))

    def _find(self, step: float) -> State:
        if step <= self._n_plain:
            place = self._flow.descend(self._start, self._step_size, int(step))
            return State(step, place, np.zeros_like(self._states[0].error), FIRST_WIDTH)
        self.advance(step)
        before = [state for state in self._states if state.step <= step][-1]
        return self._correct(self._states[0], self._follow(before, step))

    def _warm_up(self) -> State:
        """Plain descent; its error is how far the flow, corrected, would have been off in the second half."""
        half = self._n_plain // 2
        middle = self._flow.descend(self._start, self._step_size, half)
        place = self._flow.descend(middle, self._step_size, self._n_plain - half)
        begun = State(float(half), middle, np.zeros_like(self._flow.lengths(middle)), FIRST_WIDTH)
        found = self._correct(begun, self._follow(begun, float(self._n_plain)))
        missed = self._flow.lengths(found.place - place)
        return State(float(self._n_plain), place, missed, found.width)

    def _follow(self, state: State, to: float) -> State:
        return last(self._flow, state, to, step_size=self._step_size, rtol=self._rtol)

    def _correct(self, begun: State, state: State) -> State:
        """What descent that was at ``begun`` is at, when the flow from there is at ``state``."""
        first, move = self._pull(begun), self._pull(state)
        sizes = [np.maximum(self._flow.lengths(one), TINY) for one in (first, move)]
        shift = 0.5 * self._flow.spread(np.log(sizes[1] / sizes[0])) * move
        doubt = DOUBT * self._flow.lengths(shift)
        return replace(state, place=state.place + shift, error=state.error + doubt)

    def _pull(self, state: State) -> Float64:
        """η ∇L, from one step so long that no digit is lost."""
        moved = self._flow.descend(state.place, self._step_size * state.step, 1)
        return (state.place - moved) / state.step


def _goals(first: float, last: float) -> Iterator[float]:
    """The powers of ten between two steps, and the last one."""
    decade = 10.0 ** (np.floor(np.log10(first)) + 1.0)
    while decade < last:
        yield decade
        decade *= 10.0
    if last > first:
        yield last
