"""A transformer of one layer without MLP, trained for a given time on one core: the trained rival.

Words are ordered by frequency. The softmax has a short list, of the most frequent words and one entry per
tail, and for each tail a softmax over its own words: the probability of a word in a tail is the product
of two. Probabilities add up to one, so the likelihood is exact, and most positions need only the short
list. Rows of the softmax are the words' embeddings (tied).
"""

import json
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attomaton.base.artifacts.arrays import digest_arrays, read_arrays, write_arrays
from attomaton.base.artifacts.files import explained
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Float64, Int64
from attomaton_experiments.descent import descend, repeatable

_torch: Any = torch  # its type stubs leave some functions partly unknown
CHECKPOINT = "transformer.safetensors"


@dataclass(frozen=True)
class TransformerPlan:
    """The model to train, and for how long.

    Attributes
    ----------
    seconds : float
        Wall time of training. The learning rate falls to zero over this time.
    width, heads, window, batch_size : int
        Width of the embeddings, number of heads, tokens per context, and contexts per step.
    cuts : tuple of int
        Where the tails of the softmax begin.
    rate, dropout : float
        Largest learning rate of Adam, and the dropout of inputs and outputs.
    save_every : float
        Seconds between checkpoints.
    """

    seconds: float = 3600.0
    width: int = 128
    heads: int = 4
    window: int = 128
    batch_size: int = 8
    cuts: tuple[int, ...] = (2000, 10000)
    rate: float = 2e-3
    dropout: float = 0.1
    save_every: float = 60.0
    seed: int = 0


class OneLayer(nn.Module):
    """Embeddings, one layer of causal attention with a residual, and the tied softmax with tails."""

    def __init__(self, n_tokens: int, plan: TransformerPlan) -> None:
        super().__init__()
        self.cuts = [0, *(cut for cut in plan.cuts if cut < n_tokens), n_tokens]
        self.heads, self.window = plan.heads, plan.window
        self.embedding = nn.Parameter(torch.randn(n_tokens, plan.width) * 0.05)
        self.tails = nn.Parameter(torch.randn(len(self.cuts) - 2, plan.width) * 0.05)
        self.offsets = nn.Parameter(torch.zeros(n_tokens + len(self.cuts) - 2))
        self.mixing, self.out = nn.Linear(plan.width, 3 * plan.width), nn.Linear(plan.width, plan.width)
        self.before, self.after = nn.LayerNorm(plan.width), nn.LayerNorm(plan.width)
        slopes = 2.0 ** -torch.arange(plan.heads, dtype=torch.float32)
        self.lags = nn.Parameter(-slopes[:, None] * torch.arange(plan.window))
        self.dropout = nn.Dropout(plan.dropout)

    @torch.no_grad()
    def start_from(self, counts: Float64) -> None:
        """Set the biases so that training starts near the word frequencies."""
        tails = [counts[low:high].sum() for low, high in zip(self.cuts[1:-1], self.cuts[2:], strict=True)]
        together: Float64 = np.log(np.concatenate([counts, tails]))
        self.offsets.copy_(_torch.from_numpy(together - together.mean()))

    def forward(self, ids: Tensor) -> Tensor:
        """Hidden states, shape (batch, length, width), of ids, shape (batch, length)."""
        state = self.dropout(nn.functional.embedding(ids, self.embedding) * self.embedding.shape[1] ** 0.5)
        batch, length, width = state.shape
        projected: Tensor = self.mixing(self.before(state)).view(batch, length, 3, self.heads, -1)
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        lag = torch.arange(length)[:, None] - torch.arange(length)
        bias = self.lags[:, lag.clamp(min=0)].masked_fill(lag < 0, float("-inf"))
        scores = queries @ keys.transpose(2, 3) / (width / self.heads) ** 0.5 + bias
        read = (scores.softmax(3) @ values).transpose(1, 2).reshape(batch, length, width)
        return self.dropout(self.after(state + self.dropout(self.out(read))))

    def log_probabilities(self, states: Tensor, targets: Tensor) -> Tensor:
        """ln p of one target for each hidden state, shapes (n, width) and (n,)."""
        first, short = self.cuts[1], self._short(states)
        logs = torch.zeros(len(states))
        inside = targets < first
        logs[inside] = short[inside, targets[inside]]
        for number, (low, high) in enumerate(zip(self.cuts[1:-1], self.cuts[2:], strict=True)):
            rows = ((targets >= low) & (targets < high)).nonzero()[:, 0]
            if len(rows):
                tail = self._tail(states[rows], low, high)
                within = tail.gather(1, (targets[rows] - low)[:, None])[:, 0]
                logs = logs.index_add(0, rows, short[rows, first + number] + within)
        return logs

    def _short(self, states: Tensor) -> Tensor:
        first, size = self.cuts[1], len(self.embedding)
        weight = torch.cat([self.embedding[:first], self.tails])
        offset = torch.cat([self.offsets[:first], self.offsets[size:]])
        return (states @ weight.T + offset).log_softmax(1)

    def _tail(self, states: Tensor, low: int, high: int) -> Tensor:
        return (states @ self.embedding[low:high].T + self.offsets[low:high]).log_softmax(1)


