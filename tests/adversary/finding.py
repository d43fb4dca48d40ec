"""What an attack finds, and what a target is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Rng = np.random.Generator


@dataclass(frozen=True)
class Finding:
    """One trial: how far the answer was from the reference, and how far it may be.

    Attributes
    ----------
    deviation, allowed : float
        In units of their own for each target.
    what : str
        Of what the deviation is.
    size : int
        How large the case is, so that the smallest of those that break a promise can be shown.
    case : dict
        All that is needed to make the case by hand.
    judged : bool
        Whether a promise was made and could be checked; an answer that is not certified promises nothing.
    kind : str
        What kind of case it is, for counts by kind.
    """

    deviation: float
    allowed: float
    what: str = ""
    size: int = 0
    case: dict[str, Any] = field(default_factory=dict)
    judged: bool = True
    kind: str = ""

    @property
    def violated(self) -> bool:
        """Whether the promise was broken; a deviation that is not a number breaks it."""
        return self.judged and not self.deviation <= self.allowed

    @property
    def used(self) -> float:
        """The share of what is allowed; infinite where nothing is."""
        if self.allowed > 0:
            return float(np.nan_to_num(self.deviation / self.allowed, nan=np.inf))
        return 0.0 if self.deviation == 0 else np.inf


@dataclass(frozen=True)
class Target:
    """A promise and its attack.

    Attributes
    ----------
    promise : str
        In a few words.
    attack : callable
        Random numbers → a finding.
    trials : int
        How many the gate makes.
    share_above_one : float, optional
        A part of the trials may have a deviation above 1, but no more than this.
    least_judged : float
        The share of the gate's trials in which a promise must be made: silence is not safety.
    patience : int
        How many shares of the minutes it gets.
    """

    promise: str
    attack: Callable[[Rng], Finding]
    trials: int
    share_above_one: float | None = None
    least_judged: float = 0.9
    patience: int = 1


def worst_of(
    checks: list[tuple[str, float, float]], size: int, case: dict[str, Any], *, kind: str = ""
) -> Finding:
    """The check (what, deviation, allowed) that uses most of what it is allowed."""
    found = [Finding(deviation, allowed, what, size, case, kind=kind) for what, deviation, allowed in checks]
    return max(found, key=lambda one: one.used) if found else unjudged("nothing to check", kind)


def unjudged(why: str, kind: str = "") -> Finding:
    """A trial in which no promise was made."""
    return Finding(0.0, 1.0, why, judged=False, kind=kind)
