"""Open a model: from whatever represents it to a model whose heads can be recorded."""

import base64
import binascii
import math
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from attomaton.base.artifacts import MANIFEST, TRAINING as KIND, read_manifest
from attomaton.base.errors import CorruptRun, UnreadableModel, UnsupportedOption
from attomaton.base.options import show
from attomaton.base.tables import Float64
from attomaton.corpora.budgets import brief, open_regular
from attomaton.heads.lens import read_lens
from attomaton.heads.model import HeadModel
from attomaton.heads.patterns import unwrap
from attomaton.heads.reading.configs import parse_settings
from attomaton.heads.reading.families import build_model, read_object
from attomaton.heads.reading.files import named, parse_json
from attomaton.heads.reading.folders import HUB_ID, read_folder, read_hub
from attomaton.heads.reading.gguf import read_gguf
from attomaton.heads.trained import watch_trace, watch_weights
from attomaton.heads.transformer import Transformer
from attomaton.training.checkpoints import (
    CHECKPOINTS,
    TRACE_FILE,
    TRAINING_FOLDER,
    read_checkpoint,
    read_trace,
)
from attomaton.training.models.attention import combine_factors
from attomaton.training.trace import DeepTrace, Trace

MOST_MINGPT_BYTES = 1 << 28
"""Largest size of such a file: 256 MB. The only one in use has half a megabyte."""

MINGPT_SIZES = ("n_layer", "n_head", "n_embd", "vocab_size")