@dataclass(frozen=True, eq=False)
class TrainedLayer:
    """A trained layer.

    Attributes
    ----------
    layer : OneLayer
        The weights.
    seconds : float
        Wall time of training.
    processor_seconds : float
        Processor time of training.
    steps : int
        Steps of Adam.
    losses : list of (int, float)
        Mean loss of the steps up to each checkpoint.
    """

    layer: OneLayer
    seconds: float
    processor_seconds: float
    steps: int
    losses: list[tuple[int, float]]

    @torch.no_grad()
    def read(self, text: Int64, before: int) -> tuple[Float64, NDArray[np.float32]]:
        """ln p of each word of a text, shape (n,), and the hidden state before it, (n, width).

        Windows overlap by half: a word is judged with at least half a window of context, except the first
        ones. ``before`` is the token that precedes the text.
        """
        self.layer.eval()
        window = self.layer.window
        half = max(window // 2, 1)
        inputs = _torch.from_numpy(np.concatenate([[before], text[:-1]]).astype(np.int64))
        labels = _torch.from_numpy(text.astype(np.int64))
        probabilities = np.zeros(len(text))
        states = np.zeros((len(text), self.layer.embedding.shape[1]), np.float32)
        for start in range(0, max(len(text) - half, 1), half):
            end = min(start + window, len(text))
            first = start if start == 0 else start + window - half
            hidden: Tensor = self.layer(inputs[None, start:end])[0, first - start :]
            states[first:end] = hidden.numpy()
            probabilities[first:end] = (
                self.layer.log_probabilities(hidden, labels[first:end]).double().numpy()
            )
        return probabilities, states


def train_transformer(
    text: Int64,
    n_tokens: int,
    plan: TransformerPlan,
    *,
    folder: Path | None = None,
    progress: Progress = silent,
) -> TrainedLayer:
    """Train on random windows; resume from the checkpoint in ``folder`` if there is one.

    A step draws from a generator seeded by its number, so a resumed training continues with the same
    windows.
    """
    with repeatable(plan.seed):
        layer = OneLayer(n_tokens, plan)
        layer.start_from(np.bincount(text, minlength=n_tokens).astype(np.float64) + 1)
        return _Run(text, layer, plan, folder).go(progress)


class _Run:
    """A training run in progress."""

    def __init__(self, text: Int64, layer: OneLayer, plan: TransformerPlan, folder: Path | None) -> None:
        self.text, self.layer, self.plan = _torch.from_numpy(text.astype(np.int64)), layer, plan
        self.path = None if folder is None else folder / CHECKPOINT
        self.settings = json.dumps([asdict(plan), digest_arrays(text), len(layer.embedding)])
        self.optimiser: Any = torch.optim.Adam(layer.parameters(), plan.rate, betas=(0.9, 0.99))
        self.step, self.spent, self.worked = 0, 0.0, 0.0
        self.losses: list[tuple[int, float]] = []
        self._load()

    def go(self, progress: Progress) -> TrainedLayer:
        began, worked, saved = time.perf_counter() - self.spent, time.process_time() - self.worked, self.spent
        recent: list[float] = []
        for step, loss in descend(
            self.optimiser,
            self._batches(),
            self._mean_loss,
            layer=self.layer,
            rate=self._rate,
            clip=1.0,
            first=self.step,
        ):
            self.step = step
            recent.append(loss)
            self.spent, self.worked = time.perf_counter() - began, time.process_time() - worked
            if self.spent - saved >= self.plan.save_every or self.spent >= self.plan.seconds:
                self.losses.append((self.step, float(np.mean(recent))))
                progress("training a transformer", int(self.spent), int(self.plan.seconds))
                self._save()
                recent, saved = [], self.spent
        return TrainedLayer(self.layer, self.spent, self.worked, self.step, self.losses)

    def _batches(self) -> Generator[Tensor]:
        """Windows until the time is over; each step has its own random numbers."""
        plan = self.plan
        while self.spent < plan.seconds:
            rng = np.random.default_rng([plan.seed, self.step])
            _torch.manual_seed(int(rng.integers(1 << 31)))
            starts = _torch.from_numpy(rng.integers(0, len(self.text) - plan.window, plan.batch_size))
            yield self.text[starts[:, None] + torch.arange(plan.window + 1)]

    def _rate(self, step: int) -> float:
        share = min(self.spent / self.plan.seconds, 1.0)
        return self.plan.rate * min((step + 1) / 100, 0.02 + 0.98 * 0.5 * (1 + np.cos(np.pi * share)))

    def _mean_loss(self, batch: Tensor) -> Tensor:
        states = self.layer(batch[:, :-1]).flatten(0, 1)
        return -self.layer.log_probabilities(states, batch[:, 1:].flatten()).mean()

    def _save(self) -> None:
        if self.path is None:
            return
        arrays: dict[str, NDArray[Any]] = {}
        for name, value in self.layer.named_parameters():
            state = self.optimiser.state[value]
            arrays[f"{name}/value"] = value.detach().numpy()
            arrays[f"{name}/first"], arrays[f"{name}/second"] = (
                state[key].numpy() for key in ("exp_avg", "exp_avg_sq")
            )
        about = {"step": self.step, "spent": self.spent, "worked": self.worked, "losses": self.losses}
        with explained(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(
                self.path,
                arrays,
                {"holds": "transformer", "settings": self.settings, "about": json.dumps(about)},
            )

    def _load(self) -> None:
        if self.path is None or not self.path.exists():
            return
        arrays, about = read_arrays(self.path)
        if about.get("settings") != self.settings:
            return
        record = json.loads(about["about"])
        self.step, self.spent, self.worked = record["step"], record["spent"], record["worked"]
        self.losses = [(int(step), float(loss)) for step, loss in record["losses"]]
        with torch.no_grad():
            for name, value in self.layer.named_parameters():
                value.copy_(_torch.from_numpy(arrays[f"{name}/value"]))
                first, second = (_torch.from_numpy(arrays[f"{name}/{key}"]) for key in ("first", "second"))
                self.optimiser.state[value] = {
                    "step": torch.tensor(float(self.step)),
                    "exp_avg": first,
                    "exp_avg_sq": second,
                }
