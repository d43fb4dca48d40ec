"""Training one layer of the Y/Z model on counts of drawn sequences."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from attomaton.scansnap.draws import draw_counts
from attomaton.scansnap.model.descend import ScanTrace, Setup, Task, descend, draw_start, mean_loss
from attomaton.scansnap.model.forward import logits_of_counts
from attomaton.scansnap.reduced import Reduced
from attomaton.tables import Float64


def train_classes(
    reduced: Reduced,
    rates: Float64,
    setup: Setup,
    *,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> ScanTrace:
    """Train one layer, a trial for each row of ``rates``.

    Large batches without momentum follow the expected gradient at this length of sequences.

    Parameters
    ----------
    reduced : Reduced
        The corpus.
    rates : array, shape (n_trials, 2)
        η_Y and η_Z of each trial.
    setup : Setup
        How to train.
    seed : int
        Trial i draws by the i-th child of this seed, whatever else is trained beside it.
    progress : callable, optional
        Called now and then with how many trials are done, and how many there are.

    Examples
    --------
    >>> from attomaton.scansnap.classes import draw_linear_classes
    >>> reduced = Reduced(draw_linear_classes(2))
    >>> trace = train_classes(reduced, np.array([[1.0, 1.0]]), Setup(n_steps=20))
    >>> attention = reduced.attention(trace.scores[:, 0])  # at each record
    >>> bool(np.diff(reduced.distinct_entropy(attention)[[0, -1]]) < 0)  # distinct tokens: fewer of them
    True
    """
    n_tokens = reduced.classes.n_tokens
    shapes = [(len(reduced.used), n_tokens), reduced.shapes[1]]
    labels = reduced.classes.labels.astype(np.int64)

    def start(generators: Sequence[np.random.Generator]) -> list[Tensor]:
        return [draw_start(shape, n_tokens, setup, generators) for shape in shapes]

    def miss(weights: list[Tensor], generators: Sequence[np.random.Generator]) -> Tensor:
        drawn = [draw_counts(reduced, (setup.batch_size,), setup.length, rng) for rng in generators]
        number = np.stack([one.classes for one in drawn])
        counts = torch.as_tensor(np.stack([one.counts for one in drawn]), dtype=torch.float32)
        decoder, scores = weights
        logits = logits_of_counts(decoder, scores, counts, torch.as_tensor(reduced.query_of[number]))
        return mean_loss(logits, torch.as_tensor(labels[number]))

    return descend(Task(start, miss, lambda weights: weights[1]), rates, setup, seed=seed, progress=progress)
