"""What a training run leaves: the weights of every trial at the steps that were recorded."""

from dataclasses import dataclass

import numpy as np

from attomaton.corpora.samples import Samples
from attomaton.errors import UnknownToken
from attomaton.models.attention import AttentionModel
from attomaton.tables import Float64, Int64
from attomaton.training.steps import Step


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """Recorded weights and losses.

    Attributes
    ----------
    steps : int64 array, shape (n_records,)
        Steps taken before each record; the first is 0.
    weights : float64 array, shape (n_records, n_trials, dim, dim)
        W.
    losses : float64 array, shape (n_records, n_trials)
        The mean loss over the realisable samples of each trial.
    embeddings : float64 array, shape (n_trials, n_tokens, dim)
        E of each trial.
    samples : tuple of Samples
        What each trial was trained on.
    model : AttentionModel
        What was trained.
    step : Step
        How.
    """

    steps: Int64
    weights: Float64
    losses: Float64
    embeddings: Float64
    samples: tuple[Samples, ...]
    model: AttentionModel
    step: Step

    def __repr__(self) -> str:
        return f"Trace({self.n_trials:,} trials, {len(self.steps):,} records to step {self.steps[-1]:,})"

    @property
    def n_trials(self) -> int:
        """How many trials were trained."""
        return self.weights.shape[1]

    def at(self, step: int) -> Float64:
        """W of all trials after ``step`` steps, shape (n_trials, dim, dim), if it was recorded."""
        place = np.flatnonzero(self.steps == step)
        if not len(place):
            raise UnknownToken(f"step {step} was not recorded; trace.steps lists the records")
        return self.weights[place[0]]
