"""What the training of a deep model leaves: the weights of every layer and trial at recorded steps."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import read_arrays, save_arrays
from attomaton.base.artifacts.arrays import MEND
from attomaton.base.borders import check_floats, check_ids, check_int64, check_rising, keep_checked
from attomaton.base.errors import CorruptRun, MismatchedParts, UnknownToken
from attomaton.base.frames import Tabular
from attomaton.base.options import given_path
from attomaton.base.printing import Block, Grid
from attomaton.base.tables import Float64, Int64, table_of
from attomaton.training.configuration import restore
from attomaton.training.models.deep import DeepModel, DeepWeights
from attomaton.training.trace import Record, draw_run


@dataclass(frozen=True, eq=False, repr=False)
class DeepTrace(Tabular):
    """Recorded weights and losses of a deep model.

    Attributes
    ----------
    steps : int64 array, shape (n_records,)
        Steps taken before each record; the first is 0.
    numbers : float64 array, shape (n_records, n_trials, n_numbers)
        All weights one after the other; :meth:`at` has them by name.
    losses : float64 array, shape (n_records, n_trials)
        The mean of −ln p(next token) over all positions.
    sequences : int64 array, shape (n_trials, n_sequences, window + 1)
        What each trial was trained on.
    n_tokens : int
        Size of the vocabulary.
    about : mapping
        Model, step and seed as a JSON record.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> trace = at.train_deep(np.array([[0, 1, 0, 1]]), at.DeepModel(n_layers=2), 0.5, steps=4)
    >>> trace, trace.at(4).values.shape  # trials, layers, heads, tokens, tokens
    (DeepTrace(1 trials, 2 layers, 5 records to step 4), (1, 2, 1, 2, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaded = DeepTrace.load(trace.save(f"{folder}/deep.safetensors"))
    >>> loaded.model == trace.model, loaded.step_size
    (True, 0.5)
    """

    steps: Int64
    numbers: Float64
    losses: Float64
    sequences: Int64
    n_tokens: int
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        """Refuse parts whose shapes do not fit together."""
        steps, tokens = check_int64(self.steps, "steps"), np.asarray(self.sequences)
        if not len(steps) or tokens.ndim != 3 or not tokens.size:
            raise MismatchedParts("a trace needs a record and sequences of at least one trial")
        check_rising(steps, "steps")
        check_ids(steps[:1], int(steps[-1]) + 1, "the first step")
        check_ids(check_int64(tokens.ravel(), "sequences"), self.n_tokens, "sequences")
        shape = (len(steps), len(tokens))
        size = np.shape(self.numbers)[-1] if np.ndim(self.numbers) else 0
        numbers = check_floats(self.numbers, (*shape, size), "numbers", finite=False)
        losses = check_floats(self.losses, shape, "losses", finite=False)
        keep_checked(self, steps=steps, numbers=numbers, losses=losses, sequences=tokens.astype(np.int64))

    @classmethod
    def from_records(
        cls, records: Sequence[Record], sequences: Int64, n_tokens: int, about: Mapping[str, Any]
    ) -> "DeepTrace":
        """The records one after the other; their weights have shape (n_trials, n_numbers).

        Examples
        --------
        >>> records = [Record(step, np.zeros((1, 15)), np.log([2.0])) for step in (0, 10)]
        >>> about = {"model": {"kind": "DeepModel"}}
        >>> DeepTrace.from_records(records, np.array([[[0, 1, 0, 1]]]), 2, about)
        DeepTrace(1 trials, 1 layers, 2 records to step 10)
        """
        steps = np.array([record.step for record in records], np.int64)
        numbers, losses = (
            np.stack([getattr(record, name) for record in records]) for name in ("weights", "losses")
        )
        return cls(steps, numbers, losses, sequences, n_tokens, about)

    def __repr__(self) -> str:
        sizes = f"{self.n_trials:,} trials, {self.model.n_layers:,} layers"
        return f"DeepTrace({sizes}, {len(self.steps):,} records to step {self.steps[-1]:,})"

    @property
    def n_trials(self) -> int:
        """How many trials were trained."""
        return self.numbers.shape[1]

    @property
    def window(self) -> int:
        """The longest context."""
        return self.sequences.shape[2] - 1

    @cached_property
    def model(self) -> DeepModel:
        """What was trained."""
        found = self._restore("model")
        if not isinstance(found, DeepModel):
            raise CorruptRun(f"the trace says that its model was {found!r}, which is no deep one; {MEND}")
        return found

    @cached_property
    def step(self) -> Any:
        """How the gradient moved it."""
        return self._restore("step")

    @property
    def step_size(self) -> float:
        """η."""
        return float(self.step.step_size)

    def _restore(self, name: str) -> Any:
        try:
            return restore(self.about[name])
        except (AttributeError, KeyError, TypeError) as error:
            raise CorruptRun(f"the trace does not say what its {name} was ({error}); {MEND}") from error

    def at(self, step: int) -> DeepWeights:
        """W, P, V and W_O of all trials after ``step`` steps, if that was recorded."""
        place = np.flatnonzero(self.steps == step)
        if not len(place):
            raise UnknownToken(f"step {step} was not recorded; trace.steps lists the records")
        return self.model.unpack(self.numbers[place[0]], n_tokens=self.n_tokens, window=self.window)

    def _table(self) -> pa.Table:
        """Columns step, trial (int64), loss and norm of all weights (float64)."""
        return table_of(
            {
                "step": np.repeat(self.steps, self.n_trials),
                "trial": np.tile(np.arange(self.n_trials), len(self.steps)),
                "loss": self.losses.ravel(),
                "norm": np.linalg.norm(self.numbers, axis=2).ravel(),
            }
        )

    def _blocks(self) -> list[Block]:
        first, last = (float(self.losses[place].mean()) for place in (0, -1))
        rows = [
            ("trials", f"{self.n_trials:,}"),
            ("sequences of each", f"{self.sequences.shape[1]:,} of {self.window:,} tokens"),
            ("tokens", f"{self.n_tokens:,}"),
            ("layers, heads", f"{self.model.n_layers:,}, {self.model.n_heads:,}"),
            ("steps", f"{self.steps[-1]:,}"),
            ("loss at the start", f"{first:.6f}"),
            ("loss at the end", f"{last:.6f}"),
        ]
        failed = [] if np.isfinite(last) else ["The loss is not finite. Try a smaller step size."]
        return [Grid("Training of a deep model", ["", ""], rows), *failed]

    def plot(self, ax: Any = None) -> Any:
        """Draw loss and norm of all weights by step; returns the two matplotlib axes.

        Examples
        --------
        >>> import attomaton as at, matplotlib as mpl
        >>> mpl.use("agg")
        >>> trace = at.train_deep(np.array([[0, 1, 0, 1]]), at.DeepModel(), 0.5, steps=4)
        >>> [axes.get_title(loc="left") for axes in trace.plot()]
        ['training loss', 'norm of W']
        """
        return draw_run(self.steps, self.losses, np.linalg.norm(self.numbers, axis=2), ax)

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file, atomically; of other files in the place, only a trace is replaced."""
        return save_arrays(path, *self.pack())

    def pack(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Arrays and texts to write.

        Examples
        --------
        >>> records = [Record(0, np.zeros((1, 15)), np.log([2.0]))]
        >>> sorted(DeepTrace.from_records(records, np.array([[[0, 1, 0, 1]]]), 2, {}).pack()[1])
        ['about', 'holds', 'n_tokens']
        """
        names = ("steps", "numbers", "losses", "sequences")
        told = json.dumps(dict(self.about))
        about = {"holds": "deep trace", "n_tokens": json.dumps(self.n_tokens), "about": told}
        return {name: getattr(self, name) for name in names}, about

    @classmethod
    def load(cls, path: str | Path) -> "DeepTrace":
        """Read what :meth:`save` wrote; a file that was cut short or altered raises ``CorruptRun``."""
        arrays, about = read_arrays(given_path(path, "path"))
        if about.get("holds") != "deep trace":
            raise CorruptRun(f"{path} holds no deep trace; give a file that DeepTrace.save wrote")
        try:
            told, n_tokens = json.loads(about["about"]), json.loads(about["n_tokens"])
            if not isinstance(told, dict) or not isinstance(n_tokens, int):
                raise TypeError("what it says about itself is no record")
            return cls(about=cast("dict[str, Any]", told), n_tokens=n_tokens, **arrays)
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            reason = str(error).partition(";")[0]
            raise CorruptRun(f"{path} holds no whole trace ({reason}); {MEND}") from error
