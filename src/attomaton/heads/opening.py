"""Open a model from a file, a folder, an id on the hub or an object, so that its heads can be recorded."""

from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch

from attomaton.base.errors import UnreadableModel, UnsupportedOption
from attomaton.base.options import show
from attomaton.corpora.budgets import brief
from attomaton.heads.lens import read_lens
from attomaton.heads.model import HeadModel
from attomaton.heads.patterns import unwrap
from attomaton.heads.reading.families import read_object
from attomaton.heads.reading.folders import HUB_ID, read_folder, read_hub
from attomaton.heads.reading.gguf import read_gguf
from attomaton.heads.reading.mingpt import read_mingpt
from attomaton.heads.trained import is_run, open_checkpoint, read_any_trace, watch_trace
from attomaton.training.trace import DeepTrace, Trace

DTYPES = {"float32": torch.float32, "float64": torch.float64}  # types of computation


def open_model(source: Any, *, revision: str | None = None, dtype: str | None = None) -> HeadModel:
    """Open a model whose attention heads can be recorded, from a path, a hub id or an object.

    Parameters
    ----------
    source : path, str or object
        A folder with ``config.json`` and safetensors files; the id of a model on the hub, with a
        ``revision``; a ``.gguf`` file; a minGPT ``.json`` file; a run folder of attomaton (its last step), or
        one of its ``training/checkpoints``; a ``transformers``, TransformerLens or nnsight model; a
        :class:`~attomaton.training.trace.Trace` or ``DeepTrace``; or a ``HeadModel``, which is returned.
    revision : str, optional
        For the hub: a commit, or a branch or tag, which is resolved to a commit. The commit is in the name of
        the model.
    dtype : str, optional
        ``"float32"`` or ``"float64"``: the type in which attomaton's own forward pass computes. None means
        float32 for files, and the model's own code, type and device for a ``transformers`` model
        (:class:`~attomaton.heads.live.LiveModel`). attomaton's own models always compute in float64.

    Examples
    --------
    >>> open_model("owner/name")
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnreadableModel: there is no file or folder owner/name; give the path of a
    model, or, for a model on the hub, a commit, branch or tag by revision=
    """
    if dtype is not None and dtype not in DTYPES:
        raise UnsupportedOption(f"dtype is {show(dtype)}; choose float32 or float64")
    if isinstance(source, str | PathLike):
        return _open_path(str(cast("str", source)), revision, DTYPES[dtype or "float32"])
    if revision is not None:
        raise UnsupportedOption("revision applies only to models on the hub; leave it out")
    if isinstance(source, Trace | DeepTrace):
        return watch_trace(source)
    if hasattr(source, "watch") and hasattr(source, "score_tokens"):
        return source
    return _open_object(unwrap(source), dtype)


def _open_object(source: Any, dtype: str | None) -> HeadModel:
    # a TransformerLens model is known by its `cfg`, a transformers model by its `config`
    state = cast("dict[str, Any]", getattr(source, "state_dict", dict)())
    modules = source.modules() if hasattr(source, "modules") else ()
    is_offloaded = any(hasattr(module, "_hf_hook") for module in modules)  # to the disk or the CPU
    if any(getattr(tensor, "is_meta", False) for tensor in state.values()) and not is_offloaded:
        raise UnsupportedOption("the model is on the device meta, without weights; load its weights first")
    if hasattr(source, "cfg") and hasattr(source, "state_dict"):
        return read_lens(source, dtype=DTYPES[dtype or "float32"])
    if not (hasattr(source, "config") and hasattr(source, "state_dict")):
        raise UnreadableModel(
            f"an object of type {type(source).__name__} cannot be read as a model; give a folder, a hub id "
            "with revision, a transformers or TransformerLens model, or what train returned"
        )
    if dtype is None and callable(source):
        # imported here, since it imports transformers
        from attomaton.heads.live import LiveModel

        return LiveModel.of(source)
    return read_object(source, dtype=DTYPES[dtype or "float32"])


def _open_path(source: str, revision: str | None, dtype: torch.dtype) -> HeadModel:
    path = Path(source)
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
            f"there is no file or folder {source}; give the path of a model, or, for a model on the hub, a "
            "commit, branch or tag by revision="
        )
    reason = "is a file" if path.exists() else "does not exist"
    raise UnreadableModel(
        f"{brief(source)} {reason}; give a GGUF file, or a folder with config.json and safetensors files"
    )
