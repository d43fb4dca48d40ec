"""Report progress: a :data:`Progress` for work with several stages, an :data:`Advance` for a single stage."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str, int, int], object]
"""Called with a stage, the amount done and the total; with 0 and 0 as the stage begins."""

Advance = Callable[[int, int], object]
"""Called with the amount done and the total."""


def silent(*_: object) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Stages:
    """A :data:`Progress` of two functions: of the name of a stage, and of the amount done and the total."""

    begin: Callable[[str], object] = silent
    advance: Advance = silent

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        if total:
            self.advance(done, total)
        else:
            self.begin(stage)


def as_stages(progress: bool | Callable[[str], object]) -> Stages:
    """The stages for a user's ``progress``: whether to print to stderr, or a callable (with ``advance``)."""
    if not callable(progress):
        return Stages(lambda stage: sys.stderr.write(f"{stage}\n")) if progress else Stages()
    return Stages(progress, getattr(progress, "advance", silent))
