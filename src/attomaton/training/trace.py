"""The result of a training run: the weights of every trial at recorded steps, for one layer or several."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import read_arrays, save_arrays
from attomaton.base.artifacts.arrays import RESTORE_ARRAYS
from attomaton.base.borders import check_floats, check_ids, check_int64, check_rising
from attomaton.base.drawing import PANEL_HEIGHT, house_axes
from attomaton.base.errors import CorruptRun, MismatchedParts, UnknownToken, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import given_path, settle
from attomaton.base.printing import BLUE, Block, Grid
from attomaton.base.solutions import LARGEST_COORDINATE
from attomaton.base.tables import Float64, Int64, table_of
from attomaton.corpora.samples import Samples
from attomaton.graphs.origin import read_corpora
from attomaton.training.configuration import restore_settings
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.deep import DeepModel, DeepWeights
from attomaton.training.models.embeddings import EmbeddingTable
from attomaton.training.steps import STORED_STEPS, Step

TRACE_ARRAYS = ("steps", "weights", "losses", "embeddings")
"""Fields of a trace that are stored unchanged."""

NOT_FINITE = "The loss is not finite. Try a smaller step size."


class StepRecord(NamedTuple):
    """One record of a run: steps taken, W (n_trials, dim, dim), mean losses (n_trials,)."""

    step: int
    weights: Float64
    losses: Float64


def _stack(records: Sequence[StepRecord]) -> tuple[Int64, Float64, Float64]:
    """Steps, weights and losses of all records."""
    steps, weights, losses = zip(*records, strict=True)
    return np.array(steps, np.int64), np.stack(weights), np.stack(losses)


class _Recorded(Tabular):
    """Common to traces: records of all trials by step, with plots, tables and files."""

    steps: Int64
    losses: Float64
    about: Mapping[str, Any]
    _holds: ClassVar[str]
    """The content type in the file's metadata."""

    def _norms(self) -> Float64:
        """The norm of the weights, shape (n_records, n_trials)."""
        raise NotImplementedError

    def pack(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Arrays and metadata to write."""
        raise NotImplementedError

    @classmethod
    def _assemble(cls, arrays: Mapping[str, Any], about: Mapping[str, str], record: dict[str, Any]) -> Self:
        raise NotImplementedError

    @property
    def n_trials(self) -> int:
        return self.losses.shape[1]

    def _check_steps(self) -> Int64:
        steps = check_int64(self.steps, "steps")
        if not len(steps):
            raise MismatchedParts("a trace needs at least one record; train some steps")
        check_rising(steps, "steps")
        check_ids(steps[:1], int(steps[-1]) + 1, "the first step")
        return steps

    def row_of(self, step: int) -> int:
        """The index of a step among the records; raises if it was not recorded."""
        row = np.flatnonzero(self.steps == step)
        if not len(row):
            raise UnknownToken(f"step {step} was not recorded; trace.steps lists the records")
        return int(row[0])

    def _restore(self, name: str, kinds: tuple[type[Any], ...]) -> Any:
        try:
            value = restore_settings(self.about[name])
        except (AttributeError, KeyError, TypeError) as error:
            raise CorruptRun(f"the trace does not name its {name} ({error}); {RESTORE_ARRAYS}") from error
        if not isinstance(value, kinds):
            raise CorruptRun(f"the trace names {value!r} as its {name}, which is invalid; {RESTORE_ARRAYS}")
        return value

    def _table(self) -> pa.Table:
        """Columns step, trial (int64), loss and norm of the weights (float64); a row per record and trial."""
        columns = {
            "step": np.repeat(self.steps, self.n_trials),
            "trial": np.tile(np.arange(self.n_trials), len(self.steps)),
            "loss": self.losses.ravel(),
            "norm": self._norms().ravel(),
        }
        return table_of(columns)

    def plot(self, ax: Any = None) -> Any:
        """Draw loss and norm of the weights by step, mean ± standard deviation over trials.

        Returns the two matplotlib axes, which are ``ax`` if given.
        """
        with house_axes(ax, height=2 * PANEL_HEIGHT, n=2) as pair:
            trials = f", mean ± std of {self.n_trials:,} trials" if self.n_trials > 1 else ""
            _draw_curves(pair[0], self.steps, self.losses, log=True)
            _draw_curves(pair[1], self.steps, self._norms(), log=False)
            for axes, title in zip(pair, ("training loss", "norm of W"), strict=True):
                axes.set_title(title + trials, loc="left")
            pair[1].set_xlabel("step")
        return pair

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file, atomically; of existing files, only a trace is replaced."""
        return save_arrays(path, *self.pack())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file written by :meth:`save`; a truncated or altered file raises ``CorruptRun``."""
        file = given_path(path, "path")
        if file.is_dir():
            training = file / "training" / "trace.safetensors"
            advice = str(training) if training.is_file() else f"a file that {cls.__name__}.save wrote"
            raise UnsupportedOption(f"{file} is a folder, but a trace is a file; give {advice}")
        arrays, about = read_arrays(file)
        if about.get("holds") != cls._holds:
            raise CorruptRun(f"{path} is not a {cls._holds}; give a file that {cls.__name__}.save wrote")
        try:
            record = json.loads(about["about"])
            if not isinstance(record, dict):
                raise TypeError("its metadata is not an object")
            return cls._assemble(arrays, about, cast("dict[str, Any]", record))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            reason = str(error).partition(";")[0]
            raise CorruptRun(f"{path} does not hold a complete trace ({reason}); {RESTORE_ARRAYS}") from error


def _draw_curves(axes: Any, steps: Int64, values: Float64, *, log: bool) -> None:
    moved = steps > 0 if (steps > 0).sum() > 1 else np.ones(len(steps), bool)
    at, drawn = steps[moved], values[moved]
    log = log and bool((drawn > 0).all())
    if log:
        with np.errstate(invalid="ignore"):
            drawn = np.log(drawn)
    mean, spread = drawn.mean(axis=1), drawn.std(axis=1)
    middle, lower, upper = (np.exp(line) if log else line for line in (mean, mean - spread, mean + spread))
    if values.shape[1] > 1:
        axes.fill_between(at, lower, upper, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(at, middle, color=BLUE, marker="o" if len(at) == 1 else None)
    if len(at) > 1 and at[0] > 0:
        axes.set_xscale("log")
    if log:
        axes.set_yscale("log")


@dataclass(frozen=True, eq=False, repr=False)
class Trace(_Recorded):
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
        The samples of each trial.
    about : mapping
        Model, step and seed as a JSON record.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> from attomaton.training.models.embeddings import Orthonormal
    >>> samples = at.Samples.from_lists([[0, 1]], [0])
    >>> model, step = at.AttentionModel(Orthonormal()), at.GradientDescent(1.0)
    >>> watch = at.training.Watch(every=50)
    >>> trace = at.train(samples, model, step, steps=100, trials=2, watch=watch)
    >>> trace, trace.steps.tolist(), trace.at(100).shape
    (Trace(2 trials, 3 records to step 100), [0, 50, 100], (2, 2, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaded = Trace.load(trace.save(f"{folder}/trace.safetensors"))
    >>> loaded.model == model, loaded.step
    (True, GradientDescent(step_size=1.0, normalized=False, momentum=0.0, schedule=None))
    """

    steps: Int64
    weights: Float64
    losses: Float64
    embeddings: Float64
    samples: tuple[Samples, ...]
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])

    _holds = "trace"

    def __post_init__(self) -> None:
        """Refuse parts whose shapes do not match."""
        steps, n_trials = self._check_steps(), len(self.samples)
        if not n_trials:
            raise MismatchedParts("a trace needs at least one trial; train one")
        dim = np.shape(self.weights)[-1] if np.ndim(self.weights) else 0
        shape = (len(steps), n_trials, dim, dim)
        weights = check_floats(self.weights, shape, "weights", finite=False)
        losses = check_floats(self.losses, shape[:2], "losses", finite=False)
        sizes = {samples.n_tokens for samples in self.samples}
        tables = check_floats(self.embeddings, (n_trials, max(sizes), dim), "embeddings")
        if np.abs(tables).max(initial=0.0) > LARGEST_COORDINATE:
            raise MismatchedParts(f"embeddings hold numbers above {LARGEST_COORDINATE:.0e}; {RESTORE_ARRAYS}")
        if len(sizes) > 1:
            raise MismatchedParts(
                "the trials of a trace have vocabularies of different sizes; trace them separately"
            )
        settle(self, steps=steps, weights=weights, losses=losses, embeddings=tables)

    @classmethod
    def from_records(
        cls,
        records: Sequence[StepRecord],
        embeddings: Float64,
        samples: Sequence[Samples],
        about: Mapping[str, Any],
    ) -> "Trace":
        """A trace from a sequence of records."""
        return cls(*_stack(records), embeddings, tuple(samples), about)

    def __repr__(self) -> str:
        return f"Trace({self.n_trials:,} trials, {len(self.steps):,} records to step {self.steps[-1]:,})"

    def _norms(self) -> Float64:
        return np.linalg.norm(self.weights, axis=(2, 3))

    def summary(self) -> dict[str, Any]:
        """Counts, and mean losses and norm over the trials; None for numbers that are not finite."""
        first, last = (float(self.losses[row].mean()) for row in (0, -1))
        norms = [float((weights**2).sum() ** 0.5) for weights in self.weights[-1]]
        return {
            "samples": len(self.samples[0]),
            "tokens": self.samples[0].n_tokens,
            "dim": self.embeddings.shape[2],
            "steps": int(self.steps[-1]),
            "first_loss": first if np.isfinite(first) else None,
            "loss": last if np.isfinite(last) else None,
            "norm": float(np.mean(norms)) if np.isfinite(last) else None,
        }

    def _blocks(self) -> list[Block]:
        summary = self.summary()
        rows = [("trials (numbers below are means)", f"{self.n_trials:,}")] if self.n_trials > 1 else []
        counts = {"realisable samples": "samples", "tokens": "tokens", "dimensions": "dim", "steps": "steps"}
        rows += [(name, f"{summary[key]:,}") for name, key in counts.items()]
        numbers = {"loss at the start": "first_loss", "loss at the end": "loss", "norm of W": "norm"}
        for name, key in numbers.items():
            rows.append((name, "not finite" if summary[key] is None else f"{summary[key]:.6f}"))
        return [Grid("Training", ["", ""], rows), *([NOT_FINITE] if summary["loss"] is None else [])]

    @cached_property
    def model(self) -> AttentionModel:
        """The layer that was trained."""
        model: AttentionModel = self._restore("model", (AttentionModel,))
        if isinstance(model.embeddings, EmbeddingTable):  # the record holds only its digest
            return replace(model, embeddings=EmbeddingTable(self.embeddings[0]))
        return model

    @cached_property
    def step(self) -> Step:
        """The step that was used."""
        return self._restore("step", STORED_STEPS)

    def at(self, step: int) -> Float64:
        """W of all trials after ``step`` steps, shape (n_trials, dim, dim); the step must be recorded."""
        return self.weights[self.row_of(step)]

    def pack(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Arrays and metadata to write; corpora shared by several trials are stored once."""
        corpora = list({id(samples): samples for samples in self.samples}.values())
        number = {id(samples): index for index, samples in enumerate(corpora)}
        arrays: dict[str, Any] = {name: getattr(self, name) for name in TRACE_ARRAYS}
        arrays["corpus_of_trial"] = np.array([number[id(samples)] for samples in self.samples], np.int64)
        for index, samples in enumerate(corpora):
            for name in ("values", "starts", "stops", "labels"):
                arrays[f"corpora/{index}/{name}"] = getattr(samples, name)
        sizes = [samples.n_tokens for samples in corpora]
        about = {"holds": self._holds, "n_tokens": json.dumps(sizes), "about": json.dumps(dict(self.about))}
        return arrays, about

    @classmethod
    def _assemble(
        cls, arrays: Mapping[str, Any], about: Mapping[str, str], record: dict[str, Any]
    ) -> "Trace":
        corpora = read_corpora(arrays, about)
        owners = check_int64(arrays["corpus_of_trial"], "corpus_of_trial")
        check_ids(owners, len(corpora), "corpus_of_trial")
        numbers: list[int] = owners.tolist()
        samples = tuple(corpora[number] for number in numbers)
        return cls(samples=samples, about=record, **{name: arrays[name] for name in TRACE_ARRAYS})


@dataclass(frozen=True, eq=False, repr=False)
class DeepTrace(_Recorded):
    """Recorded weights and losses of a deep model.

    Attributes
    ----------
    steps : int64 array, shape (n_records,)
        Steps taken before each record; the first is 0.
    numbers : float64 array, shape (n_records, n_trials, n_numbers)
        All weights, parameter after parameter; :meth:`at` gives them by name.
    losses : float64 array, shape (n_records, n_trials)
        The mean of −ln p(next token) over all positions.
    sequences : int64 array, shape (n_trials, n_sequences, window + 1)
        The sequences of each trial.
    n_tokens : int
        Size of the vocabulary.
    about : mapping
        Model, step and seed as a JSON record.
    """

    steps: Int64
    numbers: Float64
    losses: Float64
    sequences: Int64
    n_tokens: int
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])

    _holds = "deep trace"

    def __post_init__(self) -> None:
        """Refuse parts whose shapes do not match."""
        steps, tokens = self._check_steps(), np.asarray(self.sequences)
        if tokens.ndim != 3 or not tokens.size:
            raise MismatchedParts("a trace needs sequences for at least one trial")
        check_ids(check_int64(tokens.ravel(), "sequences"), self.n_tokens, "sequences")
        shape = (len(steps), len(tokens))
        size = np.shape(self.numbers)[-1] if np.ndim(self.numbers) else 0
        numbers = check_floats(self.numbers, (*shape, size), "numbers", finite=False)
        losses = check_floats(self.losses, shape, "losses", finite=False)
        settle(self, steps=steps, numbers=numbers, losses=losses, sequences=tokens.astype(np.int64))

    @classmethod
    def from_records(
        cls, records: Sequence[StepRecord], sequences: Int64, n_tokens: int, about: Mapping[str, Any]
    ) -> "DeepTrace":
        """A trace from a sequence of records; their weights have shape (n_trials, n_numbers)."""
        return cls(*_stack(records), sequences, n_tokens, about)

    def __repr__(self) -> str:
        sizes = f"{self.n_trials:,} trials, {self.model.n_layers:,} layers"
        return f"DeepTrace({sizes}, {len(self.steps):,} records to step {self.steps[-1]:,})"

    @property
    def window(self) -> int:
        """The longest context."""
        return self.sequences.shape[2] - 1

    @cached_property
    def model(self) -> DeepModel:
        """The model that was trained."""
        return self._restore("model", (DeepModel,))

    @cached_property
    def step(self) -> Any:
        """The step that was used."""
        return self._restore("step", (object,))

    @property
    def step_size(self) -> float:
        """η."""
        return float(self.step.step_size)

    def at(self, step: int) -> DeepWeights:
        """W, P, V and W_O of all trials after ``step`` steps; the step must be recorded."""
        return self.model.unpack(self.numbers[self.row_of(step)], n_tokens=self.n_tokens, window=self.window)

    def _norms(self) -> Float64:
        return np.linalg.norm(self.numbers, axis=2)

    def _blocks(self) -> list[Block]:
        first, last = (float(self.losses[row].mean()) for row in (0, -1))
        rows = [
            ("trials", f"{self.n_trials:,}"),
            ("sequences per trial", f"{self.sequences.shape[1]:,} of {self.window:,} tokens"),
            ("tokens", f"{self.n_tokens:,}"),
            ("layers, heads", f"{self.model.n_layers:,}, {self.model.n_heads:,}"),
            ("steps", f"{self.steps[-1]:,}"),
            ("loss at the start", f"{first:.6f}"),
            ("loss at the end", f"{last:.6f}"),
        ]
        unstable = [] if np.isfinite(last) else [NOT_FINITE]
        return [Grid("Training of a deep model", ["", ""], rows), *unstable]

    def pack(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Arrays and metadata to write."""
        arrays = {name: getattr(self, name) for name in ("steps", "numbers", "losses", "sequences")}
        n_tokens, record = json.dumps(self.n_tokens), json.dumps(dict(self.about))
        return arrays, {"holds": self._holds, "n_tokens": n_tokens, "about": record}

    @classmethod
    def _assemble(
        cls, arrays: Mapping[str, Any], about: Mapping[str, str], record: dict[str, Any]
    ) -> "DeepTrace":
        n_tokens = json.loads(about["n_tokens"])
        if not isinstance(n_tokens, int):
            raise TypeError("its metadata is not an object")
        return cls(about=record, n_tokens=n_tokens, **arrays)
