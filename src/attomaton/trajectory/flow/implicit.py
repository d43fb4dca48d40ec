"""Integrate gradient flow implicitly in ln t, with an error estimate for each step."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.tables import Float64
from attomaton.trajectory.flow.embedded import EmbeddedFlow
from attomaton.trajectory.flow.orthonormal import OrthonormalFlow

# The gradient flow of a training loss, in coordinates in which it has the form dx/dt = −η ∇L(x).
#
# Coordinates fall into independent blocks.
LossFlow = OrthonormalFlow | EmbeddedFlow

SMALLEST_WIDTH = 1e-6  # the step in ln t below which the flow is given up

# The next step in ln t is SAFETY · (tolerance/error)^¼ of the last, within these factors.
SAFETY, LARGEST_GROWTH, LARGEST_CUT = 0.9, 3.0, 0.2

GAMMA = 0.25  # the diagonal of the method below

STAGES = (
    (),
    (1 / 2,),
    (17 / 50, -1 / 25),
    (371 / 1360, -137 / 2720, 15 / 544),
    (25 / 24, -49 / 48, 125 / 16, -85 / 12),
)
STAGE_TIMES = (1 / 4, 3 / 4, 11 / 20, 1 / 2, 1.0)
FOURTH_ORDER = (25 / 24, -49 / 48, 125 / 16, -85 / 12, 1 / 4)
# A singly diagonally implicit method of order 4 with one of order 3 inside, L-stable and stiffly accurate
# (Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.6).
THIRD_ORDER = (59 / 48, -17 / 96, 225 / 32, -85 / 12, 0.0)


@dataclass(frozen=True)
class FlowState:
    """The coordinates ``point`` at a training step, with the estimated ``error`` of each block (n_blocks,).

    Errors of integration add up: the loss is convex, so two solutions never move apart, and no error grows
    afterwards. ``width`` is the step in ln t to try next.
    """

    step: float
    point: Float64
    error: Float64
    width: float


def integrate(
    flow: LossFlow, state: FlowState, to: float, *, step_size: float, rtol: float
) -> Iterator[FlowState]:
    """The states after each accepted step, the last one at step ``to``.

    In each block, the estimated error of a step is at most ``rtol`` · max(1, norm of its coordinates).
    """
    while state.step < to:
        remaining = float(np.log(to / state.step))
        is_last = state.width > 0.999 * remaining
        width = remaining if is_last else state.width
        point, estimate = _step_implicitly(flow, state, width, step_size, rtol)
        error = float(np.max(estimate / np.maximum(1.0, flow.lengths(point)), initial=0.0)) / rtol
        if not error <= 1.0:
            cut = max(LARGEST_CUT, SAFETY * error**-0.25) if np.isfinite(error) else LARGEST_CUT
            if width * cut < SMALLEST_WIDTH:
                raise UncertifiedSolution(
                    f"gradient flow could not be followed beyond step {state.step:.3g} with rtol={rtol:.0e}; "
                    "end earlier, use a larger rtol, or use a smaller step_size if descent itself oscillates"
                )
            state = replace(state, width=width * cut)
            continue
        growth = min(LARGEST_GROWTH, SAFETY * max(error, 1e-8) ** -0.25)
        next_width = max(width * growth, state.width if is_last else 0.0)
        step = to if is_last else state.step * float(np.exp(width))
        state = FlowState(step, point, state.error + estimate, next_width)
        yield state


# One step of ``width`` in ln t, and its estimated error by block (NaN if a stage was not solved).
def _step_implicitly(
    flow: LossFlow, state: FlowState, width: float, step_size: float, rtol: float
) -> tuple[Float64, Float64]:
    slopes: list[Float64] = []
    point, stiffness = state.point, 1.0
    for row, time in zip(STAGES, STAGE_TIMES, strict=True):
        anchor = state.point + width * _combine(row, slopes)
        eta_t = step_size * state.step * float(np.exp(time * width))
        stiffness = 1.0 / (GAMMA * width * eta_t)
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
