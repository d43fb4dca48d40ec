"""Training stopped at a finite step: the trajectory is followed once and read at any step."""

from dataclasses import dataclass

import numpy as np

from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.limit.fast_forward import Trajectory, fast_forward
from attomaton.limit.finite import FiniteAttention

RTOL = 1e-4
"""Accuracy of a step in ln t: far below what held-out text can tell apart."""


@dataclass(frozen=True, eq=False)
class _Followed:
    """A trajectory, and what it was followed for."""

    samples: Samples
    step_size: float
    trajectory: Trajectory


class StoppedTraining:
    """What training has become by a step; remembers the last trajectory and the last answer."""

    def __init__(self) -> None:
        self._followed: _Followed | None = None
        self._answer: tuple[float, FiniteAttention] | None = None

    def at(
        self, step: float, samples: Samples, *, step_size: float, vocabulary: Vocabulary | None
    ) -> FiniteAttention:
        """Attention after ``step`` steps of plain descent from zero on ``samples``."""
        known = self._followed
        if known is None or known.samples is not samples or known.step_size != step_size:
            trajectory = fast_forward(samples, step_size=step_size, to=max(step, 1.0), rtol=RTOL)
            known = _Followed(samples, step_size, trajectory)
            self._followed, self._answer = known, None
        if self._answer is None or self._answer[0] != step:
            scores = known.trajectory.scores_at(step)
            self._answer = step, FiniteAttention(scores, np.zeros(samples.n_tokens), vocabulary)
        return self._answer[1]
