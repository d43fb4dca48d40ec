"""Training stopped at a finite step: the trajectory is followed once and read at any step."""

import numpy as np

from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.graphs.components import Components
from attomaton.limit.fast_forward import fast_forward
from attomaton.limit.finite import FiniteAttention

RTOL = 1e-4
"""Accuracy of a step in ln t: far below what held-out text can tell apart."""


class Followed:
    """Training on some samples, followed as far as was asked; remembers its last answer."""

    def __init__(self, samples: Samples, components: Components, step_size: float) -> None:
        self.samples, self.step_size = samples, step_size
        self._n_tokens = components.edges.n_tokens
        self._trajectory = fast_forward(
            samples, components=components, step_size=step_size, to=1.0, rtol=RTOL
        )
        self._answer: tuple[float, FiniteAttention] | None = None

    def at(self, step: float, vocabulary: Vocabulary | None) -> FiniteAttention:
        """Attention after ``step`` steps of plain descent from zero."""
        if self._answer is None or self._answer[0] != step:
            scores = self._trajectory.scores_at(step)
            self._answer = step, FiniteAttention(scores, np.zeros(self._n_tokens), vocabulary)
        return self._answer[1]


class StoppedTraining:
    """The last training that was followed."""

    def __init__(self) -> None:
        self._last: Followed | None = None

    def follow(self, samples: Samples, components: Components, step_size: float) -> Followed:
        """Training on these samples with this step size; not begun anew if it is the last one."""
        last = self._last
        if last is None or last.samples is not samples or last.step_size != step_size:
            last = self._last = Followed(samples, components, step_size)
        return last
