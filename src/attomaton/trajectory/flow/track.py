"""Gradient descent at any step: plain steps first, then gradient flow, with one saved state per decade.

Plain gradient descent is not a flow. With u = η ∇L along the flow and H the curvature, a step of descent
differs from the flow by −½ η H u. While u keeps its direction this adds up to W_descent = W_flow + ½
ln(‖u‖/‖u₀‖)·u, with u₀ at the start of the flow: zero while the gradient stays constant, half a step ahead
for each factor e by which it has fallen. States are saved along the flow and corrected when read. The
correction omits ½ ‖u‖ dθ per step, with θ the angle by which u has rotated, and terms of the next order,
about ½ ‖η H u‖ d ln‖u‖. Below the edge of stability no step of descent moves two points further apart, so the
error is at most the sum of what is omitted.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.trajectory.flow.implicit import FlowState, LossFlow, integrate
from attomaton.trajectory.sharpness import STABILITY_LIMIT

WARM_UP = 1_000  # plain steps before the flow takes over, if a step can move scores by about 1
FEWEST_PLAIN = 20  # minimum number of plain steps before the flow takes over
MOST_WARM_UPS = 32  # maximum number of warm-ups, if gradient descent still oscillates at the end of one
CALM = 1e-7  # oscillations this small, relative to the norm of the coordinates, need no longer warm-up
FALLING = 0.9  # oscillations that do not fall to this share while the warm-up doubles do not die out

# Size of a rounding error, and factor on the distance of a second descent to bound its effect.
ROUNDING_ERROR, ROUNDING_FACTOR = 1e-15, 10.0

FIRST_WIDTH = 0.1  # the first step in ln t
SMALLEST_GRADIENT = 1e-300  # gradients are taken to be at least this, so that they have a logarithm
CAUTION = 2.0  # factor on the rotation of the gradient, which may rotate back and forth


class Track:
    """The state of plain gradient descent at any step, computed on demand.

    A plain step moves a score by at most ``reach``. ``safe`` says that the step size is below the edge of
    stability at any weights, ``settles`` that it is below the edge in the limit.
    """

    def __init__(
        self,
        flow: LossFlow,
        start: Float64,
        *,
        step_size: float,
        rtol: float,
        reach: float = 1.0,
        safe: bool = False,
        settles: bool = True,
    ) -> None:
        self._flow = flow
        self._start = start
        self._step_size, self._rtol = step_size, rtol
        self._safe = safe
        self._n_plain = int(np.ceil(np.clip(WARM_UP * reach, FEWEST_PLAIN, WARM_UP)))
        self._states = [self._warm_up(settles)]
        self._latest = self._states[0]

    @property
    def reached(self) -> float:
        return self._states[-1].step

    def at(self, step: float) -> FlowState:
        """The state at a step; during the warm-up it is plain gradient descent, at whole steps."""
        if self._latest.step != step:
            self._latest = self._find(step)
        return self._latest

    def advance(self, to: float) -> None:
        """Continue to step ``to``; save the states at powers of ten and at the end."""
        for goal in _goals(self.reached, to):
            self._states.append(self._follow(self._states[-1], goal))

    def _find(self, step: float) -> FlowState:
        if step <= self._n_plain:
            point = self._flow.descend(self._start, self._step_size, int(step))
            return FlowState(step, point, self._bound_rounding(point, int(step)), FIRST_WIDTH)
        self.advance(step)
        saved = [state for state in self._states if state.step <= step][-1]
        state = self._follow(saved, step)
        gradients = self._gradient_at(self._states[0]), self._gradient_at(state)
        first, last = (np.maximum(self._flow.lengths(gradient), SMALLEST_GRADIENT) for gradient in gradients)
        shift = 0.5 * self._flow.spread(np.log(last / first)) * gradients[1]  # from flow to descent
        return replace(state, point=state.point + shift)

    # Plain descent, longer where it oscillates; oscillations that do not die out are infinite errors.
    def _warm_up(self, settles: bool) -> FlowState:
        if not settles:
            point = self._flow.descend(self._start, self._step_size, self._n_plain)
            unknown = np.full_like(self._flow.lengths(point), np.inf)
            return FlowState(float(self._n_plain), point, unknown, FIRST_WIDTH)
        point, oscillation = self._descend_from(self._start, self._n_plain)
        most, dies_out = MOST_WARM_UPS * self._n_plain, np.isfinite(oscillation)
        while self._n_plain < most and not (self._is_calm(point, oscillation) & self._is_stable(point)).all():
            point, later_oscillation = self._descend_from(point, self._n_plain)
            self._n_plain *= 2
            dies_out = later_oscillation <= FALLING * oscillation
            oscillation = later_oscillation
        lasting = ~(self._is_calm(point, oscillation) | dies_out) | ~self._is_stable(point)
        error = np.where(lasting, np.inf, 2.0 * oscillation + self._bound_rounding(point, self._n_plain))
        return FlowState(float(self._n_plain), point, error, FIRST_WIDTH)

    # A bound by block on the effect of rounding in plain descent, which grows where curvature is high.
    #
    # It uses a second descent that starts at the distance of the rounding errors of all its steps.
    def _bound_rounding(self, point: Float64, n_steps: int) -> Float64:
        if self._safe:
            return np.zeros_like(self._flow.lengths(point))
        size = ROUNDING_ERROR * np.sqrt(n_steps) * max(1.0, float(np.abs(point).max(initial=0.0)))
        start = self._start + size * np.random.default_rng(0).choice([-1.0, 1.0], len(point))
        end = self._flow.descend(start, self._step_size, n_steps)
        return ROUNDING_FACTOR * self._flow.lengths(end - point)

    # The point after a number of plain steps, and the size of the last oscillation, by block.
    def _descend_from(self, point: Float64, n_steps: int) -> tuple[Float64, Float64]:
        points = [self._flow.descend(point, self._step_size, n_steps - 3)]
        for _ in range(3):
            points.append(self._flow.descend(points[-1], self._step_size, 1))
        # An oscillation (−1)^t A has third differences ∓8 A; those of a smooth path are negligible.
        return points[-1], self._flow.lengths(np.diff(points, n=3, axis=0)[0]) / 8.0

    def _is_calm(self, point: Float64, oscillation: Float64) -> Bool:
        return oscillation <= CALM * np.maximum(1.0, self._flow.lengths(point))

    def _is_stable(self, point: Float64) -> Bool:
        if self._safe:
            return np.ones(len(self._flow.lengths(point)), np.bool_)
        enough = STABILITY_LIMIT / self._step_size
        return self._flow.sharpness(point, enough) < enough

    # The state at a step, with the error of the correction; infinite beyond the edge.
    def _follow(self, state: FlowState, to: float) -> FlowState:
        if np.isinf(state.error).all():  # the point after the last plain step is as good as any
            return replace(state, step=to)
        gradient, stable = self._gradient_at(state), np.isfinite(state.error)
        left_out = np.zeros_like(state.error)
        for later in integrate(self._flow, state, to, step_size=self._step_size, rtol=self._rtol):
            next_gradient = self._gradient_at(later)
            left_out = left_out + CAUTION * self._find_missing(state, gradient, next_gradient)
            stable = stable & self._is_stable(later.point)
            state, gradient = later, next_gradient
        return replace(state, error=np.where(stable, state.error + left_out, np.inf))

    # ½ ‖u‖ dθ + ½ ‖η H u‖ d ln‖u‖ between two states, u their ``gradient`` and ``next_gradient``.
    def _find_missing(self, state: FlowState, gradient: Float64, next_gradient: Float64) -> Float64:
        sizes = [np.maximum(self._flow.lengths(u), SMALLEST_GRADIENT) for u in (gradient, next_gradient)]
        rotation = gradient / self._flow.spread(sizes[0]) - next_gradient / self._flow.spread(sizes[1])
        next_point = self._flow.descend(state.point, self._step_size, 1)
        curvature = self._flow.lengths(self._gradient_at(replace(state, point=next_point)) - gradient)
        first_order = np.maximum(*sizes) * self._flow.lengths(rotation)
        return 0.5 * (first_order + curvature * np.abs(np.log(sizes[1] / sizes[0])))

    # η ∇L, from one step long enough to lose no digits.
    def _gradient_at(self, state: FlowState) -> Float64:
        moved = self._flow.descend(state.point, self._step_size * state.step, 1)
        return (state.point - moved) / state.step


def _goals(first: float, last: float) -> Iterator[float]:
    decade = 10.0 ** (np.floor(np.log10(first)) + 1.0)
    while decade < last:
        yield decade
        decade *= 10.0
    if last > first:
        yield last
