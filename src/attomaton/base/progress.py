"""How work tells how far it is, and to whom.

What has several stages takes a :data:`Progress`. What has only one takes an :data:`Advance`, and what cannot
tell how much there is to do, a callable for the name of the stage.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str, int, int], object]
"""Called with a stage, how much of it is done and how much there is; with 0 and 0 as the stage begins."""

Advance = Callable[[int, int], object]
"""Called with how much is done and how much there is."""


def silent(*_: object) -> None:
    """Tell nobody, in whatever form."""


@dataclass(frozen=True)
class Stages:
    """A :data:`Progress` made of its two halves.

    Attributes
    ----------
    begin : callable
        Called with the name of a stage as it begins.
    advance : callable
        Called with how much of it is done and how much there is.

    Examples
    --------
    >>> progress = Stages(begin=print)
    >>> progress("reading", 0, 0)
    reading
    >>> progress("reading", 1, 2)
    """

    begin: Callable[[str], object] = silent
    advance: Advance = silent

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Say that a stage begins, or how much of it is done."""
        if total:
            self.advance(done, total)
        else:
            self.begin(stage)


def as_stages(progress: bool | Callable[[str], object]) -> Stages:
    """What a user may give: whether to name stages on stderr, or what to call, perhaps with ``advance``."""
    if not callable(progress):
        return Stages(lambda stage: sys.stderr.write(f"{stage}\n")) if progress else Stages()
    return Stages(progress, getattr(progress, "advance", silent))
