"""attomaton's own runs on disk, as models that can be watched: a run folder, or one of its checkpoints."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import cast

import torch

from attomaton.base.artifacts import MANIFEST, TRAINING as KIND, read_manifest
from attomaton.base.errors import CorruptRun, UnreadableModel
from attomaton.base.tables import Float64
from attomaton.heads.model import HeadModel
from attomaton.heads.own import watch_weights
from attomaton.training.checkpoints import CHECKPOINTS, TRACE, TRAINING, read_checkpoint, read_trace
from attomaton.training.deep_trace import DeepTrace
from attomaton.training.loop import combine
from attomaton.training.trace import Trace


def is_run(place: Path) -> bool:
    """Whether a folder looks like a run of attomaton, and not like a model of others."""
    if (place / "config.json").exists():
        return False
    return (place / TRAINING).is_dir() or (place / MANIFEST).is_file()


def read_run(folder: str | PathLike[str]) -> Trace | DeepTrace:
    """The trace of a run folder, of one layer or of a deep model."""
    training = Path(folder) / TRAINING
    if not (training / TRACE).is_file():
        return read_trace(folder if isinstance(folder, str) else Path(folder))  # it says what is missing
    asked = read_manifest(training, KIND).get("asked")
    model = cast("dict[str, object]", asked).get("model") if isinstance(asked, dict) else None
    kind = cast("dict[str, object]", model).get("kind") if isinstance(model, dict) else None
    return DeepTrace.load(training / TRACE) if kind == "DeepModel" else read_trace(Path(folder))


def open_checkpoint(
    file: str | PathLike[str], *, read: Callable[[Path], Trace | DeepTrace] = read_run
) -> HeadModel:
    """The first trial of a run at the step of a checkpoint."""
    place = Path(file).absolute()
    if place.parent.name != CHECKPOINTS or place.parent.parent.name != TRAINING:
        raise UnreadableModel(
            f"{file} is one file; give a folder with config.json and safetensors files, or a checkpoint "
            "RUN/training/checkpoints/STEP.safetensors of attomaton"
        )
    trace, checkpoint = read(run_of(place)), read_checkpoint(place)
    parameters = [torch.as_tensor(one) for one in checkpoint.parameters]
    if not parameters:
        raise CorruptRun(f"{file} holds no parameters; restore it, or train again")
    try:
        deep = isinstance(trace, DeepTrace)
        weights = torch.cat([one.flatten(1) for one in parameters], 1) if deep else combine(tuple(parameters))
    except (RuntimeError, IndexError, ValueError) as error:
        raise CorruptRun(
            f"the parameters of {file} do not fit together; restore it, or train again"
        ) from error
    return watch_weights(trace, cast("Float64", weights.numpy()), step=checkpoint.step)


def run_of(checkpoint: Path) -> Path:
    """The run folder that a checkpoint stands in."""
    return checkpoint.parent.parent.parent
