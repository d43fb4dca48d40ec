"""The weights at step t of training."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.trajectory.expansion import Expansion as Expansion, expand as expand
    from attomaton.trajectory.forward import Trajectory as Trajectory, fast_forward as fast_forward
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
