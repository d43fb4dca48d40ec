"""A training run on disk that can be killed at any moment and resumed with the same result.

A run is written to ``training.partial-<id>`` and renamed to ``training`` when complete: ``trace.jsonl`` (a
line per record), ``checkpoints/STEP.safetensors``, at the end ``trace.safetensors``, and ``manifest.json``
with the settings and the digest of every file. A checkpoint contains the parameters, the state of the step,
the records since the previous checkpoint, and the digest of the previous checkpoint. So its size does not
grow during a run, and a missing checkpoint is detected.

:func:`open_training` opens a run for the training loop; :func:`read_trace` reads a finished run.
"""

import json
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attomaton.base import artifacts
from attomaton.base.artifacts import MANIFEST, RUN, TRAINING as KIND, Building, explained, folders
from attomaton.base.artifacts.files import show_path
from attomaton.base.artifacts.manifests import FORMAT
from attomaton.base.artifacts.ownership import PARTIAL, Lock, is_partial, take_stock
from attomaton.base.artifacts.partials import drop_partial, find_partials
from attomaton.base.borders import check_floats, check_int64
from attomaton.base.errors import CorruptRun, MismatchedParts, UnwritablePlace
from attomaton.base.options import Checked, checked, given_path, whole_number
from attomaton.base.tables import Float64
from attomaton.corpora.samples import NOTHING_SKIPPED, Samples, Skipped
from attomaton.graphs.origin import check_origin
from attomaton.training.configuration import first_difference
from attomaton.training.trace import DeepTrace, StepRecord, Trace, stack_records

TRAINING_FOLDER = KIND.name
TRACE_FILE = "trace.safetensors"
CHECKPOINTS = "checkpoints"
LINES = "trace.jsonl"

# Checkpoints are named after their step, with zeros in front so that names sort like steps.
STEP_DIGITS = 12
TRAINING_FILES = (TRACE_FILE, LINES, f"{CHECKPOINTS}/{'[0-9]' * STEP_DIGITS}.safetensors")

# Longer numbers in the name of a file do not fit into int64.
MOST_STEP_DIGITS = 18

# In place of a digest in the first checkpoint.
NO_CHECKPOINT = "none"

# A run has about this many checkpoints by default.
DEFAULT_CHECKPOINTS = 20


