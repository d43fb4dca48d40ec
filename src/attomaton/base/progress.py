"""Report progress: a :data:`Progress` for work in several stages, an :data:`Advance` for one stage."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

# Called with a stage, the amount done and the total; with 0 and 0 when the stage begins.
Progress = Callable[[str, int, int], object]

# Called with the amount done and the total.
Advance = Callable[[int, int], object]


def silent(*_: object) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Stages:
    """A :data:`Progress` from two functions: ``begin`` gets the name of a stage, ``advance`` its amounts."""

    begin: Callable[[str], object] = silent
    advance: Advance = silent

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        if total:
            self.advance(done, total)
        else:
            self.begin(stage)


def as_stages(progress: bool | Callable[[str], object]) -> Stages:
    """The stages for the argument ``progress`` of a user: whether to print to stderr, or a callable."""
    if not callable(progress):
        return Stages(lambda stage: sys.stderr.write(f"{stage}\n")) if progress else Stages()
    return Stages(progress, getattr(progress, "advance", silent))
