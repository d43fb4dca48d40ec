"""What a training run leaves: the weights of every trial at the steps that were recorded."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import read_arrays, save_arrays
from attomaton.base.artifacts.arrays import MEND
from attomaton.base.borders import check_floats, check_ids, check_int64, check_rising, keep_checked
from attomaton.base.drawing import HEIGHT, house_axes
from attomaton.base.errors import CorruptRun, MismatchedParts, UnknownToken, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import given_path
from attomaton.base.printing import BLUE, Block, Grid
from attomaton.base.solutions import LARGEST
from attomaton.base.tables import Float64, Int64, table_of
from attomaton.corpora.samples import Samples
from attomaton.graphs.origin import read_corpora
from attomaton.training.configuration import restore
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import EmbeddingTable
from attomaton.training.steepest import STEPS
from attomaton.training.steps import Step


def draw_run(steps: Int64, losses: Float64, norms: Float64, ax: Any = None) -> Any:
    """Loss and norm of W by step, mean ± standard deviation over trials, shape (n_records, n_trials) each.

    ``ax`` is None or a pair of axes, which are returned.
    """
    with house_axes(ax, height=2 * HEIGHT, n=2) as pair:
        several = losses.shape[1] > 1
        for axes, values, title, level in (
            (pair[0], losses, "training loss", True),
            (pair[1], norms, "norm of W", False),
        ):
            _draw(axes, steps, values, log=level)
            axes.set_title(
                f"{title}, mean ± std of {losses.shape[1]:,} trials" if several else title, loc="left"
            )
        pair[1].set_xlabel("step")
    return pair


def _draw(axes: Any, steps: Int64, values: Float64, *, log: bool) -> None:
    kept = steps > 0 if (steps > 0).sum() > 1 else np.ones(len(steps), bool)
    at, shown = steps[kept], values[kept]
    log = log and bool((shown > 0).all())
    if log:
        with np.errstate(invalid="ignore"):
            shown = np.log(shown)
    mean, spread = shown.mean(axis=1), shown.std(axis=1)
    middle, lower, upper = (np.exp(one) if log else one for one in (mean, mean - spread, mean + spread))
    if values.shape[1] > 1:
        axes.fill_between(at, lower, upper, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(at, middle, color=BLUE, marker="o" if len(at) == 1 else None)
    if len(at) > 1 and at[0] > 0:
        axes.set_xscale("log")
    if log:
        axes.set_yscale("log")


class Record(NamedTuple):
    """One moment of a run: steps taken, W (n_trials, dim, dim), mean losses (n_trials,).

    Examples
    --------
    >>> Record(step=0, weights=np.zeros((1, 2, 2)), losses=np.log([2.0])).losses.round(4).tolist()
    [0.6931]
    """

    step: int
    weights: Float64
    losses: Float64


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Tabular):
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

    def __post_init__(self) -> None:
        """Refuse parts whose shapes do not fit together."""
        steps, n_trials = check_int64(self.steps, "steps"), len(self.samples)
        if not len(steps) or not n_trials:
            raise MismatchedParts("a trace needs at least one record of at least one trial; train some steps")
        check_rising(steps, "steps")
        check_ids(steps[:1], int(steps[-1]) + 1, "the first step")
        dim = np.shape(self.weights)[-1] if np.ndim(self.weights) else 0
        shape = (len(steps), n_trials, dim, dim)
        weights = check_floats(self.weights, shape, "weights", finite=False)
        losses = check_floats(self.losses, shape[:2], "losses", finite=False)
        sizes = {one.n_tokens for one in self.samples}
        tables = check_floats(self.embeddings, (n_trials, max(sizes), dim), "embeddings")
        if np.abs(tables).max(initial=0.0) > LARGEST:
            raise MismatchedParts(f"embeddings hold numbers above {LARGEST:.0e}; {MEND}")
        if len(sizes) > 1:
            raise MismatchedParts(
                "the trials of a trace have vocabularies of different sizes; trace them apart"
            )
        keep_checked(self, steps=steps, weights=weights, losses=losses, embeddings=tables)

    @classmethod
    def from_records(
        cls,
        records: Sequence[Record],
        embeddings: Float64,
        samples: Sequence[Samples],
        about: Mapping[str, Any],
    ) -> "Trace":
        """The records one after the other.

        Examples
        --------
        >>> samples = Samples.from_lists([[0, 1]], [0])
        >>> records = [Record(step, np.zeros((1, 2, 2)), np.log([2.0])) for step in (0, 10)]
        >>> Trace.from_records(records, np.eye(2)[None], [samples], {"made by": "hand"})
        Trace(1 trials, 2 records to step 10)
        """
        return cls(
            np.array([record.step for record in records], np.int64),
            np.stack([record.weights for record in records]),
            np.stack([record.losses for record in records]),
            embeddings,
            tuple(samples),
            about,
        )

    def __repr__(self) -> str:
        return f"Trace({self.n_trials:,} trials, {len(self.steps):,} records to step {self.steps[-1]:,})"

    def _table(self) -> pa.Table:
        """Columns step, trial (int64), loss and norm of W (float64), a row for each record and trial."""
        columns = {
            "step": np.repeat(self.steps, self.n_trials),
            "trial": np.tile(np.arange(self.n_trials), len(self.steps)),
            "loss": self.losses.ravel(),
            "norm": np.linalg.norm(self.weights, axis=(2, 3)).ravel(),
        }
        return table_of(columns)

    def summary(self) -> dict[str, Any]:
        """What the run came to: counts, and mean losses and norm over the trials; None is not finite.

        Examples
        --------
        >>> samples = Samples.from_lists([[0, 1]], [0])
        >>> records = [Record(step, np.zeros((1, 2, 2)), np.log([2.0])) for step in (0, 10)]
        >>> Trace.from_records(records, np.eye(2)[None], [samples], {}).summary()["steps"]
        10
        """
        first, last = (float(self.losses[place].mean()) for place in (0, -1))
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
        told = self.summary()
        trials = [("trials (numbers below are means)", f"{self.n_trials:,}")] if self.n_trials > 1 else []
        rows = [
            *trials,
            ("realisable samples", f"{told['samples']:,}"),
            ("tokens", f"{told['tokens']:,}"),
            ("dimensions", f"{told['dim']:,}"),
            ("steps", f"{told['steps']:,}"),
            ("loss at the start", _shown(told["first_loss"])),
            ("loss at the end", _shown(told["loss"])),
            ("norm of W", _shown(told["norm"])),
        ]
        failed = ["The loss is not finite. Try a smaller step size."] if told["loss"] is None else []
        return [Grid("Training", ["", ""], rows), *failed]

    @property
    def n_trials(self) -> int:
        """How many trials were trained."""
        return self.weights.shape[1]

    @cached_property
    def model(self) -> AttentionModel:
        """The layer that was trained."""
        model: AttentionModel = self._restore("model", (AttentionModel,))
        if isinstance(
            model.embeddings, EmbeddingTable
        ):  # the record holds a digest, the trace the table itself
            return replace(model, embeddings=EmbeddingTable(self.embeddings[0]))
        return model

    @cached_property
    def step(self) -> Step:
        """How the gradient moved it."""
        return self._restore("step", STEPS)

    def _restore(self, name: str, kinds: tuple[type[Any], ...]) -> Any:
        try:
            found = restore(self.about[name])
        except (AttributeError, KeyError, TypeError) as error:
            raise CorruptRun(f"the trace does not say what its {name} was ({error}); {MEND}") from error
        if not isinstance(found, kinds):
            raise CorruptRun(f"the trace says that its {name} was {found!r}, which is none; {MEND}")
        return found

    def plot(self, ax: Any = None) -> Any:
        """Draw loss and norm of W by step; returns the two matplotlib axes, ``ax`` if they were given.

        Examples
        --------
        >>> import matplotlib as mpl
        >>> mpl.use("agg")
        >>> samples = Samples.from_lists([[0, 1]], [0])
        >>> records = [Record(step, np.full((1, 2, 2), step), np.log([2.0])) for step in (0, 1, 10)]
        >>> trace = Trace.from_records(records, np.eye(2)[None], [samples], {})
        >>> [axes.get_title(loc="left") for axes in trace.plot()]
        ['training loss', 'norm of W']
        """
        return draw_run(self.steps, self.losses, np.linalg.norm(self.weights, axis=(2, 3)), ax)

    def at(self, step: int) -> Float64:
        """W of all trials after ``step`` steps, shape (n_trials, dim, dim), if it was recorded."""
        place = np.flatnonzero(self.steps == step)
        if not len(place):
            raise UnknownToken(f"step {step} was not recorded; trace.steps lists the records")
        return self.weights[place[0]]

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file, atomically; of other files in the place, only a trace is replaced."""
        return save_arrays(path, *self.pack())

    def pack(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Arrays and texts to write; corpora that several trials share are among them once.

        Examples
        --------
        >>> samples = Samples.from_lists([[0, 1]], [0])
        >>> records = [Record(0, np.zeros((1, 2, 2)), np.log([2.0]))]
        >>> sorted(Trace.from_records(records, np.eye(2)[None], [samples], {}).pack()[1])
        ['about', 'holds', 'n_tokens']
        """
        corpora = list({id(one): one for one in self.samples}.values())
        number = {id(one): place for place, one in enumerate(corpora)}
        parts = {"steps": self.steps, "weights": self.weights, "losses": self.losses}
        arrays: dict[str, Any] = {**parts, "embeddings": self.embeddings}
        arrays["corpus_of_trial"] = np.array([number[id(one)] for one in self.samples], np.int64)
        for place, one in enumerate(corpora):
            for name in ("values", "starts", "stops", "labels"):
                arrays[f"corpora/{place}/{name}"] = getattr(one, name)
        sizes = [one.n_tokens for one in corpora]
        about = {"holds": "trace", "n_tokens": json.dumps(sizes), "about": json.dumps(dict(self.about))}
        return arrays, about

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """Read what :meth:`save` wrote; a file that was cut short or altered raises ``CorruptRun``."""
        place = given_path(path, "path")
        if place.is_dir():
            training = place / "training" / "trace.safetensors"
            advice = str(training) if training.is_file() else "a file that Trace.save wrote"
            raise UnsupportedOption(f"{place} is a folder, and a trace is one file; give {advice}")
        arrays, about = read_arrays(place)
        if about.get("holds") != "trace":
            raise CorruptRun(f"{path} holds no trace; give a file that Trace.save wrote")
        try:
            return cls._assemble(arrays, about)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            reason = str(error).partition(";")[0]
            raise CorruptRun(f"{path} holds no whole trace ({reason}); {MEND}") from error

    @classmethod
    def _assemble(cls, arrays: Mapping[str, Any], about: Mapping[str, str]) -> "Trace":
        corpora = read_corpora(arrays, about)
        owners = check_int64(arrays["corpus_of_trial"], "corpus_of_trial")
        check_ids(owners, len(corpora), "corpus_of_trial")
        told = json.loads(about["about"])
        if not isinstance(told, dict):
            raise TypeError("what it says about itself is no record")
        parts = {name: arrays[name] for name in ("steps", "weights", "losses", "embeddings")}
        places: list[int] = owners.tolist()
        samples = tuple(corpora[place] for place in places)
        return cls(samples=samples, about=cast("dict[str, Any]", told), **parts)


def _shown(number: float | None) -> str:
    return "not finite" if number is None else f"{number:.6f}"
