"""Gradient flow in log time, integrated implicitly.

With τ = ln t, gradient descent with step η follows dx/dτ = −η e^τ ∇L(x). In τ the solution bends on a scale
of about 1, so reaching step t costs O(ln t); but the equation is stiff (inside cycles the right-hand side
grows like t), so every stage is implicit. A stage solves x = a + γh·f(τ, x), that is

    x = argmin L(x) + ½ r ‖x − a‖²,   r = 1 / (γ h η e^τ),

a convex problem, which a :class:`LossFlow` answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.tables import Float64


class LossFlow(Protocol):
    """The gradient flow of a training loss, in coordinates in which it is plain: dx/dt = −η ∇L(x).

    Coordinates fall into blocks that do not know of one another.
    """

    def descend(self, place: Float64, step_size: float, n_steps: int) -> Float64:
        """Where plain gradient descent gets in ``n_steps`` steps."""
        ...

    def minimise(self, anchor: Float64, stiffness: float, start: Float64, atol: float) -> Float64:
        """The minimum of L(x) + ½ stiffness ‖x − anchor‖², to within about ``atol``; NaN if not found."""
        ...

    def damp(self, place: Float64, stiffness: float, move: Float64) -> Float64:
        """(1 + H / stiffness)⁻¹ move, H the curvature of L at ``place``."""
        ...

    def sharpness(self, place: Float64, enough: float = 0.0) -> Float64:
        """Bounds on the largest eigenvalue of the curvature in each block; rough ones below ``enough``."""
        ...

    def lengths(self, move: Float64) -> Float64:
        """The Euclidean length of a change in each block, shape (n_blocks,)."""
        ...

    def spread(self, values: Float64) -> Float64:
        """The value of its block for every coordinate, shape (n_coordinates,)."""
        ...


@dataclass(frozen=True)
class FlowState:
    """Where the flow is at one step.

    Attributes
    ----------
    step : float
        t.
    place : float64 array, shape (n_coordinates,)
        The coordinates.
    error : float64 array, shape (n_blocks,)
        Estimated error: the sum of the errors of all steps so far. The loss is convex, so two solutions
        never move apart, and no error grows afterwards.
    width : float
        The step in ln t to try next.
    """

    step: float
    place: Float64
    error: Float64
    width: float


GAMMA = 0.25
STAGES = (
    (),
    (1 / 2,),
    (17 / 50, -1 / 25),
    (371 / 1360, -137 / 2720, 15 / 544),
    (25 / 24, -49 / 48, 125 / 16, -85 / 12),
)
TIMES = (1 / 4, 3 / 4, 11 / 20, 1 / 2, 1.0)
WEIGHTS = (25 / 24, -49 / 48, 125 / 16, -85 / 12, 1 / 4)
COMPARED = (59 / 48, -17 / 96, 225 / 32, -85 / 12, 0.0)
"""A singly diagonally implicit method of order 4 with one of order 3 inside, L-stable and stiffly accurate
(Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.6)."""

SMALLEST_WIDTH = 1e-6


def last(flow: LossFlow, state: FlowState, to: float, *, step_size: float, rtol: float) -> FlowState:
    """The state at step ``to``."""
    for later in integrate(flow, state, to, step_size=step_size, rtol=rtol):
        state = later
    return state


def integrate(
    flow: LossFlow, state: FlowState, to: float, *, step_size: float, rtol: float
) -> Iterator[FlowState]:
    """The states after each accepted step, the last one at step ``to``.

    In no block is the estimated error of a step above ``rtol`` · max(1, length of its coordinates).
    """
    while state.step < to:
        left = float(np.log(to / state.step))
        width = left if state.width > 0.999 * left else state.width
        place, missed = _advance(flow, state, width, step_size, rtol)
        error = float(np.max(missed / np.maximum(1.0, flow.lengths(place)), initial=0.0)) / rtol
        if not error <= 1.0:
            shorter = width * (max(0.2, 0.9 * error**-0.25) if np.isfinite(error) else 0.2)
            if shorter < SMALLEST_WIDTH:
                raise UncertifiedSolution(
                    f"gradient flow could not be followed beyond step {state.step:.3g} with rtol={rtol:.0e}; "
                    "end earlier, take a larger rtol, or a smaller step_size if plain descent itself jumps"
                )
            state = FlowState(state.step, state.place, state.error, shorter)
            continue
        wider = max(width * min(3.0, 0.9 * max(error, 1e-8) ** -0.25), state.width if width == left else 0.0)
        step = to if width == left else state.step * float(np.exp(width))
        state = FlowState(step, place, state.error + missed, wider)
        yield state


def _advance(
    flow: LossFlow, state: FlowState, width: float, step_size: float, rtol: float
) -> tuple[Float64, Float64]:
    """One step of ``width`` in ln t, and its estimated error by block (NaN if a stage was not solved)."""
    slopes: list[Float64] = []
    place, stiffness = state.place, 1.0
    for row, time in zip(STAGES, TIMES, strict=True):
        anchor = state.place + width * _combine(row, slopes)
        pace = step_size * state.step * float(np.exp(time * width))
        stiffness = 1.0 / (GAMMA * width * pace)
        guess = anchor + GAMMA * width * slopes[-1] if slopes else anchor
        rounding = 1e-13 * max(1.0, float(np.abs(guess).max(initial=0.0)))
        place = flow.minimise(anchor, stiffness, guess, max(1e-3 * rtol, rounding))
        if not np.isfinite(place).all():
            return place, flow.lengths(place)
        slopes.append((place - anchor) / (GAMMA * width))
    difference = [weight - other for weight, other in zip(WEIGHTS, COMPARED, strict=True)]
    return place, flow.lengths(flow.damp(place, stiffness, width * _combine(difference, slopes)))


def _combine(weights: tuple[float, ...] | list[float], slopes: list[Float64]) -> Float64:
    return np.asarray(sum(weight * slope for weight, slope in zip(weights, slopes, strict=True)), np.float64)
