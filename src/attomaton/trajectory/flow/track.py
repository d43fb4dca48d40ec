"""Follow one flow through time: plain steps first, then integration, with one saved state per decade.

Plain gradient descent is not a flow. With u = η ∇L along the flow, each of its steps differs from it by −½ η
H u. While u keeps its direction this adds up to W_descent = W_flow + ½ ln(‖u‖/‖u₀‖)·u, with u₀ at the start
of the flow: zero while the gradient stays constant, half a step ahead for each factor e by which it has
fallen. States are saved along the flow and corrected when read. The correction omits ½ ‖u‖ dθ per step, θ the
angle by which u has rotated, and terms of the next order, about ½ ‖η H u‖ d ln‖u‖. Below the edge of
stability no step of descent moves two points further apart, so the error is at most their sum.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.tables import Bool, Float64
from attomaton.trajectory.flow.embedded import EmbeddedFlow
from attomaton.trajectory.flow.orthonormal import OrthonormalFlow
from attomaton.trajectory.sharpness import STABILITY_LIMIT

LossFlow = OrthonormalFlow | EmbeddedFlow
"""The gradient flow of a training loss, in coordinates in which it has the form dx/dt = −η ∇L(x).

Coordinates fall into independent blocks.
"""

WARM_UP = 1_000
"""Plain steps before the flow takes over, if a step can move scores by about 1."""

FEWEST_PLAIN = 20
"""Minimum number of plain steps before the flow takes over."""

MOST_WARM_UPS = 32
"""Maximum number of warm-ups, if gradient descent still oscillates at the end of one."""

CALM = 1e-7
"""Oscillations this small, relative to the norm of the coordinates, need no longer warm-up."""

FALLING = 0.9
"""Oscillations that do not fall to this share while the warm-up doubles do not die out."""

ROUNDING_ERROR, ROUNDING_FACTOR = 1e-15, 10.0
"""Size of a rounding error, and factor on the distance of a second descent to bound its effect."""

FIRST_WIDTH, SMALLEST_WIDTH = 0.1, 1e-6
"""The first step in ln t, and the one below which the flow is given up."""

SMALLEST_GRADIENT = 1e-300
"""Gradients are taken to be at least this, so that they have a logarithm."""

CAUTION = 2.0
"""Factor on the rotation of the gradient between two states as error: it may rotate back and forth."""

GAMMA = 0.25
"""The diagonal of the method below."""

STAGES = (
    (),
    (1 / 2,),
    (17 / 50, -1 / 25),
    (371 / 1360, -137 / 2720, 15 / 544),
    (25 / 24, -49 / 48, 125 / 16, -85 / 12),
)
STAGE_TIMES = (1 / 4, 3 / 4, 11 / 20, 1 / 2, 1.0)
FOURTH_ORDER = (25 / 24, -49 / 48, 125 / 16, -85 / 12, 1 / 4)
THIRD_ORDER = (59 / 48, -17 / 96, 225 / 32, -85 / 12, 0.0)
"""A singly diagonally implicit method of order 4 with one of order 3 inside, L-stable and stiffly accurate
(Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.6)."""


@dataclass(frozen=True)
class FlowState:
    """The state of the flow at one step.

    The loss is convex, so two solutions never move apart, and no error grows afterwards.
    """

    step: float
    point: Float64  # (n_coordinates,)
    error: Float64  # (n_blocks,): the sum of the estimated errors of all steps so far
    width: float  # the step in ln t to try next


def integrate(
    flow: LossFlow, state: FlowState, to: float, *, step_size: float, rtol: float
) -> Iterator[FlowState]:
    """The states after each accepted step, the last one at step ``to``.

    In each block, the estimated error of a step is at most ``rtol`` · max(1, norm of its coordinates).
    """
    while state.step < to:
        remaining = float(np.log(to / state.step))
        width = remaining if state.width > 0.999 * remaining else state.width
        point, estimate = _step_implicitly(flow, state, width, step_size, rtol)
        error = float(np.max(estimate / np.maximum(1.0, flow.lengths(point)), initial=0.0)) / rtol
        if not error <= 1.0:
            shorter = width * (max(0.2, 0.9 * error**-0.25) if np.isfinite(error) else 0.2)
            if shorter < SMALLEST_WIDTH:
                raise UncertifiedSolution(
                    f"gradient flow could not be followed beyond step {state.step:.3g} with rtol={rtol:.0e}; "
                    "end earlier, use a larger rtol, or use a smaller step_size if descent itself oscillates"
                )
            state = FlowState(state.step, state.point, state.error, shorter)
            continue
        wider = max(
            width * min(3.0, 0.9 * max(error, 1e-8) ** -0.25), state.width if width == remaining else 0.0
        )
        step = to if width == remaining else state.step * float(np.exp(width))
        state = FlowState(step, point, state.error + estimate, wider)
        yield state


def _step_implicitly(
    flow: LossFlow, state: FlowState, width: float, step_size: float, rtol: float
) -> tuple[Float64, Float64]:
    """One step of ``width`` in ln t, and its estimated error by block (NaN if a stage was not solved)."""
    slopes: list[Float64] = []
    point, stiffness = state.point, 1.0
    for row, time in zip(STAGES, STAGE_TIMES, strict=True):
        anchor = state.point + width * _combine(row, slopes)
        pace = step_size * state.step * float(np.exp(time * width))
        stiffness = 1.0 / (GAMMA * width * pace)
        guess = anchor + GAMMA * width * slopes[-1] if slopes else anchor
        rounding = 1e-13 * max(1.0, float(np.abs(guess).max(initial=0.0)))
        point = flow.minimise(anchor, stiffness, guess, max(1e-3 * rtol, rounding))
        if not np.isfinite(point).all():
            return point, flow.lengths(point)
        slopes.append((point - anchor) / (GAMMA * width))
    difference = [fourth - third for fourth, third in zip(FOURTH_ORDER, THIRD_ORDER, strict=True)]
    return point, flow.lengths(flow.damp(point, stiffness, width * _combine(difference, slopes)))


def _combine(weights: tuple[float, ...] | list[float], slopes: list[Float64]) -> Float64:
    return np.asarray(sum(weight * slope for weight, slope in zip(weights, slopes, strict=True)), np.float64)


class Track:
    """The state of plain gradient descent at any step."""

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
        """The last step computed so far."""
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

    def _warm_up(self, settles: bool) -> FlowState:
        """Plain descent, longer where it oscillates; oscillations that do not die out are infinite errors."""
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

    def _bound_rounding(self, point: Float64, n_steps: int) -> Float64:
        """A bound by block on the effect of rounding in plain descent, which grows where curvature is high.

        It uses a second descent that starts at the distance of the rounding errors of all its steps.
        """
        if self._safe:
            return np.zeros_like(self._flow.lengths(point))
        size = ROUNDING_ERROR * np.sqrt(n_steps) * max(1.0, float(np.abs(point).max(initial=0.0)))
        start = self._start + size * np.random.default_rng(0).choice([-1.0, 1.0], len(point))
        return ROUNDING_FACTOR * self._flow.lengths(
            self._flow.descend(start, self._step_size, n_steps) - point
        )

    def _descend_from(self, point: Float64, n_steps: int) -> tuple[Float64, Float64]:
        """The point after a number of plain steps, and the size of the last oscillation, by block.

        An oscillation (−1)^t A has third differences ∓8 A; those of a smooth path are negligible.
        """
        points = [self._flow.descend(point, self._step_size, n_steps - 3)]
        for _ in range(3):
            points.append(self._flow.descend(points[-1], self._step_size, 1))
        return points[-1], self._flow.lengths(np.diff(points, n=3, axis=0)[0]) / 8.0

    def _is_calm(self, point: Float64, oscillation: Float64) -> Bool:
        return oscillation <= CALM * np.maximum(1.0, self._flow.lengths(point))

    def _is_stable(self, point: Float64) -> Bool:
        """Whether curvature is below the edge, by block."""
        if self._safe:
            return np.ones(len(self._flow.lengths(point)), np.bool_)
        enough = STABILITY_LIMIT / self._step_size
        return self._flow.sharpness(point, enough) < enough

    def _follow(self, state: FlowState, to: float) -> FlowState:
        """The state at a step, with the error of the correction; infinite beyond the edge."""
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

    def _find_missing(self, state: FlowState, gradient: Float64, next_gradient: Float64) -> Float64:
        """½ ‖u‖ dθ + ½ ‖η H u‖ d ln‖u‖ between two states, u their ``gradient`` and ``next_gradient``."""
        sizes = [np.maximum(self._flow.lengths(u), SMALLEST_GRADIENT) for u in (gradient, next_gradient)]
        rotation = gradient / self._flow.spread(sizes[0]) - next_gradient / self._flow.spread(sizes[1])
        next_point = self._flow.descend(state.point, self._step_size, 1)
        curvature = self._flow.lengths(self._gradient_at(replace(state, point=next_point)) - gradient)
        first_order = np.maximum(*sizes) * self._flow.lengths(rotation)
        return 0.5 * (first_order + curvature * np.abs(np.log(sizes[1] / sizes[0])))

    def _gradient_at(self, state: FlowState) -> Float64:
        """η ∇L, from one step long enough to lose no digits."""
        moved = self._flow.descend(state.point, self._step_size * state.step, 1)
        return (state.point - moved) / state.step


def _goals(first: float, last: float) -> Iterator[float]:
    """The powers of ten between two steps, and the last one."""
    decade = 10.0 ** (np.floor(np.log10(first)) + 1.0)
    while decade < last:
        yield decade
        decade *= 10.0
    if last > first:
        yield last
