"""The one door: whatever stands for a model, as a model whose heads can be watched."""

from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch

from attomaton.base.errors import UnreadableModel, UnsupportedOption
from attomaton.base.options import show
from attomaton.corpora.budgets import shown
from attomaton.heads.lens import read_lens
from attomaton.heads.mingpt import read_mingpt
from attomaton.heads.model import HeadModel
from attomaton.heads.own import watch_trace
from attomaton.heads.reading.configs import parse_settings
from attomaton.heads.reading.families import build_model
from attomaton.heads.reading.folders import read_folder
from attomaton.heads.reading.hub import HUB_ID, read_hub
from attomaton.heads.runs import is_run, open_checkpoint, read_run
from attomaton.heads.transformer import Transformer
from attomaton.training.deep_trace import DeepTrace
from attomaton.training.trace import Trace

DTYPES = {"float32": torch.float32, "float64": torch.float64}
"""In what a model may compute."""


def open_model(source: Any, *, revision: str | None = None, dtype: str = "float32") -> HeadModel:
    """A model from where or what it is.

    Parameters
    ----------
    source : path, str or object
        A folder with ``config.json`` and safetensors files; the id of a model of the hub, with a
        ``revision``; a minGPT ``.json`` file; a run folder of attomaton (its last step), or one of its
        ``training/checkpoints``; a ``transformers`` or TransformerLens model; a
        :class:`~attomaton.training.trace.Trace` or ``DeepTrace``; or what is such a model already.
    revision : str, optional
        For the hub: a commit, or a branch or tag whose commit is then looked up. The model's name says which
        commit was read.
    dtype : str
        ``"float32"`` or ``"float64"``; attomaton's own models always compute in doubles.

    Returns
    -------
    HeadModel

    Examples
    --------
    >>> open_model("owner/name")
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnreadableModel: there is no folder owner/name; give one, or, for a model of the
    hub, also a revision: best its commit, 40 digits
    """
    if dtype not in DTYPES:
        raise UnsupportedOption(f"dtype is {show(dtype)}; choose float32 or float64")
    if isinstance(source, str | PathLike):
        return _open_place(Path(cast("str", source)), str(cast("str", source)), revision, DTYPES[dtype])
    if revision is not None:
        raise UnsupportedOption("a revision is for models of the hub; leave it out")
    if isinstance(source, Trace | DeepTrace):
        return watch_trace(source)
    if hasattr(source, "watch") and hasattr(source, "score_tokens"):
        return source
    if hasattr(source, "cfg") and hasattr(source, "state_dict"):
        return read_lens(source, dtype=DTYPES[dtype])
    if hasattr(source, "config") and hasattr(source, "state_dict"):
        return read_object(source, dtype=DTYPES[dtype])
    raise UnreadableModel(
        f"a {type(source).__name__} is no model that can be read; give a folder, an id of the hub with its "
        "revision, a transformers or TransformerLens model, or a trace"
    )


def read_object(model: Any, *, dtype: torch.dtype = torch.float32) -> Transformer:
    """A ``transformers`` model as it is in memory, by its ``config`` and ``state_dict``; its code is not run.

    Parameters
    ----------
    model : PreTrainedModel
        Of one of the kinds that folders may hold. Its weights are shared, not copied.
    dtype : torch.dtype
        In which ours computes.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> read_object(SimpleNamespace(config={"model_type": "t5"}, state_dict=dict))
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnreadableModel: model_type is 't5'; gpt2, gpt_neox, llama, mistral, qwen2 are read
    """
    given: Any = model.config
    settings = parse_settings(cast("dict[str, Any]", given if isinstance(given, dict) else given.to_dict()))
    tensors = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    return build_model(settings, tensors, type(model).__name__, dtype)


def _open_place(place: Path, given: str, revision: str | None, dtype: torch.dtype) -> HeadModel:
    if revision is not None:
        return read_hub(given, revision, dtype=dtype)
    if is_run(place):
        return watch_trace(read_run(place))
    if place.is_dir():
        return read_folder(place, dtype=dtype)
    if place.suffix == ".safetensors" and place.exists():
        return open_checkpoint(place)
    if place.suffix == ".json" and place.exists():
        return read_mingpt(place, dtype=dtype)
    if HUB_ID.fullmatch(given) and not place.exists():
        raise UnreadableModel(
            f"there is no folder {given}; give one, or, for a model of the hub, also a revision: best its "
            "commit, 40 digits"
        )
    what = "is a file" if place.exists() else "does not exist"
    raise UnreadableModel(f"{shown(given)} {what}; give a folder with config.json and safetensors files")
