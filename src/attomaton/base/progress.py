"""Progress reports.

Work with several stages takes a :data:`Progress`. Work with only one takes an :data:`Advance`, and work of
unknown length takes a callable for the name of the stage.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str, int, int], object]
"""Called with a stage, the amount done and the total; with 0 and 0 as the stage begins."""

Advance = Callable[[int, int], object]
"""Called with the amount done and the total."""


def silent(*_: object) -> None:
    """Report nothing, whatever the arguments."""


@dataclass(frozen=True)
class Stages:
    """A :data:`Progress` made of its two halves.

    Attributes
    ----------
    begin : callable
        Called with the name of a stage as it begins.
    advance : callable
        Called with the amount done and the total.
    """

    begin: Callable[[str], object] = silent
    advance: Advance = silent

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Report that a stage begins, or how much of it is done."""
        if total:
            self.advance(done, total)
        else:
            self.begin(stage)


def as_stages(progress: bool | Callable[[str], object]) -> Stages:
    """A user's ``progress`` as stages: whether to print them to stderr, or a callable (with ``advance``)."""
    if not callable(progress):
        return Stages(lambda stage: sys.stderr.write(f"{stage}\n")) if progress else Stages()
    return Stages(progress, getattr(progress, "advance", silent))
