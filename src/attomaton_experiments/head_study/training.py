"""Training of small models: Adam on windows of a text, with the weights stored at some steps."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attomaton.base.artifacts.arrays import digest_arrays, read_arrays, write_arrays
from attomaton.base.artifacts.files import explained
from attomaton.base.errors import CorruptRun, UnsupportedOption
from attomaton.base.options import real_number, settle, whole_number
from attomaton.base.tables import Int64, Integers
from attomaton_experiments.descent import descend
from attomaton_experiments.head_study.small import SmallConfig, SmallModel

_torch: Any = torch  # its type stubs leave some functions partly unknown

Weights = dict[str, Any]
"""Parameter name → float32 array."""


@dataclass(frozen=True)
class SmallTraining:
    """How a small model is trained.

    Attributes
    ----------
    steps, batch_size : int
        Steps, and windows of ``config.longest`` tokens in each.
    rate : float
        Initial learning rate of Adam; it decays linearly to a tenth.
    copying : bool
        Whether only positions count whose label is in the context, as in the theory.
    seed : int
        Seed of the initial weights and of the windows.
    marks : tuple of int
        Steps at which the weights are stored, besides the last.

    Examples
    --------
    >>> text = np.arange(400) % 5
    >>> training = SmallTraining(SmallConfig(5, longest=4, width=8), steps=60, batch_size=8, marks=(0,))
    >>> course = training.run(text)
    >>> rows = torch.from_numpy(text[None, :5])
    >>> first, last = (course.at(step).loss(rows).mean().item() for step in sorted(course.weights))
    >>> last < first
    True
    >>> batch = next(training.batches(text))
    >>> batch.shape, training.mean_loss(course.last, batch).shape
    (torch.Size([8, 5]), torch.Size([]))
    """

    config: SmallConfig
    steps: int
    batch_size: int = 64
    rate: float = 3e-3
    copying: bool = False
    seed: int = 0
    marks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        settle(
            self,
            steps=whole_number(self.steps, "steps", least=1),
            batch_size=whole_number(self.batch_size, "batch_size", least=1),
            rate=real_number(self.rate, "rate", above=0),
            seed=whole_number(self.seed, "seed"),
        )

    def run(self, text: Integers) -> "TrainedCourse":
        """Train on a text and store the weights at the marks and at the end."""
        model = SmallModel(self.config, seed=self.seed)
        weights = {0: _weights(model)} if 0 in self.marks else {}
        for step, _ in descend(
            torch.optim.Adam(model.parameters(), lr=self.rate),
            self.batches(text),
            lambda batch: self.mean_loss(model, batch),
            layer=model,
            rate=lambda step: self.rate * max(0.1, 1 - step / self.steps),
        ):
            if step in (*self.marks, self.steps):
                weights[step] = _weights(model)
        return TrainedCourse(self, weights)

    def batches(self, text: Integers) -> Iterator[Tensor]:
        """The windows of every step, shape (batch_size, longest + 1)."""
        rng = np.random.default_rng(self.seed)
        for _ in range(self.steps):
            yield _torch.from_numpy(draw_windows(text, self.config.longest, self.batch_size, rng))

    def mean_loss(self, model: SmallModel, batch: Tensor) -> Tensor:
        """The loss of a batch, over the positions that count."""
        losses = model.loss(batch)
        if not self.copying:
            return losses.mean()
        inside = find_copies(batch)
        return losses[inside].sum() / max(int(inside.sum()), 1)


@dataclass(frozen=True, eq=False)
class TrainedCourse:
    """A trained model at every stored step.

    Attributes
    ----------
    weights : dict of int to Weights
        The weights by step.

    Examples
    --------
    >>> training = SmallTraining(SmallConfig(5, longest=4, width=8), steps=3, batch_size=2, marks=(0, 1))
    >>> course = training.run(np.arange(40) % 5)
    >>> sorted(course.weights), course.at(1).name
    ([0, 1, 3], 'small model (1 × 1; values, residual)')
    """

    training: SmallTraining
    weights: dict[int, Weights]

    def at(self, step: int) -> SmallModel:
        """The model after this many steps."""
        if step not in self.weights:
            raise UnsupportedOption(f"step {step} was not stored; stored steps are {sorted(self.weights)}")
        model = SmallModel(self.training.config)
        for name, value in self.weights[step].items():
            model.tables[name].data = _torch.from_numpy(value.copy())
        return model

    @property
    def last(self) -> SmallModel:
        """The model at the end."""
        return self.at(self.training.steps)


def take_course(training: SmallTraining, text: Integers, path: Path | None) -> TrainedCourse:
    """Read the course from a file if it is of this training and text, else train and write it.

    Examples
    --------
    >>> import tempfile
    >>> training = SmallTraining(SmallConfig(3, longest=4, width=8), steps=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, again = (take_course(training, np.arange(30) % 3, Path(folder, "a")) for _ in range(2))
    >>> bool((first.weights[2]["bias"] == again.weights[2]["bias"]).all())
    True
    """
    about = {"asked": json.dumps({**asdict(training), "text": digest_arrays(np.asarray(text, np.int64))})}
    if path is not None and (stored := _read_course(path, about)) is not None:
        return TrainedCourse(training, stored)
    course = training.run(text)
    if path is not None:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            arrays = {
                f"{step}/{name}": table
                for step, tables in course.weights.items()
                for name, table in tables.items()
            }
            write_arrays(path, arrays, about)
    return course


def draw_windows(text: Integers, length: int, count: int, seed: Any) -> Int64:
    """Windows of a text with the label of their last position, shape (count, length + 1).

    Parameters
    ----------
    text : integers
        Token ids.
    length : int
        Tokens per context; the label follows them.
    count : int
        The number of windows.
    seed : int or numpy.random.Generator
        Seed of their starting positions.

    Examples
    --------
    >>> draw_windows(np.arange(100), 4, 2, seed=0).shape
    (2, 5)
    """
    if len(text) < length + 2:
        raise UnsupportedOption(f"a text of {len(text)} tokens has no window of {length}; give a longer text")
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, len(text) - length - 1, count)
    return np.asarray(text)[starts[:, None] + np.arange(length + 1)].astype(np.int64)


def find_copies(rows: Tensor) -> Tensor:
    """Where the label of a position is among the tokens up to it, shape (n, length), from (n, length + 1).

    Examples
    --------
    >>> find_copies(torch.tensor([[0, 1, 0, 2]])).tolist()
    [[False, True, False]]
    """
    context, label = rows[:, :-1], rows[:, 1:]
    return ((context[:, None, :] == label[:, :, None]).tril()).any(-1)


def _weights(model: SmallModel) -> Weights:
    return {name: table.detach().numpy().copy() for name, table in model.tables.items()}


def _read_course(path: Path, about: dict[str, str]) -> dict[int, Weights] | None:
    """The weights in a file, by step; None if it is of another training, or incomplete."""
    try:
        arrays, stored = read_arrays(path)
    except CorruptRun:
        return None
    if stored != about:
        return None
    weights: dict[int, Weights] = {}
    for name, array in arrays.items():
        step, _, table = name.partition("/")
        weights.setdefault(int(step), {})[table] = array
    return weights
