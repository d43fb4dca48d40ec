"""Training stopped at a finite step: the trajectory is followed once and read at any step."""

import numpy as np

from attomaton.automaton.finite import FiniteAttention
from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.graphs.components import Components
from attomaton.trajectory.forward import fast_forward

RTOL = 1e-4
"""Accuracy of a step in ln t: far below what held-out text can tell apart."""


class StoppedTraining:
    """Training on some samples, followed as far as was asked; remembers its last answer."""

    def __init__(self, samples: Samples, components: Components, step_size: float) -> None:
        self._samples, self._step_size = samples, step_size
        self._n_tokens = components.edges.n_tokens
        self._trajectory = fast_forward(
            samples, components=components, step_size=step_size, to=1.0, rtol=RTOL
        )
        self._answer: tuple[float, FiniteAttention] | None = None

    def serves(self, samples: Samples, step_size: float) -> bool:
        """Whether this is training on these samples with this step size."""
        return self._samples is samples and self._step_size == step_size

    def at(self, step: float, vocabulary: Vocabulary | None, window: int | None) -> FiniteAttention:
        """Attention after ``step`` steps of plain descent from zero."""
        if self._answer is None or self._answer[0] != step:
            scores = self._trajectory.scores_at(step)
            self._answer = step, FiniteAttention(scores, np.zeros(self._n_tokens), vocabulary, window)
        return self._answer[1]
