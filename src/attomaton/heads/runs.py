"""Run folders of ``attomaton train`` as models: a finished run, or one of its checkpoints."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import cast

import torch

from attomaton.base.artifacts import MANIFEST, TRAINING, read_manifest
from attomaton.base.errors import CorruptRun, UnreadableModel
from attomaton.base.tables import Float64
from attomaton.heads.model import HeadModel
from attomaton.heads.trained import watch_weights
from attomaton.training.checkpoints import (
    CHECKPOINTS,
    TRACE_FILE,
    TRAINING_FOLDER,
    read_checkpoint,
    read_trace,
)
from attomaton.training.models.attention import combine_factors
from attomaton.training.trace import DeepTrace, Trace


def is_run(folder: Path) -> bool:
    """Whether a folder looks like a run of attomaton rather than another model."""
    if (folder / "config.json").exists():
        return False
    return (folder / TRAINING_FOLDER).is_dir() or (folder / MANIFEST).is_file()


def read_any_trace(folder: str | PathLike[str]) -> Trace | DeepTrace:
    """The trace of a run folder, of one layer or of a deep model."""
    training = Path(folder) / TRAINING_FOLDER
    if (training / TRACE_FILE).is_file():
        settings = read_manifest(training, TRAINING).get("settings")
        model = cast("dict[str, object]", settings).get("model") if isinstance(settings, dict) else None
        kind = cast("dict[str, object]", model).get("kind") if isinstance(model, dict) else None
        if kind == "DeepModel":
            return DeepTrace.load(training / TRACE_FILE)
    return read_trace(folder if isinstance(folder, str) else Path(folder))


def open_checkpoint(
    file: str | PathLike[str], *, read: Callable[[Path], Trace | DeepTrace] = read_any_trace
) -> HeadModel:
    """The first trial of a run at the step of a checkpoint; ``read`` returns the trace of the run folder."""
    path = Path(file).absolute()
    if path.parent.name != CHECKPOINTS or path.parent.parent.name != TRAINING_FOLDER:
        raise UnreadableModel(
            f"{file} is a file; give a folder with config.json and safetensors files, or a checkpoint "
            "RUN/training/checkpoints/STEP.safetensors of attomaton"
        )
    trace, checkpoint = read(path.parents[2]), read_checkpoint(path)
    parameters = [torch.as_tensor(parameter) for parameter in checkpoint.parameters]
    if not parameters:
        raise CorruptRun(f"{file} contains no parameters; restore it, or train again")
    try:
        if isinstance(trace, DeepTrace):
            weights = torch.cat([parameter.flatten(1) for parameter in parameters], 1)
        else:
            weights = combine_factors(parameters)
    except (RuntimeError, IndexError, ValueError) as error:
        raise CorruptRun(
            f"the shapes of the parameters in {file} do not fit; restore the file, or train again"
        ) from error
    return watch_weights(trace, cast("Float64", weights.numpy()), step=checkpoint.step)
