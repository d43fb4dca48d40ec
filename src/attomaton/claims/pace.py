"""What steepest descent must have reached by the end of a run, from where it was at half of the steps.

On data without cycles a step D of steepest descent, ‖D‖ = η in the optimiser's norm, lowers the loss by

    L − L⁺ ≥ G (γη − ψ(Rη)),   ψ(z) = eᶻ − 1 − z,

with G the mean attention off the labels, γ the best margin in that norm, and R the most that a W of norm 1
moves a score difference: the gradient pulls with γG at least, and along D the loss bends by G R² e^{Rτ} at
most. With n samples, −ln(nL) is a margin but for how often tokens are repeated, and G ≥ L·κ with κ → 1 as the
loss falls. So from half of the steps on the margin grows by nearly γ for each unit of ‖W‖, and at the end its
share of the best is at least what :func:`bound_share` says, whatever the second half was like.
"""

from collections.abc import Callable

import numpy as np

from attomaton.base.tables import Float64


def list_paces(step_size: float, schedule: Callable[[int], float] | None, first: int, last: int) -> Float64:
    """η_t of the steps first, …, last − 1, counted from 0."""
    if schedule is None:
        return np.full(last - first, step_size)
    return step_size * np.array([schedule(step) for step in range(first, last)])


def bound_share(
    paces: Float64, *, best: float, reach: float, size: float, surprise: float, odds: float
) -> float:
    """The share of the best margin that steps of these lengths must reach; −inf if none is proved."""
    gains = find_gains(paces, best=best, reach=reach)
    if not len(paces) or gains.min() < 0 or not 0 < surprise < np.inf:
        return -np.inf
    kept = -np.expm1(-surprise) / surprise  # κ: least G over L
    log_surprise = np.log(surprise) - kept * float(gains.sum())
    # the largest single loss is at most the summed one, and e^loss − 1 ≥ e^−margin / odds
    margin = -_log_expm1(log_surprise) - np.log(odds)
    return float(margin / (best * (size + float(paces.sum()))))


def find_gains(paces: Float64, *, best: float, reach: float) -> Float64:
    """γη − ψ(Rη) of each step: what it takes off the loss, over G; less than zero if it is too long."""
    return best * paces - (np.expm1(reach * paces) - reach * paces)


def _log_expm1(log_value: float) -> float:
    """ln(e^x − 1) from ln x, where x may be too small to be added to 1."""
    value = np.exp(log_value)
    return log_value if value < 1e-8 else float(np.log(np.expm1(value)))