@dataclass(frozen=True)
class Store(Checked):
    """Choose where a training run is stored, and what happens to an earlier run.

    Files go to the folder ``training`` in the run folder ``path``, with ``every`` steps from one checkpoint
    to the next (None means a twentieth of the run). ``resume`` continues from the last checkpoint, if there
    is one; ``overwrite`` replaces an earlier training run once this run is complete. If both are False, a
    folder with a training run is refused.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> samples, model = at.Samples.from_lists([[0, 1]], [0]), at.AttentionModel()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trace = at.train(samples, model, 1.0, steps=100, out=Store(folder, every=50))
    ...     print(sorted(path.name for path in Path(folder, "training").iterdir()))
    ['checkpoints', 'manifest.json', 'trace.jsonl', 'trace.safetensors']
    """

    path: str | Path
    resume: bool = False
    every: int | None = field(default=None, metadata=checked(whole_number, least=1))
    overwrite: bool = False

    @classmethod
    def of(cls, out: "Store | str | PathLike[str] | None") -> "Store | None":
        """The store itself, or one for a folder; None means that nothing is stored."""
        return out if out is None or isinstance(out, Store) else cls(given_path(out, "out"))

    def interval(self, steps: int) -> int:
        """Steps between checkpoints of a run with this many steps."""
        return max(steps // DEFAULT_CHECKPOINTS, 1) if self.every is None else self.every


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A run after ``step`` steps, from which it can be resumed."""

    step: int
    parameters: tuple[Float64, ...]
    state: tuple[Float64, ...]  # of the update rule, such as Adam's running means
    records: tuple[StepRecord, ...]  # in a file those since the previous checkpoint, else all records so far
    finished: bool  # whether no step is left to take


class TrainingFiles:
    """The files of a run in progress; :func:`open_training` opens them."""

    def __init__(self, building: Building, settings: Mapping[str, Any], skipped: Skipped) -> None:
        self._building = building
        self._settings = settings
        self._skipped = asdict(skipped)
        self._previous = NO_CHECKPOINT  # the digest of the last checkpoint
        self._lines = building.folder / LINES

    def log(self, record: StepRecord) -> None:
        """Append a record to ``trace.jsonl``."""
        with explained(self._lines), self._lines.open("a", encoding="utf-8") as file:
            file.write(_log_line(record))

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, with the digest of the checkpoint before it."""
        arrays: dict[str, NDArray[Any]] = {}
        for name in ("parameters", "state"):
            arrays |= {f"{name}/{index}": array for index, array in enumerate(getattr(checkpoint, name))}
        if checkpoint.records:
            steps, weights, losses = stack_records(checkpoint.records)
            arrays |= {"records/step": steps, "records/weights": weights, "records/losses": losses}
        about = {
            "step": str(checkpoint.step),
            "previous": self._previous,
            "finished": json.dumps(checkpoint.finished),
        }
        folder = self._building.folder / CHECKPOINTS
        with explained(folder):
            folder.mkdir(exist_ok=True)
            file = folder / f"{checkpoint.step:0{STEP_DIGITS}d}.safetensors"
            written = artifacts.write_arrays(file, arrays, about)
        self._previous = written["sha256"]

    def finish(self, trace: Trace | DeepTrace) -> None:
        """Write the complete trace as one file, and the manifest, which marks the run as complete."""
        folder = self._building.folder
        with explained(folder):
            artifacts.write_arrays(folder / TRACE_FILE, *trace.pack())
            checkpoints = (folder / CHECKPOINTS).glob("*.safetensors")
            steps = sorted(path for path in checkpoints if path.stem.isdecimal())
            digests = self._building.digest_files([self._lines, folder / TRACE_FILE, *steps])
            self._building.finish({"settings": self._settings, "skipped": self._skipped}, digests)

    def resume(self) -> Checkpoint | None:
        """The last checkpoint with all records, if there is one; the log is written anew up to it."""
        checkpoint, self._previous = _read_checkpoints(self._building.folder)
        records = () if checkpoint is None else checkpoint.records
        lines = "".join(map(_log_line, records))
        artifacts.write_file(self._lines, lambda draft: draft.write_text(lines, "utf-8"))
        return checkpoint


@contextmanager
def open_training(
    store: Store | None, settings: Mapping[str, Any], corpora: Sequence[Samples]
) -> Generator[tuple[TrainingFiles | None, Checkpoint | None]]:
    """The files to write, if any, and the checkpoint to resume from; a finished run is only read."""
    if store is None:
        yield None, None
        return
    run = folders.resolve_target(store.path)
    settings = json.loads(json.dumps(settings))  # in the form that is read back: tuples become lists
    with folders.lock_target(run) as lock:  # until the end of the run
        with explained(run):
            _prepare_run(run, corpora, lock)
            finished = _is_finished(run / TRAINING_FOLDER, store, settings, lock)
        if finished:
            yield None, _read_checkpoints(run / TRAINING_FOLDER)[0]
            return
        with artifacts.build_folder(
            run / TRAINING_FOLDER,
            KIND,
            TRAINING_FILES,
            overwrite=store.overwrite or store.resume,
            resumable=True,
            lock=lock,
            about={"settings": settings},
        ) as building:
            skipped = {id(corpus): corpus.skipped for corpus in corpora}.values()  # each corpus once
            files = TrainingFiles(building, settings, sum(skipped, NOTHING_SKIPPED))
            yield files, files.resume()


# Create the run folder if it is new or empty; refuse one that is not ours or has other samples.
def _prepare_run(run: Path, corpora: Sequence[Samples], lock: Lock) -> None:
    if take_stock(run) is not None:
        folders.check_folder_kind(run, RUN)
        _check_origins(run, corpora)
        return
    folders.check_replaceable(run, RUN, overwrite=False)
    run.mkdir(exist_ok=True)
    draft = run / lock.draft.name  # known to the next writer
    artifacts.write_sealed(run / MANIFEST, {"kind": RUN.name, "format": FORMAT, "files": {}}, draft=draft)


# Whether the run is complete, so that it only has to be read; refuse a run that may not be changed.
def _is_finished(target: Path, store: Store, settings: Mapping[str, Any], lock: Lock) -> bool:
    partials = find_partials(target)
    unfinished = [path for path in partials if is_partial(path)]
    altered = [path for path in partials if path not in unfinished and take_stock(path) is None]  # unreadable
    if altered and store.resume:
        raise CorruptRun(f"{altered[0] / PARTIAL} is truncated or altered; train again without resume")
    stored = _read_settings(unfinished[0] / PARTIAL if unfinished else target / MANIFEST)
    if stored is None:
        if store.resume and target.exists():
            raise CorruptRun(f"{target / MANIFEST} is truncated or altered; train again without resume")
        return False
    difference = first_difference(dict(settings), stored)
    if store.resume and difference is None:
        return not unfinished  # `build_folder` takes up the unfinished folder
    if not store.overwrite and store.resume:
        raise MismatchedParts(
            f"the run in {show_path(target.parent)} has other settings: {difference}; resume it with its "
            "settings, or train in another folder, or replace it with --overwrite (overwrite=True)"
        )
    if not store.overwrite:
        state = "an unfinished training run" if unfinished else "a training run"
        raise UnwritablePlace(
            f"{show_path(target.parent)} already contains {state}; continue it with --resume (in Python: "
            "resume=True), replace it with --overwrite (overwrite=True), or give another folder"
        )
    for path in unfinished:  # those may be overwritten
        drop_partial(path, lock)
    return False


# The settings in the manifest of a finished run, or in the record of an unfinished one (below "about").
def _read_settings(path: Path) -> dict[str, Any] | None:
    record = artifacts.read_sealed(path) or {}
    about = record.get("about") if path.name == PARTIAL else record
    settings = cast("dict[str, Any]", about).get("settings") if isinstance(about, dict) else None
    return cast("dict[str, Any]", settings) if isinstance(settings, dict) else None


# The last checkpoint, with the records of all checkpoints, and the digest of its file.
def _read_checkpoints(folder: Path) -> tuple[Checkpoint | None, str]:
    records: list[StepRecord] = []
    last, previous = None, NO_CHECKPOINT
    for file in sorted((folder / CHECKPOINTS).glob("*.safetensors")):
        last = read_checkpoint(file, previous)
        records += last.records
        previous = artifacts.digest_file(file)
    return None if last is None else replace(last, records=tuple(records)), previous


def read_checkpoint(file: Path, previous: str | None = None) -> Checkpoint:
    """A checkpoint with its own records; it must follow the one with digest ``previous``, if given."""
    arrays, about = artifacts.read_arrays(file)
    if not file.stem.isdecimal() or len(file.stem) > MOST_STEP_DIGITS:
        raise CorruptRun(f"{file} is not named after a step; move it elsewhere, or train without resume")
    step = int(file.stem)
    is_misnamed = about.get("step") != str(step)
    if is_misnamed and previous is None:
        raise CorruptRun(f"{file} is a checkpoint of another step than its name says; restore the file")
    if is_misnamed or previous not in (None, about.get("previous")):
        raise CorruptRun(
            f"{file} does not follow the checkpoint before it, since a checkpoint was deleted or replaced; "
            "restore it, or train again without resume"
        )
    try:
        parameters = _numbered_arrays(arrays, "parameters")
        state = _numbered_arrays(arrays, "state")
        return Checkpoint(step, parameters, state, _records(arrays), about["finished"] == "true")
    except (KeyError, ValueError) as error:  # MismatchedParts is a ValueError
        reason = str(error).partition(";")[0]
        raise CorruptRun(
            f"{file} is not a complete checkpoint ({reason}); restore it, or train again without resume"
        ) from error


# The arrays name/0, name/1, …; a KeyError if a number is missing.
def _numbered_arrays(arrays: Mapping[str, NDArray[Any]], name: str) -> tuple[Float64, ...]:
    number = sum(key.startswith(f"{name}/") for key in arrays)
    return tuple(arrays[f"{name}/{index}"] for index in range(number))


def read_trace(run: str | Path) -> Trace:
    """The trace of a finished run; its samples must be those of the automaton in the run folder, if any."""
    folder = Path(run) / TRAINING_FOLDER
    if not (folder / TRACE_FILE).is_file():
        is_started = any(map(is_partial, find_partials(folder))) if folder.parent.is_dir() else False
        advice = "continue the unfinished run with resume" if is_started else "give a folder that train wrote"
        raise CorruptRun(f"{run} does not contain a finished training run; {advice}")
    trace = Trace.load(folder / TRACE_FILE)
    if (Path(run) / MANIFEST).is_file():
        _check_origins(Path(run), trace.samples)
    return trace


# Refuse trials in a run folder with other samples; samples of several trials are checked once.
def _check_origins(run: Path, corpora: Sequence[Samples]) -> None:
    for samples in {id(corpus): corpus for corpus in corpora}.values():
        check_origin(run, samples)


# The records that `TrainingFiles.save` stacked, for one layer or a deep model.
def _records(arrays: Mapping[str, NDArray[Any]]) -> tuple[StepRecord, ...]:
    if "records/step" not in arrays:
        return ()
    steps = check_int64(arrays["records/step"], "the steps of records")
    # Only the number of dimensions is checked here, the sizes by the run; 1 stands for a missing dimension.
    n_trials, *sizes = arrays["records/weights"].shape[1:] or (1,)
    shape = (len(steps), n_trials, *(sizes or (1,)))
    weights = check_floats(arrays["records/weights"], shape, "the weights of records", finite=False)
    losses = check_floats(arrays["records/losses"], shape[:2], "the losses of records", finite=False)
    return tuple(map(StepRecord, steps.tolist(), weights, losses))


# Step, loss (mean, min, max over trials) and mean norm of W; null if a number is not finite.
def _log_line(record: StepRecord) -> str:
    axes = tuple(range(1, record.weights.ndim))
    with np.errstate(over="ignore"):  # diverging weights become null
        norms: Sequence[float] = np.sqrt((record.weights * record.weights).sum(axis=axes)).tolist()
    losses: Sequence[float] = record.losses.tolist()
    numbers = {
        "loss_mean": sum(losses) / len(losses),
        "loss_min": min(losses),
        "loss_max": max(losses),
        "norm_mean": sum(norms) / len(norms),
    }
    finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    return json.dumps({"step": record.step, **finite}) + "\n"
