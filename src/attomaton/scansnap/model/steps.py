"""Steps of the Y/Z model under their old names, for one more release.

They are those of :mod:`attomaton.training.steps` now.
"""

import warnings

from attomaton.training import steps


def Momentum(momentum: float = 0.9) -> steps.GradientDescent:  # noqa: N802
    """What ``GradientDescent(1.0, momentum=…)`` is now."""
    _warn("Momentum(0.9)", "GradientDescent(1.0, momentum=0.9)")
    return steps.GradientDescent(1.0, momentum=momentum)


def Adam(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> steps.Adam:  # noqa: N802
    """What ``Adam(1.0, …)`` is now."""
    _warn("Adam()", "Adam(1.0)")
    return steps.Adam(1.0, betas, eps)


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"attomaton.scansnap.model.steps goes with the next release: {old} is {new} of "
        "attomaton.training.steps now",
        DeprecationWarning,
        stacklevel=3,
    )
