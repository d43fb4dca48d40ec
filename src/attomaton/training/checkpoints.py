"""A training run on disk, so that it can be killed at any moment and continued as if it had not been.

A run grows in ``training.partial-<id>`` and is called ``training`` when it is whole: ``trace.jsonl`` (a line
per record), ``checkpoints/STEP.safetensors``, at the end ``trace.safetensors``, and ``manifest.json`` with
what was asked and the digest of every file. A checkpoint holds the parameters, the state of the step, and the
records made since the checkpoint before it, whose digest it names: so it costs the same late as early, and
none can be missing from the middle.
"""

import json
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from attomaton.base.artifacts import (
    MANIFEST,
    RUN,
    TRAINING as KIND,
    Building,
    build_folder,
    digest_file,
    explained,
    read_arrays,
    read_sealed,
    write_arrays,
    write_file,
    write_sealed,
)
from attomaton.base.artifacts.files import shown
from attomaton.base.artifacts.folders import (
    check_kind,
    check_replaceable,
    drop_partial,
    find_partials,
    find_place,
    hold,
)
from attomaton.base.artifacts.manifests import FORMAT
from attomaton.base.artifacts.ownership import PARTIAL, Lock, is_partial, take_stock
from attomaton.base.borders import check_floats, check_int64
from attomaton.base.errors import CorruptRun, MismatchedParts, UnwritablePlace
from attomaton.base.options import given_path, whole_number
from attomaton.base.tables import Float64
from attomaton.corpora.samples import NOTHING_SKIPPED, Samples, Skipped
from attomaton.graphs.origin import check_origin
from attomaton.training.configuration import first_difference
from attomaton.training.trace import Record, Trace

TRAINING, TRACE, CHECKPOINTS = KIND.name, "trace.safetensors", "checkpoints"
LINES = "trace.jsonl"
FILES = (TRACE, LINES, f"{CHECKPOINTS}/{'#' * 12}.safetensors")
"""The files of a training; checkpoints are named after their step."""

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
        Go on from the last checkpoint there, if there is one.
    every : int, optional
        Steps between checkpoints. None means a twentieth of the run.
    overwrite : bool
        Replace an earlier training in the folder, once this one is whole. Without it and without ``resume``,
        a folder that has a training is refused.

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
    overwrite: bool = False


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


