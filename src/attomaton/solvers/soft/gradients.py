"""Conjugate gradients for many small systems at once, each with its own steps.

One system per component, all in one vector. A joint solve would need as many iterations as all components
have distinct eigenvalues; here each needs at most its own size.
"""

from collections.abc import Callable

import numpy as np

from attomaton.base.ragged import sum_at
from attomaton.base.tables import Float64, Int64

Product = Callable[[Float64], Float64]


def solve_systems(
    product: Product, right: Float64, scale: Float64, system: Int64, *, rtol: float, max_steps: int
) -> Float64:
    """Solve H x = right for block-diagonal, positive semidefinite H, from zero."""
    size = int(system.max(initial=-1)) + 1
    answer, residual = np.zeros_like(right), right.copy()
    direction = residual / scale
    energy = sum_at(system, residual * direction, size)
    goal = rtol**2 * energy
    for _ in range(max_steps):
        open_systems = energy > goal
        if not open_systems.any():
            break
        image = product(direction)
        bend = sum_at(system, direction * image, size)
        length = np.divide(energy, bend, out=np.zeros(size), where=open_systems & (bend > 0))
        answer += length[system] * direction
        residual -= length[system] * image
        scaled = residual / scale
        fresh = sum_at(system, residual * scaled, size)
        turn = np.divide(fresh, energy, out=np.zeros(size), where=open_systems & (energy > 0))
        direction = np.where(open_systems[system], scaled + turn[system] * direction, 0.0)
        energy = np.where(open_systems & (bend > 0), fresh, 0.0)
    return answer
