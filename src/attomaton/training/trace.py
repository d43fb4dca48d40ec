"""The result of a training run: the weights of every trial at recorded steps, for one layer or several.

`Trace` is for one layer, `DeepTrace` for several. What both do (files, plots, tables) is in `_Recorded`.
"""

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
from attomaton.base.printing import BLUE, Block, Grid, count_noun
from attomaton.base.solutions import LARGEST_COORDINATE
from attomaton.base.tables import Float64, Int64, table_of
from attomaton.corpora.samples import Samples
from attomaton.graphs.origin import read_corpora
from attomaton.training.configuration import restore_settings
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.deep import DeepModel, DeepWeights
from attomaton.training.models.embeddings import EmbeddingTable
from attomaton.training.steps import STORED_STEPS, Step

TRACE_ARRAYS = ("steps", "weights", "losses", "embeddings")  # fields of a trace that are stored unchanged

NOT_FINITE = "The loss is not finite. Try a smaller step size."


class StepRecord(NamedTuple):
    """One record of a run: steps taken, W (n_trials, dim, dim), mean losses (n_trials,)."""

    step: int
    weights: Float64  # of a deep model all numbers, shape (n_trials, n_numbers)
    losses: Float64


def stack_records(records: Sequence[StepRecord]) -> tuple[Int64, Float64, Float64]:
    """The steps (n_records,), weights (n_records, n_trials, …) and losses (n_records, n_trials)."""
    steps, weights, losses = zip(*records, strict=True)
    return np.array(steps, np.int64), np.stack(weights), np.stack(losses)


