"""Schedules: how the step size changes with the step. A run that was stored knows them again."""

from collections.abc import Callable
from dataclasses import dataclass

from attomaton.base.options import real_number, settle


@dataclass(frozen=True)
class Decay:
    """η_t = η t^(−power) at step t = 1, 2, …: what theorems about margins ask for, with a power of ½.

    Attributes
    ----------
    power : float
        From 0, which changes nothing, to 1.

    Examples
    --------
    >>> import attomaton as at
    >>> schedule = Decay()
    >>> [schedule(step) for step in (0, 3, 99)]  # steps are counted from 0
    [1.0, 0.5, 0.1]
    >>> at.GradientDescent(0.3, normalized=True, schedule=schedule).schedule
    Decay(power=0.5)
    """

    power: float = 0.5

    def __post_init__(self) -> None:
        settle(self, power=real_number(self.power, "power", least=0, most=1))

    def __call__(self, step: int) -> float:
        """The factor of η at a step counted from 0."""
        return (step + 1.0) ** -self.power


def find_pace(step_size: float, schedule: Callable[[int], float] | None, step: int) -> float:
    """η_t, the step size times the schedule's factor."""
    return step_size * (1.0 if schedule is None else schedule(step))
