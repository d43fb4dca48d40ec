"""Training several layers of the Y/Z model, or one with a residual, on drawn sequences."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from attomaton.scansnap.draws import draw_sequences
from attomaton.scansnap.model.descend import ScanTrace, Setup, Task, descend, draw_start, mean_loss
from attomaton.scansnap.model.forward import logits_of_sequences
from attomaton.scansnap.reduced import Reduced
from attomaton.tables import Float64


def train_stack(
    reduced: Reduced,
    rates: Float64,
    setup: Setup,
    *,
    n_layers: int = 1,
    residual: bool = False,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ScanTrace:
    """Train a stack, a trial for each row of ``rates``; the theory itself has one layer and no residual.

    Parameters
    ----------
    reduced : Reduced
        The corpus; the weights are those of its whole vocabulary, so it should be small.
    rates : array, shape (n_trials, 2)
        η_Y and η_Z of each trial, the same in all layers.
    setup : Setup
        How to train. From zero a stack does not move: use a random start.
    n_layers : int
        How many layers, with ReLU between them.
    residual : bool
        Whether the input of a layer is added to what it attends to.
    seed : int
        Trial i draws by the i-th child of this seed, whatever else is trained beside it.
    progress : callable, optional
        Called now and then with how many trials are done, and how many there are.

    Examples
    --------
    >>> from attomaton.scansnap.classes import draw_linear_classes
    >>> setup = Setup(n_steps=5, batch_size=16, length=16, random_start=True)
    >>> trace = train_stack(Reduced(draw_linear_classes(2)), np.array([[1.0, 1.0]]), setup, n_layers=2)
    >>> trace.scores.shape  # records, trials, layers, and Z over the whole vocabulary
    (6, 1, 2, 34, 34)
    """
    n_tokens = reduced.classes.n_tokens
    labels = reduced.classes.labels.astype(np.int64)

    def start(generators: Sequence[np.random.Generator]) -> list[Tensor]:
        return [draw_start((n_tokens, n_tokens), n_tokens, setup, generators) for _ in range(2 * n_layers)]

    def miss(weights: list[Tensor], generators: Sequence[np.random.Generator]) -> Tensor:
        drawn = [draw_sequences(reduced, setup.batch_size, setup.length, rng) for rng in generators]
        number, tokens = (np.stack([one[part] for one in drawn]) for part in (0, 1))
        logits = logits_of_sequences(weights[::2], weights[1::2], torch.as_tensor(tokens), residual=residual)
        return mean_loss(logits, torch.as_tensor(labels[number]))

    def read(weights: list[Tensor]) -> Tensor:
        return torch.stack(weights[1::2], dim=1)

    return descend(Task(start, miss, read), rates, setup, seed=seed, progress=progress)