class _Recorded(Tabular):
    """Records of all trials by step, with plots, tables and files."""

    steps: Int64  # (n_records,), ascending
    losses: Float64  # (n_records, n_trials)
    about: Mapping[str, Any]  # the settings of the run, as `configuration.describe` writes them
    _content: ClassVar[str]  # what the metadata of a file calls this kind of trace

    # The norm of the weights, shape (n_records, n_trials).
    def _norms(self) -> Float64:
        raise NotImplementedError

    def pack(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The arrays and the metadata of the file."""
        raise NotImplementedError

    # The inverse of `pack`: the trace from the arrays and the metadata of a file.
    @classmethod
    def _unpack(cls, arrays: Mapping[str, Any], metadata: Mapping[str, str], about: dict[str, Any]) -> Self:
        raise NotImplementedError

    @property
    def n_trials(self) -> int:
        """The number of trials, each a training run of its own."""
        return self.losses.shape[1]

    # The mean over trials of the first and of the last recorded loss.
    def _mean_losses(self) -> tuple[float, float]:
        return float(self.losses[0].mean()), float(self.losses[-1].mean())

    # The steps as int64, if they ascend from 0 or more.
    def _check_steps(self) -> Int64:
        steps = check_int64(self.steps, "steps")
        if not len(steps):
            raise MismatchedParts("the trace has no record; give at least one step with its weights")
        check_rising(steps, "steps")
        check_ids(steps[:1], int(steps[-1]) + 1, "the first step")
        return steps

    def row_of(self, step: int) -> int:
        """The row of a recorded step in ``steps``, weights and losses."""
        rows = np.flatnonzero(self.steps == step)
        if not len(rows):
            raise UnknownToken(f"step {step} was not recorded; give one of the steps in trace.steps")
        return int(rows[0])

    # The object that `about` describes under this name; it must be of one of the classes.
    def _restore(self, name: str, classes: tuple[type[Any], ...]) -> Any:
        try:
            value = restore_settings(self.about[name])
        except (AttributeError, KeyError, TypeError) as error:
            raise CorruptRun(f"the trace does not name its {name} ({error}); {RESTORE_ARRAYS}") from error
        if not isinstance(value, classes):
            raise CorruptRun(f"the trace names {value!r} as its {name}, which is invalid; {RESTORE_ARRAYS}")
        return value

    # Columns step, trial (int64), loss and norm of the weights (float64); a row per record and trial.
    def _table(self) -> pa.Table:
        columns: dict[str, Any] = {
            "step": np.repeat(self.steps, self.n_trials),
            "trial": np.tile(np.arange(self.n_trials), len(self.steps)),
            "loss": self.losses.ravel(),
            "norm": self._norms().ravel(),
        }
        return table_of(columns)

    def plot(self, ax: Any = None) -> Any:
        """Draw loss and norm of the weights by step, mean ± standard deviation over trials.

        Returns the two matplotlib axes, ``ax`` if it is not None.
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
        """Write one safetensors file; an existing file is replaced only if it is a trace."""
        return save_arrays(path, *self.pack())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file written by :meth:`save`; a truncated or altered file raises ``CorruptRun``."""
        file = given_path(path, "path")
        if file.is_dir():
            in_folder = file / "training" / "trace.safetensors"  # where `train(out=…)` writes it
            advice = str(in_folder) if in_folder.is_file() else f"a file that {cls.__name__}.save wrote"
            raise UnsupportedOption(f"{file} is a folder, but a trace is a file; give {advice}")
        arrays, metadata = read_arrays(file)
        if metadata.get("holds") != cls._content:
            raise CorruptRun(f"{path} is not a {cls._content}; give a file that {cls.__name__}.save wrote")
        try:
            about = json.loads(metadata["about"])
            if not isinstance(about, dict):
                raise TypeError("its metadata is not an object")
            return cls._unpack(arrays, metadata, cast("dict[str, Any]", about))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            reason = str(error).partition(";")[0]  # without the advice, which is about arguments
            raise CorruptRun(f"{path} is not a complete trace ({reason}); {RESTORE_ARRAYS}") from error


# Draw the mean ± standard deviation over trials of ``values``, shape (n_records, n_trials).
def _draw_curves(axes: Any, steps: Int64, values: Float64, *, log: bool) -> None:
    is_later = steps > 0
    if is_later.sum() > 1:  # a logarithmic axis cannot show step 0
        steps, values = steps[is_later], values[is_later]
        axes.set_xscale("log")
    log = log and bool((values > 0).all())
    if log:  # mean and deviation of the logarithms, so that the band is symmetric on the axis
        axes.set_yscale("log")
        with np.errstate(invalid="ignore"):
            values = np.log(values)
    mean = values.mean(axis=1)
    deviation = values.std(axis=1)
    bands = mean, mean - deviation, mean + deviation
    middle, lower, upper = (np.exp(line) if log else line for line in bands)
    if values.shape[1] > 1:
        axes.fill_between(steps, lower, upper, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(steps, middle, color=BLUE, marker="o" if len(steps) == 1 else None)


@dataclass(frozen=True, eq=False, repr=False)
class Trace(_Recorded):
    """Recorded weights and losses of a training run.

    ``steps`` (n_records,) are the steps taken before each record, the first is 0; ``weights`` (n_records,
    n_trials, dim, dim) are W, and ``losses`` (n_records, n_trials) the mean losses over the realisable
    samples of each trial. ``embeddings`` (n_trials, n_tokens, dim) and ``samples`` are those of each trial;
    ``about`` is a JSON record of model, step and seed.

    Examples
    --------
    >>> import attomaton as at
    >>> samples, model = at.Samples.from_lists([[0, 1]], [0]), at.AttentionModel("orthonormal")
    >>> trace = at.train(samples, model, 1.0, steps=100, trials=2, watch=at.training.Watch(every=50))
    >>> trace, trace.steps.tolist(), trace.at(100).shape
    (Trace(2 trials, 3 records to step 100), [0, 50, 100], (2, 2, 2))
    """

    steps: Int64
    weights: Float64
    losses: Float64
    embeddings: Float64
    samples: tuple[Samples, ...]
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])

    _content = "trace"

    def __post_init__(self) -> None:
        steps = self._check_steps()
        n_trials = len(self.samples)
        if not n_trials:
            raise MismatchedParts("the trace has no trial; give the samples of at least one trial")
        dim = np.shape(self.weights)[-1] if np.ndim(self.weights) else 0
        shape = (len(steps), n_trials, dim, dim)
        # Weights and losses of a run that diverged are not finite; a trace of it is still valid.
        weights = check_floats(self.weights, shape, "weights", finite=False)
        losses = check_floats(self.losses, shape[:2], "losses", finite=False)
        sizes = {samples.n_tokens for samples in self.samples}
        tables = check_floats(self.embeddings, (n_trials, max(sizes), dim), "embeddings")
        if np.abs(tables).max(initial=0.0) > LARGEST_COORDINATE:
            raise MismatchedParts(
                f"the embeddings have a coordinate above {LARGEST_COORDINATE:.0e}; {RESTORE_ARRAYS}"
            )
        if len(sizes) > 1:
            raise MismatchedParts(
                "the trials have vocabularies of different sizes; train those of one size together"
            )
        settle(self, steps=steps, weights=weights, losses=losses, embeddings=tables)

    def __repr__(self) -> str:
        trials = count_noun(self.n_trials, "trial")
        return f"Trace({trials}, {len(self.steps):,} records to step {self.steps[-1]:,})"

    def _norms(self) -> Float64:
        return np.linalg.norm(self.weights, axis=(2, 3))

    def summary(self) -> dict[str, Any]:
        """Counts, and mean losses and norm over the trials; None for numbers that are not finite."""
        first, last = self._mean_losses()
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
        """The model that was trained."""
        model: AttentionModel = self._restore("model", (AttentionModel,))
        if isinstance(model.embeddings, EmbeddingTable):  # the record has only the digest of the table
            return replace(model, embeddings=EmbeddingTable(self.embeddings[0]))
        return model

    @cached_property
    def step(self) -> Step:
        """The update rule, such as ``GradientDescent(0.1)``."""
        return self._restore("step", STORED_STEPS)

    def at(self, step: int) -> Float64:
        """W of all trials after ``step`` steps, shape (n_trials, dim, dim); the step must be recorded."""
        return self.weights[self.row_of(step)]

    def pack(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The arrays and the metadata of the file; a corpus of several trials is stored once."""
        # Trials of one corpus share one Samples object, so its identity says which are equal.
        corpora = list({id(samples): samples for samples in self.samples}.values())
        corpus_index = {id(samples): index for index, samples in enumerate(corpora)}
        corpus_of_trial = [corpus_index[id(samples)] for samples in self.samples]
        arrays: dict[str, Any] = {name: getattr(self, name) for name in TRACE_ARRAYS}
        arrays["corpus_of_trial"] = np.array(corpus_of_trial, np.int64)
        for index, samples in enumerate(corpora):
            for name in ("values", "starts", "stops", "labels"):
                arrays[f"corpora/{index}/{name}"] = getattr(samples, name)
        n_tokens = json.dumps([samples.n_tokens for samples in corpora])
        about = json.dumps(dict(self.about))
        return arrays, {"holds": self._content, "n_tokens": n_tokens, "about": about}

    @classmethod
    def _unpack(cls, arrays: Mapping[str, Any], metadata: Mapping[str, str], about: dict[str, Any]) -> Self:
        corpora = read_corpora(arrays, metadata)
        corpus_of_trial = check_int64(arrays["corpus_of_trial"], "corpus_of_trial")
        check_ids(corpus_of_trial, len(corpora), "corpus_of_trial")
        samples = tuple(corpora[int(index)] for index in corpus_of_trial)
        return cls(samples=samples, about=about, **{name: arrays[name] for name in TRACE_ARRAYS})


@dataclass(frozen=True, eq=False, repr=False)
class DeepTrace(_Recorded):
    """Recorded weights and losses of a deep model.

    ``steps`` (n_records,) are the steps taken before each record, and ``numbers`` (n_records, n_trials,
    n_numbers) all weights, parameter after parameter, which :meth:`at` returns by name. ``losses``
    (n_records, n_trials) are the means of −ln p(next token) over all positions. ``sequences`` (n_trials,
    n_sequences, window + 1) are those of each trial, with tokens below ``n_tokens``. ``about`` is a JSON
    record of model, step and seed.
    """

    steps: Int64
    numbers: Float64
    losses: Float64
    sequences: Int64
    n_tokens: int
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])

    _content = "deep trace"

    def __post_init__(self) -> None:
        steps = self._check_steps()
        tokens = np.asarray(self.sequences)
        if tokens.ndim != 3 or not tokens.size:
            raise MismatchedParts(
                "the trace has no sequences; give an array of shape (n_trials, n_sequences, window + 1)"
            )
        check_ids(check_int64(tokens.ravel(), "sequences"), self.n_tokens, "sequences")
        shape = (len(steps), len(tokens))
        n_numbers = np.shape(self.numbers)[-1] if np.ndim(self.numbers) else 0
        numbers = check_floats(self.numbers, (*shape, n_numbers), "numbers", finite=False)
        losses = check_floats(self.losses, shape, "losses", finite=False)
        settle(self, steps=steps, numbers=numbers, losses=losses, sequences=tokens.astype(np.int64))

    def __repr__(self) -> str:
        sizes = f"{count_noun(self.n_trials, 'trial')}, {count_noun(self.model.n_layers, 'layer')}"
        return f"DeepTrace({sizes}, {len(self.steps):,} records to step {self.steps[-1]:,})"

    @property
    def window(self) -> int:
        """The number of positions with a next token in each sequence."""
        return self.sequences.shape[2] - 1

    @cached_property
    def model(self) -> DeepModel:
        """The model that was trained."""
        return self._restore("model", (DeepModel,))

    @cached_property
    def step(self) -> Any:
        """The update rule, of any class that a stored run can name."""
        return self._restore("step", (object,))

    @property
    def step_size(self) -> float:
        """The step size η of the update rule."""
        return float(self.step.step_size)

    def at(self, step: int) -> DeepWeights:
        """W, P, V and W_O of all trials after ``step`` steps; the step must be recorded."""
        return self.model.unpack(self.numbers[self.row_of(step)], n_tokens=self.n_tokens, window=self.window)

    def _norms(self) -> Float64:
        return np.linalg.norm(self.numbers, axis=2)

    def _blocks(self) -> list[Block]:
        first, last = self._mean_losses()
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
        """The arrays and the metadata of the file."""
        arrays = {name: getattr(self, name) for name in ("steps", "numbers", "losses", "sequences")}
        n_tokens, about = json.dumps(self.n_tokens), json.dumps(dict(self.about))
        return arrays, {"holds": self._content, "n_tokens": n_tokens, "about": about}

    @classmethod
    def _unpack(cls, arrays: Mapping[str, Any], metadata: Mapping[str, str], about: dict[str, Any]) -> Self:
        n_tokens = json.loads(metadata["n_tokens"])
        if not isinstance(n_tokens, int):
            raise TypeError("n_tokens is not a whole number")
        return cls(about=about, n_tokens=n_tokens, **arrays)
