"""A training run on disk, so that it can be killed at any moment and continued as if it had not been.

``training/manifest.json`` (what was asked, written first), ``training/trace.jsonl`` (a line per record),
``training/checkpoints/STEP.safetensors`` and, at the end, ``training/trace.safetensors``. A checkpoint holds
the parameters, the state of the step, and the records made since the checkpoint before it, whose digest it
names: so it costs the same late as early, and none can be missing from the middle.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attomaton.artifacts import (
    digest_file,
    json_writer,
    prepare_folder,
    read_arrays,
    write_arrays,
    write_file,
)
from attomaton.borders import check_floats, check_int64
from attomaton.errors import CorruptRun, MismatchedParts, UnwritablePlace
from attomaton.tables import Float64
from attomaton.training.configuration import first_difference
from attomaton.training.trace import Record, Trace

FORMAT = 1
FIRST = "none"
"""Stands for the digest of the checkpoint before the first."""


@dataclass(frozen=True)
class Store:
    """Where a run is kept.

    Attributes
    ----------
    path : str or Path
        The run folder; files go to ``path/training``.
    resume : bool
        Go on from the last checkpoint there, if there is one. False: an earlier training in it is erased.
    every : int, optional
        Steps between checkpoints. None: a twentieth of the run.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> samples, model = at.Samples.from_lists([[0, 1]], [0]), at.AttentionModel()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = at.train(samples, model, at.GradientDescent(1.0), steps=100, out=Store(folder, every=50))
    ...     store = Store(folder, resume=True)  # nothing is left to do, so the trace is read back
    ...     again = at.train(samples, model, at.GradientDescent(1.0), steps=100, out=store)
    ...     print(sorted(path.name for path in Path(folder, "training").iterdir()))
    ['checkpoints', 'manifest.json', 'trace.jsonl', 'trace.safetensors']
    >>> bool((first.weights == again.weights).all())
    True
    """

    path: str | Path
    resume: bool = False
    every: int | None = None


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A run after ``step`` steps, from which it can go on.

    ``records`` are those that no earlier checkpoint holds; ``finished``: no step is left to take.
    """

    step: int
    parameters: tuple[Float64, ...]
    state: tuple[Float64, ...]
    records: tuple[Record, ...]
    finished: bool