def read_mingpt(path: str | PathLike[str], *, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model of a file; its layers are those of GPT-2, with weight matrices stored transposed."""
    file = Path(path)
    with named(file, "is not a minGPT model"), open_regular(file) as stream:
        text = stream.read(MOST_MINGPT_BYTES + 1)
        if len(text) > MOST_MINGPT_BYTES:
            raise UnreadableModel(f"it has more than {MOST_MINGPT_BYTES:,} bytes")
        whole = parse_json(text, "it")
        tensors = cast("dict[str, Any]", whole) if isinstance(whole, dict) else {}
        record = tensors.pop("config", None)
        config = cast("dict[str, Any]", record) if isinstance(record, dict) else {}
        sizes = {name: config.get(name) for name in MINGPT_SIZES} | {"n_positions": config.get("block_size")}
        settings = parse_settings({**sizes, "tie_word_embeddings": False, "model_type": "gpt2"})
        parsed = {name: _parse_tensor(name, tensor) for name, tensor in tensors.items()}
        for name, tensor in parsed.items():
            if ".h." in name and name.endswith(".weight") and tensor.ndim == 2:
                parsed[name] = tensor.T
        return build_model(settings, parsed, str(file), dtype)


def _parse_tensor(name: str, record: Any) -> Tensor:
    entry = cast("dict[str, Any]", record) if isinstance(record, dict) else {}
    shape, data = entry.get("shape"), entry.get("data")
    sizes: list[Any] = cast("list[Any]", shape) if isinstance(shape, list) else [None]
    if not isinstance(data, str) or entry.get("dtype") != "torch.float32":
        raise UnreadableModel(f"{brief(name)!r} is not a tensor of torch.float32")
    if len(sizes) > 4 or not all(type(size) is int and 0 <= size < 1 << 31 for size in sizes):
        raise UnreadableModel(f"the shape of {brief(name)!r} is not a list of sizes")
    try:
        numbers = bytearray(base64.b64decode(data, validate=True))
    except (ValueError, binascii.Error) as error:
        raise UnreadableModel(f"the numbers of {brief(name)!r} are not base64") from error
    if len(numbers) != 4 * math.prod(sizes):
        raise UnreadableModel(f"{brief(name)!r} has {len(numbers):,} bytes, which do not match its shape")
    flat = torch.frombuffer(numbers, dtype=torch.float32) if numbers else torch.zeros(0)
    return flat.reshape(sizes)


def is_run(folder: Path) -> bool:
    """Whether a folder looks like a run of attomaton rather than another model."""
    if (folder / "config.json").exists():
        return False
    return (folder / TRAINING_FOLDER).is_dir() or (folder / MANIFEST).is_file()


def read_any_trace(folder: str | PathLike[str]) -> Trace | DeepTrace:
    """The trace of a run folder, from one layer or a deep model."""
    training = Path(folder) / TRAINING_FOLDER
    if not (training / TRACE_FILE).is_file():
        return read_trace(folder if isinstance(folder, str) else Path(folder))  # says what is missing
    settings = read_manifest(training, KIND).get("settings")
    model = cast("dict[str, object]", settings).get("model") if isinstance(settings, dict) else None
    kind = cast("dict[str, object]", model).get("kind") if isinstance(model, dict) else None
    return DeepTrace.load(training / TRACE_FILE) if kind == "DeepModel" else read_trace(Path(folder))


def open_checkpoint(
    file: str | PathLike[str], *, read: Callable[[Path], Trace | DeepTrace] = read_any_trace
) -> HeadModel:
    """The first trial of a run at the step of a checkpoint."""
    path = Path(file).absolute()
    if path.parent.name != CHECKPOINTS or path.parent.parent.name != TRAINING_FOLDER:
        raise UnreadableModel(
            f"{file} is a file; give a folder with config.json and safetensors files, or a checkpoint "
            "RUN/training/checkpoints/STEP.safetensors of attomaton"
        )
    trace, checkpoint = read(path.parents[2]), read_checkpoint(path)
    parameters = [torch.as_tensor(parameter) for parameter in checkpoint.parameters]
    if not parameters:
        raise CorruptRun(f"{file} holds no parameters; restore it, or train again")
    try:
        deep = isinstance(trace, DeepTrace)
        weights = (
            torch.cat([parameter.flatten(1) for parameter in parameters], 1)
            if deep
            else combine_factors(tuple(parameters))
        )
    except (RuntimeError, IndexError, ValueError) as error:
        raise CorruptRun(
            f"the parameters of {file} do not fit together; restore it, or train again"
        ) from error
    return watch_weights(trace, cast("Float64", weights.numpy()), step=checkpoint.step)


DTYPES = {"float32": torch.float32, "float64": torch.float64}
"""The floating-point types in which a model may compute."""


def open_model(source: Any, *, revision: str | None = None, dtype: str | None = None) -> HeadModel:
    """Open a model from a path, a hub id or an object.

    Parameters
    ----------
    source : path, str or object
        A folder with ``config.json`` and safetensors files; the id of a model on the hub, with a
        ``revision``; a ``.gguf`` file; a minGPT ``.json`` file; a run folder of attomaton (its last step), or
        one of its ``training/checkpoints``; a ``transformers``, TransformerLens or nnsight model; a
        :class:`~attomaton.training.trace.Trace` or ``DeepTrace``; or a ``HeadModel``, which is returned.
    revision : str, optional
        For the hub: a commit, or a branch or tag, which is resolved to a commit. The model's name
        contains the commit that was read.
    dtype : str, optional
        ``"float32"`` or ``"float64"``: the type in which attomaton's own forward pass computes. None means
        float32 for files, and the model's own code, type and device for a ``transformers`` model
        (:class:`~attomaton.heads.live.LiveModel`). attomaton's own models always compute in float64.

    Examples
    --------
    >>> open_model("owner/name")
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnreadableModel: there is no folder owner/name; give one, or, for a model of the
    hub, a branch or (better) a commit by revision=
    """
    if dtype is not None and dtype not in DTYPES:
        raise UnsupportedOption(f"dtype is {show(dtype)}; choose float32 or float64")
    if isinstance(source, str | PathLike):
        chosen = DTYPES[dtype or "float32"]
        return _open_place(Path(cast("str", source)), str(cast("str", source)), revision, chosen)
    if revision is not None:
        raise UnsupportedOption("a revision applies only to models on the hub; leave it out")
    if isinstance(source, Trace | DeepTrace):
        return watch_trace(source)
    if hasattr(source, "watch") and hasattr(source, "score_tokens"):
        return source
    return _open_object(unwrap(source), dtype)


def _open_object(source: Any, dtype: str | None) -> HeadModel:
    """A model in memory."""
    state = cast("dict[str, Any]", getattr(source, "state_dict", dict)())
    is_offloaded = hasattr(source, "modules") and any(
        hasattr(submodule, "_hf_hook") for submodule in source.modules()
    )
    if any(getattr(tensor, "is_meta", False) for tensor in state.values()) and not is_offloaded:
        raise UnsupportedOption("the model is on the device meta, without weights; load its weights first")
    if hasattr(source, "cfg") and hasattr(source, "state_dict"):
        return read_lens(source, dtype=DTYPES[dtype or "float32"])
    if not (hasattr(source, "config") and hasattr(source, "state_dict")):
        raise UnreadableModel(
            f"an object of type {type(source).__name__} cannot be read as a model; give a folder, a hub id "
            "with revision, a transformers or TransformerLens model, or a trace"
        )
    if dtype is None and callable(source):
        from attomaton.heads.live import LiveModel

        return LiveModel.of(source)
    return read_object(source, dtype=DTYPES[dtype or "float32"])


def _open_place(path: Path, source: str, revision: str | None, dtype: torch.dtype) -> HeadModel:
    if revision is not None:
        return read_hub(source, revision, dtype=dtype)
    if is_run(path):
        return watch_trace(read_any_trace(path))
    if path.is_dir():
        return read_folder(path, dtype=dtype)
    if path.suffix == ".safetensors" and path.exists():
        return open_checkpoint(path)
    if path.suffix == ".gguf" and path.exists():
        return read_gguf(path, dtype=dtype)
    if path.suffix == ".json" and path.exists():
        return read_mingpt(path, dtype=dtype)
    if HUB_ID.fullmatch(source) and not path.exists():
        raise UnreadableModel(
            f"there is no folder {source}; give one, or, for a model of the hub, a branch or (better) a "
            "commit by revision="
        )
    reason = "is a file" if path.exists() else "does not exist"
    raise UnreadableModel(
        f"{brief(source)} {reason}; give a GGUF file, or a folder with config.json and safetensors files"
    )
