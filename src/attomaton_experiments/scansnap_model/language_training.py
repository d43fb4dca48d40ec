"""Training the one-layer language model on running text, and measuring its attention on the way."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.options import MOST_THREADS, real_number, settle, whole_number
from attomaton.base.progress import Advance, silent
from attomaton.base.tables import Float64, Integers
from attomaton_experiments.descent import descend, repeatable
from attomaton_experiments.scansnap_model.language_model import LanguageLayer, LanguageModel

FEW = 100
"""Windows that are measured at once."""

_torch: Any = torch  # its type stubs leave some functions partly unknown


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """Attention after some steps, over the measured windows.

    Attributes
    ----------
    loss : float
        Mean of −ln p(next token).
    entropy : float64 array, shape (window,)
        Mean over windows of −Σ a ln a, by the position of the query.
    by_distance : float64 array, shape (window,)
        Share of all attention on the key at each distance before the query; distance 0 is the query itself.
    largest : float
        Mean over rows of the largest weight.
    received : float64 array, shape (n_tokens,)
        Sum of the attention on each token as a key.
    shown : float64 array, shape (n_shown, window, window)
        Attention in the windows to be shown; rows are queries.

    Examples
    --------
    >>> text = np.arange(200) % 7
    >>> training = LanguageTraining(LanguageModel(7, width=4, hidden=4, window=5), batch_size=4)
    >>> [record] = training.run(text, cut_windows(text, 5, 2), records=(0,))
    >>> record.entropy.round(2).tolist()[0], record.shown.shape, record.by_distance.sum().round(6).item()
    (0.0, (1, 5, 5), 1.0)
    """

    step: int
    loss: float
    entropy: Float64
    by_distance: Float64
    largest: float
    received: Float64
    shown: Float64

    @property
    def mean_entropy(self) -> float:
        """Mean of −Σ a ln a over all rows."""
        return float(self.entropy.mean())


@dataclass(frozen=True)
class LanguageTraining:
    """Training settings: stochastic gradient descent without momentum, the gradient clipped by its norm.

    Attributes
    ----------
    rate : float
        Learning rate of all parameters except those of ``fast``.
    fast_rate : float
        Learning rate of the layers named in ``fast``.
    fast : tuple of str
        Names of layers: ``"linear1"``, ``"linear2"``, ``"decoder"``, …
    batch_size : int
        Number of streams that the text is cut into; a step reads the next window of each.
    clip : float
        Largest norm of the gradient of all parameters.
    seed : int
        Seed of the initial weights and of dropout.

    Examples
    --------
    >>> text = np.arange(2000) % 7  # each token has one successor
    >>> training = LanguageTraining(LanguageModel(7, width=8, hidden=8, window=5, dropout=0.0), rate=1.0)
    >>> first, last = training.run(text, cut_windows(text, 5, 10), records=(0, 100))
    >>> round(first.loss, 1), last.loss < 0.5
    (1.9, True)
    >>> tuple(next(training.batches(text)).shape)  # streams, window + 1
    (20, 6)
    """

    model: LanguageModel
    rate: float = 5.0
    fast_rate: float = 10.0
    fast: tuple[str, ...] = ("linear1",)
    batch_size: int = 20
    clip: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        settle(
            self,
            rate=real_number(self.rate, "rate", above=0),
            fast_rate=real_number(self.fast_rate, "fast_rate", least=0),
            clip=real_number(self.clip, "clip", above=0),
            batch_size=whole_number(self.batch_size, "batch_size", least=1),
            seed=whole_number(self.seed, "seed"),
        )

    def run(
        self,
        text: Integers,
        windows: Integers,
        *,
        records: tuple[int, ...],
        n_shown: int = 1,
        progress: Advance = silent,
    ) -> list[AttentionRecord]:
        """Train until the last record.

        Parameters
        ----------
        text : int array, shape (n,)
            The training text.
        windows : int array, shape (n_windows, window + 1)
            The windows for measuring (:func:`cut_windows`).
        records : tuple of int
            The steps at which to measure, ascending.
        n_shown : int
            Number of windows, from the first, whose full attention is stored.
        progress : callable
            Called after every step with the steps done and the total.
        """
        records = tuple(whole_number(record, "a record") for record in records)
        n_shown = whole_number(n_shown, "n_shown")
        if list(records) != sorted(set(records)) or not records:
            raise UnsupportedOption(f"records are {records}; give ascending numbers of steps")
        measured = torch.as_tensor(windows.astype(np.int64))
        with repeatable(self.seed):
            layer = LanguageLayer(self.model)
            measurements = [measure_attention(layer, measured, n_shown=n_shown)] if 0 in records else []
            for step, _ in descend(
                self._optimiser(layer),
                islice(self.batches(text), records[-1]),
                lambda batch: _mean_loss(layer, batch),
                layer=layer,
                clip=self.clip,
            ):
                if step in records:
                    measurements.append(measure_attention(layer, measured, step=step, n_shown=n_shown))
                progress(step, records[-1])
        return measurements

    def batches(self, text: Integers) -> Iterator[Tensor]:
        """Windows of all streams in order, shape (batch_size, window + 1), repeated without end."""
        length, window = len(text) // self.batch_size, self.model.window
        if length <= window:
            raise InvalidSamples(
                f"{len(text)} tokens for {self.batch_size} streams of more than {window} each; give more text"
            )
        usable = text[: length * self.batch_size].astype(np.int64)
        streams = torch.as_tensor(usable.reshape(self.batch_size, length))
        while True:
            for first in range(0, length - window, window):
                yield streams[:, first : first + window + 1]

    def _optimiser(self, layer: LanguageLayer) -> Any:
        named = {False: list[nn.Parameter](), True: list[nn.Parameter]()}
        for name, parameter in layer.named_parameters():
            named[name.split(".")[0] in self.fast].append(parameter)
        groups: list[dict[str, Any]] = [{"params": named[False]}]
        if named[True]:
            groups.append({"params": named[True], "lr": self.fast_rate})
        return torch.optim.SGD(groups, lr=self.rate)


@dataclass(frozen=True, eq=False)
class LanguageRun:
    """A training run with its text, windows and records; see :meth:`LanguageTraining.run`."""

    training: LanguageTraining
    text: Integers
    windows: Integers
    records: tuple[int, ...]

    def run(self, progress: Advance = silent) -> list[AttentionRecord]:
        """Train until the last record."""
        return self.training.run(self.text, self.windows, records=self.records, progress=progress)


def run_all(
    runs: Sequence[LanguageRun], *, workers: int = 1, progress: Advance = silent
) -> list[list[AttentionRecord]]:
    """The records of several runs, in sequence or in parallel processes."""
    workers = whole_number(workers, "workers", least=1, most=MOST_THREADS)
    total = sum(run.records[-1] for run in runs)
    before = 0
    if workers == 1:
        records: list[list[AttentionRecord]] = []
        for run in runs:
            records.append(run.run(lambda done, _, before=before: progress(before + done, total)))
            before += run.records[-1]
        return records
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        futures = {pool.submit(training.run): training for training in runs}
        for future in as_completed(futures):
            before += futures[future].records[-1]
            progress(before, total)
        return [future.result() for future in futures]


def cut_windows(text: Integers, window: int, number: int) -> NDArray[np.int64]:
    """Cut evenly spaced windows from a text, without overlap; shape (number, window + 1).

    Each has ``window`` tokens to read and the next token of each of them.

    Parameters
    ----------
    text : int array, shape (n,)
        Token ids.
    window : int
        Tokens to read in each window.
    number : int
        The number of windows.

    Examples
    --------
    >>> cut_windows(np.arange(10), 2, 2).tolist()
    [[0, 1, 2], [4, 5, 6]]
    """
    window, number = whole_number(window, "window", least=1), whole_number(number, "number")
    n_windows = (len(text) - 1) // window
    if n_windows < number or number < 1:
        raise InvalidSamples(
            f"{len(text)} tokens hold {n_windows} windows of {window}, not {number}; choose fewer"
        )
    starts = window * (np.arange(number) * n_windows // number)
    return text.astype(np.int64)[starts[:, None] + np.arange(window + 1)]


def _mean_loss(layer: LanguageLayer, batch: Tensor) -> Tensor:
    logits, _ = layer(batch[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def measure_attention(
    layer: LanguageLayer, windows: Tensor, *, step: int = 0, n_shown: int = 1
) -> AttentionRecord:
    """Attention on these windows, shape (n_windows, window + 1), without dropout."""
    layer.eval()
    number, window = len(windows), windows.shape[1] - 1
    loss = largest = 0.0
    entropy, by_distance = torch.zeros(window).double(), torch.zeros(window).double()
    received = torch.zeros(layer.decoder.out_features).double()
    shown = list[Tensor]()
    distance = (torch.arange(window)[:, None] - torch.arange(window)).clamp(min=0)
    for first in range(0, number, FEW):
        batch = windows[first : first + FEW]
        logits, attention = layer(batch[:, :-1])
        attention = attention.double()
        labels = batch[:, 1:].flatten()
        loss += float(nn.functional.cross_entropy(logits.flatten(0, 1), labels, reduction="sum"))
        entropy += row_entropies(attention).sum(0)
        largest += float(attention.amax(2).sum())
        by_distance.index_add_(0, distance.flatten(), attention.sum(0).flatten())
        received.index_add_(0, batch[:, :-1].flatten(), attention.sum(1).flatten())
        shown.append(attention[: max(n_shown - first, 0)])
    rows = number * window
    return AttentionRecord(
        step,
        loss / rows,
        (entropy / number).numpy(),
        (by_distance / rows).numpy(),
        largest / rows,
        received.numpy(),
        torch.cat(shown).numpy(),
    )


def row_entropies(attention: Tensor) -> Tensor:
    """−Σ a ln a of each row, the last axis.

    Examples
    --------
    >>> row_entropies(torch.tensor([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [0.0, 0.6931471824645996]
    """
    return _torch.special.entr(attention).sum(-1)