class Packed(Protocol):
    """A trace that says what is written of it: ``Trace`` or ``DeepTrace``."""

    def pack(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Arrays and texts."""
        ...


class TrainingFiles:
    """The files of one run that goes on; :func:`open_training` makes them."""

    def __init__(self, building: Building, asked: Mapping[str, Any], skipped: Skipped) -> None:
        self._building = building
        self._asked = asked
        self._skipped = asdict(skipped)
        self._previous = FIRST

    @property
    def _lines(self) -> Path:
        return self._building.folder / LINES

    def tell(self, record: Record) -> None:
        """Add a line to ``trace.jsonl``."""
        with explained(self._lines), self._lines.open("a", encoding="utf-8") as file:
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
        place = self._building.folder / CHECKPOINTS
        with explained(place):
            place.mkdir(exist_ok=True)
            written = write_arrays(place / f"{checkpoint.step:012d}.safetensors", arrays, about)
        self._previous = written["sha256"]

    def finish(self, trace: Packed) -> None:
        """Write the whole trace as one file, and the manifest, which makes the training whole."""
        with explained(self._building.folder):
            write_arrays(self._building.folder / TRACE, *trace.pack())
            steps = sorted(path for path in (self._building.folder / CHECKPOINTS).iterdir() if _is_step(path))
            listed = [self._lines, self._building.folder / TRACE, *steps]
            self._building.finish(
                {"asked": self._asked, "skipped": self._skipped}, self._building.digest_files(listed)
            )

    def take_up(self) -> Checkpoint | None:
        """What to go on from: the last checkpoint with all records, if there is one."""
        found, self._previous = _read_all(self._building.folder)
        records = () if found is None else found.records
        write_file(self._lines, lambda draft: draft.write_text("".join(map(_line, records)), "utf-8"))
        return found


@contextmanager
def open_training(
    store: Store, asked: Mapping[str, Any], corpora: Sequence[Samples]
) -> Generator[tuple[TrainingFiles | None, Checkpoint | None]]:
    """The files to write, and what to go on from; no files where nothing is left to do.

    The lock of the run folder is held until the end.
    """
    place = find_place(store.path)
    wanted = json.loads(json.dumps(asked))
    with hold(place) as lock:
        with explained(place):
            _prepare_run(place, corpora, lock)
            going_on = _choose(place / TRAINING, store, wanted, lock)
        if going_on == "finished":
            yield None, _read_all(place / TRAINING)[0]
            return
        with build_folder(
            place / TRAINING,
            KIND,
            FILES,
            overwrite=store.overwrite or store.resume,
            resumable=True,
            held=lock,
            about={"asked": wanted},
        ) as building:
            read = {id(one): one.skipped for one in corpora}.values()
            files = TrainingFiles(building, wanted, sum(read, NOTHING_SKIPPED))
            yield files, files.take_up()


@contextmanager
def open_store(
    store: Store | None, asked: Mapping[str, Any], corpora: Sequence[Samples]
) -> Generator[tuple[TrainingFiles | None, Checkpoint | None]]:
    """What :func:`open_training` opens; nothing where nothing is kept."""
    if store is None:
        yield None, None
        return
    with open_training(store, asked, corpora) as opened:
        yield opened


def as_store(out: Store | str | PathLike[str] | None) -> Store | None:
    """Where a run is kept, given as such or as the path of its folder; None means nowhere."""
    return out if out is None or isinstance(out, Store) else Store(given_path(out, "out"))


def checkpoint_interval(out: Store | str | PathLike[str] | None, steps: int) -> int:
    """Steps between checkpoints of a run of so many steps."""
    every = out.every if isinstance(out, Store) else None
    return max(steps // 20, 1) if every is None else whole_number(every, "every of the Store", least=1)


def _prepare_run(place: Path, corpora: Sequence[Samples], lock: Lock) -> None:
    """Make the run folder if it is new or empty; refuse any that is not ours, or is of other samples."""
    if take_stock(place) is not None:
        check_kind(place, RUN)
        _check_origins(place, corpora)
        return
    check_replaceable(place, RUN, overwrite=False)
    place.mkdir(exist_ok=True)
    draft = place / lock.draft.name  # which the next writer knows
    write_sealed(place / MANIFEST, {"kind": RUN.name, "format": FORMAT, "files": {}}, draft=draft)


def _choose(target: Path, store: Store, asked: Mapping[str, Any], lock: Lock) -> str:
    """Whether a training is taken up, read because it is finished, or begun anew; what it replaces goes."""
    left = find_partials(target)
    broken = [one for one in left if not is_partial(one) and take_stock(one) is None]
    if broken and store.resume:
        raise CorruptRun(f"{broken[0] / PARTIAL} was cut short or altered; train again without resume")
    left = [one for one in left if is_partial(one)]
    there = _asked_there(left[0] / PARTIAL if left else target / MANIFEST)
    if there is None:
        if store.resume and target.exists():
            raise CorruptRun(f"{target / MANIFEST} was cut short or altered; train again without resume")
        return "begun"
    different = first_difference(dict(asked), there)
    if store.resume and different is None:
        return "taken up" if left else "finished"
    if not store.overwrite and store.resume:
        raise MismatchedParts(
            f"the run in {shown(target.parent)} was trained otherwise: {different}; resume it with its "
            "own settings, or train in another folder, or replace it with --overwrite (overwrite=True)"
        )
    if not store.overwrite:
        state = "an unfinished training" if left else "a training"
        raise UnwritablePlace(
            f"{shown(target.parent)} holds {state} already; go on with it by --resume (in Python: "
            "resume=True), replace it with --overwrite (overwrite=True), or give another folder"
        )
    for one in left:
        drop_partial(one, lock)
    return "begun"


def _asked_there(path: Path) -> dict[str, Any] | None:
    """What a training on disk was asked to do; None if there is none."""
    record = read_sealed(path)
    if record is None:
        return None
    about = record.get("about") if path.name == PARTIAL else record
    asked = cast("dict[str, Any]", about).get("asked") if isinstance(about, dict) else None
    return cast("dict[str, Any]", asked) if isinstance(asked, dict) else None


def _read_all(folder: Path) -> tuple[Checkpoint | None, str]:
    """The last checkpoint with the records of all, and its digest."""
    records: list[Record] = []
    last, previous = None, FIRST
    for file in sorted((folder / CHECKPOINTS).glob("*.safetensors")):
        last = _read(file, previous)
        records += last.records
        previous = digest_file(file)
    if last is None:
        return None, previous
    return Checkpoint(last.step, last.parameters, last.state, tuple(records), last.finished), previous


def _read(file: Path, previous: str) -> Checkpoint:
    arrays, about = read_arrays(file)
    if about.get("previous") != previous or about.get("step") != str(_step_of(file)):
        raise CorruptRun(
            f"{file} does not follow the checkpoint before it: one was deleted or replaced; restore it, "
            "or train again without resume"
        )
    return _checkpoint_of(arrays, about, file)


def read_checkpoint(file: str | Path) -> Checkpoint:
    """One checkpoint by itself: its parameters, state and own records."""
    place = Path(file)
    arrays, about = read_arrays(place)
    if about.get("step") != str(_step_of(place)):
        raise CorruptRun(f"{place} is no checkpoint of the step that it is named after; restore it")
    return _checkpoint_of(arrays, about, place)


def read_trace(run: str | Path) -> Trace:
    """The trace of a finished run folder, which fits the run that is there beside it."""
    folder = Path(run) / TRAINING
    if not (folder / TRACE).is_file():
        begun = any(map(is_partial, find_partials(folder))) if folder.parent.is_dir() else False
        advice = "it was cut short: train on with resume" if begun else "give a folder that train wrote"
        raise CorruptRun(f"{run} holds no finished training; {advice}")
    trace = Trace.load(folder / TRACE)
    if (Path(run) / MANIFEST).is_file():
        _check_origins(Path(run), trace.samples)
    return trace


def _check_origins(place: Path, corpora: Sequence[Samples]) -> None:
    """Refuse trials beside a run of other samples; what several trials share is looked at once."""
    for samples in {id(one): one for one in corpora}.values():
        check_origin(place, samples)


def _is_step(file: Path) -> bool:
    return file.suffix == ".safetensors" and file.stem.isdecimal()


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
    n_trials, *sizes = arrays["records/weights"].shape[1:] or (1,)
    shape = (len(steps), n_trials, *(sizes or (1,)))  # of the sizes the run itself knows what they must be
    weights = check_floats(arrays["records/weights"], shape, "the weights of records", finite=False)
    losses = check_floats(
        arrays["records/losses"], (len(steps), n_trials), "the losses of records", finite=False
    )
    return tuple(Record(*one) for one in zip(steps.tolist(), weights, losses, strict=True))


def _line(record: Record) -> str:
    """Step, loss (mean, min, max over trials) and mean norm of W; null where a number is not finite."""
    axes = tuple(range(1, record.weights.ndim))
    with np.errstate(over="ignore"):  # weights that run away are told as null
        norms: Sequence[float] = np.sqrt((record.weights * record.weights).sum(axis=axes)).tolist()
    losses: Sequence[float] = record.losses.tolist()
    told = {
        "loss_mean": sum(losses) / len(losses),
        "loss_min": min(losses),
        "loss_max": max(losses),
        "norm_mean": sum(norms) / len(norms),
    }
    shown = {name: value if math.isfinite(value) else None for name, value in told.items()}
    return json.dumps({"step": record.step, **shown}) + "\n"