class TrainingFiles:
    """The files of one run; make one with :meth:`begin`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._previous = FIRST

    @classmethod
    def begin(cls, store: Store, asked: Mapping[str, Any]) -> tuple["TrainingFiles", Checkpoint | None]:
        """The files, and what to go on from: the last checkpoint with all records, if there is one."""
        files = cls(prepare_folder(store.path) / "training")
        try:
            if store.resume and files._manifest.exists():
                return files, files._continue(asked)
            files._erase()
            write_file(files._manifest, json_writer({"format": FORMAT, "asked": asked}))
        except CorruptRun:
            raise
        except OSError as error:
            raise UnwritablePlace(
                f"{files._folder} cannot be written: {error.strerror}; choose another folder"
            ) from error
        return files, None

    @property
    def _manifest(self) -> Path:
        return self._folder / "manifest.json"

    @property
    def _lines(self) -> Path:
        return self._folder / "trace.jsonl"

    @property
    def _trace(self) -> Path:
        return self._folder / "trace.safetensors"

    def tell(self, record: Record) -> None:
        """Add a line to ``trace.jsonl``."""
        with self._lines.open("a", encoding="utf-8") as file:
            file.write(_line(record))

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint."""
        records = checkpoint.records
        arrays: dict[str, NDArray[Any]] = {
            **{f"parameters/{place}": one for place, one in enumerate(checkpoint.parameters)},
            **{f"state/{place}": one for place, one in enumerate(checkpoint.state)},
        }
        if records:
            arrays["records/step"] = np.array([record.step for record in records], np.int64)
            arrays["records/weights"] = np.stack([record.weights for record in records])
            arrays["records/losses"] = np.stack([record.losses for record in records])
        about = {
            "step": str(checkpoint.step),
            "previous": self._previous,
            "finished": json.dumps(checkpoint.finished),
        }
        name = f"{checkpoint.step:012d}.safetensors"
        place = write_arrays(self._folder / "checkpoints" / name, arrays, about)
        self._previous = digest_file(place)

    def finish(self, trace: Trace) -> None:
        """Write the whole trace as one file."""
        trace.save(self._trace)

    def _erase(self) -> None:
        """Remove an earlier run, its manifest first, so that a run cut short here is none."""
        (self._folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        ours = [self._manifest, self._lines, self._trace, *self._folder.glob("checkpoints/*.safetensors")]
        for file in [*ours, *self._folder.rglob(".*.draft")]:
            file.unlink(missing_ok=True)

    def _continue(self, asked: Mapping[str, Any]) -> Checkpoint | None:
        self._check_manifest(asked)
        records: list[Record] = []
        last: Checkpoint | None = None
        for file in sorted(self._folder.glob("checkpoints/*.safetensors")):
            last = self._read(file)
            records += last.records
            self._previous = digest_file(file)
        write_file(self._lines, lambda draft: draft.write_text("".join(map(_line, records)), "utf-8"))
        if last is None:
            return None
        return Checkpoint(last.step, last.parameters, last.state, tuple(records), last.finished)

    def _check_manifest(self, asked: Mapping[str, Any]) -> None:
        try:
            stored = json.loads(self._manifest.read_text(encoding="utf-8"))
            known, there = stored["format"], dict(stored["asked"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CorruptRun(
                f"{self._manifest} was cut short or altered; train again without resume"
            ) from error
        if known != FORMAT:
            raise CorruptRun(
                f"{self._manifest} is of format {known}, not {FORMAT}; train again without resume"
            )
        different = first_difference(json.loads(json.dumps(asked)), there)
        if different is not None:
            raise MismatchedParts(
                f"the run in {self._folder.parent} was trained otherwise: {different}; resume it with its "
                "own settings, or train without resume, or in another folder"
            )

    def _read(self, file: Path) -> Checkpoint:
        arrays, about = read_arrays(file)
        if about.get("previous") != self._previous or about.get("step") != str(_step_of(file)):
            raise CorruptRun(
                f"{file} does not follow the checkpoint before it: one was deleted or replaced; restore it, "
                "or train again without resume"
            )
        return _checkpoint_of(arrays, about, file)


def read_trace(run: str | Path) -> Trace:
    """The trace of a finished run folder."""
    folder = Path(run) / "training"
    if not (folder / "trace.safetensors").is_file():
        begun = (folder / "manifest.json").is_file()
        advice = "it was cut short: train on with resume" if begun else "give a folder that train wrote"
        raise CorruptRun(f"{run} holds no finished training; {advice}")
    return Trace.load(folder / "trace.safetensors")


def _step_of(file: Path) -> int:
    if not file.stem.isdecimal() or len(file.stem) > 18:
        raise CorruptRun(f"{file} is not named after a step; move it elsewhere, or train without resume")
    return int(file.stem)


def _checkpoint_of(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str], file: Path) -> Checkpoint:
    try:
        state, parameters = _numbered(arrays, "state"), _numbered(arrays, "parameters")
        return Checkpoint(_step_of(file), parameters, state, _records(arrays), about["finished"] == "true")
    except (KeyError, ValueError) as error:  # MismatchedParts is a ValueError
        reason = str(error).partition(";")[0]
        raise CorruptRun(
            f"{file} is no whole checkpoint ({reason}); restore it, or train again without resume"
        ) from error


def _numbered(arrays: Mapping[str, NDArray[Any]], name: str) -> tuple[Float64, ...]:
    """The arrays ``name/0``, ``name/1`` … in order."""
    count = sum(one.startswith(f"{name}/") for one in arrays)
    return tuple(arrays[f"{name}/{place}"] for place in range(count))


def _records(arrays: Mapping[str, NDArray[Any]]) -> tuple[Record, ...]:
    if "records/step" not in arrays:
        return ()
    steps = check_int64(arrays["records/step"], "the steps of records")
    shape = arrays["records/weights"].shape
    n_trials, dim = (shape[1], shape[2]) if len(shape) == 4 and shape[1] else (1, 1)
    weights = check_floats(
        arrays["records/weights"], (len(steps), n_trials, dim, dim), "the weights of records", finite=False
    )
    losses = check_floats(
        arrays["records/losses"], (len(steps), n_trials), "the losses of records", finite=False
    )
    return tuple(Record(*one) for one in zip(steps.tolist(), weights, losses, strict=True))


def _line(record: Record) -> str:
    """Step, loss (mean, min, max over trials) and mean norm of W; null where a number is not finite."""
    norms: Sequence[float] = np.linalg.norm(record.weights, axis=(1, 2)).tolist()
    losses: Sequence[float] = record.losses.tolist()
    told = {
        "loss_mean": sum(losses) / len(losses),
        "loss_min": min(losses),
        "loss_max": max(losses),
        "norm_mean": sum(norms) / len(norms),
    }
    shown = {name: value if math.isfinite(value) else None for name, value in told.items()}
    return json.dumps({"step": record.step, **shown}) + "\n"
